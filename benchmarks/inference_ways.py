"""The ways from a case to its solution that are timed.

Preparing a way compiles and calls everything once. It returns a function that measures, and compiles nothing.
"""

import copy
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Literal

import numpy as np
import torch
from threadpoolctl import threadpool_limits
from torch import nn

import disol
from disol.fem import ELEMENTS, forms
from disol.problems.problem import TRAINED_UNTIL
from disol.solvers import BatchSettings, solve_batch, step_batch
from disol.surrogate.engines import TorchEngine, build_engine
from inference_measure import (
    Run,
    bytes_per_case,
    copy_bandwidth,
    duration,
    operations_per_case,
    relative_difference,
    seconds,
    seconds_in_turns,
)
from inference_plain import PlainEngine
from inference_subject import NUM_DRAWN, Subject
from solvers import Workload, batch_of
from workers import Row

# Cases at once on a GPU, predicted and solved.
PREDICTED = {
    "poisson": 4096,
    "advection-diffusion-low": 1024,
    "advection-diffusion-high": 1024,
    "elasticity": 256,
    "heat": 512,
}
SOLVED = PREDICTED | {"poisson": 2048, "heat": 256}
CPU_BATCH = 8
PLAIN = "plain network"
Measure = Callable[[], Row]
Predict = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class Setting:
    """The setting of every way.

    budget       seconds for each measurement
    most_cases   largest batch, if smaller than usual
    """

    subject: Subject
    device: torch.device
    budget: float
    most_cases: int | None

    def batches(self, many: dict[str, int]) -> list[int]:
        """Return the batches to time: one case and many."""
        usual = many[self.subject.problem]
        return [1, min(usual, self.most_cases or usual)]


@cache
def engine_of(setting: Setting, name: str, precision: str) -> TorchEngine:
    """Build an engine once, for all ways that use it, because compiling takes long."""
    checkpoint, device = setting.subject.checkpoint, str(setting.device)
    engine = build_engine(checkpoint.network, checkpoint.problem, engine=name, device=device, precision=precision)
    assert isinstance(engine, TorchEngine)
    return engine


@cache
def cpu_prediction(setting: Setting) -> np.ndarray:
    """Predict the drawn cases in float32 on a CPU, as the reference for other engines."""
    checkpoint = setting.subject.checkpoint
    return build_engine(checkpoint.network, checkpoint.problem)(setting.subject.inputs(NUM_DRAWN))


def plain_engine(setting: Setting) -> TorchEngine:
    """Build the rival of the engines."""
    checkpoint = setting.subject.checkpoint
    return PlainEngine(copy.deepcopy(checkpoint.network).eval(), checkpoint.problem, setting.device, "float32")


def prepare_network(setting: Setting, build: Callable[[Setting], TorchEngine]) -> Measure:
    """Predict patterns with torch, eager or compiled."""
    subject, network = setting.subject, setting.subject.checkpoint.network
    engine, reference = build(setting), cpu_prediction(setting)
    inputs = [subject.inputs(batch) for batch in setting.batches(PREDICTED)]
    waits = [duration(partial(engine, each)) for each in inputs]

    def measure() -> Row:
        batches = []
        for each, wait in zip(inputs, waits, strict=True):
            batch = {
                "cases": len(each),
                "ready_after": wait,
                "seconds": seconds(resident_run(engine, each), setting.budget) / len(each),
                "from_numpy": seconds(partial(engine, each), setting.budget) / len(each),
                "difference": relative_difference(engine(each)[:NUM_DRAWN], reference[: len(each)]),
            }
            batches.append(batch)
        return {
            "batches": batches,
            "bandwidth": copy_bandwidth(setting.device),
            "bytes_per_case": bytes_per_case(network, inputs[0], engine.precision),
            "operations_per_case": operations_per_case(network, inputs[0]),
        }

    return measure


def resident_run(engine: TorchEngine, inputs: np.ndarray) -> Run:
    """Return a run on cases that are on the device, as many at once as the engine takes."""
    cases = torch.from_numpy(inputs).to(engine.device)
    at_once = engine.cases_at_once(len(cases), (inputs.shape[2], inputs.shape[3]))
    chunks = torch.split(cases, at_once)
    return lambda: [engine.run(chunk, at_once) for chunk in chunks]


def prepare_verification(setting: Setting) -> Measure:
    """Predict and solve exactly, from NumPy arrays to NumPy arrays."""
    engine = engine_of(setting, "compiled", "bfloat16")
    surrogate = disol.Surrogate(setting.subject.checkpoint, engine)
    runs = {batch: partial(surrogate.verify, **setting.subject.data(batch)) for batch in setting.batches(SOLVED)}
    return prepare_runs(runs, setting.budget)


