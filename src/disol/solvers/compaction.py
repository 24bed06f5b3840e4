"""Which unknowns large boxes keep: the free ones, in groups of boxes with similar numbers of them."""

from itertools import pairwise

import torch
from jaxtyping import Bool, Int
from torch import Tensor

Places = Int[Tensor, "_ _"]  # one row for all matrices, or one for each


def choose_unknowns(
    active: Bool[Tensor, "matrix unknown"], eliminated: int, compact: int, most_groups: int
) -> list[tuple[slice, Places, int]]:
    """Group the kinds of boxes, and choose the places of the unknowns of each group and how many to eliminate.

    Boxes that eliminate fewer than `compact` unknowns are one group and keep them all. Larger ones, sorted by size,
    keep only as many as are free in the fullest box of their group.
    """
    matrices, size = active.shape
    if eliminated < compact:
        return [(slice(0, matrices), torch.arange(size, device=active.device)[None], eliminated)]
    counts = torch.stack([active[:, :eliminated].sum(dim=1), active[:, eliminated:].sum(dim=1)])
    slices = split_kinds(int((counts.sum(dim=0) == 0).sum()), matrices, most_groups)
    fullest = torch.stack([counts[:, group].amax(dim=1) for group in slices]).tolist() if slices else []
    groups = []
    for group, (most_inner, most_ring) in zip(slices, fullest, strict=True):
        inner = free_first(active[group, :eliminated], max(most_inner, 1))
        ring = free_first(active[group, eliminated:], most_ring)
        groups.append((group, torch.cat([inner, ring + eliminated], dim=1), inner.shape[1]))
    return groups


def split_kinds(empty: int, total: int, groups: int) -> list[slice]:
    """Split the kinds that are not empty, which come last, into groups of nearly equal size."""
    count = min(groups, total - empty)
    bounds = [empty + (total - empty) * part // count for part in range(count + 1)] if count else []
    return [slice(start, stop) for start, stop in pairwise(bounds)]


def free_first(active: Bool[Tensor, "matrix unknown"], most: int) -> Int[Tensor, "matrix kept"]:
    """List the unknowns of each box, free ones first, and keep as many as the fullest box needs."""
    return torch.argsort(active.byte(), dim=1, descending=True, stable=True)[:, :most]
