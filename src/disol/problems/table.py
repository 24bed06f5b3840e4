"""The table of problems, and finding problems and conventions by name."""

import sys
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, TypeVar

from disol.errors import DisolError, shown
from disol.problems.conventions import CONVENTIONS, PAPER, PHYSICAL, Conventions

if TYPE_CHECKING:
    from disol.problems.problem import Problem

    PROBLEMS: dict[str, Problem]

# Where each problem is: its name is looked up here before it is imported, which takes NumPy.
_WHERE = {
    "poisson": "scalar:POISSON",
    "advection-diffusion-low": "scalar:ADVECTION_DIFFUSION_LOW",
    "advection-diffusion-high": "scalar:ADVECTION_DIFFUSION_HIGH",
    "elasticity": "elasticity:ELASTICITY",
    "heat": "heat:HEAT",
}

Value = TypeVar("Value")


def __getattr__(name: str) -> object:
    """Import the problems when `PROBLEMS`, a plain dict of them by their names, is first asked for."""
    if name != "PROBLEMS":
        raise AttributeError(f"{__name__} has no {name!r}.")
    places = {known: where.split(":") for known, where in _WHERE.items()}
    problems = {known: getattr(import_module(f"disol.problems.{at}"), value) for known, (at, value) in places.items()}
    globals()["PROBLEMS"] = problems
    return problems


def find(kind: str, name: object, table: Mapping[str, Value]) -> Value:
    """Look a name up, or list the known ones."""
    if not isinstance(name, str) or name not in table:
        raise DisolError(f"Unknown {kind} {shown(name)}. Use one of {', '.join(table)}.")
    return table[name]


def find_problem(problem: "str | Problem") -> "Problem":
    """Return a problem by its name; a problem of one's own is returned as it is."""
    if not isinstance(problem, str) and isinstance(problem, import_module("disol.problems.problem").Problem):
        return problem
    check_problem(problem)
    return sys.modules[__name__].PROBLEMS[problem]


def check_problem(name: object) -> None:
    """Require the name of a problem, without importing any."""
    find("problem", name, globals().get("PROBLEMS", _WHERE))


def find_conventions(name: str | Conventions | None, problem: "Problem") -> Conventions:
    """Return conventions by their name, if a problem can be discretised by them.

    Unless they are named, a problem that has a form is solved on its true boundary, and any other on pixels.
    """
    if name is None:
        return PHYSICAL if problem.has_form else PAPER
    conventions = name if isinstance(name, Conventions) else find("conventions", name, CONVENTIONS)
    known_names = (*problem.known_conventions, *(["physical"] if problem.has_form else []))
    if conventions.name not in known_names:
        known = ", ".join(map(repr, known_names))
        raise DisolError(f"{problem.name} knows only the conventions {known}, got {conventions.name!r}.")
    return conventions
