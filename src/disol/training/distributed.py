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
    """The processes of a run, as seen by one of them; a single process waits for nobody.

    rank     number of this process
    size     number of processes
    device   that this process computes on
    """

    device: torch.device
    rank: int = 0
    size: int = 1

    @property
    def is_rank_zero(self) -> bool:
        """Tell whether this process is the one that writes files and prints."""
        return self.rank == 0

    @property
    def own(self) -> slice:
        """The share of every batch that belongs to this process."""
        return slice(self.rank, None, self.size)

    def wrap(self, module: nn.Module) -> nn.Module:
        """Average gradients over all processes, and share the buffers of the first one at every step."""
        if self.size == 1:
            return module
        return DistributedDataParallel(module, device_ids=[self.device] if self.device.type == "cuda" else None)

    def sum(self, value: Float[Tensor, ""]) -> float:
        """Return the sum of a value over all processes; this waits for the device."""
        if self.size > 1:
            torch.distributed.all_reduce(value)
        return float(value)

    def broadcast(self, value: Value) -> Value:
        """Return the value that the first process has."""
        if self.size == 1:
            return value
        values: list[Any] = [value]
        torch.distributed.broadcast_object_list(values, device=self.device)
        return values[0]

    def broadcast_tensor(self, tensor: Tensor) -> None:
        """Overwrite a tensor with that of the first process."""
        if self.size > 1:
            torch.distributed.broadcast(tensor, src=0)

    def wait(self) -> None:
        """Wait until every process is here."""
        if self.size > 1:
            torch.distributed.barrier()

    @contextmanager
    def seeded(self, seed: int, epoch: int) -> Iterator[None]:
        """Let what a network draws depend on (seed, epoch) and process alone; restore torch's generators afterwards."""
        drawn = np.random.SeedSequence((seed, epoch), spawn_key=(self.rank,))  # not that of the epoch's plan
        with torch.random.fork_rng(devices=[self.device] if self.device.type == "cuda" else []):
            torch.manual_seed(int(drawn.generate_state(1)[0]))
            yield


def join_processes(device: str) -> Processes:
    """Join the processes that torchrun has started, if any, on device "auto", "cpu", "cuda" or "cuda:NUMBER"."""
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
    """End the threads that talk to the other processes before Python shuts down, as they may need it to end."""
    gc.collect()  # leftovers of a run keep them alive
    torch.distributed.destroy_process_group()
