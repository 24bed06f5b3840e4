"""What is packed comes back, bit for bit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from disol.data.packing import BITS, REAL, SIGNS, Encoding, encoding_of

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


@pytest.mark.parametrize(("channel", "value"), [("domain", 0.5), ("dirichlet", -1), ("force_x", 2), ("fix_y", 3)])
def test_a_value_that_bits_cannot_hold_is_refused(channel: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{channel} must hold only"):
        encoding_of(channel).pack(channel, np.full((1, 4, 4), value))


def test_channels_of_a_new_problem_are_kept_as_real_numbers() -> None:
    assert encoding_of("conductivity") is REAL
