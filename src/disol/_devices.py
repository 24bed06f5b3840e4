"""Finding the device that was asked for, using its memory well, and reporting when that does not suffice."""

import ctypes
import platform
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from disol.errors import DisolError, shown

if TYPE_CHECKING:
    import torch

# The numbers by which the GNU C library knows its parameters.
TRIM_THRESHOLD, MMAP_THRESHOLD, MMAP_MAX = -1, -3, -4
KEEPING = {TRIM_THRESHOLD: -1, MMAP_MAX: 0}
# Its defaults, except for the thresholds: it raises these to as much by itself, but no longer once any was set.
USUAL = {TRIM_THRESHOLD: 2**26, MMAP_THRESHOLD: 2**25, MMAP_MAX: 2**16}


def check_device(name: str) -> None:
    """Require the name of a device; finding out if it exists needs torch, which takes seconds to import."""
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


@contextmanager
def reused_memory(device: "torch.device") -> Iterator[None]:
    """Let torch reuse what it frees on a CPU for the next batch; afterwards the system gets it back.

    The GNU C library gives large arrays back at once, and the system clears every page that it hands out again: with
    batches of 64 that is half the time of a training step. Other libraries are left alone.
    """
    if device.type != "cpu" or platform.libc_ver()[0] != "glibc":
        yield
        return
    library = ctypes.CDLL(None)
    for parameter, value in KEEPING.items():
        library.mallopt(parameter, value)
    try:
        yield
    finally:
        for parameter, value in USUAL.items():
            library.mallopt(parameter, value)
        library.malloc_trim(0)


def finish_gpu_work() -> None:
    """Wait until GPUs have finished what this process started.

    Processes that share a GPU by NVIDIA's Multi-Process Service can fail if one of them ends in the middle of a kernel.
    """
    cuda: Any = getattr(sys.modules.get("torch"), "cuda", None)  # torch may not be imported, or only partly
    if hasattr(cuda, "is_initialized") and cuda.is_initialized():
        cuda.synchronize()
