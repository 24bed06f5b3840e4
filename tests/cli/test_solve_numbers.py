"""The numbers that `disol solve` prints are those of the fields that it shows."""

from dataclasses import replace

import numpy as np
import pytest

import disol
from disol.cli.report import amplitude_error, largest
from disol.solutions import Solution
from disol.surrogate import Verification


def verified(problem: str, factor: float | np.ndarray = 1.0, reference: float = 1.0) -> Verification:
    """The exact solution of a case times a reference factor, predicted as the exact solution times another factor."""
    case = disol.draw(problem, 3, resolution=24, shift="topology", conventions="paper")
    found = disol.solve_exact(case, device="cpu")
    prediction, exact = replace(found, field=factor * found.field), replace(found, field=reference * found.field)
    return Verification(prediction, exact, 0.0, {})


@pytest.mark.parametrize("problem", disol.PROBLEMS)
@pytest.mark.parametrize("factor", [1.0, 1.1, 0.8])
def test_a_multiple_of_the_exact_solution_has_an_amplitude_of_that_multiple(problem, factor):
    assert amplitude_error(verified(problem, factor)) == pytest.approx(abs(factor - 1))


def test_fields_count_by_the_worse_one():
    assert amplitude_error(verified("elasticity", np.array([1.0, 0.7])[:, None, None])) == pytest.approx(0.3)


def test_a_zero_amplitude_is_met_by_zero_alone():
    assert amplitude_error(verified("elasticity", reference=0.0)) == 1
    assert amplitude_error(verified("elasticity", 0.0, reference=0.0)) == 0


def test_the_largest_value_is_that_of_each_field_over_all_times():
    exact = verified("elasticity").exact
    assert largest(exact) == pytest.approx([np.abs(component).max() for component in exact.field])
    heat = verified("heat").exact
    frames = np.array([1.0, -3.0, 2.0])[:, None, None, None] * np.ones((3, 1, 4, 4))
    assert largest(Solution(heat.case, frames, 3.0)) == [3.0]
    assert largest(Solution(heat.case, frames[2:], 3.0)) == [2.0]
