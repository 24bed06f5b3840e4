"""Triton kernels of a 3×3 convolution over channels-last pixels [B H W, C], zero outside the grid.

A program walks down a strip of lines. Each line is read once: it adds to the outputs of the line above it, of its own
line and of the line below, whose sums stay in registers meanwhile. What does not change from line to line (addresses,
which columns exist, the weights) is computed once. Sums are float32; products of float32 are TF32.

C_IN, C_OUT   channels
TAPS          numbers that one pixel reads on one line, padded: 3 C_IN neighbours in memory if channels are few, else
              C_IN, read three times
OUTS          output channels at a time, padded
PIXELS        of a line that a program handles at once: TILE columns of each of PIXELS / TILE images
LINES         of a strip
APART         the taps to the left, at and to the right of a pixel are three loads
"""

from typing import no_type_check  # Triton reads its arguments' types itself

import triton
import triton.language as tl


@no_type_check
@triton.jit
def find_place(tile, num_images, height, width, TILE: tl.constexpr, PIXELS: tl.constexpr):
    """Return the first image of a tile, and of its pixels the offset of their image, the column, and which exist."""
    lane = tl.arange(0, PIXELS)
    across = tl.cdiv(width, TILE)
    first_image = tile // across * (PIXELS // TILE)
    column = tile % across * TILE + lane % TILE
    image = lane // TILE
    return first_image, image * (height * width), column, (column < width) & (first_image + image < num_images)


@no_type_check
@triton.jit
def tap_positions(start, column, exists, width, C_IN: tl.constexpr, TAPS: tl.constexpr):
    """Return the offsets of few channels of three neighbours from the first pixel of a line, and which exist."""
    tap = tl.arange(0, TAPS)
    side = tap // C_IN - 1
    neighbour = column[:, None] + side[None, :]
    readable = (neighbour >= 0) & (neighbour < width) & (tap < 3 * C_IN)[None, :]
    return (start + column)[:, None] * C_IN + (side * C_IN + tap % C_IN)[None, :], readable & exists[:, None]


@no_type_check
@triton.jit
def channel_positions(start, column, exists, first, C: tl.constexpr, PADDED: tl.constexpr):
    """Return the offsets of PADDED channels of pixels from the first pixel of a line, and which of them exist."""
    channel = first + tl.arange(0, PADDED)
    return (start + column)[:, None] * C + channel[None, :], exists[:, None] & (channel < C)[None, :]


@no_type_check
@triton.jit
def find_lines(line, height):
    """Return whether there is a line of this number, as a mask [1, 1]."""
    lines = line + tl.arange(0, 1)[:, None]  # the interpreter takes no mask from a scalar
    return (lines >= 0) & (lines < height)


@no_type_check
@triton.jit
def load_weights(
    stencil, first, first_out, READ: tl.constexpr, C_OUT: tl.constexpr, TAPS: tl.constexpr, OUTS: tl.constexpr
):
    """Return weights [TAPS, OUTS] of a stencil [9 C_IN, C_OUT], READ rows from `first` on, zero beyond them."""
    tap = tl.arange(0, TAPS)
    out = first_out + tl.arange(0, OUTS)
    exist = (tap < READ)[:, None] & (out < C_OUT)[None, :]
    return tl.load(stencil + (first + tap)[:, None] * C_OUT + out[None, :], mask=exist, other=0.0)


@no_type_check
@triton.jit
def load_apart(
    stencil, first, first_out, C_IN: tl.constexpr, C_OUT: tl.constexpr, TAPS: tl.constexpr, OUTS: tl.constexpr
):
    """Return the weights of the left, the middle and the right neighbour of one line of a stencil."""
    left = load_weights(stencil, first, first_out, C_IN, C_OUT, TAPS, OUTS)
    middle = load_weights(stencil, first + C_IN, first_out, C_IN, C_OUT, TAPS, OUTS)
    right = load_weights(stencil, first + 2 * C_IN, first_out, C_IN, C_OUT, TAPS, OUTS)
    return left, middle, right


