"""Which unknowns large boxes keep: those that are free, in groups of boxes that have similarly many."""

from itertools import pairwise

import torch
from jaxtyping import Bool, Int
from torch import Tensor

Places = Int[Tensor, "_ _"]  # one row for all, or one for each


def choose_unknowns(
    active: Bool[Tensor, "matrix unknown"], eliminated: int, compact: int, most_groups: int
) -> list[tuple[slice, Places, int]]:
    """Split the kinds, and choose for each group: the places of its unknowns, and how many of them to eliminate.

    Boxes that eliminate fewer than `compact` are one group and keep all unknowns. Larger ones, sorted by size, keep
    only as many as the fullest of their group has free.
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
    """Cut the kinds that are not empty, which come last, into groups of nearly equal length."""
    count = min(groups, total - empty)
    bounds = [empty + (total - empty) * part // count for part in range(count + 1)] if count else []
    return [slice(start, stop) for start, stop in pairwise(bounds)]


def free_first(active: Bool[Tensor, "matrix unknown"], most: int) -> Int[Tensor, "matrix kept"]:
    """List the free unknowns of each box first, and stop where the fullest box has no more."""
    return torch.argsort(active.byte(), dim=1, descending=True, stable=True)[:, :most]
