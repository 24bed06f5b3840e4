"""`train`: from files of cases to a checkpoint. Its arguments are checked before torch is imported."""

import hashlib
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from disol._checks import number, positive_number, whole_number
from disol._devices import check_device, enough_memory, reused_memory
from disol._files import as_path
from disol.data.recipe import SPLITS, StoreSettings
from disol.data.store import Store, open_store
from disol.errors import DisolError, shown
from disol.models.card import Card, as_json, read_card
from disol.models.pretrained import find_folder
from disol.models.table import MODELS, check_model, describe_model
from disol.problems import Problem
from disol.problems.conventions import Conventions
from disol.problems.table import find_conventions, find_problem
from disol.training.clock import Clock
from disol.training.config import RunSettings, TrainSettings, choose_settings
from disol.training.resuming import Begun, describe_training, read_begun, require_same

if TYPE_CHECKING:
    from disol.models.handle import Handle
    from disol.training.config import Model

# Share of a recipe's peak learning rate for fine-tuning. Mean relative L2 errors of the Poisson model, fine-tuned on 16
# slotted plates for 100 epochs: on 4 other plates from 3.4e-2 to 2.3e-3 (at the full rate 4.2e-3), on the cases it was
# trained on before from 5.3e-3 to 2.4e-2 (7.1e-2).
FINE_TUNING = 0.1
LARGEST_SEED = 2**64 - 1  # that torch accepts
_SHARED = ("conventions", "normalisation", "times")  # what all files of a run must have in common, besides the problem
_RUN_DATA, _RUN_CASES = "data", "cases"  # begin the names of what a run records about its files, and of their digests
_read_time = time.perf_counter  # tests put a clock of their own here


