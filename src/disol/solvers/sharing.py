"""Which boxes look alike: every pixel has the same element matrix, so equal boxes have equal matrices."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

KEY_BITS = 50  # of a pattern in one float64 number, exact below 2⁵³

Key = Int[Tensor, " box"]


@dataclass(frozen=True, eq=False)
class Kinds:
    """The distinct boxes of one level.

    owners      one box of each kind
    matrix_of   the kind of every box
    active      which unknowns of each kind are free
    """

    owners: Int[Tensor, " matrix"]
    matrix_of: Int[Tensor, " every_box"]
    active: Bool[Tensor, "matrix unknown"]

    @property
    def are_shared(self) -> bool:
        """Tell whether there are fewer kinds than boxes."""
        return len(self.owners) < len(self.matrix_of)

    def by_size(self) -> "Kinds":
        """Sort the kinds by their number of free unknowns."""
        order = torch.argsort(self.active.sum(dim=1))
        rank = torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=order.device))
        return Kinds(self.owners[order], rank[self.matrix_of], self.active[order])

    def boxes(self, group: slice) -> tuple[Key, Key | None]:
        """List the boxes of a group of kinds, and the matrix of each within the group (None if each has its own)."""
        if not self.are_shared:
            return self.owners[group], None
        wanted = torch.zeros(len(self.owners), dtype=torch.bool, device=self.owners.device)
        wanted[group] = self.active[group].any(dim=1)  # boxes without free unknowns have nothing to solve
        boxes = wanted[self.matrix_of].nonzero()[:, 0]
        return boxes, self.matrix_of[boxes] - group.start


def pattern_keys(bits: Bool[Tensor, "box bit"]) -> list[Key]:
    """Encode the bits of each box in a few integers."""
    # Powers come from the host: those of a GPU can be off in the last place, and then different boxes share a key.
    powers = torch.tensor([2.0**bit for bit in range(KEY_BITS)], dtype=torch.float64).to(bits.device)
    parts = [bits[:, start : start + KEY_BITS].double() for start in range(0, bits.shape[1], KEY_BITS)]
    return [(part @ powers[: part.shape[1]]).long() for part in parts]


def share_boxes(keys: list[Key], most: float) -> tuple[Int[Tensor, " matrix"], Key]:
    """Return one box of each kind, and the kind of every box; boxes are alike where all their keys agree.

    Sharing pays only if fewer than the fraction `most` of the boxes are distinct; otherwise each is its own kind.
    """
    boxes = torch.arange(len(keys[0]), device=keys[0].device)
    if most <= 0:
        return boxes, boxes
    kinds, kind_of = torch.unique(keys[0], return_inverse=True)
    for key in keys[1:]:
        others, other_of = torch.unique(key, return_inverse=True)
        kinds, kind_of = torch.unique(kind_of * len(others) + other_of, return_inverse=True)
    if len(kinds) >= most * len(boxes):
        return boxes, boxes
    return torch.empty_like(kinds).scatter_(0, kind_of, boxes), kind_of
