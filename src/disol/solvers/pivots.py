"""Inverse factors of many small dense matrices, mostly by matrix products.

A⁻¹ = P R with R = L⁻¹ and P = U⁻¹ (Rᵀ for a symmetric A). Halving the matrix turns everything into batched
products, which a GPU does far faster than batched triangular solves; below `base` unknowns a library routine
takes over.
"""

import torch
from jaxtyping import Float
from torch import Tensor

Matrices = Float[Tensor, "matrix size size"]


def inverse_factors(matrices: Matrices, symmetric: bool, base: int) -> tuple[Matrices, Matrices]:
    """Return R and P with A⁻¹ = P R; a symmetric A must be positive definite, and then P = Rᵀ."""
    if symmetric:
        left = inverse_cholesky(matrices, base)
        return left, left.mT
    return inverse_lu(matrices, base)


def inverse_cholesky(matrices: Matrices, base: int) -> Matrices:
    """R = L⁻¹ with A = L Lᵀ, by blocks: R = [[R₁, 0], [−R₂ L₂₁ R₁, R₂]]."""
    size = matrices.shape[-1]
    if size == 1:
        return matrices.rsqrt()
    if size <= base:
        factor, _ = torch.linalg.cholesky_ex(matrices)
        unit = torch.eye(size, dtype=factor.dtype, device=factor.device)
        return torch.linalg.solve_triangular(factor, unit.expand_as(factor), upper=False)
    half = first_half(size, base)
    inverse = torch.zeros_like(matrices, memory_format=torch.contiguous_format)
    upper = inverse_cholesky(matrices[:, :half, :half], base)
    coupling = matrices[:, half:, :half] @ upper.mT
    lower = inverse_cholesky(torch.baddbmm(matrices[:, half:, half:], coupling, coupling.mT, alpha=-1), base)
    inverse[:, :half, :half] = upper
    inverse[:, half:, half:] = lower
    inverse[:, half:, :half] = -(lower @ (coupling @ upper))
    return inverse


def inverse_lu(matrices: Matrices, base: int) -> tuple[Matrices, Matrices]:
    """R = L⁻¹ and P = U⁻¹ with A = L U, by blocks; inside a block of the base size U is the identity."""
    size = matrices.shape[-1]
    if size <= base or size == 1:
        inverse, _ = torch.linalg.inv_ex(matrices)
        return inverse, torch.eye(size, dtype=inverse.dtype, device=inverse.device).expand_as(inverse)
    half = first_half(size, base)
    left, right = (torch.zeros_like(matrices, memory_format=torch.contiguous_format) for _ in range(2))
    left_upper, right_upper = inverse_lu(matrices[:, :half, :half], base)
    below = matrices[:, half:, :half] @ right_upper
    beside = left_upper @ matrices[:, :half, half:]
    remainder = torch.baddbmm(matrices[:, half:, half:], below, beside, alpha=-1)
    left_lower, right_lower = inverse_lu(remainder, base)
    left[:, :half, :half], left[:, half:, half:] = left_upper, left_lower
    right[:, :half, :half], right[:, half:, half:] = right_upper, right_lower
    left[:, half:, :half] = -(left_lower @ (below @ left_upper))
    right[:, :half, half:] = -(right_upper @ (beside @ right_lower))
    return left, right


def first_half(size: int, base: int) -> int:
    """Return the size of the first block: the base times a power of two, so that few block sizes occur."""
    half = base
    while 2 * half < size:
        half *= 2
    return half
