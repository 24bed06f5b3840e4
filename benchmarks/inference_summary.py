"""The page that sums up: shipped models against exact solvers, what wins, and where a network does not pay."""

from pathlib import Path
from typing import Any

from inference_chart import PICTURE, write_chart
from inference_page import told_model
from inference_rows import Rows, machines, models, one_and_many, rows_of
from inference_ways import CPU, CPU_BATCH, EXACT, FAST, PLAIN, RIVAL, VERIFICATION
from report import table
from workers import Row

PLAIN_GPU = "plain eager float32 network on the GPU"
FAST_GPU = "compiled bfloat16 network on the GPU"
VERIFICATION_GPU = "`model.verify` on the GPU"
EXACT_GPU = "exact batched solver on the GPU"
PLAIN_CPU = "plain network on the CPU"
ONNX_CPU = "network by ONNX Runtime on the CPU"
EXACT_CPU = "exact reference solver on the CPU"
ON_GPU = {PLAIN_GPU: RIVAL, FAST_GPU: FAST, VERIFICATION_GPU: VERIFICATION, EXACT_GPU: EXACT}
ON_CPU = {PLAIN_CPU: PLAIN, ONNX_CPU: "onnx"}
WAYS_TO = {
    "solved": (VERIFICATION_GPU, EXACT_GPU, EXACT_CPU),
    "predicted": (PLAIN_GPU, FAST_GPU, PLAIN_CPU, ONNX_CPU),
}
MARKERS = {
    PLAIN_GPU: "o",
    FAST_GPU: "o",
    PLAIN_CPU: "o",
    ONNX_CPU: "o",
    VERIFICATION_GPU: "D",
    EXACT_GPU: "s",
    EXACT_CPU: "s",
}
ONE, MANY = 0, 1
# What a network has to beat to be of use: the best exact solver for one case and for many.
RIVALS = {ONE: EXACT_CPU, MANY: EXACT_GPU}
CHALLENGERS = {ONE: (FAST_GPU, VERIFICATION_GPU, PLAIN_CPU, ONNX_CPU), MANY: (FAST_GPU, PLAIN_GPU, VERIFICATION_GPU)}
AMOUNTS = {ONE: "One case", MANY: "Many cases"}
NOTES = {
    PLAIN_GPU: "The plain network is the published recipe's, called as it is: on contiguous tensors, with torch's own "
    "interpolation.",
    VERIFICATION_GPU: "`model.verify` predicts with the compiled bfloat16 network and solves exactly to find the "
    "amplitude and the error. It goes from NumPy arrays to NumPy arrays, checks and discretisation included.",
    EXACT_GPU: "The batched solver starts from systems that are on the GPU already, works in float64, and checks every "
    "solution.",
    EXACT_CPU: "The reference solver takes one case at a time, assembly included. A CPU can run one on each of its "
    "cores.",
}
TESTS = {
    "id": "in distribution",
    "all": "shifted by `all`",
    "shapes": "on named shapes with holes",
    "released": "shifted by `released`",
    "broad": "shifted by `broad`",
}
PAGES = {
    "inference": "every engine and how close it comes to the limit of the memory",
    "inference-cpu": "every engine on a small CPU",
    "batches": "whole batches from NumPy to NumPy: solved, verified, predicted",
    "training": "cases per second in training, and what makes training fast",
    "ablations": "what each part of the network is worth, at equal training time",
    "amplitude": "three ways to find the amplitude of a prediction without a solution",
    "sizes": "how `model.predict` finds the amplitude, compared with simpler ways",
    "batched-solvers": "the exact batched solver and its rivals",
    "refinement": "what iterative refinement costs in batches",
    "scaling": "the exact batched solver on finer grids",
    "agreement": "the exact batched solver against the reference solver",
    "reference-solver": "the exact reference solver against SciPy's default",
    "pixel-geometry": "what pixels cost in accuracy, and what the true boundary gains",
    "cut-cells": "pixels cut at the true boundary, against known solutions and body-fitted meshes",
    "equal-error": "how many times as fast as pixels the true boundary is, at equal error",
    "gradients": "the time for gradients of the exact solution on the true boundary",
    "locking": "where bilinear elements are too stiff on the true boundary",
    "ranking": "ranking many variants: worker processes against a loop",
    "generation": "generating data on a GPU",
    "generation-cpu": "generating data on a CPU",
    "memory": "reusing memory on a CPU",
    "robustness": "fuzzing, interrupted runs and long runs",
    "house": "the shape of the code, before and after it was reorganised",
}
Times = dict[str, tuple[float, float]]  # seconds per case, of one and of many


