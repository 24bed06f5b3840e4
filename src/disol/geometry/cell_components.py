"""Connected components of pixel ∩ domain, where several runs of the boundary cross a pixel.

A run is a chain of pieces through one pixel, from side to side. Most boundary pixels have one, and so one component;
only the others are treated here, and thin ones, whose moments are more accurate from their outlines. Places on the
sides of a pixel are numbers in [0, 4): the top side from left to right is [0, 1), followed by the right, bottom and
left side, clockwise on the screen.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int

from disol.geometry.curve import Curve, next_points
from disol.geometry.pieces import Pieces, green, shifted
from disol.geometry.region import winds_around
from disol.grid import CORNERS, Grid

OFFSETS = np.array(CORNERS)[:, ::-1]  # of the corners of a pixel, clockwise from the top left, as (x, y)
FORWARD = np.array([(1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0)])  # along each side


@dataclass(eq=False)
class Component:
    """A connected component of pixel ∩ domain.

    outline   its outer boundary, relative to the top left corner of the pixel
    pieces    numbers of the pieces of loops on the outline and around its holes
    gaps      the parts of the outline on sides of the pixel, each from one place to another
    holes     the loops around its holes
    """

    outline: Curve
    pieces: list[int]
    gaps: list[tuple[float, float]]
    holes: list[Curve] = field(default_factory=list)

    @cached_property
    def moments(self) -> Float[np.ndarray, "4 4"]:
        """∫ x^a y^b over it."""
        # Relative to its own first point: for a sliver far from the corner, large numbers would cancel.
        points = self.outline.points
        origin = np.broadcast_to(points[0], points.shape)
        moments = shifted(green(points, next_points(points), origin).sum(axis=0), points[0])
        for hole in self.holes:
            moments += green(hole.points, next_points(hole.points), np.zeros_like(hole.points)).sum(axis=0)
        return moments

    def on_side(self, side: int) -> list[tuple[float, float]]:
        """Return the open intervals of a side (0 top, 1 right, 2 bottom, 3 left), along x or y."""
        found = []
        for start, stop in self.gaps:
            for lap in (float(side), side + 4.0):
                low, high = max(start, lap) - lap, min(stop, lap + 1) - lap
                if low < high:
                    found.append((low, high) if side < 2 else (1 - high, 1 - low))
        return found


def find_runs(pieces: Pieces) -> Bool[np.ndarray, " piece"]:
    """Mark the pieces that start a run: those that enter their pixel, or leave a side of it again.

    At a point on a side, two pieces belong to one run if the domain between them lies inside the pixel: if the angle
    from the clockwise direction along the side is smaller for the leaving piece than for the arriving one, reversed.
    """
    before = np.argsort(pieces.following)
    starts = (pieces.cell[before] != pieces.cell).any(axis=1)
    local = pieces.start - pieces.cell
    touches = np.flatnonzero(~starts & ((local == 0) | (local == 1)).any(axis=1))
    forward = FORWARD[perimeter(local[touches]).astype(int)]
    angles = []
    for way in (pieces.end - pieces.start)[touches], (pieces.start - pieces.end)[before[touches]]:
        cross = forward[:, 0] * way[:, 1] - forward[:, 1] * way[:, 0]
        angles.append(np.arctan2(np.abs(cross), (forward * way).sum(axis=1)))
    starts[touches] = angles[0] >= angles[1]
    return starts


def crowded(pieces: Pieces, starts: Bool[np.ndarray, " piece"], grid: Grid) -> Bool[np.ndarray, "height width"]:
    """Mark the pixels with several runs or closed loops."""
    closed = np.bincount(pieces.loop, starts) == 0
    first_of_loop = np.append(True, np.diff(pieces.loop) > 0)
    counted = starts | (first_of_loop & closed[pieces.loop])
    number = np.bincount(pieces.cell[counted] @ [1, grid.width], minlength=grid.height * grid.width)
    return (number > 1).reshape(grid.pixels)


def find_components(
    pieces: Pieces,
    starts: Bool[np.ndarray, " piece"],
    pixels: Bool[np.ndarray, "height width"],
    winding: Float[np.ndarray, "height width"],
) -> Iterator[tuple[tuple[int, int], list[Component]]]:
    """Yield row and column, and the components, of each marked pixel with pieces; `winding` is that of `Covered`."""
    flat = pieces.cell @ [1, pixels.shape[1]]
    inside = np.flatnonzero(pixels.reshape(-1)[flat])
    if not len(inside):
        return
    inside = inside[np.argsort(flat[inside], kind="stable")]
    for own in np.split(inside, np.flatnonzero(np.diff(flat[inside])) + 1):
        column, row = pieces.cell[own[0]].tolist()
        yield (row, column), _components(pieces, own, starts, surrounded=bool(winding[row, column] == 1))


def _components(
    pieces: Pieces, own: Int[np.ndarray, " own"], starts: Bool[np.ndarray, " piece"], surrounded: bool
) -> list[Component]:
    """Find the components of the pixel that contains the given pieces, which are ordered as in the loops.

    The outline of a component follows a run to a side of the pixel, the sides to the start of the next run, and so on.
    Without runs, `surrounded` says whether the sides of the pixel lie in the domain.
    """
    corner = pieces.cell[own[0]]
    runs = _chain(pieces, own, starts)
    through = [run for run in runs if starts[run[0]]]
    closed = [run for run in runs if not starts[run[0]]]
    begins = perimeter(pieces.start[[run[0] for run in through]] - corner).tolist()
    stops = perimeter(pieces.end[[run[-1] for run in through]] - corner).tolist()
    found = []
    unused = list(range(len(through)))
    while unused:
        first = here = unused.pop(0)
        group: list[int] = []
        points: list[np.ndarray] = []
        gaps = []
        while True:
            group += through[here]
            points += [pieces.start[through[here]] - corner, pieces.end[through[here][-1:]] - corner]
            stop = stops[here]
            gap = {run: (begins[run] - stop) % 4.0 or 4.0 for run in (first, *unused)}
            here = min(gap, key=gap.__getitem__)
            gaps.append((stop, stop + gap[here]))
            points.append(OFFSETS[np.arange(int(stop) + 1, int(np.ceil(stop + gap[here]))) % 4])
            if here == first:
                break
            unused.remove(here)
        found.append(Component(Curve(np.concatenate(points)), group, gaps))
    if not through and surrounded:
        found.append(Component(Curve(OFFSETS.astype(float)), [], [(0.0, 4.0)]))
    loops = [(run, Curve(pieces.start[run] - corner)) for run in closed]
    found += [Component(loop, run, []) for run, loop in loops if loop.signed_area > 0]
    for run, loop in loops:
        if loop.signed_area < 0:  # a hole inside the pixel belongs to the smallest component around it
            around = [part for part in found if winds_around(part.outline, loop.points[:1])[0]]
            owner = min(around or found, key=lambda part: part.outline.signed_area)
            owner.pieces.extend(run)
            owner.holes.append(loop)
    return found


def _chain(pieces: Pieces, own: Int[np.ndarray, " own"], starts: Bool[np.ndarray, " piece"]) -> list[list[int]]:
    """Chain the pieces of a pixel into runs, and the remaining ones into closed loops."""
    runs, unused = [], set(own.tolist())
    for first in sorted(unused, key=lambda piece: not starts[piece]):
        run: list[int] = []
        piece = first
        while piece in unused and not (run and starts[piece]):
            run.append(piece)
            unused.remove(piece)
            piece = int(pieces.following[piece])
        if run:
            runs.append(run)
    return runs


def perimeter(local: Float[np.ndarray, "point 2"]) -> Float[np.ndarray, " point"]:
    """Return the places, in [0, 4), of points on the sides of the unit square."""
    x, y = local.T
    return np.where(y == 0, x, np.where(x == 1, 1 + y, np.where(y == 1, 3 - x, 4 - y))) % 4.0
