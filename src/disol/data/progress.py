"""A progress bar for people, and the numbers behind it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


@dataclass
class Tally:
    """Cases generated so far, and how many of them the reference solver had to solve again."""

    cases: int = 0
    fallbacks: int = 0
    show: Callable[["Tally"], None] = lambda _: None

    def add(self, cases: int, fallbacks: int) -> None:
        """Count more cases."""
        self.cases += cases
        self.fallbacks += fallbacks
        self.show(self)


@contextmanager
def shown_progress(wanted: bool, title: str, done: int, total: int) -> Iterator[Tally]:
    """Show a bar on standard error while cases are counted, if it is wanted and anyone can see it."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]} cases/s"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[fallbacks]} fallbacks"),
    )
    with Progress(*columns, console=console, disable=not (wanted and console.is_terminal)) as bar:
        task = bar.add_task(title, completed=done, total=total, rate="-", fallbacks=0)

        def show(tally: Tally) -> None:
            seconds = bar.tasks[0].elapsed or 0.0
            rate = f"{tally.cases / seconds:.1f}" if seconds > 0 else "-"
            bar.update(task, completed=done + tally.cases, rate=rate, fallbacks=tally.fallbacks)

        yield Tally(show=show)
