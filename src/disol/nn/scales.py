"""Moving between scales: a coarse pixel (i, j) covers the fine pixels (2i, 2j) to (2i + 1, 2j + 1).

Odd sizes are rounded up on the way down and cut back on the way up; even sizes are not padded at all.
"""

from collections import OrderedDict

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from disol.nn.convolution import NormalisedGELU


class PoolDown(nn.Module):
    """Maximum over 2×2 pixels."""

    def forward(
        self, features: Float[Tensor, "batch channel height width"]
    ) -> Float[Tensor, "batch channel coarse_height coarse_width"]:
        """Halve the grid."""
        return functional.max_pool2d(features, 2, ceil_mode=True)


class StridedDown(nn.Module):
    """Learned restriction: a 2×2 convolution with stride 2."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        # A 3×3 stencil would be centred on a corner of the coarse pixel, half a pixel from where bilinear
        # interpolation puts it back.
        self.restriction = nn.Conv2d(channels, channels, 2, stride=2, bias=False)

    def forward(
        self, features: Float[Tensor, "batch channel height width"]
    ) -> Float[Tensor, "batch channel coarse_height coarse_width"]:
        """Halve the grid."""
        height, width = features.shape[2:]
        return self.restriction(functional.pad(features, (0, width % 2, 0, height % 2)))


class Upsample(nn.Module):
    """Bilinear interpolation to twice the size, with half the channels."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.reduce = nn.Conv2d(in_channels, out_channels, 1)

    def forward(
        self,
        coarse: Float[Tensor, "batch in_channel coarse_height coarse_width"],
        fine: Float[Tensor, "batch channel height width"],
    ) -> Float[Tensor, "batch channel height width"]:
        """Bring coarse features to the grid of `fine`."""
        # Interpolation weights sum to 1, so a 1×1 convolution commutes with them and is four times cheaper before.
        return double(self.reduce(coarse))[:, :, : fine.shape[2], : fine.shape[3]]


def double(features: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch channel _ _"]:
    """Interpolate to twice the size, bilinearly between pixel centres."""
    if not features.is_cuda:
        return functional.interpolate(features, scale_factor=2, mode="bilinear", align_corners=False)
    # On a GPU torch's own kernel takes several times as long, and its compiled gradient sums by atomic additions.
    return double_along(double_along(features, 2), 3)


def double_along(
    features: Float[Tensor, "batch channel height width"], axis: int
) -> Float[Tensor, "batch channel _ _"]:
    """Interpolate at two points for each pixel along an axis, a quarter of its width to either side of its centre."""
    size = features.shape[axis]
    before = torch.cat([features.narrow(axis, 0, 1), features.narrow(axis, 0, size - 1)], axis)
    after = torch.cat([features.narrow(axis, 1, size - 1), features.narrow(axis, size - 1, 1)], axis)
    pairs = [torch.lerp(features, before, 0.25), torch.lerp(features, after, 0.25)]
    return torch.stack(pairs, axis + 1).flatten(axis, axis + 1)


class SkipGate(nn.Module):
    """skip ⊙ σ(W₂ GELU(GroupNorm(W₁ [skip, up])))."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        layers = [
            ("0", nn.Conv2d(2 * channels, channels, 1)),
            ("1", NormalisedGELU(channels)),
            ("3", nn.Conv2d(channels, channels, 1)),  # as in convolution_block
        ]
        self.gate = nn.Sequential(OrderedDict(layers))

    def forward(
        self,
        skip: Float[Tensor, "batch channel height width"],
        up: Float[Tensor, "batch channel height width"],
    ) -> Float[Tensor, "batch channel height width"]:
        """Gate the skip by itself and the coarser scales."""
        return skip * torch.sigmoid(self.gate(torch.cat([skip, up], dim=1)))
