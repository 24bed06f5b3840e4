"""Fusion of geometry and physics channels: geometry modulates how the physics is read."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from disol.nn.activation import GELU
from disol.nn.convolution import convolution_block
from disol.nn.masking import pick_channels


class FeatureModulation(nn.Module):
    """z′ = (1 + γ) z + β with (γ, β) = MLP(mean of the condition over the grid): FiLM."""

    def __init__(self, condition_channels: int, channels: int, hidden: int) -> None:
        super().__init__()
        self.coefficients = nn.Sequential(
            nn.Linear(condition_channels, hidden), GELU(), nn.Linear(hidden, 2 * channels)
        )

    def forward(
        self,
        features: Float[Tensor, "batch channel height width"],
        condition: Float[Tensor, "batch condition height width"],
    ) -> Float[Tensor, "batch channel height width"]:
        """Scale and shift every channel."""
        gamma, beta = self.coefficients(condition.mean((2, 3)))[:, :, None, None].chunk(2, dim=1)
        return (1 + gamma) * features + beta


class SplitFusion(nn.Module):
    """Read geometry and physics channels separately, modulate the physics by the geometry, and merge them."""

    def __init__(
        self,
        geometry: Sequence[int],
        physics: Sequence[int],
        out_channels: int,
        *,
        geometry_width: int,
        physics_width: int,
        film_width: int,
    ) -> None:
        super().__init__()
        self.geometry_positions = tuple(geometry)
        self.physics_positions = tuple(physics)
        self.geometry = convolution_block(len(geometry), geometry_width)
        self.physics = convolution_block(len(physics), physics_width)
        self.modulation = FeatureModulation(geometry_width, physics_width, film_width)
        self.merge = nn.Conv2d(geometry_width + physics_width, out_channels, 1, bias=False)

    def forward(self, inputs: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch out height width"]:
        """Fuse stacked channels."""
        geometry = self.geometry(pick_channels(inputs, self.geometry_positions))
        physics = self.physics(pick_channels(inputs, self.physics_positions))
        return self.merge(torch.cat([geometry, self.modulation(physics, geometry)], dim=1))
