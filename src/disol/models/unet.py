"""The paper's control: the DiSOL backbone without fusion, mixing, gates and attention (Supplement H)."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from disol.channels import ChannelLayout
from disol.models.config import ModelConfig
from disol.models.disol import DiSOLConfig
from disol.models.network import Network
from disol.nn import MultiscaleAssembly, pointwise_head, project, stencil_stem


@dataclass(frozen=True)
class UNetConfig(ModelConfig):
    """Settings of the U-Net, which mean what they mean for DiSOL."""

    width: int = 8
    depth: int = 4
    head_width: int = 32
    head_layers: int = 2

    @classmethod
    def for_problem(cls, problem: str) -> "UNetConfig":
        """Return the width, depth and head of the published DiSOL for a problem."""
        disol = DiSOLConfig.for_problem(problem)
        return UNetConfig(disol.width, disol.depth, disol.head_width, disol.head_layers)


class UNet(Network):
    """Stencils, an encoder-decoder with plain skips, and a pointwise head."""

    def __init__(self, config: UNetConfig, channels: ChannelLayout, fields: tuple[str, ...]) -> None:
        super().__init__(config, channels, fields)
        self.stem = stencil_stem(len(channels), config.width)
        self.backbone = MultiscaleAssembly(config.width, config.depth)
        self.head = pointwise_head(config.width, config.head_width, len(fields), config.head_layers)

    def forward(self, inputs: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch field height width"]:
        """Map the channels to a pattern on the domain."""
        domain = self.domain_of(inputs)
        features = self.backbone(self.stem(inputs), domain)
        return project(self.head(features), domain)
