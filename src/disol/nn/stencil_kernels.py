"""Triton kernels of a 3×3 convolution over channels-last pixels [B H W, C], zero outside the grid.

In that memory the taps to the left, at and to the right of a pixel are neighbours, so each of the three lines of a
stencil is one load [pixels, 3 channels] and one matrix product. Sums are float32; products of float32 are TF32.

C_IN, C_OUT   channels
CHUNK         channels in at a time
TAPS          3 CHUNK, padded: which numbers one pixel reads on one line
OUTS          C_OUT, padded
PIXELS        of one block
"""

from typing import no_type_check  # Triton reads its arguments' types itself

import triton
import triton.language as tl


@no_type_check
@triton.jit
def load_taps(
    image,
    first,
    chunk,
    num_pixels,
    height,
    width,
    C_IN: tl.constexpr,
    CHUNK: tl.constexpr,
    TAPS: tl.constexpr,
    PIXELS: tl.constexpr,
):
    """Return the taps [PIXELS, TAPS] on the line above, the line of, and the line below each pixel from `first` on."""
    local = tl.arange(0, PIXELS)
    pixel = first + local
    column = pixel % width
    line = (pixel // width) % height
    tap = tl.arange(0, TAPS)
    step = tap // CHUNK - 1
    channel = chunk + tap % CHUNK
    neighbour = column[:, None] + step[None, :]
    readable = (neighbour >= 0) & (neighbour < width) & (pixel < num_pixels)[:, None]
    readable &= ((tap < 3 * CHUNK) & (channel < C_IN))[None, :]
    # A tensor may hold more than 2³¹ numbers, a block never does: only the block's start needs 64 bits.
    start = image + first.to(tl.int64) * C_IN
    address = start + (local[:, None] * C_IN + (step * C_IN + channel)[None, :])
    above = tl.load(address - width * C_IN, mask=readable & (line > 0)[:, None], other=0.0)
    level = tl.load(address, mask=readable, other=0.0)
    below = tl.load(address + width * C_IN, mask=readable & (line < height - 1)[:, None], other=0.0)
    return above, level, below


@no_type_check
@triton.jit
def weight_positions(
    line: tl.constexpr,
    chunk,
    C_IN: tl.constexpr,
    C_OUT: tl.constexpr,
    CHUNK: tl.constexpr,
    TAPS: tl.constexpr,
    OUTS: tl.constexpr,
):
    """Return where the weights [TAPS, OUTS] of one line lie in a stencil [3, 3, C_IN, C_OUT], and which exist."""
    tap = tl.arange(0, TAPS)
    out = tl.arange(0, OUTS)
    channel = chunk + tap % CHUNK
    positions = ((line * 3 + tap // CHUNK) * C_IN + channel)[:, None] * C_OUT + out[None, :]
    return positions, ((tap < 3 * CHUNK) & (channel < C_IN))[:, None] & (out < C_OUT)[None, :]


@no_type_check
@triton.jit
def load_weights(
    stencil,
    line: tl.constexpr,
    chunk,
    C_IN: tl.constexpr,
    C_OUT: tl.constexpr,
    CHUNK: tl.constexpr,
    TAPS: tl.constexpr,
    OUTS: tl.constexpr,
):
    """Return the weights [TAPS, OUTS] of one line of the stencil, zero where a tap or an output is padding."""
    positions, exist = weight_positions(line, chunk, C_IN, C_OUT, CHUNK, TAPS, OUTS)
    return tl.load(stencil + positions, mask=exist, other=0.0)


@no_type_check
@triton.jit
def pixel_positions(first, num_pixels, C_OUT: tl.constexpr, OUTS: tl.constexpr, PIXELS: tl.constexpr):
    """Return where the outputs [PIXELS, OUTS] of a block lie behind its first, and which of them exist."""
    local = tl.arange(0, PIXELS)
    out = tl.arange(0, OUTS)
    return local[:, None] * C_OUT + out[None, :], (first + local < num_pixels)[:, None] & (out < C_OUT)[None, :]


@no_type_check
@triton.jit
def convolve(
    x,
    stencil,
    y,
    num_pixels,
    height,
    width,
    C_IN: tl.constexpr,
    C_OUT: tl.constexpr,
    CHUNK: tl.constexpr,
    TAPS: tl.constexpr,
    OUTS: tl.constexpr,
    PIXELS: tl.constexpr,
):
    """Compute y = Σ x(· + tap) · stencil[tap] over the taps, for one block of pixels."""
    first = tl.program_id(0) * PIXELS
    total = tl.zeros([PIXELS, OUTS], tl.float32)
    for chunk in range(0, C_IN, CHUNK):
        # Every load is asked for before the first product waits for one.
        above, level, below = load_taps(x, first, chunk, num_pixels, height, width, C_IN, CHUNK, TAPS, PIXELS)
        above_weights = load_weights(stencil, 0, chunk, C_IN, C_OUT, CHUNK, TAPS, OUTS)
        level_weights = load_weights(stencil, 1, chunk, C_IN, C_OUT, CHUNK, TAPS, OUTS)
        below_weights = load_weights(stencil, 2, chunk, C_IN, C_OUT, CHUNK, TAPS, OUTS)
        total = tl.dot(above, above_weights, total, input_precision="tf32")
        total = tl.dot(level, level_weights, total, input_precision="tf32")
        total = tl.dot(below, below_weights, total, input_precision="tf32")
    positions, exist = pixel_positions(first, num_pixels, C_OUT, OUTS, PIXELS)
    tl.store(y + first.to(tl.int64) * C_OUT + positions, total.to(y.dtype.element_ty), mask=exist)


@no_type_check
@triton.jit
def correlate(
    x,
    slope,
    partial_sums,
    num_pixels,
    height,
    width,
    C_IN: tl.constexpr,
    C_OUT: tl.constexpr,
    CHUNK: tl.constexpr,
    TAPS: tl.constexpr,
    OUTS: tl.constexpr,
    PIXELS: tl.constexpr,
):
    """Compute partial_sums[program, tap] = Σ x(· + tap)ᵀ · slope over the blocks of one program, for one chunk."""
    program = tl.program_id(0)
    chunk = tl.program_id(1) * CHUNK
    above_sum = tl.zeros([TAPS, OUTS], tl.float32)
    level_sum = tl.zeros([TAPS, OUTS], tl.float32)
    below_sum = tl.zeros([TAPS, OUTS], tl.float32)
    for block in range(program, tl.cdiv(num_pixels, PIXELS), tl.num_programs(0)):
        first = block * PIXELS
        above, level, below = load_taps(x, first, chunk, num_pixels, height, width, C_IN, CHUNK, TAPS, PIXELS)
        positions, exist = pixel_positions(first, num_pixels, C_OUT, OUTS, PIXELS)
        slopes = tl.load(slope + first.to(tl.int64) * C_OUT + positions, mask=exist, other=0.0)
        above_sum = tl.dot(tl.trans(above), slopes, above_sum, input_precision="tf32")
        level_sum = tl.dot(tl.trans(level), slopes, level_sum, input_precision="tf32")
        below_sum = tl.dot(tl.trans(below), slopes, below_sum, input_precision="tf32")
    own_sums = partial_sums + program * (9 * C_IN * C_OUT)
    above_positions, exist = weight_positions(0, chunk, C_IN, C_OUT, CHUNK, TAPS, OUTS)
    level_positions, _ = weight_positions(1, chunk, C_IN, C_OUT, CHUNK, TAPS, OUTS)
    below_positions, _ = weight_positions(2, chunk, C_IN, C_OUT, CHUNK, TAPS, OUTS)
    tl.store(own_sums + above_positions, above_sum, mask=exist)
    tl.store(own_sums + level_positions, level_sum, mask=exist)
    tl.store(own_sums + below_positions, below_sum, mask=exist)
