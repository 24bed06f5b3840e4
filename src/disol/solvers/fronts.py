"""Multifrontal elimination of one level: assemble the fronts, eliminate interior dofs, keep the Schur complement."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad

from disol.solvers.compaction import choose_unknowns
from disol.solvers.operator import DiscreteOperator
from disol.solvers.partition import Merge, Partition, bordered_side
from disol.solvers.pivots import inverse_factors
from disol.solvers.sharing import Key, Kinds, pattern_keys, share_boxes

Matrices = Float[Tensor, "matrix side side"]
Table = Int[Tensor, "_ _"]  # one row for all matrices, or one for each
Free = Bool[Tensor, "batch unknown"]


@dataclass(frozen=True)
class Elimination:
    """Settings of the direct solver; they change its speed, not its solution.

    base       largest pivot block that is left to a library routine
    shared     boxes that look alike are computed once, if less than this fraction of all boxes are distinct
    compact    boxes that eliminate at least this many unknowns drop those that are not free
    groups     number of groups of similar size into which these boxes are sorted
    compiled   whether the merging of boxes is compiled, which pays if many batches are solved
    """

    base: int = 64
    shared: float = 0.75
    compact: int = 15
    groups: int = 2
    compiled: bool = False


@dataclass(frozen=True, eq=False)
class Front:
    """The matrices of one level after elimination.

    matrices    bordered by zeros, to which absent unknowns point
    slots       the row of each unknown of the ring, and last the row of an absent one
    matrix_of   number of the matrix of each box of each case
    """

    matrices: Matrices
    slots: Table
    matrix_of: Int[Tensor, "batch box_rows box_columns"]


@dataclass(frozen=True, eq=False)
class Step:
    """What is kept of the elimination of a group of boxes, to solve with: A_ee⁻¹ = P R, Y = R A_er, Z = A_re P.

    level       0 for the smallest boxes
    boxes       numbers of the boxes, counted over all cases
    unknowns    of each box, the eliminated ones first
    places      of these unknowns among all of a box of this level; one row for all boxes, or one for each
    matrix_of   number of the matrix of each box, None if each has its own
    """

    level: int
    boxes: Int[Tensor, " box"]
    unknowns: Int[Tensor, "box unknown"]
    places: Table
    matrix_of: Int[Tensor, " box"] | None
    left: Float[Tensor, "matrix eliminated eliminated"]
    right: Float[Tensor, "matrix eliminated eliminated"]
    to_ring: Float[Tensor, "matrix eliminated ring"]
    from_ring: Float[Tensor, "matrix ring eliminated"]

    @property
    def eliminated(self) -> int:
        """Number of unknowns that each box eliminates."""
        return self.left.shape[-1]

    def times(
        self, matrices: Float[Tensor, "matrix rows columns"], vectors: Float[Tensor, "box columns load"]
    ) -> Float[Tensor, "box rows load"]:
        """Multiply the vectors of every box by its matrix."""
        return torch.bmm(matrices if self.matrix_of is None else matrices[self.matrix_of], vectors)

    def unshared(self) -> "Step":
        """Give each box its own copy of its matrices, which saves later products the lookup."""
        if self.matrix_of is None:
            return self
        left, right, to_ring, from_ring = (
            matrices[self.matrix_of] for matrices in (self.left, self.right, self.to_ring, self.from_ring)
        )
        return replace(self, matrix_of=None, left=left, right=right, to_ring=to_ring, from_ring=from_ring)


def eliminate_leaves(
    plan: Partition, operator: DiscreteOperator, free: Free, symmetric: bool, settings: Elimination
) -> tuple[Front, list[Step]]:
    """Assemble the smallest boxes and eliminate their interior unknowns."""
    pixels = plan.leaf_pixels(operator.mask)
    active = free[:, plan.leaves].flatten(0, 1)
    owners, matrix_of = share_boxes(pattern_keys(torch.cat([pixels, active], dim=1)), settings.shared)
    kinds = Kinds(owners, matrix_of, active[owners])
    weights = plan.leaf_matrices(operator.element_matrix)
    matrices = (pixels[owners].to(weights.dtype) @ weights.flatten(1)).view(len(owners), *weights.shape[1:])
    size = active.shape[1]
    inner = matrices[:, :size, :size]
    inner *= kinds.active[:, :, None] & kinds.active[:, None, :]
    factors = eliminate(matrices, kinds.active[:, : plan.inside], size, symmetric, settings.base)
    boxes, own = kinds.boxes(slice(0, len(owners)))
    places = torch.arange(size + 1, device=free.device)[None]
    step = Step(0, boxes, plan.leaves[boxes % len(plan.leaves)], places[:, :-1], own, *factors)
    return Front(matrices, places[:, plan.inside :], matrix_of.view(-1, *plan.boxes)), [step]


def eliminate_merged(
    level: int, merge: Merge, front: Front, free: Free, symmetric: bool, settings: Elimination
) -> tuple[Front, list[Step]]:
    """Merge the boxes of a level in pairs and eliminate the unknowns that a pair shares."""
    grids = merge.children(front.matrix_of)
    children = grids[0].reshape(-1), grids[1].reshape(-1)
    kinds = kinds_of(children, merge, free, settings)
    groups = choose_unknowns(kinds.active, merge.eliminated, settings.compact, settings.groups)
    side = max((bordered_side(places.shape[1]) for _, places, _ in groups), default=1)
    matrices = front.matrices.new_empty(len(kinds.owners), side, side)
    matrices[:, 0, 0] = 0  # the only entry read of a box without unknowns
    slots = free.new_zeros(len(kinds.owners), len(merge.first) - merge.eliminated + 1, dtype=torch.long)
    steps = []
    for group, places, eliminated in groups:
        size = places.shape[1]
        merge_group(matrices[group], merge, front, [child[kinds.owners[group]] for child in children], places, settings)
        chosen = kinds.active[group].gather(1, places[:, :eliminated].expand(group.stop - group.start, -1))
        factors = eliminate(matrices[group], chosen, size, symmetric, settings.base)
        slots[group] = ring_slots(places, eliminated, merge)
        boxes, own = kinds.boxes(group)
        by_box = places if own is None or len(places) == 1 else places[own]
        unknowns = merge.unknowns[(boxes % len(merge.unknowns))[:, None], by_box]
        steps.append(Step(level, boxes, unknowns, by_box, own, *factors))
    all_alike = merge.eliminated < settings.compact
    return Front(matrices, slots[:1] if all_alike else slots, kinds.matrix_of.view(grids[0].shape)), steps


def kinds_of(children: tuple[Key, Key], merge: Merge, free: Free, settings: Elimination) -> Kinds:
    """Find the distinct merged boxes: those with different halves."""
    owners, matrix_of = share_boxes(list(children), settings.shared)
    boxes = len(merge.unknowns)
    active = free[(owners // boxes)[:, None], merge.unknowns[owners % boxes]]
    kinds = Kinds(owners, matrix_of, active)
    return kinds.by_size() if merge.eliminated >= settings.compact else kinds


def merge_group(
    matrices: Float[Tensor, "matrix merged_side merged_side"],
    merge: Merge,
    front: Front,
    rows: list[Int[Tensor, " matrix"]],
    places: Table,
    settings: Elimination,
) -> None:
    """Assemble the matrices of a group from their two halves, at the places chosen for the group."""
    side = bordered_side(places.shape[1])
    halves = []
    for row, table in zip(rows, (merge.first, merge.second), strict=True):
        # The padding of a row is absent from both halves, which makes the zero border.
        positions = pad(table[places], (0, side - places.shape[1]), value=front.slots.shape[1] - 1)
        halves.append(slots_of(front, row, positions))
    add = compiled_addition() if settings.compiled else add_halves
    add(matrices[:, :side, :side], front.matrices, *rows, *halves)


def eliminate(
    matrices: Matrices, active: Bool[Tensor, "matrix eliminated"], size: int, symmetric: bool, base: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Eliminate the first unknowns in place, A_rr ← A_rr − Z Y, and return R, P, Y and Z."""
    count = active.shape[1]
    pivots = matrices[:, :count, :count]
    pivots.diagonal(dim1=1, dim2=2).add_(~active)
    left, right = inverse_factors(pivots, symmetric, base)
    to_ring = left @ matrices[:, :count, count:size]
    from_ring = to_ring.mT if symmetric else matrices[:, count:size, :count] @ right
    ring = matrices[:, count:size, count:size]
    if matrices.is_cuda:
        ring.baddbmm_(from_ring, to_ring, alpha=-1)
    else:
        ring -= from_ring @ to_ring  # on a CPU the in-place product visits strided matrices one by one
    return left, right, to_ring, from_ring


