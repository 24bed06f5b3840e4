"""Triton kernels of the readout over channels-last pixels [B H W, C]: hidden channels stay in registers.

One program takes a block of pixels of one case. Matrices and rows are padded by zeros for matrix products; padding has
no effect, since GELU(0) = 0. Products are of bfloat16, sums are float32.

num_pixels   of one case
C, OUTS      channels in and out
SIDE         channels of the widest layer, padded
PIXELS       of one block
"""

from typing import no_type_check  # Triton reads its arguments' types itself

import triton
import triton.language as tl

from disol.nn import activation
from disol.nn.norm_kernels import pixel_positions

CUT = tl.constexpr(activation.CUT)
# Φ(x) - 1/2 ≈ x Σ Cₖ x²ᵏ, with the division by CUT in the coefficients, which saves a multiplication.
C0, C1, C2, C3, C4, C5, C6 = (
    tl.constexpr(coefficient / activation.CUT ** (2 * k)) for k, coefficient in enumerate(activation.COEFFICIENTS)
)


@no_type_check
@triton.jit
def gelu(x):
    """Return x Φ(x) by the polynomial of `polynomial_gelu`."""
    cut = tl.minimum(tl.maximum(x, -CUT), CUT)
    square = cut * cut
    total = square * C6 + C5
    total = total * square + C4
    total = total * square + C3
    total = total * square + C2
    total = total * square + C1
    total = total * square + C0
    return x * (cut * total + 0.5)


@no_type_check
@triton.jit
def own_block(num_pixels, PIXELS: tl.constexpr):
    """Return the first pixel of this program's block in its case, and the same pixel in the batch."""
    blocks = tl.cdiv(num_pixels, PIXELS)
    case = tl.program_id(0) // blocks
    first = tl.program_id(0) % blocks * PIXELS
    # A tensor may hold more than 2³¹ numbers, a block never does: only the block's start needs 64 bits.
    return first, case.to(tl.int64) * num_pixels + first


@no_type_check
@triton.jit
def load_row(row, SIDE: tl.constexpr):
    """Return a row [1, SIDE]."""
    return tl.load(row + tl.arange(0, SIDE))[None, :]


@no_type_check
@triton.jit
def weigh_pixels(summary, stencil, first, start, height, width, KERNEL: tl.constexpr, PIXELS: tl.constexpr):
    """Return σ(Σ stencil[tap] · summary(· + tap)) [PIXELS], zero outside the grid: [KERNEL, KERNEL, 2] · [B H W, 2]."""
    local = tl.arange(0, PIXELS)
    part = tl.arange(0, 2)
    line = (first + local) // width
    column = (first + local) % width
    total = tl.zeros([PIXELS, 2], tl.float32)
    for tap in tl.static_range(KERNEL * KERNEL):
        down = tap // KERNEL - KERNEL // 2
        right = tap % KERNEL - KERNEL // 2
        readable = (line + down >= 0) & (line + down < height) & (column + right >= 0) & (column + right < width)
        pixel = local + (down * width + right)
        values = tl.load(summary + start * 2 + (pixel[:, None] * 2 + part[None, :]), mask=readable[:, None], other=0.0)
        total += values.to(tl.float32) * tl.load(stencil + tap * 2 + part)[None, :]
    return tl.sigmoid(tl.sum(total, 1))


@no_type_check
@triton.jit
def read_out(
    z,
    summary,
    stencil,
    weights,
    biases,
    result,
    num_pixels,
    height,
    width,
    C: tl.constexpr,
    OUTS: tl.constexpr,
    KERNEL: tl.constexpr,
    LAYERS: tl.constexpr,
    SIDE: tl.constexpr,
    PIXELS: tl.constexpr,
):
    """Apply y ↦ weights[layer]ᵀ y + biases[layer], with GELU between, to z, or to the weighted z if KERNEL > 0."""
    first, start = own_block(num_pixels, PIXELS)
    positions, exist = pixel_positions(first, num_pixels, C, SIDE, PIXELS)
    features = tl.load(z + start * C + positions, mask=exist, other=0.0)
    if KERNEL > 0:
        weight = weigh_pixels(summary, stencil, first, start, height, width, KERNEL, PIXELS)
        features = (features.to(tl.float32) * weight[:, None]).to(tl.bfloat16)
    matrix_positions, _ = pixel_positions(0, SIDE, SIDE, SIDE, SIDE)
    total = tl.dot(features, tl.load(weights + matrix_positions)) + load_row(biases, SIDE)
    for layer in tl.static_range(1, LAYERS):
        matrix = tl.load(weights + layer * SIDE * SIDE + matrix_positions)
        total = tl.dot(gelu(total).to(tl.bfloat16), matrix) + load_row(biases + layer * SIDE, SIDE)
    positions, exist = pixel_positions(first, num_pixels, OUTS, SIDE, PIXELS)
    tl.store(result + start * OUTS + positions, total, mask=exist)
