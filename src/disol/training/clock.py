"""The progress of a run, measured in epochs or, if it has a time limit, in seconds."""

import time
from collections.abc import Callable
from dataclasses import dataclass

FINISHING = 1.0  # seconds reserved for what follows the last epoch


@dataclass(frozen=True)
class Pace:
    """Progress through one epoch: `batches` steps from `start` on, each worth `per_batch`."""

    start: float
    per_batch: float
    batches: int
    is_last: bool

    def progress(self, number: int) -> float:
        """Return the progress before step `number`."""
        return self.start + number * self.per_batch


@dataclass
class Clock:
    """The time a run has taken, over all its sessions, and when it ends.

    Loading and compiling count once: a resumed session does both again, but not at the cost of its training, or a run
    that is interrupted late would lose its last epochs.

    limit            seconds, preparation included; None for a run that ends after its epochs
    spent            seconds of earlier sessions
    prepared         seconds before the first step of the run: loading, compiling
    step_seconds     measured time of one step
    closing_seconds  measured time of the rest of an epoch: validating and saving
    started          when this session began, by `read`
    read             returns the time in seconds since an arbitrary moment
    """

    epochs: int
    num_batches: int
    limit: float | None = None
    spent: float = 0.0
    prepared: float = 0.0
    step_seconds: float = 0.0
    closing_seconds: float = 0.0
    started: float = 0.0
    read: Callable[[], float] = time.perf_counter

    @property
    def seconds(self) -> float:
        """Seconds the run has taken."""
        return self.spent + self.read() - self.started

    @property
    def seconds_left(self) -> float:
        """Seconds until a time limit that can still be used for epochs."""
        assert self.limit is not None
        return max(0.0, self.limit - self.seconds - FINISHING)

    def ready(self) -> None:
        """Record that the preparation of this session is over."""
        if self.spent > 0:
            self.started = self.read()
        else:
            self.prepared = self.read() - self.started

    def observe(self, batches: int, step_seconds: float, closing_seconds: float) -> None:
        """Record how long the steps of an epoch and the rest of it took."""
        self.step_seconds, self.closing_seconds = step_seconds / batches, closing_seconds

    def pace(self, epoch: int) -> Pace:
        """Plan the next epoch, `epoch` counted from 0."""
        if self.limit is not None:
            return self._timed_pace()
        per_batch = 1 / (self.epochs * self.num_batches)
        return Pace(epoch / self.epochs, per_batch, self.num_batches, epoch == self.epochs - 1)

    def _timed_pace(self) -> Pace:
        """Plan the next epoch of a run with a time limit; the last one is cut so that progress reaches 1 then."""
        trained, left = self.seconds - self.prepared, self.seconds_left
        start = trained / max(trained + left, 1e-9)
        epoch_seconds = self.num_batches * self.step_seconds + self.closing_seconds
        if left - epoch_seconds > self.step_seconds + self.closing_seconds:
            per_batch = epoch_seconds / (trained + left) / self.num_batches
            return Pace(start, per_batch, self.num_batches, is_last=False)
        affordable = int((left - self.closing_seconds) / max(self.step_seconds, 1e-9))
        batches = min(max(1, affordable), self.num_batches)
        return Pace(start, (1 - start) / batches, batches, is_last=True)
