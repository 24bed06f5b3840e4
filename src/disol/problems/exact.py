"""The exact solution of a drawn case or of a user's own data."""

from dataclasses import dataclass, replace

from disol.fem import ELEMENTS
from disol.grid import Grid
from disol.problems.case import Case
from disol.problems.checks import Unchecked
from disol.problems.conventions import Conventions
from disol.problems.problem import Exact, Problem, Terms
from disol.problems.table import find, find_conventions, find_problem


def solve_exact(
    problem: Case | str | Problem | Unchecked,
    *,
    conventions: str | Unchecked | None = None,
    element: str | Unchecked = "q1",
    **data: Unchecked,
) -> Exact:
    """Solve a case exactly, in the sense of its discrete system.

    problem       a drawn case, or the name of a problem, then with its data by name:
                  `domain`, `dirichlet`, `source` (Poisson, advection-diffusion),
                  `domain`, `fix_x`, `fix_y`, `force_x`, `force_y` (elasticity),
                  `domain`, `dirichlet`, `source`, `initial` and, if not every 2 s up to 20 s, `times` (heat)
    conventions   "paper" (default) or "published"; a case brings its own
    element       "q1" or "p1"

    Masks and markers are arrays [height, width] of 0 and 1. A source is an array with one value per pixel or a
    function f(x, y) of NumPy arrays, x to the right and y downwards; it is used as given. The numbers of the
    equation can be given too: `diffusion`, `velocity`; `young`, `poisson_ratio`; `time_scale`,
    `source_strength`, `steps_per_frame`.

    Pixels are square and the grid is one unit high. Boundaries follow pixel edges, so against the smooth domain
    the solution is first-order accurate.
    """
    build_element = find("element", element, ELEMENTS)
    posed = pose(problem, conventions=conventions, **data)
    return posed.equation.solve(posed.terms, posed.rules, build_element(posed.grid.h))


@dataclass(frozen=True, eq=False)
class Posed:
    """A problem with the data of one case, or of a batch of them, all of it checked."""

    equation: Problem
    rules: Conventions
    terms: Terms

    @property
    def grid(self) -> Grid:
        """The grid its domain lies on."""
        return Grid(*self.terms["domain"].shape[-2:])


def pose(
    problem: Case | str | Problem | Unchecked, *, conventions: str | Unchecked | None = None, **data: Unchecked
) -> Posed:
    """Read a case or a user's own data, or say what is wrong with them; the arguments are those of `solve_exact`."""
    if isinstance(problem, Case):
        equation, known = problem.equation, problem.terms
        if conventions is not None and conventions != problem.conventions:
            raise ValueError(
                f"This case was drawn with conventions {problem.conventions!r}, not {conventions!r}. "
                f"Draw it with conventions={conventions!r}, or leave the argument out."
            )
        rules = find_conventions(problem.conventions)
    else:
        equation, known = find_problem(problem), {}
        rules = find_conventions("paper" if conventions is None else conventions)
    parameters = {name: read(name, data.pop(name)) for name, read in equation.parameters.items() if name in data}
    equation = replace(equation, **parameters)
    unknown = [name for name in data if name not in equation.terms]
    if unknown:
        names = ", ".join([*equation.terms, *equation.parameters])
        raise ValueError(f"{equation.name} has no {unknown[0]!r}. It takes {names}.")
    given = {**known, **data}
    missing = [name for name in equation.terms if name not in given and name not in equation.optional_terms]
    if missing:
        raise ValueError(f"{equation.name} needs {', '.join(equation.terms)}; {', '.join(missing)} missing. Pass it.")
    return Posed(equation, rules, equation.check(given))
