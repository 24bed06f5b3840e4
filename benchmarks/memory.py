"""What reusing memory from batch to batch gains on a CPU (`disol._devices.reused_memory`).

    python benchmarks/memory.py --write docs/benchmarks/memory.md

The rival is the same step with memory as the C library handles it. Each row runs two processes, one after the other,
and each process takes a few steps to warm up.
"""

import argparse
import json
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from statistics import median

import torch

from disol._devices import reused_memory
from disol.models import create_model
from disol.problems.table import find_problem
from report import processor, publish, table

WARM_UP, STEPS = 2, 5
TASKS = ("train", "predict")
HEADING = ["problem", "task", "batch", "as it is, ms per case", "reused, ms per case", "times as fast"]


def time_steps(problem_name: str, task: str, batch: int, is_reused: bool) -> float:
    """Return the seconds per case of a training step by Adam, or of a prediction, in eager float32."""
    problem = find_problem(problem_name)
    torch.manual_seed(0)
    network = create_model("disol", problem)
    optimizer = torch.optim.Adam(network.parameters())
    inputs = torch.rand(batch, len(problem.channels), problem.resolution, problem.resolution)

    def step() -> None:
        if task == "predict":
            with torch.inference_mode():
                network(inputs)
            return
        optimizer.zero_grad()
        network(inputs).square().mean().backward()
        optimizer.step()

    seconds = []
    with reused_memory(torch.device("cpu")) if is_reused else nullcontext():
        for _ in range(WARM_UP + STEPS):
            started = time.perf_counter()
            step()
            seconds.append(time.perf_counter() - started)
    return median(seconds[WARM_UP:]) / batch


def row_of(problem: str, task: str, batch: int) -> list[str]:
    """Measure both ways."""
    found = []
    for is_reused in (False, True):
        asked = json.dumps([problem, task, batch, is_reused])
        done = subprocess.run([sys.executable, __file__, "--step", asked], check=True, capture_output=True, text=True)
        found.append(1e3 * float(done.stdout))
    return [problem, task, str(batch), *(f"{each:.1f}" for each in found), f"{found[0] / found[1]:.2f}"]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="+", default=["poisson", "advection-diffusion-low"])
    parser.add_argument("--batches", nargs="+", type=int, default=[4, 16, 64])
    parser.add_argument("--write", type=Path, help="the page to write")
    parser.add_argument("--step", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.step is not None:
        print(time_steps(*json.loads(options.step)))
        return
    rows = [row_of(problem, task, batch) for problem in options.problems for task in TASKS for batch in options.batches]
    publish(
        [
            "# Memory that is used again",
            "Written by `python benchmarks/memory.py`.",
            "How much time does reusing memory from batch to batch save on a CPU? Networks of the published size in "
            f"eager float32, median of {STEPS} steps. A step of `train` is a training step by Adam; one of `predict` "
            "is a prediction.",
            "- *as it is*: the GNU C library returns large arrays to the system when they are freed, and the system "
            "clears each page before it hands it out again.\n"
            "- *reused*: freed memory is kept until training or evaluation ends, as the package does it.",
            f"Machine: torch {torch.__version__}; {processor()}; OMP_NUM_THREADS={torch.get_num_threads()}.",
            table(HEADING, rows),
        ],
        options.write,
    )


if __name__ == "__main__":
    main()
