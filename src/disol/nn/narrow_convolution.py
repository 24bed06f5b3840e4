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

# Pixels are counted in 32 bits on the device, with room for the last tile to run over the end.
MOST_PIXELS = 2**30
# The smallest side of a matrix product on tensor cores.
SMALLEST_SIDE = 16
# Pixels of a line, of one image or of several, that are handled at once: rows of two products on tensor cores.
PIXELS = 128
# Lines of a strip, and lines that are read at the same time: the fastest of those tried on an H200, for every layer.
LINES = 16
MOST_STAGES = 3
# Bytes of the weights of one tap: those of nine taps stay in shared memory, which may be as small as 99 KB.
LARGEST_WEIGHTS = 4096
# Memory moves in sectors of this many bytes: the weight gradient reads channels a sector at a time, so that registers
# suffice for three sums whatever the number of channels.
SECTOR_BYTES = 32
# Programs of the weight gradient that fit on a multiprocessor together, and the least work that pays for the partial
# sums each of them writes.
PROGRAMS_PER_MULTIPROCESSOR = 4
LEAST_STRIPS_PER_PROGRAM = 2


@dataclass(frozen=True)
class Tiling:
    """How a convolution is cut into tiles.

    taps     numbers that a pixel reads on one line, padded for matrix products
    outs     output channels computed at a time, padded likewise
    apart    whether the three neighbours on a line are read one by one
    warps    warps that share the work of one tile
    stages   lines that are being read at the same time
    """

    taps: int
    outs: int
    apart: bool
    warps: int
    stages: int

    @classmethod
    def of_convolution(cls, in_channels: int, out_channels: int, x: Tensor) -> "Tiling":
        """Return how to compute y."""
        # With few channels, reading three neighbours as one row of memory takes less padding than reading them apart.
        apart = in_channels >= SMALLEST_SIDE
        taps = padded(in_channels if apart else 3 * in_channels)
        outs = min(padded(out_channels), LARGEST_WEIGHTS // (taps * x.itemsize))
        weights = (9 if apart else 3) * taps * outs
        stages = count_stages((3 if apart else 1) * PIXELS * taps * x.itemsize, weights * x.itemsize, x.device)
        return cls(taps, outs, apart, warps=8, stages=stages)

    @classmethod
    def of_gradient(cls, in_channels: int, out_channels: int, x: Tensor) -> "Tiling":
        """Return how to compute ∂L/∂weight."""
        taps, outs = padded(3 * sector(in_channels, x.dtype)), padded(out_channels)
        stages = count_stages(PIXELS * (taps + 3 * outs) * x.itemsize, 0, x.device)
        return cls(taps, outs, apart=False, warps=4, stages=stages)

    def arguments(self, width: int) -> dict[str, int]:
        """Return the tiling for lines of this width, as both kernels take it."""
        sides = {"TAPS": self.taps, "OUTS": self.outs, "TILE": tile_of(width), "PIXELS": PIXELS, "LINES": LINES}
        return {**sides, "STAGES": self.stages, "num_warps": self.warps}


def count_stages(line: int, weights: int, device: torch.device) -> int:
    """Return how many lines of `line` bytes fit into shared memory beside the weights, from 1 to MOST_STAGES."""
    if device.type != "cuda":
        return 1
    # The most that a kernel may request, beyond the default; torch's stubs lack it.
    memory = torch.cuda.get_device_properties(device).shared_memory_per_block_optin  # type: ignore[attr-defined]
    return max(1, min(MOST_STAGES, (memory - weights) // line))


def sector(channels: int, dtype: torch.dtype) -> int:
    """Return how many channels the weight gradient reads at a time."""
    return min(channels, SECTOR_BYTES // dtype.itemsize)


def padded(side: int) -> int:
    """Return the side of a matrix on tensor cores that has room for `side`: a power of two."""
    return max(SMALLEST_SIDE, triton.next_power_of_2(side))


def tile_of(width: int) -> int:
    """Return how many columns a tile has: all of a narrow grid, with several images in a tile."""
    return min(triton.next_power_of_2(width), PIXELS)


def count_tiles(batch: int, width: int) -> int:
    """Return how many tiles cover one line of all images."""
    return triton.cdiv(batch, PIXELS // tile_of(width)) * triton.cdiv(width, tile_of(width))


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
    tiling = Tiling.of_convolution(in_channels, out_channels, x)
    wrap_triton(convolve)[
        (count_tiles(batch, width), triton.cdiv(height, LINES), triton.cdiv(out_channels, tiling.outs))
    ](
        x,
        stencil,
        y,
        batch,
        height,
        width,
        C_IN=in_channels,
        C_OUT=out_channels,
        APART=tiling.apart,
        **tiling.arguments(width),
    )
    return y


@triton_op("disol::stencil_gradient", mutates_args=())
def stencil_gradient(x: Tensor, slope: Tensor) -> Tensor:
    """Return ∂L/∂weight [O, C, 3, 3] from the input `x` and `slope` = ∂L/∂y; it is deterministic."""
    x = x.contiguous(memory_format=torch.channels_last)
    slope = slope.contiguous(memory_format=torch.channels_last)
    batch, in_channels, height, width = x.shape
    out_channels = slope.shape[1]
    tiling = Tiling.of_gradient(in_channels, out_channels, x)
    chunk = sector(in_channels, x.dtype)
    num_chunks = triton.cdiv(in_channels, chunk)
    num_strips = count_tiles(batch, width) * triton.cdiv(height, LINES)
    num_programs = min(
        triton.cdiv(PROGRAMS_PER_MULTIPROCESSOR * multiprocessors(x.device), num_chunks),
        triton.cdiv(num_strips, LEAST_STRIPS_PER_PROGRAM),
    )
    partial_sums = torch.empty((num_programs, 3, 3, in_channels, out_channels), dtype=torch.float32, device=x.device)
    wrap_triton(correlate)[(num_programs, num_chunks)](
        x,
        slope,
        partial_sums,
        batch,
        height,
        width,
        C_IN=in_channels,
        C_OUT=out_channels,
        CHUNK=chunk,
        **tiling.arguments(width),
    )
    return partial_sums.sum(0).permute(3, 2, 0, 1).to(x.dtype, memory_format=torch.contiguous_format)


def multiprocessors(device: torch.device) -> int:
    """Return how many multiprocessors a device has; 1 for a CPU, where only Triton's interpreter runs kernels."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1


def remember_operands(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:  # noqa: ARG001
    """Save what the gradients need."""
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
