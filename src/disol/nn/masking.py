"""Operations on the domain mask and on channels picked by position."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional


def pick_channels(
    stacked: Float[Tensor, "batch channel height width"], positions: Sequence[int]
) -> Float[Tensor, "batch picked height width"]:
    """Stack the channels at `positions`, in that order."""
    return torch.cat([stacked.narrow(1, position, 1) for position in positions], dim=1)


def project(
    field: Float[Tensor, "batch field height width"], domain: Float[Tensor, "batch 1 height width"]
) -> Float[Tensor, "batch field height width"]:
    """P_m v = m ⊙ v: exactly zero outside the domain."""
    return field * domain


def domain_mean(
    field: Float[Tensor, "batch field height width"], domain: Float[Tensor, "batch 1 height width"]
) -> Float[Tensor, "batch field"]:
    """Σ m v / Σ m of each case; 0 for an empty domain."""
    return project(field, domain).sum((2, 3)) / domain.sum((2, 3)).clamp(min=1)


def coarsen(domain: Float[Tensor, "batch 1 height width"]) -> Float[Tensor, "batch 1 coarse_height coarse_width"]:
    """Halve a mask: a coarse pixel is inside if any of its pixels is, so that thin parts survive."""
    return functional.max_pool2d(domain, 2, ceil_mode=True)