def summary(rows: Rows, folder: Path, keep: bool) -> list[str]:
    """Write the summary, as far as the rows go; beside the `folder` of details its picture, if that is to be kept."""
    times = {problem: found for problem, row in rows.items() if (found := times_of(row))}
    if keep:
        write_chart(times, MARKERS, folder.parent / PICTURE)
    return [
        "# Benchmarks",
        "How long do the shipped models and the exact solvers take for a case, and where does a network not pay? "
        "Written by `python benchmarks/inference.py`.",
        "## What was timed",
        told_machines(rows),
        "What a time includes:",
        notes(times),
        "The models, with their errors. The last column compares their predictions in bfloat16 with those in float32:",
        models_table(rows),
        f"![Time per case of every way to a solution]({PICTURE})",
        caption(times),
        *section("## One case, milliseconds", [times_table(times, ONE, 1e3)]),
        *section("## Many cases, microseconds per case", [times_table(times, MANY, 1e6)]),
        told_batches(rows),
        *section("## What wins", [paragraph for number in AMOUNTS for paragraph in findings(times, number)]),
        *section("## Where a network does not pay", losses(times)),
        "## Details",
        "\n".join(
            f"- [{name}](benchmarks/{name}.md): {told}"
            for name, told in (PAGES | {"inference": f"{PAGES['inference']}, {told_devices(rows)}"}).items()
            if (folder / f"{name}.md").exists()
        ),
    ]


def section(heading: str, paragraphs: list[str]) -> list[str]:
    """Put a heading before paragraphs, unless they are all empty."""
    told = [paragraph for paragraph in paragraphs if paragraph]
    return [heading, *told] if told else []


def told_machines(rows: Rows) -> str:
    """Say what was measured on, and with how many threads."""
    cpu = rows_of("cpu", rows)
    threads = " or ".join(sorted({str(row["threads"]) for row in cpu}))
    lines = [f"- GPU: {machines(rows_of('gpu', rows))}."]
    if cpu:
        lines.append(f"- CPU: {machines(cpu)}. Networks use {threads} threads, the reference solver 1.")
    return "\n".join(lines)


def told_devices(rows: Rows) -> str:
    """Say where the engines were measured: on a GPU, on the CPU beside it, or on another one."""
    gpu, cpu = ({row["machine"] for row in rows_of(part, rows)} for part in ("gpu", "cpu"))
    if gpu and cpu:
        return "on a GPU and on its CPU" if gpu == cpu else "on a GPU and on the CPU of another machine"
    return "on a GPU" if gpu else "on a CPU"


def notes(times: dict[str, Times]) -> str:
    """Explain what the times are of."""
    known = {label for found in times.values() for label in found}
    told = [
        "A network predicts the pattern of a solution, with the error below. An exact solver finds the solution of the "
        "discrete system itself, amplitude included.",
        *(note for label, note in NOTES.items() if label in known),
        "A single case starts from NumPy and returns there. Many cases are on the GPU already.",
    ]
    if "heat" in times:
        both = ", and both for `model.verify`" * (VERIFICATION_GPU in known)
        told.append(f"Heat is one frame at 20 s: one prediction for the network, ten steps for the solvers{both}.")
    return "\n".join(f"- {note}" for note in told)


def caption(times: dict[str, Times]) -> str:
    """Explain the marks of the chart."""
    whole = "; diamonds are `model.verify`" * any(VERIFICATION_GPU in found for found in times.values())
    return f"*Time per case. Circles are networks, which predict patterns; squares are exact solvers{whole}.*"


def models_table(rows: Rows) -> str:
    """Write a table of the models and their errors."""
    heading = ["problem", "model", "mean `rel_l2` in float32", "median difference of bfloat16"]
    lines = [
        [problem, told_model(row), told_errors(row), told_difference(rows[problem])]
        for problem, row in models(rows).items()
    ]
    width = len(heading) if any(line[-1] != "-" for line in lines) else len(heading) - 1
    return table(heading[:width], [line[:width] for line in lines])


def times_of(found: dict[str, Row]) -> Times:
    """Gather the times of a problem, in the order of the tables."""
    times: Times = {}
    for label, way in ON_GPU.items():
        if "batches" in found.get(way, {}):
            one, many = one_and_many(found[way])
            times[label] = (one["from_numpy" if "from_numpy" in one else "seconds"], many["seconds"])
    cpu = found.get(CPU, {})
    for label, engine in ON_CPU.items():
        if engine in cpu.get("engines", {}):
            times[label] = (cpu["engines"][engine]["one"], cpu["engines"][engine]["many"])
    if "reference" in cpu:
        times[EXACT_CPU] = (cpu["reference"], cpu["reference"])
    return times


def times_table(times: dict[str, Times], number: int, unit: float) -> str:
    """Write a table of times, a column for each problem; nothing if there are none."""
    rows = []
    for label in (*ON_GPU, *ON_CPU, EXACT_CPU):
        cells = [three_digits(unit * found[label][number]) if label in found else "-" for found in times.values()]
        rows += [[label, *cells]] if any(label in found for found in times.values()) else []
    return table(["", *times], rows) if rows else ""


