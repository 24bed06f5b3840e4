"""Convolutions in Fourier space: a matrix for each of the lowest modes of a grid."""

from typing import ClassVar

import torch
from jaxtyping import Complex, Float
from torch import Tensor, nn


class SpectralConvolution(nn.Module):
    """v ↦ Re Σₖ Wₖ v̂ₖ e^{2πi k·x}, over rows −m ≤ k₁ < m and columns 0 ≤ k₂ < m, those with k₂ > 0 counted twice.

    weight   pairs of real and imaginary parts, which optimizers, averages and files take as they are; the rows of the
             first block are k₁ = 0 … m − 1, of the second −m … −1

    Of a grid with fewer modes those that it has are used. Transforms are made in float32, whatever layers compute in.
    """

    complex_weights: ClassVar[tuple[str, ...]] = ("weight",)

    def __init__(self, in_channels: int, out_channels: int, modes: int) -> None:
        super().__init__()
        self.modes = modes
        scale = 1 / (in_channels * out_channels)
        self.weight = nn.Parameter(scale * torch.rand(2, modes, modes, in_channels, out_channels, 2))

    def forward(
        self, features: Float[Tensor, "batch in_channel height width"]
    ) -> Float[Tensor, "batch channel height width"]:
        """Convolve."""
        height, width = features.shape[2:]
        with torch.autocast(features.device.type, enabled=False):
            return evaluate_modes(self.mix(lowest_modes(features.float(), self.modes)), height, width)

    def mix(
        self, spectrum: Complex[Tensor, "batch in_channel rows columns"]
    ) -> Complex[Tensor, "batch channel rows columns"]:
        """Wₖ v̂ₖ of each mode; rows are k₁ = 0, 1, … and then the negative ones, ending with −1."""
        rows, columns = spectrum.shape[2] // 2, spectrum.shape[3]
        weight = torch.view_as_complex(self.weight)
        kept = torch.cat([weight[0, :rows, :columns], weight[1, self.modes - rows :, :columns]])
        return torch.einsum("bikl,klio->bokl", spectrum, kept)


def lowest_modes(
    features: Float[Tensor, "batch channel height width"], modes: int
) -> Complex[Tensor, "batch channel rows columns"]:
    """v̂ₖ, the mean of v e^{−2πi k·x} over a grid, of rows k₁ = 0 … m − 1, −m … −1 and columns k₂ = 0 … m − 1."""
    height, width = features.shape[2:]
    rows, columns = min(modes, height // 2), min(modes, (width + 1) // 2)
    spectrum = torch.fft.rfft2(features, norm="forward")[..., :columns]
    return torch.cat([spectrum[:, :, :rows], spectrum[:, :, height - rows :]], dim=2)


def evaluate_modes(
    spectrum: Complex[Tensor, "batch channel rows columns"], height: int, width: int
) -> Float[Tensor, "batch channel {height} {width}"]:
    """Re Σₖ v̂ₖ e^{2πi k·x} on a grid, modes with k₂ > 0 counted twice, as the transform of a real field needs."""
    rows, columns = spectrum.shape[2] // 2, spectrum.shape[3]
    full = spectrum.new_zeros(*spectrum.shape[:2], height, width // 2 + 1)
    full[:, :, :rows, :columns] = spectrum[:, :, :rows]
    full[:, :, height - rows :, :columns] = spectrum[:, :, rows:]
    return torch.fft.irfft2(full, s=(height, width), norm="forward")


class FourierLayer(nn.Module):
    """A convolution in Fourier space plus the same linear map at every pixel."""

    def __init__(self, channels: int, modes: int) -> None:
        super().__init__()
        self.spectral = SpectralConvolution(channels, channels, modes)
        self.pointwise = nn.Conv2d(channels, channels, 1)

    def forward(
        self, features: Float[Tensor, "batch channel height width"]
    ) -> Float[Tensor, "batch channel height width"]:
        """Act on features."""
        return self.spectral(features) + self.pointwise(features)