@dataclass(frozen=True, repr=False)
class RunReport:
    """The result of a run.

    path              the folder of the run, which is the checkpoint of its best model
    epochs            in all sessions
    best_epoch        the epoch after which the model was best, counted from 1
    validation_loss   of that model
    train_loss        mean over the steps of that epoch
    seconds           of all sessions
    notes             what else to know about the run
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
        for name in ("epochs", "epoch", "validation_loss", "train_loss", "seconds"):
            number(f"{name} in {path}", metrics.get(name))
        losses = (metrics["validation_loss"], metrics["train_loss"])
        return cls(path, metrics["epochs"], metrics["epoch"], *losses, metrics["seconds"], notes)

    def __repr__(self) -> str:
        return f"RunReport({self})"

    def __str__(self) -> str:
        return (
            f"{self.path}: validation loss {self.validation_loss:.3e} after epoch {self.best_epoch} of {self.epochs}, "
            f"{self.seconds:.0f} s."
        )


def train(
    problem: str | Problem | None,
    data: str | Path | Sequence[str | Path] | None,
    out: str | Path,
    *,
    model: "Model | None" = None,
    recipe: str | None = None,
    config: str | Path | None = None,
    overrides: Iterable[str] = (),
    model_settings: Mapping[str, Any] | None = None,
    minutes: float | None = None,
    start: "Handle | None" = None,
    resume: bool = False,
    device: str = "auto",
    seed: int | None = None,
    progress: bool = True,
) -> RunReport:
    """Train a model on the training cases of a file, and keep the weights with the best validation loss in `out`.

    problem          None for that of a run to resume
    data             a file of cases, or several, which may differ in resolution; every step takes its cases from one;
                     None for those of a run to resume, if they are still where they were
    model            "disol" unless a config says otherwise (`list_models` lists the others), or your own network: an
                     `nn.Module` class, called as `MyNetwork(num_channels, num_fields, **model_settings)`, an instance,
                     whose weights training starts from, or the string "package.module:Name" of either
    recipe           "fast" unless a config says otherwise, or "published"
    config           a TOML file of settings
    overrides        changes to single settings, such as "train.epochs=100" or "model.width=16"
    model_settings   of the network, where they differ from its published size
    minutes          train for this time instead of a number of epochs; the schedule ends with it
    start            a network to fine-tune: a shipped model, a run, what `disol.load` returns or an `nn.Module`; it
                     brings its own model and settings; the learning rate is a tenth of the recipe's, unless it is set
    resume           continue an unfinished run, or start one where there is none; if no recipe, config, overrides,
                     model_settings, minutes and seed are given, those of the run are used
    device           "auto", "cpu", "cuda" or "cuda:NUMBER"; under torchrun every process takes its own GPU
    seed             of the weights, the order of cases and their augmentation; 0 unless given
    progress         show a progress bar in a notebook, or if standard error is a terminal
    """
    started = _read_time()
    check_device(device)
    out, changes = as_path("out", out), [overrides] if isinstance(overrides, str) else list(overrides)
    begun = read_begun(out) if resume else None
    given = (problem, data, model, recipe, config, model_settings, minutes, start, seed)
    if begun is not None and begun.is_finished and not changes and all(each is None for each in given):
        return RunReport.of(out, begun.metrics)
    if problem is None:
        if begun is None:
            raise DisolError(f"Training needs a problem: there is no run to resume in {out}.")
        problem = begun.find_problem()
    if data is None and begun is None:
        raise DisolError(f"Training needs data: there is no run to resume in {out}.")
    equation = find_problem(problem)
    if begun is None or changes or any(given is not None for given in (recipe, config, model_settings, minutes, seed)):
        settings = choose_settings(
            equation.name, model=model, recipe=recipe, config=config, model_settings=model_settings, overrides=changes
        )
    else:
        settings = begun.choose_settings(equation.name, model, start)
        seed, minutes = begun.identity.get("seed"), begun.identity.get("minutes")
    task = read_task(equation, settings, data, out, 0 if seed is None else seed, minutes, start, begun)
    if not resume:
        require_vacant(task.out)

    from disol.training.distributed import join_processes  # noqa: PLC0415  torch takes seconds to import
    from disol.training.epochs import Run, prepare_network  # noqa: PLC0415
    from disol.training.folder import RunFolder  # noqa: PLC0415
    from disol.training.loop import compiling_shapes, quick_matrix_products  # noqa: PLC0415

    processes = join_processes(device)
    too_large = (
        f"A network of this size, trained by {settings.train.batch_size} cases at a time, does not fit into the memory "
        f"of {processes.device}. Use a smaller train.batch_size, or smaller settings of the model."
    )
    with enough_memory(too_large):
        first = prepare_network(task)
        folder = RunFolder.of(task, first)
        finished = folder.find_finished()
        if finished is not None:
            folder.drop_last()
            return RunReport.of(folder.path, finished.metrics, task.notes)
        clock = Clock(settings.train.epochs, task.num_batches, task.limit, started=started, read=_read_time)
        claimed = folder.claimed() if processes.is_rank_zero else nullcontext()
        with claimed, reused_memory(processes.device), quick_matrix_products(), compiling_shapes(len(task.files)):
            run = Run(task, first.network, folder, clock, processes)
            run.begin(folder.find_last())
            run.train(progress)
            return run.finish()


@dataclass(frozen=True, eq=False)
class CaseFile:
    """A file to train on.

    stored       settings that its cases were generated with
    digest       of its cases
    num_cases    to train on, including those that a network may refuse
    batch_size   cases per step
    """

    path: Path
    stored: StoreSettings
    digest: str
    num_cases: int
    batch_size: int


@dataclass(frozen=True, eq=False)
class Task:
    """What a run is asked to do.

    minutes    the run may take; None for one that ends after its epochs
    start      a network to fine-tune
    """

    problem: Problem
    settings: RunSettings
    files: tuple[CaseFile, ...]
    out: Path
    seed: int
    minutes: float | None
    start: "Handle | None"
    notes: tuple[str, ...]

    @property
    def conventions(self) -> Conventions:
        """How the cases were discretised."""
        return find_conventions(self.files[0].stored.conventions, self.problem)

    @property
    def resolutions(self) -> list[int]:
        """Pixels along a side of the grids of each file."""
        return [file.stored.resolution for file in self.files]

    @property
    def num_batches(self) -> int:
        """Steps per epoch, if the network refuses no case."""
        return sum(self.settings.train.count_batches(file.num_cases, file.batch_size) for file in self.files)

    @property
    def limit(self) -> float | None:
        """Seconds the run may take."""
        return None if self.minutes is None else 60 * self.minutes


def read_task(
    problem: Problem,
    settings: RunSettings,
    data: str | Path | Sequence[str | Path] | None,
    out: str | Path,
    seed: int = 0,
    minutes: float | None = None,
    start: "Handle | None" = None,
    begun: Begun | None = None,
) -> Task:
    """Check what a run is asked to do, as far as that is possible without torch.

    data    None for that of the run to continue
    begun   the run to continue
    """
    seed = whole_number("seed", seed)
    if seed > LARGEST_SEED:
        raise DisolError(f"seed must be at most {LARGEST_SEED}, got {shown(seed)}.")
    minutes = None if minutes is None else positive_number("minutes", minutes)
    notes: tuple[str, ...] = ()
    if start is None:
        check_model(settings.model, problem, settings.model_settings)
    else:
        if isinstance(start, str | Path):
            folder = find_folder(start)
            card = read_card(folder)
            card.find_problem(folder, problem)
            check_start(str(start), card, settings)
        settings, notes = _fine_tuned(settings)
    if begun is not None:
        asked = {"problem": problem.name, **describe_training(settings, seed, minutes)}
        asked |= {"model": describe_model(settings.model)} if start is None else {}
        require_same(begun.path, begun.identity, {**begun.identity, **asked})
    if data is None:
        assert begun is not None
        paths = begun.find_data()
        files = _read_files(problem, settings.train, paths)
        begun.require_cases(paths, {**describe_files(files), **digest_files(files)})
    else:
        files = _read_files(problem, settings.train, data)
    out = as_path("out", out)
    return Task(problem, settings, files, out, seed, minutes, start, (*notes, *_note_repeated(files)))


def describe_files(files: Iterable[CaseFile]) -> dict[str, Any]:
    """Name all settings of the files of a run: "data.seed" is that of the first file, "data2.seed" of the second."""
    return {
        f"{_RUN_DATA}{_mark(number)}.{name}": value
        for number, file in enumerate(files)
        for name, value in asdict(file.stored).items()
        if name != "package_version"
    }


def digest_files(files: Iterable[CaseFile]) -> dict[str, str]:
    """Return a digest of the cases of each file, under names like those of `describe_files`."""
    return {f"{_RUN_CASES}{_mark(number)}": file.digest for number, file in enumerate(files)}


def read_described_files(run: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what `describe_files` said of each file, from all that a checkpoint records of its run."""
    found: dict[str, dict[str, Any]] = {}
    for key, value in run.items():
        if match := re.fullmatch(rf"{_RUN_DATA}(\d*)\.(\w+)", key):
            found.setdefault(match[1], {})[match[2]] = value
    return list(found.values())