def told_batches(rows: Rows) -> str:
    """Say how many cases `many` are, of each way where they differ."""
    batches: dict[str, dict[str, dict[str, int]]] = {}
    for row in rows_of("gpu", rows):
        ways = batches.setdefault(row["problem"], {}).setdefault("predicted" if "bandwidth" in row else "solved", {})
        ways[row["way"]] = row["batches"][-1]["cases"]
    told = [
        f"{problem} {', '.join(told_cases(verb, ways) for verb, ways in found.items())}"
        for problem, found in batches.items()
    ]
    on_cpu = [f"on the CPU {CPU_BATCH}"] if rows_of("cpu", rows) else []
    return f"Cases at once: {'; '.join(told + on_cpu)}."


def told_cases(verb: str, ways: dict[str, int]) -> str:
    """Say how many cases were predicted or solved at once."""
    if len(set(ways.values())) == 1:
        return f"{next(iter(ways.values()))} {verb}"
    return ", ".join(f"{cases} {verb} by `{way}`" for way, cases in ways.items())


def told_errors(row: Row) -> str:
    """Say how wrong a model is."""
    known: dict[str, Any] = row["rel_l2"]
    if not known:
        return "none, not trained"
    told = ", ".join(f"{percent(error)} {TESTS.get(test, test)}" for test, error in known.items())
    times = [f"{time:g}" for time in row.get("error_times", [])]
    return f"{told}; over {', '.join(times)} s" if times else told


def told_difference(found: dict[str, Row]) -> str:
    """Say how far predictions in low precision are from those in float32."""
    batches = found.get(FAST, {}).get("batches")
    return percent(batches[-1]["difference"]) if batches else "-"


def findings(times: dict[str, Times], number: int) -> list[str]:
    """Compare networks with their exact rival, and name what is fastest; nothing if nothing can be compared."""
    rival = RIVALS[number]
    known = {problem: found for problem, found in times.items() if rival in found}
    labels = [label for label in CHALLENGERS[number] if any(label in found for found in known.values())]
    if not labels:
        return []
    rows = [
        [problem, duration(found[rival][number])]
        + [compared(found, label, number) if label in found else "-" for label in labels]
        for problem, found in known.items()
    ]
    return [
        # A speed without an error means nothing.
        f"**{AMOUNTS[number]}**, compared with the {rival}. Networks have the errors of the table of models above.",
        table(["problem", rival, *labels], rows),
        "\n".join(f"- {verb} fastest by {who}." for verb, who in fastest(known, number)),
    ]


def fastest(times: dict[str, Times], number: int) -> list[tuple[str, str]]:
    """Name the fastest ways to a solution and to a pattern, and the problems they are fastest for."""
    told = []
    for verb, labels in WAYS_TO.items():
        best: dict[str, list[str]] = {}
        for problem, found in times.items():
            known = [label for label in labels if label in found]
            if known:
                best.setdefault(min(known, key=lambda label: found[label][number]), []).append(problem)
        everywhere = len(best) == 1
        who = [f"the {label}" + f" ({', '.join(found)})" * (not everywhere) for label, found in best.items()]
        told += [(verb.capitalize(), "; ".join(who))] if who else []
    return told


def compared(times: Times, label: str, number: int) -> str:
    """Say how a way compares with its exact rival."""
    mine, other = times[label][number], times[RIVALS[number]][number]
    ratio = f"{other / mine:.1f} times as fast" if mine <= other else f"{mine / other:.1f} times as long"
    return f"{duration(mine)}, {ratio}"


def losses(times: dict[str, Times]) -> list[str]:
    """List what takes longer than its exact rival, and how many times as long; nothing if nothing can be compared."""
    lines, is_compared = [], False
    for number, amount in AMOUNTS.items():
        rival = RIVALS[number]
        for label in CHALLENGERS[number]:
            known = {problem: found for problem, found in times.items() if {label, rival} <= found.keys()}
            ratios = {problem: found[label][number] / found[rival][number] for problem, found in known.items()}
            lost = ", ".join(f"{problem} {ratio:.1f} times" for problem, ratio in ratios.items() if ratio > 1)
            told = f"- {amount}: the {label} takes longer than the {rival} ({lost} as long)."
            lines += [told] if lost else []
            is_compared |= bool(known)
    none = "Networks were faster in every comparison above; their errors remain." if is_compared else ""
    return ["\n".join(lines) or none]


def duration(seconds: float) -> str:
    """Write a time in a unit that suits it."""
    return f"{three_digits(1e3 * seconds)} ms" if seconds >= 1e-3 else f"{three_digits(1e6 * seconds)} µs"


def three_digits(value: float) -> str:
    """Write a positive number with three digits, never with an exponent."""
    return f"{value:.0f}" if value >= 99.95 else f"{value:#.3g}".rstrip(".")


def percent(share: float | None) -> str:
    """Write a share in per cent, with two digits."""
    return "not finite" if share is None else f"{100 * share:#.2g} %".replace(". ", " ")
