"""Fused GroupNorm and GELU on a GPU, with gradients: as few passes over channels-last memory as possible."""

from typing import Any

import torch
import triton
from jaxtyping import Float
from torch import Tensor
from torch.library import triton_op, wrap_triton

from disol.nn.norm_kernels import normalise, slope_of_input, sum_moments, sum_slopes

Pixels = Float[Tensor, "batch channel height width"]
NUMBERS = 4096  # of a block of pixels
MOST_BLOCKS = 8  # of a part of a case; each part has sums of its own


def block_of(channels: int) -> dict[str, int]:
    """Return the kernel arguments for how a case is cut into blocks of pixels."""
    padded = triton.next_power_of_2(channels)
    return {"CHANNELS": channels, "PADDED": padded, "PIXELS": NUMBERS // padded}


def parts_of(num_pixels: int, pixels: int) -> tuple[int, int]:
    """Return how many blocks a part of a case has, a power of two, and how many parts a case has."""
    blocks = min(MOST_BLOCKS, triton.next_power_of_2(triton.cdiv(num_pixels, pixels)))
    return blocks, triton.cdiv(num_pixels, pixels * blocks)


@triton_op("disol::normalise_activate", mutates_args=())
def normalise_activate(
    x: Tensor, weight: Tensor, bias: Tensor, groups: int, eps: float
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return GELU(GroupNorm(x)), and what gradients need: a and b of a x + b, the mean and 1/deviation of x."""
    x = x.contiguous(memory_format=torch.channels_last)
    batch, channels, height, width = x.shape
    num_pixels, block = height * width, block_of(channels)
    blocks, parts = parts_of(num_pixels, block["PIXELS"])
    sums = torch.empty((batch, parts, 2, channels), dtype=torch.float32, device=x.device)
    wrap_triton(sum_moments)[(batch, parts)](x, sums, num_pixels, parts, **block, BLOCKS=blocks)
    moments = sums.sum(1).reshape(batch, 2, groups, -1).sum(3) / (num_pixels * (channels // groups))
    mean = moments[:, 0].contiguous()
    deviation = torch.rsqrt((moments[:, 1] - mean.square()).clamp(min=0) + eps)
    scale = per_channel(deviation, channels) * weight.float()
    shift = bias.float() - per_channel(mean, channels) * scale
    y = torch.empty_like(x, memory_format=torch.channels_last)
    wrap_triton(normalise)[(batch, triton.cdiv(num_pixels, block["PIXELS"]))](x, scale, shift, y, num_pixels, **block)
    return y, scale, shift, mean, deviation


@triton_op("disol::normalise_activate_gradients", mutates_args=())
def normalise_activate_gradients(
    x: Tensor, slope: Tensor, weight: Tensor, scale: Tensor, shift: Tensor, mean: Tensor, deviation: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return ∂L/∂x, ∂L/∂weight and ∂L/∂bias from slope = ∂L/∂y."""
    x = x.contiguous(memory_format=torch.channels_last)
    slope = slope.to(x.dtype).contiguous(memory_format=torch.channels_last)
    batch, channels, height, width = x.shape
    num_pixels, block, groups = height * width, block_of(channels), mean.shape[1]
    blocks, parts = parts_of(num_pixels, block["PIXELS"])
    sums = torch.empty((batch, parts, 2, channels), dtype=torch.float32, device=x.device)
    wrap_triton(sum_slopes)[(batch, parts)](x, slope, scale, shift, sums, num_pixels, parts, **block, BLOCKS=blocks)
    total, products = sums.sum(1).unbind(1)
    centre, steepness = per_channel(mean, channels), per_channel(deviation, channels)
    of_weight = steepness * (products - centre * total)  # of each case: Σ t x̂
    # dx = (w t − mean(w t) − x̂ mean(w t x̂)) / deviation, the means over a group
    count = num_pixels * (channels // groups)
    along = [(weight.float() * each).reshape(batch, groups, -1).sum(2) / count for each in (total, of_weight)]
    average, parallel = (per_channel(each, channels) for each in along)
    of_value = (-steepness.square() * parallel).contiguous()
    constant = (-steepness * average - of_value * centre).contiguous()
    result = torch.empty_like(x, memory_format=torch.channels_last)
    wrap_triton(slope_of_input)[(batch, triton.cdiv(num_pixels, block["PIXELS"]))](
        x, slope, scale, shift, of_value, constant, result, num_pixels, **block
    )
    return result, of_weight.sum(0), total.sum(0)


def per_channel(values: Float[Tensor, "batch group"], channels: int) -> Float[Tensor, "batch channel"]:
    """Repeat the value of each group for all its channels."""
    return values.repeat_interleave(channels // values.shape[1], 1)


def remember_operands(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    """Save what the gradients need."""
    x, weight, bias, _, _ = inputs
    _, scale, shift, mean, deviation = output
    ctx.save_for_backward(x, weight, scale, shift, mean, deviation)
    ctx.bias_type = bias.dtype


def gradients(ctx: Any, slope: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
    """Return the gradients of x, weight and bias."""
    x, weight, *rest = ctx.saved_tensors
    of_x, of_weight, of_bias = normalise_activate_gradients(x, slope, weight, *rest)
    return of_x, of_weight.to(weight.dtype), of_bias.to(ctx.bias_type), None, None


normalise_activate.register_autograd(gradients, setup_context=remember_operands)


def fused_norm(x: Pixels, weight: Tensor, bias: Tensor, groups: int, eps: float) -> Pixels:
    """GELU(GroupNorm(x)) of bfloat16 or float32 pixels of at most 1,024 channels; channels-last, in the dtype of x."""
    return normalise_activate(x, weight, bias, groups, eps)[0]
