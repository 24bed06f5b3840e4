"""The progress bar: in a terminal on standard error, in a notebook below the cell, nowhere else."""

import html
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Any, final

if TYPE_CHECKING:
    from rich.console import Console

SECONDS_BETWEEN_UPDATES = 0.2  # in a notebook, where each is a message to the browser
UNKNOWN = 1e9  # seconds; longer estimates are not shown


@contextmanager
def shown_progress(
    title: str, total: int | float, *, wanted: bool = True, done: int | float = 0
) -> Iterator["ProgressBar"]:
    """Show a bar while the block runs, if it is wanted and anyone can see it.

    total   an integer is counted, as in 3/7; of a float, the percentage is shown
    done    how much of it is done before the bar starts
    """
    bar: ProgressBar
    ipython = sys.modules.get("IPython") if wanted else None
    shell = None if ipython is None else ipython.get_ipython()
    if getattr(shell, "kernel", None) is not None:  # as IPython in a terminal has none
        bar = NotebookBar(title, total, done, import_module("IPython.display").display)
    elif wanted and (console := _find_terminal()) is not None:
        bar = TerminalBar(title, total, done, console)
    else:
        bar = HiddenBar(title, total, done)
    try:
        yield bar
    finally:
        bar.close()


class ProgressBar(ABC):
    """How much of a total is done, how long the rest will take, and what else there is to say."""

    def __init__(self, title: str, total: int | float, done: int | float) -> None:
        self.title = title
        self.total = total
        self.completed = done
        self.text = ""
        self._first = done
        self._began = self._moved = time.monotonic()

    def advance(self, amount: int | float) -> None:
        """Add to what is completed."""
        self.move_to(self.completed + amount)

    def move_to(self, completed: int | float) -> None:
        """Set what is completed."""
        self.completed = completed
        self._moved = time.monotonic()
        self.show()

    def say(self, text: str) -> None:
        """Show a text beside the bar, in place of the one before."""
        self.text = text
        self.show()

    @abstractmethod
    def show(self) -> None:
        """Draw it again."""

    @abstractmethod
    def close(self) -> None:
        """Draw it for the last time."""

    @property
    def seconds_left(self) -> float:
        """Time for the rest, at the mean pace since the bar began; infinite before there is anything to go by."""
        rest, gained = self.total - self.completed, self.completed - self._first
        if rest <= 0 or gained <= 0:
            return 0.0 if rest <= 0 else float("inf")
        return max(0.0, rest * (self._moved - self._began) / gained - (time.monotonic() - self._moved))

    def __str__(self) -> str:
        """Write the count or the percentage, the time left or taken, and what was said."""
        whole = isinstance(self.total, int)
        count = f"{round(self.completed):,}/{self.total:,}" if whole else f"{self.completed / (self.total or 1.0):.0%}"
        if self.completed >= self.total:
            pace = f"took {timedelta(seconds=round(self._moved - self._began))}"
        elif self.seconds_left > UNKNOWN:
            pace = "-:--:-- left"
        else:
            pace = f"{timedelta(seconds=round(self.seconds_left))} left"
        return "  ".join(piece for piece in (count, pace, self.text) if piece)


@final
class HiddenBar(ProgressBar):
    """A bar that nobody sees."""

    def show(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


@final
class TerminalBar(ProgressBar):
    """A bar that rich draws ten times a second, so that the time left counts down while nothing moves."""

    def __init__(self, title: str, total: int | float, done: int | float, console: "Console") -> None:
        from rich.progress import BarColumn, Progress, TextColumn  # noqa: PLC0415  takes 0.1 s

        super().__init__(title, total, done)
        name, said = (TextColumn(text, markup=False) for text in ("{task.description}", "{task.fields[bar]!s}"))
        self._progress = Progress(name, BarColumn(bar_width=30), said, console=console)
        self._task = self._progress.add_task(title, total=total, bar=self)
        self.show()
        self._progress.start()

    def show(self) -> None:
        """Pass the progress to rich."""
        self._progress.update(self._task, completed=self.completed)

    def close(self) -> None:
        """Leave the last state on the screen."""
        self._progress.stop()


@final
class NotebookBar(ProgressBar):
    """An HTML element, updated in place."""

    def __init__(self, title: str, total: int | float, done: int | float, display: Any) -> None:
        super().__init__(title, total, done)
        self._shown = self._began
        self._handle = display(self._bundle(), raw=True, display_id=True)

    def show(self) -> None:
        """Update the element, unless that was done just now."""
        if time.monotonic() - self._shown >= SECONDS_BETWEEN_UPDATES:
            self._shown = time.monotonic()
            self._handle.update(self._bundle(), raw=True)

    def close(self) -> None:
        """Leave the last state below the cell."""
        self._handle.update(self._bundle(), raw=True)

    def _bundle(self) -> dict[str, str]:
        bar = f'<progress value="{self.completed}" max="{self.total}" style="width: 20em"></progress>'
        element = f"<div>{html.escape(self.title)} {bar} {html.escape(str(self))}</div>"
        return {"text/plain": f"{self.title}  {self}", "text/html": element}


def _find_terminal() -> "Console | None":
    """Return standard error if it is a terminal that can draw a bar."""
    if sys.stderr is None or not sys.stderr.isatty():
        return None
    from rich.console import Console  # noqa: PLC0415

    console = Console(stderr=True, force_jupyter=False)
    return console if console.is_terminal else None
