"""The finite elements of one pixel: shape functions of its four corners at quadrature points.

Both elements live on a whole pixel, so every local matrix is 4 x 4 (times the unknowns per node) whatever the
element. Reference coordinates are (x, y) in the unit square, y downwards; corners are ordered as `grid.CORNERS`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float


class At(NamedTuple):
    """What a weak form sees at one quadrature point of a pixel."""

    values: Float[np.ndarray, "4"]  # Nᵢ
    gradients: Float[np.ndarray, "4 2"]  # ∇Nᵢ


@dataclass(frozen=True)
class Element:
    """Corner functions of a pixel of side `h`, tabulated at quadrature points.

    positions   where the points are, in pixel units
    weights     of the quadrature, summing to the pixel's area h²
    values      Nᵢ at each point
    gradients   ∇Nᵢ at each point
    """

    name: str
    h: float
    positions: Float[np.ndarray, "point 2"]
    weights: Float[np.ndarray, " point"]
    values: Float[np.ndarray, "point 4"]
    gradients: Float[np.ndarray, "point 4 2"]

    def integrate(self, form: Callable[[At], Float[np.ndarray, "rows columns"]]) -> Float[np.ndarray, "rows columns"]:
        """Integrate a matrix-valued form over the pixel."""
        points = zip(self.weights, self.values, self.gradients, strict=True)
        terms = [weight * form(At(values, gradients)) for weight, values, gradients in points]
        return np.asarray(sum(terms))


def q1(h: float) -> Element:
    """Bilinear square with 2 x 2 Gauss points."""
    low, high = 0.5 - np.sqrt(3.0) / 6.0, 0.5 + np.sqrt(3.0) / 6.0
    positions = np.array([(low, low), (high, low), (high, high), (low, high)])
    x, y = positions[:, 0], positions[:, 1]
    values = np.stack([(1 - x) * (1 - y), x * (1 - y), x * y, (1 - x) * y], axis=1)
    gradients = np.stack(
        [
            np.stack([y - 1, 1 - y, y, -y], axis=1),
            np.stack([x - 1, -x, x, 1 - x], axis=1),
        ],
        axis=2,
    )
    return Element("q1", h, positions, np.full(4, h * h / 4), values, gradients / h)


def p1(h: float) -> Element:
    """Two linear triangles per pixel, cut from the top left to the bottom right corner.

    The three points per triangle integrate quadratics exactly. A fixed diagonal breaks the mirror symmetry
    that Q1 keeps, which is why Q1 is the default.
    """
    corners = np.array([(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0)])
    barycentric = np.full((3, 3), 1 / 6) + np.eye(3) / 2
    positions, values, gradients = [], [], []
    for triangle in ([0, 1, 2], [0, 2, 3]):
        vertices = corners[triangle]
        edges = np.stack([vertices[1] - vertices[0], vertices[2] - vertices[0]], axis=1)
        slopes = np.linalg.inv(edges)  # gradients of the second and third barycentric coordinate
        positions.append(barycentric @ vertices)
        at_points, slope = np.zeros((3, 4)), np.zeros((4, 2))
        at_points[:, triangle] = barycentric
        slope[triangle] = [-slopes.sum(axis=0), *slopes]
        values.append(at_points)
        gradients.append(np.broadcast_to(slope, (3, 4, 2)))
    return Element(
        "p1",
        h,
        np.concatenate(positions),
        np.full(6, h * h / 6),
        np.concatenate(values),
        np.concatenate(gradients) / h,
    )


ELEMENTS: dict[str, Callable[[float], Element]] = {"q1": q1, "p1": p1}
