"""One training variant, measured in a process of its own: what it compiles or replaces cannot affect another variant.

    echo measure | python benchmarks/training_variants.py --variant "compiled float32" --data cases.h5

The script says that it is ready, waits for a line on standard input, measures, and prints a line of JSON. If standard
input is closed, it ends.
"""

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import nn
from torch.nn import functional

from disol._devices import find_device
from disol.data import CaseDataset, DeviceCases
from disol.models import create_model
from disol.nn import convolution
from disol.problems.conventions import PAPER
from disol.problems.table import find_problem
from disol.training import RECIPES, Symmetries
from disol.training.augmentation import IDENTITY
from disol.training.batches import EpochPlan, plan_epoch
from disol.training.clock import Pace
from disol.training.config import CompileMode
from disol.training.distributed import join_processes
from disol.training.loop import Training, quick_matrix_products
from inference_measure import NUMBER_BYTES, copy_bandwidth, counted_outputs
from inference_plain import torch_interpolation
from report import processor
from workers import listen_for_the_word

ROUNDS = 5
WARM_UP = 10  # steps: a CUDA graph is recorded in the second one
EARLY = 1e-3  # progress of a run at which the learning rate is still small, so that no variant diverges
TRANSFERS = 5  # of the output of every convolution: see `bytes_per_case`
Steps = Callable[[EpochPlan], None]


@dataclass(frozen=True)
class Variant:
    """A variant of the training loop.

    kernels   of this package, in bfloat16: 3×3 convolutions of few channels, GroupNorm with GELU
    plain     whether this is the plain loop of the published recipe instead of the loop of this package
    """

    batch: int
    precision: Literal["float32", "bfloat16"]
    compile: CompileMode
    kernels: tuple[Literal["convolution", "norm"], ...] = ()
    plain: bool = False


LIKE_RIVAL = {"optimizer": "adamw", "loss": "grid-l1"}  # to compare loops alone
RIVAL = "plain eager float32"
LAUNCHED = "+ own GroupNorm"
FAST = "+ CUDA graphs"
VARIANTS = {
    RIVAL: Variant(200, "float32", "off", plain=True),
    "own loop, eager float32": Variant(200, "float32", "off"),
    "compiled float32": Variant(200, "float32", "on"),
    "compiled bfloat16": Variant(200, "bfloat16", "on"),
    "+ own convolutions": Variant(200, "bfloat16", "on", kernels=("convolution",)),
    LAUNCHED: Variant(200, "bfloat16", "on", kernels=("convolution", "norm")),
    FAST: Variant(200, "bfloat16", "graphs", kernels=("convolution", "norm")),
    "batch 256": Variant(256, "bfloat16", "graphs", kernels=("convolution", "norm")),
    "batch 1024": Variant(1024, "bfloat16", "graphs", kernels=("convolution", "norm")),
}
NOTES = {
    "own loop, eager float32": "the loop of this package",
    "compiled float32": "`torch.compile`",
    "compiled bfloat16": "bfloat16, with cuDNN's convolutions",
    "+ own convolutions": "the package's kernels for 3×3 convolutions of up to 64 channels",
    LAUNCHED: "the package's kernels for GroupNorm with GELU",
    FAST: "forward and backward pass are recorded as CUDA graphs",
    "batch 256": "a larger batch",
    "batch 1024": "a larger batch still",
}


def plain_steps(network: nn.Module, cases: DeviceCases) -> Steps:
    """Return the loop of the published recipe as anyone would write it, with its cases on the device."""
    settings = RECIPES["published"]
    network.to(cases.device).train()
    weights = network.parameters()
    optimizer = torch.optim.Adam(weights, lr=settings.learning_rate, weight_decay=settings.weight_decay)
    problem, size = find_problem(cases.settings.problem), cases.settings.resolution
    symmetries = Symmetries.of(problem, PAPER, size, cases.device, [IDENTITY])

    @torch_interpolation()
    def run(plan: EpochPlan) -> None:
        total = torch.zeros((), device=cases.device)
        for batch in plan.batches(cases, symmetries):
            loss = functional.l1_loss(network(batch["inputs"]), batch["target"])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            total += loss.detach()
        require_finite(float(total))

    return run


def own_steps(network: nn.Module, cases: DeviceCases, symmetries: Symmetries, variant: Variant, device: str) -> Steps:
    """Return the loop of this package, with symmetries, clipped gradients and EMA."""
    if "convolution" not in variant.kernels:
        convolution.MOST_CHANNELS = 0  # type: ignore[attr-defined]
    if "norm" not in variant.kernels:
        convolution.MOST_NORMALISED = 0  # type: ignore[attr-defined]
    chosen = {"batch_size": variant.batch, "precision": variant.precision, "compile": variant.compile, **LIKE_RIVAL}
    training = Training(join_processes(device), network, RECIPES["fast"].changed(chosen))

    @quick_matrix_products()
    def run(plan: EpochPlan) -> None:
        pace = Pace(start=EARLY, per_batch=0.0, batches=len(plan.indices), is_last=False)
        require_finite(training.train_epoch(plan.batches(cases, symmetries), pace, lambda _: None))

    return run


