"""Mixtures: one of several kinds of a thing, each drawn as often as its weight says."""

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

Kind = TypeVar("Kind")


@dataclass(frozen=True)
class Mixture(Generic[Kind]):
    """Kinds with their weights, which need not sum to 1; where a kind can be drawn from, so can a mixture of them."""

    weighted: tuple[tuple[float, Kind], ...]

    def choose(self, rng: np.random.Generator) -> Kind:
        """Draw a kind."""
        ends = np.cumsum([weight for weight, _ in self.weighted])
        return self.weighted[int(np.searchsorted(ends[:-1], rng.random() * ends[-1], side="right"))][1]

    def draw(self, rng: np.random.Generator, *context: Any) -> Any:
        """Draw from a kind, as it draws itself."""
        kind: Any = self.choose(rng)
        return kind.draw(rng, *context)
