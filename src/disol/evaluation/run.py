"""Running a network over files, one batch of cases at a time."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from disol._devices import enough_memory
from disol.data import DeviceCases, Store
from disol.data.dataset import Batch, read_cases
from disol.errors import DisolError
from disol.evaluation.metrics import coverage, measure_amplitudes, measure_patterns
from disol.evaluation.results import Example, FileEvaluation
from disol.models import Checkpoint, count_parameters, resolve
from disol.models.base import find_accepted
from disol.models.handle import Handle
from disol.problems import Problem
from disol.problems.table import find_conventions

DOMAINS_AT_ONCE = 512  # read together to find out which a model can predict on
Measured = dict[str, Float[np.ndarray, "frame case"]]


def match_files(handle: Handle, stores: Sequence[Store], own: Problem | None) -> list[Checkpoint]:
    """Return the checkpoint for each file, which must match what the model was trained on.

    A module without a checkpoint is assumed to match each of the files.
    """
    bare = isinstance(handle, nn.Module) and not isinstance(getattr(handle, "checkpoint", None), Checkpoint)
    checkpoint = None if bare else resolve(handle, problem=own)
    matched = []
    for store in stores:
        settings = store.settings
        problem = settings.find_problem(store.path, own if checkpoint is None else checkpoint.problem)
        conventions = find_conventions(settings.conventions, problem)
        if checkpoint is None:
            found = resolve(handle, problem=problem, conventions=conventions, resolution=settings.resolution)
        else:
            found = checkpoint
            found.require_match(problem, conventions, store.path, settings.normalisation)
        matched.append(found)
    return matched


def describe_checkpoint(checkpoint: Checkpoint) -> dict[str, Any]:
    """Return what is known about a model; for a module without a checkpoint, leave out what was assumed."""
    known = asdict(checkpoint.card)
    size = {"num_parameters": count_parameters(checkpoint.network)}
    if checkpoint.path is None:
        return {name: known[name] for name in ("model", "model_config", "channels", "fields")} | size
    return {"checkpoint": str(checkpoint.path), **known, **size}


def choose_cases(checkpoint: Checkpoint, store: Store, positions: Int[np.ndarray, " case"]) -> Int[np.ndarray, " case"]:
    """Return those of some cases of a file that a model can predict; a zero field has no ln u_lim to predict."""
    kept = positions
    if checkpoint.predicts == "log-amplitude":
        amplitude = store.read(positions, "amplitude")["amplitude"].reshape(len(positions), -1)
        kept = positions[amplitude.max(axis=1, initial=0.0) > 0]
    kept = find_predictable(checkpoint.network, store, kept)
    if not len(kept):
        raise DisolError(
            f"{store.path} has no case to evaluate among the {len(positions)} asked for: {checkpoint.card.model} can "
            "predict none. Use another split or file."
        )
    return kept


def find_predictable(network: nn.Module, store: Store, positions: Int[np.ndarray, " case"]) -> Int[np.ndarray, " case"]:
    """Return those of some cases of a file on whose domains a network can predict."""
    parts = [positions[:0]]
    for start in range(0, len(positions), DOMAINS_AT_ONCE):
        some = positions[start : start + DOMAINS_AT_ONCE]
        accepted = find_accepted(network, torch.from_numpy(store.read(some, "domain")["domain"]))
        if accepted is None:
            return positions
        parts.append(some[accepted.cpu().numpy()])
    return np.concatenate(parts)


@dataclass(frozen=True, eq=False)
class Run:
    """The evaluation of a network on one file.

    predicts     "pattern" or "log-amplitude"
    problem      of the file
    positions    of the cases in the file
    frames       to evaluate; a steady problem has one, number 0
    batch_size   cases predicted at once
    """

    network: nn.Module
    predicts: str
    device: torch.device
    store: Store
    problem: Problem
    positions: Int[np.ndarray, " case"]
    frames: list[int]
    batch_size: int

    def evaluate(self, name: str, advance: Callable[[int], None]) -> FileEvaluation:
        """Measure every case, then predict the best, median and worst ones again to show them."""
        values = self._measure(advance)
        covered = values.pop("coverage")[0]
        known = self.store.read(self.positions, "index", "outline", "shift")
        shift = tuple(self.store.settings.shifts[code] for code in known["shift"])
        ranks = rank_cases(values["rel_l2"]) if self.predicts == "pattern" else {}
        times = self.store.settings.times or (None,)
        return FileEvaluation(
            name,
            self.store.path,
            self.store.settings,
            self.problem,
            known["index"],
            shift,
            known["outline"],
            covered,
            tuple(times[frame] for frame in self.frames),
            values,
            tuple(self._keep(rank, case, shift[case], values) for rank, case in ranks.items()),
        )

    def _measure(self, advance: Callable[[int], None]) -> Measured:
        """Predict and measure all cases, including the coverage of their domains."""
        parts: list[Measured] = []
        for start in range(0, len(self.positions), self.batch_size):
            cases = self.positions[start : start + self.batch_size]
            frames = [self._measure_batch(batch, prediction) for batch, prediction in self._predictions(cases)]
            parts.append({name: torch.stack([frame[name] for frame in frames]).cpu().numpy() for name in frames[0]})
            advance(len(cases))
        return {name: np.concatenate([part[name] for part in parts], axis=1) for name in parts[0]}

    def _measure_batch(self, batch: Batch, prediction: Float[Tensor, "case ..."]) -> dict[str, Float[Tensor, " case"]]:
        """Compare predictions with the references in the file."""
        if self.predicts == "pattern":
            measured = measure_patterns(prediction, batch["target"], batch["domain"], self.store.settings.fields)
        else:
            measured = measure_amplitudes(prediction, batch["amplitude"])
        return {"coverage": coverage(batch["domain"]), **measured}

    def _predictions(self, positions: Int[np.ndarray, " case"]) -> Iterator[tuple[Batch, Float[Tensor, "case ..."]]]:
        """Predict cases one frame after another, and yield each batch with its predictions."""
        arrays = {name: values.to(self.device) for name, values in read_cases(self.store, positions).items()}
        cases = DeviceCases(self.store.settings, arrays)
        for frame in self.frames:
            batch = cases.batch(torch.arange(len(cases)), frames=torch.full((len(cases),), frame))
            yield batch, self._predict(batch["inputs"])

    @torch.no_grad()
    def _predict(self, inputs: Float[Tensor, "case channel height width"]) -> Float[Tensor, "case ..."]:
        with enough_memory(
            f"A batch of {len(inputs)} cases does not fit into the memory of {self.device}. Use a smaller batch_size."
        ):
            return self.network(inputs)

    def _keep(self, rank: str, case: int, shift: str, values: Measured) -> Example:
        """Keep one case with its prediction."""
        shown = list(self._predictions(self.positions[[case]]))
        first = shown[0][0]
        return Example(
            rank=rank,
            index=int(first["index"]),
            shift=shift,
            problem=self.problem,
            inputs=first["inputs"][0].cpu().numpy(),
            reference=torch.cat([batch["target"] for batch, _ in shown]).cpu().numpy(),
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
