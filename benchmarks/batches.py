"""Time `solve_exact`, `predict` and `verify` on batches from NumPy to NumPy, beside solver and network alone.

    python benchmarks/batches.py --out docs/benchmarks/batches.json --write docs/benchmarks/batches.md
    python benchmarks/batches.py --device cpu --cases 1 32 --out docs/benchmarks/batches.json
    python benchmarks/batches.py --problems poisson elasticity --engines torch

Everything runs in one process on one device, one after the other. Results of this machine that are in `--out` already
are not measured again, so the script can be stopped at any time; the page shows all of them. Compiling takes longest: a
run with `--seconds 0` and another `--out` does it beforehand.

An eighth of the cases of a batch is drawn; the others are rotated and mirrored copies, by the eight symmetries of the
square. No two are equal, because the exact solver computes equal boxes only once and would gain from copies. Sources
are sampled to arrays, one value per pixel.
"""

import argparse
import json
import re
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

import disol
from disol import Case
from disol._devices import find_device
from disol.solvers import from_system, solve_batch, step_batch
from disol.solvers.operator import on_device
from disol.surrogate.prediction import is_sized_by_its_system, predict_fields
from report import processor, publish, table

CASES = {
    "poisson": (1, 4096),
    "advection-diffusion-low": (1, 1024),
    "advection-diffusion-high": (1, 1024),
    "elasticity": (1, 512),
    "heat": (1, 512),
}
TIMES = ((20.0,), (2.0, 8.0, 14.0, 20.0))  # seconds, of a transient problem
SEED = 5
SOLVER, EXACT, EXACT_ON_CPU = "exact solver alone", "solve_exact", "solve_exact on the CPU"
PATTERN, PLACED, PREDICTED, VERIFIED = "predict_pattern", "predict on the device", "predict", "verify"
# Engine and precision of each way to run a network.
ENGINES = {
    "torch": ("torch", "float32"),
    "torch-bfloat16": ("torch", "bfloat16"),
    "compiled": ("compiled", "bfloat16"),
    "onnx": ("onnx", "float32"),
}
SUITED = {"cuda": ["torch", "compiled"], "cpu": ["torch", "torch-bfloat16", "onnx"]}  # the default, and the fastest
Run = Callable[[], object]
Row = dict[str, Any]
Machines = dict[str, list[Row]]


