"""The page of details: every engine with its memory-bound limit, and the exact solvers, on a GPU and on a CPU."""

from collections.abc import Iterator

from inference_rows import Rows, failures, machines, models, one_and_many, rows_of
from inference_subject import NUM_DRAWN, RANDOM
from inference_ways import CPU_BATCH, EAGER, EXACT, FAST, PLAIN, RIVAL, VERIFICATION
from report import table
from workers import Row

GOALS = {"poisson": 5.0}  # how many times as fast as the rival the compiled network should be
NOTES = {
    RIVAL: f"`{RIVAL}`: the network of the published recipe, called as it is on contiguous tensors, with torch's own "
    "interpolation.",
    VERIFICATION: f"`{VERIFICATION}`: predicts with the compiled bfloat16 network and solves exactly to find size and "
    "error, from NumPy arrays to NumPy arrays, checks and discretisation included. Heat takes 10 steps, to 20 s.",
    EXACT: f"`{EXACT}`: solves systems that are on the GPU already, in float64, and checks every solution. Heat takes "
    "10 steps, to 20 s.",
}


def details(rows: Rows) -> list[str]:
    """Write the page."""
    told = "\n".join(f"- {problem}: {told_model(row)}" for problem, row in models(rows).items())
    untrained = ["Random weights are those of a network of the published size."]
    return [
        "# Inference",
        "Written by `python benchmarks/inference.py`.",
        "All engines of all problems were prepared at the same time, and then measured one after the other. The "
        "models:",
        told,
        "Weights do not change how long a network takes.",
        *(untrained if RANDOM in told else []),
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


def notes(rows: list[Row]) -> list[str]:
    """Explain the ways by which rows were measured, as entries of a list."""
    return [f"- {note}" for way, note in NOTES.items() if any(row["way"] == way for row in rows)]


def network_section(rows: list[Row]) -> list[str]:
    if not rows:
        return []
    bandwidths = sorted(row["bandwidth"] / 1e12 for row in rows)
    heading = ["problem", "network", "cases", "ready after, s", "µs/case on the GPU", "µs/case from NumPy"]
    heading += ["memory-bound limit, µs/case", "reached", "TFLOP/s", "relative difference from a CPU"]
    explained = [
        "- *ready after*: the time of the first prediction, compilation included.",
        "- *on the GPU*: inputs and predictions stay on the GPU. *From NumPy*: from NumPy arrays to NumPy arrays, "
        "transfers included.",
        "- *memory-bound limit*: the time to move the inputs once, the output of every convolution twice and the "
        f"predictions once, at the bandwidth of a copy here, {bandwidths[0]:.2f} to {bandwidths[-1]:.2f} TB/s (read "
        "and written). Everything else is taken to be free. *Reached* is the limit divided by the time on the GPU.",
        "- *relative difference from a CPU*: the median relative L2 difference from predictions in float32 on a CPU, "
        f"over {NUM_DRAWN} drawn cases, or fewer in a smaller batch.",
        "- Convolutions in `float32` round to TensorFloat32, which is torch's default.",
    ]
    return [
        "Median times per case, for a single case and for large batches:",
        "\n".join([*explained, *notes(rows)]),
        table(heading, [line for row in rows for line in network_lines(row)]),
        *speed_up(rows),
    ]


def network_lines(row: Row) -> Iterator[list[str]]:
    """Write the rows of an engine, for one case and for many."""
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
    """Write how many times as fast as the plain network (else the eager one) the compiled bfloat16 network is."""
    found = {(row["problem"], row["way"]): row for row in rows}
    lines: dict[str, list[list[str]]] = {RIVAL: [], EAGER: []}
    for problem, way in found:
        rival = RIVAL if (problem, RIVAL) in found else EAGER
        if way == FAST and (problem, rival) in found:
            pairs = zip(one_and_many(found[problem, rival]), one_and_many(found[problem, FAST]), strict=True)
            one, many = (slow["seconds"] / fast["seconds"] for slow, fast in pairs)
            goal = f" (the goal is {GOALS[problem]:g})" if rival == RIVAL and problem in GOALS else ""
            lines[rival].append([problem, f"{one:.1f}", f"{many:.1f}{goal}"])
    paragraphs = []
    for rival, ratios in lines.items():
        if ratios:
            paragraphs.append(f"Speed of `{FAST}` on the GPU, as a multiple of the speed of `{rival}`:")
            paragraphs.append(table(["problem", "one case", "large batches"], ratios))
    return paragraphs


def solution_section(rows: list[Row]) -> list[str]:
    heading = ["problem", "solution by", "one case, ms", "cases at once", "µs/case"]
    lines = [solution_line(row) for row in rows]
    return ["Solutions in physical units on the GPU:", "\n".join(notes(rows)), table(heading, lines)] if rows else []


def solution_line(row: Row) -> list[str]:
    """Write the row of a way to solutions in physical units."""
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
    heading += ["exact solver, ms", "times as fast as plain", "times as fast as the exact solver"]
    return [
        "## On a CPU",
        f"Machine: {machines(rows)}.",
        f"Median times with {threads} in float32, from NumPy arrays to NumPy arrays:",
        "- *ready after*: the time of the first prediction.\n"
        f"- `{PLAIN}`: the network called as it is, eagerly.\n"
        "- *exact solver*: the reference solver with one thread, assembly included. Heat takes 10 steps, to 20 s.\n"
        "- The last two columns compare single cases. Less than 1 means slower.",
        table(heading, [line for row in rows for line in cpu_lines(row)]),
        *(f"Not timed: {name}. {why}" for name, why in sorted(refused)),
    ]


def cpu_lines(row: Row) -> Iterator[list[str]]:
    """Write the rows of the engines of a CPU."""
    for name, times in row["engines"].items():
        yield [
            row["problem"],
            name,
            f"{times['ready_after']:.1f}",
            *(f"{1e3 * taken:.1f}" for taken in (times["one"], times["many"], row["reference"])),
            *(f"{other / times['one']:.1f}" for other in (row["engines"][PLAIN]["one"], row["reference"])),
        ]
