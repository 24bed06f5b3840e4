"""The ablation study: what each part of the network and of the recipe is worth, at equal training time.

    python benchmarks/ablations.py --data train.h5 --tests id.h5 all.h5 shapes.h5 --out study
    python benchmarks/ablations.py --data train.h5 --tests id.h5 all.h5 shapes.h5 --out study --budget 540 --jobs 2
    python benchmarks/ablations.py --data train.h5 --tests id.h5 all.h5 shapes.h5 --out study --together 5
    python benchmarks/ablations.py --out study --list
    python benchmarks/ablations.py --out study --write docs/benchmarks/ablations.md

A finished run has a JSON file in `--out` and is not repeated, so a study can be spread over several commands. An
unfinished run is resumed. Runs are ordered by seed: every variant has one seed before any has two.

One small network does not fill a large GPU. Once a variant has a seed that trained alone, `--together` trains its other
seeds beside each other, each for as many epochs as that one. That is the same training in less time. (It needs NVIDIA's
MPS, by which processes compute at the same time. Without it they take turns, which gains little.)
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from ablations_page import Result, page, read_results
from ablations_run import VARIANTS, file_of
from report import publish, table

WORKER = Path(__file__).with_name("ablations_run.py")
CLOSING = 15.0  # seconds to finish a run and measure it on the test files, at most


class Task(NamedTuple):
    """One run of the study."""

    variant: str
    seed: int

    @property
    def name(self) -> str:
        """The name of its files, without a suffix."""
        return file_of(self.variant, self.seed)


def tasks(options: argparse.Namespace) -> list[Task]:
    """List the runs that are asked for."""
    chosen = options.only or list(VARIANTS)
    return [Task(variant, seed) for seed in options.seeds for variant in VARIANTS if variant in chosen]


def missing(options: argparse.Namespace) -> list[Task]:
    """List the runs that have no result yet."""
    return [task for task in tasks(options) if not (options.out / f"{task.name}.json").exists()]


@dataclass
class Study:
    """Runs in progress.

    ends       when each of them is expected to end; they train one after the other
    earliest   when each would end if it never had to wait
    """

    options: argparse.Namespace
    started: float = field(default_factory=time.monotonic)
    running: dict[Task, subprocess.Popen[bytes]] = field(default_factory=dict)
    ends: dict[Task, float] = field(default_factory=dict)
    earliest: dict[Task, float] = field(default_factory=dict)
    failed: list[Task] = field(default_factory=list)

    def end_of_next(self) -> float:
        """Return when a run that starts now is expected to end."""
        turn = max([time.monotonic() + self.options.preparation, *self.ends.values()])
        return turn + self.seconds_of_turn

    @property
    def seconds_of_turn(self) -> float:
        """How long a run keeps the others waiting, in seconds."""
        return 60 * self.options.minutes + CLOSING

    def has_time(self) -> bool:
        """Return whether a run that starts now is expected to end within the budget."""
        budget = self.options.budget
        return budget is None or self.end_of_next() <= self.started + budget

    def start(self, task: Task) -> None:
        """Start a run in a process of its own."""
        options = self.options
        epochs = ["--epochs", str(epochs_alone(task.variant, options))] if options.together else []
        command = [sys.executable, str(WORKER), "--variant", task.variant, "--seed", str(task.seed)]
        command += ["--data", str(options.data), "--tests", *map(str, options.tests), "--out", str(options.out)]
        command += ["--minutes", str(options.minutes), "--device", options.device, *epochs, "--set", *options.set]
        threads = max(1, len(os.sched_getaffinity(0)) // options.jobs)
        self.ends[task] = self.end_of_next()
        self.earliest[task] = time.monotonic() + options.preparation + self.seconds_of_turn
        with (options.out / f"{task.name}.log").open("wb") as log:
            self.running[task] = subprocess.Popen(
                command,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={"TORCHINDUCTOR_COMPILE_THREADS": str(threads), **os.environ},
            )

    def collect(self) -> None:
        """Record the runs that have ended."""
        for task, process in list(self.running.items()):
            if process.poll() is None:
                continue
            del self.running[task]
            early = self.ends.pop(task) - time.monotonic()
            self.ends = {other: max(end - early, self.earliest[other]) for other, end in self.ends.items()}
            if process.returncode:
                self.failed.append(task)
                said = (self.options.out / f"{task.name}.log").read_text(errors="replace").split("\n")
                print(f"{task.name} failed: {next((line for line in reversed(said) if line), '')}", flush=True)
            else:
                print(f"{task.name} done, {time.monotonic() - self.started:.0f} s", flush=True)

    def go(self) -> None:
        """Do as many of the missing runs as the budget allows; on any exit, terminate those in progress."""
        waiting = missing(self.options)
        try:
            while self.running or (waiting and self.has_time()):
                while waiting and len(self.running) < self.options.jobs and self.has_time():
                    self.start(waiting.pop(0))
                time.sleep(0.2)
                self.collect()
        finally:
            for process in self.running.values():
                process.terminate()
        if waiting:
            print(f"{len(waiting)} runs would not end within the budget of {self.options.budget:g} s.", flush=True)


def epochs_alone(variant: str, options: argparse.Namespace) -> int:
    """Return the epochs of the first run of a variant that had the device for itself."""
    for result in read_results(options.out):
        if result["variant"] == variant and result["alone"]:
            return int(result["epochs"])
    raise ValueError(f"--together needs a finished run of {variant!r} in {options.out}, to train for as many epochs.")


def require_same(results: list[Result], options: argparse.Namespace) -> None:
    """Refuse to mix runs of different length or settings."""
    for result in results:
        for name in ("minutes", "set"):
            if result[name] != getattr(options, name):
                raise ValueError(
                    f"{options.out} holds runs with {name}={result[name]!r}, now asked for "
                    f"{getattr(options, name)!r}. Ask for the same, or choose another --out."
                )


def listing(options: argparse.Namespace) -> str:
    """List which runs are done, begun and missing."""
    rows = []
    for variant in options.only or VARIANTS:
        states = []
        for seed in options.seeds:
            files = options.out / file_of(variant, seed)
            is_done, is_begun = files.with_name(files.name + ".json").exists(), files.exists()
            states.append("done" if is_done else "begun" if is_begun else "missing")
        rows.append([variant, *states])
    return table(["variant", *(f"seed {seed}" for seed in options.seeds)], rows)


def read_options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="cases to train on; without this option nothing is trained")
    parser.add_argument("--tests", nargs="+", type=Path, default=[], help="test files, in distribution first")
    parser.add_argument("--out", type=Path, required=True, help="folder of the study")
    parser.add_argument("--minutes", type=float, default=3.0, help="training time of each run, without preparation")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--only", nargs="+", choices=list(VARIANTS), metavar="NAME", help=", ".join(VARIANTS))
    parser.add_argument("--jobs", type=int, default=1, help="runs in progress at once; one trains, the others prepare")
    parser.add_argument("--together", type=int, help="runs that train at once, each for the epochs of one alone")
    parser.add_argument("--budget", type=float, help="in seconds; no run is started that would end later")
    parser.add_argument(
        "--preparation", type=float, default=120.0, help="most seconds from the start of a run to its training"
    )
    parser.add_argument("--device", default="auto")
    parser.add_argument("--set", nargs="*", default=[], help="settings for all variants, as in model.width=16")
    parser.add_argument("--list", action="store_true", help="show which runs are missing, and exit")
    parser.add_argument("--write", type=Path, help="where to write the page; its picture goes to ../images")
    options = parser.parse_args()
    if options.data is not None and not options.tests:
        parser.error("--data needs --tests, the files to measure the runs on.")
    for name in ("jobs", "together"):
        if getattr(options, name) is not None and getattr(options, name) < 1:
            parser.error(f"--{name} must be at least 1, got {getattr(options, name)}.")
    if options.together is not None:
        if options.budget is not None:
            parser.error("--budget needs runs of known length, so it cannot be combined with --together.")
        options.jobs = options.together
    return options


def main() -> None:
    options = read_options()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.list:
        print(listing(options))
        return
    failed: list[Task] = []
    if options.data is not None:
        require_same(read_results(options.out), options)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # an exit also ends the runs
        for task in missing(options) if options.together else []:
            epochs_alone(task.variant, options)  # raises before anything is started
        study = Study(options)
        study.go()
        failed = study.failed
    results = read_results(options.out)
    if results:
        publish(page(results, options.write), options.write)
    if failed:
        raise SystemExit(f"{len(failed)} runs failed: {', '.join(task.name for task in failed)}. Read their logs.")


if __name__ == "__main__":
    main()
