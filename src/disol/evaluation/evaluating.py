"""Evaluating a model on files of cases."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from jaxtyping import Int
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from disol.data import Store, open_store
from disol.devices import find_device
from disol.evaluation.reports import write_evaluation
from disol.evaluation.results import Evaluation, FileEvaluation
from disol.evaluation.run import Run
from disol.evaluation.seen_cases import SeenCases, find_seen_cases
from disol.evaluation.subject import read_subject
from disol.models import Checkpoint, Network
from disol.problems import checks
from disol.problems.checks import Unchecked

SHOWN_TIMES = (2.0, 8.0, 14.0, 20.0, 30.0, 40.0, 50.0)  # seconds; those after 20 s lie beyond training


def evaluate(
    model: str | Path | Checkpoint | Network,
    data_files: str | Path | Sequence[str | Path],
    *,
    device: str = "auto",
    batch: int | Unchecked = 64,
    split: str | None = None,
    frames: Sequence[int | float] | str | None = None,
    out: str | Path | None = None,
    progress: bool = True,
) -> Evaluation:
    """Measure how far the predictions of a model are from the solutions in files of cases.

    model      a checkpoint, its folder, or a model without one
    device     "auto" (a GPU if there is one), "cpu", "cuda" or "cuda:NUMBER"
    batch      cases predicted at once; the numbers do not depend on it
    split      "train", "validation" or "all"; unless given all, but of the file the model was trained on "validation"
    frames     of a transient problem, in seconds; 2, 8, 14, 20, 30, 40 and 50 s unless given, or "all"
    out        a folder for tables and pictures, where they replace those of an earlier evaluation
    progress   show a progress bar, if standard error is a terminal
    """
    subject = read_subject(model)
    stores = [open_store(path) for path in listed(data_files)]
    require_folder(out)
    notes = [note for store in stores for note in subject.check(store)]
    chosen, size = find_device(device), checks.count("batch", batch)
    network = subject.on(chosen)
    metrics = {} if subject.checkpoint is None else subject.checkpoint.metrics
    seen = [find_seen_cases(metrics, store.settings) for store in stores]
    splits = tuple(choose_split(split, known) for known in seen)
    runs = [
        Run(network, chosen, store, choose_cases(store, part, network), choose_frames(store, frames), size)
        for store, part in zip(stores, splits, strict=True)
    ]
    names = distinct_names(stores)
    with shown_progress(progress, sum(len(run.positions) for run in runs)) as advance:
        files = tuple(run.evaluate(name, advance) for run, name in zip(runs, names, strict=True))
    for file, known in zip(files, seen, strict=True):
        notes += remarks_on_training(file, known, split)
    for run, file, part in zip(runs, files, splits, strict=True):
        notes += remarks(run, file, part)
    distinct = tuple(dict.fromkeys(notes))
    evaluation = Evaluation(subject.describe(), network.predicts, splits, str(chosen), files, distinct)
    if out is not None:
        write_evaluation(evaluation, out)
    return evaluation


def listed(data_files: str | Path | Sequence[str | Path]) -> list[str | Path]:
    """Return the files, one or more."""
    paths = [data_files] if isinstance(data_files, str | Path) else list(data_files)
    if not paths:
        raise ValueError("An evaluation needs one file of cases or more, got none. Pass files made by generate.")
    return paths


def require_folder(out: str | Path | None) -> None:
    """Refuse a file where results are to go, before any work is done."""
    if out is not None and Path(out).exists() and not Path(out).is_dir():
        raise ValueError(f"Results go into a folder, but {out} is a file. Choose another --out.")


def choose_split(asked: str | None, seen: SeenCases) -> str:
    """Return the split asked for; unless there is one, errors are not to be those of cases learned by heart."""
    if asked is not None:
        return asked
    return "validation" if seen.is_training_file else "all"


def choose_cases(store: Store, split: str, model: Network) -> Int[np.ndarray, " case"]:
    """Return where the cases of a split are; a zero field has no ln u_lim to predict and is left out."""
    positions = store.positions(split)
    if model.predicts == "log-amplitude":
        amplitude = store.read(positions, "amplitude")["amplitude"].reshape(len(positions), -1)
        positions = positions[amplitude.max(axis=1, initial=0.0) > 0]
    if not len(positions):
        raise ValueError(f"{store.path} has no case to evaluate in the split {split!r}. Use another split or file.")
    return positions


def choose_frames(store: Store, asked: Sequence[int | float] | str | None) -> list[int] | None:
    """Return which stored frames to evaluate; None for a steady problem."""
    stored = store.settings.times
    if not stored:
        if asked is not None:
            raise ValueError(f"{store.settings.problem} is steady and has no frames. Leave frames out.")
        return None
    if asked is None:
        asked = [time for time in SHOWN_TIMES if time in stored] or "all"
    if isinstance(asked, str):
        if asked != "all":
            raise ValueError(f"frames must be seconds or 'all', got {asked!r}. Pass seconds, such as [2, 20, 50].")
        return list(range(len(stored)))
    missing = [f"{time:g}" for time in asked if time not in stored]
    if missing or not len(asked):
        span = f"{len(stored)} frames from {stored[0]:g} s to {stored[-1]:g} s"
        raise ValueError(f"{store.path} has {span}, got {', '.join(missing) or 'none'}. Choose some of these.")
    return [stored.index(time) for time in asked]


def distinct_names(stores: list[Store]) -> list[str]:
    """Return a short name for each file; those that share theirs are numbered."""
    names = [store.path.stem for store in stores]
    repeated = {name for name, times in Counter(names).items() if times > 1}
    numbered = []
    for position, name in enumerate(names):
        numbered.append(f"{name}-{names[: position + 1].count(name)}" if name in repeated else name)
    return numbered


def remarks_on_training(file: FileEvaluation, seen: SeenCases, asked: str | None) -> Iterator[str]:
    """Say which cases the model knows from its training."""
    if seen.is_training_file and asked is None:
        yield f"The model was trained on {file.path}: its validation cases alone are evaluated. --split takes others."
    count = seen.count(file.index)
    if count:
        yield (
            f"The model was trained on {count} of these {len(file)} cases of {file.path}. "
            "Generate cases for tests with another seed."
        )


def remarks(run: Run, file: FileEvaluation, split: str) -> Iterator[str]:
    """Say which cases were left out, and which predictions are no numbers."""
    left_out = len(run.store.positions(split)) - len(file)
    if left_out:
        yield f"{left_out} cases of {file.path} have a zero solution, and no amplitude to predict: they are left out."
    broken = int((~np.isfinite(np.stack([*file.values.values()]))).any(axis=(0, 1)).sum())
    if broken:
        yield f"The predictions for {broken} of {len(file)} cases of {file.path} hold NaN or infinite values."


@contextmanager
def shown_progress(wanted: bool, total: int) -> Iterator[Callable[[int], None]]:
    """Show a bar on standard error while cases are counted, if it is wanted and anyone can see it."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not (wanted and console.is_terminal)) as bar:
        task = bar.add_task("cases", total=total)
        yield lambda cases: bar.advance(task, cases)
