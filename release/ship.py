"""Turn a trained run into a model that comes with the package: its weights in float16, what they measure, a model card.

    python release/ship.py runs/poisson --name poisson --tests id.h5 all.h5 shapes.h5 --trained-on "one H200"

What is measured is what is shipped: the weights are rounded before anything else. The checkpoint is written last, so an
interruption leaves the model that was there before.
"""

import argparse
import re
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from math import nan
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import nn

from card_page import write_card
from disol import DisolError
from disol._files import written_whole
from disol.data import open_store
from disol.evaluation import Evaluation
from disol.evaluation.pictures import draw_evaluation
from disol.models import Checkpoint, count_parameters, import_published, load_checkpoint, resolve, save_checkpoint
from disol.models.pretrained import PRETRAINED
from disol.training.folder import digest_weights
from disol.training.history import EpochRecord, plot_losses, read_history
from disol.training.run import read_described_files
from measure import measure_fields, measure_samples, measure_tests

PICTURES = Path(__file__).parents[1] / "docs" / "results"
MOST_POINTS = 200  # of a stored loss curve
DPI = 100


def ship(options: argparse.Namespace) -> Path:
    """Measure the model of a run and write everything that belongs to it."""
    require_name(options.name)
    run = load_finished(options.run, options.stopped)
    require_other_seed(options.tests, [file["seed"] for file in read_described_files(run.metrics["run"])])
    run, records = joined(run, read_history(options.run), options.after)
    shipped = replace(run, network=rounded(run.network))
    rivals = {name: as_rival(path, run) for name, path in map(named_path, options.rival)}
    evaluation, tests = measure_tests(shipped, options.tests, options.device)
    for file in evaluation.files if options.solved_cases else ():
        tests[file.name]["solved"] = measure_fields(shipped, file.path, options.solved_cases, options.device)
    metrics = {
        **run.metrics,
        "num_parameters": count_parameters(run.network),
        "cost": cost_of(run, records, options.trained_on),
        "loss_curve": loss_curve(records),
        "tests": tests,
        "rivals": {name: measure_tests(rival, options.tests, options.device)[1] for name, rival in rivals.items()},
    }
    if options.samples is not None:
        subjects = {options.name: shipped, **rivals}
        metrics["released_samples"] = measure_samples(subjects, options.samples, options.device)
    pictures = options.pictures / options.name
    metrics["pictures"] = write_pictures(pictures, evaluation, records, f"{options.name}: {run.card.model}")
    return write_model(options.models / options.name, shipped, metrics)


def write_model(folder: Path, shipped: Checkpoint, metrics: dict[str, Any]) -> Path:
    """Write the model card, then the checkpoint."""
    card = replace(shipped.card, storage="float16")
    with written_whole(folder / "README.md") as path:
        path.write_text(write_card(folder.name, card, metrics), encoding="utf-8")
    return save_checkpoint(
        folder,
        shipped.network,
        shipped.problem,
        conventions=shipped.conventions,
        resolution=shipped.resolutions,
        metrics=metrics,
        storage=card.storage,
    )


def require_name(name: str) -> None:
    """Require a name that is a folder and a word on a page."""
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
        raise DisolError(f"A name has small letters, digits and single hyphens, got {name!r}.")


def load_finished(folder: Path, stopped: bool = False) -> Checkpoint:
    """Load the best model of a run that has come to its end, or of one that is known to have been stopped before."""
    run = load_checkpoint(folder)
    if run.predicts != "pattern":
        raise DisolError(f"A shipped model predicts patterns, but {folder} the {run.predicts}.")
    if run.metrics.get("finished"):
        return run
    if not stopped:
        raise DisolError(
            f"{folder} must be a finished run, but is not. Continue it with disol train --resume, or ship its best "
            "model with --stopped."
        )
    last = read_history(folder)[-1]
    return replace(run, metrics={**run.metrics, "epochs": last.epoch, "seconds": last.seconds, "stopped": True})


def joined(run: Checkpoint, records: list[EpochRecord], after: Path | None) -> tuple[Checkpoint, list[EpochRecord]]:
    """Put a run behind the run or shipped model that it began with: epochs and seconds count from the start of that."""
    if after is None:
        return run, records
    earlier = load_checkpoint(after, run.problem)
    if digest_weights(earlier.network) != run.metrics["run"].get("start"):
        raise DisolError(f"{run.path} did not begin with the weights in {after}.")
    first = [
        record for record in read_history(after) or shipped_history(earlier) if record.epoch <= earlier.metrics["epoch"]
    ]
    epochs, seconds = first[-1].epoch, first[-1].seconds
    later = [replace(each, epoch=each.epoch + epochs, seconds=each.seconds + seconds) for each in records]
    was = earlier.metrics["run"]
    metrics = {
        **run.metrics,
        **{name: run.metrics[name] + epochs for name in ("epoch", "epochs")},
        "seconds": run.metrics["seconds"] + seconds,
        "before": {
            "epochs": epochs,
            "seconds": seconds,
            "learning_rate": was["train.learning_rate"],
            "finished": bool(earlier.metrics.get("finished")),
            "files": read_described_files(was) if was["cases"] != run.metrics["run"]["cases"] else [],
        },
    }
    return replace(run, metrics=metrics), first + later


