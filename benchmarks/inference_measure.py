"""How long a run takes, and how long it would take at best: times, bytes and operations of networks."""

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

SERIES = 9  # runs that are counted before the next one has its turn
NUMBER_BYTES = {"float32": 4, "bfloat16": 2}
Run = Callable[[], object]


def seconds(run: Run, budget: float) -> float:
    """Return the median time of a run, as `seconds_in_turns` does."""
    return seconds_in_turns({"": run}, budget)[""]


def seconds_in_turns(runs: Mapping[str, Run], budget: float) -> dict[str, float]:
    """Return the median time of each run, over as many as a budget for each allows, at least two.

    They take turns in series, so that a busy machine does not favour any. The first run of a series is not counted,
    because the threads of the run before are still waiting for work.
    """
    times: dict[str, list[float]] = {name: [] for name in runs}
    spent = 0.0
    while spent < budget * len(runs) or not all(times.values()):
        for name, run in runs.items():
            first = duration(run)
            counted = series(run, budget / 3)
            times[name] += counted
            spent += first + sum(counted)
    return {name: statistics.median(found) for name, found in times.items()}


def series(run: Run, budget: float) -> list[float]:
    """Return the times of at least two runs, more within a budget."""
    times: list[float] = []
    while len(times) < 2 or (len(times) < SERIES and sum(times) < budget):
        times.append(duration(run))
    return times


def duration(run: Run) -> float:
    """Return the time of one run, including the work of a GPU."""
    start = time.perf_counter()
    run()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start


def copy_bandwidth(device: torch.device) -> float:
    """Measure the bytes read and written per second by a copy that is larger than any cache."""
    source = torch.zeros(2**28 if device.type == "cuda" else 2**26, device=device)
    target = torch.empty_like(source)
    return 2 * source.nbytes / seconds(lambda: target.copy_(source), 0.2)


def bytes_per_case(network: nn.Module, inputs: np.ndarray, precision: str) -> int:
    """Count the bytes that one prediction moves at the memory-bound limit.

    The inputs are read once, the output of every convolution is written and read, and the prediction is written, all in
    the precision of the engine. Everything else (normalisation, activations, gates, interpolation, weights) is taken to
    be free.
    """
    case = torch.from_numpy(inputs[:1])
    with counted_outputs(network) as numbers, torch.inference_mode():
        prediction = network(case)
    return (case.numel() + 2 * sum(numbers) + prediction.numel()) * NUMBER_BYTES[precision]


@contextmanager
def counted_outputs(network: nn.Module) -> Iterator[list[int]]:
    """Collect how many numbers each convolution returns."""
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


def operations_per_case(network: nn.Module, inputs: np.ndarray) -> int:
    """Count the multiplications and additions of one prediction."""
    with FlopCounterMode(display=False) as counter, torch.inference_mode():
        network(torch.from_numpy(inputs[:1]))
    return int(counter.get_total_flops())


def relative_difference(found: np.ndarray, reference: np.ndarray) -> float:
    """Return the median over cases of ‖found − reference‖ / ‖reference‖."""
    gaps, sizes = (np.sqrt((array**2).reshape(len(array), -1).sum(1)) for array in (found - reference, reference))
    return float(np.median(gaps / sizes))
