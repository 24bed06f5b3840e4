"""The kernels for narrow convolutions against torch's in float64: on a GPU, or on a CPU in Triton's interpreter."""

import pytest
import torch
from torch.nn import functional

pytest.importorskip("triton", reason="the kernels need Triton")

from disol.nn.convolution import Stencil
from disol.nn.narrow_convolution import convolve_stencil, narrow_convolution, stencil_gradient

pytestmark = pytest.mark.usefixtures("products_of_bfloat16")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

# (batch, channels in, channels out, height, width); blocks hold 128 or 256 pixels
SHAPES = [
    (2, 1, 16, 8, 8),
    (3, 2, 16, 7, 9),
    (1, 3, 5, 1, 1),
    (2, 3, 2, 11, 1),
    (3, 8, 16, 9, 11),
    (2, 16, 16, 13, 17),
    (1, 20, 20, 7, 7),
    (2, 33, 17, 6, 7),
    (1, 64, 32, 9, 9),
    (9, 64, 64, 8, 8),
]
# ‖difference‖ / ‖reference‖. The interpreter multiplies float32 as such, where a GPU rounds to TF32, and cuts bfloat16
# results to 8 bits, where a GPU rounds.
TOLERANCE = {torch.float32: 2e-3 if DEVICE == "cuda" else 2e-6, torch.bfloat16: 8e-3}
CLOSE = TOLERANCE[torch.float32]


def operands(shape, dtype, seed=0):
    batch, in_channels, out_channels, height, width = shape
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(batch, in_channels, height, width, generator=generator).to(dtype)
    weight = torch.randn(out_channels, in_channels, 3, 3, generator=generator).to(dtype)
    slope = torch.randn(batch, out_channels, height, width, generator=generator).to(dtype)
    channels_last = {"device": DEVICE, "memory_format": torch.channels_last}
    return x.to(**channels_last), weight.to(DEVICE), slope.to(**channels_last)


def exact(x, weight, slope):
    x, weight = x.double().requires_grad_(), weight.double().requires_grad_()
    y = functional.conv2d(x, weight, padding=1)
    y.backward(slope.double())
    return y.detach(), x.grad, weight.grad


def error(value, reference):
    return ((value.double() - reference).norm() / reference.norm()).item()


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("shape", SHAPES)
def test_result_and_both_gradients_are_those_of_conv2d(shape, dtype):
    x, weight, slope = operands(shape, dtype)
    reference = exact(x, weight, slope)
    x.requires_grad_(), weight.requires_grad_()
    y = narrow_convolution(x, weight)
    y.backward(slope)
    assert y.dtype == x.grad.dtype == weight.grad.dtype == dtype
    assert y.is_contiguous(memory_format=torch.channels_last)
    for name, value, expected in zip(("y", "dx", "dw"), (y.detach(), x.grad, weight.grad), reference, strict=True):
        assert error(value, expected) < TOLERANCE[dtype], name


@pytest.mark.parametrize("channels", [1, 2, 16])
def test_memory_order_of_operands_does_not_matter(channels):
    x, weight, slope = operands((2, channels, 16, 9, 10), torch.float32)
    expected = exact(x, weight, slope)
    strided = torch.randn(2, 3 * channels, 10, 9, device=DEVICE).transpose(2, 3)[:, channels : 2 * channels]
    strided = strided.copy_(x).requires_grad_()
    spread = weight.permute(3, 1, 2, 0).contiguous().permute(3, 1, 2, 0).requires_grad_()
    assert not strided.is_contiguous(memory_format=torch.channels_last)
    assert not spread.is_contiguous()
    x_gradient, weight_gradient = torch.autograd.grad(
        narrow_convolution(strided, spread), (strided, spread), slope.contiguous()
    )
    assert error(x_gradient, expected[1]) < CLOSE
    assert error(weight_gradient, expected[2]) < CLOSE


