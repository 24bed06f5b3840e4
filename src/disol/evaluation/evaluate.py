"""Evaluating a model on files of cases: arguments are checked before torch is imported."""

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Int

from disol import _checks as checks
from disol._devices import find_device, reused_memory
from disol._files import as_path
from disol._progress import shown_progress
from disol.data import Store, StoreSettings, open_store
from disol.data.recipe import FREE_SETTINGS, SPLITS
from disol.errors import DisolError, shown
from disol.evaluation.results import Evaluation, FileEvaluation
from disol.models.pretrained import find_folder
from disol.problems import Problem
from disol.problems.table import find_problem
from disol.training.run import digest_cases, read_described_files, read_digest

if TYPE_CHECKING:
    from disol.models import Checkpoint
    from disol.models.handle import Handle

SHOWN_TIMES = (2.0, 8.0, 14.0, 20.0, 30.0, 40.0, 50.0)  # seconds; those after 20 s lie beyond training
ASSUMED = "The model does not say what it was trained on: the problem and conventions of the files are assumed."
COMPONENT_PATTERNS = (
    "Patterns are ½ + ½ U / max |U| for each component, and errors are those of these patterns as stored: absolute "
    "ones are half of those of U / max |U|, and relative ones are measured against a pattern that is ½ where U is 0."
)


def evaluate(
    model: "Handle",
    data_files: str | Path | Sequence[str | Path],
    *,
    device: str = "auto",
    batch_size: int = 64,
    split: str | None = None,
    first: int | None = None,
    frames: Sequence[float] | str | None = None,
    out: str | Path | None = None,
    progress: bool = True,
    problem: str | Problem | None = None,
) -> Evaluation:
    """Measure the errors of a model's predictions on files of cases.

    model        the name of a shipped model, the folder of a run, what `disol.load` returns, a `Checkpoint`, or any
                 `nn.Module` that maps the channels of the files to their fields
    device       "auto" (a GPU if there is one), "cpu", "cuda" or "cuda:NUMBER"
    batch_size   cases predicted at once; the numbers do not depend on it
    split        "train", "validation" or "all"; default: "validation" for the file it was trained on, "all" for others
    first        evaluate only the first so many cases of each file's split
    frames       times of a transient problem in seconds, or "all"; default: 2, 8, 14, 20, 30, 40 and 50 s
    out          a folder for tables and pictures; those of an earlier evaluation in it are replaced
    progress     show a progress bar, in a terminal or a notebook
    problem      your own problem, if the files are of one or the model was trained on one
    """
    batch_size = checks.count("batch_size", batch_size)
    first = None if first is None else checks.count("first", first)
    stores = [open_store(path) for path in _list_files(data_files)]
    chosen_frames = [_choose_frames(store, frames) for store in stores]
    if split is not None:
        stores[0].positions(split)  # refuses an unknown one
    out = None if out is None else as_path("out", out)
    if out is not None and os.path.exists(out) and not os.path.isdir(out):
        raise DisolError(f"out must be a folder, but {out} is a file.")
    own = None if problem is None else find_problem(problem)
    handle = find_folder(model) if isinstance(model, str | Path) else model
    target = find_device(device)

    running = import_module("disol.evaluation.run")  # from here on with torch
    checkpoints = running.match_files(handle, stores, own)
    checkpoint = checkpoints[0]
    network = deepcopy(checkpoint.network).to(target).eval()
    digests = [None if store.settings.is_drawn else digest_cases(store) for store in stores]
    seen = [
        find_seen_cases(checkpoint.metrics, store.settings, digest)
        for store, digest in zip(stores, digests, strict=True)
    ]
    splits = tuple(split or ("validation" if known.is_training_file else "all") for known in seen)
    asked = [store.positions(part)[:first] for store, part in zip(stores, splits, strict=True)]
    runs = [
        running.Run(
            network=network,
            predicts=checkpoint.predicts,
            device=target,
            store=store,
            problem=matched.problem,
            positions=running.choose_cases(checkpoint, store, positions),
            frames=kept,
            batch_size=batch_size,
        )
        for store, matched, positions, kept in zip(stores, checkpoints, asked, chosen_frames, strict=True)
    ]
    num_cases = sum(len(run.positions) for run in runs)
    with reused_memory(target), shown_progress("cases", num_cases, wanted=progress) as bar:
        files = tuple(run.evaluate(name, bar.advance) for run, name in zip(runs, distinct_names(stores), strict=True))
    notes = [note for store in stores for note in _note_match(checkpoint, store)]
    notes += [note for file, known in zip(files, seen, strict=True) for note in _note_training(file, known, split)]
    for file, positions in zip(files, asked, strict=True):
        notes += _note_cases(file, len(positions) - len(file), checkpoint.predicts)
    evaluation = Evaluation(
        model=running.describe_checkpoint(checkpoint),
        predicts=checkpoint.predicts,
        splits=splits,
        device=str(target),
        files=files,
        notes=tuple(dict.fromkeys(notes)),
        trained_until=checkpoint.trained_until,
    )
    if out is not None:
        import_module("disol.evaluation.report").write_evaluation(evaluation, out)
    return evaluation


