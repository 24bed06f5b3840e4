"""GELU, x Φ(x) with Φ the normal distribution, approximated where bfloat16 would not show the difference."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from disol.nn.precision import predicts_in_bfloat16

# Φ(x) - 1/2 is odd: x Σ COEFFICIENTS[k] (x / CUT)²ᵏ up to |x| = CUT, a minimax fit, and ±1/2 beyond. The coefficients
# sum to 1 / (2 CUT), which makes the approximation continuous.
CUT = 3.9
COEFFICIENTS = (0.39784159, -0.98127973, 2.02350821, -2.84642151, 2.54009566, -1.28261895, 0.27707986)


class GELU(nn.GELU):
    """x Φ(x).

    In predictions compiled for a GPU in bfloat16, where the error function would take longer than reading and writing
    the features, a polynomial approximates it to 2e-4; bfloat16 itself is off by 2e-3 at 1. Training uses the exact
    function, because the polynomial has another derivative.
    """

    def forward(self, features: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Activate each feature."""
        if torch.compiler.is_compiling() and predicts_in_bfloat16(features):
            return polynomial_gelu(features)
        return super().forward(features)


def polynomial_gelu(features: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Return x Φ(x) to 2e-4, without a transcendental function."""
    x = features.float()
    cut = x.clamp(-CUT, CUT)
    scaled = cut * (1 / CUT)
    square = scaled * scaled
    total = square * COEFFICIENTS[-1] + COEFFICIENTS[-2]
    for coefficient in reversed(COEFFICIENTS[:-2]):
        total = total * square + coefficient
    return (x * (cut * total + 0.5)).to(features.dtype)
