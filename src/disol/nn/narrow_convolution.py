"""3×3 convolutions of few channels on a GPU, with gradients: one pass over channels-last memory."""

from dataclasses import dataclass
from typing import Any

import torch
import triton
from jaxtyping import Float
from torch import Tensor
from torch.library import triton_op, wrap_triton

from disol.errors import DisolError
from disol.nn.precision import MOST_CHANNELS
from disol.nn.stencil_kernels import convolve, correlate

# Pixels are counted in 32 bits on the device, with room for the last block to run over the end.
MOST_PIXELS = 2**30
# The smallest side of a matrix product on tensor cores.
SMALLEST_SIDE = 16
# Memory moves in sectors of this many bytes: channels are read a sector at a time, so that registers suffice for three
# lines of taps whatever the number of channels.
SECTOR_BYTES = 32
# Programs of the weight gradient that fit on a multiprocessor together, and the least work that pays for the partial
# sums each of them writes.
PROGRAMS_PER_MULTIPROCESSOR = 4
LEAST_BLOCKS_PER_PROGRAM = 4


@dataclass(frozen=True)
class Tiling:
    """How a convolution is cut up.

    chunk    channels read at a time
    taps     3 chunk, padded for matrix products
    outs     output channels, padded likewise
    pixels   of one block
    warps    that share the work of one block
    """

    chunk: int
    taps: int
    outs: int
    pixels: int
    warps: int = 4

    @classmethod
    def of_convolution(cls, in_channels: int, out_channels: int, dtype: torch.dtype) -> "Tiling":
        """Return how to compute y."""
        chunk, taps, outs = padded_sides(in_channels, out_channels, dtype)
        # Narrow taps leave shared memory for more pixels, hence for more loads in flight.
        return cls(chunk, taps, outs, pixels=256 if taps * dtype.itemsize <= 64 and outs == SMALLEST_SIDE else 128)

    @classmethod
    def of_gradient(cls, in_channels: int, out_channels: int, dtype: torch.dtype) -> "Tiling":
        """Return how to compute ∂L/∂weight."""
        chunk, taps, outs = padded_sides(in_channels, out_channels, dtype)
        # Three sums [taps, outs] stay in registers. Products with fewer than 64 rows, and TF32 ones with a transposed
        # operand, hold their operands there too: blocks are small, so that several programs share a multiprocessor.
        if dtype == torch.float32:
            return cls(chunk, taps, outs, pixels=32)
        return cls(chunk, taps, outs, pixels=128 if taps == 64 and outs == SMALLEST_SIDE else 64)

    def arguments(self) -> dict[str, int]:
        """Return the tiling as a kernel takes it."""
        # No software pipelining: its copies of three lines of taps would leave room for two programs where four fit.
        return {
            "CHUNK": self.chunk,
            "TAPS": self.taps,
            "OUTS": self.outs,
            "PIXELS": self.pixels,
            "num_warps": self.warps,
            "num_stages": 1,
        }


