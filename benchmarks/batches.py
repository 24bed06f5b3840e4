"""What a batch costs from NumPy to NumPy, beside solver and network alone: `solve_exact`, `predict`, `verify`.

    python benchmarks/batches.py --out batches.json --write docs/benchmarks/batches.md
    python benchmarks/batches.py --problems poisson elasticity --compiled elasticity

One device, one process, everything timed one after the other. Compiling takes longest: `--compiled` names the problems
whose networks are, in bfloat16.

An eighth of the cases of a batch is drawn, and turned and mirrored by the eight symmetries of the square: no two are
equal, for the exact solver computes equal boxes once and would gain from copies. Sources are sampled to arrays, one
value per pixel.
"""

import argparse
import json
import statistics
import time
import warnings
from collections.abc import Callable
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
    "poisson": (2048, 4096),
    "advection-diffusion-low": (1024,),
    "advection-diffusion-high": (1024,),
    "elasticity": (512,),
    "heat": (512,),
}
TIMES = ((20.0,), (2.0, 8.0, 14.0, 20.0))  # seconds, of a transient problem
SEED = 5
SOLVER, EXACT = "exact solver alone", "solve_exact"
PATTERN, PLACED, PREDICTED, VERIFIED = "predict_pattern", "predict on the device", "predict", "verify"
ENGINES = {"torch": "float32", "compiled": "bfloat16"}
Run = Callable[[], object]
Row = dict[str, Any]


def draw_arrays(problem: str, cases: int, resolution: int | None) -> dict[str, Any]:
    """Draw cases and their turned and mirrored copies, as a user gives them: arrays by name."""
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
    """Return the solution of systems that are on the device already, checks of it included."""
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
        EXACT: partial(disol.solve_exact, problem, device=str(device), **arrays),
    }
    inputs = case.problem.frame_inputs(case.inputs, case.times)
    inputs = inputs.reshape(-1, *inputs.shape[2:])
    for engine in engines:
        surrogate = disol.load(problem, device=str(device), engine=engine, precision=ENGINES[engine])
        runs[f"{PATTERN}, {engine} {ENGINES[engine]}"] = partial(surrogate.predict_pattern, inputs)
        if is_sized_by_its_system(case.problem):
            on_the_device = partial(predict_fields, surrogate.engine, case.on(device), surrogate.normalisation)
            runs[f"{PLACED}, {engine} {ENGINES[engine]}"] = torch.inference_mode()(on_the_device)
            runs[f"{PREDICTED}, {engine} {ENGINES[engine]}"] = partial(surrogate.predict, **arrays)
        runs[f"{VERIFIED}, {engine} {ENGINES[engine]}"] = partial(surrogate.verify, **arrays)
    return runs


def seconds_of(run: Run, device: torch.device, budget: float) -> tuple[float, float]:
    """Return the time of the first call, and the median of as many more as a budget allows, two at least."""

    def duration() -> float:
        started = time.perf_counter()
        run()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.perf_counter() - started

    first, times = duration(), list[float]()
    duration()  # memory is asked for, and clocks rise
    while len(times) < 2 or (sum(times) < budget and len(times) < 20):
        times.append(duration())
    return first, statistics.median(times)


def measure(problem: str, cases: int, options: argparse.Namespace, device: torch.device) -> list[Row]:
    """Time everything on one batch of a problem."""
    arrays = draw_arrays(problem, cases, options.resolution)
    engines = ["torch", *(["compiled"] if problem in options.compiled else [])]
    rows = []
    for times in TIMES if disol.PROBLEMS[problem].times else (None,):
        asked = problem if times is None else f"{problem} at {', '.join(f'{time:g}' for time in times)} s"
        for name, run in list_runs(problem, arrays | ({"times": times} if times else {}), device, engines).items():
            first, found = seconds_of(run, device, options.seconds)
            rows.append({"problem": asked, "cases": cases, "way": name, "first": first, "seconds": found / cases})
            print(f"{asked}, {cases} cases: {name} {1e6 * found / cases:.1f} us/case", flush=True)
    return rows


def as_table(rows: list[Row]) -> str:
    """Write a row for each batch, a column for each way."""
    ways = list(dict.fromkeys(row["way"] for row in rows))
    batches = list(dict.fromkeys((row["problem"], row["cases"]) for row in rows))
    found = {(row["problem"], row["cases"], row["way"]): row["seconds"] for row in rows}
    lines = []
    for batch in batches:
        alone = found[*batch, SOLVER]
        cells = [f"{1e6 * found[*batch, way]:.1f}" if (*batch, way) in found else "-" for way in ways]
        lines.append([batch[0], str(batch[1]), *cells, f"{found[*batch, EXACT] / alone:.2f}"])
    return table(["problem", "cases", *ways, f"{EXACT} / solver"], lines)


def page(rows: list[Row], device: torch.device) -> list[str]:
    """Write down what was measured, and how."""
    gpu = f"{torch.cuda.get_device_name(device)}, " if device.type == "cuda" else ""
    return [
        "# Batches",
        "Written by `python benchmarks/batches.py`. Median microseconds per case of a whole batch. The exact solver "
        "alone takes systems that lie on the device, in float64, and checks every solution; all else is from NumPy "
        "arrays to NumPy arrays, with checks, discretisation and transfers. `predict_pattern` runs the network on "
        "stacked channels, `predict` gives physical values, on the device from masks and sources that lie there to "
        "fields that stay, `verify` predicts and solves exactly. An eighth of the cases is drawn, the others are these "
        "turned and mirrored, so that no two are equal; masks are bool, sources float64, one value per pixel. Heat "
        "takes ten steps of the solver, and of the network a prediction for each time and one for its size, at 2 s.",
        f"Machine: {gpu}torch {torch.__version__}; {processor()}.",
        as_table(rows),
    ]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--compiled", nargs="*", default=["poisson", "advection-diffusion-high"], choices=list(CASES))
    parser.add_argument("--cases", type=int, nargs="+", help="at once, instead of those of each problem")
    parser.add_argument("--resolution", type=int, help="the problem's own unless given")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--seconds", type=float, default=1.0, help="to spend on each measurement, about")
    parser.add_argument("--out", type=Path, help="a JSON file for what was measured")
    parser.add_argument("--write", type=Path, help="where to write the page")
    options = parser.parse_args(arguments)
    device = find_device(options.device)
    rows = []
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The network was trained on", UserWarning)  # of another resolution
        for problem in options.problems:
            for cases in options.cases or CASES[problem]:
                rows += measure(problem, cases, options, device)
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(rows, indent=2) + "\n")
    publish(page(rows, device), options.write)


if __name__ == "__main__":
    main()
