"""Random outlines of many kinds: sharp-cornered, round and rounded, each at any size and position.

`disol.geometry.placing` places what a kind draws in the unit square, or as a hole in a domain.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from disol.geometry.curve import Curve
from disol.geometry.envelope import concave_envelope
from disol.geometry.outline import SAMPLES_PER_VERTEX, closed_spline
from disol.geometry.shapes import Polygon, circle, slot

MOST_TRIES = 100
THINNEST = 0.22  # of the side of a rectilinear shape: the width of its legs and of what remains beside a notch


@runtime_checkable
class OutlineKind(Protocol):
    """A kind of closed polyline."""

    def draw(self, rng: np.random.Generator, /) -> Polygon:
        """Draw one that does not cross itself."""


@dataclass(frozen=True)
class Envelope:
    """The concave envelope of random points, rounded by a B-spline or with its corners.

    points   how many
    alpha    how closely it hugs them
    """

    rounded: bool
    points: tuple[int, int] = (8, 24)
    alpha: tuple[float, float] = (0.0, 0.95)

    def draw(self, rng: np.random.Generator) -> Polygon:
        """Draw one; a spline that crosses itself is redrawn."""
        for _ in range(MOST_TRIES):
            points = rng.random((int(rng.integers(self.points[0], self.points[1] + 1)), 2))
            vertices = concave_envelope(points, rng.uniform(*self.alpha))
            if not self.rounded:
                return vertices
            if not closed_spline(vertices, samples=6).crosses_itself():
                break
        return closed_spline(vertices, SAMPLES_PER_VERTEX).points


@dataclass(frozen=True)
class Rectangle:
    """A rectangle; `slenderness` is the ratio of its short side to its long one."""

    slenderness: tuple[float, float] = (0.4, 1.0)

    def draw(self, rng: np.random.Generator) -> Polygon:
        """Draw one."""
        return box(1.0, rng.uniform(*self.slenderness))


@dataclass(frozen=True)
class Notched:
    """A rectangle with one to four of its corners cut out: an L, a T, a Z, a cross and shapes in between."""

    def draw(self, rng: np.random.Generator) -> Polygon:
        """Draw one."""
        count = int(rng.integers(1, 5))
        deepest = 1 - THINNEST if count == 1 else 0.5 * (1 - THINNEST)  # two notches may lie opposite each other
        cut = set(rng.permutation(4)[:count].tolist())
        vertices: list[tuple[float, float]] = []
        for number, (x, y) in enumerate(box(1.0, 1.0).tolist()):
            if number not in cut:
                vertices.append((x, y))
                continue
            inner_x, inner_y = np.abs([x, y] - rng.uniform(0.15, deepest, size=2)).tolist()
            across, down = (inner_x, y), (x, inner_y)
            # Clockwise, a top left or bottom right corner is reached along a column, the others along a row.
            first, last = (down, across) if number % 2 == 0 else (across, down)
            vertices += [first, (inner_x, inner_y), last]
        return np.array(vertices)


@dataclass(frozen=True)
class Slotted:
    """A rectangle with one to three slots cut into one side: a U, an E, a comb; or one into each of two sides, an H."""

    def draw(self, rng: np.random.Generator) -> Polygon:
        """Draw one."""
        if rng.random() < 0.3:
            return np.concatenate([slotted_side(rng, 1, 0.38), 1.0 - slotted_side(rng, 1, 0.38)])
        top = slotted_side(rng, int(rng.choice([1, 1, 1, 2, 3])), 0.8)
        return np.concatenate([top, [[1.0, 1.0], [0.0, 1.0]]])


@dataclass(frozen=True)
class AroundCentre:
    """A polygon with corners around a centre, at similar distances (nearly regular) or different ones (spiky).

    corners   how many
    radius    smallest allowed distance as a share of the largest, drawn from this interval
    """

    corners: tuple[int, int] = (3, 9)
    radius: tuple[float, float] = (0.35, 1.0)

    def draw(self, rng: np.random.Generator) -> Polygon:
        """Draw one."""
        count = int(rng.integers(self.corners[0], self.corners[1] + 1))
        angles = 2 * np.pi * (np.arange(count) + rng.uniform(-0.3, 0.3, count)) / count
        radii = rng.uniform(rng.uniform(*self.radius), 1.0, count)
        return radii[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)


@dataclass(frozen=True)
class Disc:
    """A circle, which stretching turns into an ellipse."""

    def draw(self, rng: np.random.Generator) -> Polygon:
        """Return it; there is only one."""
        del rng
        return circle(0.0, 0.0, 1.0)


@dataclass(frozen=True)
class Slot:
    """A slot with round ends."""

    slenderness: tuple[float, float] = (0.15, 0.5)

    def draw(self, rng: np.random.Generator) -> Polygon:
        """Draw one."""
        return slot(0.0, 1.0, 0.0, 0.5 * rng.uniform(*self.slenderness))


def box(width: float, height: float) -> Polygon:
    """Return a rectangle, clockwise on the screen from its top left corner."""
    return np.array([[0.0, 0.0], [width, 0.0], [width, height], [0.0, height]])


def slotted_side(rng: np.random.Generator, slots: int, deepest: float) -> Polygon:
    """Return the top side of the unit square, from left to right, with slots cut into it."""
    widths = rng.uniform(0.6, 1.4, 2 * slots + 1)
    ends = np.cumsum(widths / widths.sum())
    depths = rng.uniform(0.25, deepest, slots)
    corners = [[0.0, 0.0]]
    for left, right, depth in zip(ends[0:-1:2], ends[1::2], depths, strict=True):
        corners += [[left, 0.0], [left, depth], [right, depth], [right, 0.0]]
    return np.array([*corners, [1.0, 0.0]])


def stretched(points: Polygon, factor: float) -> Polygon:
    """Make a polygon wider by a factor and lower by the same factor, which preserves its area."""
    return points * [factor, 1 / factor]


def turned(points: Polygon, angle: float) -> Polygon:
    """Rotate a polygon about the origin."""
    cosine, sine = np.cos(angle), np.sin(angle)
    rotation: Float[np.ndarray, "2 2"] = np.array([[cosine, sine], [-sine, cosine]])
    return points @ rotation


def middle(points: Polygon) -> Float[np.ndarray, "2"]:
    """Return the centre of the bounding box of a polygon."""
    return 0.5 * (points.min(axis=0) + points.max(axis=0))


def area(points: Polygon) -> float:
    """Return the area inside a polygon."""
    return abs(Curve(points).signed_area)
