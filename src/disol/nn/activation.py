"""GELU, x Φ(x) with Φ the normal distribution, at the price its precision is worth."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from disol.nn.precision import predicts_in_bfloat16

# Φ(x) - 1/2 is odd: about x Σ COEFFICIENTS[k] (x / CUT)²ᵏ up to |x| = CUT, minimax, and ±1/2 beyond. They sum to
# 1 / (2 CUT), so that nothing jumps there.
CUT = 3.9
COEFFICIENTS = (0.39784159, -0.98127973, 2.02350821, -2.84642151, 2.54009566, -1.28261895, 0.27707986)


class GELU(nn.GELU):
    """x Φ(x).

    Compiled for predictions on a GPU in bfloat16, where the error function would take longer than reading and writing
    the features, it is a polynomial that is off by at most 2e-4; bfloat16 itself is off by 2e-3 at 1. Training has the
    exact one, for a polynomial has another slope.
    """

    def forward(self, features: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Let large features pass, and small ones not."""
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
