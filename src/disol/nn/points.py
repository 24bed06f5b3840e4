"""Points of the unit square, and perceptrons."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn

from disol.nn.activation import GELU


def pixel_centres(height: int, width: int, device: torch.device) -> Float[Tensor, "2 {height} {width}"]:
    """Return x and y of the pixel centres of a grid on the unit square."""
    x = (torch.arange(width, device=device) + 0.5) / width
    y = (torch.arange(height, device=device) + 0.5) / height
    return torch.stack([x.expand(height, width), y[:, None].expand(height, width)])


def perceptron(widths: Sequence[int]) -> nn.Sequential:
    """Build linear layers of these widths, with GELU between them."""
    modules: list[nn.Module] = []
    for before, after in pairwise(widths):
        modules += [nn.Linear(before, after), GELU()]
    return nn.Sequential(*modules[:-1])