@no_type_check
@triton.jit
def convolve(
    x,
    stencil,
    y,
    num_images,
    height,
    width,
    C_IN: tl.constexpr,
    C_OUT: tl.constexpr,
    TAPS: tl.constexpr,
    OUTS: tl.constexpr,
    TILE: tl.constexpr,
    PIXELS: tl.constexpr,
    LINES: tl.constexpr,
    APART: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Compute y = Σ x(· + tap) · stencil[tap] over the taps, OUTS channels of it for one strip of lines."""
    first_image, start, column, exists = find_place(tl.program_id(0), num_images, height, width, TILE, PIXELS)
    first_line = tl.program_id(1) * LINES
    first_out = tl.program_id(2) * OUTS
    out_positions, out_exist = channel_positions(start, column, exists, first_out, C_OUT, OUTS)
    if APART:
        positions, readable = channel_positions(start, column, exists, 0, C_IN, TAPS)
        on_left, on_right = readable & (column > 0)[:, None], readable & (column < width - 1)[:, None]
        above_left, above_middle, above_right = load_apart(stencil, 0, first_out, C_IN, C_OUT, TAPS, OUTS)
        level_left, level_middle, level_right = load_apart(stencil, 3 * C_IN, first_out, C_IN, C_OUT, TAPS, OUTS)
        below_left, below_middle, below_right = load_apart(stencil, 6 * C_IN, first_out, C_IN, C_OUT, TAPS, OUTS)
    else:
        positions, readable = tap_positions(start, column, exists, width, C_IN, TAPS)
        above_weights = load_weights(stencil, 0, first_out, 3 * C_IN, C_OUT, TAPS, OUTS)
        level_weights = load_weights(stencil, 3 * C_IN, first_out, 3 * C_IN, C_OUT, TAPS, OUTS)
        below_weights = load_weights(stencil, 6 * C_IN, first_out, 3 * C_IN, C_OUT, TAPS, OUTS)
    before = tl.zeros([PIXELS, OUTS], tl.float32)
    here = tl.zeros([PIXELS, OUTS], tl.float32)
    for step in tl.range(0, tl.minimum(LINES, height - first_line) + 2, num_stages=STAGES):
        line = first_line + step - 1
        is_line = find_lines(line, height)
        # A tensor may hold more than 2³¹ numbers, the images of a tile never do: only their start needs 64 bits.
        begin = (first_image * height + line).to(tl.int64) * width
        after = tl.zeros([PIXELS, OUTS], tl.float32)
        image = x + begin * C_IN
        if APART:
            left = tl.load(image - C_IN + positions, mask=on_left & is_line, other=0.0)
            middle = tl.load(image + positions, mask=readable & is_line, other=0.0)
            right = tl.load(image + C_IN + positions, mask=on_right & is_line, other=0.0)
            before = tl.dot(left, below_left, before, input_precision="tf32")
            before = tl.dot(middle, below_middle, before, input_precision="tf32")
            before = tl.dot(right, below_right, before, input_precision="tf32")
            here = tl.dot(left, level_left, here, input_precision="tf32")
            here = tl.dot(middle, level_middle, here, input_precision="tf32")
            here = tl.dot(right, level_right, here, input_precision="tf32")
            after = tl.dot(left, above_left, after, input_precision="tf32")
            after = tl.dot(middle, above_middle, after, input_precision="tf32")
            after = tl.dot(right, above_right, after, input_precision="tf32")
        else:
            taps = tl.load(image + positions, mask=readable & is_line, other=0.0)
            before = tl.dot(taps, below_weights, before, input_precision="tf32")
            here = tl.dot(taps, level_weights, here, input_precision="tf32")
            after = tl.dot(taps, above_weights, after, input_precision="tf32")
        begin_out = y + (begin - width) * C_OUT
        tl.store(
            begin_out + out_positions,
            before.to(y.dtype.element_ty),
            mask=out_exist & find_lines(line - first_line - 1, LINES),
        )
        before = here
        here = after


@no_type_check
@triton.jit
def correlate(
    x,
    slope,
    partial_sums,
    num_images,
    height,
    width,
    C_IN: tl.constexpr,
    C_OUT: tl.constexpr,
    CHUNK: tl.constexpr,
    TAPS: tl.constexpr,
    OUTS: tl.constexpr,
    TILE: tl.constexpr,
    PIXELS: tl.constexpr,
    LINES: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Compute partial_sums[program, tap] = Σ x(· + tap)ᵀ · slope over the strips of one program, for CHUNK channels."""
    program = tl.program_id(0)
    chunk = tl.program_id(1) * CHUNK
    above_sum = tl.zeros([TAPS, OUTS], tl.float32)
    level_sum = tl.zeros([TAPS, OUTS], tl.float32)
    below_sum = tl.zeros([TAPS, OUTS], tl.float32)
    tap = tl.arange(0, TAPS)
    side = tap // CHUNK - 1
    channel = chunk + tap % CHUNK
    strips = tl.cdiv(height, LINES)
    num_tiles = tl.cdiv(num_images, PIXELS // TILE) * tl.cdiv(width, TILE)
    for strip in range(program, num_tiles * strips, tl.num_programs(0)):
        first_image, start, column, exists = find_place(strip // strips, num_images, height, width, TILE, PIXELS)
        first_line = strip % strips * LINES
        neighbour = column[:, None] + side[None, :]
        readable = (neighbour >= 0) & (neighbour < width) & ((tap < 3 * CHUNK) & (channel < C_IN))[None, :]
        readable &= exists[:, None]
        positions = (start + column)[:, None] * C_IN + (side * C_IN + channel)[None, :]
        out_positions, out_exist = channel_positions(start, column, exists, 0, C_OUT, OUTS)
        for step in tl.range(0, tl.minimum(LINES, height - first_line), num_stages=STAGES):
            line = first_line + step
            begin = (first_image * height + line).to(tl.int64) * width
            taps = tl.load(x + begin * C_IN + positions, mask=readable, other=0.0)
            slopes = slope + begin * C_OUT + out_positions
            # A line is read by the outputs of the line below it, of its own line and of the line above it.
            under = tl.load(slopes + width * C_OUT, mask=out_exist & find_lines(line + 1, height), other=0.0)
            level = tl.load(slopes, mask=out_exist, other=0.0)
            over = tl.load(slopes - width * C_OUT, mask=out_exist & find_lines(line - 1, height), other=0.0)
            above_sum = tl.dot(tl.trans(taps), under, above_sum, input_precision="tf32")
            level_sum = tl.dot(tl.trans(taps), level, level_sum, input_precision="tf32")
            below_sum = tl.dot(tl.trans(taps), over, below_sum, input_precision="tf32")
    out = tl.arange(0, OUTS)
    exist = ((tap < 3 * CHUNK) & (channel < C_IN))[:, None] & (out < C_OUT)[None, :]
    own_sums = (
        partial_sums + program * (9 * C_IN * C_OUT) + ((tap // CHUNK) * C_IN + channel)[:, None] * C_OUT + out[None, :]
    )
    tl.store(own_sums, above_sum, mask=exist)
    tl.store(own_sums + 3 * C_IN * C_OUT, level_sum, mask=exist)
    tl.store(own_sums + 6 * C_IN * C_OUT, below_sum, mask=exist)
