"""Discrete solution operator learning: û = P_m[S(A(J(X)))] (Bai et al., arXiv 2601.09143)."""

from jaxtyping import Float
from torch import Tensor, nn

from disol.errors import DisolError
from disol.models.base import Network
from disol.models.settings import DiSOLConfig
from disol.nn import ChannelMixing, MultiscaleAssembly, Readout, SplitFusion, project, stencil_stem
from disol.problems import Problem


class DiSOL(Network):
    """Local contributions, assembled across scales, read out as a pattern on the domain."""

    config: DiSOLConfig

    def __init__(self, config: DiSOLConfig, problem: Problem) -> None:
        super().__init__(config, problem)
        self.local_operator = LocalContributions(config, problem)
        self.assembly = build_assembly(config)
        self.readout = build_readout(config, len(self.fields))

    def forward(self, inputs: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch field height width"]:
        """û = P_m[S(A(J(X)))]."""
        domain = self.domain_of(inputs)
        contributions = self.local_operator(inputs)
        assembled = self.assembly(contributions, domain)
        return project(self.readout(assembled), domain)


class LocalContributions(nn.Module):
    """J: fuse the channels, mix them, and turn them into local contributions by learned stencils."""

    def __init__(self, config: DiSOLConfig, problem: Problem) -> None:
        super().__init__()
        fused = config.width if config.fusion == "film" else len(problem.channels)
        self.fusion = build_fusion(config, problem) if config.fusion == "film" else nn.Identity()
        self.mixing = nn.Identity() if config.fusion == "none" else ChannelMixing(fused, config.expansion)
        self.stem = stencil_stem(fused, config.width)

    def forward(
        self, inputs: Float[Tensor, "batch channel height width"]
    ) -> Float[Tensor, "batch contribution height width"]:
        """Return J(X)."""
        return self.stem(self.mixing(self.fusion(inputs)))


def build_fusion(config: DiSOLConfig, problem: Problem) -> SplitFusion:
    """Build the fusion of geometry channels, which say where a case is posed and held, and physics channels."""
    geometry = [place for place, term in enumerate(problem.terms) if term.kind.is_geometry]
    physics = [place for place, term in enumerate(problem.terms) if not term.kind.is_geometry]
    if not physics:
        raise DisolError(
            f"fusion='film' needs a channel besides geometry, but {problem.name} has {', '.join(problem.channels)}. "
            "Use fusion='mixing'."
        )
    return SplitFusion(
        geometry,
        physics,
        config.width,
        geometry_width=config.geometry_width,
        physics_width=config.physics_width,
        film_width=config.film_width,
    )


def build_assembly(config: DiSOLConfig) -> MultiscaleAssembly:
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


def build_readout(config: DiSOLConfig, num_outputs: int) -> Readout:
    """Build S."""
    return Readout(
        config.width,
        config.head_width,
        num_outputs,
        layers=config.head_layers,
        attention_kernel=config.attention_kernel if config.attention else None,
    )
