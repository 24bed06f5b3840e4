"""A run in progress: each epoch is recorded and its state saved, so that the run can be interrupted and resumed."""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import torch
from torch import nn

from disol._checks import is_number, whole_number
from disol._progress import shown_progress
from disol.data.dataset import Batch, CaseDataset, DeviceCases
from disol.errors import DisolError, listed
from disol.models.base import find_accepted
from disol.models.card import Card
from disol.models.checkpoint import Checkpoint
from disol.models.handle import resolve
from disol.models.table import MODELS, build_network, count_parameters, create_model
from disol.solvers.memory import free_bytes_of_host
from disol.training.augmentation import IDENTITY, Symmetries
from disol.training.batches import plan_epoch, spread_evenly
from disol.training.clock import FINISHING, Clock, Pace
from disol.training.distributed import Processes
from disol.training.folder import RunFolder
from disol.training.history import EpochRecord, History, write_curve
from disol.training.loop import Training
from disol.training.run import CaseFile, RunReport, Task, check_start

BYTES_OF_A_WEIGHT = 16  # with its gradient, its moving average and its momentum
BEST = {"epoch", "train_loss", "validation_loss"}  # what is recorded of the best model


class DivergedError(DisolError):
    """A loss is no longer finite: the run cannot continue with its settings, on any machine."""


def prepare_network(task: Task) -> Checkpoint:
    """Return the network to start from: a new one with random weights, or a copy of a trained one."""
    settings = task.settings
    if task.start is None:
        if isinstance(settings.model, str) and settings.model in MODELS:
            with torch.device("meta"):
                size = count_parameters(create_model(settings.model, task.problem, **settings.model_settings))
            if size * BYTES_OF_A_WEIGHT > free_bytes_of_host():  # otherwise the system might kill the process
                raise MemoryError
        network = build_network(
            settings.model,
            task.problem,
            settings.model_settings,
            task.seed,
            resolutions=dict.fromkeys(task.resolutions),
        )
        card = Card.of(
            network,
            task.problem,
            task.conventions,
            task.resolutions,
            model=settings.model,
            model_settings=settings.model_settings,
        )
        return Checkpoint(None, network, task.problem, {}, None, card)
    asked = settings.model if "model" in settings.chosen else None
    found = resolve(
        task.start, problem=task.problem, model=asked, conventions=task.conventions, resolution=task.resolutions
    )
    check_start(found.name, found.card, settings)
    return replace(found, network=deepcopy(found.network))


@dataclass(frozen=True, eq=False)
class LoadedFile:
    """The cases of a file, on the device of a run.

    cases         to train on
    symmetries    on its grid
    batch_size    cases per step
    num_batches   batches per epoch
    """

    cases: DeviceCases
    validation_cases: DeviceCases
    symmetries: Symmetries
    batch_size: int
    num_batches: int


