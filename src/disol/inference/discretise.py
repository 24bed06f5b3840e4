"""The parts of the loads of some cases, discretised and taken to a device."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Float32, Int
from torch import Tensor

from disol.fem import ELEMENTS, System
from disol.inference.block import Block, empty_channels, with_batch_axis
from disol.inference.parts import Parts, terms_of_parts
from disol.problems.heat import HeatProblem
from disol.solvers import DiscreteOperator, from_batch
from disol.solvers.operator import trailing


@dataclass(frozen=True, eq=False)
class DiscreteParts:
    """What is predicted from, and solved, for every part.

    channels    as networks take them
    loads       b, by node
    initial     of a transient problem, U₀ by node
    owner       the case that a part belongs to, of `num_cases`
    weight      what the solution of a part is multiplied by, relative to `scale`; None where every case has one part
    scale       what the sum of a case is multiplied by: the weight of its first part
    """

    channels: Float32[np.ndarray, "part channel height width"]
    operator: DiscreteOperator
    loads: Float[Tensor, "part field rows columns"]
    initial: Float[Tensor, "part field rows columns"] | None
    owner: Int[Tensor, " part"]
    weight: Float[Tensor, " part"] | None
    scale: Float[Tensor, " case"]

    @property
    def num_cases(self) -> int:
        """Number of cases, those without a load included."""
        return len(self.scale)

    def add_up(self, values: Float[Tensor, "part *shape"]) -> Float[Tensor, "case *shape"]:
        """Σ weight × value over the parts of each case."""
        if self.weight is None:
            return values
        weighed = trailing(self.weight, values) * values
        return weighed.new_zeros(self.num_cases, *values.shape[1:]).index_add_(0, self.owner, weighed)

    def by_case(self, values: Float[Tensor, "part *shape"]) -> Float[Tensor, "case place *shape"]:
        """Give the parts of each case places of its own, 0 where it has fewer than others."""
        if self.weight is None:
            return values[:, None]
        place = torch.arange(len(self.owner), device=self.owner.device) - torch.searchsorted(self.owner, self.owner)
        placed = values.new_zeros(self.num_cases, int(place.max()) + 1, *values.shape[1:])
        placed[self.owner, place] = values
        return placed


def discretise(blocks: Sequence[Block], device: torch.device) -> DiscreteParts:
    """Discretise all parts, by bilinear elements, which models are trained with."""
    equation, rules, grid = blocks[0].posed.equation, blocks[0].posed.rules, blocks[0].posed.grid
    element = ELEMENTS["q1"](grid.h)
    parts = Parts.joined([block.parts for block in blocks], [len(block) for block in blocks])
    channels, done = empty_channels(blocks[0].posed, len(parts)), 0
    operators, loads, initial = [], [], []
    for block in blocks:
        for terms in terms_of_parts(block.posed.terms, block.parts):
            operator, load = on_device(equation.system(terms, rules, element), device)
            operators.append(operator)
            loads.append(load)
            channels[done : done + len(load)] = equation.encode(terms, rules)
            done += len(load)
            if isinstance(equation, HeatProblem):
                initial.append(torch.from_numpy(with_batch_axis(equation.initial_nodes(terms), 4)).to(load))
    scale, one_each = np.zeros(sum(map(len, blocks))), parts.is_one_each(sum(map(len, blocks)))
    cases, first = np.unique(parts.owner, return_index=True)
    scale[cases] = parts.weight[first]
    return DiscreteParts(
        channels,
        join_operators(operators),
        torch.cat(loads),
        torch.cat(initial) if initial else None,
        torch.from_numpy(parts.owner).to(device),
        None if one_each else torch.from_numpy(parts.weight / scale[parts.owner]).to(device),
        torch.from_numpy(scale).to(device),
    )


def on_device(
    system: System, device: torch.device
) -> tuple[DiscreteOperator, Float[Tensor, "part field rows columns"]]:
    """Take the systems of some parts to a device."""
    mask, free, load = with_batch_axis(system.mask, 3), with_batch_axis(system.free, 4), with_batch_axis(system.load, 4)
    return from_batch(System(mask, system.element_matrix, free, load), device)


def join_operators(operators: Sequence[DiscreteOperator]) -> DiscreteOperator:
    """Put the cases of operators with the same element matrix one after the other."""
    masks, free = ([getattr(each, name) for each in operators] for name in ("mask", "free"))
    return DiscreteOperator(torch.cat(masks), torch.cat(free), operators[0].element_matrix)
