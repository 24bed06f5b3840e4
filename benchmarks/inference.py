"""Time predictions by every engine, against the exact solvers and against the bandwidth of the memory.

    python benchmarks/inference.py --device cpu                                   one case and 64 of them
    python benchmarks/inference.py --device cuda --model runs/poisson runs/heat   with trained weights
    python benchmarks/inference.py --problems poisson --seconds 0.2               a short look

Networks have their published size. Without --model their weights are random, which is as fast but says nothing about
the error of low precision.

The memory-bound limit of a network is the time to move, at the measured bandwidth of a copy, its inputs once, the
output of every convolution twice (written, then read) and its predictions once, each number in the precision of the
engine. All else (normalisation, activations, gates, interpolation, weights) is taken to be free.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from threadpoolctl import threadpool_limits
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import disol
from disol.devices import find_device
from disol.fem import ELEMENTS, forms
from disol.inference.engines import build_engine
from disol.inference.torch_engines import TorchEngine
from disol.models import Network, create_model, load_checkpoint
from disol.solvers import BatchSettings, solve_batch, step_batch
from report import processor, publish, table
from solvers import Workload, batch_of

# Cases at once on a GPU, predicted and solved.
PREDICTED = {
    "poisson": 4096,
    "advection-diffusion-low": 1024,
    "advection-diffusion-high": 1024,
    "elasticity": 256,
    "heat": 512,
}
SOLVED = PREDICTED | {"poisson": 2048, "heat": 256}
DEFAULT = ["poisson", "advection-diffusion-high", "elasticity", "heat"]  # both Péclet numbers have one network
CPU_BATCH = 64
NUM_DRAWN = 16
SERIES = 10
Predict = Callable[[np.ndarray], np.ndarray]
HEAT_TIME = 20.0
HEAT_STEPS = 10


@dataclass(frozen=True, eq=False)
class Subject:
    """A network, and cases for it."""

    problem: str
    network: Network
    cases: list[disol.Case]
    trained: bool

    def inputs(self, batch: int) -> np.ndarray:
        """Stack cases, in turns; what they hold does not change how long they take."""
        return np.stack([self.cases[index % len(self.cases)].inputs for index in range(batch)])


def subjects(problems: list[str], folders: list[Path]) -> Iterator[Subject]:
    """Yield a network for each problem, with trained weights where they are given."""
    checkpoints = {found.problem.name: found for found in map(load_checkpoint, folders)}
    for problem in problems:
        checkpoint = checkpoints.get(problem)
        if checkpoint is None:
            torch.manual_seed(0)
            network, settings = create_model("disol", problem).eval(), {}
        else:
            network = checkpoint.model
            settings = {"conventions": checkpoint.conventions, "resolution": checkpoint.resolution}
        cases = [disol.draw(problem, 5, index, **settings) for index in range(NUM_DRAWN)]
        yield Subject(problem, network, cases, trained=checkpoint is not None)


def seconds(run: Callable[[], object], budget: float) -> float:
    """Return the median time of a run, as `seconds_in_turns` does."""
    return seconds_in_turns({"": run}, budget)[""]


def seconds_in_turns(runs: Mapping[str, Callable[[], object]], budget: float) -> dict[str, float]:
    """Return the median time of each run, over as many as a budget for each allows, two at least.

    They take turns in series, so that a busy machine does not favour any. The first run of a series is not counted: the
    threads of the one before are still waiting for work then.
    """
    times: dict[str, list[float]] = {name: [] for name in runs}
    spent = 0.0
    while spent < budget * len(runs) or not all(times.values()):
        for name, run in runs.items():
            series = [duration(run) for _ in range(SERIES)]
            times[name] += series[1:]
            spent += sum(series)
    return {name: statistics.median(found) for name, found in times.items()}


def duration(run: Callable[[], object]) -> float:
    """Return the time of one run, a GPU's work included."""
    start = time.perf_counter()
    run()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start


def milliseconds(time_taken: float) -> str:
    return f"{1e3 * time_taken:.1f}"


def cpu_rows(subject: Subject, engines: list[str], budget: float) -> list[list[str]]:
    """Time every engine on one case and on many, and the exact reference solver on one."""
    settings = {"times": [HEAT_TIME]} if subject.problem == "heat" else {}
    with threadpool_limits(limits=1):
        exact = statistics.median(
            seconds(partial(disol.solve_exact, case, **settings), 0.0) for case in subject.cases[:5]
        )
    single, many = subject.inputs(1), subject.inputs(CPU_BATCH)
    ready: dict[str, Predict] = {"plain network": partial(plain_prediction, subject.network)}
    ready |= {name: build_engine(subject.network, engine=name, device="cpu") for name in engines}
    waits = {name: duration(partial(engine, single)) for name, engine in ready.items()}
    alone = seconds_in_turns({name: partial(engine, single) for name, engine in ready.items()}, budget)
    batched = seconds_in_turns({name: partial(engine, many) for name, engine in ready.items()}, budget)
    rows = []
    for name in ready:
        columns = [milliseconds(alone[name]), milliseconds(batched[name] / CPU_BATCH), milliseconds(exact)]
        times_faster = [f"{other / alone[name]:.1f}" for other in (alone["plain network"], exact)]
        rows.append([subject.problem, name, f"{waits[name]:.1f}", *columns, *times_faster])
        print(rows[-1], flush=True)
    return rows


