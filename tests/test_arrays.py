"""Arrays and tensors are copied whole, however large the pieces are."""

import numpy as np
import pytest
import torch

from disol._arrays import copy_in_pieces, copy_to_host, to_device


@pytest.mark.parametrize("stage", [1, 7, 64, 10_000])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bool])
def test_copies_by_way_of_stages_are_equal(stage, dtype):
    values = (torch.rand(3, 5, 4) > 0.5) if dtype == torch.bool else torch.rand(3, 5, 4, dtype=dtype)
    target = torch.zeros_like(values)
    stages = (torch.zeros(stage, dtype=torch.uint8), torch.ones(stage, dtype=torch.uint8))
    copy_in_pieces(values, target, stages)
    assert torch.equal(target, values)
    copy_in_pieces(values.mT.contiguous().mT, target.zero_(), stages)  # in another order in memory
    assert torch.equal(target, values)


def test_arrays_that_torch_cannot_share_are_copied():
    values = np.arange(6.0).reshape(1, 2, 3)[::-1]
    assert values.flags.c_contiguous
    assert values.strides[0] < 0
    assert to_device(values, "cpu").tolist() == values.tolist()
    values = np.arange(6.0)
    values.flags.writeable = False
    assert to_device(values, "cpu").tolist() == values.tolist()


def test_a_tensor_is_copied_into_an_array_of_another_type():
    target = np.zeros((2, 3))
    copy_to_host(torch.arange(6, dtype=torch.float32).reshape(2, 3), target)
    assert target.tolist() == [[0, 1, 2], [3, 4, 5]]
