"""Time the batched solvers per problem and variant: microseconds per case on one device.

    python benchmarks/solvers.py --device cuda                        the direct solver and its rival
    python benchmarks/solvers.py --variants all                       every setting of the direct solver
    python benchmarks/solvers.py --variants unrefined,checked         what error estimates and refinement cost
    python benchmarks/solvers.py --problems poisson-128 --variants default,base-16 --profile

An eighth of the geometries is drawn; the others are copies by the eight symmetries of the square. No two of a batch are
equal, because the direct solver computes equal boxes only once and would gain from copies.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from disol import draw
from disol.fem import ELEMENTS, System, forms
from disol.solvers import (
    BatchSettings,
    CheckedSolver,
    DiscreteOperator,
    Elimination,
    Multigrid,
    conjugate_gradients,
    factorise,
    from_system,
    memory,
    solve_batch,
    stabilised_biconjugate_gradients,
    step_batch,
)
from disol.solvers.nested_dissection import bytes_per_case
from report import processor, publish, table

FRAMES = range(1, 26)


@dataclass(frozen=True)
class Workload:
    """A problem on a grid, and the largest batch to solve at once."""

    problem: str
    resolution: int
    batch: int


WORKLOADS = {
    "poisson-64": Workload("poisson", 64, 2048),
    "poisson-128": Workload("poisson", 128, 1024),
    "advection-diffusion-128": Workload("advection-diffusion-high", 128, 1024),
    "elasticity-128": Workload("elasticity", 128, 256),
    "heat-128": Workload("heat", 128, 512),
}
ELIMINATIONS = {
    "default": Elimination(),
    "base-1": Elimination(base=1),
    "base-8": Elimination(base=8),
    "base-16": Elimination(base=16),
    "base-32": Elimination(base=32),
    "base-128": Elimination(base=128),
    "library": Elimination(base=10_000),
    "not-shared": Elimination(shared=0.0),
    "groups-1": Elimination(groups=1),
    "groups-4": Elimination(groups=4),
    "compact-7": Elimination(compact=7),
    "compact-31": Elimination(compact=31),
    "compact-63": Elimination(compact=63),
    "compact-root": Elimination(compact=200),
    "compiled": Elimination(compiled=True),
}
Timer = Callable[[Callable[[], object]], float]
NOTES = {
    "default": "nested dissection",
    "unrefined": "`default`, and the backward error of every solution",
    "checked": "`unrefined`, and an estimate of the error, with refinement where that is not small",
    "mixed": "float32 factors and float64 refinement",
    "25 steps": "heat to 50 s; its other variants take one step",
    "multigrid": "the rival, conjugate gradients (BiCGStab for advection-diffusion) preconditioned by multigrid, to a "
    "relative residual of 1e-10",
    "multigrid, mixed": "the same, with the preconditioner in float32",
}


HEADLINES = ("default", "unrefined", "checked", "mixed", "25 steps", "25 steps, mixed", "multigrid", "multigrid, mixed")


def main() -> None:
    arguments = parse_arguments()
    device = torch.device(arguments.device)
    timer = cuda_timer(arguments.repeats) if device.type == "cuda" else cpu_timer(arguments.repeats)
    rows = []
    for name in arguments.problems.split(","):
        workload = WORKLOADS[name]
        operator, loads, initial = batch_of(workload, arguments.batch or workload.batch, device)
        runs = variants(workload, operator, loads, initial)
        for variant in chosen_variants(arguments.variants, runs):
            seconds, gibibytes = measured(runs[variant], timer, device)
            cost = f"{1e6 * seconds / len(operator):.1f}"
            rows.append([name, variant, str(len(operator)), cost, f"{gibibytes:.1f}"])
            print(rows[-1], flush=True)
            if arguments.profile:
                profile(runs[variant], device)
    gpu = f"{torch.cuda.get_device_name(device)}, " if device.type == "cuda" else ""
    publish(
        [
            "# Batched solvers",
            f"Written by `python benchmarks/solvers.py --device {device.type}`.",
            "Median time per case in batches of different geometries, in float64, and the peak of the memory. A "
            "workload is a problem with the side of its grid in pixels. The variants:",
            "\n".join(f"- `{name}`: {note}" for name, note in NOTES.items() if any(row[1] == name for row in rows)),
            f"Machine: {gpu}torch {torch.__version__}; {processor()}.",
            table(["workload", "variant", "cases at once", "µs/case", "GiB"], rows),
        ],
        arguments.write,
    )


def chosen_variants(asked: str, runs: dict[str, Callable[[], object]]) -> list[str]:
    """Return the variants to time: those named, all, or by default those of the page."""
    if asked == "all":
        return list(runs)
    return [variant for variant in (asked.split(",") if asked else HEADLINES) if variant in runs]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--problems", default=",".join(WORKLOADS), help="names, separated by commas")
    parser.add_argument("--variants", default="", help="names, separated by commas, or all")
    parser.add_argument("--batch", type=int, default=0, help="cases at once; default: those of the workload")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--write", type=Path, help="where to write the page")
    parser.add_argument("--profile", action="store_true", help="also print where the time goes")
    return parser.parse_args()


def batch_of(
    workload: Workload, batch: int, device: torch.device
) -> tuple[DiscreteOperator, torch.Tensor, torch.Tensor]:
    """Draw a batch that fits the device: an operator, its loads and, for heat, initial fields."""
    drawn = [
        draw(workload.problem, 1, index, resolution=workload.resolution, conventions="paper")
        for index in range(-(-batch // 8))
    ]
    operator, loads = from_system(System.stack([case.system() for case in drawn]), device)
    fits = max(1, int(memory.USABLE * memory.free_bytes(device)) // bytes_per_case(operator, torch.float64))
    mask, free, loads = (symmetries(field)[: min(batch, fits)] for field in (operator.mask, operator.free, loads))
    return DiscreteOperator(mask, free, operator.element_matrix), loads, free * loads


def symmetries(fields: torch.Tensor) -> torch.Tensor:
    turned = [torch.rot90(fields, turns, (-2, -1)) for turns in range(4)]
    return torch.cat(turned + [field.flip(-1) for field in turned]).contiguous()


def variants(
    workload: Workload, operator: DiscreteOperator, loads: torch.Tensor, initial: torch.Tensor
) -> dict[str, Callable[[], object]]:
    """Name everything that is timed on one workload."""
    factors = factorise(operator)
    whole = BatchSettings(chunk=len(operator))
    mixed = BatchSettings(chunk=len(operator), precision=torch.float32)
    runs: dict[str, Callable[[], object]] = {}
    if workload.problem == "heat":
        mass = torch.from_numpy(forms.mass(ELEMENTS["q1"](1 / workload.resolution))).to(loads)
        runs["25 steps"] = lambda: step_batch(operator, mass, loads, initial, FRAMES, whole)
        runs["25 steps, mixed"] = lambda: step_batch(operator, mass, loads, initial, FRAMES, mixed)
    for name, settings in ELIMINATIONS.items():
        runs[name] = lambda settings=settings: factorise(operator, settings).solve(loads)  # type: ignore[misc]
    single = operator.to(dtype=torch.float32)
    runs["float32"] = lambda: factorise(single).solve(loads.float())
    runs["factors only"] = lambda: factorise(operator)
    runs["solution only"] = lambda: factors.solve(loads)
    runs["unrefined"] = lambda: CheckedSolver.of(operator, whole).solve(loads, refine=False)
    runs["checked"] = lambda: solve_batch(operator, loads, whole)
    runs["mixed"] = lambda: solve_batch(operator, loads, mixed)
    if operator.is_symmetric:
        runs["multigrid"] = lambda: conjugate_gradients(operator, loads, Multigrid.of(operator).v_cycle)
        runs["multigrid, mixed"] = lambda: conjugate_gradients(operator, loads, Multigrid.of(single).v_cycle)
    else:
        runs["multigrid"] = lambda: stabilised_biconjugate_gradients(operator, loads, Multigrid.of(operator).v_cycle)
    return runs


def measured(run: Callable[[], object], timer: Timer, device: torch.device) -> tuple[float, float]:
    """Return the median seconds of a run, and its peak memory in GiB."""
    if device.type != "cuda":
        return timer(run), 0.0
    torch.cuda.reset_peak_memory_stats(device)
    seconds = timer(run)
    return seconds, torch.cuda.max_memory_allocated(device) / memory.GIBIBYTE


def cuda_timer(repeats: int) -> Timer:
    def seconds(run: Callable[[], object]) -> float:
        run()
        run()
        times = []
        for _ in range(repeats):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
            start.record()
            run()
            end.record()
            torch.cuda.synchronize()
            times.append(start.elapsed_time(end) / 1000)
        return statistics.median(times)

    return seconds


def cpu_timer(repeats: int) -> Timer:
    def seconds(run: Callable[[], object]) -> float:
        run()
        times = []
        for _ in range(repeats):
            start = time.perf_counter()
            run()
            times.append(time.perf_counter() - start)
        return statistics.median(times)

    return seconds


def profile(run: Callable[[], object], device: torch.device) -> None:
    """Print the operations that take the most time."""
    kind = "cuda" if device.type == "cuda" else "cpu"
    with torch.profiler.profile() as profiler:
        run()
    print(profiler.key_averages().table(sort_by=f"self_{kind}_time_total", row_limit=25, max_name_column_width=70))


if __name__ == "__main__":
    main()
