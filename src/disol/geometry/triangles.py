"""Triangulating polygons by ear clipping."""

import numpy as np
from jaxtyping import Float, Int

TOUCHING = 1e-9  # of the area of an ear: a vertex no farther outside counts as on its sides


Point = tuple[float, float]


def triangulate(polygon: Float[np.ndarray, "vertex 2"]) -> Int[np.ndarray, "triangle 3"]:
    """Return triangles of vertex numbers that cover a polygon with ½ ∮ x dy − y dx > 0 once, oriented like it."""
    # Plain numbers: most polygons are so small that calls of NumPy would take longer than their arithmetic.
    points = [(x, y) for x, y in polygon.tolist()]
    ring = list(range(len(points)))
    triangles = []
    while len(ring) > 3:
        middle = next((place for place in range(len(ring)) if _is_ear(points, ring, place)), None)
        if middle is None:  # the rest is as thin as a rounding error
            break
        triangles.append([ring[middle - 1], ring[middle], ring[(middle + 1) % len(ring)]])
        del ring[middle]
        ring = ring[middle:] + ring[:middle]  # otherwise all triangles would share one vertex, as in a fan
    if len(ring) == 3:
        triangles.append(ring)
    kept = [each for each in triangles if _doubled_area(*(points[vertex] for vertex in each)) > 0]
    return np.array(kept, dtype=int).reshape(-1, 3)


def _is_ear(points: list[Point], ring: list[int], place: int) -> bool:
    """Tell whether the triangle at a vertex lies in the polygon, and no other vertex in it or on its sides."""
    a, b, c = (points[ring[vertex % len(ring)]] for vertex in (place - 1, place, place + 1))
    area = _doubled_area(a, b, c)
    if area <= 0:
        return False
    lowest = -TOUCHING * area
    return not any(
        _doubled_area(point, a, b) >= lowest
        and _doubled_area(point, b, c) >= lowest
        and _doubled_area(point, c, a) >= lowest
        and point not in (a, b, c)
        for point in map(points.__getitem__, ring)
    )


def _doubled_area(a: Point, b: Point, c: Point) -> float:
    return (b[0] - a[0]) * (c[1] - a[1]) - (c[0] - a[0]) * (b[1] - a[1])
