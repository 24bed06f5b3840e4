"""`compare`: train and evaluate several models alike, over as many calls and machines as it takes."""

import multiprocessing
import signal
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import closing, nullcontext
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from disol._checks import positive_number, whole_number
from disol._devices import check_device, find_device, finish_gpu_work
from disol.comparison.config import ComparisonConfig, read_comparison
from disol.comparison.gpu_sharing import shared_gpu
from disol.comparison.plan import Places, PlannedRun, make_files, plan_runs, read_records
from disol.comparison.records import RunRecord, read_record
from disol.data.workers import follow_main_process, usable_cores
from disol.errors import DisolError

if TYPE_CHECKING:
    from rich.table import Table

FOLDER = "comparisons"
WORK = "work"  # in the folder of a comparison
CASES = "cases"  # the job that generates the files of cases
PATIENCE = 60.0  # seconds for jobs to end once they are told to
# What every run needs, and imports on first use.
PRELOADED = [
    "disol.comparison.run",
    "disol.evaluation.run",
    "disol.training.epochs",
    "matplotlib.backends.backend_agg",
    "torch._dynamo",
]
Tell = Callable[[str], None]


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """The state of a comparison after a call.

    out          the folder with the results of every finished run, tables and pictures
    records      the finished runs, by name
    unfinished   names of the runs still to be made; more may follow once probes have found learning rates
    failures     why runs failed, by name
    """

    config: ComparisonConfig
    out: Path
    records: dict[str, RunRecord]
    unfinished: tuple[str, ...]
    failures: dict[str, str] = field(default_factory=dict)

    def table(self) -> "Table":
        """Return masked relative L2 errors and costs of all finished runs as a table that rich prints."""
        return import_module("disol.comparison.report").comparison_table(self)

    def __str__(self) -> str:
        left = f", {len(self.unfinished)} to go" if self.unfinished else ", all finished"
        return f"{self.out}: {len(self.records)} runs{left}."

    def __repr__(self) -> str:
        return f"Comparison({self})"


def compare(
    config: str | Path,
    out: str | Path | None = None,
    *,
    work: str | Path | None = None,
    only: Iterable[str] = (),
    minutes: float | None = None,
    jobs: int = 1,
    device: str = "auto",
    overrides: Iterable[str] = (),
    tell: Tell | None = None,
) -> Comparison:
    """Train and evaluate the models of a comparison that are not finished yet, and write tables and pictures.

    out         a folder for results, `comparisons/NAME` unless given; nothing in it is ever made again
    work        a folder for files of cases and weights, `work` in `out` unless given; it may be removed at any time,
                but then unfinished runs start anew
    only        models to train now, by their labels or names; tables show all that are finished
    minutes     stop after this time; the next call continues interrupted runs from their last epoch
    jobs        runs side by side, each in a process of its own; with one GPU they share it, at the same time if
                NVIDIA's Multi-Process Service is installed. 0: one after another in this process, where `minutes`
                only keeps further runs from starting
    device      "auto", "cpu", "cuda" or "cuda:NUMBER"
    overrides   changes to single settings, such as "train.epochs=2" or "data.cases=2000"
    tell        called with a line about every run that has ended
    """
    started = time.monotonic()
    settings = read_comparison(config, overrides)
    labels = settings.chosen_labels(only)
    jobs = whole_number("jobs", jobs)
    deadline = None if minutes is None else started + 60 * positive_number("minutes", minutes)
    check_device(device)
    folder = Path(FOLDER, settings.name) if out is None else Path(out)
    places = Places(folder, folder / WORK if work is None else Path(work))
    everyone = [entry.label for entry in settings.models]
    records = read_records(settings, places, everyone)
    failures: dict[str, str] = {}
    if any(run.name not in records for run in plan_runs(settings, records, labels)):
        failures = _make_runs(
            settings,
            places,
            labels,
            records,
            device=device,
            count=jobs,
            deadline=deadline,
            tell=tell or (lambda _: None),
        )
    left = [run.name for run in plan_runs(settings, records, everyone) if run.name not in records]
    comparison = Comparison(settings, folder, records, tuple(left), failures)
    if records:
        import_module("disol.comparison.report").write_comparison(comparison, places)
    return comparison


