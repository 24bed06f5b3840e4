"""Finding the device that was asked for."""

import re

import torch


def find_device(name: str) -> torch.device:
    """Return "cpu", "cuda" or "cuda:NUMBER"; for "auto" a GPU if there is one."""
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", name):
        raise ValueError(f"Unknown device {name!r}. Use auto, cpu, cuda or cuda:NUMBER.")
    if name == "cpu" or (name == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    device = torch.device("cuda" if name == "auto" else name)
    available = torch.cuda.device_count()
    if (device.index or 0) >= available:
        raise ValueError(
            f"{name!r} was asked for, but there are {available} CUDA devices. Use 'cpu', or count the devices from 0."
        )
    return device
