"""Cases per second of training: a plain loop of the published recipe, and what each step away from it gains.

    python benchmarks/training.py --write docs/benchmarks/training.md
    python benchmarks/training.py --problems poisson elasticity --out runs/training-speed

Every variant has a process of its own. Those of a problem prepare at the same time, and are then measured one after the
other. Every result is kept in a file in `--out` as soon as it is known, and is not measured again. An interrupted run
is continued; a run with nothing left to measure writes the page.
"""

import argparse
import signal
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

from report import publish, table
from training_chart import PICTURE, write_chart
from training_variants import FAST, LAUNCHED, NOTES, RIVAL, VARIANTS
from workers import Row, Task, add_row, measure_all, read_rows

RESULTS = "training.jsonl"
WORKER = Path(__file__).with_name("training_variants.py")
LAUNCH_BOUND = 2.0  # times as fast with CUDA graphs, which save little but the launching of kernels
PROBLEMS = ["poisson", "advection-diffusion-low", "advection-diffusion-high", "elasticity", "heat"]
HEADING = ["problem", "variant", "batch", "cases/s", "times as fast as the rival"]
HEADING += ["times as fast as the row above", "memory-bound limit, cases/s", "reached", "GiB", "ready after, s"]
Rows = dict[tuple[str, str], Row]


def known_rows(out: Path) -> Rows:
    """Return the stored rows by problem and variant; later rows replace earlier ones."""
    return {(row["problem"], row["variant"]): row for row in read_rows(out / RESULTS)}


def generate(problem: str, data: Path, options: argparse.Namespace) -> None:
    """Generate cases in a process of its own, which leaves nothing on the device."""
    command = [sys.executable, "-m", "disol", "generate", problem, "--cases", str(options.cases), "--out", str(data)]
    command += ["--device", options.device]
    command += ["--resolution", str(options.resolution)] if options.resolution else []
    subprocess.run(command, check=True)


def measure_missing(problem: str, options: argparse.Namespace) -> None:
    """Measure the variants of a problem that have no result yet, all on the same cases."""
    known = known_rows(options.out)
    missing = [name for name in options.variants if "cases_per_second" not in known.get((problem, name), {})]
    if not missing:
        return
    together = min(options.jobs or len(missing), len(missing))

    def keep(row: Row) -> None:
        add_row(options.out / RESULTS, row)
        print(problem, row["variant"], row.get("error") or f"{row['cases_per_second']:.0f} cases/s", flush=True)

    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / f"{problem}.h5"
        generate(problem, data, options)
        command = [sys.executable, str(WORKER), "--data", str(data), "--device", options.device]
        command += ["--seconds", str(options.seconds), "--variant"]
        tasks = [
            Task(name, [*command, name], [{"problem": problem, "variant": name, "together": together}])
            for name in missing
        ]
        measure_all(tasks, keep, options.limit, together)


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


def table_rows(problem: str, rows: Rows) -> list[list[str]]:
    """Write the rows of a problem in the order of the variants."""
    found = [rows[problem, name] for name in VARIANTS if (problem, name) in rows]
    rival = rows.get((problem, RIVAL), {})
    lines = []
    for position, row in enumerate(found):
        before = found[position - 1] if position else None
        same = before is not None and VARIANTS[before["variant"]].batch == VARIANTS[row["variant"]].batch
        lines.append(written(row, rival, before if same else None))
    return lines


def speeds_of(problem: str, rows: Rows) -> dict[str, float]:
    """Return the cases per second of the variants that were measured."""
    known = {name: rows.get((problem, name), {}) for name in VARIANTS}
    return {name: row["cases_per_second"] for name, row in known.items() if "cases_per_second" in row}


def findings(problem: str, rows: Rows) -> str:
    """Sum up the numbers of a problem, whatever they are."""
    speed = speeds_of(problem, rows)
    if RIVAL not in speed or FAST not in speed:
        return f"{problem}: without the rival and the fast loop there is nothing to compare."
    best = max((name for name in speed if name != RIVAL), key=lambda name: speed[name])
    fast = rows[problem, best]
    reached = fast["cases_per_second"] * fast["bytes_per_case"] / fast["bandwidth"]
    chain = [name for name in speed if VARIANTS[name].batch == VARIANTS[RIVAL].batch]
    slower = [name for before, name in pairwise(chain) if speed[name] < speed[before]]
    lines = [
        f"{problem}:\n",
        f"- At the batch size of the rival, the loop of this package trains {speed[FAST] / speed[RIVAL]:.1f} times as "
        "many cases per second.",
        f"- The fastest variant, {best}, trains {speed[best]:.0f} cases/s. That is {speed[best] / speed[RIVAL]:.1f} "
        f"times as many as the rival, and {100 * reached:.0f} % of what the memory allows.",
    ]
    if speed[FAST] > LAUNCH_BOUND * speed.get(LAUNCHED, speed[FAST]):
        lines.append("- Rows without CUDA graphs wait for the CPU that launches their kernels.")
    if slower:
        lines.append(f"- Not every step is a gain. Slower than the row above: {'; '.join(slower)}.")
    return "\n".join(lines)


