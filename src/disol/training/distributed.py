"""The processes of a run: one, or those that torchrun has started, each with a device and its share of every batch."""

import atexit
import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from disol._devices import find_device
from disol.errors import DisolError

Value = TypeVar("Value")
_SET_BY_TORCHRUN = {"RANK": 0, "WORLD_SIZE": 1, "LOCAL_RANK": 0}


@dataclass(frozen=True)
class Processes:
    """The processes of a run as one of them sees them; alone it has nobody to wait for.

    rank     its own number
    size     how many there are
    device   that it computes on
    """

    device: torch.device
    rank: int = 0
    size: int = 1

    @property
    def is_rank_zero(self) -> bool:
        """Tell whether this process writes files and talks to people."""
        return self.rank == 0

    @property
    def own(self) -> slice:
        """The places of every batch that are its own."""
        return slice(self.rank, None, self.size)

    def wrap(self, module: nn.Module) -> nn.Module:
        """Let every process have the mean of all gradients, and at every step the buffers of the first."""
        if self.size == 1:
            return module
        return DistributedDataParallel(module, device_ids=[self.device] if self.device.type == "cuda" else None)

    def sum(self, value: Float[Tensor, ""]) -> float:
        """Return the sum of a value over all processes; this waits for the device."""
        if self.size > 1:
            torch.distributed.all_reduce(value)
        return float(value)

    def broadcast(self, value: Value) -> Value:
        """Return what the first process has."""
        if self.size == 1:
            return value
        values: list[Any] = [value]
        torch.distributed.broadcast_object_list(values, device=self.device)
        return values[0]

    def broadcast_tensor(self, tensor: Tensor) -> None:
        """Fill a tensor with that of the first process."""
        if self.size > 1:
            torch.distributed.broadcast(tensor, src=0)

    def wait(self) -> None:
        """Wait until every process is here."""
        if self.size > 1:
            torch.distributed.barrier()

    @contextmanager
    def seeded(self, seed: int, epoch: int) -> Iterator[None]:
        """Let what a network draws depend on (seed, epoch) and the process alone; others then draw as before."""
        drawn = np.random.SeedSequence((seed, epoch), spawn_key=(self.rank,))  # not that of the epoch's plan
        with torch.random.fork_rng(devices=[self.device] if self.device.type == "cuda" else []):
            torch.manual_seed(int(drawn.generate_state(1)[0]))
            yield


def join_processes(device: str) -> Processes:
    """Join the other processes that torchrun has started, if it has, on "auto", "cpu", "cuda" or "cuda:NUMBER"."""
    found = find_device(device)
    rank, size, local_rank = (int(os.environ.get(name, default)) for name, default in _SET_BY_TORCHRUN.items())
    if size > 1 and found.index is not None:
        raise DisolError(f"torchrun gives each process its own GPU, got device={device!r}. Use device='cuda'.")
    if found.type == "cuda":
        found = torch.device("cuda", local_rank if found.index is None else found.index)
        torch.cuda.set_device(found)
    if size > 1 and not torch.distributed.is_initialized():
        torch.distributed.init_process_group("nccl" if found.type == "cuda" else "gloo")
        atexit.register(leave_processes)
    return Processes(found, rank, size)


def leave_processes() -> None:
    """End the threads that talk to the other processes while Python still runs, which they may need to end."""
    gc.collect()  # what is left of a run keeps them
    torch.distributed.destroy_process_group()
