"""A whole training run: from a file of cases to a checkpoint, interrupted and resumed at will."""

import math
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lightning.fabric import Fabric

from disol.models import Checkpoint
from disol.problems import Problem
from disol.problems.checks import Unchecked
from disol.problems.table import find_problem
from disol.training.clock import FINISHING, Clock, Pace
from disol.training.config import choose_settings
from disol.training.devices import launch, quick_matrix_products, seeded
from disol.training.display import shown_run
from disol.training.history import EpochRecord, History, write_curve
from disol.training.loop import Training
from disol.training.plan import EpochPlan, plan_epoch
from disol.training.symmetry import IDENTITY, Symmetries, elements_of
from disol.training.task import Task, read_task
from disol.training.translation import can_be_moved


@dataclass(frozen=True)
class RunReport:
    """What a run has come to.

    path              the folder of the run, which is the checkpoint of its best model
    epochs            in all sessions
    best_epoch        the epoch after which the best model was kept, counted from 1
    validation_loss   of that model
    train_loss        mean over the steps of that epoch
    seconds           of all sessions
    notes             on what this session has to say besides
    """

    path: Path
    epochs: int
    best_epoch: int
    validation_loss: float
    train_loss: float
    seconds: float
    notes: tuple[str, ...] = field(default=(), compare=False)

    @classmethod
    def of(cls, path: Path, metrics: Mapping[str, Any], notes: tuple[str, ...] = ()) -> "RunReport":
        """Read a report from the metrics of a finished run."""
        losses = (metrics["validation_loss"], metrics["train_loss"])
        return cls(path, metrics["epochs"], metrics["epoch"], *losses, metrics["seconds"], notes)

    def __str__(self) -> str:
        return (
            f"{self.path}: validation loss {self.validation_loss:.3e} after epoch {self.best_epoch} of {self.epochs}, "
            f"{self.seconds:.0f} s."
        )


def train(
    problem: str | Problem | Unchecked,
    data: str | Path,
    out: str | Path,
    *,
    model: str | Unchecked | None = None,
    recipe: str | Unchecked | None = None,
    config: str | Path | None = None,
    overrides: Iterable[str] = (),
    model_settings: Mapping[str, Unchecked] | None = None,
    minutes: float | Unchecked | None = None,
    start: str | Path | None = None,
    resume: bool = False,
    device: str = "auto",
    seed: int | Unchecked = 0,
    progress: bool = True,
) -> RunReport:
    """Train a model on the training cases of a file, and keep the one with the best validation loss in `out`.

    model            "disol" unless a config says otherwise; `list_models` lists them
    recipe           "fast" unless a config says otherwise, or "published"
    config           a TOML file of settings
    overrides        changes of single settings, such as "train.epochs=100" or "model.width=16"
    model_settings   of the network, where they differ from its published size
    minutes          end after this time instead of a number of epochs; the schedule ends with it
    start            a checkpoint whose weights to begin with, instead of random ones
    resume           continue an unfinished run, or start one where there is none
    device           "auto", "cpu", "cuda" or "cuda:NUMBER"; under torchrun every process takes its own GPU
    progress         show a progress bar, if standard error is a terminal
    """
    started = time.perf_counter()
    equation = find_problem(problem)
    settings = choose_settings(
        equation.name, model=model, recipe=recipe, config=config, model_settings=model_settings, overrides=overrides
    )
    task = read_task(equation, settings, data, out, seed, minutes, start)
    if not resume:
        task.folder.require_new()
    finished = task.folder.find_finished()
    if finished is not None:
        task.folder.drop_last()
        return RunReport.of(finished.path, finished.metrics)
    last = task.folder.find_last()
    with quick_matrix_products():
        run = Run(task, launch(device), started)
        run.begin(last)
        run.go(progress)
        return run.finish()