def prepare_exact(setting: Setting) -> Measure:
    """Solve systems that are on the device with the exact batched solver, and check every solution."""
    problem, resolution = setting.subject.checkpoint.problem, setting.subject.checkpoint.resolution
    _, many = setting.batches(SOLVED)
    operator, loads, initial = batch_of(Workload(problem.name, resolution, many), many, setting.device)
    mass = torch.from_numpy(forms.mass(ELEMENTS["q1"](1 / resolution))).to(loads)
    frames = problem.frames([TRAINED_UNTIL])

    def solve(batch: int) -> object:
        settings = BatchSettings(chunk=batch)
        if frames.steps is None:
            return solve_batch(operator[:batch], loads[:batch], settings)
        last = [frames.steps[place] for place in frames.asked]
        return step_batch(operator[:batch], mass, loads[:batch], initial[:batch], last, settings)

    return prepare_runs({batch: partial(solve, batch) for batch in (1, len(operator))}, setting.budget)


def prepare_runs(runs: Mapping[int, Run], budget: float) -> Measure:
    """Call every run once; the runs are by their number of cases, and times are per case."""
    for run in runs.values():
        run()
    return lambda: {
        "batches": [{"cases": cases, "seconds": seconds(run, budget) / cases} for cases, run in runs.items()]
    }


def prepare_cpu(setting: Setting) -> Measure:
    """Predict with every engine on a CPU, and solve exactly with the reference solver in one thread."""
    subject = setting.subject
    single, many = subject.inputs(1), subject.inputs(CPU_BATCH)
    engines, refused = cpu_engines(setting)
    waits = {name: duration(partial(engine, single)) for name, engine in engines.items()}
    for engine in engines.values():
        engine(many)

    def measure() -> Row:
        with threadpool_limits(limits=1):
            times = subject.times.get("times")
            solutions = [partial(disol.solve_exact, case, times=times, device="cpu") for case in subject.cases[:5]]
            reference = statistics.median(seconds(solve, setting.budget / 5) for solve in solutions)
        alone = seconds_in_turns({name: partial(engine, single) for name, engine in engines.items()}, setting.budget)
        batched = seconds_in_turns({name: partial(engine, many) for name, engine in engines.items()}, setting.budget)
        found = {
            name: {"ready_after": waits[name], "one": alone[name], "many": batched[name] / CPU_BATCH}
            for name in engines
        }
        return {"reference": reference, "engines": found, "refused": refused, "threads": torch.get_num_threads()}

    return measure


def cpu_engines(setting: Setting) -> tuple[dict[str, Predict], dict[str, str]]:
    """Build the engines of a CPU, and say why others cannot be built; beside a GPU none is compiled."""
    network, problem = setting.subject.checkpoint.network, setting.subject.checkpoint.problem
    engines: dict[str, Predict] = {PLAIN: partial(plain_prediction, network)}
    refused = {}
    for name in ("torch", "onnx", *(["compiled"] if setting.device.type == "cpu" else [])):
        try:
            engines[name] = build_engine(network, problem, engine=name, device="cpu")
        except disol.DisolError as error:
            refused[name] = str(error)
    return engines, refused


@torch.inference_mode()
def plain_prediction(network: nn.Module, inputs: np.ndarray) -> np.ndarray:
    """Call a network as it is: the rival of the engines."""
    return network(torch.from_numpy(inputs)).numpy()


@dataclass(frozen=True)
class Way:
    """A way to a solution, and the part of the measurements it belongs to."""

    part: Literal["gpu", "cpu"]
    prepare: Callable[[Setting], Measure]


def network_way(name: str, precision: str) -> Way:
    """Return the way of an engine."""
    return Way("gpu", partial(prepare_network, build=lambda setting: engine_of(setting, name, precision)))


RIVAL, EAGER, FAST = "plain float32", "torch float32", "compiled bfloat16"
VERIFICATION, EXACT, CPU = "model.verify", "exact batched", "cpu"
# In the order of preparation: what compiles comes last, and is missing first if time runs out.
WAYS = {
    RIVAL: Way("gpu", partial(prepare_network, build=plain_engine)),
    EAGER: network_way("torch", "float32"),
    EXACT: Way("gpu", prepare_exact),
    CPU: Way("cpu", prepare_cpu),
    FAST: network_way("compiled", "bfloat16"),
    VERIFICATION: Way("gpu", prepare_verification),
    "compiled float32": network_way("compiled", "float32"),
}
