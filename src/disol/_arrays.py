"""NumPy arrays and torch tensors by one set of names, without importing torch.

Code written with operators, slices and the functions of `namespace_of` works on both, so that a batch is checked and
discretised where it lies, on a CPU or on a GPU.
"""

import sys
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor

# A NumPy array or a tensor; shapes are written as Float[Array, "*batch height width"].
Array = Any

STAGE_BYTES = 2**25
_staging = Lock()


def is_tensor(value: object) -> TypeGuard["Tensor"]:
    """Tell whether a value is a torch tensor, which it cannot be before torch is imported."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def namespace_of(array: Array) -> Any:
    """Return numpy or torch, whose functions (`stack`, `where`, `amax`) take the array with `axis=`."""
    return sys.modules["torch"] if is_tensor(array) else np


def zeros(shape: tuple[int, ...], like: Array) -> Array:
    """Return zeros of the dtype, and on the device, of another array."""
    return like.new_zeros(shape) if is_tensor(like) else np.zeros(shape, like.dtype)


def as_int8(mask: Array) -> Array:
    """View booleans as 0 and 1 that can be summed."""
    return mask.char() if is_tensor(mask) else mask.view(np.int8)


def exponent_of(size: Array) -> Array:
    """Return the smallest e with |size| < 2ᵉ, entry by entry; 0 for 0."""
    return sys.modules["torch"].frexp(size).exponent if is_tensor(size) else np.frexp(size)[1]


def ldexp(array: Array, exponent: Array) -> Array:
    """Multiply by 2ᵉ, which is exact unless the product over- or underflows."""
    if not is_tensor(array):
        return np.ldexp(array, exponent)
    torch = sys.modules["torch"]
    # In two steps, as 2ᵉ itself need not be a double; and by its bits, as a GPU's power can be off in the last place.
    half = torch.as_tensor(exponent, dtype=torch.int64, device=array.device).div(2, rounding_mode="floor")
    for part in (half, exponent - half):
        array = array * ((part + 1023) << 52).view(torch.float64)
    return array


def to_device(array: np.ndarray, device: Any) -> "Tensor":
    """Copy a NumPy array to a device."""
    shareable = np.ascontiguousarray(array)
    # torch shares memory with arrays, but not with read-only ones, nor with an axis of length 1 that runs backwards.
    if not shareable.flags.writeable or min(shareable.strides, default=0) < 0:
        shareable = shareable.copy()
    return sys.modules["torch"].from_numpy(shareable).to(device)


def to_numpy(array: Array) -> np.ndarray:
    """Bring an array back to NumPy."""
    return array.detach().cpu().numpy() if is_tensor(array) else np.asarray(array)


def copy_to_host(values: "Tensor", target: np.ndarray) -> None:
    """Copy a tensor into an array, from a GPU via pinned memory.

    In a plain copy of hundreds of megabytes, one core writes to new memory, which can take longer than a solution; from
    pinned memory all cores write, while the next piece is on its way.
    """
    here = sys.modules["torch"].from_numpy(target)
    if values.device.type != "cuda" or values.dtype != here.dtype or values.nbytes < STAGE_BYTES:
        here.copy_(values)
        return
    with _staging:
        copy_in_pieces(values, here, _pinned_stages())


def copy_in_pieces(values: "Tensor", target: "Tensor", stages: tuple["Tensor", "Tensor"]) -> None:
    """Copy a tensor to another of its shape and type via two stages of bytes, used in turn."""
    torch = sys.modules["torch"]
    source, destination = (each.view(-1).view(torch.uint8) for each in (values.contiguous(), target))
    size = len(stages[0])
    waiting: list[tuple[Any, Tensor, Tensor]] = []
    pieces, places = (torch.split(each, size) for each in (source, destination))
    for number, (piece, place) in enumerate(zip(pieces, places, strict=True)):
        stage = stages[number % 2][: len(piece)]
        stage.copy_(piece, non_blocking=True)
        arrived = torch.cuda.Event() if values.is_cuda else None
        if arrived is not None:
            arrived.record()
        waiting.append((arrived, stage, place))
        if len(waiting) > 1:
            _finish(*waiting.pop(0))
    for each in waiting:
        _finish(*each)


def _finish(arrived: Any, stage: "Tensor", place: "Tensor") -> None:
    if arrived is not None:
        arrived.synchronize()
    place.copy_(stage)


@cache
def _pinned_stages() -> tuple["Tensor", "Tensor"]:
    torch = sys.modules["torch"]
    one, other = (torch.empty(STAGE_BYTES, dtype=torch.uint8, pin_memory=True) for _ in range(2))
    return one, other
