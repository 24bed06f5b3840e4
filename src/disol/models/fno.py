"""The Fourier neural operator: layers that act on the lowest Fourier modes of a grid (Li et al., arXiv 2010.08895)."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from disol.models.base import Network
from disol.models.settings import FNOConfig
from disol.nn import FourierLayer, pixel_centres, pointwise_head, project
from disol.nn.activation import GELU
from disol.problems import Problem


class FNO(Network):
    """Channels and coordinates lifted, Fourier layers with GELU between them, and a pointwise head."""

    precision = "float32"  # of transforms and of all between them

    def __init__(self, config: FNOConfig, problem: Problem) -> None:
        super().__init__(config, problem)
        self.lift = nn.Conv2d(self.num_channels + 2, config.width, 1)
        self.layers = nn.ModuleList(FourierLayer(config.width, config.modes) for _ in range(config.layers))
        self.activation = GELU()
        self.head = pointwise_head(config.width, config.head_width, len(self.fields), layers=2)

    def forward(self, inputs: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch field height width"]:
        """Map the channels to a pattern on the domain."""
        domain = self.domain_of(inputs)
        centres = pixel_centres(inputs.shape[2], inputs.shape[3], inputs.device)
        features = self.lift(torch.cat([inputs, centres.expand(inputs.shape[0], -1, -1, -1)], dim=1))
        for layer in self.layers[:-1]:
            features = self.activation(layer(features))
        return project(self.head(self.layers[-1](features)), domain)
