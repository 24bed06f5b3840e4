"""Closed curves, and the domains they bound, at any resolution."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Shaped

from disol.grid import Grid, framed

FOUR_CONNECTED = np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0]], dtype=bool)


def next_points(points: Shaped[np.ndarray, "point *axes"]) -> Shaped[np.ndarray, "point *axes"]:
    """Return the next point of a closed curve for each of its points."""
    return np.concatenate([points[1:], points[:1]])


def fill(points: Float[np.ndarray, "point 2"], grid: Grid) -> Bool[np.ndarray, "height width"]:
    """Mark the pixels whose centre lies inside a closed polyline, by the even-odd rule along each row."""
    x, y = (points / grid.h - 0.5).T  # in pixels, centres at the integers
    level = np.clip(np.ceil(y), 0, grid.height).astype(int)  # the first row at or below each point
    next_x, next_y, next_level = next_points(x), next_points(y), next_points(level)
    side = np.flatnonzero(level != next_level)
    rows_crossed = np.abs(next_level - level)[side]
    slope = (next_x - x)[side] / (next_y - y)[side]
    ends = np.cumsum(rows_crossed)
    row = np.arange(rows_crossed.sum()) - np.repeat(ends - rows_crossed, rows_crossed)
    row += np.repeat(np.minimum(level, next_level)[side], rows_crossed)
    start_x, start_y = np.repeat(x[side], rows_crossed), np.repeat(y[side], rows_crossed)
    column = np.ceil(start_x + (row - start_y) * np.repeat(slope, rows_crossed))
    column = np.clip(column, 0, grid.width).astype(int)
    top, bottom = level.min(), level.max()  # a small hole of a large grid touches few of its rows
    crossings = np.bincount((row - top) * (grid.width + 1) + column, minlength=(bottom - top) * (grid.width + 1))
    filled = np.zeros((grid.height, grid.width), dtype=bool)
    filled[top:bottom] = np.logical_xor.accumulate(crossings.reshape(-1, grid.width + 1) % 2 == 1, axis=1)[:, :-1]
    return filled


@dataclass(frozen=True, eq=False)
class Curve:
    """A closed polyline, dense enough to represent a smooth curve; the last point joins the first."""

    points: Float[np.ndarray, "point 2"]
    _filled: dict[Grid, Bool[np.ndarray, "height width"]] = field(default_factory=dict, init=False, repr=False)

    def inside(self, grid: Grid) -> Bool[np.ndarray, "height width"]:
        """Mark the pixels whose centre lies inside; the array is cached for each grid, so it is read-only."""
        if grid not in self._filled:
            filled = fill(self.points, grid)
            filled.flags.writeable = False
            self._filled[grid] = filled
        return self._filled[grid]

    def oriented(self, clockwise: bool) -> "Curve":
        """Return the curve running clockwise on the screen (y downwards), or counter-clockwise."""
        return self if (self.signed_area > 0) == clockwise else Curve(self.points[::-1])

    @property
    def signed_area(self) -> float:
        """½ ∮ x dy − y dx: positive if the curve runs clockwise on the screen."""
        (x, y), (next_x, next_y) = self.points.T, next_points(self.points).T
        return float(0.5 * (x @ next_y - y @ next_x))

    @cached_property
    def arc_lengths(self) -> Float[np.ndarray, " point_and_end"]:
        """Distance along the curve of each point, then the total length."""
        steps = np.hypot(*(next_points(self.points) - self.points).T)
        return np.concatenate([[0.0], np.cumsum(steps)])

    def at(self, fraction: float) -> Float[np.ndarray, "2"]:
        """Return the point at a fraction of the arc length, which wraps around."""
        closed = np.concatenate([self.points, self.points[:1]])
        distance = (fraction % 1.0) * self.arc_lengths[-1]
        return np.array([np.interp(distance, self.arc_lengths, closed[:, axis]) for axis in (0, 1)])

    def resampled(self, count: int) -> Float[np.ndarray, "sample 2"]:
        """Return points at equal distances along the curve."""
        closed = np.concatenate([self.points, self.points[:1]])
        distances = self.arc_lengths[-1] * np.arange(count) / count
        return np.stack([np.interp(distances, self.arc_lengths, closed[:, axis]) for axis in (0, 1)], axis=1)

    def crosses_itself(self) -> bool:
        """Tell whether two sides that are not neighbours intersect."""
        start = self.points
        count = len(start)
        side = next_points(start) - start
        offset = start[None] - start[:, None]
        # Sides i and j cross if the ends of j lie on both sides of line i and the other way round.
        left = side[:, None, 0] * offset[..., 1] > side[:, None, 1] * offset[..., 0]
        straddles = left != np.concatenate([left[:, 1:], left[:, :1]], axis=1)
        crossing = straddles & straddles.T
        here = np.arange(count)
        crossing[here, here] = crossing[here, here - 1] = crossing[here - 1, here] = False
        return bool(crossing.any())


def without_repeats(points: Float[np.ndarray, "point 2"], same: float = 0.0) -> Float[np.ndarray, "left 2"]:
    """Drop points that are no farther than `same` from the point before them, along x and along y."""
    return points[np.abs(points - np.roll(points, 1, axis=0)).max(axis=1) > same]


@dataclass(frozen=True, eq=False)
class Geometry:
    """A domain: what lies inside the outer curve and outside every hole, and its further parts, apart from it."""

    outer: Curve
    holes: tuple[Curve, ...] = ()
    further: tuple["Geometry", ...] = ()

    def __post_init__(self) -> None:
        # One orientation, domain on the right, so that a start and a length mean the same run at any resolution.
        object.__setattr__(self, "outer", self.outer.oriented(clockwise=True))
        object.__setattr__(self, "holes", tuple(hole.oriented(clockwise=False) for hole in self.holes))

    @property
    def curves(self) -> tuple[Curve, ...]:
        """The outer curve, then the holes; then those of further parts."""
        return self.outer, *self.holes, *(curve for part in self.further for curve in part.curves)

    def mask(self, grid: Grid) -> Bool[np.ndarray, "height width"]:
        """Mark the pixels whose centre lies in the domain, in a new array.

        Where the grid splits off a tip of the domain or of a hole, only the largest part is kept.
        """
        mask = self.outer.inside(grid).copy()
        for hole in self.holes:
            mask &= ~largest_part(hole.inside(grid))
        return np.logical_or.reduce([largest_part(mask), *(part.mask(grid) for part in self.further)])


def parts(mask: Bool[np.ndarray, "height width"]) -> tuple[np.ndarray, int]:
    """Number the 4-connected parts of a mask from 1, and count them."""
    from scipy import ndimage  # noqa: PLC0415  it takes longer to import than all of NumPy

    labels, count = ndimage.label(mask, FOUR_CONNECTED)
    return labels, int(count)


def largest_part(mask: Bool[np.ndarray, "height width"]) -> Bool[np.ndarray, "height width"]:
    """Keep the largest 4-connected part of a mask."""
    labels, count = parts(mask)
    if count <= 1:
        return mask
    return labels == 1 + np.argmax(np.bincount(labels.ravel())[1:])


def thin_pixels(mask: Bool[np.ndarray, "height width"], width: int) -> int:
    """Count the pixels of walls too thin for a square of `width` pixels; smaller rests are tips and corners."""
    from scipy import ndimage  # noqa: PLC0415

    labels, count = parts(mask & ~ndimage.binary_opening(mask, np.ones((width, width), dtype=bool)))
    sizes = np.bincount(labels.ravel(), minlength=count + 1)[1:]
    return int(sizes[sizes >= width**2].sum())


def eroded(mask: Bool[np.ndarray, "height width"], pixels: int = 1) -> Bool[np.ndarray, "height width"]:
    """Erode a mask: keep a pixel if its four neighbours are marked, the given number of times."""
    for _ in range(pixels):
        frame = framed(mask)
        mask = mask & frame[:-2, 1:-1] & frame[2:, 1:-1] & frame[1:-1, :-2] & frame[1:-1, 2:]
    return mask
