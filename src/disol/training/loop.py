"""The training loop: one path for a CPU, one GPU or many, in any precision, compiled or not."""

import copy
import math
import time
from collections.abc import Callable
from itertools import islice
from typing import Any

import torch
from jaxtyping import Float
from lightning.fabric import Fabric
from torch import Tensor, nn

from disol.data.dataset import Batch, DeviceCases
from disol.models import Network
from disol.training.clock import Pace
from disol.training.config import CompileMode, TrainSettings
from disol.training.losses import CaseLoss, training_loss, validation_loss
from disol.training.muon import Muon, pairs
from disol.training.plan import EpochPlan, Share, validation_batches
from disol.training.schedule import schedule_of
from disol.training.symmetry import Symmetries

ADAMS: dict[str, type[torch.optim.Adam]] = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
TRIAL_STEPS = 5
TRIAL_SECONDS = 1.0


class Objective(nn.Module):
    """A network and its loss, so that both are compiled as one.

    The network computes in `precision` where torch finds that safe. Channels, targets and the loss stay in float32:
    Fabric's own mixed precision would round them, too.
    """

    def __init__(self, network: Network, loss: CaseLoss, precision: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.network = network
        self.loss = loss
        self.precision = precision

    def forward(self, batch: Batch) -> Float[Tensor, " case"]:
        """Return the loss of each case."""
        inputs = batch["inputs"]
        with torch.autocast(inputs.device.type, torch.bfloat16, enabled=self.precision == torch.bfloat16):
            prediction = self.network(inputs)
        return self.loss(prediction.float(), batch)


class Training:
    """A network in training: its weights, their moving average, the optimizer and the learning rate."""

    def __init__(self, fabric: Fabric, network: Network, settings: TrainSettings) -> None:
        self.fabric = fabric
        self.settings = settings
        self.share = Share(fabric.global_rank, fabric.world_size)
        # Tensor cores read pixels with all their channels.
        self.memory_format = torch.channels_last if fabric.device.type == "cuda" else torch.contiguous_format
        self.network = network.to(fabric.device)
        self.network.to(memory_format=self.memory_format)  # type: ignore[call-overload] # unknown to torch's stubs
        self.averaged = copy.deepcopy(self.network).requires_grad_(False).eval()
        self.weights: list[Tensor] = list(self.network.parameters())
        self.averaged_weights: list[Tensor] = list(self.averaged.parameters())
        self.steps = 0
        self.schedule = schedule_of(settings)
        precision, mode = precision_on(fabric.device, settings), compile_mode_on(fabric, settings)
        objective = compiled(Objective(self.network, training_loss(network, settings.loss), precision), mode)
        self.objective, self.optimizer = fabric.setup(objective, optimizer_of(self.weights, settings))
        self.validator = compiled(Objective(self.averaged, validation_loss(network)), mode)

    @property
    def learning_rate(self) -> float:
        """The learning rate of the last step."""
        return self.optimizer.param_groups[0]["lr"]

    def losses(self, batch: Batch) -> Float[Tensor, " case"]:
        """Return the training loss of each case of a batch."""
        return self.objective(self.formatted(batch))

    def formatted(self, batch: Batch) -> Batch:
        """Lay the inputs out as the convolutions want them."""
        return {**batch, "inputs": batch["inputs"].contiguous(memory_format=self.memory_format)}

    def step(self, batch: Batch, progress: float) -> Float[Tensor, ""]:
        """Follow the gradient of one batch, and return its loss."""
        loss = self.losses(batch).mean()
        self.fabric.backward(loss)
        clip_gradients(self.weights, self.settings.gradient_clip)
        self.optimizer.param_groups[0]["lr"] = self.settings.learning_rate * self.schedule.share(progress)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.steps += 1
        decay = decay_at(self.steps, self.settings.averaging)
        move_average(self.averaged_weights, self.weights, decay)
        return loss.detach()

    def train_epoch(
        self, cases: DeviceCases, plan: EpochPlan, symmetries: Symmetries, pace: Pace, tell: Callable[[float], None]
    ) -> float:
        """Take the steps of an epoch, tell the progress after each, and return the mean of their losses."""
        self.network.train()
        total = torch.zeros((), device=self.fabric.device)
        batches = plan.batches(cases, symmetries, self.share)
        for number, batch in enumerate(islice(batches, pace.batches)):
            # The rate of the middle of a step: at its start that of the first would be 0, and the step in vain.
            total += self.step(batch, (pace.progress(number) + pace.progress(number + 1)) / 2)
            tell(pace.progress(number + 1))
        self.copy_buffers()
        return reduce(self.fabric, total, "mean") / pace.batches

    @torch.no_grad()
    def copy_buffers(self) -> None:
        """Give the averaged network the buffers of the network in training, such as running means, as they are.

        Those of the first process count, as they do in training.
        """
        for averaged, buffer in zip(self.averaged.buffers(), self.network.buffers(), strict=True):
            if self.share.processes > 1:
                torch.distributed.broadcast(buffer, src=0)
            averaged.copy_(buffer)

    @torch.no_grad()
    def validate(self, cases: DeviceCases, batch: int) -> float:
        """Return the mean loss of the averaged network over all cases, in float32."""
        total = torch.zeros((), device=self.fabric.device)
        for stacked, counts in validation_batches(cases, batch, self.share):
            total += torch.where(counts, self.validator(self.formatted(stacked)), 0.0).sum()
        return reduce(self.fabric, total, "sum") / len(cases)

    def try_steps(self, batch: Batch) -> float:
        """Compile, then return the seconds of a step, without taking any."""
        before = [buffer.clone() for buffer in self.network.buffers()]
        with torch.no_grad():
            self.validator(self.formatted(batch))
        self.try_step(batch)
        seconds = self.time_steps(batch, 1)
        # A step waits for all processes: their clocks must not decide one by one how many there are.
        steps: int = self.fabric.broadcast(affordable_trials(seconds))
        seconds += self.time_steps(batch, steps - 1)
        for buffer, kept in zip(self.network.buffers(), before, strict=True):
            buffer.copy_(kept)
        return seconds / steps

    def time_steps(self, batch: Batch, count: int) -> float:
        """Return the seconds that some steps on trial take."""
        started = time.perf_counter()
        for _ in range(count):
            self.try_step(batch)
        return time.perf_counter() - started

    def try_step(self, batch: Batch) -> None:
        """Compute a gradient, wait for it, and forget it."""
        self.fabric.backward(self.losses(batch).mean())
        float(clip_gradients(self.weights, 0.0))
        self.optimizer.zero_grad()

    def state(self) -> dict[str, Any]:
        """Return what has to be known to continue, but for the averaged weights."""
        return {
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state(),
            "steps": self.steps,
        }

    def restore(self, state: dict[str, Any], averaged: Network) -> None:
        """Continue from a state and the averaged weights."""
        self.network.load_state_dict(state["network"])
        self.averaged.load_state_dict(averaged.state_dict())
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.restore(state["schedule"])
        self.steps = state["steps"]


def affordable_trials(step_seconds: float) -> int:
    """Return how many steps to try, one at least, if one takes so long."""
    return max(1, min(TRIAL_STEPS, int(TRIAL_SECONDS / max(step_seconds, 1e-9))))


def reduce(fabric: Fabric, value: Float[Tensor, ""], how: str) -> float:
    """Return the sum or mean of a value over all processes; this waits for the device."""
    total = fabric.all_reduce(value, reduce_op=how)
    assert isinstance(total, Tensor)
    return float(total)


def optimizer_of(weights: list[Tensor], settings: TrainSettings) -> torch.optim.Optimizer:
    """Build the optimizer that settings ask for."""
    if settings.optimizer == "muon":
        return Muon(weights, lr=settings.learning_rate, weight_decay=settings.weight_decay)
    return ADAMS[settings.optimizer](
        weights,
        lr=settings.learning_rate,
        weight_decay=settings.weight_decay,
        fused=all(weight.is_floating_point() for weight in weights),  # torch fuses no complex ones
    )


def precision_on(device: torch.device, settings: TrainSettings) -> torch.dtype:
    """Return the precision of the forward pass on a device, which is the current one if it is a GPU."""
    if settings.precision == "auto":
        is_native = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
        return torch.bfloat16 if is_native else torch.float32
    return torch.bfloat16 if settings.precision == "bfloat16" else torch.float32


def compile_mode_on(fabric: Fabric, settings: TrainSettings) -> CompileMode:
    """Return how to compile for the devices of a run."""
    if settings.compile == "auto" and fabric.device.type != "cuda":
        return "off"
    if settings.compile == "auto":
        return "graphs" if fabric.world_size == 1 else "on"  # gradients are exchanged between graphs, not in one
    if settings.compile != "off" and settings.precision == "bfloat16" and fabric.device.type == "cpu":
        raise ValueError(
            "train.precision=bfloat16 must not be compiled on a CPU, where torch gives gradients that are no numbers. "
            "Use train.compile=off."
        )
    return settings.compile


def compiled(module: nn.Module, mode: CompileMode) -> nn.Module:
    """Compile a module for batches of one shape, unless that is off."""
    if mode != "off":
        # Left to itself, torch thinks so few channels not worth a layout, and copies tensors to and fro.
        module.compile(
            dynamic=False, options={"force_layout_optimization": True, "triton.cudagraphs": mode == "graphs"}
        )
    return module


def clip_gradients(weights: list[Tensor], largest: float) -> Float[Tensor, ""]:
    """Shorten the gradient to a norm of at most `largest`, if that is not 0; return its norm, still on the device."""
    return nn.utils.clip_grad_norm_(weights, largest or math.inf, error_if_nonfinite=False)


def decay_at(step: int, decay: float) -> float:
    """Return the decay of the moving average, smaller in the first steps so that it forgets where it started."""
    return min(decay, (1 + step) / (10 + step))


@torch.no_grad()
def move_average(averaged: list[Tensor], weights: list[Tensor], decay: float) -> None:
    """ā ← decay ā + (1 − decay) w, for all weights at once; a decay of 0 copies them."""
    # As pairs, since torch takes a list of tensors at once only if all are of one dtype.
    torch._foreach_lerp_([pairs(each) for each in averaged], [pairs(weight) for weight in weights], 1 - decay)
