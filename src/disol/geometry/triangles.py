"""Triangulating polygons by ear clipping."""

import numpy as np
from jaxtyping import Float, Int

TOUCHING = 1e-9  # of the area of an ear: a vertex no farther outside counts as on its sides


def triangulate(polygon: Float[np.ndarray, "vertex 2"]) -> Int[np.ndarray, "triangle 3"]:
    """Return triangles of vertex numbers that cover a polygon with ½ ∮ x dy − y dx > 0 once, oriented like it."""
    ring = list(range(len(polygon)))
    triangles = []
    while len(ring) > 3:
        middle = next((place for place in range(len(ring)) if _is_ear(polygon, ring, place)), None)
        if middle is None:  # the rest is as thin as a rounding error
            break
        triangles.append([ring[middle - 1], ring[middle], ring[(middle + 1) % len(ring)]])
        del ring[middle]
        ring = ring[middle:] + ring[:middle]  # otherwise all triangles would share one vertex, as in a fan
    if len(ring) == 3:
        triangles.append(ring)
    return np.array([each for each in triangles if _doubled_area(polygon[each]) > 0], dtype=int).reshape(-1, 3)


def _is_ear(polygon: Float[np.ndarray, "vertex 2"], ring: list[int], place: int) -> bool:
    """Tell whether the triangle at a vertex lies in the polygon, and no other vertex in it or on its sides."""
    ear = polygon[[ring[place - 1], ring[place], ring[(place + 1) % len(ring)]]]
    area = _doubled_area(ear)
    if area <= 0:
        return False
    others = polygon[ring]
    to_corner = ear[:, None] - others  # [corner, vertex, 2]
    to_next = np.roll(to_corner, -1, axis=0)
    left = to_corner[..., 0] * to_next[..., 1] - to_corner[..., 1] * to_next[..., 0]
    is_corner = (to_corner == 0).all(axis=2).any(axis=0)
    return not ((left >= -TOUCHING * area).all(axis=0) & ~is_corner).any()


def _doubled_area(triangle: Float[np.ndarray, "3 2"]) -> float:
    (x0, y0), (x1, y1), (x2, y2) = triangle.tolist()
    return (x1 - x0) * (y2 - y0) - (x2 - x0) * (y1 - y0)