def padded_sides(in_channels: int, out_channels: int, dtype: torch.dtype) -> tuple[int, int, int]:
    """Return the channels read at a time, and the sides of the matrices they and the outputs fill."""
    chunk = min(in_channels, SECTOR_BYTES // dtype.itemsize)
    return chunk, padded(3 * chunk), padded(out_channels)


def padded(side: int) -> int:
    """Return the side of a matrix on tensor cores that holds `side`: a power of two."""
    return max(SMALLEST_SIDE, triton.next_power_of_2(side))


@triton_op("disol::convolve_stencil", mutates_args=())
def convolve_stencil(x: Tensor, weight: Tensor) -> Tensor:
    """Convolve `x` [B, C, H, W] with `weight` [O, C, 3, 3]; the result is channels-last."""
    x = x.contiguous(memory_format=torch.channels_last)
    batch, in_channels, height, width = x.shape
    out_channels = weight.shape[0]
    stencil = weight.permute(2, 3, 1, 0).contiguous()
    y = torch.empty(
        (batch, out_channels, height, width), dtype=x.dtype, device=x.device, memory_format=torch.channels_last
    )
    tiling = Tiling.of_convolution(in_channels, out_channels, x.dtype)
    num_pixels = batch * height * width
    grid = (triton.cdiv(num_pixels, tiling.pixels),)
    wrap_triton(convolve)[grid](
        x, stencil, y, num_pixels, height, width, C_IN=in_channels, C_OUT=out_channels, **tiling.arguments()
    )
    return y


@triton_op("disol::stencil_gradient", mutates_args=())
def stencil_gradient(x: Tensor, slope: Tensor) -> Tensor:
    """Return ∂L/∂weight [O, C, 3, 3] from the input `x` and `slope` = ∂L/∂y; the same numbers on every run."""
    x = x.contiguous(memory_format=torch.channels_last)
    slope = slope.contiguous(memory_format=torch.channels_last)
    batch, in_channels, height, width = x.shape
    out_channels = slope.shape[1]
    tiling = Tiling.of_gradient(in_channels, out_channels, x.dtype)
    num_pixels = batch * height * width
    num_chunks = triton.cdiv(in_channels, tiling.chunk)
    num_blocks = triton.cdiv(num_pixels, tiling.pixels)
    num_programs = min(
        triton.cdiv(PROGRAMS_PER_MULTIPROCESSOR * multiprocessors(x.device), num_chunks),
        triton.cdiv(num_blocks, LEAST_BLOCKS_PER_PROGRAM),
    )
    partial_sums = torch.empty((num_programs, 3, 3, in_channels, out_channels), dtype=torch.float32, device=x.device)
    wrap_triton(correlate)[(num_programs, num_chunks)](
        x, slope, partial_sums, num_pixels, height, width, C_IN=in_channels, C_OUT=out_channels, **tiling.arguments()
    )
    return partial_sums.sum(0).permute(3, 2, 0, 1).to(x.dtype, memory_format=torch.contiguous_format)


def multiprocessors(device: torch.device) -> int:
    """Return how many multiprocessors a device has; 1 for a CPU, where only Triton's interpreter runs kernels."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1


def remember_operands(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:  # noqa: ARG001
    """Keep what the gradients are made of."""
    ctx.save_for_backward(*inputs)


def gradients(ctx: Any, slope: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """Return ∂L/∂x, the convolution of `slope` with the mirrored and transposed stencil, and ∂L/∂weight."""
    x, weight = ctx.saved_tensors
    of_x, of_weight = ctx.needs_input_grad
    return (
        convolve_stencil(slope, weight.flip(2, 3).transpose(0, 1)) if of_x else None,
        stencil_gradient(x, slope) if of_weight else None,
    )


convolve_stencil.register_autograd(gradients, setup_context=remember_operands)


def narrow_convolution(
    x: Float[Tensor, "batch in_channel height width"], weight: Float[Tensor, "out_channel in_channel 3 3"]
) -> Float[Tensor, "batch out_channel height width"]:
    """Convolve with stride 1 and zero padding 1, for at most 64 channels in and out; bfloat16 or float32 (as TF32).

    Follows torch.autocast; the result is channels-last and of the type of its operands.
    """
    if torch.is_autocast_enabled(x.device.type):
        dtype = torch.get_autocast_dtype(x.device.type)
        x, weight = x.to(dtype), weight.to(dtype)
    check_operands(x, weight)
    return convolve_stencil(x, weight)


def check_operands(x: Tensor, weight: Tensor) -> None:
    """Refuse what the kernels cannot compute."""
    if x.dtype != weight.dtype or x.dtype not in (torch.bfloat16, torch.float32):
        raise DisolError(
            f"Expected input and weight both in bfloat16 or both in float32, got {x.dtype} and {weight.dtype}. "
            "Convert one, or use torch.autocast."
        )
    if max(weight.shape[:2]) > MOST_CHANNELS:
        raise DisolError(
            f"Expected at most {MOST_CHANNELS} channels in and out, got {weight.shape[1]} and {weight.shape[0]}. "
            "Use torch.nn.functional.conv2d."
        )
    if x.shape[0] * x.shape[2] * x.shape[3] > MOST_PIXELS:
        raise DisolError(
            f"Expected at most 2³⁰ pixels in a batch, got {x.shape[0]} × {x.shape[2]} × {x.shape[3]}. Split the batch."
        )
