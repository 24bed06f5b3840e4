"""The table of problems, and looking up problems and conventions by name."""

import sys
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from disol._lazy import import_own, names_own
from disol.errors import DisolError, shown
from disol.problems.conventions import CONVENTIONS, PAPER, PHYSICAL, Conventions

if TYPE_CHECKING:
    from disol.problems.problem import Problem

    PROBLEMS: dict[str, Problem]

# The module of each problem: names are checked here before anything is imported, which needs NumPy.
_WHERE = {
    "poisson": "scalar:POISSON",
    "advection-diffusion-low": "scalar:ADVECTION_DIFFUSION_LOW",
    "advection-diffusion-high": "scalar:ADVECTION_DIFFUSION_HIGH",
    "elasticity": "elasticity:ELASTICITY",
    "heat": "heat:HEAT",
}

Value = TypeVar("Value")


def __getattr__(name: str) -> object:
    """Import the problems when `PROBLEMS`, a plain dict by name, is first used."""
    if name != "PROBLEMS":
        raise AttributeError(f"{__name__} has no {name!r}.")
    places = {known: where.split(":") for known, where in _WHERE.items()}
    problems = {known: getattr(import_module(f"disol.problems.{at}"), value) for known, (at, value) in places.items()}
    globals()["PROBLEMS"] = problems
    return problems


def find(kind: str, name: object, table: Mapping[str, Value]) -> Value:
    """Look up a name in a table; the error lists the known names."""
    if not isinstance(name, str) or name not in table:
        raise DisolError(f"Unknown {kind} {shown(name)}. Use one of {', '.join(table)}.")
    return table[name]


def find_problem(problem: "str | Problem") -> "Problem":
    """Return a problem by its name, or by "package.module:NAME" of one of your own; a `Problem` is returned as it is.

    Such a text is imported when a user passes it, never because a file contains it.
    """
    found: Any = import_own("problem", problem) if names_own(problem) else problem
    if not isinstance(found, str) and isinstance(found, import_module("disol.problems.problem").Problem):
        return found
    if names_own(problem):
        raise DisolError(f"{problem} must be a value of a class derived from disol.Problem, got {shown(found)}.")
    check_problem(problem)
    return sys.modules[__name__].PROBLEMS[problem]


def check_problem(name: object) -> None:
    """Require a problem, by its name or as "package.module:NAME"; those of the package are not imported for it."""
    if names_own(name):
        find_problem(name)
    else:
        find("problem", name, globals().get("PROBLEMS", _WHERE))


def find_conventions(name: str | Conventions | None, problem: "Problem") -> Conventions:
    """Return conventions by name, and require that a problem can be discretised with them.

    By default, a problem that has a form is solved on its true boundary, and any other on pixels.
    """
    if name is None:
        return PHYSICAL if problem.has_form else PAPER
    conventions = name if isinstance(name, Conventions) else find("conventions", name, CONVENTIONS)
    known_names = (*problem.known_conventions, *(["physical"] if problem.has_form else []))
    if conventions.name not in known_names:
        known = ", ".join(map(repr, known_names))
        raise DisolError(f"{problem.name} knows only the conventions {known}, got {conventions.name!r}.")
    return conventions
