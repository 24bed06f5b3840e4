"""Time the generation of whole data sets, from the seed to the finished file, in cases per second.

With `--device cuda` worker processes draw and the GPU solves. With `--device cpu` the workers do both, by the reference
solver. `--workers 1,2` repeats each run with one worker and with two.
"""

import argparse
import tempfile
from pathlib import Path

from disol.data import generate
from report import processor, publish, table

DATA_SETS = {
    "poisson": 50_000,
    "advection-diffusion-low": 50_000,
    "advection-diffusion-high": 50_000,
    "elasticity": 50_000,
    "heat": 10_000,
}


def machine(device: str) -> str:
    """Name the machine that generates the data."""
    if device == "cpu":
        return processor()
    import torch  # noqa: PLC0415  worker processes import this module, and importing torch takes seconds

    return f"{torch.cuda.get_device_name()}, torch {torch.__version__}; {processor()}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", nargs="+", default=list(DATA_SETS))
    parser.add_argument("--device", default="cuda", choices=["cpu", "cuda"])
    parser.add_argument("--workers", default="", help="numbers of workers to compare, as in 1,2")
    parser.add_argument("--fraction", type=float, default=1.0, help="share of the whole data set")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--write", type=Path, help="where to write the page")
    options = parser.parse_args()
    counts: list[int | None] = [int(count) for count in options.workers.split(",") if count] or [None]
    rows = []
    for problem in options.problems:
        for workers in counts:
            path = options.folder / f"benchmark-{problem}.h5"
            path.unlink(missing_ok=True)
            cases = round(options.fraction * DATA_SETS[problem])
            report = generate(problem, cases, path, device=options.device, workers=workers)
            size = path.stat().st_size / 1e9
            path.unlink()
            rows.append(
                [problem, str(cases), str(workers or "all"), f"{report.seconds:.1f}", f"{report.cases_per_second:.0f}"]
                + [str(report.fallbacks), f"{size:.2f}"]
            )
            print(rows[-1], flush=True)
    heading = ["problem", "cases", "workers", "seconds", "cases/s", "fallbacks", "file, GB"]
    publish(
        [
            "# Generating data",
            f"Written by `python benchmarks/generation.py --device {options.device}`.",
            "Times run from the start of the call to the complete file. They include drawing, solving, checking and "
            "writing. Heat has 25 frames per case, up to 50 s. A *fallback* is a case that the reference solver solved "
            "because the batched solver missed its tolerance.",
            f"Machine: {machine(options.device)}.",
            table(heading, rows),
        ],
        options.write,
    )


if __name__ == "__main__":
    main()
