"""The encoder-decoder: padding only where sizes need it, and what mask-skip routing keeps out."""

import pytest
import torch
from torch.nn import functional

from disol.nn import MultiscaleAssembly, coarsen
from disol.nn.scales import double_along

CHANNELS = 8


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def assemble_without_padding(assembly, features):
    """The published assembly, written for sizes that halve evenly."""
    skips = []
    for level in assembly.encoder[:-1]:
        features = level(features)
        skips.append(features)
        features = functional.max_pool2d(features, 2)
    features = assembly.encoder[-1](features)
    for level, skip in zip(reversed(assembly.decoder), reversed(skips), strict=True):
        reduced = level.up.reduce(features)
        up = functional.interpolate(reduced, scale_factor=2, mode="bilinear", align_corners=False)
        kept = skip if level.gate is None else level.gate(skip, up)
        features = level.block(torch.cat([kept, up], dim=1))
    return features


@pytest.mark.parametrize("size", [(16, 24), (8, 8)])
def test_sizes_that_halve_evenly_are_not_padded(size):
    assembly = MultiscaleAssembly(CHANNELS, depth=4, gated_skips=2)
    features = torch.randn(2, CHANNELS, *size)
    assert torch.equal(assembly(features, torch.ones(2, 1, *size)), assemble_without_padding(assembly, features))


@pytest.mark.parametrize("downsampling", ["pool", "strided"])
@pytest.mark.parametrize("size", [(37, 50), (9, 1), (3, 17)])
def test_any_size_is_assembled(downsampling, size):
    assembly = MultiscaleAssembly(CHANNELS, 4, downsampling=downsampling, mask_skip_routing=True, level_expansion=1)
    assembled = assembly(torch.randn(2, CHANNELS, *size), torch.ones(2, 1, *size))
    assert assembled.shape == (2, CHANNELS, *size)
    assert assembled.isfinite().all()


def test_gates_sit_on_the_deepest_skips():
    for gated in range(4):
        assembly = MultiscaleAssembly(CHANNELS, depth=4, gated_skips=gated)
        has_gate = [level.gate is not None for level in assembly.decoder]
        assert has_gate == [False] * (3 - gated) + [True] * gated


def disturb_outside(skips, domain):
    disturbed = []
    for skip in skips:
        disturbed.append(skip + 10 * torch.randn_like(skip) * (1 - domain))
        domain = coarsen(domain)
    return disturbed


@pytest.mark.parametrize("routed", [True, False])
def test_skip_features_outside_the_domain_reach_the_result_only_without_routing(routed):
    assembly = MultiscaleAssembly(CHANNELS, depth=3, gated_skips=1, mask_skip_routing=routed)
    domain = torch.zeros(2, 1, 21, 18)
    domain[:, :, 4:13, 5:12] = 1
    skips, coarsest = assembly.encode(torch.randn(2, CHANNELS, 21, 18))
    result = assembly.decode(assembly.route(skips, domain), coarsest)
    disturbed = assembly.decode(assembly.route(disturb_outside(skips, domain), domain), coarsest)
    assert torch.equal(result, disturbed) == routed


def test_routing_changes_nothing_where_the_domain_fills_the_grid():
    plain = MultiscaleAssembly(CHANNELS, depth=3, gated_skips=1)
    routed = MultiscaleAssembly(CHANNELS, depth=3, gated_skips=1, mask_skip_routing=True)
    routed.load_state_dict(plain.state_dict())
    features, domain = torch.randn(2, CHANNELS, 13, 10), torch.ones(2, 1, 13, 10)
    assert torch.equal(routed(features, domain), plain(features, domain))


def test_one_level_is_a_single_block():
    assembly = MultiscaleAssembly(CHANNELS, depth=1)
    features = torch.randn(2, CHANNELS, 5, 4)
    assert torch.equal(assembly(features, torch.ones(2, 1, 5, 4)), assembly.encoder[0](features))


def test_sweeps_repeat_the_second_stencil_of_the_coarsest_scale_with_the_same_weights():
    assembly, swept = (MultiscaleAssembly(CHANNELS, depth=2, coarse_sweeps=sweeps) for sweeps in (1, 3))
    swept.load_state_dict(assembly.state_dict())
    features = torch.randn(2, CHANNELS, 8, 6)
    coarse = assembly.encoder[1](features)
    second = assembly.encoder[1].block[2:]
    once = coarse + second(coarse)
    torch.testing.assert_close(swept.encoder[1](features), once + second(once))
    torch.testing.assert_close(swept.encoder[0](features), assembly.encoder[0](features))


@pytest.mark.parametrize("size", [(1, 1), (1, 5), (7, 4)])
def test_doubling_by_sums_is_bilinear_interpolation(size):
    features = torch.randn(2, 3, *size)
    expected = functional.interpolate(features, scale_factor=2, mode="bilinear", align_corners=False)
    torch.testing.assert_close(double_along(double_along(features, 2), 3), expected)
