"""A progress bar for people who watch a run."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from disol.training.history import EpochRecord


@dataclass(frozen=True)
class RunBar:
    """A bar that moves with every step and reports every epoch."""

    bar: Progress
    task: TaskID

    def move(self, progress: float) -> None:
        """Show a progress from 0 to 1."""
        self.bar.update(self.task, completed=progress)

    def report(self, record: EpochRecord, best: float, seconds_left: float) -> None:
        """Show the last epoch, the best loss so far and the time left."""
        self.bar.update(self.task, report=describe(record, best, seconds_left))


@contextmanager
def shown_run(wanted: bool, title: str) -> Iterator[RunBar]:
    """Show a bar on standard error, if it is wanted and anyone can see it."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=20), TextColumn("{task.fields[report]}"))
    with Progress(*columns, console=console, disable=not (wanted and console.is_terminal)) as bar:
        yield RunBar(bar, bar.add_task(title, total=1.0, report="first epoch"))


def describe(record: EpochRecord, best: float, seconds_left: float) -> str:
    """Put an epoch into one line."""
    left = timedelta(seconds=round(seconds_left))
    return (
        f"epoch {record.epoch}  train {record.train_loss:.3e}  validation {record.validation_loss:.3e}  "
        f"best {best:.3e}  {record.cases_per_second:,.0f} cases/s  {left} left"
    )
