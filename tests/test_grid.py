import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from disol.grid import (
    Grid,
    node_means,
    nodes_touching,
    pixel_means,
    sum_at_nodes,
    sum_over_corners,
    weigh_at_nodes,
)

MASKS = st.builds(
    lambda seed, height, width: np.random.default_rng(seed).random((height, width)) < 0.5,
    st.integers(0, 2**32),
    st.integers(1, 9),
    st.integers(1, 9),
)


def test_pixels_are_square_and_one_unit_high():
    grid = Grid(4, 8)
    x, y = grid.node_positions()
    assert x[0, -1] == pytest.approx(2.0)
    assert y[-1, 0] == pytest.approx(1.0)
    x, y = grid.pixel_centres()
    assert (x[0, 0], y[0, 0]) == pytest.approx((0.125, 0.125))


@given(mask=MASKS)
def test_a_node_is_touched_if_one_of_its_pixels_is_marked(mask):
    padded = np.pad(mask, 1)
    expected = padded[:-1, :-1] | padded[:-1, 1:] | padded[1:, :-1] | padded[1:, 1:]
    assert (nodes_touching(mask) == expected).all()


@given(mask=MASKS)
def test_summing_corners_is_the_transpose_of_averaging_nodes(mask):
    rng = np.random.default_rng(0)
    pixels, nodes = rng.random(mask.shape), rng.random((mask.shape[0] + 1, mask.shape[1] + 1))
    spread = sum_over_corners(np.stack([0.25 * pixels] * 4))
    assert (spread * nodes).sum() == pytest.approx((pixels * pixel_means(nodes)).sum())


@given(mask=MASKS)
def test_averages_of_a_constant_are_that_constant(mask):
    means = node_means(np.full(mask.shape, 3.0), mask)
    assert means[nodes_touching(mask)] == pytest.approx(3.0)
    assert not means[~nodes_touching(mask)].any()


def test_many_cases_at_once_are_those_of_each():
    rng = np.random.default_rng(1)
    masks, values = rng.random((3, 5, 7)) < 0.5, rng.normal(size=(3, 5, 7))
    weights = rng.random(4)
    assert np.array_equal(nodes_touching(masks), np.stack([nodes_touching(mask) for mask in masks]))
    each = [node_means(value, mask) for value, mask in zip(values, masks, strict=True)]
    assert np.array_equal(node_means(values, masks), np.stack(each))
    expected = sum_over_corners(np.multiply.outer(weights, values))
    assert np.allclose(weigh_at_nodes(values, weights), expected, rtol=1e-14)
    assert np.allclose(sum_at_nodes(values), sum_over_corners(np.stack([values] * 4)), rtol=1e-13)