def page(rows: Rows, write: Path | None) -> list[str]:
    """Write the page, and its chart if the page is to be kept."""
    measured = [row for row in rows.values() if "bandwidth" in row]
    problems = [problem for problem in PROBLEMS if any(known == problem for known, _ in rows)]
    together = max((row.get("together", 1) for row in measured), default=1)
    speeds = {problem: speeds_of(problem, rows) for problem in problems if speeds_of(problem, rows)}
    if write is not None and speeds:
        write_chart(speeds, RIVAL, write.parent / PICTURE)
    chart = [
        f"![Cases per second of every variant]({PICTURE})",
        "*Cases per second, and how many times as fast as the rival.*",
    ]
    order = "Variants compile and are measured one after the other."
    if together > 1:
        order = f"Up to {together} variants compile at the same time. They are then measured one after the other, "
        order += "while the rest wait."
    steps = [f"- `{name}`: {note}" for name, note in NOTES.items() if any(known == name for _, known in rows)]
    return [
        "# Training speed",
        f"Written by `python benchmarks/training.py --problems {' '.join(problems)}`.",
        "Networks of the published size, trained by the loop of this package and by a plain loop. Speeds are medians "
        "of five rounds after a warm-up, with the device synchronised around each.",
        f"- **The rival**, `{RIVAL}`, is the published recipe as anyone would write it: contiguous tensors, Adam, "
        "torch's own interpolation, and TensorFloat32 in convolutions, which is torch's default. Its cases are on the "
        "GPU already, so it needs no data loader.\n"
        "- **All other rows** are the training loop of this package with its symmetries, clipped gradients and EMA, "
        "channels-last tensors and its own interpolation. They train by AdamW on absolute errors, to be comparable "
        "with the rival, and not by Muon on slopes as in the recipe `fast`.",
        *(["From row to row, one thing changes:", "\n".join(steps)] if steps else []),
        *told_machine(measured),
        table(HEADING, [line for problem in problems for line in table_rows(problem, rows)]),
        "- *memory-bound limit*: counts the bytes that training on a case must move. The output of every convolution "
        "is written and read in the forward pass, and read in the backward pass; its gradient is written and read. "
        "These are in the precision of the row. Inputs and targets are read twice, in float32. Everything else is "
        "taken to be free, so the limit is out of reach: normalisation, for one, needs its statistics before it can "
        "pass anything on.\n"
        f"- *ready after*: the time of the first ten steps, compilation included. {order} Kernels that another variant "
        "has compiled before are reused.",
        *(findings(problem, rows) for problem in problems),
        *(chart if speeds else []),
    ]


def told_machine(measured: list[Row]) -> list[str]:
    """Name the machine, and the bandwidth of its memory."""
    if not measured:
        return []
    machines = " and ".join(sorted({row["machine"] for row in measured}))
    bandwidths = sorted(row["bandwidth"] / 1e12 for row in measured)
    copied = f"{bandwidths[0]:.2f} to {bandwidths[-1]:.2f} TB/s"
    return [f"Machine: {machines}. A copy moves {copied} (read and written)."]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="+", default=["poisson"], choices=PROBLEMS)
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=list(VARIANTS))
    parser.add_argument("--seconds", type=float, default=5.0, help="time to measure each variant")
    parser.add_argument("--limit", type=float, default=300.0, help="most seconds to prepare, and then to measure")
    parser.add_argument("--jobs", type=int, help="variants at a time, if there is not enough memory for all")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--cases", type=int, default=4096, help="cases to generate; four of five are trained on")
    parser.add_argument("--resolution", type=int, help="default: that of the problem")
    parser.add_argument("--out", type=Path, default=Path("runs/training-speed"), help="folder of results")
    parser.add_argument("--write", type=Path, help="where to write the page")
    options = parser.parse_args()
    if options.jobs is not None and options.jobs < 1:
        parser.error(f"--jobs must be at least 1, got {options.jobs}. Leave it out to prepare all variants at once.")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # an exit also ends the workers
    for problem in options.problems:
        measure_missing(problem, options)
    publish(page(known_rows(options.out), options.write), options.write)


if __name__ == "__main__":
    main()