class Run:
    """A run in progress: its task, and how far it has come.

    order   the file of each batch of an epoch; all batches of a file have the same shape
    """

    def __init__(self, task: Task, network: nn.Module, folder: RunFolder, clock: Clock, processes: Processes) -> None:
        settings = task.settings.train
        for file in task.files:
            if file.batch_size % processes.size:
                at = "" if file.batch_size == settings.batch_size else f" at the resolution of {file.path}"
                raise DisolError(
                    f"train.batch_size must be a multiple of the {processes.size} processes, got {file.batch_size}{at}."
                )
        self.task = task
        self.settings = settings
        self.folder = folder
        self.clock = clock
        self.processes = processes
        self.training = Training(processes, network, settings)
        self.notes = task.notes
        self.files = [self.load(file) for file in task.files]
        self.order = spread_evenly([file.num_batches for file in self.files])
        clock.num_batches = len(self.order)
        self.epoch = 0
        self.is_done = False
        self.best: dict[str, Any] = {"validation_loss": math.inf}

    def load(self, file: CaseFile) -> LoadedFile:
        """Copy the cases that are needed of a file to the device."""
        settings, device = self.settings, self.processes.device
        cases = self.load_cases(file, "train", file.num_cases)
        validation_cases = self.load_cases(file, "validation", settings.validation_cases or None)
        elements = None if settings.augment_symmetry else [IDENTITY]
        symmetries = Symmetries.of(self.task.problem, self.task.conventions, file.stored.resolution, device, elements)
        num_batches = settings.count_batches(len(cases), file.batch_size)
        return LoadedFile(cases, validation_cases, symmetries, file.batch_size, num_batches)

    def load_cases(self, file: CaseFile, split: str, first: int | None) -> DeviceCases:
        """Copy the first cases of a split to the device; those that the network cannot predict are left out."""
        until = self.settings.last_time
        cases = CaseDataset(file.path, split).to_device(self.processes.device, until=until, first=first)
        accepted = find_accepted(self.training.network, cases.arrays["domain"])
        if accepted is None or accepted.all():
            return cases
        kept, least = int(accepted.sum()), file.batch_size if split == "train" else 1
        name = self.folder.first.card.model
        if kept < least:
            raise DisolError(
                f"{name} can predict {kept} of the {len(cases)} {split} cases of {file.path}, but at least {least} "
                "are needed. Use other cases, or another model."
            )
        of = f" of {file.path}" if len(self.task.files) > 1 else ""
        self.notes += (f"{name} can predict {kept} of the {len(cases)} {split} cases{of}: the others are left out.",)
        return DeviceCases(cases.settings, {array: values[accepted] for array, values in cases.arrays.items()}, until)

    def begin(self, last: Checkpoint | None) -> None:
        """Start, or continue from the last state."""
        if last is not None and last.state is not None:
            self.restore(last, last.state)
        self.processes.wait()  # every process has read the folder before the first one writes to it
        if last is None:
            self.save()
        tried = [self.training.try_steps(next(batches), self.clock.read) for batches in self.batches_by_file()]
        self.clock.step_seconds = fmean(tried, [file.num_batches for file in self.files])
        self.clock.ready()
        if self.clock.limit is not None and self.clock.prepared + FINISHING >= self.clock.limit:
            self.notes += (
                f"Loading and compiling took {self.clock.prepared:.3g} s of the {self.clock.limit:.3g} s asked for: "
                "the model is all but untrained. Ask for more minutes.",
            )

    def train(self, progress: bool) -> None:
        """Train epoch by epoch until the end; record each and save its state."""
        writes = self.processes.is_rank_zero
        with ExitStack() as stack:
            done = self.clock.pace(self.epoch).start
            bar = stack.enter_context(
                shown_progress(self.task.problem.name, 1.0, wanted=progress and writes, done=done)
            )
            history = stack.enter_context(History(self.folder.path, done=self.epoch)) if writes else None
            while not self.is_done:
                started = self.clock.read()
                pace = self.processes.broadcast(self.clock.pace(self.epoch))
                record = self.train_epoch(pace, bar.move_to)
                if history is not None:
                    history.add(record)
                self.save()
                steps_seconds = self.count_cases(pace.batches) / record.cases_per_second
                self.clock.observe(pace.batches, steps_seconds, self.clock.read() - started - steps_seconds)
                bar.say(f"{record}  best {self.best['validation_loss']:.3e}")

    def batches(self) -> Iterator[Batch]:
        """Stack the batches of the next epoch, with those of each file spread evenly through it."""
        by_file = self.batches_by_file()
        return (next(by_file[file]) for file in self.order)

    def batches_by_file(self) -> list[Iterator[Batch]]:
        """Stack the batches of the next epoch of each file; of each batch, this process's share."""
        plans = [
            plan_epoch(
                file.cases,
                file.symmetries,
                seed=self.task.seed,
                epoch=self.epoch,
                batch_size=file.batch_size,
                num_batches=file.num_batches,
                moved=self.settings.augment_translation and self.task.problem.is_homogeneous,
                file=number,
            )
            for number, file in enumerate(self.files)
        ]
        return [
            plan.batches(file.cases, file.symmetries, self.processes.own)
            for plan, file in zip(plans, self.files, strict=True)
        ]

    def count_cases(self, batches: int) -> int:
        """Count the cases of the first `batches` batches of an epoch."""
        return sum(self.files[file].batch_size for file in self.order[:batches])

    def train_epoch(self, pace: Pace, tell: Callable[[float], None]) -> EpochRecord:
        """Train and validate for one epoch, and keep the model if it is the best so far."""
        started = self.clock.read()
        with self.processes.seeded(self.task.seed, self.epoch):
            train_loss = self.training.train_epoch(self.batches(), pace, tell)
        seconds = max(self.clock.read() - started, 1e-9)
        losses = [self.training.validate(file.validation_cases, file.batch_size) for file in self.files]
        validation_loss = sum(losses) / len(losses)
        self.require_finite(train_loss, validation_loss)
        self.epoch += 1
        self.is_done = pace.is_last
        record = EpochRecord(
            self.epoch,
            train_loss,
            validation_loss,
            self.training.learning_rate,
            self.clock.seconds,
            self.count_cases(pace.batches) / seconds,
            file_losses=tuple(losses) if len(losses) > 1 else (),
        )
        self.training.schedule.after_epoch(validation_loss)
        if validation_loss < self.best["validation_loss"]:
            self.best = {"epoch": self.epoch, "train_loss": train_loss, "validation_loss": validation_loss}
            if self.processes.is_rank_zero:
                self.folder.save_best(self.training.averaged, self.best)
        return record

    def require_finite(self, train_loss: float, validation_loss: float) -> None:
        """Stop a run that diverges before it overwrites its last good state."""
        for name, loss in (("training", train_loss), ("validation", validation_loss)):
            if not math.isfinite(loss):
                kept = f"the best model of epoch {self.best['epoch']}" if "epoch" in self.best else "no model yet"
                clipped = "" if self.settings.grad_clip_norm else ", or with train.grad_clip_norm=1"
                raise DivergedError(
                    f"The {name} loss must stay finite, but is {loss} in epoch {self.epoch + 1}. "
                    f"{self.folder.path} holds {kept}, and the state after epoch {self.epoch} in "
                    f"{self.folder.last.name}/. Start again with a lower train.learning_rate{clipped}."
                )

    def save(self) -> None:
        """Save the state after an epoch."""
        if self.processes.is_rank_zero:
            state = {
                "training": self.training.state_dict(),
                "epoch": self.epoch,
                "is_done": self.is_done,
                "best": self.best,
                "seconds": self.clock.seconds,
                "prepared": self.clock.prepared,
            }
            self.folder.save_last(self.training.averaged, {"epoch": self.epoch}, state)

    def restore(self, last: Checkpoint, state: Mapping[str, Any]) -> None:
        """Continue from a state."""
        try:
            epoch, best = whole_number("epoch", state["epoch"]), dict(state["best"])
            numbers = (state["seconds"], state["prepared"], best["validation_loss"], *best.values())
            is_done = bool(state["is_done"])
            if self.clock.limit is None and (
                epoch > self.settings.epochs or is_done != (epoch == self.settings.epochs)
            ):
                raise ValueError(f"it says that epoch {epoch} was{'' if is_done else ' not'} the last")
            if not all(map(is_number, numbers)) or (epoch > 0 and best.keys() != BEST):
                raise ValueError("its losses and times are not numbers")
            self.training.load_state_dict(state["training"], last.network)
        except (LookupError, TypeError, ValueError, RuntimeError, AttributeError) as error:
            raise DisolError(
                f"{self.folder.last} must hold the state of this run, but: {listed([str(error)])}. Choose another out."
            ) from error
        self.epoch, self.is_done, self.best = epoch, is_done, best
        if epoch > 0:  # otherwise nothing was trained yet, and the time starts anew
            self.clock.spent, self.clock.prepared = state["seconds"], state["prepared"]

    def finish(self) -> RunReport:
        """Mark the best model as the result, and add the numbers of the whole run and a plot of its losses."""
        seconds = self.clock.seconds
        if self.processes.is_rank_zero:
            write_curve(self.folder.path, f"{self.task.problem.name}: {self.folder.first.card.model}")
            told = {
                "epochs": self.epoch,
                "seconds": seconds,
                "training_cases": sum(len(file.cases) for file in self.files),
            }
            self.folder.finish(told)
        self.processes.wait()
        return RunReport.of(self.folder.path, {**self.best, "epochs": self.epoch, "seconds": seconds}, self.notes)
