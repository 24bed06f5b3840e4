"""The folder of a run: its best model so far as a checkpoint, and in `last/` what is needed to continue it."""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from disol._files import claimed, make_folder, require_folder
from disol.models.card import is_checkpoint, read_card
from disol.models.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from disol.models.table import MODELS
from disol.training.resuming import DATA, LAST, describe_places, describe_training, require_same
from disol.training.run import Task, describe_files, digest_files, require_vacant

LOCK = "lock"  # in `last/`, while a process trains there


@dataclass(frozen=True, eq=False)
class RunFolder:
    """The folder of a run.

    first      the network that the run starts from, with its card
    identity   everything that decides how the run goes on, by name, as JSON values
    """

    path: Path
    task: Task
    first: Checkpoint
    identity: Mapping[str, Any]

    @classmethod
    def of(cls, task: Task, first: Checkpoint) -> "RunFolder":
        """Describe the folder of a run."""
        identity = {
            "problem": task.problem.name,
            "model": first.card.model,
            **describe_training(task.settings, task.seed, task.minutes),
            **{f"model.{name}": value for name, value in first.card.model_config.items()},
            **describe_files(task.files),
            "start": None if _has_random_weights(task) else digest_weights(first.network),
            **digest_files(task.files),
        }
        return cls(task.out, task, first, json.loads(json.dumps(identity)))

    @property
    def last(self) -> Path:
        """Where the last state is kept while the run is unfinished."""
        return self.path / LAST

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Keep other processes from training in this folder; if nothing was saved, it is removed."""
        require_folder(self.last)
        if not os.path.exists(self.last):
            require_vacant(self.path)
        make_folder(self.last)
        try:
            with claimed(self.last / LOCK):
                yield
        finally:
            with suppress(OSError):  # they are not empty
                self.last.rmdir()
                self.path.rmdir()

    def find_finished(self) -> Checkpoint | None:
        """Return the best model of a finished run."""
        if not is_checkpoint(self.path):
            return None
        best = self._load(self.path)
        if not best.metrics.get("finished"):
            return None
        self.require_same(best.metrics.get("run"))
        return best

    def find_last(self) -> Checkpoint | None:
        """Return the last state of an unfinished run; None for one that has not begun."""
        if not is_checkpoint(self.last):  # a run may have been killed while it wrote its first state
            return None
        last = self._load(self.last)
        self.require_same((last.state or {}).get("run"))
        return last

    def require_same(self, begun: object) -> None:
        """Refuse to continue a run with other settings or other cases."""
        require_same(self.path, begun, self.identity)

    def save_best(self, network: nn.Module, metrics: Mapping[str, Any]) -> None:
        """Replace the best model."""
        self._save(self.path, network, metrics, None)

    def save_last(self, network: nn.Module, metrics: Mapping[str, Any], state: Mapping[str, Any]) -> None:
        """Replace the last state."""
        places = describe_places([file.path for file in self.task.files], self.path)
        self._save(self.last, network, {**metrics, DATA: places}, {**state, "run": dict(self.identity)})

    def finish(self, metrics: Mapping[str, Any]) -> None:
        """Mark the best model as the result of the run."""
        best = self._load(self.path)
        self.save_best(best.network, {**best.metrics, **metrics, "finished": True})
        self.drop_last()

    def drop_last(self) -> None:
        """Remove what is only needed to continue."""
        shutil.rmtree(self.last, ignore_errors=True)

    def _load(self, path: Path) -> Checkpoint:
        """Read a checkpoint of this run, its state included."""
        card, ours = read_card(path), self.first.card
        if card.model != ours.model or card.model not in MODELS:  # whose weights cannot be loaded into this network
            settings = {f"model.{name}": value for name, value in card.model_config.items()}
            others = {name: value for name, value in self.identity.items() if not name.startswith("model.")}
            self.require_same({**others, "model": card.model, **settings})
        own = None if card.model in MODELS else self.first.network
        return load_checkpoint(path, self.task.problem, model=own, state=True)

    def _save(
        self, path: Path, network: nn.Module, metrics: Mapping[str, Any], state: Mapping[str, Any] | None
    ) -> None:
        """Write a checkpoint of this run."""
        save_checkpoint(
            path,
            network,
            self.task.problem,
            conventions=self.task.conventions,
            resolution=self.task.resolutions,
            metrics={**metrics, "run": self.identity},
            state=state,
            model=self.first.card.model,
            model_settings=self.first.card.model_config,
        )


def _has_random_weights(task: Task) -> bool:
    """Tell whether the seed decides the initial weights; otherwise they come with the model or from `start`."""
    return task.start is None and not isinstance(task.settings.model, nn.Module)


def digest_weights(network: nn.Module) -> str:
    """Return a digest of all weights and buffers."""
    digest = hashlib.sha256()
    for name, weight in network.state_dict().items():
        digest.update(name.encode())
        digest.update(weight.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]
