"""Stencils: 3×3 convolutions with zero padding, and the normalisation between them."""

from collections import OrderedDict

import torch
from jaxtyping import Float
from torch import Tensor, nn

from disol.nn.activation import GELU
from disol.nn.precision import HAS_KERNELS, MOST_CHANNELS, MOST_NORMALISED, computes_in_bfloat16

if HAS_KERNELS:
    from disol.nn.fused_norm import fused_norm
    from disol.nn.narrow_convolution import narrow_convolution


class Stencil(nn.Conv2d):
    """A 3×3 convolution with zero padding.

    In bfloat16 on a GPU, up to 64 channels are convolved by our own Triton kernels: cuDNN's are made for many channels,
    and with 8 or 16 they take about four times as long, for weight gradients up to ten times.
    """

    def __init__(self, in_channels: int, out_channels: int, *, bias: bool = False) -> None:
        super().__init__(in_channels, out_channels, 3, padding=1, bias=bias)

    def forward(
        self, features: Float[Tensor, "batch in_channel height width"]
    ) -> Float[Tensor, "batch channel height width"]:
        """Convolve."""
        is_narrow = max(self.in_channels, self.out_channels) <= MOST_CHANNELS
        if not (HAS_KERNELS and is_narrow and computes_in_bfloat16(features)):
            return super().forward(features)
        convolved = narrow_convolution(features, self.weight)
        return convolved if self.bias is None else convolved + self.bias[:, None, None].to(convolved.dtype)


class NormalisedGELU(nn.GroupNorm):
    """GELU(GroupNorm(z)).

    When training in bfloat16 on a GPU, our own Triton kernels compute it in as few passes over memory as possible.
    """

    def __init__(self, channels: int, *, groups: int = 8) -> None:
        """Normalise `groups` groups of channels of each case, or one group if they do not divide `channels`."""
        super().__init__(groups if channels % groups == 0 else 1, channels)
        self.activation = GELU()

    def forward(
        self, features: Float[Tensor, "batch channel height width"]
    ) -> Float[Tensor, "batch channel height width"]:
        """Normalise and activate."""
        is_narrow = self.num_channels <= MOST_NORMALISED
        if HAS_KERNELS and is_narrow and torch.is_grad_enabled() and computes_in_bfloat16(features):
            return fused_norm(features, self.weight, self.bias, self.num_groups, self.eps)
        return self.activation(super().forward(features))


def convolution_block(in_channels: int, out_channels: int) -> nn.Sequential:
    """Twice: 3×3 convolution, GroupNorm, GELU."""
    layers = [
        ("0", Stencil(in_channels, out_channels)),
        ("1", NormalisedGELU(out_channels)),
        # Checkpoints name the weights by these numbers, from when the activation was a layer of its own.
        ("3", Stencil(out_channels, out_channels)),
        ("4", NormalisedGELU(out_channels)),
    ]
    return nn.Sequential(OrderedDict(layers))


def stencil_stem(in_channels: int, out_channels: int) -> nn.Sequential:
    """Two 3×3 convolutions with a leaky ReLU between them: a learned 5×5 stencil."""
    return nn.Sequential(
        Stencil(in_channels, out_channels, bias=True),
        nn.LeakyReLU(0.1),
        Stencil(out_channels, out_channels, bias=True),
    )
