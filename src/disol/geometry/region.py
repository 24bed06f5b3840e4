"""Domains with true boundaries: closed loops in the plane, independent of any grid, and arcs of them.

A point is in the domain if an odd number of loops go around it. Every loop keeps the domain on its right on the
screen (x to the right, y downwards): ½ ∮ x dy − y dx is positive for an outer loop and negative for a hole.
"""

from collections.abc import Iterator, Sequence
from dataclasses import InitVar, dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from disol import _checks as checks
from disol.errors import DisolError, PlacedError
from disol.geometry.boundary import Segment, trace_sides
from disol.geometry.curve import Curve, Geometry, next_points, without_repeats
from disol.geometry.tracing import trace_levels
from disol.grid import CORNERS, Grid

TOUCHING = 1e-12  # in units of the square: sides of loops that are closer touch
SAME = 1e-11  # consecutive points that are closer are one
SMALLEST_WIDTH = 1e-9  # of a loop, in units of the square
SHORTEST = 1e-12  # of a loop: arcs that overlap by less share only their ends
MOST_PAIRS = 1_000_000  # pairs of sides compared at a time

Points = Float[np.ndarray, "point 2"]


@dataclass(frozen=True)
class Arc:
    """A run of a loop from one fraction of its length to another; one that ends beyond 1 passes the loop's start.

    A loop starts at its first point and keeps the domain on its right.
    """

    loop: int = 0
    start: float = 0.0
    end: float = 1.0

    def __post_init__(self) -> None:
        checks.whole_number("loop of an arc", self.loop)
        start, end = checks.number("start of an arc", self.start), checks.number("end of an arc", self.end)
        if not 0 <= start <= 1 or not start < end <= start + 1:
            raise DisolError(
                "An arc goes from a fraction of its loop in [0, 1] to a larger one, at most one loop further, "
                f"got {start:g} to {end:g}."
            )

    @classmethod
    def from_segment(cls, segment: Segment) -> "Arc":
        """Convert a drawn segment; its share of the pixel loop is taken as a share of the length of the curve."""
        return cls(segment.curve, segment.start, segment.start + segment.length)

    def overlaps(self, other: "Arc") -> bool:
        """Tell whether two arcs share more than their ends."""
        if self.loop != other.loop:
            return False
        starts = ((other.start - self.start) % 1.0, (self.start - other.start) % 1.0)
        lengths = (self.end - self.start, other.end - other.start)
        return any(start < length - SHORTEST for start, length in zip(starts, lengths, strict=True))

    def covers(self, loop: Int[np.ndarray, " place"], place: Float[np.ndarray, " place"]) -> Bool[np.ndarray, " place"]:
        """Tell which places, each a fraction of the length of a loop, lie on the arc."""
        return (loop == self.loop) & (
            (self.end - self.start >= 1) | ((place - self.start) % 1.0 < self.end - self.start)
        )


@dataclass(frozen=True, eq=False)
class Region:
    """A domain bounded by loops that neither cross nor touch themselves or each other.

    loops     the loops in the given order, oriented so that the domain lies on their right
    trusted   leave them unchecked and as they are: they are known to bound a domain, or touch at corners on purpose
    """

    loops: tuple[Curve, ...]
    trusted: InitVar[bool] = False

    def __post_init__(self, trusted: bool) -> None:
        if not self.loops:
            raise DisolError("A domain needs at least one loop, got none.")
        if trusted:
            return
        loops = [_cleaned(number, loop.points) for number, loop in enumerate(self.loops)]
        _require_apart(loops)
        first = np.stack([loop.points[0] for loop in loops])
        goes_around = np.stack([winds_around(loop, first) for loop in loops])
        np.fill_diagonal(goes_around, False)
        depth = goes_around.sum(axis=0)
        turned = (loop.oriented(clockwise=bool(inside % 2 == 0)) for loop, inside in zip(loops, depth, strict=True))
        object.__setattr__(self, "loops", tuple(turned))

    @classmethod
    def from_geometry(cls, geometry: Geometry) -> "Region":
        """Convert a domain: loop 0 is its outer curve, loop k its k-th hole; those of further parts follow."""
        region = cls(geometry.curves)
        for number, (loop, curve) in enumerate(zip(region.loops, geometry.curves, strict=True)):
            if (loop.signed_area > 0) != (curve.signed_area > 0):
                if geometry.further:
                    raise DisolError(f"Loop {number} is a hole outside its part, or a part inside another. Move it.")
                raise DisolError(f"Hole {number} lies outside the outer curve, or inside another hole. Move it.")
        return region

    @classmethod
    def from_polygons(cls, polygons: Sequence[Any]) -> "Region":
        """Convert polygons [point, 2] in any order and direction; one inside an odd number of others is a hole."""
        loops = [checks.doubles("A polygon", points) for points in polygons]
        for points in loops:
            if points.ndim != 2 or points.shape[1] != 2:
                raise DisolError(f"A polygon must be an array [point, 2], got shape {points.shape}.")
        return cls(tuple(map(Curve, loops)))

    @classmethod
    def from_mask(cls, mask: Bool[np.ndarray, "height width"]) -> "Region":
        """Return the staircase of a mask: loops along the sides of its pixels, which touch where only corners meet."""
        corners, h = np.array(CORNERS), Grid(*mask.shape).h
        walks = trace_sides(mask)  # a side starts at the corner of its number
        return cls(tuple(Curve(h * (walk[:, 1:] + corners[walk[:, 0]])[:, ::-1]) for walk in walks), trusted=True)

    @classmethod
    def from_levels(cls, levels: Float[np.ndarray, "height width"], level: float = 0.5) -> "Region":
        """Return the area brighter than a level in a picture; its grey values place the boundary between pixels."""
        loops = trace_levels(levels, level)
        if not loops:
            raise DisolError(f"No pixel of the picture exceeds {level:g}, so there is no domain.")
        return cls(loops, trusted=True)

    def contains(self, x: Float[np.ndarray, " point"], y: Float[np.ndarray, " point"]) -> Bool[np.ndarray, " point"]:
        """Tell which points lie in the domain."""
        points = np.stack([x, y], axis=1)
        return np.logical_xor.reduce([winds_around(loop, points) for loop in self.loops])

    def mask(self, grid: Grid) -> Bool[np.ndarray, "height width"]:
        """Mark the pixels whose centre lies in the domain."""
        return np.logical_xor.reduce([loop.inside(grid) for loop in self.loops])


