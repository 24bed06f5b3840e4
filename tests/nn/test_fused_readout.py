"""The readout in one kernel against plain layers in float64: on a GPU, or in Triton's interpreter."""

import copy
import os
import subprocess
import sys

import pytest
import torch
from torch import nn
from torch.nn import functional

pytest.importorskip("triton", reason="the kernels need Triton")

from disol.nn import Readout
from disol.nn.activation import polynomial_gelu
from disol.nn.fused_readout import fused_readout

pytestmark = pytest.mark.usefixtures("products_of_bfloat16", "rounding_to_bfloat16")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

# (channels in, hidden, out, layers): the published networks, then sizes that pad otherwise
READOUTS = [(8, 32, 1, 2), (16, 32, 1, 2), (32, 64, 2, 4), (20, 64, 1, 4), (3, 7, 17, 3), (64, 1, 64, 1)]
# Blocks hold 128 pixels.
GRIDS = [(1, 1), (13, 1), (16, 8), (11, 13)]
TOLERANCE = 1e-2  # ‖difference‖ / ‖reference‖; bfloat16 has 8 bits, and 4 layers round one after another
# How much the cases of one batch vary, and about what.
SIZES, OFFSETS = (1.0, 0.5, 2.0, 0.1), (0.0, -1.0, 0.5, 1.0)


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def _no_gradients():
    with torch.inference_mode():
        yield


def cases(channels, grid):
    trend = torch.linspace(-1, 1, grid[0] * grid[1]).reshape(grid)
    varying = torch.randn(len(SIZES), channels, *grid) + trend
    x = varying * torch.tensor(SIZES).view(-1, 1, 1, 1) + torch.tensor(OFFSETS).view(-1, 1, 1, 1)
    return x.bfloat16().to(DEVICE, memory_format=torch.channels_last)


def rounded(layer):
    """Return a layer with weights that are all different, that bfloat16 can hold, and that keep features of size 1."""
    for weight in layer.parameters():
        size = 1 if weight.ndim == 1 else 1.5 / weight[0].numel() ** 0.5
        weight.copy_((torch.randn(weight.shape) * size).bfloat16())
    return layer.to(DEVICE)


def read(layer, x):
    attention = None if isinstance(layer.attention, nn.Identity) else layer.attention.convolution.weight
    return fused_readout(x, attention, list(layer.head[::2]))


def in_float64(layer):
    return copy.deepcopy(layer).double()


def error(values, reference):
    return ((values.double() - reference).norm() / reference.norm()).item()


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("kernel", [None, 3, 5])
@pytest.mark.parametrize("size", READOUTS)
def test_readout_is_that_of_the_plain_layers(size, kernel, grid):
    *widths, layers = size
    layer = rounded(Readout(*widths, layers=layers, attention_kernel=kernel))
    x = cases(size[0], grid)
    result = read(layer, x)
    assert result.dtype == torch.float32
    assert result.is_contiguous(memory_format=torch.channels_last)
    assert error(result, in_float64(layer)(x.double())) < TOLERANCE


def test_activation_of_the_kernels_is_the_cheap_gelu():
    layer = Readout(1, 1, 1, layers=2, attention_kernel=None).to(DEVICE)
    for convolution in layer.head[::2]:
        nn.init.ones_(convolution.weight), nn.init.zeros_(convolution.bias)
    x = torch.linspace(-8, 8, 1001, device=DEVICE).bfloat16().reshape(1, 1, 7, 143)
    torch.testing.assert_close(read(layer, x), polynomial_gelu(x.float()), rtol=2**-8, atol=2e-5)


@pytest.mark.parametrize("grid", GRIDS[1:])
@pytest.mark.parametrize("kernel", [3, None])
def test_a_case_is_not_touched_by_its_neighbours_in_memory(kernel, grid):
    layer, x = Readout(8, 32, 2, layers=2, attention_kernel=kernel).to(DEVICE), cases(8, grid)
    before = read(layer, x)
    x[0::2] += 1
    after = read(layer, x)
    torch.testing.assert_close(after[1::2], before[1::2], rtol=0, atol=0)
    torch.testing.assert_close(read(layer, x[1:2]), before[1:2], rtol=0, atol=0)
    assert (after[0::2] != before[0::2]).any()


def test_memory_order_of_features_does_not_matter():
    layer, x = Readout(8, 32, 2, layers=2, attention_kernel=3).to(DEVICE), cases(8, (9, 7))
    expected = read(layer, x)
    assert not x.contiguous().is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(read(layer, x.contiguous()), expected, rtol=0, atol=0)
    torch.testing.assert_close(read(layer, x.float().mT.contiguous().mT), expected, rtol=0, atol=0)


def test_weights_count_as_bfloat16_has_them():
    layer, x = Readout(8, 32, 2, layers=2, attention_kernel=3).to(DEVICE), cases(8, (9, 7))
    narrowed = copy.deepcopy(layer)
    for weight in narrowed.parameters():
        if weight.ndim == 4:
            weight.copy_(weight.bfloat16())
    torch.testing.assert_close(read(layer, x), read(narrowed, x), rtol=0, atol=0)


