"""Files of cases as torch data: one case at a time, or a whole split in the memory of a device."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import index
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor
from torch.utils.data import Dataset, get_worker_info

from disol._devices import find_device
from disol.data.recipe import StoreSettings
from disol.data.store import Store, open_store
from disol.errors import DisolError
from disol.problems.problem import TRAINED_UNTIL
from disol.solvers.memory import free_bytes

Batch = dict[str, Tensor]
CASES_AT_ONCE = 128  # read from the file on their way to a device


class CaseDataset(Dataset[Batch]):
    """The cases of one split of a file.

    An item holds
    inputs      float32 [channel, height, width]
    target      the pattern, float32 [field, height, width]
    domain      bool [1, height, width]
    amplitude   float64, one number or one per field
    index       the number of the case
    For a transient problem the time channel and the target belong to one frame: `frame`, or one drawn by `generator`
    from those up to 20 s. A worker of a `DataLoader` seeds its copy of the generator by the seeds of both, so that
    frames differ between workers and epochs, and repeat after `torch.manual_seed`.
    """

    def __init__(
        self,
        path: str | Path,
        split: str = "train",
        *,
        frame: int | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        self.store = open_store(path)
        self.split = split
        self.positions = self.store.positions(split)
        self.frame = frame
        self.generator = generator
        self._worker_seed: int | None = None
        if frame is not None:
            _require_frames(self.settings)
            if not 0 <= frame < len(self.settings.times):
                last = len(self.settings.times) - 1
                raise DisolError(f"{self.settings.problem} has frames 0 to {last}, got {frame}.")

    @property
    def settings(self) -> StoreSettings:
        """What the file says about its cases."""
        return self.store.settings

    def __len__(self) -> int:
        return len(self.positions)

    def __repr__(self) -> str:
        return f"CaseDataset({self.store.path}, {self.split!r}: {len(self)} of {self.settings})"

    def __getitem__(self, position: int) -> Batch:
        case = DeviceCases(self.settings, read_cases(self.store, self.positions[[index(position)]]))
        frames = None if self.frame is None else torch.tensor([self.frame])
        self._seed_in_worker()
        batch = case.batch(torch.tensor([0]), frames=frames, generator=self.generator)
        return {name: values[0] for name, values in batch.items()}

    def _seed_in_worker(self) -> None:
        """In a worker of a loader, seed the generator once: every worker of every epoch begins with the same copy."""
        worker = get_worker_info()
        if worker is None or self.generator is None or self._worker_seed == worker.seed:
            return
        self._worker_seed = worker.seed
        drawn = np.random.SeedSequence((self.generator.initial_seed(), worker.seed))
        self.generator.manual_seed(int(drawn.generate_state(1)[0]))

    def __getstate__(self) -> dict[str, Any]:
        # torch would send the state of a generator as shared memory, which a spawned worker fails to open.
        return {**vars(self), "generator": None if self.generator is None else self.generator.get_state().numpy()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if state["generator"] is not None:
            self.generator = torch.Generator().set_state(torch.from_numpy(state["generator"]))

    def frames(self, position: int) -> Float[Tensor, "frame field height width"]:
        """Return every frame of a transient case."""
        _require_frames(self.settings)
        return torch.from_numpy(self.store.read(self.positions[[position]], "pattern")["pattern"][0])

    def to_device(
        self, device: str | torch.device, *, until: float | None = None, first: int | None = None
    ) -> "DeviceCases":
        """Copy the split into the memory of a device, once, a part at a time.

        until   for a transient problem: copy only the frames up to this time, all of them for training; by default copy
                all frames, of which those up to 20 s are for training
        first   copy only this many cases, the first ones
        """
        target = device if isinstance(device, torch.device) else find_device(device)
        positions = self.positions[:first]
        frames = slice(None if until is None else _count_frames(self.settings, until))
        arrays: Batch = {}
        try:
            for start in range(0, max(1, len(positions)), CASES_AT_ONCE):
                part = read_cases(self.store, positions[start : start + CASES_AT_ONCE], frames)
                if start == 0:
                    # A system may promise more memory than it has, and kill the process that uses it.
                    if len(positions) * sum(values[:1].nbytes for values in part.values()) > free_bytes(target):
                        raise MemoryError
                    for name, values in part.items():
                        shape = (len(positions), *values.shape[1:])
                        arrays[name] = torch.empty(shape, dtype=values.dtype, device=target)
                for name, values in part.items():
                    arrays[name][start : start + len(values)] = values
        except (RuntimeError, MemoryError) as error:
            is_memory = isinstance(error, torch.OutOfMemoryError | MemoryError) or "allocate memory" in str(error)
            if not is_memory:
                raise
            raise DisolError(
                f"{self.store.path} does not fit into the memory of {target}. Free memory, use a smaller file, "
                "or read it case by case."
            ) from error
        return DeviceCases(self.settings, arrays, TRAINED_UNTIL if until is None else until)


@dataclass(frozen=True, eq=False, repr=False)
class DeviceCases:
    """The cases of a split in the memory of a device.

    arrays   as `read_cases` gives them: the stored channels (markers as bool, forces as int8, the rest as float32),
             the pattern [case, frame, field, height, width], amplitude and index; a steady problem has one frame
    until    for a transient problem, the last time for training
    """

    settings: StoreSettings
    arrays: Mapping[str, Shaped[Tensor, "case ..."]]
    until: float = TRAINED_UNTIL

    def __len__(self) -> int:
        return len(self.arrays["index"])

    def __repr__(self) -> str:
        size = sum(values.nbytes for values in self.arrays.values())
        return f"DeviceCases({len(self)} on {self.device}, {size / 1e6:.1f} MB, of {self.settings})"

    @property
    def device(self) -> torch.device:
        """Where the cases are."""
        return self.arrays["index"].device

    @property
    def num_trained_frames(self) -> int:
        """Number of frames for training: those up to `until`, or the only one of a steady problem."""
        return _count_frames(self.settings, self.until)

    def draw_frames(self, count: int, generator: torch.Generator) -> Int[Tensor, " case"]:
        """Draw one of the frames for training for each of `count` cases; for a steady problem, draw nothing."""
        if not self.settings.times:
            return torch.zeros(count, dtype=torch.long, device=self.device)
        drawn = torch.randint(self.num_trained_frames, (count,), generator=generator, device=generator.device)
        return drawn.to(self.device)

    def batch(
        self,
        indices: Int[Tensor, " case"] | Int[np.ndarray, " case"] | Sequence[int],
        *,
        frames: Int[Tensor, " case"] | Int[np.ndarray, " case"] | Sequence[int] | None = None,
        generator: torch.Generator | None = None,
    ) -> Batch:
        """Stack the cases at `indices`; for a transient problem, at the given frames or at random ones."""
        indices = torch.as_tensor(indices, device=self.device)
        frames = self._choose_frames(len(indices), frames, generator)
        size = self.settings.resolution
        inputs = torch.empty(len(indices), len(self.settings.channels), size, size, device=self.device)
        for position, channel in enumerate(self.settings.channels):
            if channel in self.arrays:
                inputs[:, position] = self.arrays[channel][indices]
            else:  # the time channel, which is not stored: t / 20 s everywhere
                inputs[:, position] = self._shares_of_trained_time[frames][:, None, None]
        return {
            "inputs": inputs,
            "target": self.arrays["pattern"][indices, frames],
            "domain": self.arrays["domain"][indices][:, None],
            "amplitude": self.arrays["amplitude"][indices],
            "index": self.arrays["index"][indices],
        }

    def _choose_frames(
        self,
        count: int,
        frames: Int[Tensor, " case"] | Int[np.ndarray, " case"] | Sequence[int] | None,
        generator: torch.Generator | None,
    ) -> Int[Tensor, " case"]:
        """Return the frames that were given, or draw some; a steady problem has only one."""
        if frames is not None:
            return torch.as_tensor(frames, device=self.device)
        if generator is not None:
            return self.draw_frames(count, generator)
        if self.settings.times:
            raise DisolError(
                f"{self.settings.problem} has {len(self.settings.times)} frames, and none was chosen. "
                "Give the frame, or a generator to draw it."
            )
        return torch.zeros(count, dtype=torch.long, device=self.device)

    @cached_property
    def _shares_of_trained_time(self) -> Float[Tensor, " frame"]:
        """Share of 20 s that each frame is at, copied to the device once."""
        return torch.tensor(self.settings.times, device=self.device) / TRAINED_UNTIL


def read_cases(store: Store, positions: Int[np.ndarray, " case"], frames: slice = slice(None)) -> Batch:
    """Read the arrays that `DeviceCases` holds; for a transient problem, at some frames."""
    stored = [channel for channel in store.settings.channels if channel in store.names]
    arrays = store.read(positions, *stored, "pattern", "amplitude", "index", frames=frames)
    tensors = {name: torch.from_numpy(values) for name, values in arrays.items()}
    if not store.settings.times:
        tensors["pattern"] = tensors["pattern"][:, None]
    return tensors


def _count_frames(settings: StoreSettings, until: float) -> int:
    return sum(time <= until for time in settings.times) if settings.times else 1


def _require_frames(settings: StoreSettings) -> None:
    if not settings.times:
        raise DisolError(f"{settings.problem} is steady and has no frames.")
