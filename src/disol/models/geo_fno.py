"""Geo-FNO: an FNO on a latent square that domains are deformed into (Li et al., JMLR 2023).

Fourier sums over the pixels of a domain, at their places on the latent square, map to its uniform grid and back.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from disol.models.base import Network
from disol.models.settings import GeoFNOConfig
from disol.nn import (
    FourierLayer,
    SpectralConvolution,
    domain_mean,
    evaluate_modes,
    lowest_modes,
    perceptron,
    pixel_centres,
    pointwise_head,
    project,
)
from disol.nn.activation import GELU
from disol.nn.spectral import count_twice, find_frequencies
from disol.problems import Problem

OCTAVES = 4  # frequencies of the sines and cosines of a point that the deformation reads


class GeoFNO(Network):
    """A spectral layer from the domain to the latent grid, Fourier layers on it, and a spectral layer back."""

    precision = "float32"  # of Fourier sums and of all between them

    def __init__(self, config: GeoFNOConfig, problem: Problem) -> None:
        super().__init__(config, problem)
        width, modes, inner = config.width, config.modes, config.layers - 2
        self.modes, self.latent = modes, config.latent
        self.deformation = Deformation(config.deformation_width)
        self.lift = nn.Conv2d(self.num_channels + 2, width, 1)
        self.inward = SpectralConvolution(width, width, modes)
        self.layers = nn.ModuleList(FourierLayer(width, modes) for _ in range(inner))
        self.outward = SpectralConvolution(width, width, modes)
        self.place_terms = nn.ModuleList(nn.Conv2d(2, width, 1) for _ in range(config.layers))
        self.activation = GELU()
        self.head = pointwise_head(width, config.head_width, len(self.fields), layers=2)

    def forward(self, inputs: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch field height width"]:
        """Map the channels to a pattern on the domain."""
        domain = self.domain_of(inputs)
        height, width = inputs.shape[2:]
        centres = pixel_centres(height, width, inputs.device)
        lifted = self.lift(torch.cat([inputs, centres.expand(len(inputs), -1, -1, -1)], dim=1))
        waves = self.find_waves(domain)
        grid = pixel_centres(self.latent, self.latent, inputs.device)[None]
        with torch.autocast(inputs.device.type, enabled=False):
            spectrum = self.inward.mix(waves.analyse(lifted.float(), domain))
            latent = evaluate_modes(spectrum, self.latent, self.latent)
        features = self.activation(latent + self.place_terms[0](grid))
        for layer, place_term in zip(self.layers, self.place_terms[1:-1], strict=True):
            features = self.activation(layer(features) + place_term(grid))
        with torch.autocast(inputs.device.type, enabled=False):
            spectrum = self.outward.mix(lowest_modes(features.float(), self.modes))
            field = waves.synthesise(spectrum).reshape(len(inputs), -1, height, width)
        return project(self.head(field + self.place_terms[-1](centres[None])), domain)

    def find_waves(self, domain: Float[Tensor, "batch 1 height width"]) -> "Waves":
        """Return the Fourier modes of the latent square at the places of pixels, in float32.

        The place of a pixel is its corner next to the origin, as in a discrete Fourier transform.
        """
        height, width = domain.shape[2:]
        with torch.autocast(domain.device.type, enabled=False):
            x, y = pixel_centres(height, width, domain.device)
            corners = torch.stack([x - 0.5 / width, y - 0.5 / height])
            latent = self.deformation(corners, domain.float()).flatten(2)[..., None]
            rows, columns = find_frequencies(self.modes, self.modes, domain.device)
            turns = rows.repeat_interleave(len(columns)) * latent[:, 1] + columns.repeat(len(rows)) * latent[:, 0]
            phases = 2 * torch.pi * turns
            return Waves(phases.cos(), phases.sin(), count_twice(columns))


class Waves(NamedTuple):
    """The Fourier modes e^{2πi k·ξ} at the places of pixels.

    counted   1 for columns with k₂ = 0, else 2: modes with −k are not listed
    """

    cosines: Float[Tensor, "batch pixel mode"]
    sines: Float[Tensor, "batch pixel mode"]
    counted: Float[Tensor, "columns 1"]

    def analyse(
        self, features: Float[Tensor, "batch channel height width"], domain: Float[Tensor, "batch 1 height width"]
    ) -> Float[Tensor, "batch channel rows columns 2"]:
        """v̂ₖ = 1/n Σ v e^{−2πi k·ξ} over the n pixels of the domain."""
        share = domain / domain.sum((2, 3), keepdim=True).clamp(min=1)
        values = project(features, share).flatten(2)
        spectrum = torch.stack([values @ self.cosines, -(values @ self.sines)], dim=-1)
        return spectrum.reshape(*spectrum.shape[:2], -1, len(self.counted), 2)

    def synthesise(
        self, spectrum: Float[Tensor, "batch channel rows columns 2"]
    ) -> Float[Tensor, "batch channel pixel"]:
        """Re Σₖ v̂ₖ e^{2πi k·ξ}, modes with k₂ > 0 counted twice."""
        real, imaginary = (spectrum * self.counted).flatten(2, 3).unbind(-1)
        return real @ self.cosines.mT - imaginary @ self.sines.mT


class Deformation(nn.Module):
    """ξ = x + x φ(x): where a point of a domain lies on the latent square.

    φ reads x, y, the angle and the distance from the centre of the domain, and sines and cosines of all four.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = perceptron([4 * (1 + 2 * OCTAVES), width, width, 2])

    def forward(
        self, places: Float[Tensor, "2 height width"], domain: Float[Tensor, "batch 1 height width"]
    ) -> Float[Tensor, "batch 2 height width"]:
        """Deform the places of the pixels, differently for each domain."""
        batch = len(domain)
        spread = places.expand(batch, -1, -1, -1)
        x, y = (spread - domain_mean(spread, domain)[:, :, None, None]).unbind(1)
        known = torch.cat([spread, torch.stack([torch.atan2(y, x), torch.hypot(x, y)], dim=1)], dim=1)
        octaves = [known * (torch.pi * 2**octave) for octave in range(OCTAVES)]
        features = torch.cat([known, *[octave.sin() for octave in octaves], *[octave.cos() for octave in octaves]], 1)
        return spread + spread * self.layers(features.movedim(1, -1)).movedim(-1, 1)
