"""A user's loads as networks know them: sources of one sign and of size 1.

The problems are linear, so the solution of any load is a sum of solutions of such parts. Networks were trained on
sources between 0 and 1 and on forces of ±1; a source of another size is divided by it, and one that changes sign is
cut into f = f⁺ − f⁻. Source and initial field of a heat case share one size, as they share one solution: what matters
to its pattern is how large one is beside the other.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from disol.fields import Field, Source, at_pixels
from disol.problems import Posed
from disol.problems.problem import Terms
from disol.problems.scalar import ScalarProblem

SOURCES = ("source", "initial")
FORCES = ("force_x", "force_y")
LEAST_SHARE = 0.05  # a side of a source that is smaller beside the other one is not worth a prediction of its own


@dataclass(frozen=True, eq=False)
class Part:
    """One load of a case; the solution of the case is the sum of `weight` times that of `terms`."""

    weight: float
    terms: Terms


@dataclass(frozen=True, eq=False)
class ScaledSource:
    """f / size, and its positive part alone if asked for."""

    source: Callable[[np.ndarray, np.ndarray], np.ndarray]
    size: float
    positive: bool

    def __call__(self, x: Float[np.ndarray, "..."], y: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        """Evaluate at points."""
        return scaled_values(np.asarray(self.source(x, y)), self.size, self.positive)


def split_load(posed: Posed) -> list[Part]:
    """Cut the load of a case into parts as networks know them; no load has no parts."""
    terms = posed.terms
    forces = {name: terms[name] for name in FORCES if name in terms}
    if forces:
        size = max(float(np.abs(force).max()) for force in forces.values())
        return [Part(size, terms | {name: force / size for name, force in forces.items()})] if size > 0 else []
    sources = {name: terms[name] for name in SOURCES if name in terms}
    samples = np.concatenate([sampled(source, posed) for source in sources.values()])
    sides = (float(samples.max(initial=0.0)), float(samples.min(initial=0.0)))
    kept = [side for side in sides if abs(side) > LEAST_SHARE * max(map(abs, sides))]
    return [
        Part(side, terms | {name: scaled(source, side, len(kept) > 1) for name, source in sources.items()})
        for side in kept
    ]


def sampled(source: Source, posed: Posed) -> Float[np.ndarray, " sample"]:
    """Sample a source where drawing scales it."""
    domain, equation = posed.terms["domain"], posed.equation
    if isinstance(equation, ScalarProblem):
        return equation.scaling_samples(source, domain, posed.rules)
    return at_pixels(source, domain)[domain]


def scaled(source: Source, size: float, positive: bool) -> Source:
    """Return f / size, or its positive part."""
    if isinstance(source, Field) and not positive:
        return replace(source, scale=source.scale * size)  # stays a field, which is quicker to sample than a function
    if callable(source):
        return ScaledSource(source, size, positive)
    return scaled_values(source, size, positive)


def scaled_values(values: Float[np.ndarray, "..."], size: float, positive: bool) -> Float[np.ndarray, "..."]:
    """Divide values by their size, and keep what is positive if asked for."""
    return np.maximum(values / size, 0.0) if positive else values / size