@torch.inference_mode()
def plain_prediction(network: Network, inputs: np.ndarray) -> np.ndarray:
    """Call a network as it is: the rival of the engines."""
    return network(torch.from_numpy(inputs)).numpy()


def gpu_rows(subject: Subject, device: torch.device, budget: float, bandwidth: float) -> list[list[str]]:
    """Time torch and compiled torch in two precisions, on one case and on many."""
    reference = build_engine(subject.network)(subject.inputs(NUM_DRAWN))
    rows = []
    for name, precision in (("torch", "float32"), ("compiled", "float32"), ("compiled", "bfloat16")):
        engine = build_engine(subject.network, engine=name, device=device, precision=precision)
        assert isinstance(engine, TorchEngine)
        limit = bytes_per_case(subject, precision) / bandwidth
        for batch in (1, PREDICTED[subject.problem]):
            inputs = subject.inputs(batch)
            wait = duration(partial(engine, inputs))
            on_device = seconds(resident_run(engine, inputs), budget) / batch
            through_numpy = seconds(partial(engine, inputs), budget) / batch
            error = relative_error(engine(inputs)[:NUM_DRAWN], reference[:batch])
            rows.append(
                [subject.problem, name, precision, str(batch), f"{wait:.1f}", f"{1e6 * on_device:.2f}"]
                + [f"{1e6 * through_numpy:.2f}", f"{1e6 * limit:.2f}", f"{100 * limit / on_device:.0f} %"]
                + [f"{gigaflops(subject) / on_device / 1e3:.1f}", f"{error:.1e}"]
            )
            print(rows[-1], flush=True)
    return rows


def resident_run(engine: TorchEngine, inputs: np.ndarray) -> Callable[[], object]:
    """Return a run on cases that are on the device already, as many at once as the engine takes."""
    cases = torch.from_numpy(inputs).to(engine.device)
    chunks = torch.split(cases, engine.cases_at_once(len(cases), (inputs.shape[2], inputs.shape[3])))
    return lambda: [engine.on_device(chunk) for chunk in chunks]


def solver_row(subject: Subject, device: torch.device, budget: float) -> list[str]:
    """Time the batched exact solver on one case and on many, each solution checked."""
    resolution = subject.cases[0].resolution
    operator, loads, initial = batch_of(Workload(subject.problem, resolution, 0), SOLVED[subject.problem], device)
    mass = torch.from_numpy(forms.mass(ELEMENTS["q1"](1 / resolution))).to(loads)

    def solve(batch: int) -> float:
        settings = BatchSettings(chunk=batch)
        if subject.problem == "heat":
            return seconds(
                lambda: step_batch(operator[:batch], mass, loads[:batch], initial[:batch], [HEAT_STEPS], settings),
                budget,
            )
        return seconds(lambda: solve_batch(operator[:batch], loads[:batch], settings), budget)

    many = len(operator)
    return [subject.problem, milliseconds(solve(1)), str(many), f"{1e6 * solve(many) / many:.1f}"]


def relative_error(found: np.ndarray, reference: np.ndarray) -> float:
    """Return the median over cases of the relative L2 difference."""
    gaps, sizes = (np.sqrt((array**2).reshape(len(array), -1).sum(1)) for array in (found - reference, reference))
    return float(np.median(gaps / sizes))


def bytes_per_case(subject: Subject, precision: str) -> int:
    """Count the traffic of the memory-bound limit."""
    inputs = torch.from_numpy(subject.inputs(1))
    with counted_outputs(subject.network) as numbers, torch.inference_mode():
        prediction = subject.network(inputs)
    return (inputs.numel() + 2 * sum(numbers) + prediction.numel()) * (2 if precision == "bfloat16" else 4)


@contextmanager
def counted_outputs(network: Network) -> Iterator[list[int]]:
    """Gather how many numbers each convolution returns."""
    numbers: list[int] = []
    handles = [
        module.register_forward_hook(lambda _module, _inputs, output: numbers.append(output.numel()))
        for module in network.modules()
        if isinstance(module, nn.Conv2d)
    ]
    try:
        yield numbers
    finally:
        for handle in handles:
            handle.remove()


