"""Stencils: 3×3 convolutions with zero padding, and the normalisation between them."""

from torch import nn


def group_norm(channels: int, groups: int = 8) -> nn.GroupNorm:
    """Normalise groups of channels of each case; one group where `channels` cannot be divided evenly."""
    return nn.GroupNorm(groups if channels % groups == 0 else 1, channels)


def convolution_block(in_channels: int, out_channels: int) -> nn.Sequential:
    """Twice: 3×3 convolution, GroupNorm, GELU."""
    return nn.Sequential(
        nn.Conv2d(in_channels, out_channels, 3, padding=1, bias=False),
        group_norm(out_channels),
        nn.GELU(),
        nn.Conv2d(out_channels, out_channels, 3, padding=1, bias=False),
        group_norm(out_channels),
        nn.GELU(),
    )


def stencil_stem(in_channels: int, out_channels: int) -> nn.Sequential:
    """Two 3×3 convolutions with a leaky kink between them: a 5×5 learned stencil."""
    return nn.Sequential(
        nn.Conv2d(in_channels, out_channels, 3, padding=1),
        nn.LeakyReLU(0.1),
        nn.Conv2d(out_channels, out_channels, 3, padding=1),
    )