def require_finite(loss: float) -> None:
    """Refuse to time a loop whose loss is not finite."""
    if not math.isfinite(loss):
        raise ValueError(f"The training loss must stay finite, but is {loss}. Do not trust this variant.")


def plan_steps(cases: DeviceCases, symmetries: Symmetries, batch: int, steps: int) -> EpochPlan:
    """Plan a number of steps over as many epochs as needed, so that a small file is enough for long measurements."""
    if len(cases) < batch:
        raise ValueError(
            f"A batch needs {batch} cases, but there are {len(cases)} to train on. Ask for more by --cases."
        )
    epochs = -(-steps // (len(cases) // batch))
    plans = [plan_epoch(cases, symmetries, seed=0, epoch=epoch, batch_size=batch) for epoch in range(epochs)]
    return EpochPlan(
        torch.cat([plan.indices for plan in plans])[:steps],
        torch.cat([plan.frames for plan in plans])[:steps],
        torch.cat([plan.elements for plan in plans])[:steps],
    )


def bytes_per_case(network: nn.Module, cases: DeviceCases, precision: str) -> int:
    """Count the bytes that training on one case must move at least.

    In the forward pass, the output of every convolution is written, and read by what follows. In the backward pass it
    is read again, and its gradient is written and read. These are five transfers, in the precision of the variant.
    Inputs and target are read in both passes, in float32. Everything else (normalisation, activations, gates,
    interpolation, weights, the optimizer) is free.
    """
    first = torch.zeros(1, dtype=torch.long)
    case = cases.batch(first, frames=first)
    with counted_outputs(network) as numbers, torch.no_grad():
        network(case["inputs"].cpu())
    read_twice = 2 * 4 * (case["inputs"].numel() + case["target"].numel())
    return TRANSFERS * sum(numbers) * NUMBER_BYTES[precision] + read_twice


class Trial:
    """A variant that is ready to be measured: built, compiled, and warm."""

    def __init__(self, variant: Variant, data: Path, device: str) -> None:
        dataset, found = CaseDataset(data), find_device(device)
        problem = find_problem(dataset.settings.problem)
        torch.manual_seed(0)
        network = create_model("disol", problem)
        self.variant = variant
        self.cases = dataset.to_device(found)
        self.symmetries = Symmetries.of(problem, PAPER, self.cases.settings.resolution, found)
        self.bytes_per_case = bytes_per_case(network, self.cases, variant.precision)
        if variant.plain:
            self.steps = plain_steps(network, self.cases)
        else:
            self.steps = own_steps(network, self.cases, self.symmetries, variant, device)
        if found.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
        self.ready_after = self.time_of(WARM_UP)
        if found.type == "cuda":
            torch.cuda.empty_cache()  # others may prepare or measure before this one does

    def time_of(self, number: int) -> float:
        """Return the seconds of some steps; both loops end by waiting for the device."""
        plan = plan_steps(self.cases, self.symmetries, self.variant.batch, number)
        started = time.perf_counter()
        self.steps(plan)
        return time.perf_counter() - started

    def measure(self, seconds: float) -> dict[str, float | str]:
        """Train for some seconds; return the speed, and what the memory-bound limit needs."""
        device = self.cases.device
        self.time_of(WARM_UP)  # after the wait, memory is allocated again and clock rates have to rise
        per_round = max(3, round(seconds / ROUNDS / (self.time_of(WARM_UP) / WARM_UP)))
        speeds = [per_round * self.variant.batch / self.time_of(per_round) for _ in range(ROUNDS)]
        gpu = f"{torch.cuda.get_device_name(device)}, " if device.type == "cuda" else ""
        return {
            "cases_per_second": statistics.median(speeds),
            "slowest_round": min(speeds),
            "fastest_round": max(speeds),
            "ready_after": self.ready_after,
            "bytes_per_case": self.bytes_per_case,
            "gibibytes": torch.cuda.max_memory_allocated() / 2**30 if device.type == "cuda" else 0.0,
            "bandwidth": copy_bandwidth(device),  # last, so that its arrays do not count as memory of the training
            "machine": f"{gpu}torch {torch.__version__}; {processor()}",
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variant", required=True, choices=list(VARIANTS))
    parser.add_argument("--data", required=True, type=Path, help="a file of cases")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--seconds", type=float, default=5.0, help="time to measure, after the warm-up")
    options = parser.parse_args()
    tell_and_wait = listen_for_the_word()
    trial = Trial(VARIANTS[options.variant], options.data, options.device)
    tell_and_wait()
    print(json.dumps(trial.measure(options.seconds)), flush=True)


if __name__ == "__main__":
    main()
