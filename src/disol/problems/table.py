"""The table of problems, and finding problems, conventions and elements by name."""

from collections.abc import Mapping
from typing import TypeVar

from disol.problems.checks import Unchecked
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
        raise ValueError(f"Unknown {kind} {name!r}. Use one of {', '.join(table)}.")
    return table[name]


def find_problem(problem: str | Problem | Unchecked) -> Problem:
    """Return a problem by its name; a problem of one's own is returned as it is."""
    return problem if isinstance(problem, Problem) else find("problem", problem, PROBLEMS)


def find_conventions(name: str | Unchecked) -> Conventions:
    """Return conventions by their name."""
    return find("conventions", name, CONVENTIONS)
