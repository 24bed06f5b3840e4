"""Placing outlines of any kind and size in the unit square, and holes of any kind in them."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool

from disol._mixture import Mixture
from disol.errors import DisolError
from disol.geometry.curve import Curve, Geometry, eroded
from disol.geometry.outline import JUDGED_ON, WALL, find_place, is_sound
from disol.geometry.polygons import OutlineKind, area, middle, stretched, turned
from disol.geometry.shapes import Polygon

Room = Bool[np.ndarray, "height width"]

MOST_TRIES = 100
SIZES_PER_HOLE = 4
SMALLEST_HOLE = 4  # pixels of the grid that outlines are judged on
SMALLEST_DOMAIN = 0.06  # of the square
POINTS_PER_HOLE = 64  # points checked to see whether it fits
# Length in pixels of that grid by which parts less than three pixels wide may stick out: sharp corners, but no prongs.
LONGEST_THIN = 6


@dataclass(frozen=True)
class Placing:
    """How outlines are placed in the unit square.

    stretch         largest ratio by which width to height is changed, or height to width
    turning         probability of a rotation by any angle, instead of by quarter turns
    smallest_area   smallest area of the outline, in unit squares, if it can be that large
    filling         probability that it is as large as the square allows, and so touches two of its edges
    """

    stretch: float = 1.0
    turning: float = 0.0
    smallest_area: float = 0.1
    filling: float = 0.0

    def draw(self, rng: np.random.Generator, points: Polygon) -> Polygon:
        """Stretch, rotate, scale and move an outline at random."""
        points = self.shaped(rng, points)
        extent = np.ptp(points, axis=0)
        largest = 1 / extent.max()
        smallest = min(np.sqrt(self.smallest_area / area(points)), largest)
        scale = largest if rng.random() < self.filling else rng.uniform(smallest, largest)
        corner = rng.random(2) * (1 - scale * extent)
        return scale * (points - points.min(axis=0)) + corner

    def shaped(self, rng: np.random.Generator, points: Polygon) -> Polygon:
        """Stretch and rotate an outline at random."""
        points = stretched(points, self.stretch ** rng.uniform(-0.5, 0.5))
        angle = rng.uniform(0, 2 * np.pi) if rng.random() < self.turning else np.pi / 2 * rng.integers(4)
        return turned(points, angle)


@dataclass(frozen=True)
class PlacedOutlines:
    """Outlines of a kind, or of a mixture of kinds, with the same placing."""

    kind: OutlineKind
    placing: Placing

    def draw(self, rng: np.random.Generator) -> Curve:
        """Draw one that a grid can resolve."""
        for _ in range(MOST_TRIES):
            curve = Curve(self.placing.draw(rng, self.kind.draw(rng)))
            if is_sound(curve, JUDGED_ON) and not has_prongs(curve.inside(JUDGED_ON)):
                return curve
        raise DisolError(f"No sound outline was found in {MOST_TRIES} draws of {self}. Use less slender kinds.")


def has_prongs(mask: Room) -> bool:
    """Tell whether parts of one or two pixels across stick out further than sharp corners do."""
    from scipy import ndimage  # noqa: PLC0415  it takes longer to import than all of NumPy

    return bool(ndimage.distance_transform_cdt(~eroded(mask), "taxicab")[mask].max() > LONGEST_THIN)


@dataclass(frozen=True)
class PlacedHoles:
    """Holes of a kind, or of a mixture of kinds, in random places, with walls of a few pixels around them.

    count        how many are tried; those that fit nowhere are left out
    size         bounds of the longer side of a hole's bounding box, drawn log-uniformly
    concentric   probability that the only hole is the outline itself, shrunk about its middle
    """

    kind: OutlineKind
    placing: Placing
    count: Mixture[int]
    size: tuple[float, float]
    concentric: float = 0.0

    def draw(self, rng: np.random.Generator, outer: Curve) -> tuple[Curve, ...]:
        """Draw the holes of one outline."""
        room = eroded(outer.inside(JUDGED_ON), WALL)
        count = self.count.choose(rng)
        if count and rng.random() < self.concentric:
            centre = middle(outer.points)
            inner = Curve(centre + rng.uniform(0.3, 0.75) * (outer.points - centre))
            if fits(inner, room, outer, ()):
                return (inner,)
        holes: tuple[Curve, ...] = ()
        for _ in range(count):
            hole = self.draw_one(rng, room, outer, holes)
            if hole is not None:
                holes += (hole,)
                room = room & eroded(~hole.inside(JUDGED_ON), WALL + 1)
        return holes

    def draw_one(self, rng: np.random.Generator, room: Room, outer: Curve, holes: tuple[Curve, ...]) -> Curve | None:
        """Draw a hole where there is room for it; try a few times, smaller each time."""
        smallest, largest = self.size
        size = smallest * (largest / smallest) ** rng.random()
        for _ in range(SIZES_PER_HOLE):
            if not room.any():
                return None
            shape = self.placing.shaped(rng, self.kind.draw(rng))
            shape = size * (shape - middle(shape)) / np.ptp(shape, axis=0).max()
            centre = find_place(rng, Curve(shape).resampled(POINTS_PER_HOLE), room)
            if centre is not None:
                hole = Curve(shape + centre)
                if fits(hole, room, outer, holes):
                    return hole
            size = max(smallest, 0.6 * size)
        return None


def fits(hole: Curve, room: Room, outer: Curve, holes: tuple[Curve, ...]) -> bool:
    """Tell whether a hole lies in the remaining room, is large enough for a grid, and leaves enough of the domain."""
    inside = hole.inside(JUDGED_ON)
    if inside.sum() < SMALLEST_HOLE or (inside & ~room).any():
        return False
    left = outer.inside(JUDGED_ON).mean() - inside.mean() - sum(other.inside(JUDGED_ON).mean() for other in holes)
    return bool(left >= SMALLEST_DOMAIN)


@dataclass(frozen=True)
class PlacedDomains:
    """Placed outlines with placed holes."""

    outlines: Mixture[PlacedOutlines]
    holes: PlacedHoles

    def draw(self, outline_rng: np.random.Generator, hole_rng: np.random.Generator) -> Geometry:
        """Draw a domain."""
        outer = self.outlines.choose(outline_rng).draw(outline_rng)
        return Geometry(outer, self.holes.draw(hole_rng, outer))
