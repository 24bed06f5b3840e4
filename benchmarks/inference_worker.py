"""Prepare all ways of one problem, and measure them on request.

    echo measure | python benchmarks/inference_worker.py --problem poisson --ways "torch float32" "exact batched"

The script prepares, prints "ready", waits for a line on standard input, and prints a line of JSON for each way. If a
way fails, its line says so.
"""

import argparse
import json
import signal
import traceback
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import torch

from disol._devices import find_device
from inference_subject import describe, subject_of
from inference_ways import PREDICTED, WAYS, Measure, Setting
from report import processor
from workers import Row, listen_for_the_word

Result = TypeVar("Result")


def attempt(step: Callable[[], Result]) -> Result | Row:
    """Take a step, or return a row that says why it failed, so that the other ways continue."""
    try:
        return step()
    except Exception as error:
        traceback.print_exc()
        return {"error": " ".join(f"{type(error).__name__}: {error}".split())[:200]}


def prepare_in_time(ways: list[str], setting: Setting, limit: float) -> dict[str, Measure | Row]:
    """Prepare ways one after the other; when time is up, interrupt the present one and fail those after it."""
    late = f"not prepared within {limit:g} s"

    def stop(*_: object) -> None:
        raise TimeoutError(late)

    def has_time() -> bool:
        return signal.getitimer(signal.ITIMER_REAL)[0] > 0

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, limit)
    prepared: dict[str, Measure | Row] = {}
    for way in ways:
        prepared[way] = attempt(partial(WAYS[way].prepare, setting)) if has_time() else {}
        if not has_time() and not callable(prepared[way]):
            prepared[way] = {"error": late}  # torch raises other errors when its compiler is interrupted
    signal.setitimer(signal.ITIMER_REAL, 0)
    return prepared


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problem", required=True, choices=list(PREDICTED))
    parser.add_argument("--ways", required=True, nargs="+", choices=list(WAYS))
    parser.add_argument("--device", default="auto")
    parser.add_argument("--seconds", type=float, default=0.3, help="time for each measurement")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch and ONNX Runtime on the CPU")
    parser.add_argument("--most-cases", type=int, help="largest batch; default: that of the problem")
    parser.add_argument("--limit", type=float, default=200.0, help="most seconds to prepare")
    options = parser.parse_args()
    tell_and_wait = listen_for_the_word()
    torch.set_num_threads(options.threads)
    device, subject = find_device(options.device), subject_of(options.problem)
    setting = Setting(subject, device, options.seconds, options.most_cases)
    prepared = prepare_in_time(options.ways, setting, options.limit)
    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else ""
    if gpu:
        torch.cuda.empty_cache()  # others use the same GPU
    tell_and_wait()
    known = describe(subject) | {"gpu": gpu, "machine": f"torch {torch.__version__}; {processor()}"}
    for way, found in prepared.items():
        row = attempt(found) if callable(found) else found
        print(json.dumps({"way": way} | known | row), flush=True)


if __name__ == "__main__":
    main()
