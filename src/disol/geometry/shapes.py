"""Named shapes with sharp corners, each with and without a hole, inside the unit square (y downwards)."""

import numpy as np
from jaxtyping import Float

from disol.errors import DisolError
from disol.geometry.curve import Curve, Geometry

Polygon = Float[np.ndarray, "vertex 2"]


def circle(x: float, y: float, radius: float, vertices: int = 96) -> Polygon:
    """Return a regular polygon on a circle, its first vertex at the top."""
    angles = 2 * np.pi * np.arange(vertices) / vertices
    return np.stack([x + radius * np.sin(angles), y - radius * np.cos(angles)], axis=1)


def star(points: int, outer: float, inner: float) -> Polygon:
    """Return a star around the centre of the square, with its tips on one radius and its notches on another."""
    tips = circle(0.5, 0.5, outer, 2 * points)
    notches = circle(0.5, 0.5, inner, 2 * points)
    return np.where((np.arange(2 * points) % 2 == 0)[:, None], tips, notches)


def slot(left: float, right: float, y: float, radius: float) -> Polygon:
    """Return a horizontal slot with round ends."""
    angles = np.linspace(-np.pi / 2, np.pi / 2, 24)
    arc = radius * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return np.concatenate([arc + [right - radius, y], -arc + [left + radius, y]])


def polygon(*vertices: tuple[float, float]) -> Polygon:
    """Return the vertices as an array."""
    return np.array(vertices)


OUTLINES: dict[str, Polygon] = {
    "arrow": polygon(
        (0.06, 0.34), (0.54, 0.34), (0.54, 0.12), (0.95, 0.5), (0.54, 0.88), (0.54, 0.66), (0.06, 0.66)
    ),
    "parallelogram": polygon((0.3, 0.22), (0.95, 0.22), (0.7, 0.78), (0.05, 0.78)),
    "pentagon": circle(0.5, 0.53, 0.44, 5),
    "star": star(16, 0.46, 0.33),
    "y": polygon(
        (0.06, 0.08), (0.26, 0.08), (0.5, 0.38), (0.74, 0.08), (0.94, 0.08), (0.62, 0.55), (0.62, 0.94), (0.38, 0.94),
        (0.38, 0.55),
    ),
    "triangle": polygon((0.5, 0.08), (0.95, 0.88), (0.05, 0.88)),
    "slotted-plate": polygon((0.08, 0.2), (0.92, 0.2), (0.92, 0.8), (0.08, 0.8)),
}  # fmt: skip

HOLES: dict[str, tuple[Polygon, ...]] = {
    "arrow": (circle(0.66, 0.5, 0.13),),
    "parallelogram": (polygon((0.42, 0.38), (0.68, 0.38), (0.58, 0.62), (0.32, 0.62)),),
    "pentagon": (circle(0.5, 0.55, 0.16, 5),),
    "star": (circle(0.5, 0.5, 0.15),),
    "y": (circle(0.5, 0.51, 0.065),),
    "triangle": (polygon((0.5, 0.44), (0.64, 0.7), (0.36, 0.7)),),
    "slotted-plate": (slot(0.2, 0.8, 0.38, 0.06), slot(0.2, 0.8, 0.62, 0.06)),
}


def require_shape(name: str, others: str = "") -> None:
    """Require the name of a shape; the error ends with what else may be given."""
    if name.lower() not in OUTLINES:
        raise DisolError(
            f"Unknown shape {name!r}. The shapes are {', '.join(OUTLINES)}; add '+hole' for its hole.{others}"
        )


def named_shape(name: str, with_hole: bool = False) -> Geometry:
    """Return the shape with a name, with its hole if asked."""
    require_shape(name)
    key = name.lower()
    return Geometry(Curve(OUTLINES[key]), tuple(map(Curve, HOLES[key])) if with_hole else ())
