"""The training loop: one path for a CPU, one GPU or many, in any precision, compiled or not."""

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from disol._checks import whole_number
from disol.data.dataset import Batch, DeviceCases
from disol.errors import DisolError
from disol.training.batches import validation_batches
from disol.training.clock import Pace
from disol.training.config import CompileMode, TrainSettings
from disol.training.distributed import Processes
from disol.training.losses import CaseLoss, training_loss, validation_loss
from disol.training.optimisers import EMA, build_optimizer, load_optimizer, make_schedule

TRIAL_STEPS = 5
TRIAL_SECONDS = 1.0


class Objective(nn.Module):
    """A network and its loss, so that both are compiled as one.

    The network computes in `precision` where torch considers it safe. Channels, targets and the loss stay in float32.
    """

    def __init__(self, network: nn.Module, loss: CaseLoss, precision: torch.dtype = torch.float32) -> None:
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
    """A network in training: its weights, their moving average (EMA), the optimizer and the learning rate."""

    def __init__(self, processes: Processes, network: nn.Module, settings: TrainSettings) -> None:
        self.processes = processes
        self.settings = settings
        # Tensor cores need the channels of a pixel side by side.
        is_cuda = processes.device.type == "cuda"
        self.memory_format = torch.channels_last if is_cuda else torch.contiguous_format
        self.network = network.to(processes.device)
        self.network.to(memory_format=self.memory_format)  # type: ignore[call-overload] # unknown to torch's stubs
        self.ema = EMA(self.network, settings.ema_decay)
        self.weights: list[Tensor] = list(self.network.parameters())
        self.optimizer = build_optimizer(self.weights, settings)
        self.schedule = make_schedule(settings, self.optimizer)
        precision, mode = (
            precision_on(processes.device, settings, network),
            compile_mode_on(processes, settings, network),
        )
        objective = Objective(self.network, training_loss(network, settings.loss), precision)
        self.objective = processes.wrap(compiled(objective, mode))
        self.validator = compiled(Objective(self.averaged, validation_loss(network)), mode)

    @property
    def averaged(self) -> nn.Module:
        """The network with the averaged weights, which is validated and kept."""
        return self.ema.module

    @property
    def learning_rate(self) -> float:
        """The learning rate of the optimizer."""
        return self.optimizer.param_groups[0]["lr"]

    def losses(self, batch: Batch) -> Float[Tensor, " case"]:
        """Return the training loss of each case of a batch."""
        return self.objective(self.formatted(batch))

    def formatted(self, batch: Batch) -> Batch:
        """Lay the inputs out in the memory format of the convolutions."""
        return {**batch, "inputs": batch["inputs"].contiguous(memory_format=self.memory_format)}

    def step(self, batch: Batch, progress: float) -> Float[Tensor, ""]:
        """Take one optimizer step on a batch, and return its loss."""
        loss = self.losses(batch).mean()
        loss.backward()  # type: ignore[no-untyped-call]
        clip_gradients(self.weights, self.settings.grad_clip_norm)
        self.schedule.before_step(progress)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.ema.update_parameters(self.network)
        return loss.detach()

    def train_epoch(self, batches: Iterable[Batch], pace: Pace, tell: Callable[[float], None]) -> float:
        """Take the steps of an epoch, report the progress after each, and return the mean of their losses."""
        self.network.train()
        total = torch.zeros((), device=self.processes.device)
        for number, batch in enumerate(islice(batches, pace.batches)):
            # The rate at the middle of a step: at the start of the first one it would be 0, and the step wasted.
            total += self.step(batch, (pace.progress(number) + pace.progress(number + 1)) / 2)
            tell(pace.progress(number + 1))
        self.copy_buffers()
        return self.processes.sum(total) / self.processes.size / pace.batches

    @torch.no_grad()
    def copy_buffers(self) -> None:
        """Copy the buffers of the network in training, such as running means, to the averaged network unchanged.

        They are those of the first process, as in training.
        """
        for averaged, buffer in zip(self.averaged.buffers(), self.network.buffers(), strict=True):
            self.processes.broadcast_tensor(buffer)
            averaged.copy_(buffer)

    @torch.no_grad()
    def validate(self, cases: DeviceCases, batch_size: int) -> float:
        """Return the mean loss of the averaged network over all cases, in float32."""
        total = torch.zeros((), device=self.processes.device)
        for batch, counts in validation_batches(cases, batch_size, self.processes.own):
            total += torch.where(counts, self.validator(self.formatted(batch)), 0.0).sum()
        return self.processes.sum(total) / len(cases)

    def try_steps(self, batch: Batch, read_time: Callable[[], float]) -> float:
        """Compile, then return the seconds that a step takes, without changing any weights."""
        before = [buffer.clone() for buffer in self.network.buffers()]
        with torch.no_grad():
            self.validator(self.formatted(batch))
        self.try_step(batch)
        started = read_time()
        self.try_step(batch)
        # Every step waits for all processes, so they must agree on the number of steps, whatever their clocks say.
        steps = self.processes.broadcast(affordable_trials(read_time() - started))
        for _ in range(steps - 1):
            self.try_step(batch)
        seconds = (read_time() - started) / steps
        for buffer, kept in zip(self.network.buffers(), before, strict=True):
            buffer.copy_(kept)
        return seconds

    def try_step(self, batch: Batch) -> None:
        """Compute a gradient, wait for it, and discard it."""
        self.losses(batch).mean().backward()  # type: ignore[no-untyped-call]
        float(clip_gradients(self.weights, 0.0))
        self.optimizer.zero_grad()

    def state_dict(self) -> dict[str, Any]:
        """Return what is needed to continue, except for the averaged weights."""
        return {
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "averaged": int(self.ema.n_averaged),
        }

    def load_state_dict(self, state: dict[str, Any], averaged: nn.Module) -> None:
        """Continue from a state and the averaged weights."""
        self.network.load_state_dict(state["network"])
        self.averaged.load_state_dict(averaged.state_dict())
        self.ema.n_averaged.fill_(whole_number("averaged", state["averaged"]))
        load_optimizer(self.optimizer, state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])


