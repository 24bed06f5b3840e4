"""The parts of the shift `released`: cases like those that the paper's authors released as out of distribution.

The outlines have the same positions and sizes, read off the masks; holes, boundary data and sources are random.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool

from disol._mixture import Mixture
from disol.distributions.segments import SegmentKind, SegmentSettings, SharedSegments
from disol.errors import DisolError
from disol.geometry import Curve, Geometry
from disol.geometry.curve import eroded
from disol.geometry.outline import HOLE_ALPHA, HOLE_JUDGED_ON, HOLE_POINTS, JUDGED_ON, WALL, draw_outline
from disol.geometry.placing import PlacedHoles, Placing
from disol.geometry.polygons import AroundCentre, Slot, area, middle
from disol.geometry.shapes import Polygon, star

MOST_TRIES = 200
OFF_CENTRE = 0.04  # largest distance of a central hole from the middle of its outline, along x and along y

# Vertices in pixels, of a 64 grid for the arrow and of a 128 grid for the others.
OUTLINES: tuple[Polygon, ...] = (
    np.array([(11, 24), (32, 24), (32, 11), (53, 33.5), (32, 56), (32, 43), (11, 43)]) / 64,
    np.array([(37, 40), (118, 40), (92, 86), (11, 86)]) / 128,
    np.array([(21, 25), (78, 25), (112, 62.5), (78, 100), (21, 100)]) / 128,
    star(16, 0.405, 0.3),
)


SHORT_HOLES = PlacedHoles(
    kind=Mixture(((0.5, AroundCentre(corners=(3, 3), radius=(0.6, 1.0))), (0.5, Slot()))),
    placing=Placing(turning=1.0),
    count=Mixture(((1.0, 1), (1.0, 2), (1.0, 3))),
    size=(0.1, 0.3),
)


@dataclass(frozen=True)
class CentralHole:
    """An outline with one random hole near its middle that takes a share of its area."""

    share: tuple[float, float] = (0.11, 0.26)
    coverage: tuple[float, float] = (0.16, 0.34)

    def draw(self, outline_rng: np.random.Generator, hole_rng: np.random.Generator) -> Geometry:
        """Draw a domain."""
        outer = Curve(OUTLINES[outline_rng.integers(len(OUTLINES))])
        room = eroded(outer.inside(JUDGED_ON), WALL)
        for _ in range(MOST_TRIES):
            shape = draw_outline(hole_rng, HOLE_POINTS, hole_rng.uniform(*HOLE_ALPHA), HOLE_JUDGED_ON).points
            shape = shape * np.sqrt(hole_rng.uniform(*self.share) * area(outer.points) / area(shape))
            centre = centroid(outer) + hole_rng.uniform(-OFF_CENTRE, OFF_CENTRE, size=2)
            geometry = Geometry(outer, (Curve(shape - middle(shape) + centre),))
            inside = geometry.holes[0].inside(JUDGED_ON)
            if not (inside & ~room).any() and covers(geometry, self.coverage):
                return geometry
        raise DisolError(f"No hole with a share of the area in {self.share} fits the outlines. Ask for smaller ones.")


@dataclass(frozen=True)
class SmallHoles:
    """An outline with one to three triangular or elongated holes."""

    holes: PlacedHoles = SHORT_HOLES
    coverage: tuple[float, float] = (0.19, 0.44)

    def draw(self, outline_rng: np.random.Generator, hole_rng: np.random.Generator) -> Geometry:
        """Draw a domain."""
        outer = Curve(OUTLINES[outline_rng.integers(len(OUTLINES))])
        for _ in range(MOST_TRIES):
            geometry = Geometry(outer, self.holes.draw(hole_rng, outer))
            if geometry.holes and covers(geometry, self.coverage):
                return geometry
        raise DisolError(f"No holes leave a coverage in {self.coverage}. Ask for smaller holes.")


def covers(geometry: Geometry, coverage: tuple[float, float]) -> bool:
    """Tell whether the share of the grid that a domain covers lies in an interval."""
    mask: Bool[np.ndarray, "height width"] = geometry.mask(JUDGED_ON)
    return bool(coverage[0] <= mask.mean() <= coverage[1])


def centroid(curve: Curve) -> np.ndarray:
    """Return the centroid of the pixels inside a curve."""
    rows, columns = np.nonzero(curve.inside(JUDGED_ON))
    return (np.array([columns.mean(), rows.mean()]) + 0.5) * JUDGED_ON.h


SUPPORTS: Mixture[SegmentKind] = Mixture(
    (
        (1.0, SharedSegments("outer", count=(2, 4), share=(0.5, 0.8))),
        (1.0, SegmentSettings(count=(5, 5), length=(1 / 60, 2 / 60))),  # 1 to 2 %: five share the length of three
        (1.0, SharedSegments("holes", count=(2, 2), share=(0.3, 0.7))),
    )
)
RUNS = SegmentSettings(length=(0.11, 0.3))
