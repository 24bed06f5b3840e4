"""The table of problems, and finding problems and conventions by name."""

from collections.abc import Mapping
from typing import TypeVar

from disol.errors import DisolError
from disol.problems.conventions import CONVENTIONS, Conventions
from disol.problems.elasticity import ELASTICITY
from disol.problems.heat import HEAT
from disol.problems.problem import Problem
from disol.problems.scalar import ADVECTION_DIFFUSION_HIGH, ADVECTION_DIFFUSION_LOW, POISSON

PROBLEMS: dict[str, Problem] = {
    problem.name: problem for problem in (POISSON, ADVECTION_DIFFUSION_LOW, ADVECTION_DIFFUSION_HIGH, ELASTICITY, HEAT)
}

Value = TypeVar("Value")


def find(kind: str, name: object, table: Mapping[str, Value]) -> Value:
    """Look a name up, or list the known ones."""
    if not isinstance(name, str) or name not in table:
        raise DisolError(f"Unknown {kind} {name!r}. Use one of {', '.join(table)}.")
    return table[name]


def find_problem(problem: str | Problem) -> Problem:
    """Return a problem by its name; a problem of one's own is returned as it is."""
    return problem if isinstance(problem, Problem) else find("problem", problem, PROBLEMS)


def find_conventions(name: str | Conventions, problem: Problem) -> Conventions:
    """Return conventions by their name, if a problem can be discretised by them."""
    conventions = name if isinstance(name, Conventions) else find("conventions", name, CONVENTIONS)
    if conventions.name not in problem.known_conventions:
        known = ", ".join(map(repr, problem.known_conventions))
        raise DisolError(f"{problem.name} knows only the conventions {known}, got {conventions.name!r}.")
    return conventions
