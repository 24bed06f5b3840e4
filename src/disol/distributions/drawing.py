"""Drawing the terms of a problem, each from a random stream of its own."""

from collections.abc import Callable
from typing import Any
from zlib import crc32

import numpy as np

from disol._terms import FORCE, SUPPORT, TIMES, terms_of_kind
from disol.distributions.distribution import Distribution
from disol.geometry import Raster
from disol.grid import nodes_touching
from disol.problems.conventions import Conventions
from disol.problems.problem import Markers, Problem

# A drawn case before it is put on a grid: markers as segments, fields as functions.
Sketch = dict[str, Any]
Streams = Callable[[str], np.random.Generator]

MOST_TRIES = 100
LEAST_LOADED = 0.25  # share of the loaded nodes that must be free to move


def random_stream(seed: int, index: int, purpose: str) -> np.random.Generator:
    """Return the random generator for one purpose in one case.

    Each purpose has its own stream, so a factor that changes how a source is drawn does not change the outline.
    """
    return np.random.default_rng([seed, index, crc32(purpose.encode())])


def draw_terms(
    problem: Problem, streams: Streams, raster: Raster, distribution: Distribution, conventions: Conventions
) -> Sketch:
    """Draw the terms of a case; `raster` is its geometry on the problem's own grid, on which fields are scaled."""
    supports = terms_of_kind(problem.terms, SUPPORT)
    loads = [term for term in problem.terms if term.kind.is_load]
    sizes = dict.fromkeys((term.name for term in loads), 1.0)
    if len(loads) == 2:
        sizes = dict(zip(sizes, distribution.draw_sizes(streams("sizes")), strict=True))
    clamped = len(supports) > 1 and distribution.is_clamped(streams("clamped"))
    sketch: Sketch = {}
    for term in problem.terms[1:]:
        rng = streams(term.channel)
        if term.kind is SUPPORT:
            own = streams(supports[0].channel) if clamped else rng
            sketch[term.name] = Markers(distribution.segments.draw(own, raster.geometry))
        elif term.kind is FORCE:
            held = [sketch[support.name] for support in supports if support.component in (None, term.component)]
            force = _draw_force(rng, raster, distribution, held)
            # Files store only the signs of forces, so a force that would be smaller is left out.
            sketch[term.name] = force if sizes[term.name] == 1 else Markers((), 0.0)
        elif term.kind is TIMES:
            times = [time for time in problem.times if time <= distribution.last_time]
            sketch[term.name] = (float(times[rng.integers(len(times))]),)
        else:
            field = distribution.fields.draw(rng, raster.mask)
            scaled = field.scaled_to_unit(problem.scaling_samples(field, raster.mask, conventions))
            sketch[term.name] = scaled.times(sizes[term.name]) if sizes[term.name] != 1 else scaled
    return sketch


def _draw_force(rng: np.random.Generator, raster: Raster, distribution: Distribution, held: list[Markers]) -> Markers:
    """Draw a force of +1 or −1 on segments of which supports of its component leave enough nodes free."""
    pinned = nodes_touching(np.logical_or.reduce([markers.on(raster) for markers in held]))
    for _ in range(MOST_TRIES):
        segments = distribution.draw_forces(rng, raster.geometry)
        force = Markers(segments, force=float(rng.choice([-1.0, 1.0])))
        loaded = nodes_touching(raster.mark(segments))
        if (loaded & ~pinned).sum() >= LEAST_LOADED * loaded.sum():
            break
    return force
