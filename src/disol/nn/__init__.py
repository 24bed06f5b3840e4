"""Layers that know nothing of PDEs: stencils, Fourier modes, channel mixing, scales, attention, pointwise readouts."""

from disol.nn.assembly import Downsampling, MultiscaleAssembly
from disol.nn.convolution import NormalisedGELU, convolution_block, stencil_stem
from disol.nn.fusion import FeatureModulation, SplitFusion
from disol.nn.masking import coarsen, domain_mean, pick_channels, project
from disol.nn.mixing import ChannelMixing, SqueezeExcitation
from disol.nn.points import perceptron, pixel_centres
from disol.nn.readout import Readout, SpatialAttention, pointwise_head
from disol.nn.scales import PoolDown, SkipGate, StridedDown, Upsample
from disol.nn.spectral import FourierLayer, SpectralConvolution, evaluate_modes, lowest_modes

__all__ = [
    "ChannelMixing",
    "Downsampling",
    "FeatureModulation",
    "FourierLayer",
    "MultiscaleAssembly",
    "NormalisedGELU",
    "PoolDown",
    "Readout",
    "SkipGate",
    "SpatialAttention",
    "SpectralConvolution",
    "SplitFusion",
    "SqueezeExcitation",
    "StridedDown",
    "Upsample",
    "coarsen",
    "convolution_block",
    "domain_mean",
    "evaluate_modes",
    "lowest_modes",
    "perceptron",
    "pick_channels",
    "pixel_centres",
    "pointwise_head",
    "project",
    "stencil_stem",
]