def affordable_trials(step_seconds: float) -> int:
    """Return how many steps to try, at least one, given the seconds that one takes."""
    return max(1, min(TRIAL_STEPS, int(TRIAL_SECONDS / max(step_seconds, 1e-9))))


def clip_gradients(weights: list[Tensor], largest: float) -> Float[Tensor, ""]:
    """Clip the gradient to a norm of at most `largest`, if that is not 0; return its former norm, on the device."""
    return nn.utils.clip_grad_norm_(weights, largest or math.inf, error_if_nonfinite=False)


def precision_on(device: torch.device, settings: TrainSettings, network: nn.Module | None = None) -> torch.dtype:
    """Return the precision of the forward pass on a device; a GPU must be the current one."""
    if settings.precision == "auto":
        is_native = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
        is_wanted = getattr(network, "precision", "bfloat16") != "float32"
        return torch.bfloat16 if is_native and is_wanted else torch.float32
    return torch.bfloat16 if settings.precision == "bfloat16" else torch.float32


def compile_mode_on(processes: Processes, settings: TrainSettings, network: nn.Module | None = None) -> CompileMode:
    """Return how to compile a network for the devices of a run."""
    device = processes.device.type
    if settings.compile == "auto" and (device != "cuda" or not getattr(network, "compiles", True)):
        return "off"
    if settings.compile == "auto":
        return "graphs" if processes.size == 1 else "on"  # gradients are exchanged between graphs, not in one
    if settings.compile != "off" and settings.precision == "bfloat16" and device == "cpu":
        raise DisolError(
            "train.precision=bfloat16 must not be compiled on a CPU, where torch gives gradients that are NaN. "
            "Use train.compile=off."
        )
    return settings.compile


def compiled(module: nn.Module, mode: CompileMode) -> nn.Module:
    """Compile a module for batches of one shape, unless the mode is "off"."""
    if mode != "off":
        # By default torch considers so few channels not worth a layout of their own, and copies tensors back and forth.
        module.compile(
            dynamic=False, options={"force_layout_optimization": True, "triton.cudagraphs": mode == "graphs"}
        )
    return module


@contextmanager
def compiling_shapes(count: int) -> Iterator[None]:
    """Let torch compile the network and the validator for batches of `count` shapes.

    By default it compiles for eight in all, and runs further ones uncompiled.
    """
    if count == 1:
        yield
        return
    settings = torch._dynamo.config
    with settings.patch(recompile_limit=settings.recompile_limit + 2 * count):
        yield


@contextmanager
def quick_matrix_products() -> Iterator[None]:
    """Multiply float32 matrices in TensorFloat32 where a GPU has it, as convolutions do anyway; restore it later."""
    before, kept = "highest", {}
    try:
        before = torch.get_float32_matmul_precision()
    except RuntimeError:  # there is no single answer once a backend has been set separately
        backends = (torch.backends.cuda.matmul, torch.backends.mkldnn.matmul)  # type: ignore[attr-defined]
        kept = {backend: backend.fp32_precision for backend in backends}
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
        for backend, precision in kept.items():
            backend.fp32_precision = precision
