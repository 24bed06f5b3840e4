"""Networks whose errors are known, and small files for them."""

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from disol.data import CaseDataset
from disol.models import Network, create_model
from disol.problems import PROBLEMS

TINY = {"width": 4, "depth": 2, "gated_skips": 1}


class Recalling(Network):
    """Recalls the item of a file that belongs to its inputs, and answers with a function of it."""

    def __init__(self, problem: str, path: Path, answer: Callable[[dict[str, Tensor]], Tensor]) -> None:
        model = create_model("disol", problem, **TINY)
        super().__init__(model.config, PROBLEMS[problem])
        frames = range(len(PROBLEMS[problem].times)) or [None]
        self.items = [item for frame in frames for item in CaseDataset(path, "all", frame=frame)]
        self.answer = answer

    def forward(self, inputs: Tensor) -> Tensor:
        return torch.stack([self.answer(self.recall(single)) for single in inputs])

    def recall(self, inputs: Tensor) -> dict[str, Tensor]:
        known = (item for item in self.items if torch.equal(item["inputs"], inputs))
        return next(known, self.items[0])  # a trial shows whether channels and fields fit


class RecallingAmplitude(Recalling):
    predicts = "log-amplitude"


def stored_pattern(item: dict[str, Tensor]) -> Tensor:
    return item["target"]


def offset_pattern(item: dict[str, Tensor]) -> Tensor:
    return item["target"] + 0.25 * item["domain"]