def add_halves(
    merged: Float[Tensor, "matrix merged_side merged_side"],
    matrices: Float[Tensor, "child side side"],
    first: Int[Tensor, " matrix"],
    second: Int[Tensor, " matrix"],
    first_places: Table,
    second_places: Table,
) -> None:
    """Add the ring matrices of two halves, each at its places in the merged box."""
    halves = take_entries(matrices, first, first_places), take_entries(matrices, second, second_places)
    if torch.compiler.is_compiling():
        merged.copy_(halves[0] + halves[1])  # one kernel, where eager torch would pass over the sum twice
    else:
        torch.add(*halves, out=merged)


def take_entries(
    matrices: Float[Tensor, "child side side"], rows: Int[Tensor, " matrix"], places: Table
) -> Float[Tensor, "matrix place place"]:
    """Pick the rows and columns `places` of the matrices `rows`."""
    return matrices[rows[:, None, None], places[:, :, None], places[:, None, :]]


@cache
def compiled_addition() -> Callable[..., None]:
    """Compile `add_halves` into one kernel that reads and writes every entry once."""
    return torch.compile(add_halves, dynamic=True)


def ring_slots(places: Table, eliminated: int, merge: Merge) -> Table:
    """Invert `places`: return the row of each unknown of the ring, one past the last if it is dropped or absent."""
    size = places.shape[1]
    slots = places.new_full((len(places), len(merge.first) - merge.eliminated + 1), size)
    rows = torch.arange(eliminated, size, device=places.device).expand(len(places), -1)
    return slots.scatter_(1, places[:, eliminated:] - merge.eliminated, rows)


def slots_of(front: Front, rows: Int[Tensor, " matrix"], positions: Table) -> Table:
    """Look up the rows in which the matrices `rows` hold the unknowns at these positions of their ring."""
    if len(front.slots) == 1:
        return front.slots[0, positions]
    return front.slots[rows[:, None], positions]
