"""Cases of one's own in a file: not drawn, but solved and stored as drawn ones are."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from disol.data.backends import solved_case, stack_rows
from disol.data.layout import Arrays
from disol.data.recipe import Recipe, StoreSettings
from disol.data.store import create_store
from disol.data.workers import in_order
from disol.fem import ELEMENTS
from disol.files import written_whole
from disol.grid import Grid
from disol.problems import Problem, checks, pose
from disol.problems.checks import Unchecked
from disol.problems.problem import Terms
from disol.problems.table import find_conventions, find_problem

CHUNK = 64  # cases written at once


def write_cases(
    problem: str | Problem | Unchecked,
    cases: Sequence[Mapping[str, Unchecked]],
    path: str | Path,
    *,
    conventions: str | Unchecked = "paper",
    workers: int | Unchecked = 0,
) -> Path:
    """Solve cases of one's own exactly, and write them into a file to train on and to evaluate.

    cases     the data of each by name, as `solve_exact` takes them, on one square grid; a network sees sources and
              initial fields as they are given, drawn ones lie in [0, 1]
    workers   processes that solve; 0 solves in this one

    The first 80 % of the cases are for training. In the place of a shift the file has "own:" and its name, so that
    evaluation can tell one such file from another.
    """
    target, equation = Path(path), find_problem(problem)
    if target.exists():
        raise ValueError(f"{target} exists already. Remove it, or choose another path.")
    if not cases:
        raise ValueError("There must be at least one case, got none. Pass some.")
    settings = own_settings(equation, cases, conventions, target.stem)
    solving = OwnCases(equation, settings)
    count = checks.whole_number("workers", workers)
    with written_whole(target) as temporary:
        temporary.unlink()  # a store is not laid out over a file
        with (
            create_store(temporary, settings) as writer,
            closing(in_order(solving.solve, enumerate(cases), count)) as solved,
        ):
            for start in range(0, len(cases), CHUNK):
                writer.write_chunk(start, stack_rows(list(islice(solved, CHUNK))))
    return target


def own_settings(
    equation: Problem, cases: Sequence[Mapping[str, Unchecked]], conventions: str | Unchecked, name: str
) -> StoreSettings:
    """Write down what a file has to say about cases that were not drawn."""
    if "domain" not in cases[0]:
        raise ValueError(f"A case of {equation.name} needs a domain, got {', '.join(cases[0]) or 'nothing'}. Add it.")
    side = checks.domain_array(cases[0]["domain"]).shape[-1]
    recipe = Recipe(equation, 0, None, find_conventions(conventions).name, side)
    return replace(recipe.settings(len(cases)), shift=f"own:{name}", shifts=(f"own:{name}",))


@dataclass(frozen=True)
class OwnCases:
    """What the cases of one file have in common."""

    equation: Problem
    settings: StoreSettings

    def solve(self, numbered: tuple[int, Mapping[str, Unchecked]]) -> Arrays:
        """Solve a case by the reference solver, or name the one that fails."""
        number, terms = numbered
        try:
            return self.solve_terms(terms)
        except ValueError as error:
            raise ValueError(f"Case {number} failed: {error}") from error

    def solve_terms(self, terms: Mapping[str, Unchecked]) -> Arrays:
        """Check, encode and solve the data of a case."""
        wanted = [name for name in self.equation.terms if name != "times"]
        for name in terms:
            if name not in wanted:
                raise ValueError(f"A case of a file has {', '.join(wanted)}, got {name!r}. Leave it out.")
        times: Terms = {"times": self.settings.times} if self.settings.times else {}
        posed = pose(self.equation, conventions=self.settings.conventions, **terms, **times)
        grid = Grid(self.settings.resolution, self.settings.resolution)
        if posed.grid != grid:
            raise ValueError(
                f"All cases of a file lie on one square grid, here {grid.height} x {grid.width}, got "
                f"{posed.grid.height} x {posed.grid.width}. Bring it to that grid."
            )
        exact = self.equation.solve(posed.terms, posed.rules, ELEMENTS["q1"](grid.h))
        return solved_case(self.equation.channels, self.equation.encode(posed.terms, posed.rules), exact)
