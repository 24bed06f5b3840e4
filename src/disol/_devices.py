"""Finding the device that was asked for, and saying when its memory does not suffice."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from disol.errors import DisolError, shown

if TYPE_CHECKING:
    import torch


def check_device(name: str) -> None:
    """Require the name of a device; whether there is one needs torch, which takes seconds to import."""
    if not isinstance(name, str) or not re.fullmatch(r"auto|cpu|cuda(:\d+)?", name):
        raise DisolError(f"Unknown device {shown(name)}. Use auto, cpu, cuda or cuda:NUMBER.")


def find_device(name: str) -> "torch.device":
    """Return "cpu", "cuda" or "cuda:NUMBER"; for "auto" a GPU if there is one."""
    check_device(name)
    import torch  # noqa: PLC0415

    if name == "cpu" or (name == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    device = torch.device("cuda" if name == "auto" else name)
    available = torch.cuda.device_count()
    if (device.index or 0) >= available:
        raise DisolError(
            f"{name!r} was asked for, but there are {available} CUDA devices. Use 'cpu', or count the devices from 0."
        )
    return device


@contextmanager
def enough_memory(message: str) -> Iterator[None]:
    """Raise a `DisolError` with a message when memory does not suffice, whether Python, torch or a GPU notices."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        # On a CPU torch has no error of its own for this.
        if isinstance(error, RuntimeError) and not re.search(r"out.of.memory|(enough|allocate) memory", str(error)):
            raise
        raise DisolError(message) from error
