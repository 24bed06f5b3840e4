"""The optimizer of the weights, the schedule of its learning rate, and the moving average that is kept."""

import math
from abc import ABC, abstractmethod
from typing import Any, Literal, final

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import ReduceLROnPlateau
from torch.optim.swa_utils import AveragedModel

from disol._checks import is_number, number
from disol.errors import DisolError
from disol.training.config import TrainSettings
from disol.training.muon import Muon, is_matrix

LEAST_GAIN = 1e-4  # relative; a smaller decrease of the validation loss does not count


def build_optimizer(weights: list[Tensor], settings: TrainSettings) -> Optimizer:
    """Build an optimizer; adam: L2 penalty; adamw, muon: decoupled weight decay; muon: orthogonalised momentum."""
    rate, decay = settings.learning_rate, settings.weight_decay
    if not any(weight.requires_grad for weight in weights):
        raise DisolError("A network is trained by its weights, but this one has none that require gradients.")
    is_complex = any(weight.is_complex() for weight in weights)
    if settings.optimizer == "muon":
        if is_complex:
            raise DisolError("muon needs real weights, but the network has complex ones. Use train.optimizer=adamw.")
        return Muon(weights, lr=rate, weight_decay=decay)
    kind = torch.optim.Adam if settings.optimizer == "adam" else torch.optim.AdamW
    return kind(weights, lr=rate, weight_decay=decay, fused=not is_complex)  # torch cannot fuse complex ones


def load_optimizer(optimizer: Optimizer, state: dict[str, Any]) -> None:
    """Continue from a state of the same optimizer: its values for each weight, and the learning rate."""
    own = [{name: value for name, value in group.items() if name != "lr"} for group in optimizer.param_groups]
    optimizer.load_state_dict(state)
    for group, settings in zip(optimizer.param_groups, own, strict=True):
        group.update(settings, lr=number("lr", group["lr"]))
    for weight, values in optimizer.state.items():
        one, all_of_them = torch.Size(), weight.shape
        if not isinstance(optimizer, Muon):
            known = {"step": one, "exp_avg": all_of_them, "exp_avg_sq": all_of_them}
        elif is_matrix(weight):
            known = {"momentum": all_of_them}
        else:
            known = {"steps": one, "mean": all_of_them, "square": all_of_them}
        if {name: torch.as_tensor(value).shape for name, value in values.items()} != known:
            raise ValueError("the optimizer state of a weight has another shape")


class Schedule(ABC):
    """The learning rate of an optimizer."""

    @abstractmethod
    def before_step(self, progress: float) -> None:
        """Set the rate of a step at a progress from 0 (start of the run) to 1 (end)."""

    @abstractmethod
    def after_epoch(self, validation_loss: float) -> None:
        """Take note of the validation loss of an epoch."""

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Return what is needed to continue, except for the optimizer."""

    @abstractmethod
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state."""


@final
class Decay(Schedule):
    """Linear warm-up, then cosine, linear or no decay.

    warmup   share of the run in which the rate rises from 0 to its peak
    last     final rate, as a share of the peak
    """

    def __init__(
        self,
        optimizer: Optimizer,
        peak: float,
        shape: Literal["cosine", "linear", "constant"],
        warmup: float,
        last: float,
    ) -> None:
        self.optimizer = optimizer
        self.peak = peak
        self.shape = shape
        self.warmup = warmup
        self.last = last

    def share(self, progress: float) -> float:
        """Return the rate at a progress from 0 to 1, as a share of the peak."""
        if progress < self.warmup:
            return progress / self.warmup
        decayed = min(1.0, (progress - self.warmup) / (1 - self.warmup))
        left = {"cosine": (1 + math.cos(math.pi * decayed)) / 2, "linear": 1 - decayed, "constant": 1.0}[self.shape]
        return self.last + (1 - self.last) * left

    def before_step(self, progress: float) -> None:
        """Set the rate that belongs to the progress."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.peak * self.share(progress)

    def after_epoch(self, validation_loss: float) -> None:
        """Do nothing: the rate depends on progress alone."""

    def state_dict(self) -> dict[str, Any]:
        """Return nothing, for the same reason."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Do nothing, for the same reason."""


@final
class Plateau(Schedule):
    """Multiply the rate by a factor once the validation loss has not fallen for more than `patience` epochs."""

    def __init__(self, optimizer: Optimizer, factor: float, patience: int) -> None:
        # eps=0: no change of the rate is too small to be made.
        self.torch = ReduceLROnPlateau(optimizer, factor=factor, patience=patience, threshold=LEAST_GAIN, eps=0.0)

    def before_step(self, progress: float) -> None:
        """Do nothing: the rate depends on the validation loss alone."""

    def after_epoch(self, validation_loss: float) -> None:
        """Count epochs without a gain, and reduce the rate after too many."""
        self.torch.step(validation_loss)

    def state_dict(self) -> dict[str, Any]:
        """Return what was counted."""
        return self.torch.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on counting."""
        counted = {name: state[name] for name in ("best", "num_bad_epochs", "last_epoch")}
        if not all(map(is_number, counted.values())):
            raise ValueError("what its schedule has counted is not a number")
        self.torch.load_state_dict(counted)


def make_schedule(settings: TrainSettings, optimizer: Optimizer) -> Schedule:
    """Make the schedule that settings ask for."""
    if settings.schedule == "plateau":
        return Plateau(optimizer, settings.plateau_factor, settings.plateau_patience)
    return Decay(optimizer, settings.learning_rate, settings.schedule, settings.warmup, settings.min_lr_ratio)


@final
class EMA(AveragedModel):
    """Exponential moving average of the weights: ā ← d ā + (1 − d) w; a decay d of 0 copies them.

    In the first steps d is at most (1 + step) / (10 + step), to forget the initial weights. torch's own update would
    wait for the device at every step, since it reads the number of steps there.
    """

    def __init__(self, network: nn.Module, decay: float) -> None:
        super().__init__(network)
        self.decay = decay
        self.requires_grad_(False).eval()

    @torch.no_grad()
    def update_parameters(self, model: nn.Module) -> None:
        """Follow the weights of a network after a step, but not its buffers."""
        self.n_averaged += 1
        step = int(self.n_averaged)
        decay = min(self.decay, (1 + step) / (10 + step))
        torch._foreach_lerp_(list(self.parameters()), list(model.parameters()), 1 - decay)
