"""Where the time of a training step goes: the kernels of a network, its loss and its optimizer, by their share of it.

    python benchmarks/training_profile.py --models disol unet fno --write docs/benchmarks/training-profile.md

Each model trains by the recipe `fast`, compiled and recorded as the package does it. After a warm-up some steps are
timed, and as many more run under torch's profiler. On a GPU the page lists kernels by name, on a CPU operators. The
time of a step that no kernel accounts for is time in which the device waited.
"""

import argparse
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

import disol
from disol._devices import find_device
from disol.data import CaseDataset
from disol.models import create_model
from disol.problems.conventions import PAPER
from disol.problems.table import find_problem
from disol.training import RECIPES, Symmetries
from disol.training.clock import Pace
from disol.training.distributed import join_processes
from disol.training.loop import Training, quick_matrix_products
from report import processor, publish, table
from training_variants import EARLY, WARM_UP, plan_steps

LONGEST_NAME = 70


@dataclass(frozen=True)
class Profile:
    """The time of training steps, in seconds per step.

    kernels   by name: seconds and calls
    """

    model: str
    batch_size: int
    seconds: float
    kernels: dict[str, tuple[float, float]]

    @property
    def busy(self) -> float:
        """Seconds of all kernels."""
        return sum(seconds for seconds, _ in self.kernels.values())


def prepare_steps(model: str, data: Path, device: str, settings: dict[str, int]) -> tuple[Callable[[int], None], int]:
    """Return a function that takes a number of training steps, and their batch size."""
    dataset = CaseDataset(data)
    problem = find_problem(dataset.settings.problem)
    torch.manual_seed(0)
    recipe = RECIPES["fast"].changed(settings)
    training = Training(join_processes(device), create_model(model, problem), recipe)
    cases = dataset.to_device(find_device(device))
    symmetries = Symmetries.of(problem, PAPER, cases.settings.resolution, find_device(device))

    @quick_matrix_products()
    def steps(number: int) -> None:
        plan = plan_steps(cases, symmetries, recipe.batch_size, number)
        pace = Pace(start=EARLY, per_batch=0.0, batches=number, is_last=False)
        training.train_epoch(plan.batches(cases, symmetries), pace, lambda _: None)

    return steps, recipe.batch_size


def measure(model: str, data: Path, options: argparse.Namespace) -> Profile:
    """Time some steps, then profile as many."""
    chosen = {"batch_size": options.batch_size} if options.batch_size else {}
    steps, batch_size = prepare_steps(model, data, options.device, chosen)
    steps(WARM_UP)
    started = time.perf_counter()
    steps(options.steps)
    seconds = (time.perf_counter() - started) / options.steps
    on_gpu = find_device(options.device).type == "cuda"
    with profile(activities=[ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]) as watched:
        steps(options.steps)
    spent, calls = Counter[str](), Counter[str]()
    for event in watched.events() or ():
        is_kernel = event.device_type.name == "CUDA"
        if is_kernel == on_gpu:
            spent[event.name] += (event.self_device_time_total if on_gpu else event.self_cpu_time_total) / 1e6
            calls[event.name] += 1
    kernels = {name: (total / options.steps, calls[name] / options.steps) for name, total in spent.most_common()}
    return Profile(model, batch_size, seconds, kernels)


def page(found: list[Profile], options: argparse.Namespace) -> list[str]:
    """Write the page."""
    device = find_device(options.device)
    gpu = f"{torch.cuda.get_device_name(device)}, " if device.type == "cuda" else ""
    paragraphs = [
        "# Where the time of training goes",
        "Written by `python benchmarks/training_profile.py`.",
        f"The kernels of a training step of {options.problem} with the recipe `fast`, by their share of its time. A "
        "step is timed without the profiler. If the kernels add up to more than the step, the profiler has slowed them "
        "down.",
        f"Machine: {gpu}torch {torch.__version__}; {processor()}.",
    ]
    for each in found:
        rows = [
            [f"`{name[:LONGEST_NAME]}`", f"{calls:.0f}", f"{1e6 * seconds:.0f}", f"{seconds / each.seconds:.1%}"]
            for name, (seconds, calls) in list(each.kernels.items())[: options.rows]
        ]
        idle = max(each.seconds - each.busy, 0.0)
        rows.append(
            ["all kernels", f"{sum(calls for _, calls in each.kernels.values()):.0f}", f"{1e6 * each.busy:.0f}", ""]
        )
        rows.append(["without a kernel", "", f"{1e6 * idle:.0f}", f"{idle / each.seconds:.1%}"])
        paragraphs += [
            f"## {each.model}",
            f"{each.batch_size / each.seconds:,.0f} cases per second, {1e6 * each.seconds:,.0f} µs per step of "
            f"{each.batch_size} cases.",
            table(["kernel", "calls per step", "µs per step", "share of the step"], rows),
        ]
    return paragraphs


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problem", default="poisson", choices=list(disol.PROBLEMS))
    parser.add_argument("--models", nargs="+", default=["disol", "unet"])
    parser.add_argument("--cases", type=int, default=2048, help="cases to generate; four of five are trained on")
    parser.add_argument("--resolution", type=int, help="default: that of the problem")
    parser.add_argument("--batch-size", type=int, help="default: that of the recipe")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--rows", type=int, default=25, help="number of kernels to list")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--write", type=Path, help="where to write the page")
    options = parser.parse_args(arguments)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "cases.h5"
        disol.generate(
            options.problem, options.cases, data, resolution=options.resolution, device=options.device, progress=False
        )
        for model in options.models:
            found.append(measure(model, data, options))
            print(f"{model}: {found[-1].batch_size / found[-1].seconds:,.0f} cases per second", flush=True)
    publish(page(found, options), options.write)


if __name__ == "__main__":
    main()
