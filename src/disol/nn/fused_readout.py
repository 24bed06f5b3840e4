"""The readout on a GPU, in bfloat16 and without gradients: attention and head in one pass over channels-last memory."""

from collections.abc import Sequence

import torch
import triton
from jaxtyping import BFloat16, Float, Float32
from torch import Tensor, nn
from torch.library import triton_op, wrap_triton
from torch.nn import functional

from disol.errors import DisolError
from disol.nn.narrow_convolution import MOST_PIXELS, padded
from disol.nn.precision import MOST_CHANNELS
from disol.nn.readout_kernels import read_out

PIXELS_OF_A_BLOCK = 128


def tiling(side: int) -> dict[str, int]:
    """Return the tiling of the kernel where the widest layer is padded to `side` channels."""
    # 128 pixels by 64 channels take 64 registers of each thread of 4 warps, and two such layers are held at once. Hence
    # 8 warps for them; fewer pixels would save as many registers, but each program reads all weights.
    return {"PIXELS": PIXELS_OF_A_BLOCK, "num_warps": 4 if side <= 32 else 8, "num_stages": 1}


@triton_op("disol::read_pixels", mutates_args=())
def read_pixels(
    z: Tensor, summary: Tensor | None, stencil: Tensor | None, weights: Tensor, biases: Tensor, outputs: int
) -> Tensor:
    """Apply y ↦ weights[layer]ᵀ y + biases[layer], with GELU between, to each pixel: float32 [B, H, W, outputs].

    The pixels are `z` [B, C, H, W] or, if there is a `stencil` [K, K, 2], z σ(stencil * summary) with the `summary`
    [B, H, W, 2]; `weights` [layer, side, side] and `biases` [layer, side] are padded by zeros. All but `stencil` and
    `biases` are bfloat16.
    """
    z = z.contiguous(memory_format=torch.channels_last)
    batch, channels, height, width = z.shape
    # Axes in the order of memory: if one output is seen as [B, 1, H, W], torch's compiler cannot tell the layout.
    result = torch.empty((batch, height, width, outputs), dtype=torch.float32, device=z.device)
    layers, side, _ = weights.shape
    blocks = batch * triton.cdiv(height * width, PIXELS_OF_A_BLOCK)  # no block is in two cases
    wrap_triton(read_out)[(blocks,)](
        z,
        z if summary is None else summary.contiguous(),
        biases if stencil is None else stencil.contiguous(),
        weights,
        biases,
        result,
        height * width,
        height,
        width,
        C=channels,
        OUTS=outputs,
        KERNEL=0 if stencil is None else stencil.shape[0],
        LAYERS=layers,
        SIDE=side,
        **tiling(side),
    )
    return result


def fused_readout(
    features: Float[Tensor, "batch channel height width"],
    attention: Float[Tensor, "1 2 kernel kernel"] | None,
    head: Sequence[nn.Conv2d],
) -> Float32[Tensor, "batch output height width"]:
    """Return head(z σ(attention * [mean z, max z])), or head(z) without attention.

    The head consists of 1×1 convolutions of at most 64 channels, each with a bias, and `polynomial_gelu` between them;
    the attention pads the grid with zeros.
    """
    check_operands(features, [features.shape[1], *[layer.out_channels for layer in head]])
    z = features.bfloat16()
    weights, biases = packed(head)
    outputs = head[-1].out_channels
    summary, stencil = None, None
    if attention is not None:
        summary = torch.stack([z.mean(1), z.amax(1)], dim=3)
        stencil = attention[0].bfloat16().float().permute(1, 2, 0)
    return read_pixels(z, summary, stencil, weights, biases, outputs).permute(0, 3, 1, 2)


def packed(
    layers: Sequence[nn.Conv2d],
) -> tuple[BFloat16[Tensor, "layer side side"], Float32[Tensor, "layer side"]]:
    """Return the transposed weights of 1×1 convolutions and their biases, all padded by zeros to the same side."""
    side = padded(max(max(layer.in_channels, layer.out_channels) for layer in layers))
    weights = [
        functional.pad(matrix_of(layer).T, (0, side - layer.out_channels, 0, side - layer.in_channels))
        for layer in layers
    ]
    biases = [functional.pad(bias_of(layer), (0, side - layer.out_channels)) for layer in layers]
    return torch.stack(weights), torch.stack(biases)


def matrix_of(convolution: nn.Conv2d) -> BFloat16[Tensor, "out_channel in_channel"]:
    """Return the weights of a 1×1 convolution."""
    return convolution.weight.flatten(1).bfloat16()


def bias_of(convolution: nn.Conv2d) -> Float32[Tensor, " out_channel"]:
    """Return the bias of a convolution."""
    if convolution.bias is None:
        raise DisolError("Expected a convolution with a bias, got one without. Build it with bias=True.")
    return convolution.bias.float()


def check_operands(features: Tensor, widths: Sequence[int]) -> None:
    """Refuse what the kernels cannot compute."""
    if max(widths) > MOST_CHANNELS:
        raise DisolError(
            f"Expected at most {MOST_CHANNELS} channels in every layer, got {', '.join(map(str, widths))}. "
            "Apply the layers one by one."
        )
    batch, _, height, width = features.shape
    if batch * height * width > MOST_PIXELS:
        raise DisolError(f"Expected at most 2³⁰ pixels in a batch, got {batch} × {height} × {width}. Split the batch.")
