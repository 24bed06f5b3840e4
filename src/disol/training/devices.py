"""Where a run computes: a CPU, one GPU, or every process that torchrun has started."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from lightning.fabric import Fabric

from disol.devices import find_device


@contextmanager
def quick_matrix_products() -> Iterator[None]:
    """Multiply float32 matrices as convolutions do anyway, in TensorFloat32 where a GPU has it; then as before."""
    before, kept = "highest", {}
    try:
        before = torch.get_float32_matmul_precision()
    except RuntimeError:  # there is no one answer once a backend has been set by itself
        backends = (torch.backends.cuda.matmul, torch.backends.mkldnn.matmul)  # type: ignore[attr-defined]
        kept = {backend: backend.fp32_precision for backend in backends}
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
        for backend, precision in kept.items():
            backend.fp32_precision = precision


def launch(device: str) -> Fabric:
    """Join the processes of a run on the device asked for: "auto", "cpu", "cuda" or "cuda:NUMBER"."""
    found = find_device(device)
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


@contextmanager
def seeded(fabric: Fabric, seed: int, epoch: int) -> Iterator[None]:
    """Let what a network draws depend on (seed, epoch) and the process alone; others then draw as before."""
    drawn = np.random.SeedSequence((seed, epoch), spawn_key=(fabric.global_rank,))  # not that of the epoch's plan
    with torch.random.fork_rng(devices=[fabric.device] if fabric.device.type == "cuda" else []):
        torch.manual_seed(int(drawn.generate_state(1)[0]))
        yield
