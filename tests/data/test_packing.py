"""What is packed comes back, bit for bit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from disol._terms import SOURCE, Term
from disol.data.packing import BITS, REAL, SIGNS, Encoding, get_encodings
from disol.problems.scalar import ScalarProblem
from disol.problems.table import PROBLEMS

SHAPES = array_shapes(min_dims=3, max_dims=3, max_side=19)


@given(arrays(bool, SHAPES))
def test_markers_come_back(values: np.ndarray) -> None:
    assert np.array_equal(BITS.decode(BITS.pack("domain", values), values.shape[-1]), values)


@given(arrays(np.int8, SHAPES, elements=st.integers(-1, 1)))
def test_forces_come_back(values: np.ndarray) -> None:
    assert np.array_equal(SIGNS.decode(SIGNS.pack("force_x", values), values.shape[-1]), values)


@given(SHAPES, st.sampled_from([BITS, SIGNS, REAL]))
def test_stored_shape_is_the_announced_one(shape: tuple[int, ...], encoding: Encoding) -> None:
    stored = encoding.pack("any", np.zeros(shape, dtype=np.float32))
    assert stored.shape == (shape[0], *encoding.planes(*shape[1:]))
    assert stored.dtype.str == encoding.dtype


@pytest.mark.parametrize(
    ("problem", "channel", "value"),
    [
        ("poisson", "domain", 0.5),
        ("heat", "dirichlet", -1),
        ("elasticity", "force_x", 2),
        ("elasticity", "fix_y", 3),
        ("poisson", "domain", np.nan),
    ],
)
def test_a_value_that_bits_cannot_hold_is_refused(problem: str, channel: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{channel} must hold only .* got {value:g}"):
        get_encodings(PROBLEMS[problem])[channel].pack(channel, np.full((1, 4, 4), value))


def test_a_channel_of_a_new_problem_is_kept_as_its_kind_says() -> None:
    class Composite(ScalarProblem):
        terms = (*ScalarProblem.terms, Term("conductivity", SOURCE))

    assert get_encodings(Composite("composite", "−div(c ∇U) = f", 64))["conductivity"] is REAL


def test_what_is_derived_is_not_kept() -> None:
    assert "time" in PROBLEMS["heat"].channels
    assert "time" not in get_encodings(PROBLEMS["heat"])