def shipped_history(shipped: Checkpoint) -> list[EpochRecord]:
    """Return what the curve of a shipped model tells of its epochs; their learning rates are not kept."""
    cost, curve = shipped.metrics["cost"], shipped.metrics["loss_curve"]
    return [
        EpochRecord(epoch, train, validation, nan, cost["seconds"] * epoch / cost["epochs"], cost["cases_per_second"])
        for epoch, train, validation in zip(curve["epoch"], curve["train"], curve["validation"], strict=True)
    ]


def require_other_seed(tests: Sequence[Path], trained: Sequence[int]) -> None:
    """Require test cases that training has not seen: a seed draws the same cases, and under a shift parts of them."""
    for path in tests:
        seed = open_store(path).settings.seed
        if seed in trained:
            raise DisolError(
                f"{path} must have another seed than the training file, but both have {seed}. "
                f"Generate it with --seed {max(trained) + 1}."
            )


def as_rival(path: Path, run: Checkpoint) -> Checkpoint:
    """Read weights of the paper's authors for the problem of a run."""
    network = import_published(path, run.problem)
    return resolve(network, problem=run.problem, conventions=run.conventions, resolution=run.resolutions)


def rounded(network: nn.Module) -> nn.Module:
    """Return a copy whose weights are what float16 leaves of them."""
    copy = deepcopy(network)
    with torch.no_grad():
        for weight in copy.state_dict().values():
            if weight.is_floating_point():
                weight.copy_(weight.half().float())
    return copy


def named_path(given: str) -> tuple[str, Path]:
    """Read NAME=PATH."""
    name, equals, path = given.partition("=")
    if not (name and equals and path):
        raise DisolError(f"A rival is NAME=WEIGHTS, got {given!r}.")
    return name, Path(path)


def cost_of(run: Checkpoint, records: list[EpochRecord], trained_on: str) -> dict[str, Any]:
    """Say what training took; the speed is that of the median epoch, without compiling and validating."""
    speed = median(record.cases_per_second for record in records)
    known = {name: run.metrics[name] for name in ("epochs", "seconds")}
    return {**known, "cases_per_second": speed, "trained_on": trained_on}


def loss_curve(records: list[EpochRecord]) -> dict[str, list[float]]:
    """Return the losses of all epochs, or of evenly spread ones where there are many."""
    chosen = np.linspace(0, len(records) - 1, min(len(records), MOST_POINTS)).round().astype(int)
    kept = [records[position] for position in chosen]
    return {
        "epoch": [record.epoch for record in kept],
        "train": [record.train_loss for record in kept],
        "validation": [record.validation_loss for record in kept],
    }


def write_pictures(folder: Path, evaluation: Evaluation, records: list[EpochRecord], title: str) -> list[str]:
    """Write the pictures of a model, and remove those of an earlier one that are not drawn any more."""
    names = []
    for name, figure in draw_all(evaluation, records, title):
        with written_whole(folder / name) as path:
            figure.savefig(path, dpi=DPI)
        names.append(name)
    for stale in folder.glob("*.png"):
        if stale.name not in names:
            stale.unlink()
    return names


def draw_all(evaluation: Evaluation, records: list[EpochRecord], title: str) -> Iterator[tuple[str, Figure]]:
    """Give every picture with its file name."""
    yield "losses.png", plot_losses(records, title)
    yield from draw_evaluation(evaluation)


def read_options(arguments: list[str] | None) -> tuple[argparse.ArgumentParser, argparse.Namespace]:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="the folder of a finished run")
    parser.add_argument("--stopped", action="store_true", help="ship the best model of a run that was stopped early")
    parser.add_argument(
        "--after", type=Path, help="the run or shipped folder whose weights it began with, to be told as its first part"
    )
    parser.add_argument("--name", required=True, help="what the model is loaded by")
    parser.add_argument(
        "--tests", type=Path, nargs="+", required=True, help="files of cases; their names name the tests"
    )
    parser.add_argument("--trained-on", required=True, help='the machine of the run in words, as in "one H200"')
    parser.add_argument("--rival", action="append", default=[], help="NAME=WEIGHTS, weights of the paper's authors")
    parser.add_argument("--samples", type=Path, help="an .npz with released inputs and outputs")
    parser.add_argument("--solved-cases", type=int, default=300, help="of each test, solved for physical fields")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--models", type=Path, default=PRETRAINED, help="where shipped models live")
    parser.add_argument("--pictures", type=Path, default=PICTURES, help="where their pictures go")
    return parser, parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    parser, options = read_options(arguments)
    try:
        print(ship(options))
    except DisolError as error:
        parser.exit(2, f"{error}\n")


if __name__ == "__main__":
    main()
