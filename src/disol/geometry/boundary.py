"""The boundary of a mask as loops of pixels, and contiguous segments of it."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int

from disol.errors import DisolError
from disol.geometry.curve import Geometry
from disol.grid import Grid, framed

# The sides of a pixel, clockwise from the top, each as (outward step, step along the side with the domain on
# its right), in (row, column).
SIDES = (((-1, 0), (0, 1)), ((0, 1), (1, 0)), ((1, 0), (0, -1)), ((0, -1), (-1, 0)))

Loop = Int[np.ndarray, "_ 2"]


def trace_boundary(mask: Bool[np.ndarray, "height width"]) -> list[Loop]:
    """Return the boundary pixels of a mask as closed loops of (row, column), the outer loop of each part first.

    Consecutive pixels touch (at a side or a corner); a strip one pixel wide is passed on both sides, so it appears
    twice.
    """
    loops = []
    for walk in trace_sides(mask):
        pixels = walk[:, 1:]
        moves = (pixels != np.roll(pixels, 1, axis=0)).any(axis=1)
        loops.append(pixels[moves] if moves.any() else pixels[:1])
    return loops


def trace_sides(mask: Bool[np.ndarray, "height width"]) -> list[Int[np.ndarray, "_ 3"]]:
    """Return the sides between marked and unmarked pixels as closed walks of (side, row, column), domain on the right.

    A side is numbered as in `SIDES`, and row and column are those of its marked pixel. Pixels that meet only at a
    corner count as separate. The outer walk of each part comes first.
    """
    frame = framed(mask)
    height, width = frame.shape
    pixels = height * width
    flat = frame.ravel()
    marked = np.flatnonzero(flat)
    border = marked[~(flat[marked - 1] & flat[marked + 1] & flat[marked - width] & flat[marked + width])]
    successors: dict[int, int] = {}
    for side, (outward, along) in enumerate(SIDES):
        out = outward[0] * width + outward[1]
        ahead = along[0] * width + along[1]
        here = border[~flat[border + out]]
        turns_right = ~flat[here + ahead]
        goes_straight = ~flat[here + ahead + out]
        following = np.where(
            turns_right,
            (side + 1) % 4 * pixels + here,
            np.where(goes_straight, side * pixels + here + ahead, (side - 1) % 4 * pixels + here + ahead + out),
        )
        successors.update(zip((side * pixels + here).tolist(), following.tolist(), strict=True))
    walks = []
    # The first top side in reading order lies on the outer loop, and dictionaries keep their order.
    for start in list(successors):
        walk, side = [], start
        while side in successors:
            walk.append(side)
            side = successors.pop(side)
        if walk:
            sides, visited = np.divmod(np.array(walk), pixels)
            rows, columns = np.divmod(visited, width)
            walks.append(np.stack([sides, rows - 1, columns - 1], axis=1))
    return walks


@dataclass(frozen=True)
class Segment:
    """A run along a boundary curve: starts at a fraction of its arc length and covers a fraction of its pixel loop."""

    start: float
    length: float
    curve: int = 0  # 0 is the outer curve, k the k-th hole

    def __post_init__(self) -> None:
        if not 0 < self.length <= 1:
            raise DisolError(f"The length of a segment must lie in (0, 1], as a share of its loop, got {self.length}.")


def run_along(loop: Loop, first: int, length: float) -> Loop:
    """Return a fraction `length` of a loop starting at pixel number `first`, wrapping around; at least one pixel."""
    count = max(1, round(length * len(loop)))
    return loop[(first + np.arange(count)) % len(loop)]


@dataclass(frozen=True, eq=False)
class Raster:
    """A geometry on one grid: its mask, its boundary loops, and segments marked on them."""

    geometry: Geometry
    grid: Grid

    @cached_property
    def mask(self) -> Bool[np.ndarray, "height width"]:
        """The pixels of the domain."""
        return self.geometry.mask(self.grid)

    @cached_property
    def loops(self) -> list[Loop]:
        """The boundary pixels, the outer loop first."""
        return trace_boundary(self.mask)

    def mark(self, segments: tuple[Segment, ...]) -> Bool[np.ndarray, "height width"]:
        """Mark the boundary pixels of the segments."""
        marked = np.zeros((self.grid.height, self.grid.width), dtype=bool)
        for segment in segments:
            rows, columns = self.pixels_of(segment).T
            marked[rows, columns] = True
        return marked

    def pixels_of(self, segment: Segment) -> Loop:
        """Return the run of boundary pixels that a segment covers."""
        x, y = self.geometry.curves[segment.curve].at(segment.start) / self.grid.h - 0.5
        outer, *holes = self.loops
        # A coarse grid can lose a hole or open it to the outside; its segment then goes to the nearest remaining loop.
        candidates = [outer] if segment.curve == 0 else holes or [outer]
        gaps = [np.hypot(loop[:, 0] - y, loop[:, 1] - x) for loop in candidates]
        nearest = int(np.argmin([gap.min() for gap in gaps]))
        return run_along(candidates[nearest], int(np.argmin(gaps[nearest])), segment.length)


def draw_segments(
    rng: np.random.Generator, count: int, length: tuple[float, float], curve: int = 0
) -> tuple[Segment, ...]:
    """Draw disjoint segments of one curve with uniform lengths; gaps share the rest, a fifth of it equally."""
    lengths = rng.uniform(*length, size=count)
    if lengths.sum() >= 1:
        raise DisolError(
            f"{count} segments of up to {length[1]} do not fit on one loop. Ask for fewer or shorter ones."
        )
    return spaced_segments(rng, lengths, curve)


def spaced_segments(
    rng: np.random.Generator, lengths: Float[np.ndarray, " segment"], curve: int = 0
) -> tuple[Segment, ...]:
    """Place segments of given lengths, which sum to less than 1, at random positions on one curve."""
    count, spare = len(lengths), 1.0 - lengths.sum()
    shares = rng.random(count)
    gaps = spare * (0.2 / count + 0.8 * shares / shares.sum())
    start = rng.random()
    segments = []
    for size, gap in zip(lengths, gaps, strict=True):
        segments.append(Segment(float(start % 1.0), float(size), curve))
        start += size + gap
    return tuple(segments)
