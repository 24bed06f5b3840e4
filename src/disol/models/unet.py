"""The paper's control: the DiSOL backbone without fusion, mixing, gates and attention (Supplement H).

Two stencils are where DiSOL has its attention, as in the released code where attention is switched off.
"""

from jaxtyping import Float
from torch import Tensor

from disol.models.base import Network
from disol.models.settings import UNetConfig
from disol.nn import MultiscaleAssembly, pointwise_head, project, stencil_stem
from disol.problems import Problem


class UNet(Network):
    """Stencils, an encoder-decoder with plain skips, stencils again, and a pointwise head."""

    def __init__(self, config: UNetConfig, problem: Problem) -> None:
        super().__init__(config, problem)
        self.stem = stencil_stem(self.num_channels, config.width)
        self.backbone = MultiscaleAssembly(config.width, config.depth)
        self.smoothing = stencil_stem(config.width, config.width)
        self.head = pointwise_head(config.width, config.head_width, len(self.fields), config.head_layers)

    def forward(self, inputs: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch field height width"]:
        """Map the channels to a pattern on the domain."""
        domain = self.domain_of(inputs)
        features = self.backbone(self.stem(inputs), domain)
        return project(self.head(self.smoothing(features)), domain)
