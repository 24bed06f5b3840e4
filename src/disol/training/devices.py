"""Where a run computes: a CPU, one GPU, or every process that torchrun has started."""

import os

import torch
from lightning.fabric import Fabric

from disol.devices import find_device


def launch(device: str) -> Fabric:
    """Join the processes of a run on the device asked for: "auto", "cpu", "cuda" or "cuda:NUMBER"."""
    found = find_device(device)
    torch.set_float32_matmul_precision("high")  # as convolutions have it anyway: TensorFloat32 where a GPU has it
    here, everywhere = (int(os.environ.get(name, "1")) for name in ("LOCAL_WORLD_SIZE", "WORLD_SIZE"))
    if found.index is not None and everywhere > 1:
        raise ValueError(f"torchrun gives each process its own GPU, got {device!r}. Use device='cuda'.")
    fabric = Fabric(
        accelerator=found.type,
        devices=here if found.index is None else [found.index],
        num_nodes=everywhere // here,
        strategy="ddp" if everywhere > 1 else "auto",
    )
    fabric.launch()
    return fabric
