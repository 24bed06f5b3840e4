"""Layers that know no PDE: stencils, channel mixing, scales, attention and pointwise readouts."""

from disol.nn.assembly import Downsampling, MultiscaleAssembly
from disol.nn.convolution import convolution_block, group_norm, stencil_stem
from disol.nn.fusion import FeatureModulation, SplitFusion
from disol.nn.masking import coarsen, domain_mean, pick_channels, project
from disol.nn.mixing import ChannelMixing, SqueezeExcitation
from disol.nn.readout import Readout, SpatialAttention, pointwise_head
from disol.nn.scales import PoolDown, SkipGate, StridedDown, Upsample

__all__ = [
    "ChannelMixing",
    "Downsampling",
    "FeatureModulation",
    "MultiscaleAssembly",
    "PoolDown",
    "Readout",
    "SkipGate",
    "SpatialAttention",
    "SplitFusion",
    "SqueezeExcitation",
    "StridedDown",
    "Upsample",
    "coarsen",
    "convolution_block",
    "domain_mean",
    "group_norm",
    "pick_channels",
    "pointwise_head",
    "project",
    "stencil_stem",
]
