"""Triangles cover a polygon once, whatever its shape."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from disol.geometry.triangles import triangulate


def areas(polygon):
    (x0, y0), (x1, y1), (x2, y2) = polygon[triangulate(polygon)].transpose(1, 2, 0)
    return 0.5 * ((x1 - x0) * (y2 - y0) - (x2 - x0) * (y1 - y0))


def area(polygon):
    (x, y), (next_x, next_y) = polygon.T, np.roll(polygon, -1, axis=0).T
    return 0.5 * (x @ next_y - y @ next_x)


@given(st.lists(st.floats(0.05, 1.0), min_size=3, max_size=30), st.integers(0, 29))
def test_triangles_cover_a_polygon_around_a_point_once(radii, first):
    angle = 2 * np.pi * np.arange(len(radii)) / len(radii)
    polygon = np.roll(np.array(radii)[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1), first, axis=0)
    found = areas(polygon)
    assert len(found) == len(polygon) - 2
    assert found.min() > 0
    assert found.sum() == pytest.approx(area(polygon), rel=1e-12)


def test_a_spiral_is_covered_once():
    angle = np.linspace(0, 6 * np.pi, 120)
    arm = np.stack([angle * np.cos(angle), angle * np.sin(angle)], axis=1)
    polygon = np.concatenate([1.2 * arm[1:], arm[:0:-1]])
    polygon = polygon if area(polygon) > 0 else polygon[::-1]
    assert areas(polygon).min() > 0
    assert areas(polygon).sum() == pytest.approx(area(polygon), rel=1e-12)


def test_vertices_on_straight_sides_are_corners_of_triangles():
    polygon = np.array([[0, 0], [1, 0], [2, 0], [3, 0], [3, 3], [2, 3], [0, 3], [0, 1]], dtype=float)
    assert set(triangulate(polygon).reshape(-1)) == set(range(8))
    assert areas(polygon).min() > 0
    assert areas(polygon).sum() == 9


def test_a_polygon_without_area_has_no_triangles():
    assert triangulate(np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0], [0.5, 0.0]])).shape == (0, 3)
