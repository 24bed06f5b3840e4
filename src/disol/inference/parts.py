"""A user's loads as networks know them: sources of one sign and of size 1.

The problems are linear, so the solution of any load is a sum of solutions of such parts. Networks were trained on
sources between 0 and 1 and on forces of ±1; a source of another size is divided by it, and one that changes sign is
cut into f = f⁺ − f⁻. Source and initial field of a heat case share one size, as they share one solution: what matters
to its pattern is how large one is beside the other.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int

from disol.fields import Field, Source, at_nodes, at_pixels
from disol.grid import nodes_touching
from disol.problems import Posed
from disol.problems.problem import Terms
from disol.problems.scalar import ScalarProblem

SOURCES = ("source", "initial")
FORCES = ("force_x", "force_y")
# Of one part, or of each part of a batch.
Sizes = float | Float[np.ndarray, "part 1 1"]
Flags = bool | Bool[np.ndarray, "part 1 1"]
LEAST_SHARE = 0.05  # a side of a source that is smaller beside the other one is not worth a prediction of its own


@dataclass(frozen=True, eq=False)
class Parts:
    """How the loads of some cases are cut; the solution of a case is the sum of `weight` times that of its parts.

    owner      the case of each part, in ascending order
    weight     its size and sign
    one_sided  only what is positive after a division by the weight belongs to the part
    """

    owner: Int[np.ndarray, " part"]
    weight: Float[np.ndarray, " part"]
    one_sided: Bool[np.ndarray, " part"]

    def __len__(self) -> int:
        return len(self.owner)

    @staticmethod
    def joined(parts: Sequence["Parts"], num_cases: Sequence[int]) -> "Parts":
        """Put the parts of cases one after the other, given how many cases each have."""
        starts = np.cumsum([0, *num_cases[:-1]])
        return Parts(
            np.concatenate([start + each.owner for start, each in zip(starts, parts, strict=True)]),
            np.concatenate([each.weight for each in parts]),
            np.concatenate([each.one_sided for each in parts]),
        )

    def is_one_each(self, num_cases: int) -> bool:
        """Tell whether every case has just one part."""
        return np.array_equal(self.owner, np.arange(num_cases))

    def of_cases(self, start: int, stop: int) -> "Parts":
        """Return the parts of some cases, which are then counted from 0."""
        own = slice(*np.searchsorted(self.owner, [start, stop]))
        return Parts(self.owner[own] - start, self.weight[own], self.one_sided[own])


def whole_load() -> Parts:
    """Leave the load of one case as it is."""
    return Parts(np.zeros(1, dtype=int), np.ones(1), np.zeros(1, dtype=bool))


def split_loads(posed: Posed) -> Parts:
    """Cut the loads of one case or of a batch into parts as networks know them; no load has no parts."""
    sides = np.atleast_2d(sides_of(posed))
    kept = np.abs(sides) > LEAST_SHARE * np.abs(sides).max(axis=1, keepdims=True)
    owner, side = np.nonzero(kept)
    return Parts(owner, sides[owner, side], kept.sum(axis=1)[owner] > 1)


def sides_of(posed: Posed) -> Float[np.ndarray, "*batch side"]:
    """Return the largest force of each case, or the largest and the smallest value of its sources and 0."""
    forces = [posed.terms[name] for name in FORCES if name in posed.terms]
    if forces:
        sizes = [np.maximum(force.max(axis=(-2, -1)), -force.min(axis=(-2, -1))) for force in forces]
        return np.max(sizes, axis=0)[..., None]
    samples = [sampled(posed.terms[name], posed) for name in SOURCES if name in posed.terms]
    largest = np.max([values.max(axis=-1, initial=0.0) for values in samples], axis=0)
    return np.stack([largest, np.min([values.min(axis=-1, initial=0.0) for values in samples], axis=0)], axis=-1)


def sampled(source: Source, posed: Posed) -> Float[np.ndarray, "*batch sample"]:
    """Sample a source where drawing scales it; those of a batch, which have one value per pixel, are 0 elsewhere."""
    domain, equation = posed.terms["domain"], posed.equation
    if domain.ndim == 2:
        if isinstance(equation, ScalarProblem):
            return equation.scaling_samples(source, domain, posed.rules)
        return at_pixels(source, domain)[domain]
    if isinstance(equation, ScalarProblem) and equation.is_loaded_by_node(posed.rules):
        values = at_nodes(source, domain, nodes_touching(domain))
    else:
        values = at_pixels(source, domain)
    return values.reshape(len(domain), -1)


def terms_of_parts(terms: Terms, parts: Parts) -> Iterator[Terms]:
    """Yield the terms of parts: of a batch those of all parts in arrays, of one case those of one part at a time."""
    if terms["domain"].ndim == 3:
        own = terms if parts.is_one_each(len(terms["domain"])) else some_cases(terms, parts.owner)
        yield scale_loads(own, parts.weight[:, None, None], parts.one_sided[:, None, None])
    else:
        for weight, one_sided in zip(parts.weight.tolist(), parts.one_sided.tolist(), strict=True):
            yield scale_loads(terms, weight, one_sided)


def some_cases(terms: Terms, which: slice | Int[np.ndarray, " case"]) -> Terms:
    """Return the terms of some cases of a batch of arrays; what is no array belongs to all of them."""
    return {name: term[which] if isinstance(term, np.ndarray) else term for name, term in terms.items()}


def scale_loads(terms: Terms, size: Sizes, one_sided: Flags) -> Terms:
    """Divide loads by their size, and keep what is positive of those that are one-sided."""
    return terms | {name: scaled(terms[name], size, one_sided) for name in (*FORCES, *SOURCES) if name in terms}


def scaled(source: Source, size: Sizes, one_sided: Flags) -> Source:
    """Return f / size, or its positive part."""
    if not callable(source):
        return scaled_values(source, size, one_sided)
    assert isinstance(size, float)  # functions belong to single cases
    assert isinstance(one_sided, bool)
    if isinstance(source, Field) and not one_sided:
        return replace(source, scale=source.scale * size)  # stays a field, which is quicker to sample than a function
    return ScaledSource(source, size, one_sided)


@dataclass(frozen=True, eq=False)
class ScaledSource:
    """f / size, or its positive part."""

    source: Callable[[np.ndarray, np.ndarray], np.ndarray]
    size: float
    one_sided: bool

    def __call__(self, x: Float[np.ndarray, "..."], y: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        """Evaluate at points."""
        return scaled_values(np.asarray(self.source(x, y)), self.size, self.one_sided)


def scaled_values(values: Float[np.ndarray, "..."], size: Sizes, one_sided: Flags) -> Float[np.ndarray, "..."]:
    """Divide values by their size, and keep what is positive if they are one-sided."""
    divided = values / size
    return np.maximum(divided, np.where(one_sided, 0.0, -np.inf)) if np.any(one_sided) else divided
