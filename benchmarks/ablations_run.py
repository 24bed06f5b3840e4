"""One run of the ablation study: train one variant for a given time, then measure it on the test files.

Only training counts. Loading and compiling take longer for some variants than for others, and less for the second seed
of a variant, so the clock's limit is extended by the time before the first step. Several runs can be in progress, but
only one at a time trains: the others load and compile, and then wait for their turn.

A run with `--epochs` instead trains beside others, where a limit on time would not be fair.
"""

import argparse
import fcntl
import json
import statistics
from pathlib import Path
from typing import IO, Any, ClassVar

import torch

from disol._devices import find_device
from disol._files import written_whole
from disol.data import open_store
from disol.evaluation import FileEvaluation, evaluate
from disol.models import count_parameters, load_checkpoint
from disol.training import read_history, run, train
from disol.training.clock import Clock
from report import processor

BASE = "base"
SHARED = ("train.optimizer=adamw", "train.loss=grid-l1")  # of all variants, unless they set something else
VARIANTS: dict[str, tuple[str, ...]] = {
    BASE: (),
    "mask-skip routing": ("model.mask_skip_routing=true",),
    "strided downsampling": ("model.downsampling=strided",),
    "mixing at every level": ("model.level_mixing=true",),
    "coarse sweeps": ("model.coarse_sweeps=4",),
    "no symmetries": ("train.augment_symmetry=false",),
    "Muon": ("train.optimizer=muon",),
    "no averaging": ("train.ema_decay=0",),
    "learning rate 1e-3": ("train.learning_rate=1e-3",),
    "relative L2 loss": ("train.loss=relative-l2",),
    "relative H1 loss": ("train.loss=relative-h1",),
    "Muon, relative H1 loss": ("train.optimizer=muon", "train.loss=relative-h1"),
}
STATISTICS = ("mean", "median", "p95")
METRICS = ("rel_l2", "grid_mae")


class TurnClock(Clock):
    """A clock whose limit covers training only, and that waits for its turn before it starts to count."""

    turn: ClassVar[IO[str]]
    last: ClassVar["TurnClock | None"] = None

    def ready(self) -> None:
        """Wait without counting, then extend the limit by the time of preparation."""
        asked = self.read()
        fcntl.flock(self.turn, fcntl.LOCK_EX)  # released when this process ends
        self.started += self.read() - asked
        super().ready()
        assert self.limit is not None
        self.limit += self.prepared
        TurnClock.last = self


def file_of(variant: str, seed: int) -> str:
    """Name the files of a run."""
    return f"{variant.replace(' ', '-')}-seed{seed}"


def summaries(file: FileEvaluation) -> dict[str, Any]:
    """Return what the study keeps of one test file."""
    errors = {name: {each: getattr(file.summaries[0][name], each) for each in STATISTICS} for name in METRICS}
    return {"cases": len(file), "coverage": float(file.coverage.mean()), **errors}


def result_of(options: argparse.Namespace, folder: Path, seconds: float, validation_loss: float) -> dict[str, Any]:
    """Measure a finished run."""
    evaluation = evaluate(folder, options.tests, device=options.device, batch_size=256, progress=False)
    history, clock = read_history(folder), TurnClock.last
    device = find_device(options.device)
    gpu = f"{torch.cuda.get_device_name(device)}, " if device.type == "cuda" else ""
    stored = open_store(options.data).settings
    return {
        "variant": options.variant,
        "seed": options.seed,
        "minutes": options.minutes,
        "alone": options.epochs is None,
        "set": options.set,
        "data": {"problem": stored.problem, "conventions": stored.conventions, "cases": stored.num_cases},
        "parameters": count_parameters(load_checkpoint(folder).network),
        "epochs": len(history),
        "cases_per_second": statistics.median(record.cases_per_second for record in history),
        # Unknown for a run that shared its GPU, and for one that had finished training before this process.
        "training_seconds": seconds - clock.prepared if clock else None,
        "preparation_seconds": clock.prepared if clock else None,
        "validation_loss": validation_loss,
        "tests": {file.name: summaries(file) for file in evaluation.files},
        "machine": f"{gpu}torch {torch.__version__}; {processor()}",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variant", required=True, choices=list(VARIANTS))
    parser.add_argument("--seed", required=True, type=int)
    parser.add_argument("--data", required=True, type=Path)
    parser.add_argument("--tests", required=True, nargs="+", type=Path)
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--minutes", required=True, type=float)
    parser.add_argument("--epochs", type=int, help="train so many epochs beside other runs, instead of --minutes alone")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--set", nargs="*", default=[], help="settings for all variants")
    options = parser.parse_args()
    name = file_of(options.variant, options.seed)
    folder = options.out / name
    epochs = [] if options.epochs is None else [f"train.epochs={options.epochs}"]
    with (options.out / "turn.lock").open("w") as turn:
        TurnClock.turn = turn
        if options.epochs is None:
            run.Clock = TurnClock  # type: ignore[attr-defined]
        report = train(
            open_store(options.data).settings.problem,
            options.data,
            folder,
            recipe="fast",
            overrides=[*SHARED, *options.set, *VARIANTS[options.variant], *epochs],
            minutes=options.minutes if options.epochs is None else None,
            resume=True,
            device=options.device,
            seed=options.seed,
            progress=False,
        )
        result = result_of(options, folder, report.seconds, report.validation_loss)
    with written_whole(options.out / f"{name}.json") as path:
        path.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
