"""Triton kernels of GroupNorm followed by GELU over channels-last pixels [B P, C]; sums are float32.

With u = a x + b for each case and channel and y = GELU(u), a gradient s of y becomes t = s GELU′(u) of u. A case is cut
into parts of PIXELS x BLOCKS pixels, whose sums are added up afterwards, always in the same order.

CHANNELS   number of channels
PADDED     CHANNELS, padded to a power of two
PIXELS     pixels that a program handles at once
BLOCKS     number of blocks of PIXELS pixels in a part
"""

from typing import no_type_check  # Triton reads its arguments' types itself

import triton
import triton.language as tl


@no_type_check
@triton.jit
def gelu_and_slope(u):
    """Return u Φ(u) and Φ(u) + u φ(u); the tail of Φ comes to 1e-7 from a formula that shares its exponential with φ.

    Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26.
    """
    density = tl.exp(-0.5 * u * u)
    t = 1.0 / (1.0 + 0.3275911 * 0.7071067811865476 * tl.abs(u))
    series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    tail = 0.5 * series * density
    share = tl.where(u > 0, 1.0 - tail, tail)
    return u * share, share + u * (0.3989422804014327 * density)


@no_type_check
@triton.jit
def pixel_positions(first, num_pixels, CHANNELS: tl.constexpr, PADDED: tl.constexpr, PIXELS: tl.constexpr):
    """Return the offsets of the numbers of a block of pixels from its first one, and which of them exist."""
    local = tl.arange(0, PIXELS)
    channel = tl.arange(0, PADDED)
    exist = (first + local < num_pixels)[:, None] & (channel < CHANNELS)[None, :]
    return local[:, None] * CHANNELS + channel[None, :], exist


@no_type_check
@triton.jit
def load_channels(table, CHANNELS: tl.constexpr, PADDED: tl.constexpr):
    """Return the row [1, channel] of the case of this program."""
    channel = tl.arange(0, PADDED)
    return tl.load(table + tl.program_id(0) * CHANNELS + channel, mask=channel < CHANNELS, other=0.0)[None, :]


@no_type_check
@triton.jit
def store_sums(sums, first, second, num_parts, CHANNELS: tl.constexpr, PADDED: tl.constexpr):
    """Store the sums [case, part, 2, channel] of one part over its pixels."""
    channel = tl.arange(0, PADDED)
    own = sums + (tl.program_id(0) * num_parts + tl.program_id(1)) * 2 * CHANNELS + channel
    tl.store(own, tl.sum(first, 0), mask=channel < CHANNELS)
    tl.store(own + CHANNELS, tl.sum(second, 0), mask=channel < CHANNELS)


@no_type_check
@triton.jit
def sum_moments(
    x,
    sums,
    num_pixels,
    num_parts,
    CHANNELS: tl.constexpr,
    PADDED: tl.constexpr,
    PIXELS: tl.constexpr,
    BLOCKS: tl.constexpr,
):
    """Sum x and x² of each channel over one part of one case."""
    start = tl.program_id(0).to(tl.int64) * num_pixels * CHANNELS
    total = tl.zeros([PIXELS, PADDED], tl.float32)
    squares = tl.zeros([PIXELS, PADDED], tl.float32)
    for block in tl.range(0, BLOCKS, num_stages=3):
        first = (tl.program_id(1) * BLOCKS + block) * PIXELS
        positions, exist = pixel_positions(first, num_pixels, CHANNELS, PADDED, PIXELS)
        positions += first * CHANNELS
        value = tl.load(x + start + positions, mask=exist, other=0.0).to(tl.float32)
        total += value
        squares += value * value
    store_sums(sums, total, squares, num_parts, CHANNELS, PADDED)


@no_type_check
@triton.jit
def normalise(
    x,
    scale,
    shift,
    y,
    num_pixels,
    CHANNELS: tl.constexpr,
    PADDED: tl.constexpr,
    PIXELS: tl.constexpr,
):
    """Compute y = GELU(a x + b) for one block of pixels."""
    start = tl.program_id(0).to(tl.int64) * num_pixels * CHANNELS
    first = tl.program_id(1) * PIXELS
    positions, exist = pixel_positions(first, num_pixels, CHANNELS, PADDED, PIXELS)
    positions += first * CHANNELS
    a = load_channels(scale, CHANNELS, PADDED)
    b = load_channels(shift, CHANNELS, PADDED)
    value = tl.load(x + start + positions, mask=exist, other=0.0).to(tl.float32)
    activated, _ = gelu_and_slope(value * a + b)
    tl.store(y + start + positions, activated.to(y.dtype.element_ty), mask=exist)


@no_type_check
@triton.jit
def sum_slopes(
    x,
    slope,
    scale,
    shift,
    sums,
    num_pixels,
    num_parts,
    CHANNELS: tl.constexpr,
    PADDED: tl.constexpr,
    PIXELS: tl.constexpr,
    BLOCKS: tl.constexpr,
):
    """Sum t and t x of each channel over one part of one case."""
    start = tl.program_id(0).to(tl.int64) * num_pixels * CHANNELS
    a = load_channels(scale, CHANNELS, PADDED)
    b = load_channels(shift, CHANNELS, PADDED)
    total = tl.zeros([PIXELS, PADDED], tl.float32)
    products = tl.zeros([PIXELS, PADDED], tl.float32)
    for block in tl.range(0, BLOCKS, num_stages=3):
        first = (tl.program_id(1) * BLOCKS + block) * PIXELS
        positions, exist = pixel_positions(first, num_pixels, CHANNELS, PADDED, PIXELS)
        positions += first * CHANNELS
        value = tl.load(x + start + positions, mask=exist, other=0.0).to(tl.float32)
        _, steepness = gelu_and_slope(value * a + b)
        t = tl.load(slope + start + positions, mask=exist, other=0.0).to(tl.float32) * steepness
        total += t
        products += t * value
    store_sums(sums, total, products, num_parts, CHANNELS, PADDED)


@no_type_check
@triton.jit
def slope_of_input(
    x,
    slope,
    scale,
    shift,
    of_value,
    constant,
    result,
    num_pixels,
    CHANNELS: tl.constexpr,
    PADDED: tl.constexpr,
    PIXELS: tl.constexpr,
):
    """Compute ∂L/∂x = a t + c x + d for one block of pixels."""
    start = tl.program_id(0).to(tl.int64) * num_pixels * CHANNELS
    first = tl.program_id(1) * PIXELS
    positions, exist = pixel_positions(first, num_pixels, CHANNELS, PADDED, PIXELS)
    positions += first * CHANNELS
    a = load_channels(scale, CHANNELS, PADDED)
    b = load_channels(shift, CHANNELS, PADDED)
    c = load_channels(of_value, CHANNELS, PADDED)
    d = load_channels(constant, CHANNELS, PADDED)
    value = tl.load(x + start + positions, mask=exist, other=0.0).to(tl.float32)
    _, steepness = gelu_and_slope(value * a + b)
    t = tl.load(slope + start + positions, mask=exist, other=0.0).to(tl.float32) * steepness
    found = t * a + value * c + d
    tl.store(result + start + positions, found.to(result.dtype.element_ty), mask=exist)
