"""Time the shipped models in every engine, against the exact solvers and against the memory bandwidth.

    python benchmarks/inference.py --write docs                              measure all this machine can, write pages
    python benchmarks/inference.py --problems poisson --device cpu           a first look
    python benchmarks/inference.py --parts --write docs                      write the pages again, without measuring

A problem without a shipped model is timed with a network of the published size and random weights. That is as fast, but
says nothing about errors.

Every problem has a process of its own. All prepare at the same time, which is mostly compiling, and measure one after
the other. Every result is kept in a file in `--out` as soon as it is known, and is not measured again with the same
weights. An interrupted run is continued; a run with nothing left to measure writes the pages.

With measurements on a GPU, the pages are `benchmarks.md` (the summary) and `benchmarks/inference.md` (the details), in
the folder that `--write` names. Without them, the page is `benchmarks/inference-cpu.md`.
"""

import argparse
import signal
import sys
from functools import partial
from pathlib import Path

from disol._devices import find_device
from inference_page import details
from inference_rows import Rows, keep_row, known_rows, measured, missing_ways, rows_of, without_trials
from inference_subject import model_of, weights_of, with_errors_of_today
from inference_summary import summary
from inference_ways import PREDICTED
from report import publish
from workers import Task, measure_all

WORKER = Path(__file__).with_name("inference_worker.py")
DOCS = Path(__file__).parents[1] / "docs"


def measure_missing(options: argparse.Namespace) -> None:
    """Measure what is not known yet, of the chosen problems and parts."""
    known, device = known_rows(options.out), find_device(options.device).type
    command = [sys.executable, str(WORKER), "--device", options.device, "--seconds", str(options.seconds)]
    command += ["--threads", str(options.threads), "--limit", str(options.limit)]
    command += ["--most-cases", str(options.most_cases)] if options.most_cases else []
    tasks = []
    for problem in options.problems:
        _, model = model_of(problem)
        ways = missing_ways(known.get(problem, {}), options.parts, weights_of(model), device)
        rows = [{"problem": problem, "way": way} for way in ways]
        tasks += [Task(problem, [*command, "--problem", problem, "--ways", *ways], rows)] if ways else []
    # A worker gives up what is late by itself and measures the rest; the doubled limit is for a worker that cannot.
    measure_all(tasks, partial(keep_row, options.out), 2 * options.limit)


def write_pages(rows: Rows, folder: Path | None) -> None:
    """Print the pages for which there are measurements, and write them if a folder is given."""
    docs = folder or DOCS
    if not measured(rows):
        print("Nothing was measured, so there is no page to write.")
        return
    on_gpu = bool(rows_of("gpu", rows))
    detailed = docs / "benchmarks" / ("inference.md" if on_gpu else "inference-cpu.md")
    publish(details(rows), detailed if folder else None)
    if on_gpu:
        publish(summary(rows, docs / "benchmarks", bool(folder)), docs / "benchmarks.md" if folder else None)
    else:
        print("\nNothing was measured on a GPU, so benchmarks.md is not written.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--problems", nargs="+", default=list(PREDICTED), choices=list(PREDICTED))
    parser.add_argument("--parts", nargs="*", choices=["gpu", "cpu"], help="parts to measure; none: only write pages")
    parser.add_argument("--seconds", type=float, default=0.3, help="time for each measurement")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch and ONNX Runtime on the CPU")
    parser.add_argument("--most-cases", type=int, help="largest batch on the GPU, for a trial")
    parser.add_argument("--limit", type=float, default=200.0, help="most seconds to prepare everything")
    parser.add_argument("--out", type=Path, default=Path("runs/inference"), help="folder of results")
    parser.add_argument("--write", type=Path, help="folder of the pages, such as docs")
    options = parser.parse_args()
    if options.parts is None:
        options.parts = ["gpu", "cpu"] if find_device(options.device).type == "cuda" else ["cpu"]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # an exit also ends the workers
    measure_missing(options)
    known = without_trials(known_rows(options.out))
    write_pages({problem: with_errors_of_today(problem, rows) for problem, rows in known.items()}, options.write)


if __name__ == "__main__":
    main()
