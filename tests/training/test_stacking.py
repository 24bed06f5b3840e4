"""Stacks hold each matrix in a corner of its own, the longer side along the columns, and zeros elsewhere."""

import pytest
import torch

from disol.training import muon
from disol.training.muon import Stacking

SHAPES = [(8, 3, 3, 3), (3, 40), (40, 3), (7, 9), (64, 72), (2, 2)]


def filled(memory_format):
    """Make weights and a stacking of them whose entries hold the same numbers."""
    weights = [torch.randn(shape, generator=torch.Generator().manual_seed(0)) for shape in SHAPES]
    weights = [weight.to(memory_format=memory_format) if weight.ndim == 4 else weight for weight in weights]
    together = Stacking(weights)
    torch._foreach_copy_(together.entries, weights)
    return weights, together


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_entries_are_laid_out_as_the_weights_and_come_back_as_they_were(memory_format):
    weights, together = filled(memory_format)
    stacks = together.stacks()
    torch._foreach_zero_(together.entries)
    together.put_back(stacks)
    for weight, entry in zip(weights, together.entries, strict=True):
        assert torch.equal(weight, entry)
        assert weight.stride() == entry.stride()


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_a_stack_holds_wide_matrices_and_zeros(memory_format, monkeypatch):
    monkeypatch.setitem(muon.SMALLEST_HEIGHT, "cpu", 6)
    weights, together = filled(memory_format)
    (stack,) = together.stacks()
    assert stack.shape == (len(SHAPES), 64, 72)
    for weight, part, side in zip(weights, stack, together.longer_sides, strict=True):
        matrix = weight.flatten(1)
        wide = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.mT
        assert side == wide.shape[1]
        assert torch.equal(part[: wide.shape[0], : wide.shape[1]], wide)
        assert part.count_nonzero() == wide.count_nonzero()


def test_what_is_put_in_the_filling_does_not_come_back():
    weights, together = filled(torch.contiguous_format)
    together.put_back([torch.where(stack == 0, 1.0, stack) for stack in together.stacks()])
    assert all(torch.equal(weight, entry) for weight, entry in zip(weights, together.entries, strict=True))
    assert sum(stack.count_nonzero() for stack in together.stacks()) == sum(weight.numel() for weight in weights)
