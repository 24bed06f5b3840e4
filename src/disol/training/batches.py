"""The order of training cases: the batches of an epoch as a function of (seed, epoch) alone."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from disol.data.dataset import Batch, DeviceCases
from disol.training.augmentation import Symmetries, translate


@dataclass(frozen=True)
class EpochPlan:
    """The cases of each batch, each with its frame, a symmetry and, if cases are moved, a place on the grid."""

    indices: Int[Tensor, "batch case"]
    frames: Int[Tensor, "batch case"]
    elements: Int[Tensor, "batch case"]
    places: Float[Tensor, "batch case 2"] | None = None

    def batches(self, cases: DeviceCases, symmetries: Symmetries, own: slice = slice(None)) -> Iterator[Batch]:
        """Stack one batch after another; of each, only the share `own` of one of several processes."""
        for number in range(len(self.indices)):
            batch = cases.batch(self.indices[number, own], frames=self.frames[number, own])
            turned = symmetries.apply(batch, self.elements[number, own])
            yield turned if self.places is None else translate(turned, self.places[number, own])


def plan_epoch(
    cases: DeviceCases,
    symmetries: Symmetries,
    *,
    seed: int,
    epoch: int,
    batch_size: int,
    num_batches: int | None = None,
    moved: bool = False,
    file: int = 0,
) -> EpochPlan:
    """Shuffle the cases of a file into all the batches they fill, or into `num_batches`, starting over if they run out.

    Left-over cases wait for another epoch. Each file is shuffled independently, by its number.
    """
    drawn = np.random.SeedSequence((seed, epoch, file))
    generator = torch.Generator().manual_seed(int(drawn.generate_state(1)[0]))
    shape = (len(cases) // batch_size if num_batches is None else num_batches, batch_size)
    count = shape[0] * shape[1]
    indices = torch.randperm(len(cases), generator=generator)[torch.arange(count) % len(cases)]
    frames = cases.draw_frames(count, generator)
    elements = symmetries.draw(count, generator)
    indices, frames, elements = (each.reshape(shape).to(cases.device) for each in (indices, frames, elements))
    places = torch.rand(*shape, 2, generator=generator).to(cases.device) if moved else None
    return EpochPlan(indices, frames, elements, places)


def spread_evenly(counts: Sequence[int]) -> list[int]:
    """Return the file of each batch of an epoch, from the number of batches of each file, all spread evenly."""
    places = [((place + 0.5) / count, file) for file, count in enumerate(counts) for place in range(count)]
    return [file for _, file in sorted(places)]


def validation_batches(
    cases: DeviceCases, batch_size: int, own: slice = slice(None)
) -> Iterator[tuple[Batch, Bool[Tensor, " case"]]]:
    """Stack all cases once, cycling through the frames of a transient problem, and tell which cases count.

    The last batch is padded with cases that do not count, so that all have one shape.
    """
    for start in range(0, len(cases), batch_size):
        places = torch.arange(start, start + batch_size, device=cases.device)[own]
        indices = places % len(cases)
        yield cases.batch(indices, frames=indices % cases.num_trained_frames), places < len(cases)
