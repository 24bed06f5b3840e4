"""The learning rate: a curve over the progress of a run, or steps down where the validation loss no longer falls."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

from disol.training.config import TrainSettings

LEAST_GAIN = 1e-4  # relative; a validation loss that falls by less has not fallen


class RateSchedule(ABC):
    """The share of the peak learning rate at each moment of a run."""

    @abstractmethod
    def share(self, progress: float) -> float:
        """Return the share at a progress from 0 (start) to 1 (end)."""

    @abstractmethod
    def observe(self, validation_loss: float) -> None:
        """Take note of the validation loss of an epoch."""

    @abstractmethod
    def state(self) -> dict[str, float]:
        """Return what has to be known to continue."""

    @abstractmethod
    def restore(self, state: dict[str, float]) -> None:
        """Continue from a state."""


@dataclass(frozen=True)
class Curve(RateSchedule):
    """A linear rise, then a fall from 1 to `final`, straight or as half a cosine, or none."""

    shape: str
    warmup: float
    final: float

    def share(self, progress: float) -> float:
        """Return the share at a progress."""
        if progress < self.warmup:
            return progress / self.warmup
        fallen = min(1.0, (progress - self.warmup) / (1 - self.warmup))
        left = {"cosine": (1 + math.cos(math.pi * fallen)) / 2, "linear": 1 - fallen, "constant": 1.0}[self.shape]
        return self.final + (1 - self.final) * left

    def observe(self, validation_loss: float) -> None:
        """Do nothing: a curve depends on progress alone."""

    def state(self) -> dict[str, float]:
        """Return nothing, for the same reason."""
        return {}

    def restore(self, state: dict[str, float]) -> None:
        """Do nothing, for the same reason."""


@dataclass
class Plateau(RateSchedule):
    """Multiply by `factor` once the validation loss has not fallen for more than `patience` epochs."""

    factor: float
    patience: int
    best: float = math.inf
    waited: int = 0
    current: float = 1.0

    def share(self, progress: float) -> float:
        """Return the share, whatever the progress."""
        del progress
        return self.current

    def observe(self, validation_loss: float) -> None:
        """Count epochs without a gain, and step down after too many."""
        if validation_loss < self.best * (1 - LEAST_GAIN):
            self.best, self.waited = validation_loss, 0
        else:
            self.waited += 1
        if self.waited > self.patience:
            self.current, self.waited = self.current * self.factor, 0

    def state(self) -> dict[str, float]:
        """Return what was counted."""
        return {"best": self.best, "waited": float(self.waited), "current": self.current}

    def restore(self, state: dict[str, float]) -> None:
        """Go on counting."""
        self.best, self.waited, self.current = state["best"], int(state["waited"]), state["current"]


def schedule_of(settings: TrainSettings) -> RateSchedule:
    """Build the schedule that settings ask for."""
    if settings.schedule == "plateau":
        return Plateau(settings.plateau_factor, settings.plateau_patience)
    return Curve(settings.schedule, settings.warmup, settings.final_rate)