def draw_arrays(problem: str, cases: int, resolution: int | None) -> dict[str, Any]:
    """Draw cases, and rotate and mirror them; return them as a user gives them: arrays by name."""
    drawn = [
        disol.draw(problem, SEED, index, resolution=resolution, conventions="paper") for index in range(-(-cases // 8))
    ]
    arrays: dict[str, Any] = {}
    for term in drawn[0].problem.terms:
        if term.kind.storage is not None:
            values: np.ndarray = np.stack([case.channel(term.name) for case in drawn]).astype(term.kind.dtype)
            turned = [np.rot90(values, turns, (-2, -1)) for turns in range(4)]
            arrays[term.name] = np.concatenate([*turned, *(each[..., ::-1] for each in turned)])[:cases]
    return arrays


def solver_run(case: Case, device: torch.device) -> Run:
    """Return a run that solves systems on the device and checks the solutions."""
    system, frames = case.on(device).system(), case.problem.frames(case.times)
    operator, loads = from_system(system, device)
    if frames.steps is None:
        return partial(solve_batch, operator, loads)
    mass, initial = (on_device(array, device).to(loads) for array in (system.mass_matrix, system.initial))
    return partial(step_batch, operator, mass, loads, initial, frames.steps)


def list_runs(problem: str, arrays: dict[str, Any], device: torch.device, engines: list[str]) -> dict[str, Run]:
    """Name everything that is timed on one batch."""
    case = Case.from_arrays(problem, device=device if device.type == "cuda" else None, **arrays, conventions="paper")
    runs: dict[str, Run] = {
        SOLVER: solver_run(case, device),
        EXACT: partial(disol.solve_exact, problem, device=str(device), **arrays, conventions="paper"),
    }
    if device.type == "cuda" and len(case) == 1:
        runs[EXACT_ON_CPU] = partial(disol.solve_exact, problem, device="cpu", **arrays, conventions="paper")
    inputs = case.problem.frame_inputs(case.inputs, case.times)
    inputs = inputs.reshape(-1, *inputs.shape[2:])
    for engine in engines:
        name, precision = ENGINES[engine]
        surrogate = disol.load(problem, device=str(device), engine=name, precision=precision)
        runs[f"{PATTERN}, {engine}"] = partial(surrogate.predict_pattern, inputs)
        if is_sized_by_its_system(case.problem):
            on_the_device = partial(predict_fields, surrogate.engine, case.on(device), surrogate.normalisation)
            runs[f"{PLACED}, {engine}"] = torch.inference_mode()(on_the_device)
            runs[f"{PREDICTED}, {engine}"] = partial(surrogate.predict, **arrays)
        runs[f"{VERIFIED}, {engine}"] = partial(surrogate.verify, **arrays)
    return runs


def seconds_of(run: Run, device: torch.device, budget: float) -> tuple[float, float]:
    """Return the time of the first call, and the median of as many more as the budget allows, at least two."""

    def duration() -> float:
        started = time.perf_counter()
        run()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.perf_counter() - started

    first, times = duration(), list[float]()
    duration()  # warm-up: memory is allocated, and clock rates rise
    while len(times) < 2 or (sum(times) < budget and len(times) < 20):
        times.append(duration())
    return first, statistics.median(times)


def name_batches(problem: str) -> dict[str, tuple[float, ...] | None]:
    """Name the rows of a problem, with the times that are asked for if it is transient."""
    if not disol.PROBLEMS[problem].times:
        return {problem: None}
    return {f"{problem} at {', '.join(f'{time:g}' for time in times)} s": times for times in TIMES}


def measure(problem: str, cases: int, options: argparse.Namespace, device: torch.device) -> Iterator[list[Row]]:
    """Time everything on a batch of a problem, and yield the rows for each choice of times."""
    arrays = draw_arrays(problem, cases, options.resolution)
    for asked, times in name_batches(problem).items():
        rows = []
        given = arrays | ({"times": times} if times else {})
        for name, run in list_runs(problem, given, device, options.engines or SUITED[device.type]).items():
            first, found = seconds_of(run, device, options.seconds)
            rows.append({"problem": asked, "cases": cases, "way": name, "first": first, "seconds": found / cases})
            print(f"{asked}, {cases} cases: {name} {shown(found / cases)} a case", flush=True)
        yield rows


def shown(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms" if seconds >= 1e-3 else f"{1e6 * seconds:.3g} µs"


def times_table(rows: list[Row]) -> str:
    """Write a row for each batch, a column for each way."""
    ways, found = list(dict.fromkeys(row["way"] for row in rows)), times_of(rows)
    lines = [
        [batch[0], f"{batch[1]:,}", *(shown(times[way]) if way in times else "-" for way in ways)]
        for batch, times in found.items()
    ]
    return table(["problem", "cases", *ways], lines)


def payoff_table(machines: Machines) -> str:
    """Write how many times as fast as the exact solution a prediction is, each in the fastest way of a machine."""
    lines = []
    for machine, rows in machines.items():
        for (problem, cases), times in times_of(rows).items():
            # A CPU solves one case sooner than a GPU.
            rivals = {way: times[way] for way in (SOLVER, EXACT, EXACT_ON_CPU) if way in times}
            is_known = cases > 1 or EXACT_ON_CPU in times or not is_gpu(machine)
            cells = []
            for predicted in (PLACED, PREDICTED, VERIFIED):
                engines = [times[way] for way in times if way.rpartition(", ")[0] == predicted]
                among = [rivals[way] for way in rivals if way != SOLVER or predicted == PLACED]
                cells.append(f"{min(among) / min(engines):.2g}" if engines and is_known else "-")
            if set(cells) != {"-"}:
                lines.append([short_name(machine), problem, f"{cases:,}", *cells])
    return table(["machine", "problem", "cases", "on the device", "from NumPy to NumPy", "verified"], lines)


def is_gpu(machine: str) -> bool:
    return machine.startswith("NVIDIA")


def short_name(machine: str) -> str:
    """Name a machine by its first part and its threads."""
    return f"{re.split('[;,]', machine)[0]}, {machine.rpartition(', ')[2]}"


def times_of(rows: list[Row]) -> dict[tuple[str, int], dict[str, float]]:
    """Return the seconds of each way, batch by batch."""
    found: dict[tuple[str, int], dict[str, float]] = {}
    for row in rows:
        found.setdefault((row["problem"], row["cases"]), {})[row["way"]] = row["seconds"]
    return found


def page(machines: Machines) -> list[str]:
    """Write the page."""
    return [
        "# Batches",
        "Written by `python benchmarks/batches.py`.",
        "How long does a case take, alone or in a batch, when it is solved exactly on pixels and when it is predicted "
        "by a shipped model? All times are medians per case.",
        "## Who pays",
        "How many times as fast as the exact solution is a prediction in physical units? Less than 1 means slower. "
        "Both are taken in the fastest way that the tables below list for the machine:",
        f"- *on the device*: `{PLACED}` against any exact way, `{SOLVER}` included. Inputs and results are on the "
        "device.\n"
        f"- *from NumPy to NumPy*: `{PREDICTED}` against `{EXACT}`.\n"
        f"- *verified*: `{VERIFIED}` against `{EXACT}`. The error is then known, but `{VERIFIED}` solves the case too, "
        "so it takes longer than the solution alone.",
        "Displacements cannot be sized without a solution, so two columns are empty for elasticity. Single cases are "
        "missing for machines with a GPU if the CPU beside it was not measured: it solves one case sooner than the "
        "GPU.",
        payoff_table(machines),
        "## Times",
        "Two ways start and end on the device:",
        f"- `{SOLVER}` solves systems in float64, and checks every solution.\n"
        f"- `{PLACED}` takes masks and sources, and returns physical values.",
        "All others go from NumPy arrays to NumPy arrays, with checks, discretisation and transfers:",
        f"- `{EXACT}` returns the exact solution.\n"
        f"- `{PATTERN}` runs the network on stacked channels.\n"
        f"- `{PREDICTED}` returns physical values.\n"
        f"- `{VERIFIED}` predicts and solves exactly.",
        "Engines: `torch` is eager in float32, `torch-bfloat16` eager in bfloat16, `compiled` is torch.compile in "
        "bfloat16, `onnx` is ONNX Runtime in float32.",
        "Cases: an eighth of a batch is drawn, and the others are rotated and mirrored copies, so that no two are "
        "equal. Masks are bool; sources are float64 with one value per pixel. For heat, the solver takes ten steps. "
        "The network makes one prediction for each time, and one at 2 s to find the size.",
        *(part for machine, rows in machines.items() for part in (f"{machine}:", times_table(rows))),
    ]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--engines", nargs="+", choices=list(ENGINES), help="default: those that suit the device")
    parser.add_argument("--cases", type=int, nargs="+", help="sizes of the batches; default: those of each problem")
    parser.add_argument("--resolution", type=int, help="default: that of the problem")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--seconds", type=float, default=1.0, help="approximate time of each measurement")
    parser.add_argument("--out", type=Path, help="a JSON file of results by machine, which is continued")
    parser.add_argument("--write", type=Path, help="where to write the page")
    options = parser.parse_args(arguments)
    device = find_device(options.device)
    machines: Machines = {}
    if options.out is not None and options.out.exists():
        machines = json.loads(options.out.read_text())
    gpu = f"{torch.cuda.get_device_name(device)}; " if device.type == "cuda" else ""
    threads = torch.get_num_threads()
    name = f"{gpu}{processor()}; torch {torch.__version__}, {threads} thread{'s' if threads > 1 else ''}"
    rows = machines.setdefault(name, [])
    warnings.filterwarnings("ignore", "The network was trained on", UserWarning)  # of another resolution
    for problem in options.problems:
        for cases in options.cases or CASES[problem]:
            if {(asked, cases) for asked in name_batches(problem)} <= set(times_of(rows)):
                continue
            for found in measure(problem, cases, options, device):
                rows += found
                if options.out is not None:
                    options.out.parent.mkdir(parents=True, exist_ok=True)
                    options.out.write_text(json.dumps(machines, indent=2) + "\n")
    publish(page({machine: rows for machine, rows in machines.items() if rows}), options.write)


if __name__ == "__main__":
    main()