def _make_runs(
    config: ComparisonConfig,
    places: Places,
    labels: Iterable[str],
    records: dict[str, RunRecord],
    *,
    device: str,
    count: int,
    deadline: float | None,
    tell: Tell,
) -> dict[str, str]:
    """Generate the files of cases, then make all unfinished runs until the deadline; return the errors of failures."""
    chosen, failures = list(labels), dict[str, str]()
    is_gpu = find_device(device).type == "cuda"
    with shared_gpu() if is_gpu and count > 1 else nullcontext(), closing(_Jobs(count, device)) as jobs:
        jobs.start(CASES, partial(_prepare, config, places, device))
        while jobs.are_under_way:
            for name, error in jobs.wait(deadline):
                if name == CASES:
                    if error:
                        raise DisolError(error)
                elif error:
                    failures[name] = error
                    tell(f"{name} failed: {error}")
                else:
                    records[name] = read_record(places.record(name))
                    tell(f"{name}: {records[name]}")
            if deadline is not None and time.monotonic() >= deadline:
                return failures
            for run in plan_runs(config, records, chosen):
                if jobs.have_room and run.name not in {*records, *failures, *jobs.processes}:
                    jobs.start(run.name, partial(_make_run, run, places, device, count))
    return failures


def _prepare(config: ComparisonConfig, places: Places, device: str) -> None:
    """Generate the files of cases, and save those that pictures show."""
    make_files(config, places, device)
    import_module("disol.comparison.run").write_shown_cases(config, places)


def _make_run(run: PlannedRun, places: Places, device: str, count: int) -> None:
    """Make one run, side by side with others."""
    if count > 1:
        import_module("torch").set_num_threads(max(1, usable_cores() // count))
    import_module("disol.comparison.run").execute(run, places, device, max(count, 1))


class _Jobs:
    """Processes, each of which does one job; with a count of 0, jobs are done at once, in this process."""

    def __init__(self, count: int, device: str) -> None:
        self.count = count
        self.processes: dict[str, tuple[BaseProcess, Connection]] = {}
        self.ended: list[tuple[str, str]] = []
        # A server that imports torch once and then forks is quicker, but forked processes cannot use a GPU.
        can_fork = "forkserver" in multiprocessing.get_all_start_methods() and find_device(device).type == "cpu"
        self.context: Any = multiprocessing.get_context("forkserver" if can_fork else "spawn")
        if can_fork:
            self.context.set_forkserver_preload(PRELOADED)

    @property
    def are_under_way(self) -> bool:
        """Whether some job has not been waited for."""
        return bool(self.processes or self.ended)

    @property
    def have_room(self) -> bool:
        """Whether another job can be started."""
        return len(self.processes) + len(self.ended) < max(self.count, 1)

    def start(self, name: str, work: Callable[[], None]) -> None:
        """Start a job."""
        if self.count == 0:
            self.ended.append((name, _find_error(work)))
            return
        receiver, sender = self.context.Pipe(duplex=False)
        process = self.context.Process(target=_work, args=(work, sender), name=name)
        process.start()
        sender.close()
        self.processes[name] = (process, receiver)

    def wait(self, deadline: float | None) -> list[tuple[str, str]]:
        """Wait until a job has ended, or for the deadline; return the names of those that have, and their errors."""
        if not self.ended:
            seconds = None if deadline is None else max(0.0, deadline - time.monotonic())
            wait([process.sentinel for process, _ in self.processes.values()], seconds)
        for name, (process, receiver) in list(self.processes.items()):
            if process.exitcode is not None:
                try:
                    error = receiver.recv() if receiver.poll() else None
                except EOFError:
                    error = None
                ended = f"its process ended early, with exit code {process.exitcode}" if error is None else error
                self.ended.append((name, ended))
                del self.processes[name]
        found, self.ended = self.ended, []
        return found

    def close(self) -> None:
        """Stop the jobs under way: a later call continues runs from their last epoch."""
        for process, _ in self.processes.values():
            process.terminate()
        end = time.monotonic() + PATIENCE
        for process, _ in self.processes.values():
            process.join(max(0.0, end - time.monotonic()))
            process.kill()  # no effect on one that has ended
            process.join()


def _find_error(work: Callable[[], None]) -> str:
    """Do a job; return its error message, empty if there was none."""
    try:
        work()
    except DisolError as error:
        return str(error)
    return ""


def _work(work: Callable[[], None], sender: Connection) -> None:
    """Do a job in a process of its own, which ends with the main process and leaves Ctrl-C to it."""
    follow_main_process()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _leave)
    try:
        sender.send(_find_error(work))
    finally:
        finish_gpu_work()


def _leave(number: int, _frame: object) -> None:
    """End a process on a signal, by an exception, so that everything is cleaned up."""
    sys.exit(128 + number)
