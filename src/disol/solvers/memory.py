"""How many cases fit on a device at once."""

import os
from pathlib import Path

import torch

from disol.errors import DisolError

USABLE = 0.7  # share of the free memory a batch may take; the rest is for what libraries allocate themselves
LARGEST_CHUNKS = {"cuda": 2048, "cpu": 32}  # larger ones only cost memory
GIBIBYTE = 2**30
MEMORY_OF_LINUX = Path("/proc/meminfo")
ASSUMED_BYTES = 4 * GIBIBYTE  # where a system does not report its memory


def free_bytes(device: torch.device) -> int:
    """Return the memory a device has left, counting what torch holds but does not use."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return int(free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device))
    return free_bytes_of_host()


def free_bytes_of_host() -> int:
    """Return the memory available without swapping: as Linux reports it, elsewhere half of the physical memory."""
    if MEMORY_OF_LINUX.exists():
        for line in MEMORY_OF_LINUX.read_text().splitlines():
            if line.startswith("MemAvailable:"):  # MemFree would leave out the page cache
                return int(line.split()[1]) * 1024
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    except (AttributeError, ValueError, OSError):
        return ASSUMED_BYTES


def cases_at_once(bytes_per_case: int, device: torch.device) -> int:
    """Return how many cases to solve at once; raise an error if not even one fits."""
    available = int(USABLE * free_bytes(device))
    if bytes_per_case > available:
        raise DisolError(
            f"One case must fit into the {available / GIBIBYTE:.2f} GiB that can be used on {device}, but needs about "
            f"{bytes_per_case / GIBIBYTE:.2f} GiB. Lower the resolution, free memory, or use a larger device."
        )
    return max(1, min(available // bytes_per_case, LARGEST_CHUNKS.get(device.type, 256)))
