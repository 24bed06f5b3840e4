"""What each layer keeps, and what it cannot do."""

import pytest
import torch
from torch.nn import functional

from disol.nn import (
    ChannelMixing,
    FeatureModulation,
    NormalisedGELU,
    PoolDown,
    SkipGate,
    SpatialAttention,
    SplitFusion,
    StridedDown,
    Upsample,
    coarsen,
    domain_mean,
    pick_channels,
    pointwise_head,
    project,
)


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def shuffle_pixels(features):
    order = torch.randperm(features.shape[2] * features.shape[3], generator=torch.Generator().manual_seed(1))
    return features.flatten(2)[:, :, order].reshape(features.shape)


def test_channels_that_do_not_divide_into_groups_form_one_group():
    assert [NormalisedGELU(channels).num_groups for channels in (8, 16, 20, 5)] == [8, 8, 1, 1]
    assert [NormalisedGELU(channels, groups=16).num_groups for channels in (32, 40)] == [16, 1]


def test_channel_mixing_commutes_with_any_reordering_of_pixels():
    mixing = ChannelMixing(8, expansion=4)
    features = torch.randn(2, 8, 6, 5)
    torch.testing.assert_close(mixing(shuffle_pixels(features)), shuffle_pixels(mixing(features)))


def test_channel_mixing_is_the_identity_without_its_last_convolution():
    mixing = ChannelMixing(5, expansion=2)
    torch.nn.init.zeros_(mixing.contract.weight)
    features = torch.randn(2, 5, 6, 5)
    assert torch.equal(mixing(features), features)


def test_modulation_sees_only_the_mean_of_its_condition():
    modulation = FeatureModulation(4, 8, hidden=16)
    features, condition = torch.randn(2, 8, 6, 5), torch.randn(2, 4, 6, 5)
    torch.testing.assert_close(modulation(features, shuffle_pixels(condition)), modulation(features, condition))
    assert not torch.allclose(modulation(features, condition + 1), modulation(features, condition))


def test_modulation_scales_by_one_plus_gamma_and_shifts_by_beta():
    modulation = FeatureModulation(4, 2, hidden=16)
    torch.nn.init.zeros_(modulation.coefficients[2].weight)
    with torch.no_grad():
        modulation.coefficients[2].bias.copy_(torch.tensor([1.0, 2.0, 0.5, -0.5]))
    features = torch.randn(3, 2, 6, 5)
    expected = features * torch.tensor([2.0, 3.0])[:, None, None] + torch.tensor([0.5, -0.5])[:, None, None]
    torch.testing.assert_close(modulation(features, torch.randn(3, 4, 6, 5)), expected)


def test_fusion_reads_every_channel_once():
    widths = {"geometry_width": 4, "physics_width": 4, "film_width": 8}
    fusion = SplitFusion([0, 2], [1], 8, **widths)
    inputs = torch.randn(2, 3, 6, 5, requires_grad=True)
    fusion(inputs).square().sum().backward()
    assert (inputs.grad.abs().amax((0, 2, 3)) > 0).all()


def test_a_gate_can_only_weaken_a_skip():
    gate, skip = SkipGate(8), torch.randn(2, 8, 6, 5)
    gated = gate(skip, torch.randn(2, 8, 6, 5))
    assert (gated.abs() <= skip.abs()).all()
    assert (gated * skip >= 0).all()


def test_attention_weighs_all_channels_of_a_pixel_alike():
    attention, features = SpatialAttention(5), torch.randn(2, 8, 9, 7)
    weights = attention(features) / features
    torch.testing.assert_close(weights, weights[:, :1].expand_as(weights))
    assert ((weights > 0) & (weights < 1)).all()


def test_reducing_channels_commutes_with_interpolation():
    upsample, coarse = Upsample(8, 4), torch.randn(2, 8, 5, 6)
    interpolated = functional.interpolate(coarse, scale_factor=2, mode="bilinear", align_corners=False)
    torch.testing.assert_close(upsample(coarse, torch.empty(2, 4, 10, 12)), upsample.reduce(interpolated))


@pytest.mark.parametrize("down", [PoolDown(), StridedDown(4)])
@pytest.mark.parametrize("size", [(8, 6), (7, 5), (1, 2)])
def test_halving_rounds_up_and_doubling_restores_the_size(down, size):
    fine = torch.randn(2, 4, *size)
    coarse = down(fine)
    assert coarse.shape[2:] == tuple((side + 1) // 2 for side in size)
    assert Upsample(4, 4)(coarse, fine).shape == fine.shape


@pytest.mark.parametrize("down", [PoolDown(), StridedDown(4)])
def test_a_coarse_pixel_depends_only_on_the_four_pixels_it_covers(down):
    fine = torch.randn(1, 4, 7, 9, requires_grad=True)
    down(fine)[0, :, 2, 1].sum().backward()
    touched = fine.grad.abs().sum((0, 1)) > 0
    touched[4:6, 2:4] = False
    assert not touched.any()


def test_a_coarse_domain_covers_the_domain():
    domain = (torch.rand(3, 1, 13, 10) < 0.1).float()
    covered = functional.interpolate(coarsen(domain), scale_factor=2)[:, :, :13, :10]
    assert (covered >= domain).all()
    assert coarsen(domain).sum() <= domain.sum()


def test_projection_is_zero_outside_and_the_identity_inside():
    domain = (torch.rand(3, 1, 13, 10) < 0.5).float()
    field = torch.randn(3, 2, 13, 10)
    projected = project(field, domain)
    assert torch.equal(projected, torch.where(domain.bool(), field, 0.0))
    assert torch.equal(project(projected, domain), projected)


def test_a_mean_over_the_domain_ignores_what_lies_outside():
    domain = (torch.rand(3, 1, 13, 10) < 0.5).float()
    field = torch.randn(3, 2, 13, 10)
    mean = domain_mean(field, domain)
    torch.testing.assert_close(mean, domain_mean(field + 5 * (1 - domain), domain))
    torch.testing.assert_close(mean[0, 0], field[0, 0][domain[0, 0].bool()].mean())
    assert torch.equal(domain_mean(field, torch.zeros_like(domain)), torch.zeros(3, 2))


def test_picked_channels_come_in_the_order_asked_for():
    stacked = torch.randn(2, 4, 3, 3)
    assert torch.equal(pick_channels(stacked, [3, 1]), stacked[:, [3, 1]])


def test_a_head_acts_on_each_pixel_alone():
    head, features = pointwise_head(8, 16, 2, layers=3), torch.randn(2, 8, 6, 5)
    torch.testing.assert_close(head(shuffle_pixels(features)), shuffle_pixels(head(features)))
    assert len([layer for layer in head if isinstance(layer, torch.nn.Conv2d)]) == 3
