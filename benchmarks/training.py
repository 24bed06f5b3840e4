"""Cases per second of training: a plain loop of the published recipe, and what each step away from it buys.

    python benchmarks/training.py --write docs/benchmarks/training.md
    python benchmarks/training.py --problems poisson elasticity --out runs/training-speed

Every way to train has a process of its own. What was measured is kept in a file of `--out` as soon as it is known, and
is not measured again: a run that was cut off goes on where it was, and one with nothing left to do writes the page.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

from report import publish, table
from training_variants import FAST, RIVAL, VARIANTS

RESULTS = "training.jsonl"
WORKER = Path(__file__).with_name("training_variants.py")
PROBLEMS = ["poisson", "advection-diffusion-low", "advection-diffusion-high", "elasticity", "heat"]
HEADING = ["problem", "variant", "batch", "cases/s", "times the rival", "times the row above"]
HEADING += ["memory-bound limit, cases/s", "reached", "GiB", "ready after, s"]
Row = dict[str, Any]


def read_rows(out: Path) -> dict[tuple[str, str], Row]:
    """Return what is known, by problem and variant; what was measured later counts."""
    path = out / RESULTS
    lines = path.read_text().splitlines() if path.exists() else []
    rows = [json.loads(line) for line in lines]
    return {(row["problem"], row["variant"]): row for row in rows}


def add_row(out: Path, row: Row) -> None:
    """Keep a row at once, and say so."""
    out.mkdir(parents=True, exist_ok=True)
    with (out / RESULTS).open("a") as file:
        file.write(json.dumps(row) + "\n")
    print(row["problem"], row["variant"], row.get("error") or f"{row['cases_per_second']:.0f} cases/s", flush=True)


def measure(variant: str, data: Path, options: argparse.Namespace) -> Row:
    """Measure a variant in a process of its own; one that fails is a row that says so."""
    command = [sys.executable, str(WORKER), "--variant", variant, "--data", str(data)]
    command += ["--device", options.device, "--seconds", str(options.seconds)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=options.limit, check=False)
    except subprocess.TimeoutExpired:
        return {"error": f"not done after {options.limit:g} s"}
    if done.returncode == 0:
        return dict(json.loads(done.stdout.splitlines()[-1]))
    sys.stderr.write(done.stderr)
    said = [line for line in done.stderr.splitlines() if line.strip()]
    return {"error": said[-1].strip()[:200] if said else f"exit status {done.returncode}"}


def generate(problem: str, data: Path, options: argparse.Namespace) -> None:
    """Generate cases, in a process that leaves nothing on the device."""
    command = [sys.executable, "-m", "disol", "generate", problem, "--cases", str(options.cases), "--out", str(data)]
    command += ["--device", options.device]
    command += ["--resolution", str(options.resolution)] if options.resolution else []
    subprocess.run(command, check=True)


def measure_missing(problem: str, options: argparse.Namespace) -> None:
    """Measure the variants of a problem that are not known yet, all on the same cases."""
    known = read_rows(options.out)
    missing = [name for name in options.variants if "cases_per_second" not in known.get((problem, name), {})]
    if not missing:
        return
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / f"{problem}.h5"
        generate(problem, data, options)
        for name in missing:
            add_row(options.out, {"problem": problem, "variant": name, **measure(name, data, options)})


def written(row: Row, rival: Row, above: Row | None) -> list[str]:
    """Write a row of the table; `above` is the row before, if it has the same batch."""
    batch, name = VARIANTS[row["variant"]].batch, row["variant"]
    if "error" in row:
        failed = row["error"].replace("|", "/")
        return [row["problem"], name, str(batch), f"failed: {failed}", *["-"] * (len(HEADING) - 4)]
    limit = row["bandwidth"] / row["bytes_per_case"]
    return [
        row["problem"],
        name,
        str(batch),
        f"{row['cases_per_second']:.0f}",
        times(row, rival),
        times(row, above),
        f"{limit:.0f}",
        f"{100 * row['cases_per_second'] / limit:.0f} %",
        f"{row['gibibytes']:.1f}",
        f"{row['ready_after']:.0f}",
    ]


def times(row: Row, other: Row | None) -> str:
    """Write how many times as fast as another row a row is."""
    is_known = other is not None and "cases_per_second" in other
    return f"{row['cases_per_second'] / other['cases_per_second']:.2f}" if other and is_known else "-"


def table_rows(problem: str, rows: dict[tuple[str, str], Row]) -> list[list[str]]:
    """Write the rows of a problem in the order of the variants."""
    found = [rows[problem, name] for name in VARIANTS if (problem, name) in rows]
    rival = rows.get((problem, RIVAL), {})
    lines = []
    for position, row in enumerate(found):
        before = found[position - 1] if position else None
        same = before is not None and VARIANTS[before["variant"]].batch == VARIANTS[row["variant"]].batch
        lines.append(written(row, rival, before if same else None))
    return lines


def findings(problem: str, rows: dict[tuple[str, str], Row]) -> str:
    """Say what the numbers of a problem come to, as they are."""
    speed = {
        name: rows[problem, name]["cases_per_second"]
        for name in VARIANTS
        if "cases_per_second" in rows.get((problem, name), {})
    }
    if RIVAL not in speed or FAST not in speed:
        return f"{problem}: without the rival and the fast loop there is nothing to compare."
    best = max((name for name in speed if name != RIVAL), key=lambda name: speed[name])
    fast = rows[problem, best]
    reached = fast["cases_per_second"] * fast["bytes_per_case"] / fast["bandwidth"]
    chain = [name for name in speed if VARIANTS[name].batch == VARIANTS[RIVAL].batch]
    slower = [name for before, name in pairwise(chain) if speed[name] < speed[before]]
    lost = f" Not every step is a gain: slower than the row above is {', '.join(slower)}." if slower else ""
    return (
        f"{problem}: at the same batch the loop of this package trains {speed[FAST] / speed[RIVAL]:.1f} times as many "
        f"cases per second as the rival. Its best, {best} (batch {VARIANTS[best].batch}), is {speed[best]:.0f} "
        f"cases/s, {100 * reached:.0f} % of what the memory allows.{lost}"
    )


def page(rows: dict[tuple[str, str], Row]) -> list[str]:
    """Write down what was measured, and how."""
    measured = [row for row in rows.values() if "bandwidth" in row]
    bandwidths = sorted(row["bandwidth"] / 1e12 for row in measured)
    machines = sorted({row["machine"] for row in measured})
    problems = [problem for problem in PROBLEMS if any(known == problem for known, _ in rows)]
    bandwidth = f"{bandwidths[0]:.2f} to {bandwidths[-1]:.2f} TB/s" if bandwidths else "unknown"
    return [
        "# Training speed",
        f"Written by `python benchmarks/training.py --problems {' '.join(problems)}`. Networks of the published size; "
        "median of five rounds after a warm-up, the device synchronised around each. "
        f"`{RIVAL}` is the published recipe as anyone would write it: contiguous tensors, Adam, torch's own "
        "interpolation, TensorFloat32 in convolutions as is torch's default; its cases lie on the GPU already, which "
        "spares it a data loader. All other rows are the training loop of this package with its symmetries, clipped "
        "gradients and averaged weights, channels last, its own interpolation. From row to row one thing changes: "
        "`torch.compile`; bfloat16 with cuDNN's convolutions; our kernels for 3×3 convolutions of up to 64 channels; "
        "CUDA graphs; then the batch. `ready after` is the time of the first ten steps, compilation included; kernels "
        "that an earlier row compiled are reused.",
        f"Machine: {' and '.join(machines)}. A copy moves {bandwidth} (read and written).",
        table(HEADING, [line for problem in problems for line in table_rows(problem, rows)]),
        "The memory-bound limit counts the bytes that a training case must move: the output of every convolution "
        "written and read forward, read backward, its gradient written and read, in the precision of the row; inputs "
        "and targets read twice in float32. All else is taken to be free, so it is out of reach: "
        "normalisation, for one, needs its statistics before it can pass anything on.",
        *(findings(problem, rows) for problem in problems),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="+", default=["poisson"], choices=PROBLEMS)
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=list(VARIANTS))
    parser.add_argument("--seconds", type=float, default=5.0, help="to measure each variant")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds a variant may take, compilation included")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--cases", type=int, default=4096, help="to generate; four of five are trained on")
    parser.add_argument("--resolution", type=int, help="the problem's own unless given")
    parser.add_argument("--out", type=Path, default=Path("runs/training-speed"), help="folder of results")
    parser.add_argument("--write", type=Path, help="where to write the page")
    options = parser.parse_args()
    for problem in options.problems:
        measure_missing(problem, options)
    publish(page(read_rows(options.out)), options.write)


if __name__ == "__main__":
    main()
