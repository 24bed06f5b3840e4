"""Where a run computes: a CPU, one GPU, or every process that torchrun has started."""

import os

import torch
from lightning.fabric import Fabric


def launch(device: str) -> Fabric:
    """Join the processes of a run on the device asked for: "auto", "cpu", "cuda" or "cuda:NUMBER"."""
    kind, number = read_device(device)
    torch.set_float32_matmul_precision("high")  # as convolutions have it anyway: TensorFloat32 where a GPU has it
    here, everywhere = (int(os.environ.get(name, "1")) for name in ("LOCAL_WORLD_SIZE", "WORLD_SIZE"))
    if number is not None and everywhere > 1:
        raise ValueError(f"torchrun gives each process its own GPU, got {device!r}. Use device='cuda'.")
    fabric = Fabric(
        accelerator=kind,
        devices=here if number is None else [number],
        num_nodes=everywhere // here,
        strategy="ddp" if everywhere > 1 else "auto",
    )
    fabric.launch()
    return fabric


def read_device(device: str) -> tuple[str, int | None]:
    """Return the kind of a device, and its number if it has one."""
    kind, _, number = device.partition(":")
    if device == "auto":
        return ("cuda" if torch.cuda.is_available() else "cpu"), None
    if kind not in ("cpu", "cuda") or (number and not number.isdigit()) or (kind == "cpu" and number):
        raise ValueError(f"Unknown device {device!r}. Use auto, cpu, cuda or cuda:NUMBER.")
    if kind == "cuda" and int(number or 0) >= torch.cuda.device_count():
        raise ValueError(
            f"{device!r} was asked for, but there are {torch.cuda.device_count()} CUDA devices. "
            "Use device='cpu', or count the devices from 0."
        )
    return kind, int(number) if number else None
