"""Networks whose errors are known, and small files for them."""

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from disol.data import CaseDataset
from disol.data.recipe import STORED_TIMES
from disol.models import Network, create_model

TINY = {"width": 4, "depth": 2, "gated_skips": 1}


class Recalling(Network):
    """Recalls the item of a file that belongs to its inputs, and answers with a function of it."""

    def __init__(self, problem: str, path: Path, answer: Callable[[dict[str, Tensor]], Tensor]) -> None:
        model = create_model("disol", problem, **TINY)
        super().__init__(model.config, model.channels, model.fields)
        frames = range(len(STORED_TIMES)) if problem == "heat" else [None]
        self.items = [item for frame in frames for item in CaseDataset(path, "all", frame=frame)]
        self.answer = answer

    def forward(self, inputs: Tensor) -> Tensor:
        return torch.stack([self.answer(self.recall(single)) for single in inputs])

    def recall(self, inputs: Tensor) -> dict[str, Tensor]:
        return next(item for item in self.items if torch.equal(item["inputs"], inputs))


class RecallingAmplitude(Recalling):
    predicts = "log-amplitude"


def stored_pattern(item: dict[str, Tensor]) -> Tensor:
    return item["target"]


def offset_pattern(item: dict[str, Tensor]) -> Tensor:
    return item["target"] + 0.25 * item["domain"]
