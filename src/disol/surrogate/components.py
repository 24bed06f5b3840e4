"""Load components: a user's loads as networks know them, of one sign and of size 1.

The problems are linear, so the solution of any load is a sum of solutions of such components. Networks were trained on
sources between 0 and 1 and on forces of ±1; a load of another size is divided by it, and a source that changes sign is
split into its positive and its negative part, f = f⁺ − f⁻. The source and the initial field of a transient case share
one size, since they share one solution, whose pattern depends on their ratio.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32, Int
from torch import Tensor

from disol._arrays import Array, is_tensor, namespace_of, to_numpy
from disol.cases import Case
from disol.fields import Field

LEAST_SHARE = 0.05  # of the larger sign of a source: if the other one is smaller, it is not worth its own prediction


@dataclass(frozen=True, eq=False)
class LoadComponents:
    """What networks see instead of the loads of a batch: a zero load has no component, most have one, some have two.

    owner    the case of each component, in ascending order
    inputs   its channels
    """

    owner: Int[Tensor, " component"]
    inputs: Float32[Tensor, "component channel height width"]

    def by_case(self, values: Float[Tensor, "component *shape"], num_cases: int) -> Float[Tensor, "case place *shape"]:
        """Arrange values of components by case, with 0 where a case has fewer components than others."""
        if len(values) == num_cases and bool((self.owner == torch.arange(num_cases, device=self.owner.device)).all()):
            return values[:, None]
        place = torch.arange(len(self.owner), device=self.owner.device) - torch.searchsorted(self.owner, self.owner)
        placed = values.new_zeros(num_cases, int(place.max()) + 1, *values.shape[1:])
        placed[self.owner, place] = values
        return placed


def split_loads(case: Case, device: torch.device) -> LoadComponents:
    """Split the loads of one case or of a batch into components, on the device of a network."""
    if case.is_drawn:  # drawing has scaled the loads already, by samples that all resolutions of a case share
        inputs = case.inputs if case.is_batch else case.inputs[None]
        return LoadComponents(torch.arange(len(inputs), device=device), _on_device(inputs, device))
    placed = case.on(device) if case.is_batch else case
    extremes = _extremes(placed)
    sizes = np.abs(extremes)
    if sizes.max() > np.finfo(np.float32).max:
        _ = case.inputs  # raises an error that says which load is too large for a network
    kept = sizes > LEAST_SHARE * sizes.max(axis=1, keepdims=True)
    owner, side = map(np.ascontiguousarray, np.nonzero(kept))
    size, one_signed = extremes[owner, side], kept.sum(axis=1)[owner] > 1
    if is_tensor(placed.domain):
        inputs = _scaled(placed, owner, size, one_signed).inputs
    else:
        cases = list(case) if case.is_batch else [case]
        scales = zip(owner, size.tolist(), one_signed.tolist(), strict=True)
        each = [_scaled_one(cases[number], *scale).inputs for number, *scale in scales]
        inputs = np.stack(each) if each else np.zeros((0, len(case.channels), *case.grid.pixels), np.float32)
    return LoadComponents(torch.from_numpy(owner).to(device), _on_device(inputs, device))


def _on_device(inputs: Float32[Array, "*shape"], device: torch.device) -> Float32[Tensor, "*shape"]:
    """Move channels to the device of a network, unless they are there."""
    return torch.as_tensor(inputs, device=device)


def _extremes(case: Case) -> Float[np.ndarray, "case side"]:
    """Return the largest force of each case, or the largest and the smallest value of its sources, 0 included."""
    loads = [term for term in case.problem.terms if term.kind.is_load]
    if all(term.kind.has_sign for term in loads):
        xp = namespace_of(case.domain)
        sizes = [to_numpy(xp.amax(abs(case.terms[term.name]), axis=(-2, -1))) for term in loads]
        return np.max(sizes, axis=0).reshape(-1, 1)
    samples = [
        case.problem.scaling_samples(case.terms[term.name], case.domain, case.conventions)
        for term in loads
        if not term.kind.has_sign
    ]
    largest = np.max([to_numpy(namespace_of(each).amax(each, axis=-1)) for each in samples], axis=0)
    smallest = np.min([to_numpy(namespace_of(each).amin(each, axis=-1)) for each in samples], axis=0)
    return np.stack([np.maximum(largest, 0.0).reshape(-1), np.minimum(smallest, 0.0).reshape(-1)], axis=1)


def _scaled(
    case: Case,
    owner: Int[np.ndarray, " component"],
    size: Float[np.ndarray, " component"],
    one_signed: Bool[np.ndarray, " component"],
) -> Case:
    """Divide the loads of a batch of tensors by their sizes, and keep the positive part of those that are split."""
    is_whole = np.array_equal(owner, np.arange(len(case)))
    which, divisor, cut = (
        torch.from_numpy(values).to(case.domain.device)
        for values in (owner, size[:, None, None], one_signed[:, None, None])
    )
    terms: dict[str, Any] = {}
    for term in case.problem.terms:
        value = case.terms[term.name]
        if is_tensor(value) and not is_whole:
            value = value[which]
        if term.kind.is_load:
            value = value / divisor
            if one_signed.any():
                value = torch.where(cut & (value < 0), 0.0, value)
        terms[term.name] = value
    return Case(case.problem, case.conventions, terms)


def _scaled_one(case: Case, size: float, one_signed: bool) -> Case:
    """Divide the loads of one case, which may be functions, by their common size."""
    terms = dict(case.terms)
    for term in case.problem.terms:
        if term.kind.is_load:
            value = terms[term.name]
            if isinstance(value, Field) and not one_signed:
                terms[term.name] = replace(value, scale=value.scale * size)  # quicker to sample than a function
            elif callable(value):
                terms[term.name] = _ScaledSource(value, size, one_signed)
            else:
                terms[term.name] = _scaled_values(value, size, one_signed)
    return Case(case.problem, case.conventions, terms)


@dataclass(frozen=True, eq=False)
class _ScaledSource:
    """f / size, or its positive part."""

    source: Callable[[np.ndarray, np.ndarray], np.ndarray]
    size: float
    one_signed: bool

    def __call__(self, x: Float[np.ndarray, "..."], y: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        """Evaluate at points."""
        return _scaled_values(np.asarray(self.source(x, y)), self.size, self.one_signed)


def _scaled_values(values: Float[np.ndarray, "..."], size: float, one_signed: bool) -> Float[np.ndarray, "..."]:
    divided = values / size
    return np.maximum(divided, 0.0) if one_signed else divided
