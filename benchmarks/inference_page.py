"""The page of details: every engine with its limit, and the exact solvers, on a GPU and on a CPU."""

from collections.abc import Iterator

from inference_rows import Rows, failures, machines, models, one_and_many, rows_of
from inference_subject import NUM_DRAWN, RANDOM
from inference_ways import CPU_BATCH, EAGER, EXACT, FAST, PLAIN, RIVAL, VERIFICATION
from report import table
from workers import Row

GOALS = {"poisson": 5.0}  # times as fast as the rival the compiled network is to be
NOTES = {
    RIVAL: f"`{RIVAL}` is the network of the published recipe called as it is, on contiguous tensors with torch's own "
    "interpolation.",
    VERIFICATION: f"`{VERIFICATION}` predicts by the compiled bfloat16 network and solves exactly to know size and "
    "error, from NumPy arrays to NumPy arrays, checks and discretisation included; for heat it takes the 10 steps to "
    "20 s.",
    EXACT: f"`{EXACT}` solves systems that lie on the GPU in float64 and checks every solution; for heat it takes 10 "
    "steps to 20 s.",
}


def details(rows: Rows) -> list[str]:
    """Write down what was measured, and how."""
    told = ", ".join(f"{problem} {told_model(row)}" for problem, row in models(rows).items())
    untrained = "Random weights are those of a network of the published size, which is as fast as a trained one. "
    return [
        "# Inference",
        f"Written by `python benchmarks/inference.py`. Models: {told}. {untrained * (RANDOM in told)}All engines of "
        "all problems were prepared at the same time (`ready after`) and measured one after the other.",
        *gpu_section(rows_of("gpu", rows)),
        *cpu_section(rows_of("cpu", rows)),
        *failures(rows),
    ]


def told_model(row: Row) -> str:
    """Say which weights were measured."""
    if row["weights"] == row["model"]:
        return str(row["model"])
    return f"`{row['model']}`" + " (timed with earlier weights)" * row.get("earlier_weights", False)


def gpu_section(rows: list[Row]) -> list[str]:
    networks = [row for row in rows if "bandwidth" in row]
    solutions = [row for row in rows if "bandwidth" not in row]
    heading = ["## On a GPU", f"Machine: {machines(rows)}."]
    return [*(heading if rows else []), *network_section(networks), *solution_section(solutions)]


def notes(rows: list[Row]) -> str:
    """Explain the ways that rows were measured by."""
    return " ".join(note for way, note in NOTES.items() if any(row["way"] == way for row in rows))


def network_section(rows: list[Row]) -> list[str]:
    if not rows:
        return []
    bandwidths = sorted(row["bandwidth"] / 1e12 for row in rows)
    heading = ["problem", "network", "cases", "ready after, s", "us/case on the GPU", "us/case from NumPy"]
    heading += ["memory-bound limit, us/case", "reached", "TFLOP/s", "relative difference from a CPU"]
    return [
        "Median microseconds per case, of a single case and in large batches that lie on the GPU, and "
        "from NumPy arrays to NumPy arrays, transfers included. `float32` convolutions round to TensorFloat32, as is "
        "torch's default. The limit is the time to move the inputs once, the output of every convolution twice and "
        f"the predictions once, at the {bandwidths[0]:.2f} to {bandwidths[-1]:.2f} TB/s of a copy here (read and "
        "written); all else is taken to be free. The last column is the median relative L2 difference from float32 on "
        f"a CPU, over {NUM_DRAWN} drawn cases where that many are predicted. {notes(rows)}".rstrip(),
        table(heading, [line for row in rows for line in network_lines(row)]),
        *speed_up(rows),
    ]


def network_lines(row: Row) -> Iterator[list[str]]:
    """Write the lines of an engine, for one case and for many."""
    limit = row["bytes_per_case"] / row["bandwidth"]
    for batch in row["batches"]:
        took = batch["seconds"]
        yield [
            row["problem"],
            row["way"],
            str(batch["cases"]),
            f"{batch['ready_after']:.1f}",
            f"{1e6 * took:.2f}",
            f"{1e6 * batch['from_numpy']:.2f}",
            f"{1e6 * limit:.2f}",
            f"{100 * limit / took:.0f} %",
            f"{row['operations_per_case'] / took / 1e12:.1f}",
            f"{batch['difference']:.1e}",
        ]


def speed_up(rows: list[Row]) -> list[str]:
    """Say how much faster the compiled bfloat16 network is than the plain one, or the eager one if that is missing."""
    found = {(row["problem"], row["way"]): row for row in rows}
    told: dict[str, list[str]] = {RIVAL: [], EAGER: []}
    for problem, way in found:
        rival = RIVAL if (problem, RIVAL) in found else EAGER
        if way == FAST and (problem, rival) in found:
            pairs = zip(one_and_many(found[problem, rival]), one_and_many(found[problem, FAST]), strict=True)
            one, many = (slow["seconds"] / fast["seconds"] for slow, fast in pairs)
            goal = f" (the goal is {GOALS[problem]:g})" if rival == RIVAL and problem in GOALS else ""
            told[rival].append(f"{problem} {many:.1f}{goal}, for one case {one:.1f}")
    return [
        f"Times as fast as `{rival}` is `{FAST}` on the GPU, in large batches: {'; '.join(ratios)}."
        for rival, ratios in told.items()
        if ratios
    ]


def solution_section(rows: list[Row]) -> list[str]:
    heading = ["problem", "solution by", "one case, ms", "cases at once", "us/case"]
    lines = [solution_line(row) for row in rows]
    return [f"Whole solutions on the GPU. {notes(rows)}", table(heading, lines)] if rows else []


def solution_line(row: Row) -> list[str]:
    """Write the line of a way to whole solutions."""
    one, many = one_and_many(row)
    return [
        row["problem"],
        f"`{row['way']}`",
        f"{1e3 * one['seconds']:.1f}",
        str(many["cases"]),
        f"{1e6 * many['seconds']:.1f}",
    ]


def cpu_section(rows: list[Row]) -> list[str]:
    if not rows:
        return []
    threads = " or ".join(sorted({f"{row['threads']} thread{'s' * (row['threads'] > 1)}" for row in rows}))
    refused = {(name, why) for row in rows for name, why in row["refused"].items()}
    heading = ["problem", "engine", "ready after, s", "one case, ms", f"each of {CPU_BATCH}, ms"]
    heading += ["exact solver, ms", "times faster than plain", "than the exact solver"]
    return [
        "## On a CPU",
        f"Machine: {machines(rows)}.",
        f"Median times with {threads} in float32, from NumPy arrays to NumPy arrays; the exact reference solver has "
        "one thread, assembly included, and for heat takes 10 steps to 20 s. `ready after` is the first prediction. "
        "`plain network` calls the network as it is, eagerly; the last columns compare single cases with it and with "
        "the exact solver.",
        table(heading, [line for row in rows for line in cpu_lines(row)]),
        *(f"Not timed: {name}. {why}" for name, why in sorted(refused)),
    ]


def cpu_lines(row: Row) -> Iterator[list[str]]:
    """Write the lines of the engines of a CPU."""
    for name, times in row["engines"].items():
        yield [
            row["problem"],
            name,
            f"{times['ready_after']:.1f}",
            *(f"{1e3 * taken:.1f}" for taken in (times["one"], times["many"], row["reference"])),
            *(f"{other / times['one']:.1f}" for other in (row["engines"][PLAIN]["one"], row["reference"])),
        ]
