"""Multiscale assembly: an encoder-decoder that spreads local contributions across scales."""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from disol.nn.convolution import convolution_block
from disol.nn.masking import coarsen, project
from disol.nn.mixing import ChannelMixing
from disol.nn.scales import PoolDown, SkipGate, StridedDown, Upsample

Downsampling = Literal["pool", "strided"]


class EncoderLevel(nn.Module):
    """Two stencils at one scale, the second swept over the features `sweeps` times, then optional channel mixing."""

    def __init__(self, in_channels: int, out_channels: int, expansion: int, *, sweeps: int = 1) -> None:
        super().__init__()
        self.block = convolution_block(in_channels, out_channels)
        self.mixing = ChannelMixing(out_channels, expansion) if expansion else nn.Identity()
        self.sweeps = sweeps

    def forward(
        self, features: Float[Tensor, "batch in_channel height width"]
    ) -> Float[Tensor, "batch channel height width"]:
        """Act at one scale."""
        features = self.block(features)
        second = self.block[2:]
        for _ in range(self.sweeps - 1):
            features = features + second(features)
        return self.mixing(features)


class DecoderLevel(nn.Module):
    """Coarse features upsampled to one scale and merged with the features of the encoder there."""

    def __init__(self, channels: int, *, gated: bool) -> None:
        super().__init__()
        self.up = Upsample(2 * channels, channels)
        self.gate = SkipGate(channels) if gated else None
        self.block = convolution_block(2 * channels, channels)

    def forward(
        self,
        coarse: Float[Tensor, "batch coarse_channel coarse_height coarse_width"],
        skip: Float[Tensor, "batch channel height width"],
    ) -> Float[Tensor, "batch channel height width"]:
        """Merge two scales."""
        up = self.up(coarse, skip)
        if self.gate is not None:
            skip = self.gate(skip, up)
        return self.block(torch.cat([skip, up], dim=1))


class MultiscaleAssembly(nn.Module):
    """Spread features over `depth` scales; the channels double from each scale to the next coarser one.

    gated_skips         number of skips with a gate, counted from the deepest
    mask_skip_routing   multiply each skip by the domain at its scale, before its gate
    downsampling        "pool" (2×2 maximum) or "strided" (2×2 convolution)
    level_expansion     expansion of the gated mixing block after the stencils of every encoder level; 0 for no block
    coarse_sweeps       how often the second stencil of the coarsest scale is applied, with the same weights: distant
                        parts of a domain interact, as in repeated sweeps of a coarse solver

    With `mask_skip_routing` no skip carries features from outside the domain; the encoder's path to the coarsest scale
    still does.
    """

    def __init__(
        self,
        channels: int,
        depth: int,
        *,
        gated_skips: int = 0,
        mask_skip_routing: bool = False,
        downsampling: Downsampling = "pool",
        level_expansion: int = 0,
        coarse_sweeps: int = 1,
    ) -> None:
        super().__init__()
        widths = [channels * 2**level for level in range(depth)]
        self.mask_skip_routing = mask_skip_routing
        self.encoder = nn.ModuleList(
            EncoderLevel(before, after, level_expansion, sweeps=coarse_sweeps if after == widths[-1] else 1)
            for before, after in zip([channels, *widths], widths, strict=False)
        )
        self.down = nn.ModuleList(PoolDown() if downsampling == "pool" else StridedDown(width) for width in widths[:-1])
        self.decoder = nn.ModuleList(
            DecoderLevel(width, gated=level >= depth - 1 - gated_skips) for level, width in enumerate(widths[:-1])
        )

    def forward(
        self,
        contributions: Float[Tensor, "batch channel height width"],
        domain: Float[Tensor, "batch 1 height width"],
    ) -> Float[Tensor, "batch channel height width"]:
        """Assemble local contributions."""
        skips, coarsest = self.encode(contributions)
        return self.decode(self.route(skips, domain), coarsest)

    def encode(
        self, contributions: Float[Tensor, "batch channel height width"]
    ) -> tuple[list[Float[Tensor, "batch _ _ _"]], Float[Tensor, "batch _ _ _"]]:
        """Return the features of every scale, fine to coarse, and of the coarsest one."""
        features = self.encoder[0](contributions)
        skips = []
        for down, level in zip(self.down, self.encoder[1:], strict=True):
            skips.append(features)
            features = level(down(features))
        return skips, features

    def route(
        self, skips: list[Float[Tensor, "batch _ _ _"]], domain: Float[Tensor, "batch 1 height width"]
    ) -> list[Float[Tensor, "batch _ _ _"]]:
        """Multiply each skip by the domain at its scale, if `mask_skip_routing` is set."""
        if not self.mask_skip_routing:
            return skips
        routed = []
        for skip in skips:
            routed.append(project(skip, domain))
            domain = coarsen(domain)
        return routed

    def decode(
        self, skips: list[Float[Tensor, "batch _ _ _"]], coarsest: Float[Tensor, "batch _ _ _"]
    ) -> Float[Tensor, "batch channel height width"]:
        """Merge the scales, coarse to fine."""
        features = coarsest
        for level, skip in zip(reversed(self.decoder), reversed(skips), strict=True):
            features = level(features, skip)
        return features
