"""DeepONet: a branch reads the channels, a trunk the coordinates, and their inner product is the field.

u_f(x) = Σₚ B_fp(channels) T_p(x) + b_f (Lu et al., Nature Machine Intelligence 2021).
"""

from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from disol.models.base import Network
from disol.models.settings import DeepONetConfig
from disol.nn import perceptron, pixel_centres, project
from disol.nn.activation import GELU
from disol.problems import Problem

COARSEST = 4  # pixels along a side of the grid after the convolutions


class DeepONet(Network):
    """Learned basis functions, with coefficients read from the channels."""

    def __init__(self, config: DeepONetConfig, problem: Problem) -> None:
        super().__init__(config, problem)
        outputs = len(self.fields) * config.basis
        self.branch = (
            FlatBranch(self.num_channels, outputs, config)
            if config.branch == "flat"
            else ConvolutionalBranch(self.num_channels, outputs, config)
        )
        self.trunk = perceptron([2, *[config.trunk_width] * (config.trunk_layers - 1), config.basis])
        self.bias = nn.Parameter(torch.zeros(len(self.fields)))

    def forward(self, inputs: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch field height width"]:
        """Map the channels to a pattern on the domain."""
        domain = self.domain_of(inputs)
        coefficients = self.branch(inputs).unflatten(1, (len(self.fields), -1))
        basis = self.evaluate_trunk(inputs)
        field = torch.einsum("bfp,hwp->bfhw", coefficients, basis) + self.bias[:, None, None]
        return project(field, domain)

    def evaluate_trunk(
        self, inputs: Float[Tensor, "batch channel height width"]
    ) -> Float[Tensor, "height width basis"]:
        """Return the basis functions at the pixel centres of a grid, with a GELU after the last layer too.

        They are computed in float32: bfloat16 would not distinguish neighbouring pixels of a fine grid.
        """
        with torch.autocast(inputs.device.type, enabled=False):
            centres = pixel_centres(inputs.shape[2], inputs.shape[3], inputs.device)
            return functional.gelu(self.trunk(centres.permute(1, 2, 0)))


class FlatBranch(nn.Module):
    """A perceptron of all channels at all sensors, which are the pixels of one grid; other grids are resampled."""

    def __init__(self, num_channels: int, outputs: int, config: DeepONetConfig) -> None:
        super().__init__()
        self.sensors = config.sensors
        hidden = [config.width] * (config.branch_layers - 1)
        self.layers = perceptron([num_channels * config.sensors**2, *hidden, outputs])

    def forward(self, inputs: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch output"]:
        """Read the channels."""
        if inputs.shape[2:] != (self.sensors, self.sensors):
            size = (self.sensors, self.sensors)
            inputs = functional.interpolate(inputs, size, mode="bilinear", antialias=True)
        return self.layers(inputs.flatten(1))


class ConvolutionalBranch(nn.Module):
    """Strided convolutions down to a few pixels, then a perceptron: the same stencils read all parts of a grid."""

    def __init__(self, num_channels: int, outputs: int, config: DeepONetConfig) -> None:
        super().__init__()
        widths = [num_channels, *[config.cnn_width * factor for factor in (1, 2, 4, 4)]]
        modules: list[nn.Module] = []
        for before, after in pairwise(widths):
            modules += [nn.Conv2d(before, after, 3, stride=2, padding=1), GELU()]
        self.convolutions = nn.Sequential(*modules, nn.AdaptiveAvgPool2d(COARSEST), nn.Flatten())
        self.layers = perceptron([widths[-1] * COARSEST**2, config.basis, outputs])

    def forward(self, inputs: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch output"]:
        """Read the channels."""
        return self.layers(self.convolutions(inputs))
