"""Mixing of channels at each pixel, gated by the pixel and by the whole grid."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from disol.nn.activation import GELU
from disol.nn.convolution import NormalisedGELU


class SqueezeExcitation(nn.Module):
    """z σ(W₂ GELU(W₁ mean z)): each channel scaled by a function of the means of all channels."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        squeezed = max(channels // 16, 4)
        self.squeeze = nn.Conv2d(channels, squeezed, 1)
        self.activation = GELU()
        self.excite = nn.Conv2d(squeezed, channels, 1)

    def forward(
        self, features: Float[Tensor, "batch channel height width"]
    ) -> Float[Tensor, "batch channel height width"]:
        """Scale the channels."""
        average = features.mean((2, 3), keepdim=True)
        return features * torch.sigmoid(self.excite(self.activation(self.squeeze(average))))


class ChannelMixing(nn.Module):
    """z + SE(W₃ (a ⊙ σ(g))), (a, g) = W₂ GELU(GroupNorm(W₁ z)): a gated residual block of 1×1 convolutions."""

    def __init__(self, channels: int, expansion: int) -> None:
        super().__init__()
        hidden = expansion * channels
        self.expand = nn.Conv2d(channels, hidden, 1, bias=False)
        self.norm = NormalisedGELU(hidden, groups=16)
        self.gate = nn.Conv2d(hidden, 2 * hidden, 1)
        self.contract = nn.Conv2d(hidden, channels, 1, bias=False)
        self.excitation = SqueezeExcitation(channels)

    def forward(
        self, features: Float[Tensor, "batch channel height width"]
    ) -> Float[Tensor, "batch channel height width"]:
        """Add the gated mixture of the channels."""
        hidden = self.norm(self.expand(features))
        values, gates = self.gate(hidden).chunk(2, dim=1)
        return features + self.excitation(self.contract(values * torch.sigmoid(gates)))