def plain(layer, x):
    summary = torch.cat([x.mean(1, keepdim=True), x.amax(1, keepdim=True)], dim=1)
    weighed = x * torch.sigmoid(functional.conv2d(summary, layer.attention.convolution.weight, padding=2))
    return layer.head[2](functional.gelu(layer.head[0](weighed)))


CONDITIONS = {
    "disol.nn.readout.HAS_KERNELS": True,
    "disol.nn.precision.computes_in_bfloat16": lambda _: True,
    "torch.compiler.is_compiling": lambda: True,
    "torch.is_grad_enabled": lambda: False,
}
OPPOSITES = {
    "disol.nn.readout.HAS_KERNELS": False,
    "disol.nn.precision.computes_in_bfloat16": lambda _: False,
    "torch.compiler.is_compiling": lambda: False,
    "torch.is_grad_enabled": lambda: True,
}


@pytest.fixture
def conditions(monkeypatch):
    """Let every condition of the fused way hold, the width of the layers left aside; GELU stays exact."""
    for name, value in CONDITIONS.items():
        monkeypatch.setattr(name, value)
    monkeypatch.setattr("disol.nn.activation.predicts_in_bfloat16", lambda _: False)
    monkeypatch.setattr("disol.nn.readout.fused_readout", fused_readout, raising=False)


@pytest.mark.parametrize("unmet", CONDITIONS)
@pytest.mark.usefixtures("conditions")
def test_a_readout_is_plain_to_the_bit_where_one_condition_is_not_met(monkeypatch, unmet):
    monkeypatch.setattr(unmet, OPPOSITES[unmet])
    layer, x = Readout(8, 32, 1, layers=2, attention_kernel=5), torch.randn(2, 8, 6, 5)
    torch.testing.assert_close(layer(x), plain(layer, x), rtol=0, atol=0)


@pytest.mark.parametrize(("channels", "hidden"), [(8, 65), (65, 8)])
@pytest.mark.usefixtures("conditions")
def test_a_wide_readout_is_plain_to_the_bit(channels, hidden):
    layer, x = Readout(channels, hidden, 1, layers=2, attention_kernel=5), torch.randn(2, channels, 6, 5)
    torch.testing.assert_close(layer(x), plain(layer, x), rtol=0, atol=0)


@pytest.mark.usefixtures("conditions")
def test_a_readout_is_fused_where_all_conditions_are_met():
    layer, x = Readout(8, 32, 1, layers=2, attention_kernel=5).to(DEVICE), cases(8, (6, 5)).float()
    fused = layer(x)
    torch.testing.assert_close(fused, read(layer, x), rtol=0, atol=0)
    assert error(fused, plain(in_float64(layer), x.double())) < TOLERANCE


def test_what_the_kernel_cannot_compute_is_refused():
    with pytest.raises(ValueError, match="at most 64 channels in every layer, got 8, 65, 1"):
        read(Readout(8, 65, 1, layers=2, attention_kernel=3), torch.zeros(1, 8, 4, 4))
    with pytest.raises(ValueError, match="Split the batch"):
        read(Readout(1, 1, 1, layers=2, attention_kernel=3), torch.zeros(1).expand(2**13, 1, 2**9, 2**9))
    with pytest.raises(ValueError, match="with a bias"):
        fused_readout(torch.zeros(1, 8, 4, 4), None, [nn.Conv2d(8, 1, 1, bias=False)])


PROGRAM = """
import torch
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd
from disol.nn import Readout, readout
from disol.nn.fused_readout import fused_readout

readout.fused_readout = fused_readout
readout.HAS_KERNELS, readout.predicts_in_bfloat16 = True, lambda features: True

def trace(layer):
    kernels = []
    def record(graph, inputs):
        kernels.extend(node for node in graph.graph.nodes if "triton_kernel_wrapper" in str(node.target))
        results = [node.meta["val"] for node in graph.graph.output_node().args[0]]
        return make_boxed_func(lambda *_: [torch.zeros(value.shape, dtype=value.dtype) for value in results])
    compiled = torch.compile(layer, backend=aot_autograd(fw_compiler=record), fullgraph=True)
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        y = compiled(torch.rand(3, 5, 7, 6))
    return len(kernels), tuple(y.shape), y.dtype

for attention_kernel in (5, None):
    layer = Readout(5, 32, 2, layers=2, attention_kernel=attention_kernel)
    assert trace(layer) == (1, (3, 2, 7, 6), torch.float32)
"""


def test_a_fused_readout_compiles_in_one_graph_with_its_kernel_in_sight():
    # In a process of its own: neither the checks of shapes nor the interpreter's kernel can be part of a graph.
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, env=environment, capture_output=True)