def arcs_of_pixels(mask: Bool[np.ndarray, "height width"], marked: Bool[np.ndarray, "height width"]) -> tuple[Arc, ...]:
    """Return the arcs of the staircase of a mask that run along the outer sides of its marked pixels.

    A run of several pixels does not turn a corner at its ends: pixels that mark one side of a rectangle mark no other.
    """
    arcs = []
    for loop, walk in enumerate(trace_sides(mask)):
        on = marked[walk[:, 1], walk[:, 2]]
        if on.all():
            arcs.append(Arc(loop))
            continue
        starts = np.flatnonzero(on & ~np.roll(on, 1))
        for start in starts.tolist():
            run = np.arange(start, start + int(np.argmin(np.roll(on, -start)))) % len(walk)
            first, last = _without_corners(walk[run])
            arcs.append(
                Arc(
                    loop,
                    (start + first) / len(walk) % 1.0,
                    (start + first) / len(walk) % 1.0 + (last - first) / len(walk),
                )
            )
    return tuple(arcs)


def _without_corners(run: Int[np.ndarray, "side 3"]) -> tuple[int, int]:
    """Return the first side of a run, given by direction and pixel, and the side after its last, without its corners.

    Of the pixels at its ends, only sides in the direction of the adjacent part of the run are kept.
    """
    pixels = (run[1:, 1:] != run[:-1, 1:]).any(axis=1)  # where the next pixel begins
    if not pixels.any():
        return 0, len(run)
    first, last = int(np.argmax(pixels)), len(run) - 1 - int(np.argmax(pixels[::-1]))
    head, tail = np.flatnonzero(run[: first + 1, 0] == run[first, 0]), np.flatnonzero(run[last:, 0] == run[last, 0])
    return int(head[0]), last + int(tail[-1]) + 1


def _cleaned(number: int, points: Points) -> Curve:
    """Drop points that repeat the one before them, and require a polygon with an area."""
    points = without_repeats(points, SAME)
    if len(points) < 3 or is_line(points):
        raise DisolError(f"Loop {number} has no area: its points lie on one line. Move or drop it.")
    return Curve(points)


def is_line(points: Points) -> bool:
    """Tell whether points lie on one line."""
    return bool(np.linalg.svd(points - points.mean(axis=0), compute_uv=False)[1] < SMALLEST_WIDTH)


def winds_around(loop: Curve, points: Points) -> Bool[np.ndarray, " point"]:
    """Tell which points a loop goes around, by the parity of the sides that a ray to the right crosses."""
    order = np.argsort(points[:, 1], kind="stable")
    x, y = points[order].T
    start, stop = loop.points, next_points(loop.points)
    first, last = (np.searchsorted(y, end(start[:, 1], stop[:, 1])) for end in (np.minimum, np.maximum))
    count = last - first  # points at the height of each side
    side = np.repeat(np.arange(len(start)), count)
    point = np.arange(len(side)) + np.repeat(first + count - np.cumsum(count), count)
    slope = (stop - start)[side]
    beyond = start[side, 0] + (y[point] - start[side, 1]) / slope[:, 1] * slope[:, 0] > x[point]
    inside = np.empty(len(points), dtype=bool)
    inside[order] = np.bincount(point[beyond], minlength=len(points)) % 2 == 1
    return inside


