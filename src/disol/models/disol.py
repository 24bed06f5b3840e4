"""Discrete solution operator learning: û = P_m[S(A(J(X)))] (Bai et al., arXiv 2601.09143)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from jaxtyping import Float
from torch import Tensor, nn

from disol.channels import ChannelLayout
from disol.models.config import ModelConfig
from disol.models.network import Network
from disol.nn import (
    ChannelMixing,
    Downsampling,
    MultiscaleAssembly,
    Readout,
    SplitFusion,
    project,
    stencil_stem,
)


@dataclass(frozen=True)
class DiSOLConfig(ModelConfig):
    """Settings of DiSOL; the defaults are the published Poisson network.

    width               channels of the finest scale; they double from scale to scale
    depth               number of scales
    fusion              "film": geometry channels modulate the physics channels, then mixing;
                        "mixing": gated channel mixing of the raw channels; "none": neither
    geometry_width      channels of the geometry branch
    physics_width       channels of the physics branch
    film_width          hidden units between geometry features and modulation
    expansion           of the channel mixing before the stem
    gated_skips         skips with a gate, counted from the deepest
    mask_skip_routing   multiply each skip by the domain at its scale
    downsampling        "pool" or "strided"
    level_mixing        gated channel mixing at every encoder level
    level_expansion     of that mixing
    coarse_sweeps       times the second stencil of the coarsest scale acts, with the same weights
    attention           weigh the pixels before the head
    attention_kernel    pixels along a side of the attention stencil
    head_width          hidden channels of the pointwise head
    head_layers         layers of the pointwise head, the output included
    """

    width: int = 8
    depth: int = 4
    fusion: Literal["film", "mixing", "none"] = "film"
    geometry_width: int = 16
    physics_width: int = 16
    film_width: int = 32
    expansion: int = 4
    gated_skips: int = 2
    mask_skip_routing: bool = False
    downsampling: Downsampling = "pool"
    level_mixing: bool = False
    level_expansion: int = 1
    coarse_sweeps: int = 1
    attention: bool = True
    attention_kernel: int = 5
    head_width: int = 32
    head_layers: int = 2

    smallest: ClassVar[Mapping[str, int]] = {"gated_skips": 0}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.gated_skips > self.depth - 1:
            raise ValueError(
                f"gated_skips must be at most depth - 1 = {self.depth - 1}, got {self.gated_skips}. Lower it."
            )
        if self.attention_kernel % 2 == 0:
            raise ValueError(f"attention_kernel must be odd, got {self.attention_kernel}. Use 3, 5 or 7.")

    @classmethod
    def for_problem(cls, problem: str) -> "DiSOLConfig":
        """Return the published settings for a problem; those of Poisson for a problem of one's own."""
        # One published network serves both Péclet numbers.
        return PUBLISHED_CONFIGS.get(problem.removesuffix("-low").removesuffix("-high"), DiSOLConfig())


PUBLISHED_CONFIGS = {
    "poisson": DiSOLConfig(),
    "advection-diffusion": DiSOLConfig(width=16),
    "elasticity": DiSOLConfig(width=32, depth=5, fusion="mixing", expansion=8, head_width=64, head_layers=4),
    "heat": DiSOLConfig(width=20, fusion="mixing", expansion=2, head_width=64, head_layers=4),
}


class DiSOL(Network):
    """Local contributions, assembled across scales, read out as a pattern on the domain."""

    config: DiSOLConfig

    def __init__(self, config: DiSOLConfig, channels: ChannelLayout, fields: tuple[str, ...]) -> None:
        super().__init__(config, channels, fields)
        self.local_operator = LocalContributions(config, channels)
        self.assembly = assembly_of(config)
        self.readout = readout_of(config, len(fields))

    def forward(self, inputs: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch field height width"]:
        """û = P_m[S(A(J(X)))]."""
        domain = self.domain_of(inputs)
        contributions = self.local_operator(inputs)
        assembled = self.assembly(contributions, domain)
        return project(self.readout(assembled), domain)


class LocalContributions(nn.Module):
    """J: fuse the channels, mix them, and turn them into local contributions by learned stencils."""

    def __init__(self, config: DiSOLConfig, channels: ChannelLayout) -> None:
        super().__init__()
        fused = config.width if config.fusion == "film" else len(channels)
        self.fusion = split_fusion(config, channels) if config.fusion == "film" else nn.Identity()
        self.mixing = nn.Identity() if config.fusion == "none" else ChannelMixing(fused, config.expansion)
        self.stem = stencil_stem(fused, config.width)

    def forward(
        self, inputs: Float[Tensor, "batch channel height width"]
    ) -> Float[Tensor, "batch contribution height width"]:
        """Return J(X)."""
        return self.stem(self.mixing(self.fusion(inputs)))


def assembly_of(config: DiSOLConfig) -> MultiscaleAssembly:
    """Build A."""
    return MultiscaleAssembly(
        config.width,
        config.depth,
        gated_skips=config.gated_skips,
        mask_skip_routing=config.mask_skip_routing,
        downsampling=config.downsampling,
        level_expansion=config.level_expansion if config.level_mixing else 0,
        coarse_sweeps=config.coarse_sweeps,
    )


def readout_of(config: DiSOLConfig, num_outputs: int) -> Readout:
    """Build S."""
    return Readout(
        config.width,
        config.head_width,
        num_outputs,
        layers=config.head_layers,
        attention_kernel=config.attention_kernel if config.attention else None,
    )


def split_fusion(config: DiSOLConfig, channels: ChannelLayout) -> SplitFusion:
    """Build the fusion of geometry channels (the domain, and where fields are pinned) and physics channels."""
    geometry = [name for name in channels if is_geometry(name)]
    physics = [name for name in channels if not is_geometry(name)]
    if not physics:
        raise ValueError(f"Expected a channel besides geometry, got {', '.join(channels)}. Use fusion='mixing'.")
    return SplitFusion(
        [channels.position(name) for name in geometry],
        [channels.position(name) for name in physics],
        config.width,
        geometry_width=config.geometry_width,
        physics_width=config.physics_width,
        film_width=config.film_width,
    )


def is_geometry(channel: str) -> bool:
    """Tell whether a channel says where the problem is posed or pinned."""
    return channel in {"domain", "dirichlet"} or channel.startswith("fix_")
