"""Parts of many masks are those of each mask."""

import numpy as np
import pytest

from disol.geometry import parts
from disol.geometry.connected import count_parts


@pytest.mark.parametrize("share", [0.3, 0.5, 0.6, 0.9, 1.0])
@pytest.mark.parametrize("shape", [(5, 1, 7), (5, 7, 1), (6, 9, 13), (1, 20, 20)])
def test_parts_of_many_masks_are_counted_as_those_of_each(share, shape):
    rng = np.random.default_rng(3)
    masks = rng.random(shape) < share
    marked = masks & (rng.random(shape) < 0.2)
    expected = [count_parts(mask, marks) for mask, marks in zip(masks, marked, strict=True)]
    assert count_parts(masks, marked) == tuple(np.sum(expected, axis=0))
    assert sum(count for count, _ in expected) == sum(parts(mask)[1] for mask in masks)


def test_pixels_that_meet_at_corners_or_in_another_mask_are_apart():
    masks = np.array([[[1, 0], [0, 1]], [[1, 1], [0, 1]], [[0, 0], [1, 1]]], dtype=bool)
    marked = np.zeros_like(masks)
    marked[1, 1, 1] = True
    assert count_parts(masks, marked) == (4, 3)
