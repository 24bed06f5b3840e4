"""Files of cases as torch data: one case at a time, or a whole split in the memory of a device."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor
from torch.utils.data import Dataset

from disol.data.recipe import StoreSettings
from disol.data.store import Store, open_store
from disol.problems.heat import TRAINED_UNTIL

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
    and for a transient problem its time channel and target belong to one frame: `frame`, or one drawn by
    `generator` from those up to 20 s.
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
        self.positions = self.store.positions(split)
        self.frame = None if frame is None else checked_frame(self.settings, frame)
        self.generator = generator

    @property
    def settings(self) -> StoreSettings:
        """What the file says about its cases."""
        return self.store.settings

    def __len__(self) -> int:
        return len(self.positions)

    def __getitem__(self, position: int) -> Batch:
        case = read_cases(self.store, self.positions[[position]])
        frames = None if self.frame is None else torch.tensor([self.frame])
        batch = DeviceCases(self.settings, case).batch(torch.tensor([0]), frames=frames, generator=self.generator)
        return {name: values[0] for name, values in batch.items()}

    def frames(self, position: int) -> Float[Tensor, "frame field height width"]:
        """Return every frame of a transient case."""
        require_frames(self.settings)
        return torch.from_numpy(self.store.read(self.positions[[position]], "pattern")["pattern"][0])

    def to_device(
        self, device: str | torch.device, *, trained_frames_only: bool = False, first: int | None = None
    ) -> "DeviceCases":
        """Copy the split into the memory of a device, once.

        trained_frames_only   of a transient problem only the frames up to 20 s, which are those for training
        first                 only that many cases, those that come first
        """
        target, positions = torch.device(device), self.positions[:first]
        frames = slice(count_trained_frames(self.settings) if trained_frames_only else None)
        names = list(read_cases(self.store, positions[:0]))
        try:
            arrays = {name: load(self.store, name, positions, frames, target) for name in names}
            return DeviceCases(self.settings, arrays)
        except torch.OutOfMemoryError as error:
            raise ValueError(
                f"{self.store.path} does not fit into the memory of {target}. Free memory, use a smaller file, "
                "or read it case by case."
            ) from error


@dataclass(frozen=True)
class DeviceCases:
    """The cases of a split in the memory of a device: markers as bool, forces as int8, the rest as stored."""

    settings: StoreSettings
    arrays: Mapping[str, Shaped[Tensor, "case ..."]]

    def __len__(self) -> int:
        return len(self.arrays["index"])

    @property
    def device(self) -> torch.device:
        """Where the cases are."""
        return self.arrays["index"].device

    @cached_property
    def shares_of_trained_time(self) -> Float[Tensor, " frame"]:
        """Share of 20 s that each frame is at, copied to the device once."""
        return torch.tensor(self.settings.times, device=self.device) / TRAINED_UNTIL

    @property
    def num_trained_frames(self) -> int:
        """Number of frames of a transient problem that are for training, those up to 20 s."""
        return count_trained_frames(self.settings)

    def draw_frames(self, count: int, generator: torch.Generator) -> Int[Tensor, " case"]:
        """Draw one frame for training for each of `count` cases."""
        require_frames(self.settings)
        drawn = torch.randint(self.num_trained_frames, (count,), generator=generator, device=generator.device)
        return drawn.to(self.device)

    def batch(
        self,
        indices: Int[Tensor, " case"] | Int[np.ndarray, " case"] | Sequence[int],
        *,
        frames: Int[Tensor, " case"] | None = None,
        generator: torch.Generator | None = None,
    ) -> Batch:
        """Stack the cases at `indices`; of a transient problem at the given frames, or at frames drawn."""
        indices = torch.as_tensor(indices, device=self.device)
        if self.settings.times:
            frames = self.chosen_frames(len(indices), frames, generator)
            target = self.arrays["pattern"][indices, frames]
        else:
            target = self.arrays["pattern"][indices]
        return {
            "inputs": self.inputs(indices, frames),
            "target": target,
            "domain": self.arrays["domain"][indices][:, None],
            "amplitude": self.arrays["amplitude"][indices],
            "index": self.arrays["index"][indices],
        }

    def chosen_frames(
        self, count: int, frames: Int[Tensor, " case"] | None, generator: torch.Generator | None
    ) -> Int[Tensor, " case"]:
        """Return the frames that were given, or draw some."""
        if frames is None and generator is not None:
            return self.draw_frames(count, generator)
        if frames is None:
            raise ValueError(
                f"{self.settings.problem} has {len(self.settings.times)} frames, and none was chosen. "
                "Give the frame, or a generator to draw it."
            )
        return frames.to(self.device)

    def inputs(
        self, indices: Int[Tensor, " case"], frames: Int[Tensor, " case"] | None
    ) -> Float[Tensor, "case channel height width"]:
        """Stack the channels of the cases at `indices`; the time channel is t / 20 s everywhere."""
        size = self.settings.resolution
        stacked = torch.empty(len(indices), len(self.settings.channels), size, size, device=self.device)
        for position, channel in enumerate(self.settings.channels):
            if channel == "time":
                stacked[:, position] = self.shares_of_trained_time[frames][:, None, None]
            else:
                stacked[:, position] = self.arrays[channel][indices]
        return stacked


def count_trained_frames(settings: StoreSettings) -> int:
    """Count the frames up to 20 s."""
    return sum(time <= TRAINED_UNTIL for time in settings.times)


def require_frames(settings: StoreSettings) -> None:
    """Refuse to choose a frame where there is none."""
    if not settings.times:
        raise ValueError(f"{settings.problem} is steady and has no frames. Leave the frame out.")


def checked_frame(settings: StoreSettings, frame: int) -> int:
    """Require a frame that is stored."""
    require_frames(settings)
    if not 0 <= frame < len(settings.times):
        last = len(settings.times) - 1
        raise ValueError(f"{settings.problem} has frames 0 to {last}, got {frame}. Choose one of these.")
    return frame


def read_cases(store: Store, positions: Int[np.ndarray, " case"]) -> Batch:
    """Read what a batch is made from."""
    stored = [channel for channel in store.settings.channels if channel in store.names]
    arrays = store.read(positions, *stored, "pattern", "amplitude", "index")
    return {name: torch.from_numpy(values) for name, values in arrays.items()}


def load(
    store: Store, name: str, positions: Int[np.ndarray, " case"], frames: slice, device: torch.device
) -> Shaped[Tensor, "case ..."]:
    """Copy one array of the cases at `positions` to a device, a part at a time, and of patterns some frames."""
    example = torch.from_numpy(store.read(positions[:0], name, frames=frames)[name])
    loaded = torch.empty((len(positions), *example.shape[1:]), dtype=example.dtype, device=device)
    for start in range(0, len(positions), CASES_AT_ONCE):
        part = store.read(positions[start : start + CASES_AT_ONCE], name, frames=frames)[name]
        loaded[start : start + len(part)] = torch.from_numpy(part)
    return loaded