def gigaflops(subject: Subject) -> float:
    """Count the multiplications and additions of one prediction, in 10⁹."""
    with FlopCounterMode(display=False) as counter, torch.inference_mode():
        subject.network(torch.from_numpy(subject.inputs(1)))
    return counter.get_total_flops() / 1e9


def copy_bandwidth(device: torch.device) -> float:
    """Measure bytes read and written per second by a copy that no cache can hold."""
    source = torch.zeros(2**28 if device.type == "cuda" else 2**26, device=device)
    target = torch.empty_like(source)
    return 2 * source.nbytes / seconds(lambda: target.copy_(source), 0.2)


def cpu_page(measured: list[Subject], options: argparse.Namespace) -> list[str]:
    torch.set_num_threads(options.threads)
    default = ["torch", "onnx", "compiled"] if options.device == "cpu" else ["torch", "onnx"]
    engines = ["torch", *(name for name in options.cpu_engines or default if name != "torch")]
    rows = [row for subject in measured for row in cpu_rows(subject, engines, options.seconds)]
    heading = ["problem", "engine", "ready after, s", "one case, ms", f"each of {CPU_BATCH}, ms"]
    heading += ["exact solver, ms", "times faster than plain", "than the exact solver"]
    return [
        f"## On a CPU\n\nMedian times with {options.threads} threads in float32, from NumPy arrays to NumPy arrays; "
        "the exact reference solver has one thread, assembly included, and for heat takes 10 steps to 20 s. "
        "`ready after` is the first prediction. `plain network` calls the network as it is, eagerly; the last columns "
        "compare single cases with it and with the exact solver.",
        table(heading, rows),
    ]


def gpu_page(measured: list[Subject], options: argparse.Namespace, device: torch.device) -> list[str]:
    bandwidth = copy_bandwidth(device)
    rows = [row for subject in measured for row in gpu_rows(subject, device, options.seconds, bandwidth)]
    solved = [solver_row(subject, device, options.seconds) for subject in measured]
    heading = ["problem", "engine", "precision", "cases", "ready after, s", "us/case on the GPU", "us/case from NumPy"]
    heading += ["memory-bound limit, us/case", "reached", "TFLOP/s", "relative difference from a CPU"]
    return [
        "## On a GPU\n\nMedian microseconds per case, of a single case and in large batches that lie on the GPU, and "
        "from NumPy arrays to NumPy arrays, transfers included. `float32` convolutions round to TensorFloat32, as is "
        "torch's default. The limit is the time to move the inputs once, the output of every convolution twice and "
        f"the predictions once, at the {bandwidth / 1e12:.2f} TB/s of a copy here; all else is taken to be free. The "
        f"last column is the median relative L2 difference from float32 on a CPU, over {NUM_DRAWN} drawn cases where "
        "that many are predicted.",
        table(heading, rows),
        "The batched exact solver on the same GPU, every solution checked (heat: 10 steps to 20 s):",
        table(["problem", "one case, ms", "cases at once", "us/case"], solved),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--problems", nargs="+", default=DEFAULT, choices=list(PREDICTED))
    parser.add_argument("--model", nargs="+", type=Path, default=[], help="folders of trained models")
    parser.add_argument("--seconds", type=float, default=0.5, help="to spend on each measurement")
    parser.add_argument("--threads", type=int, default=2, help="of torch and ONNX Runtime on the CPU")
    parser.add_argument("--parts", nargs="+", default=["gpu", "cpu"], choices=["gpu", "cpu"], help="of the page")
    parser.add_argument("--cpu-engines", nargs="*", help="to time on the CPU besides torch; without a GPU all")
    parser.add_argument("--write", type=Path, help="where to write the page")
    options = parser.parse_args()
    device = find_device(options.device)
    measured = list(subjects(options.problems, options.model))
    trained = ", ".join(subject.problem for subject in measured if subject.trained)
    gpu = f"{torch.cuda.get_device_name(device)}, " if device.type == "cuda" else ""
    publish(
        [
            "# Inference",
            f"Written by `python benchmarks/inference.py {' '.join(sys.argv[1:])}`: predictions by networks of the "
            f"published size, with {f'trained weights for {trained}, else ' if trained else ''}random weights. Both "
            "Péclet numbers of advection-diffusion have the same network.",
            f"Machine: {gpu}torch {torch.__version__}; {processor()}.",
            *(gpu_page(measured, options, device) if device.type == "cuda" and "gpu" in options.parts else []),
            *(cpu_page(measured, options) if "cpu" in options.parts else []),
        ],
        options.write,
    )


if __name__ == "__main__":
    main()