def find_contact(loops: Sequence[Curve]) -> tuple[int, int, Float[np.ndarray, "2"]] | None:
    """Find two loops that cross or touch, or one that crosses or touches itself, and a point nearby.

    Only consecutive sides may touch, at their common point.
    """
    starts = np.concatenate([loop.points for loop in loops])
    ends = np.concatenate([next_points(loop.points) for loop in loops])
    sizes = np.array([len(loop.points) for loop in loops])
    loop = np.repeat(np.arange(len(loops)), sizes)
    last = np.cumsum(sizes) - 1
    following = np.arange(1, len(starts) + 1)
    following[last] = last + 1 - sizes
    step = ends - starts
    length = np.hypot(*step.T)
    # A side that turns back overlaps the one before it.
    after = step[following]
    turns_back = (np.abs(_cross(step, after)) <= TOUCHING * length) & ((step * after).sum(axis=1) < 0)
    if turns_back.any():
        here = np.flatnonzero(turns_back)[0]
        return int(loop[here]), int(loop[here]), ends[here]
    low, high = np.minimum(starts, ends) - TOUCHING, np.maximum(starts, ends) + TOUCHING
    for one, other in _overlapping(low, high):
        apart = (following[one] == other) | (following[other] == one)
        for mine, its in ((one, other), (other, one)):
            # Apart if both ends of one side lie on the same side of the line through the other.
            first, last = (_cross(step[mine], ends_of[its] - starts[mine]) for ends_of in (starts, ends))
            margin = TOUCHING * length[mine]
            apart |= (np.minimum(first, last) > margin) | (np.maximum(first, last) < -margin)
        if not apart.all():
            pair = np.flatnonzero(~apart)[0]
            first, last = one[pair], other[pair]
            point = _common_point(starts[first], ends[first], starts[last], ends[last])
            return int(loop[first]), int(loop[last]), point
    return None


def _common_point(
    start: Float[np.ndarray, "2"],
    end: Float[np.ndarray, "2"],
    other_start: Float[np.ndarray, "2"],
    other_end: Float[np.ndarray, "2"],
) -> Float[np.ndarray, "2"]:
    """Return a point of a side that lies on another one, which crosses it, touches it, or runs along it."""
    step, other, between = end - start, other_end - other_start, other_start - start
    turn = step[0] * other[1] - step[1] * other[0]
    if abs(turn) > TOUCHING * np.hypot(*step) * np.hypot(*other):
        along = (between[0] * other[1] - between[1] * other[0]) / turn
    else:
        along = (between @ step) / (step @ step)
    return start + np.clip(along, 0.0, 1.0) * step


def _require_apart(loops: Sequence[Curve]) -> None:
    """Require that loops neither cross nor touch themselves or each other."""
    contact = find_contact(loops)
    if contact is not None:
        one, other, (x, y) = contact
        which = f"Loop {one} crosses or touches itself" if one == other else f"Loops {one} and {other} cross or touch"
        remedy = "Keep all loops apart, or join those that touch."
        raise PlacedError(f"{which} near x = {{x:.4g}}, y = {{y:.4g}}. {remedy}", float(x), float(y))


def _cross(one: Points, other: Points) -> Float[np.ndarray, " point"]:
    return one[:, 0] * other[:, 1] - one[:, 1] * other[:, 0]


def _overlapping(low: Points, high: Points) -> Iterator[tuple[Int[np.ndarray, " pair"], Int[np.ndarray, " pair"]]]:
    """Yield the pairs of overlapping boxes, some at a time: a sweep along the axis with fewer overlaps."""
    sweeps = []
    for axis in (0, 1):
        order = np.argsort(low[:, axis], kind="stable")
        count = np.searchsorted(low[order, axis], high[order, axis], side="right") - np.arange(1, len(order) + 1)
        sweeps.append((int(count.sum()), axis, order, count))
    _, axis, order, count = min(sweeps, key=lambda sweep: sweep[0])
    along, bounds = 1 - axis, np.cumsum(count)
    chunks = np.searchsorted(bounds, np.arange(0, max(bounds[-1], 1), MOST_PAIRS), side="right")
    for first, last in zip(chunks, [*chunks[1:], len(order)], strict=True):
        some = count[first:last]
        place = np.repeat(np.arange(first, last), some)
        one, other = order[place], order[place + 1 + np.arange(len(place)) - np.repeat(np.cumsum(some) - some, some)]
        near = (low[one, along] <= high[other, along]) & (low[other, along] <= high[one, along])
        yield one[near], other[near]
