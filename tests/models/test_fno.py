"""Fourier layers against the sums they stand for."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from disol.models import create_model
from disol.nn import SpectralConvolution
from disol.training.muon import Muon, is_matrix
from disol.training.optimisers import EMA


def direct_sum(features, weight, modes):
    """Re Σₖ Wₖ v̂ₖ e^{2πi k·x}, modes with k₂ > 0 counted twice, mode by mode."""
    height, width = features.shape[2:]
    row, column = np.meshgrid(np.arange(height), np.arange(width), indexing="ij")
    total = np.zeros((len(features), weight.shape[4], height, width))
    for block, first, across in np.ndindex(2, modes, modes):
        down = first - block * modes
        wave = np.exp(2j * np.pi * (down * row / height + across * column / width))
        coefficient = (features * wave.conj()).mean((2, 3)) @ (weight[block, first, across] @ np.array([1, 1j]))
        total += (1 + (across > 0)) * (coefficient[:, :, None, None] * wave).real
    return total


@pytest.mark.parametrize("size", [(16, 16), (13, 18)])
def test_a_spectral_convolution_is_the_fourier_sum_written_out(size):
    torch.manual_seed(0)
    layer = SpectralConvolution(3, 2, modes=4)
    features = torch.randn(2, 3, *size)
    expected = direct_sum(features.double().numpy(), layer.weight.detach().double().numpy(), modes=4)
    np.testing.assert_allclose(layer(features).detach().numpy(), expected, atol=1e-6)


def fast_transforms(features, weight, modes):
    """The same by the fast transforms of the whole grid, of which all but the lowest modes are thrown away."""
    height, width = features.shape[2:]
    rows, columns = min(modes, height // 2), min(modes, (width + 1) // 2)
    spectrum, weight = torch.fft.rfft2(features, norm="forward"), torch.view_as_complex(weight)
    mixed = spectrum.new_zeros(len(features), weight.shape[-1], height, width // 2 + 1)
    for own, kept in ((weight[0, :rows], slice(0, rows)), (weight[1, modes - rows :], slice(height - rows, height))):
        lowest = spectrum[:, :, kept, :columns]
        mixed[:, :, kept, :columns] = torch.einsum("bikl,klio->bokl", lowest, own[:, :columns])
    return torch.fft.irfft2(mixed, s=(height, width), norm="forward")


@pytest.mark.parametrize("size", [(32, 32), (9, 16), (11, 40), (8, 7), (5, 3), (2, 1)])
def test_matrix_products_give_what_fast_transforms_do_and_the_same_gradients(size):
    torch.manual_seed(0)
    layer, features = SpectralConvolution(3, 2, modes=4), torch.randn(2, 3, *size, requires_grad=True)
    outcomes = []
    for convolved in (layer(features), fast_transforms(features, layer.weight, modes=4)):
        gradients = torch.autograd.grad(convolved.pow(3).sum(), [features, layer.weight])
        outcomes.append([convolved, *gradients])
    for found, expected in zip(*outcomes, strict=True):
        assert (found - expected).norm() < 1e-5 * expected.norm()


def test_a_grid_with_few_modes_uses_the_lowest_ones():
    torch.manual_seed(0)
    layer, lowest = SpectralConvolution(1, 1, modes=4), SpectralConvolution(1, 1, modes=2)
    with torch.no_grad():
        lowest.weight[0] = layer.weight[0, :2, :2]
        lowest.weight[1] = layer.weight[1, 2:, :2]
    features = torch.randn(1, 1, 4, 4)
    torch.testing.assert_close(layer(features), lowest(features))


def test_the_same_function_is_convolved_alike_on_every_grid():
    torch.manual_seed(0)
    layer = SpectralConvolution(1, 1, modes=3)
    coarse, fine = (torch.cos(2 * torch.pi * torch.arange(n) / n).expand(1, 1, n, n) for n in (16, 32))
    torch.testing.assert_close(layer(fine)[:, :, ::2, ::2], layer(coarse))


def test_transforms_are_made_in_float32():
    layer = SpectralConvolution(2, 2, modes=4)
    features = torch.randn(1, 2, 16, 16)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(layer(features), layer(features.float()))
        assert layer(features.bfloat16()).dtype == torch.float32


def test_spectral_weights_are_moved_by_adam_and_averaged_like_others():
    network = create_model("fno", "poisson", width=4, modes=2, layers=1, head_width=4)
    spectral = network.layers[0].spectral.weight
    assert not is_matrix(spectral)
    optimizer, ema = Muon(network.parameters(), lr=1e-2), EMA(network, decay=0.0)
    before = spectral.detach().clone()
    network(torch.rand(1, 3, 8, 8)).square().sum().backward()
    optimizer.step()
    ema.update_parameters(network)
    assert set(optimizer.state[spectral]) == {"steps", "mean", "square"}
    # The first step of Adam is as long as the learning rate wherever there is a gradient.
    moved = (spectral - before).abs()[spectral.grad.abs() > 1e-6]
    torch.testing.assert_close(moved, torch.full_like(moved, 1e-2), rtol=1e-2, atol=0)
    assert torch.equal(ema.module.layers[0].spectral.weight, spectral)


def test_the_network_and_the_geo_fno_compile_in_one_graph():
    # In a process of its own: shapes are checked here, and the checks are not part of the graph.
    program = (
        "import torch; from disol.models import create_model\n"
        "for name, own in {'fno': {'layers': 2}, 'geo-fno': {'layers': 3, 'latent': 6}}.items():\n"
        "    model = create_model(name, 'poisson', width=4, modes=2, head_width=4, **own)\n"
        "    compiled = torch.compile(model, backend='eager', fullgraph=True)\n"
        "    inputs = torch.rand(1, 3, 9, 8)\n"
        "    torch.testing.assert_close(compiled(inputs), model(inputs))"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
