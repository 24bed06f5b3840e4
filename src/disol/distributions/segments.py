"""Random boundary markers: one run of the outer loop, fragments, straight sides, parts of holes, whole loops."""

from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from disol.geometry import Geometry, Raster, Segment, draw_segments
from disol.geometry.boundary import spaced_segments
from disol.grid import Grid, nodes_touching

# If markers leave a node free on this grid, they do so on finer ones.
COARSEST = Grid(16, 16)
SHORTEST = 0.01  # of a loop: length of the shortest of several segments


@runtime_checkable
class SegmentKind(Protocol):
    """A kind of boundary marker."""

    def draw(self, rng: np.random.Generator, geometry: Geometry, /) -> tuple[Segment, ...]:
        """Draw the segments of one marker."""


@dataclass(frozen=True)
class SegmentSettings:
    """Segments of the outer loop, with their number and lengths, and with some probability one on a hole."""

    count: tuple[int, int] = (1, 1)
    length: tuple[float, float] = (0.1, 0.25)
    hole_probability: float = 0.0
    hole_length: tuple[float, float] = (0.1, 0.3)

    def draw(self, rng: np.random.Generator, geometry: Geometry) -> tuple[Segment, ...]:
        """Draw the segments of one marker."""
        count = int(rng.integers(self.count[0], self.count[1] + 1))
        # More than three fragments share the length of three, so that any number fits on a loop.
        crowding = min(1.0, 3 / count)
        segments = draw_segments(rng, count, (self.length[0] * crowding, self.length[1] * crowding))
        if geometry.holes and rng.random() < self.hole_probability:
            hole = 1 + int(rng.integers(len(geometry.holes)))
            segments += draw_segments(rng, 1, self.hole_length, curve=hole)
        return segments


@dataclass(frozen=True)
class SharedSegments:
    """Segments that together cover a share of each loop they lie on, from almost nothing to almost all of it.

    loops   the loops they may lie on; the outer one if there is no hole
    count   fewest and most segments in total
    share   smallest and largest share of a loop, drawn log-uniformly
    """

    loops: Literal["outer", "holes", "any"] = "outer"
    count: tuple[int, int] = (1, 6)
    share: tuple[float, float] = (0.01, 0.9)

    def draw(self, rng: np.random.Generator, geometry: Geometry) -> tuple[Segment, ...]:
        """Draw the segments of one marker; if they would leave no node free, a short one instead."""
        count = int(rng.integers(self.count[0], self.count[1] + 1))
        loops = choose_loops(rng, geometry, self.loops)[:count]
        owners = np.append(loops, rng.choice(loops, size=count - len(loops)))
        smallest, largest = self.share
        segments: tuple[Segment, ...] = ()
        for loop, pieces in zip(*np.unique(owners, return_counts=True), strict=True):
            share = smallest * (largest / smallest) ** rng.random()
            segments += spaced_segments(rng, split_length(rng, share, int(pieces)), int(loop))
        return segments if leaves_nodes_free(geometry, segments) else draw_segments(rng, 1, (0.1, 0.25))


@dataclass(frozen=True)
class WholeLoops:
    """Whole loops: the outer one, some of the holes, or both."""

    def draw(self, rng: np.random.Generator, geometry: Geometry) -> tuple[Segment, ...]:
        """Draw the segments of one marker; if they would leave no node free, a short one instead."""
        segments = tuple(Segment(rng.random(), 1.0, int(loop)) for loop in choose_loops(rng, geometry, "any"))
        return segments if leaves_nodes_free(geometry, segments) else draw_segments(rng, 1, (0.1, 0.25))


@dataclass(frozen=True)
class StraightSides:
    """Straight sides of the outer loop from corner to corner; a loop without straight sides gets one run instead.

    count   fewest and most sides, at most all but one
    """

    count: tuple[int, int] = (1, 2)
    shortest: float = 0.04  # of a loop; a shorter side counts as part of a curve

    def draw(self, rng: np.random.Generator, geometry: Geometry) -> tuple[Segment, ...]:
        """Draw the segments of one marker."""
        ends = geometry.outer.arc_lengths / geometry.outer.arc_lengths[-1]
        lengths = np.diff(ends)
        sides = np.flatnonzero(lengths >= self.shortest)
        if len(sides) < 3:
            return draw_segments(rng, 1, (0.02, 0.5))
        count = min(int(rng.integers(self.count[0], self.count[1] + 1)), len(sides) - 1)
        chosen = rng.choice(sides, size=count, replace=False)
        return tuple(Segment(float(ends[side]), float(lengths[side])) for side in chosen)


def choose_loops(rng: np.random.Generator, geometry: Geometry, among: Literal["outer", "holes", "any"]) -> list[int]:
    """Choose at least one loop to be marked, in random order."""
    loops = {"outer": [0], "holes": list(range(1, len(geometry.curves))), "any": list(range(len(geometry.curves)))}
    candidates = loops[among] or [0]
    count = int(rng.integers(1, len(candidates) + 1))
    return list(map(int, rng.permutation(candidates)[:count]))


def split_length(rng: np.random.Generator, length: float, pieces: int) -> Float[np.ndarray, " piece"]:
    """Split a length at random into pieces that are long enough to show on a grid."""
    shares = 0.1 + rng.random(pieces)
    return np.maximum(length * shares / shares.sum(), SHORTEST)


def leaves_nodes_free(geometry: Geometry, segments: tuple[Segment, ...]) -> bool:
    """Tell whether supports on these segments leave nodes free, on coarse grids too."""
    if sum(segment.length for segment in segments) < 0.5:
        return True
    raster = Raster(geometry, COARSEST)
    return bool((nodes_touching(raster.mask) & ~nodes_touching(raster.mark(segments))).any())
