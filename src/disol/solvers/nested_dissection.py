"""An exact direct solver for many domains at once: nested dissection with boxes of equal shape.

The grid is cut into small boxes that are merged in pairs. Eliminating the interior unknowns of a box leaves a Schur
complement, a dense matrix on its ring. All boxes of one level have the same shape, so every step is one batched dense
operation over all boxes of all cases. Unknowns that are not free have zero rows and pivot 1.

Two things make it fast. Every pixel has the same element matrix, so boxes that look alike (outside a domain, deep
inside it, repeated geometries) have the same matrix, which is computed once. And large boxes drop the unknowns that
are not free, in groups of similar size.
"""

from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from disol.solvers.fronts import Elimination, Step, eliminate_leaves, eliminate_merged
from disol.solvers.operator import DiscreteOperator, Fields
from disol.solvers.partition import Partition, bordered_side, partition

DEFAULT = Elimination()

Vectors = Float[Tensor, "batch unknown load"]
BoxVectors = Float[Tensor, "_ _ load"]


@dataclass(frozen=True, eq=False)
class Factors:
    """A factorised batch of operators, to be solved for any number of loads."""

    partition: Partition
    free: Bool[Tensor, "batch component rows columns"]
    steps: tuple[Step, ...]

    @property
    def dtype(self) -> torch.dtype:
        """Precision of the factors."""
        return self.steps[0].left.dtype

    def unshared(self) -> "Factors":
        """Trade memory for speed where the same factors are used many times."""
        return replace(self, steps=tuple(step.unshared() for step in self.steps))

    @torch.no_grad()
    def solve(self, loads: Fields) -> Fields:
        """Solve A u = b in the precision of the factors; a last axis of `loads` may hold several per case."""
        loads = loads.to(self.dtype)
        if loads.ndim == 4:
            return self.solve(loads[..., None])[..., 0]
        vectors = self.partition.flatten(loads * self.free[..., None])
        return self.partition.unflatten(self._substitute(vectors, self._reduce(vectors)))

    def _reduce(self, loads: Vectors) -> list[BoxVectors]:
        """Eliminate level by level, y = R b_e and b_r ← b_r − Z y, and return y of each step."""
        reduced: list[BoxVectors] = []
        rings: dict[int, Float[Tensor, "every_box ring load"]] = {}
        for step in self.steps:
            if step.level not in rings:
                rings[step.level] = self._empty_rings(loads, step.level)
                rings.pop(step.level - 2, None)
            count = step.eliminated
            joined = self._join(step, rings)
            inner = loads[self._cases(step), step.unknowns[:, :count]]
            if joined is not None:
                inner += joined[:, :count]
            reduced.append(step.times(step.left, inner))
            if step.to_ring.shape[-1]:
                ring = step.times(step.from_ring, reduced[-1]).neg_()
                if joined is not None:
                    ring += joined[:, count:]
                places = step.places[:, count:] - self.partition.eliminated_at(step.level)
                rings[step.level][step.boxes[:, None], places] = ring
        return reduced

    def _join(
        self, step: Step, rings: dict[int, Float[Tensor, "every_box ring load"]]
    ) -> Float[Tensor, "box unknown load"] | None:
        """Sum the contributions of the two halves of each box to its unknowns."""
        if step.level == 0:
            return None
        merge = self.partition.merges[step.level - 1]
        grid = self.partition.boxes_at(step.level - 1)
        halves = rings[step.level - 1]
        first, second = merge.children(halves.view(-1, *grid, *halves.shape[1:]))
        boxes = step.boxes[:, None]
        joined = first.flatten(0, 2)[boxes, merge.first[step.places]]
        joined += second.flatten(0, 2)[boxes, merge.second[step.places]]
        return joined

    def _substitute(self, loads: Vectors, reduced: list[BoxVectors]) -> Vectors:
        """Substitute back from the whole grid to the smallest boxes: u_e = P (y − Y u_r)."""
        solution = torch.zeros_like(loads)
        for step, partial in zip(reversed(self.steps), reversed(reduced), strict=True):
            cases, count = self._cases(step), step.eliminated
            if step.to_ring.shape[-1]:
                partial.sub_(step.times(step.to_ring, solution[cases, step.unknowns[:, count:]]))
            solution[cases, step.unknowns[:, :count]] = step.times(step.right, partial)
        return solution

    def _cases(self, step: Step) -> Int[Tensor, "box 1"]:
        return step.boxes[:, None] // len(self.partition.unknowns_at(step.level))

    def _empty_rings(self, loads: Vectors, level: int) -> Float[Tensor, "every_box ring load"]:
        """Return zeros for the ring of every box, and one more entry to which absent unknowns point."""
        boxes, unknowns = self.partition.unknowns_at(level).shape
        ring = unknowns - self.partition.eliminated_at(level)
        return loads.new_zeros(len(loads) * boxes, ring + 1, loads.shape[-1])


@torch.no_grad()
def factorise(operator: DiscreteOperator, settings: Elimination = DEFAULT) -> Factors:
    """Factorise a batch of operators."""
    plan = partition_of(operator)
    free = plan.flatten(operator.free)
    symmetric = operator.is_symmetric
    front, steps = eliminate_leaves(plan, operator, free, symmetric, settings)
    for level, merge in enumerate(plan.merges, start=1):
        front, merged = eliminate_merged(level, merge, front, free, symmetric, settings)
        steps += merged
    return Factors(plan, operator.free, tuple(steps))


def partition_of(operator: DiscreteOperator) -> Partition:
    """Return the boxes of an operator's grid."""
    height, width = operator.mask.shape[1:]
    return partition(height, width, operator.components, operator.mask.device)


def bytes_per_case(operator: DiscreteOperator, dtype: torch.dtype, num_loads: int = 1) -> int:
    """Bound the memory one case needs, as if no box were shared and no unknown dropped."""
    plan = partition_of(operator)
    levels = [(*plan.unknowns_at(level).shape, plan.eliminated_at(level)) for level in range(len(plan.merges) + 1)]
    fronts = [boxes * bordered_side(size) ** 2 for boxes, size, _ in levels]
    # A merge holds the children, the merged matrices and the two terms of their sum.
    peak = max(child + 3 * merged for child, merged in pairwise(fronts)) * dtype.itemsize
    factors = sum(boxes * count * (3 * count + 2 * (size - count)) for boxes, size, count in levels)
    vectors = sum(boxes * size * (4 * num_loads + 2) for boxes, size, _ in levels)
    checks = operator.free[0].numel() * (12 * num_loads + 9 * operator.components)
    return peak + factors * dtype.itemsize + 8 * (vectors + checks)
