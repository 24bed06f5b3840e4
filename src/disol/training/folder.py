"""The folder of a run: its best model so far as a checkpoint, and in `last/` what is needed to continue it."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from disol.models import Checkpoint, Network, load_checkpoint, save_checkpoint
from disol.models.checkpoint import CARD
from disol.models.folder import INCOMING
from disol.problems import Problem

LAST = "last"
CASES = "cases"  # names the content of a file in an identity; runs of earlier versions do not know it


@dataclass(frozen=True)
class RunFolder:
    """Where a run is kept.

    identity   everything that decides how the run goes on, by name, as JSON has it
    """

    path: Path
    problem: Problem
    conventions: str
    resolution: int
    identity: Mapping[str, Any]

    @property
    def last(self) -> Path:
        """Where the last state is kept while the run is unfinished."""
        return self.path / LAST

    def require_new(self) -> None:
        """Refuse a folder that holds something."""
        if not is_vacant(self.path):
            raise ValueError(f"{self.path} exists already. Resume it, remove it, or choose another --out.")

    def find_finished(self) -> Checkpoint | None:
        """Return the best model of a finished run."""
        if not is_checkpoint(self.path):
            return None
        best = load_checkpoint(self.path, self.problem)
        if not best.metrics.get("finished"):
            return None
        self.require_same(best.metrics["run"])
        return best

    def find_last(self) -> Checkpoint | None:
        """Return the last state of an unfinished run; None for one that has not begun."""
        if is_checkpoint(self.last):
            last = load_checkpoint(self.last, self.problem, state=True)
            assert last.state is not None
            self.require_same(last.state["run"])
            return last
        if not self.last.exists():  # else the run was killed while it wrote its first state
            self.require_new()
        return None

    def require_same(self, begun: Mapping[str, Any]) -> None:
        """Refuse to continue a run with other settings, or other cases where it says which it had."""
        begun = {CASES: self.identity.get(CASES), **begun}
        for name in [*begun, *self.identity]:
            if begun.get(name) != self.identity.get(name):
                raise ValueError(
                    f"{self.path} was begun with {name}={begun.get(name)!r}, now asked for "
                    f"{self.identity.get(name)!r}. Ask for the same, or choose another --out."
                )

    def save_best(self, model: Network, metrics: Mapping[str, Any]) -> None:
        """Replace the best model."""
        self.save(self.path, model, metrics, None)

    def save_last(self, model: Network, metrics: Mapping[str, Any], state: Mapping[str, Any]) -> None:
        """Replace the last state."""
        self.save(self.last, model, metrics, {**state, "run": dict(self.identity)})

    def save(self, path: Path, model: Network, metrics: Mapping[str, Any], state: Mapping[str, Any] | None) -> None:
        """Write a checkpoint of this run."""
        save_checkpoint(
            path,
            model,
            self.problem,
            conventions=self.conventions,
            resolution=self.resolution,
            metrics={**metrics, "run": self.identity},
            state=state,
        )

    def finish(self, metrics: Mapping[str, Any]) -> None:
        """Mark the best model as the result of the run."""
        best = load_checkpoint(self.path, self.problem)
        self.save_best(best.model, {**best.metrics, **metrics, "finished": True})
        self.drop_last()

    def drop_last(self) -> None:
        """Remove what only continuing needs."""
        shutil.rmtree(self.last, ignore_errors=True)


def is_vacant(folder: Path) -> bool:
    """Tell whether nothing is there: no folder, or an empty one."""
    return not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))


def is_checkpoint(folder: Path) -> bool:
    """Tell whether a folder holds a checkpoint, even one whose last change was interrupted."""
    return (folder / CARD).exists() or (folder / INCOMING / CARD).exists()
