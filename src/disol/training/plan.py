"""Which cases are seen when: the batches of an epoch as a function of (seed, epoch) alone."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from disol.data.dataset import Batch, DeviceCases
from disol.training.symmetry import Symmetries
from disol.training.translation import translate


@dataclass(frozen=True)
class Share:
    """The part of every batch that one of several processes takes."""

    rank: int = 0
    processes: int = 1

    @property
    def places(self) -> slice:
        """Which places of a batch it takes."""
        return slice(self.rank, None, self.processes)


@dataclass(frozen=True)
class EpochPlan:
    """The cases of each batch; for each a frame (of a transient problem), a symmetry and, if cases move, a place."""

    indices: Int[Tensor, "batch case"]
    frames: Int[Tensor, "batch case"] | None
    elements: Int[Tensor, "batch case"]
    places: Float[Tensor, "batch case 2"] | None = None

    def batches(self, cases: DeviceCases, symmetries: Symmetries, share: Share) -> Iterator[Batch]:
        """Stack one batch after the other."""
        for number in range(len(self.indices)):
            frames = None if self.frames is None else self.frames[number, share.places]
            batch = cases.batch(self.indices[number, share.places], frames=frames)
            turned = symmetries.apply(batch, self.elements[number, share.places])
            yield turned if self.places is None else translate(turned, self.places[number, share.places])


def plan_epoch(
    cases: DeviceCases, symmetries: Symmetries, *, seed: int, epoch: int, batch: int, moved: bool = False
) -> EpochPlan:
    """Shuffle the cases into whole batches; those that are left over wait for another epoch."""
    generator = torch.Generator().manual_seed(int(np.random.SeedSequence((seed, epoch)).generate_state(1)[0]))
    shape = (len(cases) // batch, batch)
    count = shape[0] * shape[1]
    indices = torch.randperm(len(cases), generator=generator)[:count].to(cases.device)
    frames = cases.draw_frames(count, generator).reshape(shape) if cases.settings.times else None
    elements = symmetries.draw(count, generator).to(cases.device)
    places = torch.rand(*shape, 2, generator=generator).to(cases.device) if moved else None
    return EpochPlan(indices.reshape(shape), frames, elements.reshape(shape), places)


def validation_batches(cases: DeviceCases, batch: int, share: Share) -> Iterator[tuple[Batch, Bool[Tensor, " case"]]]:
    """Stack all cases once, the frames of a transient problem in turn, and tell which cases count.

    The last batch is filled up with cases that do not count, so that all have one shape.
    """
    for start in range(0, len(cases), batch):
        places = torch.arange(start, start + batch, device=cases.device)[share.places]
        indices = places % len(cases)
        frames = indices % cases.num_trained_frames if cases.settings.times else None
        yield cases.batch(indices, frames=frames), places < len(cases)
