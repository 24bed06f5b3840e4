"""Drawing a case: a pure function of (seed, index)."""

from dataclasses import dataclass
from functools import partial
from zlib import crc32

import numpy as np
from jaxtyping import Float32

from disol.channels import ChannelLayout
from disol.geometry import Geometry, Raster
from disol.grid import Grid
from disol.problems import checks
from disol.problems.checks import Unchecked
from disol.problems.distribution import FACTORS, Shift, describe_shift, read_shift, shifted
from disol.problems.problem import Markers, Problem, Sketch, Terms
from disol.problems.table import find_conventions, find_problem

SMALLEST_RESOLUTION = 16
LARGEST_RESOLUTION = 4096  # 17 million pixels, more than a direct solver has memory for


@dataclass(frozen=True, eq=False)
class Case:
    """One drawn problem on one grid.

    equation   the problem itself, `problem` its name
    inputs     the stacked input channels, named by `channels`
    terms      the same data as `solve_exact` takes them: masks, forces, and sources as functions
    geometry   the curves that every resolution of this case is made from
    sketch     the markers and fields, likewise
    """

    equation: Problem
    seed: int
    index: int
    shift: str | None
    conventions: str
    resolution: int
    channels: ChannelLayout
    inputs: Float32[np.ndarray, "channel height width"]
    terms: Terms
    geometry: Geometry
    sketch: Sketch

    @property
    def problem(self) -> str:
        """Name of the problem."""
        return self.equation.name

    def channel(self, name: str) -> Float32[np.ndarray, "height width"]:
        """Return the input channel called `name`."""
        return self.channels.select(self.inputs, name)


def draw(
    problem: str | Problem | Unchecked,
    seed: int | Unchecked = 0,
    index: int | Unchecked = 0,
    *,
    resolution: int | Unchecked | None = None,
    shift: Shift | Unchecked = None,
    conventions: str | Unchecked = "paper",
    alpha: float | Unchecked = 0.8,
) -> Case:
    """Draw case `index` of the sequence `seed`.

    resolution    pixels along a side, the problem's own unless given; every resolution shows the same case
    shift         the way out of the training distribution: "topology", "boundary", "source", several with commas,
                  "all", or "shape:arrow" ("shape:arrow+hole" with its hole and both other factors); sizes as in
                  "topology=0.3" or {"topology": 0.3, "boundary": 5, "source": 8}, drawn between two as in
                  "topology=0.2..0.3" or {"topology": (0.2, 0.3)}
    conventions   "paper" or "published"
    alpha         how closely the outline hugs its random points, from 0 (convex) to 1
    """
    equation = find_problem(problem)
    rules = find_conventions(conventions)
    streams = partial(random_stream, checks.whole_number("seed", seed), checks.whole_number("index", index))
    side = equation.resolution if resolution is None else checks.whole_number("resolution", resolution)
    if not SMALLEST_RESOLUTION <= side <= LARGEST_RESOLUTION:
        raise ValueError(
            f"resolution must lie in [{SMALLEST_RESOLUTION}, {LARGEST_RESOLUTION}], got {side}. "
            f"Use {max(equation.resolution, SMALLEST_RESOLUTION)}."
        )
    distribution = shifted(shift, alpha)
    for factor in FACTORS:
        if factor in read_shift(shift) and factor not in equation.shifts:
            raise ValueError(f"{equation.name} has no {factor} to shift. Use {', '.join(equation.shifts)} or all.")
    geometry = distribution.draw_geometry(streams("outline"), streams("hole"))
    own = Raster(geometry, Grid(equation.resolution, equation.resolution))
    sketch = equation.draw(streams, own, distribution, rules)
    raster = own if side == equation.resolution else Raster(geometry, Grid(side, side))
    terms = {"domain": raster.mask}
    for name, drawn in sketch.items():
        terms[name] = drawn.on(raster) if isinstance(drawn, Markers) else drawn
    return Case(
        equation,
        int(seed),
        int(index),
        describe_shift(shift),
        rules.name,
        side,
        equation.channels,
        equation.encode(terms, rules),
        terms,
        geometry,
        sketch,
    )


def random_stream(seed: int, index: int, purpose: str) -> np.random.Generator:
    """Return the generator of one purpose of one case.

    Each purpose has its own stream, so a factor that changes how a source is drawn leaves the outline alone.
    """
    return np.random.default_rng([seed, index, crc32(purpose.encode())])
