"""What every engine is: a network made ready to run, for any number of cases."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Float, Float32
from torch import Tensor

from disol.models import Network

# A GPU is busy with as many pixels; on a CPU larger batches would only fall out of its caches.
MOST_PIXELS = {"cpu": 2**15, "cuda": 2**22}


@dataclass(frozen=True, eq=False)
class Engine(ABC):
    """A network that is run in one way, on one device.

    network      a copy of one's own, in evaluation mode
    precision    "float32" or "bfloat16"; predictions are float32 in any case
    most_cases   found to fit into memory at once, by height and width
    """

    name: ClassVar[str]

    network: Network = field(repr=False)
    device: torch.device
    precision: str
    most_cases: dict[tuple[int, int], int] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self.prepare()

    @abstractmethod
    def prepare(self) -> None:
        """Get the network ready, or say why it cannot be run so."""

    @abstractmethod
    def run(
        self, cases: Float32[Tensor, "batch channel height width"], at_once: int
    ) -> Float32[np.ndarray, "batch ..."]:
        """Predict for cases of the CPU, of which there are at most `at_once`."""

    def __call__(self, inputs: Float32[np.ndarray, "batch channel height width"]) -> Float32[np.ndarray, "batch ..."]:
        """Predict for a batch of any size, as many cases at once as suit the device."""
        cases = to_tensor(inputs)
        self.network.domain_of(cases)  # channels that are not the network's are an error that names them
        if len(cases) == 0:
            return self(np.zeros((1, *inputs.shape[1:]), np.float32))[:0]
        grid = (inputs.shape[2], inputs.shape[3])
        while True:
            at_once = self.cases_at_once(len(cases), grid)
            try:
                predictions = [self.run(chunk, at_once) for chunk in torch.split(cases, at_once)]
            except torch.OutOfMemoryError:
                if at_once == 1:
                    raise ValueError(
                        f"One case of {grid[0]} x {grid[1]} pixels must fit into the memory of {self.device}, but does "
                        "not. Free memory, or use device='cpu'."
                    ) from None
                self.most_cases[grid] = at_once // 2
            else:
                return np.concatenate(predictions) if len(predictions) > 1 else predictions[0]
            torch.cuda.empty_cache()  # here, for an exception being handled keeps its tensors alive

    def cases_at_once(self, batch: int, grid: tuple[int, int]) -> int:
        """Return how many cases of a batch to run together."""
        usual = max(1, self.most_pixels() // (grid[0] * grid[1]))
        return min(batch, self.most_cases.get(grid, usual))

    def most_pixels(self) -> int:
        """Return how many pixels are best run together."""
        return MOST_PIXELS[self.device.type]


def to_tensor(inputs: Float32[np.ndarray, "..."]) -> Float[Tensor, "..."]:
    """See an array as a tensor; one that torch cannot share (read-only, or with reversed axes) is copied."""
    shareable = np.ascontiguousarray(inputs)
    return torch.from_numpy(shareable if shareable.flags.writeable else shareable.copy())
