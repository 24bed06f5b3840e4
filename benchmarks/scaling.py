"""Time and memory of the batched exact solver by resolution and number of cases, with fitted exponents."""

import argparse
from pathlib import Path

import numpy as np
import torch

from disol.solvers.memory import GIBIBYTE
from report import processor, publish, table
from solvers import Workload, batch_of, cpu_timer, cuda_timer, measured, variants

RESOLUTIONS = {64: 2048, 96: 1024, 128: 1024, 192: 512, 256: 256, 384: 96, 512: 48}
BATCHES = (1, 4, 16, 64, 256, 1024, 4096)
VARIANT = "checked"
LEAST_SIDES = 3  # for a slope through the larger half


def exponent(sizes: list[int], costs: list[float]) -> float:
    """Return p of the fit cost = c sizeᵖ over the larger half of the sizes, where overheads are small."""
    half = len(sizes) // 2
    return float(np.polyfit(np.log(sizes[half:]), np.log(costs[half:]), 1)[0])


def growth(sides: list[int], times: list[float], memory: list[float]) -> list[str]:
    """Say how time and memory grow with the side, as far as measured; memory is not measured on a CPU."""
    if len(sides) < LEAST_SIDES:
        return []
    grown = f"Time grows as side^{exponent(sides, times):.1f}"
    grown += f", memory as side^{exponent(sides, memory):.1f}" if all(memory) else ""
    return [
        f"{grown} (fitted to the larger grids). In theory, nested dissection of a planar grid takes side^3 operations "
        "and side^2 log(side) memory."
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--problem", default="poisson")
    parser.add_argument("--largest", type=int, default=512)
    parser.add_argument("--most-cases", type=int, default=4096)
    parser.add_argument("--write", type=Path, help="where to write the page")
    options = parser.parse_args()
    device = torch.device(options.device)
    timer = cuda_timer(3) if device.type == "cuda" else cpu_timer(1)

    def cost(resolution: int, batch: int) -> tuple[int, float, float]:
        """Return the batch that fits, and its microseconds and mebibytes per case."""
        workload = Workload(options.problem, resolution, batch)
        operator, loads, initial = batch_of(workload, batch, device)
        seconds, gibibytes = measured(variants(workload, operator, loads, initial)[VARIANT], timer, device)
        cases = len(operator)
        return cases, 1e6 * seconds / cases, gibibytes * GIBIBYTE / 2**20 / cases

    sides = [side for side in RESOLUTIONS if side <= options.largest]
    by_side = [cost(side, min(RESOLUTIONS[side], options.most_cases)) for side in sides]
    batches = [batch for batch in BATCHES if batch <= options.most_cases]
    by_batch = [cost(64, batch) for batch in batches]
    gpu = f"{torch.cuda.get_device_name()}, torch {torch.__version__}; " if device.type == "cuda" else ""
    rows = [
        [str(side), str(cases), f"{time:.0f}", f"{memory:.1f}" if memory else "-"]
        for side, (cases, time, memory) in zip(sides, by_side, strict=True)
    ]
    batch_rows = [[str(cases), f"{time:.1f}", f"{cases * time / 1e3:.1f}"] for cases, time, _ in by_batch]
    publish(
        [
            "# Scaling of the batched solver",
            f"Written by `python benchmarks/scaling.py --device {options.device}`.",
            f"Time and memory per case of {options.problem}, in float64, with one load and every solution checked. "
            "Memory is the peak of the device's allocator divided by the number of cases.",
            f"Machine: {gpu}{processor()}.",
            table(["grid", "cases at once", "µs/case", "MiB/case"], rows),
            *growth(sides, [time for _, time, _ in by_side], [memory for _, _, memory in by_side]),
            "On the 64 grid, by the number of cases solved at once:",
            table(["cases at once", "µs/case", "ms for all"], batch_rows),
        ],
        options.write,
    )


if __name__ == "__main__":
    main()
