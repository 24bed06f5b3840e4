"""Which precision a layer computes in, and whether our own Triton kernels can be used."""

from importlib.util import find_spec

import torch
from torch import Tensor

# Not every GPU build of torch comes with Triton, and without a GPU the import would waste a second. Triton's products
# of bfloat16 need a GPU that supports it, NVIDIA's from Ampere on.
HAS_KERNELS = (
    torch.cuda.is_available()
    and torch.cuda.is_bf16_supported(including_emulation=False)
    and find_spec("triton") is not None
)
MOST_CHANNELS = 64  # that our stencil kernels take
MOST_NORMALISED = 1024  # channels that our GroupNorm kernels take


def computes_in_bfloat16(features: Tensor) -> bool:
    """Tell whether autocast has layers compute in bfloat16 on a GPU."""
    return features.is_cuda and torch.is_autocast_enabled("cuda") and torch.get_autocast_dtype("cuda") == torch.bfloat16


def predicts_in_bfloat16(features: Tensor) -> bool:
    """Tell whether a prediction, without gradients, is being compiled for a GPU in bfloat16."""
    return torch.compiler.is_compiling() and not torch.is_grad_enabled() and computes_in_bfloat16(features)
