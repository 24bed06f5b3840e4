"""GroupNorm and GELU in one against torch's in float64: on a GPU, or on a CPU in Triton's interpreter."""

import pytest
import torch
from torch.nn import functional

pytest.importorskip("triton", reason="the kernels need Triton")

from disol.nn.fused_norm import fused_norm

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

# (batch, channels, groups, height, width); blocks hold 4,096 numbers
SHAPES = [
    (2, 8, 8, 5, 7),
    (3, 16, 8, 9, 11),
    (1, 20, 1, 33, 17),
    (2, 64, 16, 13, 9),
    (1, 1, 1, 70, 65),
    (2, 512, 8, 3, 4),
]
# ‖difference‖ / ‖reference‖. The interpreter cuts bfloat16 results to 8 bits, where a GPU rounds.
TOLERANCE = {torch.float32: 1e-6, torch.bfloat16: 8e-3}


def operands(shape, dtype, seed=0):
    batch, channels, _, height, width = shape
    generator = torch.Generator().manual_seed(seed)
    x = (2 * torch.randn(batch, channels, height, width, generator=generator) + 1).to(dtype)
    slope = torch.randn(batch, channels, height, width, generator=generator).to(dtype)
    weight, bias = torch.rand(channels, generator=generator) + 0.5, torch.randn(channels, generator=generator)
    channels_last = {"device": DEVICE, "memory_format": torch.channels_last}
    return x.to(**channels_last), weight.to(DEVICE), bias.to(DEVICE), slope.to(**channels_last)


def exact(x, weight, bias, slope, groups):
    x, weight, bias = (each.detach().double().requires_grad_() for each in (x, weight, bias))
    y = functional.gelu(functional.group_norm(x, groups, weight, bias, 1e-5))
    y.backward(slope.double())
    return y.detach(), x.grad, weight.grad, bias.grad


def error(value, reference):
    return ((value.double() - reference).norm() / reference.norm()).item()


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("shape", SHAPES)
def test_result_and_gradients_are_those_of_group_norm_and_gelu(shape, dtype):
    x, weight, bias, slope = operands(shape, dtype)
    reference = exact(x, weight, bias, slope, shape[2])
    leaves = [each.requires_grad_() for each in (x, weight, bias)]
    y = fused_norm(*leaves, shape[2], 1e-5)
    y.backward(slope)
    assert y.dtype == x.grad.dtype == dtype
    assert weight.grad.dtype == bias.grad.dtype == torch.float32
    assert y.is_contiguous(memory_format=torch.channels_last)
    found = (y.detach(), x.grad, weight.grad, bias.grad)
    for name, value, expected in zip(("y", "dx", "dweight", "dbias"), found, reference, strict=True):
        assert error(value, expected) < TOLERANCE[dtype], name


def test_constant_pixels_are_normalised_to_the_bias():
    x = torch.full((2, 8, 6, 5), 3.0, device=DEVICE)
    bias = torch.linspace(-2, 2, 8, device=DEVICE)
    y = fused_norm(x, torch.ones(8, device=DEVICE), bias, 8, 1e-5)
    torch.testing.assert_close(y, functional.gelu(bias)[:, None, None].expand_as(y), rtol=1e-4, atol=1e-4)


def test_memory_order_of_pixels_does_not_matter():
    x, weight, bias, slope = operands((2, 16, 8, 9, 10), torch.float32)
    strided = x.contiguous().requires_grad_()
    assert not strided.is_contiguous(memory_format=torch.channels_last)
    fused_norm(strided, weight, bias, 8, 1e-5).backward(slope.contiguous())
    assert error(strided.grad, exact(x, weight, bias, slope, 8)[1]) < TOLERANCE[torch.float32]


def test_nothing_is_read_beyond_the_ends_of_memory():
    x, weight, bias, _ = operands((1, 20, 1, 5, 7), torch.float32)
    guarded = torch.full((3, 5, 7, 20), torch.nan, device=DEVICE)
    guarded[1] = x[0].permute(1, 2, 0)
    inner = guarded[1:2].permute(0, 3, 1, 2)
    expected = functional.gelu(functional.group_norm(x.double(), 1, weight.double(), bias.double()))
    assert error(fused_norm(inner, weight, bias, 1, 1e-5), expected) < TOLERANCE[torch.float32]
