"""Measures to rank variants by: one number of a solution, by name or as a function."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float

from disol import _checks as checks
from disol.errors import DisolError, shown
from disol.solutions.solution import Solution

Measure = Callable[[Solution], Any]
FLUX = "flux:"


def find_largest(solution: Solution) -> float:
    """Find max |U| over pixels, components and the times asked for."""
    return float(np.abs(solution.field).max())


def find_temperature(solution: Solution) -> float:
    """Find max |U| of a problem of one unknown."""
    if len(solution.fields) > 1:
        raise DisolError(
            f"max_temperature is for problems with one unknown, got {solution.problem.name}. Rank by max_displacement."
        )
    return find_largest(solution)


def find_flux(solution: Solution, part: str) -> float:
    """Find the total flux in through a part of the boundary; for displacements, the size of the force on it."""
    total = solution.total_flux(part)
    return find_extreme(np.linalg.norm(total, axis=-1) if len(solution.fields) > 1 else total)


def find_extreme(values: float | Float[np.ndarray, "..."]) -> float:
    """Find the value of largest magnitude, with its sign, among those at several times."""
    each = np.ravel(values)
    return float(each[np.abs(each).argmax()])


MEASURES: dict[str, Measure] = {
    "max": find_largest,
    "max_temperature": find_temperature,
    "max_displacement": lambda solution: solution.max_displacement,
    "von_mises": lambda solution: solution.von_mises.max(),
    "compliance": lambda solution: find_extreme(solution.compliance),
    "energy": lambda solution: find_extreme(solution.energy),
}


def find_measure(by: str | Measure) -> Measure:
    """Return the measure for a name or flux:PART; a function is a measure itself."""
    if callable(by):
        return by
    if isinstance(by, str) and by.startswith(FLUX) and by != FLUX:
        return partial(find_flux, part=by.removeprefix(FLUX))
    if not isinstance(by, str) or by not in MEASURES:
        raise DisolError(
            f"by must be {', '.join(MEASURES)}, flux:PART as in flux:left, or a function of a solution, "
            f"got {shown(by)}."
        )
    return MEASURES[by]


def describe_measure(by: str | Measure) -> str:
    """Name a measure: as it was asked for, or by the name of the function."""
    return by if isinstance(by, str) else getattr(by, "__name__", type(by).__name__)


def measure(solution: Solution, by: str | Measure) -> float:
    """Measure a solution, and require one finite number."""
    try:
        value = find_measure(by)(solution)
    except DisolError:
        raise
    except Exception as error:
        if not callable(by):
            raise
        raise DisolError(f"{describe_measure(by)} raised {type(error).__name__}: {error}.") from error
    if not checks.is_number(value) or not math.isfinite(value):
        raise DisolError(f"{describe_measure(by)} must give one finite number, got {shown(value)}.")
    return float(value)