@dataclass(frozen=True)
class SeenCases:
    """What the training files of a model and a file have in common.

    trained            settings of the training files that hold cases of the same sequence
    is_training_file   the file is one of the training files
    """

    trained: tuple[StoreSettings, ...]
    is_training_file: bool

    def count(self, evaluated: Int[np.ndarray, " case"]) -> int:
        """Count the evaluated cases that the model was trained on."""
        seen = np.zeros(len(evaluated), bool)
        for trained in self.trained:
            known = evaluated < trained.num_cases
            seen[known] |= trained.number_cases(evaluated[known])["split"] == SPLITS.index("train")
        return int(seen.sum())


def find_seen_cases(metrics: Mapping[str, Any], settings: StoreSettings, digest: str | None = None) -> SeenCases:
    """Compare the settings of a file with those of the training files, if the metrics of a checkpoint hold them.

    A drawn case is a function of its file's settings and its number: files that differ only in size or resolution share
    cases, since every resolution shows the same case. Of cases that were not drawn, the settings say nothing.

    digest   of the cases of a file, if they were not drawn
    """
    told = metrics.get("run")
    run = told if isinstance(told, dict) else {}
    stored = {name: value for name, value in asdict(settings).items() if name != "package_version"}
    found, is_training_file = [], False
    for number, trained in enumerate(read_described_files(run)):
        if not settings.is_drawn and (digest is None or digest != read_digest(run, number)):
            continue
        free = {name: trained.get(name) for name in FREE_SETTINGS}
        if isinstance(free["num_cases"], int) and {**json.loads(json.dumps(stored)), **free} == trained:
            found.append(replace(settings, num_cases=free["num_cases"]))
            is_training_file |= all(stored[name] == free[name] for name in FREE_SETTINGS)
    return SeenCases(tuple(found), is_training_file)


def distinct_names(stores: Sequence[Store]) -> list[str]:
    """Return a short name for each file; files of the same name are numbered."""
    names = [store.path.stem for store in stores]
    repeated = {name for name, times in Counter(names).items() if times > 1}
    return [
        f"{name}-{names[: position + 1].count(name)}" if name in repeated else name
        for position, name in enumerate(names)
    ]


def _list_files(data_files: str | Path | Sequence[str | Path]) -> list[str | Path]:
    paths = [data_files] if isinstance(data_files, str | Path) else list(data_files)
    if not paths:
        raise DisolError("An evaluation needs one file of cases or more, got none. Pass files made by generate.")
    return paths


def _choose_frames(store: Store, asked: Sequence[float] | str | None) -> list[int]:
    """Return which stored frames to evaluate; a steady problem has one."""
    stored = store.settings.times
    if not stored:
        if asked is not None:
            raise DisolError(f"{store.settings.problem} is steady and has no frames. Leave frames out.")
        return [0]
    if asked is None:
        asked = [time for time in SHOWN_TIMES if time in stored] or "all"
    if isinstance(asked, str) and asked == "all":
        return list(range(len(stored)))
    if isinstance(asked, str) or not np.iterable(asked):
        raise DisolError(f"frames must be seconds, such as [2, 20, 50], or 'all', got {shown(asked)}.")
    asked = [checks.number("frames", time) for time in asked]
    missing = [f"{time:g}" for time in asked if time not in stored]
    if missing or not asked:
        span = f"{len(stored)} frames from {stored[0]:g} s to {stored[-1]:g} s"
        raise DisolError(f"{store.path} has {span}, got {', '.join(missing) or 'none'}. Name frames by their seconds.")
    return [stored.index(time) for time in asked]


def _note_match(checkpoint: "Checkpoint", store: Store) -> Iterator[str]:
    """Note how a file differs from what the model was trained on, and how its patterns are scaled."""
    if checkpoint.path is None:
        yield ASSUMED
    if checkpoint.predicts == "pattern" and store.settings.normalisation.per_component:
        yield COMPONENT_PATTERNS
    side = store.settings.resolution
    if checkpoint.path is not None and side not in checkpoint.resolutions:
        yield f"{store.path} has a grid of {side} x {side}, the model was trained on {checkpoint.card.grids}."


def _note_training(file: FileEvaluation, seen: SeenCases, split: str | None) -> Iterator[str]:
    """Note which cases the model was trained on."""
    if seen.is_training_file and split is None:
        yield f"The model was trained on {file.path}: its validation split is evaluated by default."
    count = seen.count(file.index)
    if count:
        yield (
            f"The model was trained on {count} of these {len(file)} cases of {file.path}. "
            "Generate test cases with another seed."
        )


def _note_cases(file: FileEvaluation, left_out: int, predicts: str) -> Iterator[str]:
    """Note which cases were left out, and which predictions are not finite."""
    if left_out:
        reason = (
            "cannot be predicted by this model"
            if predicts == "pattern"
            else "have a zero solution, and no amplitude to predict"
        )
        yield f"{left_out} cases of {file.path} {reason}: they are left out."
    broken = int((~np.isfinite(np.stack([*file.values.values()]))).any(axis=(0, 1)).sum())
    if broken:
        yield f"The predictions for {broken} of {len(file)} cases of {file.path} hold NaN or infinite values."