class Run:
    """A run on its way: what it is asked to do, and how far it has come."""

    def __init__(self, task: Task, fabric: Fabric, started: float) -> None:
        settings = task.settings.train
        require_equal_shares(settings.batch, fabric.world_size)
        self.task = task
        self.fabric = fabric
        self.training = Training(fabric, task.network, settings)
        self.cases = task.train.to_device(fabric.device, trained_frames_only=True)
        self.validation_cases = task.validation.to_device(
            fabric.device, trained_frames_only=True, first=settings.validation_cases or None
        )
        elements = elements_of(task.problem) if settings.symmetry else (IDENTITY,)
        self.symmetries = Symmetries.of(elements, self.cases.settings, fabric.device)
        limit = None if task.minutes is None else 60 * task.minutes
        self.clock = Clock(settings.epochs, len(self.cases) // settings.batch, limit, started=started)
        self.epoch = 0
        self.is_done = False
        self.notes: tuple[str, ...] = ()
        self.best: dict[str, Any] = {"validation_loss": math.inf}

    def begin(self, last: Checkpoint | None) -> None:
        """Start, or continue from the last state."""
        if last is not None and last.state is not None:
            self.restore(last, last.state)
        self.fabric.barrier()  # every process has read the folder before the first one writes to it
        if last is None:
            self.save()
        batch = next(self.plan().batches(self.cases, self.symmetries, self.training.share))
        self.clock.step_seconds = self.training.try_steps(batch)
        self.clock.ready()
        if self.clock.limit is not None and self.clock.prepared + FINISHING >= self.clock.limit:
            self.notes = (
                f"Loading and compiling took {self.clock.prepared:.3g} s of the {self.clock.limit:.3g} s asked for: "
                "the model is all but untrained. Ask for more --minutes.",
            )

    def go(self, progress: bool) -> None:
        """Train epoch after epoch until the end; write down and keep each."""
        writes = self.fabric.is_global_zero
        with ExitStack() as stack:
            bar = stack.enter_context(shown_run(progress and writes, self.task.problem.name))
            history = stack.enter_context(History(self.task.folder.path, done=self.epoch)) if writes else None
            while not self.is_done:
                started = time.perf_counter()
                pace: Pace = self.fabric.broadcast(self.clock.pace(self.epoch))
                record = self.train_epoch(pace, bar.move)
                if history is not None:
                    history.add(record)
                self.save()
                steps_seconds = pace.batches * self.task.settings.train.batch / record.cases_per_second
                self.clock.observe(pace.batches, steps_seconds, time.perf_counter() - started - steps_seconds)
                bar.report(record, self.best["validation_loss"], self.clock.estimate_left(self.epoch))

    def plan(self) -> EpochPlan:
        """Plan the next epoch."""
        batch = self.task.settings.train.batch
        moved = self.task.settings.train.translation and can_be_moved(self.task.problem)
        return plan_epoch(self.cases, self.symmetries, seed=self.task.seed, epoch=self.epoch, batch=batch, moved=moved)

    def train_epoch(self, pace: Pace, tell: Callable[[float], None]) -> EpochRecord:
        """Train and validate for one epoch, and keep the model if it is the best so far."""
        batch = self.task.settings.train.batch
        started = time.perf_counter()
        with seeded(self.fabric, self.task.seed, self.epoch):
            train_loss = self.training.train_epoch(self.cases, self.plan(), self.symmetries, pace, tell)
        seconds = time.perf_counter() - started
        validation_loss = self.training.validate(self.validation_cases, batch)
        self.require_finite(train_loss, validation_loss)
        self.training.schedule.observe(validation_loss)
        self.epoch += 1
        self.is_done = pace.is_last
        record = EpochRecord(
            self.epoch,
            train_loss,
            validation_loss,
            self.training.learning_rate,
            self.clock.seconds,
            pace.batches * batch / seconds,
        )
        if validation_loss < self.best["validation_loss"]:
            self.best = {"epoch": self.epoch, "train_loss": train_loss, "validation_loss": validation_loss}
            if self.fabric.is_global_zero:
                self.task.folder.save_best(self.training.averaged, self.best)
        return record

    def require_finite(self, train_loss: float, validation_loss: float) -> None:
        """Stop a run that diverges before it overwrites what was good."""
        for name, loss in (("training", train_loss), ("validation", validation_loss)):
            if not math.isfinite(loss):
                kept = f"the best model of epoch {self.best['epoch']}" if "epoch" in self.best else "no model yet"
                raise ValueError(
                    f"The {name} loss must stay finite, but is {loss} in epoch {self.epoch + 1}. "
                    f"{self.task.folder.path} holds {kept}, and the state after epoch {self.epoch} in "
                    f"{self.task.folder.last.name}/. Start again with a lower train.learning_rate, or with "
                    "train.gradient_clip=1."
                )

    def save(self) -> None:
        """Keep the state after an epoch."""
        if self.fabric.is_global_zero:
            state = {
                "training": self.training.state(),
                "epoch": self.epoch,
                "is_done": self.is_done,
                "best": self.best,
                "seconds": self.clock.seconds,
                "prepared": self.clock.prepared,
            }
            self.task.folder.save_last(self.training.averaged, {"epoch": self.epoch}, state)

    def restore(self, last: Checkpoint, state: Mapping[str, Any]) -> None:
        """Continue from a state."""
        self.training.restore(state["training"], last.model)
        self.epoch, self.is_done, self.best = state["epoch"], state["is_done"], state["best"]
        if self.epoch > 0:  # else nothing was trained, and the time begins anew
            self.clock.spent, self.clock.prepared = state["seconds"], state["prepared"]

    def finish(self) -> RunReport:
        """Leave the best model, with the numbers of the whole run and a picture of its losses."""
        folder, seconds = self.task.folder, self.clock.seconds
        if self.fabric.is_global_zero:
            write_curve(folder.path, f"{self.task.problem.name}: {self.task.settings.model}")
            folder.finish({"epochs": self.epoch, "seconds": seconds})
        self.fabric.barrier()
        return RunReport.of(folder.path, {**self.best, "epochs": self.epoch, "seconds": seconds}, self.notes)


def require_equal_shares(batch: int, processes: int) -> None:
    """Require batches that every process can take an equal part of."""
    if batch % processes:
        raise ValueError(f"train.batch must be a multiple of the {processes} processes, got {batch}. Change it.")
