"""Concave envelopes of points by alpha shapes of their Delaunay triangulation."""

from cmath import phase
from math import pi

import numpy as np
from jaxtyping import Float, Int


def concave_envelope(points: Float[np.ndarray, "point 2"], alpha: float) -> Float[np.ndarray, "vertex 2"]:
    """Return the ordered vertices of an envelope of all points; `alpha` 0 is the convex hull, 1 the tightest.

    An alpha shape of radius r keeps the triangles with a circumradius of at most r. Of the radii between the tightest
    shape that is one region with all points, and the hull, the one at rank (1 − alpha) is taken; holes are filled.
    """
    from scipy.spatial import Delaunay  # noqa: PLC0415  slow to import

    triangulation = Delaunay(points)
    triangles = triangulation.simplices
    ascending = np.argsort(circumradii(points[triangles]), kind="stable")
    tightest = smallest_region(triangles, triangulation.neighbors, ascending, len(points))
    ranks = range(tightest, len(triangles) + 1)
    chosen = max(int(np.ceil((1.0 - alpha) * len(ranks))), 1) - 1
    return points[outer_loop(points, triangles[ascending[: ranks[chosen]]])]


def circumradii(corners: Float[np.ndarray, "triangle 3 2"]) -> Float[np.ndarray, " triangle"]:
    """R = abc / 4A."""
    a, b, c = (corners[:, i] - corners[:, j] for i, j in ((1, 0), (2, 1), (0, 2)))
    area = 0.5 * np.abs(a[:, 0] * c[:, 1] - a[:, 1] * c[:, 0])
    sides = np.hypot(*a.T) * np.hypot(*b.T) * np.hypot(*c.T)
    return sides / np.maximum(4 * area, 1e-300)


def smallest_region(
    triangles: Int[np.ndarray, "triangle 3"],
    neighbours: Int[np.ndarray, "triangle 3"],
    ascending: Int[np.ndarray, " triangle"],
    num_points: int,
) -> int:
    """Count the triangles, in ascending radius, that first form one edge-connected region touching every point."""
    parent = list(range(len(triangles)))

    def root(triangle: int) -> int:
        while parent[triangle] != triangle:
            parent[triangle] = parent[parent[triangle]]
            triangle = parent[triangle]
        return triangle

    corners, adjacent = triangles.tolist(), neighbours.tolist()
    added: set[int] = set()
    reached: set[int] = set()
    regions = 0
    for count, triangle in enumerate(ascending.tolist(), start=1):
        added.add(triangle)
        reached.update(corners[triangle])
        regions += 1
        for other in adjacent[triangle]:
            if other in added and root(other) != root(triangle):
                parent[root(other)] = root(triangle)
                regions -= 1
        if regions == 1 and len(reached) == num_points:
            return count
    return len(triangles)


def outer_loop(points: Float[np.ndarray, "point 2"], triangles: Int[np.ndarray, "triangle 3"]) -> list[int]:
    """Return the outer boundary of an edge-connected region of counter-clockwise triangles as a loop of points."""
    sides = {side for a, b, c in triangles.tolist() for side in ((a, b), (b, c), (c, a))}
    following: dict[int, list[int]] = {}
    for start, end in sides:
        if (end, start) not in sides:
            following.setdefault(start, []).append(end)
    positions = [complex(x, y) for x, y in points]
    leftmost = min(following, key=lambda point: (positions[point].real, positions[point].imag))
    loop, back = [leftmost], complex(-1, 0)
    while True:
        here = loop[-1]

        def turn(end: int, here: int = here, back: complex = back) -> float:
            return phase((positions[end] - positions[here]) / back) % (2 * pi)

        # Where the region touches itself at a point, the smallest turn keeps the outside on the right, so that the
        # pocket behind the point is filled.
        there = min(following[here], key=turn)
        if there == leftmost:
            return loop
        back = positions[here] - positions[there]
        loop.append(there)
