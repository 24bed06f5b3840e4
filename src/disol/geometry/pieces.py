"""The boundary of a domain on a grid: straight pieces, each inside one pixel, and integrals by Green's theorem.

All lengths are in pixels. A piece keeps the domain on its right on the screen, so with dx and dy its step its outward
normal is (dy, −dx), normalised. A piece along a grid line belongs to the pixel on its inner side.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import comb

import numpy as np
from jaxtyping import Bool, Float, Int

from disol.errors import DisolError
from disol.geometry.region import Arc, Region
from disol.grid import Grid

SNAP = 1e-10  # in pixels: a point this close to a grid line is moved onto it
DEGREE = 4  # moments are those of x^a y^b, a, b < 4

Points = Float[np.ndarray, "piece 2"]

_nodes, _weights = np.polynomial.legendre.leggauss(4)
GAUSS_POINTS, GAUSS_WEIGHTS = 0.5 + 0.5 * _nodes, 0.5 * _weights  # on [0, 1], exact up to degree 7
WHOLE = 1.0 / np.outer(np.arange(1, DEGREE + 1), np.arange(1, DEGREE + 1))  # moments of a whole pixel


@dataclass(frozen=True, eq=False)
class Pieces:
    """Pieces of loops, in the order of the loops: split at vertices, at grid lines and at the ends of arcs.

    start, end   in pixels
    loop         number of the loop
    place        position of the middle, as a fraction of the length of the loop
    cell         column and row of the pixel
    """

    start: Points
    end: Points
    loop: Int[np.ndarray, " piece"]
    place: Float[np.ndarray, " piece"]
    cell: Int[np.ndarray, "piece 2"]

    @cached_property
    def following(self) -> Int[np.ndarray, " piece"]:
        """The next piece of the same loop."""
        return _next_in_loop(self.loop)

    @cached_property
    def length(self) -> Float[np.ndarray, " piece"]:
        """Lengths, in pixels."""
        return np.hypot(*(self.end - self.start).T)

    @cached_property
    def normal(self) -> Points:
        """Outward unit normals."""
        dx, dy = (self.end - self.start).T / self.length
        return np.stack([dy, -dx], axis=1)

    @cached_property
    def on_columns(self) -> Bool[np.ndarray, " piece"]:
        """Whether they run along a vertical grid line."""
        x = self.start[:, 0]
        return (x == self.end[:, 0]) & (x == np.round(x))

    def some(self, which: Bool[np.ndarray, " piece"]) -> "Pieces":
        """Return the marked pieces."""
        return Pieces(*(each[which] for each in (self.start, self.end, self.loop, self.place, self.cell)))


def split_loops(region: Region, grid: Grid, arcs: Sequence[Arc] = ()) -> Pieces:
    """Split the loops of a domain at vertices, grid lines and the ends of arcs."""
    loops = region.loops
    number = np.repeat(np.arange(len(loops)), [len(loop.points) for loop in loops])
    points = _snapped(np.concatenate([loop.points for loop in loops]) / grid.h)
    outside = ((points < 0) | (points > [grid.width, grid.height])).any(axis=1)
    if outside.any():
        raise DisolError(
            f"Loop {number[outside][0]} leaves the grid, which covers [0, {grid.width * grid.h:g}] x [0, 1]. "
            "Scale or move the domain."
        )
    successor = _next_in_loop(number)
    step = points[successor] - points
    # Start and length of each side, as fractions of the length of its loop.
    fraction = np.concatenate([loop.arc_lengths[:-1] / loop.arc_lengths[-1] for loop in loops])
    share = np.concatenate([np.diff(loop.arc_lengths) / loop.arc_lengths[-1] for loop in loops])

    splits = [(np.arange(len(points)), np.zeros(len(points)), points)]  # side, share of it before the point, point
    for axis in (0, 1):
        one, other = points[:, axis], points[successor, axis]
        first, last = np.floor(np.minimum(one, other)) + 1, np.ceil(np.maximum(one, other)) - 1  # lines between them
        count = np.maximum(last - first + 1, 0).astype(int)
        side = np.repeat(np.arange(len(points)), count)
        line = first[side] + np.arange(len(side)) - np.repeat(np.cumsum(count) - count, count)
        t = (line - one[side]) / step[side, axis]
        crossing = _snapped(points[side] + t[:, None] * step[side])
        crossing[:, axis] = line
        splits.append((side, t, crossing))
    breaks = {(arc.loop, end % 1.0) for arc in arcs if arc.end - arc.start < 1 for end in (arc.start, arc.end)}
    for loop, end in sorted(breaks):
        own = np.flatnonzero(number == loop)
        side = own[np.searchsorted(fraction[own], end, side="right") - 1]
        t = (end - fraction[side]) / share[side]
        splits.append((side[None], t[None], (points[side] + t * step[side])[None]))
    side, t, split = (np.concatenate(each) for each in zip(*splits, strict=True))
    order = np.lexsort((t, side))
    side, t, split = side[order], t[order], split[order]
    place = fraction[side] + t * share[side]

    following = _next_in_loop(number[side])
    # The end of an arc that nearly coincides with another point is moved to it.
    is_break = order >= len(order) - len(breaks)
    for beside in (np.argsort(following), following):
        near = is_break & (np.abs(split - split[beside]) < SNAP).all(axis=1)
        split[near] = split[beside[near]]
    middle = (place + 0.5 * ((place[following] - place) % 1.0)) % 1.0
    kept = (split != split[following]).any(axis=1)
    start, end = split[kept], split[following][kept]
    return Pieces(start, end, number[side][kept], middle[kept], _cells(start, end))


def _next_in_loop(loop: Int[np.ndarray, " item"]) -> Int[np.ndarray, " item"]:
    """Return the next item of each, the first after the last of a loop; items of a loop must be consecutive."""
    last = np.append(np.flatnonzero(np.diff(loop)), len(loop) - 1)
    following = np.arange(1, len(loop) + 1)
    following[last] = np.append(0, last[:-1] + 1)
    return following


def _snapped(points: Points) -> Points:
    whole = np.round(points)
    return np.where(np.abs(points - whole) < SNAP, whole, points)


def _cells(start: Points, end: Points) -> Int[np.ndarray, "piece 2"]:
    dx, dy = (end - start).T
    along_line = (start == end) & (start == np.round(start))
    on_low_side = np.stack([-dy, dx], axis=1) < 0  # the inward normal points to smaller coordinates
    return np.where(along_line, start - on_low_side, np.floor(0.5 * (start + end))).astype(int)


def green(start: Points, end: Points, cell: Points | Int[np.ndarray, "piece 2"]) -> Float[np.ndarray, "piece 4 4"]:
    """∫ x^(a+1) y^b / (a+1) dy along each piece, in coordinates of its cell."""
    local = (start - cell)[:, None] + GAUSS_POINTS[:, None] * (end - start)[:, None]
    powers = local[..., None] ** np.arange(DEGREE + 1)
    weights = GAUSS_WEIGHTS * (end - start)[:, 1:]
    x, y = powers[:, :, 0, 1:] / np.arange(1, DEGREE + 1), powers[:, :, 1, :DEGREE] * weights[..., None]
    return x.transpose(0, 2, 1) @ y


def shifted(
    moments: Float[np.ndarray, "4 4"], step: Float[np.ndarray, "2"] | Int[np.ndarray, "2"]
) -> Float[np.ndarray, "4 4"]:
    """∫ (x + s)^a (y + t)^b from ∫ x^a y^b."""
    along, down = (
        np.array([[comb(a, i) * each ** (a - i) if i <= a else 0.0 for i in range(DEGREE)] for a in range(DEGREE)])
        for each in step.tolist()
    )
    return along @ moments @ down.T


@dataclass(frozen=True, eq=False)
class Covered:
    """How the pixels of a grid are covered by a domain.

    winding   1 where the top end of a pixel's right side, seen from within the pixel, is inside; 0 elsewhere
    cut       pixels with pieces of the boundary
    moments   ∫ x^a y^b over pixel ∩ domain for the cut pixels in reading order, from their top left corners
    right     length of each pixel's right side that is inside the domain, not only on its boundary
    below     the same for its bottom side
    """

    winding: Float[np.ndarray, "height width"]
    cut: Bool[np.ndarray, "height width"]
    moments: Float[np.ndarray, "cell 4 4"]
    right: Float[np.ndarray, "height width"]
    below: Float[np.ndarray, "height width"]

    @property
    def whole(self) -> Bool[np.ndarray, "height width"]:
        """Pixels that lie in the domain."""
        return (self.winding == 1) & ~self.cut


def cover(pieces: Pieces, grid: Grid) -> Covered:
    """Integrate over pixel ∩ domain by Green's theorem and one cumulative sum, whatever the topology.

    P = x^(a+1) y^b / (a+1) is 0 on the left side of a pixel, and dy = 0 on its top and bottom, so that

        ∫ x^a y^b = Σ over pieces of ∫ P dy + ∫ over its right side of χ P(1, y) dy,

    where χ(y) is the winding number just left of that side: the signs of all crossings above y, added up along the
    grid line. Thin walls, holes inside one pixel, corners and sides along grid lines need no special treatment.
    """
    winding, ends_right = _along_columns(pieces, grid)
    flat = pieces.cell[:, 1] * grid.width + pieces.cell[:, 0]
    cut = np.bincount(flat, minlength=grid.height * grid.width) > 0
    cells = np.flatnonzero(cut)
    number = np.cumsum(cut) - 1
    # A piece along a vertical grid line adds nothing: χ accounts for it.
    on_line = pieces.on_columns
    curved = green(pieces.start[~on_line], pieces.end[~on_line], pieces.cell[~on_line])
    moments = winding.reshape(-1)[cells, None, None] * WHOLE
    moments += add_up(number[flat[~on_line]], curved, len(cells))
    moments += add_up(number[ends_right.cell], ends_right.inside[:, None, :] * WHOLE, len(cells))
    right = _open_sides(winding, ends_right, pieces, grid)
    # Mirrored at the diagonal, bottom sides are right sides; mirrored loops run the other way round.
    mirrored = replace(pieces, start=pieces.end[:, ::-1], end=pieces.start[:, ::-1], cell=pieces.cell[:, ::-1])
    turned = Grid(grid.width, grid.height)
    below = _open_sides(*_along_columns(mirrored, turned), mirrored, turned).T
    return Covered(winding, cut.reshape(grid.pixels), moments, right, below)


@dataclass(frozen=True, eq=False)
class _Ends:
    """Ends of pieces on the right sides of their pixels: the pixel, and the signed 1 − y^(b+1), b < 4, of each."""

    cell: Int[np.ndarray, " end"]
    inside: Float[np.ndarray, "end 4"]


def _along_columns(pieces: Pieces, grid: Grid) -> tuple[Float[np.ndarray, "height width"], _Ends]:
    """Sum up crossings of vertical grid lines from the top: where pieces arrive from the left, the domain begins."""
    moves = pieces.start[:, 0] != pieces.end[:, 0]
    cells, heights, signs = [], [], []
    for point, one in ((pieces.end, 1.0), (pieces.start, -1.0)):
        hits = moves & (point[:, 0] == pieces.cell[:, 0] + 1)
        cells.append(pieces.cell[hits] @ [1, grid.width])
        heights.append(point[hits, 1] - pieces.cell[hits, 1])
        signs.append(np.full(int(hits.sum()), one))
    cell, height, sign = (np.concatenate(each) for each in (cells, heights, signs))
    jumps = np.bincount(cell + grid.width, sign, (grid.height + 1) * grid.width)
    winding = np.cumsum(jumps.reshape(-1, grid.width), axis=0, dtype=float)[:-1]
    return winding, _Ends(cell, sign[:, None] * (1 - height[:, None] ** np.arange(1, DEGREE + 1)))


def _open_sides(
    winding: Float[np.ndarray, "height width"],
    ends: _Ends,
    pieces: Pieces,
    grid: Grid,
) -> Float[np.ndarray, "height width"]:
    """∫ χ over the right side of every pixel, minus the length of the pieces along it that bound the domain."""
    bounding = pieces.on_columns & (pieces.start[:, 0] == pieces.cell[:, 0] + 1)
    cells = np.concatenate([ends.cell, pieces.cell[bounding] @ [1, grid.width]])
    lengths = np.concatenate([ends.inside[:, 0], -pieces.length[bounding]])
    return winding + np.bincount(cells, lengths, winding.size).reshape(winding.shape)


def add_up(
    index: Int[np.ndarray, " item"], values: Float[np.ndarray, "item *shape"], size: int
) -> Float[np.ndarray, "{size} *shape"]:
    """Add up the values for each index below `size`."""
    width = int(np.prod(values.shape[1:]))
    flat = index[:, None] * width + np.arange(width)
    total = np.bincount(flat.reshape(-1), values.reshape(-1), size * width).astype(float, copy=False)  # int if empty
    return total.reshape(size, *values.shape[1:])
