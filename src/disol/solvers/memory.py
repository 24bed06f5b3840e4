"""How many cases fit on a device at once."""

import os

import torch

USABLE = 0.7  # share of the free memory a batch may take; the rest is for what libraries allocate themselves
LARGEST_CHUNKS = {"cuda": 2048, "cpu": 32}  # larger ones only cost memory
GIBIBYTE = 2**30


def free_bytes(device: torch.device) -> int:
    """Return the memory a device has left, counting what torch holds but does not use."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return int(free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device))
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def cases_at_once(bytes_per_case: int, device: torch.device) -> int:
    """Return how many cases to solve in one go, or say that not even one fits."""
    available = int(USABLE * free_bytes(device))
    if bytes_per_case > available:
        raise ValueError(
            f"One case must fit into the {available / GIBIBYTE:.2f} GiB that can be used on {device}, but needs about "
            f"{bytes_per_case / GIBIBYTE:.2f} GiB. Lower the resolution, free memory, or use a larger device."
        )
    return max(1, min(available // bytes_per_case, LARGEST_CHUNKS.get(device.type, 256)))
