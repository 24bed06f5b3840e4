"""The history of a run: a line of JSON for every epoch, TensorBoard if it is installed, and a plot at the end."""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, get_type_hints

from disol._files import read_regular, require_folder, written_whole
from disol.errors import DisolError, shown
from disol.models.card import read_json
from disol.models.settings import check_setting

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FILE = "history.jsonl"
PICTURE = "losses.png"
BOARD = "tensorboard"
MOST_BYTES = 2**26  # of the lines of all epochs


@dataclass(frozen=True, repr=False)
class EpochRecord:
    """One epoch of a run.

    epoch              counted from 1
    train_loss         mean over its steps
    validation_loss    of the averaged weights after the epoch
    learning_rate      of its last step
    seconds            since the run began, over all sessions
    cases_per_second   during its steps
    file_losses        validation loss of each file, if there are several; `validation_loss` is their mean
    """

    epoch: int
    train_loss: float
    validation_loss: float
    learning_rate: float
    seconds: float
    cases_per_second: float
    file_losses: tuple[float, ...] = field(default=(), kw_only=True)

    def __repr__(self) -> str:
        return f"EpochRecord({self})"

    def __str__(self) -> str:
        """Write the epoch in one line."""
        return (
            f"epoch {self.epoch}  train {self.train_loss:.3e}  validation {self.validation_loss:.3e}  "
            f"{self.cases_per_second:,.0f} cases/s"
        )


class History:
    """The records of a run's epochs, each written to disk as soon as it is added."""

    def __init__(self, folder: Path, done: int) -> None:
        self.path = folder / FILE
        self.records = read_history(folder)[:done]
        with written_whole(self.path) as path:
            path.write_bytes(b"".join(map(_line, self.records)))
        self.file = self.path.open("ab", buffering=0)  # unbuffered: closing has nothing to write if the disk is full
        self.board: Any = None
        if find_spec("tensorboard") is not None:
            from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415

            require_folder(folder / BOARD)
            self.board = SummaryWriter(folder / BOARD, purge_step=done + 1)

    def __enter__(self) -> "History":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.file.close()
        if self.board is not None:
            self.board.close()

    def add(self, record: EpochRecord) -> None:
        """Record an epoch."""
        self.records.append(record)
        try:
            self.file.write(_line(record))
            if self.board is not None:
                for name in ("train_loss", "validation_loss", "learning_rate"):
                    self.board.add_scalar(name, getattr(record, name), record.epoch)
                self.board.flush()
        except OSError as error:
            raise DisolError(f"Cannot write {self.path}: {error.strerror}. Free some space and resume.") from error


def _line(record: EpochRecord) -> bytes:
    """Write a record as a line of JSON."""
    told = asdict(record)
    if not record.file_losses:
        del told["file_losses"]
    return f"{json.dumps(told)}\n".encode()


def read_history(folder: str | Path) -> list[EpochRecord]:
    """Read the records of a run; an incomplete last line is left out."""
    path = Path(folder) / FILE
    lines = read_regular(path, MOST_BYTES).splitlines(keepends=True) if os.path.exists(path) else []
    return [_read_line(line, path) for line in lines if line.endswith(b"\n")]


def _read_line(line: bytes, path: Path) -> EpochRecord:
    stored, kinds = read_json(line, path), get_type_hints(EpochRecord)
    if not isinstance(stored, dict) or stored.keys() | {"file_losses"} != kinds.keys():
        raise DisolError(f"{path} must hold a line for each epoch, got {shown(stored)}. Remove that line.")
    return EpochRecord(**{name: check_setting(f"{name} in {path}", stored[name], kinds[name]) for name in stored})


def plot_losses(records: Sequence[EpochRecord], title: str) -> "Figure":
    """Plot training and validation loss over epochs, and mark the best."""
    from matplotlib.figure import Figure  # noqa: PLC0415  takes half a second

    is_positive = all(min(record.train_loss, record.validation_loss) > 0 for record in records)
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.add_subplot(xlabel="epoch", ylabel="loss", title=title, yscale="log" if is_positive else "linear")
    epochs = [record.epoch for record in records]
    axes.plot(epochs, [record.train_loss for record in records], label="training")
    axes.plot(epochs, [record.validation_loss for record in records], label="validation")
    best = min(records, key=lambda record: record.validation_loss)
    axes.plot(best.epoch, best.validation_loss, "o", color="C1", label=f"best: {best.validation_loss:.3g}")
    axes.legend()
    return figure


def write_curve(folder: Path, title: str) -> None:
    """Plot the losses of a run into its folder."""
    records = read_history(folder)
    if records:
        with written_whole(folder / PICTURE) as path:
            plot_losses(records, title).savefig(path, dpi=150)
