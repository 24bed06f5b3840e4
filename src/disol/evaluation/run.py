"""A model running over one file, a batch of cases at a time."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from disol.data import DeviceCases, Store
from disol.data.dataset import Batch, read_cases
from disol.evaluation.metrics import coverage, measure_amplitudes, measure_patterns
from disol.evaluation.results import Example, FileEvaluation
from disol.models import Network

Measured = dict[str, Float[np.ndarray, "frame case"]]


@dataclass(frozen=True, eq=False)
class Run:
    """What is to be evaluated.

    positions   of the cases in the file
    frames      of a transient problem, None for a steady one
    size        cases predicted at once
    """

    model: Network
    device: torch.device
    store: Store
    positions: Int[np.ndarray, " case"]
    frames: list[int] | None
    size: int

    @property
    def times(self) -> tuple[float | None, ...]:
        """Seconds of each frame."""
        return (None,) if self.frames is None else tuple(self.store.settings.times[frame] for frame in self.frames)

    def evaluate(self, name: str, advance: Callable[[int], None]) -> FileEvaluation:
        """Measure every case, then predict the best, median and worst ones again to show them."""
        values = self.measure(advance)
        covered = values.pop("coverage")[0]
        known = self.store.read(self.positions, "index", "outline", "shift")
        shift = tuple(self.store.settings.shifts[code] for code in known["shift"])
        ranks = rank_cases(values["rel_l2"]) if self.model.predicts == "pattern" else {}
        examples = tuple(self.example(rank, case, shift[case], values) for rank, case in ranks.items())
        return FileEvaluation(
            name,
            self.store.path,
            self.store.settings,
            known["index"],
            shift,
            known["outline"],
            covered,
            self.times,
            values,
            examples,
        )

    def measure(self, advance: Callable[[int], None]) -> Measured:
        """Predict and measure all cases, the size of their domains included."""
        parts: list[Measured] = []
        for start in range(0, len(self.positions), self.size):
            cases = self.positions[start : start + self.size]
            frames = [self.measure_batch(batch, prediction) for batch, prediction in self.predictions(cases)]
            parts.append({name: torch.stack([frame[name] for frame in frames]).cpu().numpy() for name in frames[0]})
            advance(len(cases))
        return {name: np.concatenate([part[name] for part in parts], axis=1) for name in parts[0]}

    def measure_batch(self, batch: Batch, prediction: Float[Tensor, "case ..."]) -> dict[str, Float[Tensor, " case"]]:
        """Compare predictions with what the file holds."""
        if self.model.predicts == "pattern":
            measured = measure_patterns(prediction, batch["target"], batch["domain"], self.store.settings.fields)
        else:
            measured = measure_amplitudes(prediction, batch["amplitude"])
        return {"coverage": coverage(batch["domain"]), **measured}

    def predictions(self, positions: Int[np.ndarray, " case"]) -> Iterator[tuple[Batch, Float[Tensor, "case ..."]]]:
        """Predict cases, at one frame after the other, and give them with what the file holds."""
        arrays = {name: values.to(self.device) for name, values in read_cases(self.store, positions).items()}
        cases = DeviceCases(self.store.settings, arrays)
        for frame in [None] if self.frames is None else self.frames:
            frames = None if frame is None else torch.full((len(cases),), frame)
            batch = cases.batch(torch.arange(len(cases)), frames=frames)
            yield batch, self.predict(batch["inputs"])

    @torch.no_grad()
    def predict(self, inputs: Float[Tensor, "case channel height width"]) -> Float[Tensor, "case ..."]:
        """Run the model."""
        try:
            return self.model(inputs)
        except torch.OutOfMemoryError as error:
            raise ValueError(
                f"A batch of {len(inputs)} cases does not fit into the memory of {self.device}. Use a smaller batch."
            ) from error

    def example(self, rank: str, case: int, shift: str, values: Measured) -> Example:
        """Keep one case with its prediction."""
        shown = list(self.predictions(self.positions[[case]]))
        first = shown[0][0]
        return Example(
            rank=rank,
            index=int(first["index"]),
            shift=shift,
            channels=self.model.channels,
            inputs=first["inputs"][0].cpu().numpy(),
            exact=torch.cat([batch["target"] for batch, _ in shown]).cpu().numpy(),
            prediction=torch.cat([prediction for _, prediction in shown]).float().cpu().numpy(),
            amplitude=first["amplitude"].cpu().numpy().reshape(-1),
            errors={name: measured[:, case] for name, measured in values.items()},
        )


def rank_cases(errors: Float[np.ndarray, "frame case"]) -> dict[str, int]:
    """Find the cases with the smallest, median and largest mean error over times; of few cases, only distinct ones."""
    order = np.argsort(errors.mean(axis=0), kind="stable")
    ranks = {"best": order[0], "worst": order[-1], "median": order[(len(order) - 1) // 2]}
    distinct: dict[int, str] = {}
    for rank, case in ranks.items():
        distinct.setdefault(int(case), rank)
    found = {rank: case for case, rank in distinct.items()}
    return {rank: found[rank] for rank in ("best", "median", "worst") if rank in found}
