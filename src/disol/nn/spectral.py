"""Convolutions in Fourier space: a matrix for each of the lowest modes of a grid.

So few modes are kept that products with their cosines and sines cost less than fast transforms of whole grids, and
torch compiles them. Complex numbers are pairs of a real and an imaginary part, the last axis of a tensor.
"""

from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


class SpectralConvolution(nn.Module):
    """v ↦ Re Σₖ Wₖ v̂ₖ e^{2πi k·x}, over rows −m ≤ k₁ < m and columns 0 ≤ k₂ < m, those with k₂ > 0 counted twice.

    weight   pairs of real and imaginary parts; the rows of the first block are k₁ = 0 … m − 1, of the second −m … −1

    A grid that has fewer modes uses those that it has. Transforms are computed in float32, whatever precision layers
    compute in; in training, a GPU may round their products to TensorFloat32.
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
        self, spectrum: Float[Tensor, "batch in_channel rows columns 2"]
    ) -> Float[Tensor, "batch channel rows columns 2"]:
        """Wₖ v̂ₖ of each mode; rows are k₁ = 0, 1, … and then the negative ones, ending with −1."""
        rows, columns = spectrum.shape[2] // 2, spectrum.shape[3]
        kept = torch.cat([self.weight[0, :rows, :columns], self.weight[1, self.modes - rows :, :columns]])
        return torch.einsum("bijkp,jkipoq->bojkq", spectrum, with_i_times(kept, 3))


def lowest_modes(
    features: Float[Tensor, "batch channel height width"], modes: int
) -> Float[Tensor, "batch channel rows columns 2"]:
    """v̂ₖ, the mean of v e^{−2πi k·x} over a grid, for rows k₁ = 0 … m − 1, −m … −1 and columns k₂ = 0 … m − 1."""
    height, width = features.shape[2:]
    rows, columns = find_frequencies(min(modes, height // 2), min(modes, (width + 1) // 2), features.device)
    along_rows = torch.einsum("bchw,wkp->bchkp", features, sample_waves(columns, width))
    sums = torch.einsum("bchkp,hjpq->bcjkq", along_rows, with_i_times(sample_waves(rows, height), 2))
    return sums / (height * width)


def evaluate_modes(
    spectrum: Float[Tensor, "batch channel rows columns 2"], height: int, width: int
) -> Float[Tensor, "batch channel {height} {width}"]:
    """Re Σₖ v̂ₖ e^{2πi k·x} on a grid, modes with k₂ > 0 counted twice, as the transform of a real field needs.

    Re(v̂ z̄) is the inner product of the pairs v̂ and z, so these are the sums of `lowest_modes` transposed.
    """
    rows, columns = find_frequencies(spectrum.shape[2] // 2, spectrum.shape[3], spectrum.device)
    counted = spectrum * count_twice(columns)
    along_rows = torch.einsum("bcjkq,hjpq->bchkp", counted, with_i_times(sample_waves(rows, height), 2))
    return torch.einsum("bchkp,wkp->bchw", along_rows, sample_waves(columns, width))


def find_frequencies(rows: int, columns: int, device: torch.device) -> tuple[Int[Tensor, " row"], Int[Tensor, " col"]]:
    """List k₁ = 0 … rows − 1, −rows … −1 and k₂ = 0 … columns − 1."""
    first = torch.arange(rows, device=device)
    return torch.cat([first, first - rows]), torch.arange(columns, device=device)


def sample_waves(frequencies: Int[Tensor, " mode"], size: int) -> Float[Tensor, "{size} mode 2"]:
    """e^{−2πi k j/n} at the n points of an axis."""
    turns = torch.arange(size, device=frequencies.device)[:, None] * frequencies % size
    angles = turns * (2 * torch.pi / size)
    return torch.stack([angles.cos(), -angles.sin()], dim=-1)


def count_twice(columns: Int[Tensor, " column"]) -> Float[Tensor, "column 1"]:
    """Return how often a mode counts: those with k₂ > 0 twice, because the modes −k are not listed."""
    return (1 + (columns > 0).float())[:, None]


def with_i_times(numbers: Float[Tensor, "*shape 2"], axis: int) -> Float[Tensor, "..."]:
    """Return z and i z along a new axis: multiplied by a pair and summed, they are the complex product."""
    real, imaginary = numbers.unbind(-1)
    return torch.stack([numbers, torch.stack([-imaginary, real], dim=-1)], axis)


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
