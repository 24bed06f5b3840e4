"""Reading a solution out of assembled features, pixel by pixel."""

from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn

from disol.nn.activation import GELU
from disol.nn.precision import HAS_KERNELS, MOST_CHANNELS, predicts_in_bfloat16

if HAS_KERNELS:
    from disol.nn.fused_readout import fused_readout


class SpatialAttention(nn.Module):
    """z σ(K * [mean z, max z]), mean and maximum over the channels: a weight for each pixel."""

    def __init__(self, kernel: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(2, 1, kernel, padding=kernel // 2, bias=False)

    def forward(
        self, features: Float[Tensor, "batch channel height width"]
    ) -> Float[Tensor, "batch channel height width"]:
        """Weigh the pixels."""
        summary = torch.cat([features.mean(1, keepdim=True), features.amax(1, keepdim=True)], dim=1)
        return features * torch.sigmoid(self.convolution(summary))


def pointwise_head(in_channels: int, hidden: int, out_channels: int, layers: int) -> nn.Sequential:
    """Build a perceptron that all pixels share: `layers` 1×1 convolutions with GELU between them."""
    widths = [in_channels, *[hidden] * (layers - 1), out_channels]
    modules: list[nn.Module] = []
    for before, after in pairwise(widths):
        modules += [nn.Conv2d(before, after, 1), GELU()]
    return nn.Sequential(*modules[:-1])


class Readout(nn.Module):
    """Weigh the pixels, then read each one out by the same perceptron.

    attention_kernel   pixels along a side of the attention stencil; None for no attention
    """

    def __init__(
        self, in_channels: int, hidden: int, out_channels: int, *, layers: int, attention_kernel: int | None
    ) -> None:
        super().__init__()
        self.attention = nn.Identity() if attention_kernel is None else SpatialAttention(attention_kernel)
        self.head = pointwise_head(in_channels, hidden, out_channels, layers)

    def forward(
        self, assembled: Float[Tensor, "batch channel height width"]
    ) -> Float[Tensor, "batch output height width"]:
        """Return the outputs of each pixel."""
        layers = [layer for layer in self.head if isinstance(layer, nn.Conv2d)]
        widest = max(assembled.shape[1], *[layer.out_channels for layer in layers])
        if HAS_KERNELS and predicts_in_bfloat16(assembled) and widest <= MOST_CHANNELS:
            stencil = self.attention.convolution.weight if isinstance(self.attention, SpatialAttention) else None
            return fused_readout(assembled, stencil, layers)
        return self.head(self.attention(assembled))