def test_nothing_is_read_beyond_the_ends_of_memory():
    x, weight, slope = operands((1, 8, 8, 5, 7), torch.float32)
    guarded = torch.full((3, 5, 7, 8), torch.nan, device=DEVICE)
    guarded[1] = x[0].permute(1, 2, 0)
    inner = guarded[1:2].permute(0, 3, 1, 2)
    guarded_slope = torch.full((3, 5, 7, 8), torch.nan, device=DEVICE)
    guarded_slope[1] = slope[0].permute(1, 2, 0)
    assert inner.is_contiguous(memory_format=torch.channels_last)
    y, _, weight_gradient = exact(x, weight, slope)
    assert error(convolve_stencil(inner, weight), y) < CLOSE
    assert error(stencil_gradient(inner, guarded_slope[1:2].permute(0, 3, 1, 2)), weight_gradient) < CLOSE


def test_many_programs_add_up_to_the_weight_gradient(monkeypatch):
    x, weight, slope = operands((7, 32, 16, 21, 23), torch.float32)
    monkeypatch.setattr("disol.nn.narrow_convolution.multiprocessors", lambda device: 3)
    assert error(stencil_gradient(x, slope), exact(x, weight, slope)[2]) < CLOSE


def test_gradient_of_the_input_is_left_out_where_nothing_asks_for_it(monkeypatch):
    calls = []
    monkeypatch.setattr("disol.nn.narrow_convolution.convolve_stencil", lambda *operands: calls.append(operands))
    x, weight, slope = operands((1, 2, 16, 8, 8), torch.float32)
    weight.requires_grad_()
    torch.ops.disol.convolve_stencil(x, weight).backward(slope)
    assert not calls
    assert weight.grad is not None


def test_autocast_chooses_the_type():
    x, weight, slope = operands((1, 8, 8, 8, 8), torch.float32)
    x.requires_grad_(), weight.requires_grad_()
    with torch.autocast(DEVICE, torch.bfloat16):
        y = narrow_convolution(x, weight)
    y.backward(slope.bfloat16())
    assert (y.dtype, x.grad.dtype, weight.grad.dtype) == (torch.bfloat16, torch.float32, torch.float32)
    assert error(weight.grad, exact(x.detach(), weight.detach(), slope)[2]) < 1e-2


@pytest.mark.parametrize(
    ("x", "weight", "words"),
    [
        (torch.zeros(1, 8, 4, 4), torch.zeros(8, 8, 3, 3).bfloat16(), "torch.autocast"),
        (torch.zeros(1, 8, 4, 4).half(), torch.zeros(8, 8, 3, 3).half(), "bfloat16"),
        (torch.zeros(1, 65, 4, 4), torch.zeros(8, 65, 3, 3), "at most 64"),
    ],
)
def test_what_the_kernels_cannot_compute_is_refused(x, weight, words):
    with pytest.raises(ValueError, match=words):
        narrow_convolution(x, weight)


def test_a_stencil_leaves_float32_to_torch() -> None:
    stencil = Stencil(8, 8, bias=True)
    x = torch.randn(2, 8, 6, 5)
    expected = functional.conv2d(x, stencil.weight, stencil.bias, padding=1)
    torch.testing.assert_close(stencil(x), expected, rtol=0, atol=0)


def test_a_stencil_in_bfloat16_is_a_narrow_convolution_with_its_bias(monkeypatch):
    monkeypatch.setattr("disol.nn.convolution.computes_in_bfloat16", lambda features: True)
    monkeypatch.setattr("disol.nn.convolution.HAS_KERNELS", True)
    monkeypatch.setattr("disol.nn.convolution.narrow_convolution", narrow_convolution, raising=False)
    stencil, x = Stencil(3, 8, bias=True).to(DEVICE), torch.randn(2, 3, 6, 5, device=DEVICE)
    with torch.autocast(DEVICE, torch.bfloat16):
        y = stencil(x)
    assert y.dtype == torch.bfloat16
    exact_y = functional.conv2d(x.double(), stencil.weight.double(), stencil.bias.double(), padding=1)
    assert error(y.detach(), exact_y) < TOLERANCE[torch.bfloat16]