def read_digest(run: Mapping[str, Any], number: int) -> Any:
    """Return the digest of the cases of one of these files, counted from 0."""
    return run.get(f"{_RUN_CASES}{_mark(number)}")


def _mark(number: int) -> str:
    return str(number + 1) if number else ""


def check_start(name: str, card: Card, settings: RunSettings) -> None:
    """Require that no other model or settings are asked for than those that a network to fine-tune brings."""
    asked = describe_model(settings.model) if "model" in settings.chosen else card.model
    if asked != card.model and {asked, card.model} & MODELS.keys():
        raise DisolError(f"{name} is a network {card.model!r}, not {asked!r}. Leave model out.")
    for key, value in settings.model_settings.items():
        own = card.model_config.get(key)
        if own != as_json(f"model.{key}", value):
            raise DisolError(
                f"{name} brings its own settings, of which model.{key} is {shown(own)}, got {shown(value)}. "
                f"Leave model.{key} out."
            )


def require_vacant(out: Path) -> None:
    """Refuse a folder that is not empty."""
    if not is_vacant(out):
        raise DisolError(f"{out} exists already. Resume it, remove it, or choose another out.")


def is_vacant(folder: Path) -> bool:
    """Tell whether nothing is there: no folder, or an empty one."""
    return not os.path.exists(folder) or (folder.is_dir() and not any(folder.iterdir()))


