"""The files of a checkpoint as bytes: weights, metrics and training state, none of which runs code when read."""

import io
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from disol.models.network import Network
from disol.problems.checks import Unchecked

STORAGES: dict[str, torch.dtype] = {"float32": torch.float32, "float16": torch.float16}


def pack_weights(model: Network, dtype: torch.dtype) -> bytes:
    """Return the weights of a model as safetensors."""
    weights = {}
    for name, weight in model.state_dict().items():
        stored = weight.detach().cpu().contiguous()
        if stored.is_floating_point():
            stored = stored.to(dtype)
            if not stored.isfinite().all():
                raise ValueError(
                    f"{name} must be finite as {str(dtype).removeprefix('torch.')}, but is not. "
                    "Store it as 'float32', or look why training diverged."
                )
        weights[name] = stored
    return safetensors.torch.save(weights)


def unpack_weights(content: bytes, source: Path) -> dict[str, Tensor]:
    """Return weights by name, in float32."""
    try:
        weights = safetensors.torch.load(content)
    except SafetensorError as error:
        raise ValueError(f"{source} must hold safetensors, but: {error}. Copy the checkpoint again.") from None
    return {name: weight.float() if weight.is_floating_point() else weight for name, weight in weights.items()}


def pack_state(state: Mapping[str, Unchecked]) -> bytes:
    """Return the state of a training run as bytes that load without running code."""
    buffer = io.BytesIO()
    torch.save(plain_state("state", state), buffer)
    return buffer.getvalue()


def unpack_state(content: bytes, source: Path) -> dict[str, Any]:
    """Return the state of a training run."""
    try:
        return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except Exception as error:
        raise ValueError(
            f"{source} must hold tensors and plain containers, but cannot be read. Train again."
        ) from error


def plain_state(where: str, value: Unchecked) -> Any:
    """Copy tensors, containers, numbers and texts; anything else would need code to be read back."""
    if isinstance(value, Tensor):
        return value.detach().cpu().clone()  # a view would store all of what it looks at
    if isinstance(value, Mapping):
        return {key: plain_state(f"{where}[{key!r}]", item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(plain_state(f"{where}[{place}]", item) for place, item in enumerate(value))
    if value is None or type(value) in {bool, int, float, str}:
        return value
    raise ValueError(
        f"{where} must be a tensor, number, text or a container of them, got {type(value).__name__}. Convert it first."
    )


def pack_metrics(metrics: Mapping[str, Unchecked]) -> bytes:
    """Return metrics as JSON."""
    return (json.dumps(plain_metrics("metrics", metrics), indent=2) + "\n").encode()


def plain_metrics(where: str, value: Unchecked) -> Any:
    """Copy containers, numbers and texts as JSON can hold them."""
    if isinstance(value, Mapping):
        return {str(key): plain_metrics(f"{where}[{key!r}]", item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_metrics(f"{where}[{place}]", item) for place, item in enumerate(value)]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ValueError(f"{where} must be a number, text or a container of them, got {type(value).__name__}. Convert it.")
