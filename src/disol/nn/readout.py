"""Reading a solution out of assembled features, pixel by pixel."""

from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn


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
    """Build the same perceptron for every pixel: `layers` 1×1 convolutions with GELU between them."""
    widths = [in_channels, *[hidden] * (layers - 1), out_channels]
    modules: list[nn.Module] = []
    for before, after in pairwise(widths):
        modules += [nn.Conv2d(before, after, 1), nn.GELU()]
    return nn.Sequential(*modules[:-1])