def _fine_tuned(settings: RunSettings) -> tuple[RunSettings, tuple[str, ...]]:
    """Lower the learning rate for fine-tuning, unless it was set explicitly, and say so."""
    cost = (
        "What a model gains on these cases, it loses on those it was trained on before (Poisson, fine-tuned on 16 "
        "plates: from 0.5 % to 2.4 % on those): evaluate it on both."
    )
    if "train.learning_rate" in settings.chosen:
        return settings, (cost,)
    rate = FINE_TUNING * settings.train.learning_rate
    note = f"Fine-tuning at a learning rate of {rate:.3g}, a tenth of the recipe's; train.learning_rate sets another."
    return replace(settings, train=replace(settings.train, learning_rate=rate)), (f"{note} {cost}",)


def _read_files(
    problem: Problem, settings: TrainSettings, data: str | Path | Sequence[str | Path]
) -> tuple[CaseFile, ...]:
    """Open files of cases, and require that one network can be trained on all of them."""
    paths = [data] if isinstance(data, str | Path) else list(data)
    if not paths:
        raise DisolError("Training needs one file of cases or more, got none. Pass files made by generate.")
    stores = [open_store(path) for path in paths]
    first = stores[0].settings
    files = []
    for path, store in zip(paths, stores, strict=True):
        stored = store.settings
        _require_match(problem, stored, path)
        for name in _SHARED:
            own, other = getattr(first, name), getattr(stored, name)
            if own != other:
                raise DisolError(
                    f"{paths[0]} has the {name} {shown(own)}, but {path} has {shown(other)}. Train on files that agree."
                )
        num_cases, num_validation = (len(store.positions(split)) for split in SPLITS)
        num_cases = min(num_cases, settings.training_cases or num_cases)
        batch_size = settings.batch_size_at(stored.resolution, first.resolution)
        if num_cases < batch_size:
            enough = settings.batch_size * num_cases // batch_size
            smaller = f"Set train.batch_size={enough} or less, or generate" if enough else "Generate"
            raise DisolError(
                f"{path} has {num_cases} training cases, fewer than one batch of {batch_size}. {smaller} more cases."
            )
        if num_validation == 0:
            raise DisolError(f"{path} has no validation cases. Generate more cases.")
        files.append(CaseFile(Path(path), stored, digest_cases(store), num_cases, batch_size))
    return tuple(files)


def _note_repeated(files: Sequence[CaseFile]) -> Iterator[str]:
    """Note validation cases of one file that are training cases of another: every resolution shows the same cases."""
    for one, other in permutations(files, 2):
        if one.stored.draws_as(other.stored):
            cases = np.arange(min(one.stored.num_cases, other.stored.num_cases))
            validated, trained = (file.stored.number_cases(cases)["split"] for file in (one, other))
            count = int(((validated == SPLITS.index("validation")) & (trained == SPLITS.index("train"))).sum())
            if count:
                yield (
                    f"{count} validation cases of {one.path} are training cases of {other.path}: validation losses "
                    "will be too small. Generate the files with different seeds."
                )


def _require_match(problem: Problem, stored: StoreSettings, data: str | Path) -> None:
    """Require that a file holds cases of a problem, with the same numbers in its equation."""
    if stored.problem != problem.name:
        raise DisolError(
            f"{data} holds cases of {stored.problem!r}, not of {problem.name!r}. "
            f"Train on the problem {stored.problem}, or pass a file of {problem.name}."
        )
    found = stored.find_problem(data, problem)
    for name in problem.parameters:
        own, value = getattr(problem, name), getattr(found, name)
        if own != value:
            raise DisolError(
                f"{data} was generated with {name}={value!r}, but {problem.name} has {name}={own!r}. "
                "Pass the problem it was generated from."
            )


def digest_cases(store: Store) -> str:
    """Return a digest that tells apart files with the same settings: of all amplitudes and the first pattern.

    It uses three digits of each: a file that another machine has generated anew, with other rounding, is the same.
    """
    read = (store.read(slice(None), "amplitude")["amplitude"], store.read(slice(1), "pattern")["pattern"])
    digits = [np.concatenate([np.round(mantissa * 2**10), exponent]) for mantissa, exponent in map(np.frexp, read)]
    return hashlib.sha256(b"".join(array.astype(np.int16).tobytes() for array in digits)).hexdigest()[:16]
