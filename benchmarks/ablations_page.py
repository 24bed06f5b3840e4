"""The page of the ablation study: tables, verdicts and a picture, made from the results of its runs."""

import json
import math
import statistics
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from ablations_run import BASE, SHARED, VARIANTS
from disol._files import written_whole
from disol.viz.errors import COLOURS, QUIET
from report import table

PICTURE = Path("../images/ablations.png")  # from the page
NAMES = {"id": "in distribution", "all": "shifted by all", "shapes": "named shapes"}
BETTER, WORSE, EQUAL, UNKNOWN = "better", "worse", "within the spread", "too few seeds"
FEWEST_SEEDS = 2
Result = dict[str, Any]
Column = tuple[str, str]  # a test file and a metric


def read_results(out: Path) -> list[Result]:
    """Read the results of the finished runs; without an entry `alone`, as in earlier versions, a run trained alone."""
    return [{"alone": True, **json.loads(path.read_text())} for path in sorted(out.glob("*-seed*.json"))]


def of_variants(results: list[Result]) -> dict[str, list[Result]]:
    """Sort results by variant, in the order of the study, and by seed."""
    found = {name: [result for result in results if result["variant"] == name] for name in VARIANTS}
    return {name: sorted(own, key=lambda result: result["seed"]) for name, own in found.items() if own}


def columns_of(results: list[Result]) -> list[Column]:
    """Return the errors to compare: rel_l2 on every test file, grid_mae on the first."""
    tests = list(results[0]["tests"])
    return [*((test, "rel_l2") for test in tests), (tests[0], "grid_mae")]


def values_of(own: list[Result], column: Column) -> list[float]:
    """Return the mean error over cases, one number for each seed."""
    test, metric = column
    return [result["tests"][test][metric]["mean"] for result in own]


def told_names(variants: dict[str, list[Result]]) -> dict[str, str]:
    """Name the variants, with their numbers of seeds if these differ."""
    counts = {name: len(own) for name, own in variants.items()}
    if len(set(counts.values())) == 1:
        return {name: name for name in counts}
    return {name: f"{name}, {count} seed{'s' * (count > 1)}" for name, count in counts.items()}


def title(column: Column) -> str:
    """Name a column."""
    return f"{NAMES.get(column[0], column[0])}, `{column[1]}`"


def spread(values: list[float]) -> str:
    """Write the mean over seeds, and the smallest and largest."""
    ends = f" ({min(values):.2e} to {max(values):.2e})" if len(values) > 1 else ""
    return f"{statistics.mean(values):.2e}{ends}"


def verdict(own: list[float], base: list[float]) -> str:
    """Compare the errors of the seeds: better if all are below those of the base, worse if all are above."""
    if min(len(own), len(base)) < FEWEST_SEEDS:
        return UNKNOWN
    if max(own) < min(base):
        return BETTER
    return WORSE if min(own) > max(base) else EQUAL


def change(own: list[float], base: list[float]) -> str:
    """Write by how much the mean differs from that of the base, and the verdict."""
    return f"{100 * (statistics.mean(own) / statistics.mean(base) - 1):+.1f} %, {verdict(own, base)}"


def values_table(variants: dict[str, list[Result]], columns: list[Column]) -> str:
    """Return the errors of every variant."""
    heading = ["variant", "setting", "seeds", "parameters", "cases/s", "epochs", *map(title, columns)]
    rows = []
    for name, own in variants.items():
        speeds = [result["cases_per_second"] for result in own if result["alone"]]
        speed = f"{statistics.mean(speeds):.0f}" if speeds else "-"
        epochs = statistics.mean(result["epochs"] for result in own)
        setting = " ".join(f"`{override}`" for override in VARIANTS[name] or SHARED)
        known = [name, setting, str(len(own)), f"{own[0]['parameters']:,}", speed, f"{epochs:.0f}"]
        rows.append([*known, *(spread(values_of(own, column)) for column in columns)])
    return table(heading, rows)


def changes_table(variants: dict[str, list[Result]], columns: list[Column]) -> str:
    """Return how every variant differs from the base."""
    base, names = variants[BASE], told_names(variants)
    rows = [
        [names[name], *(change(values_of(own, column), values_of(base, column)) for column in columns)]
        for name, own in variants.items()
        if name != BASE
    ]
    return table([f"against the {names[BASE]}", *map(title, columns)], rows)


def findings(variants: dict[str, list[Result]], columns: list[Column]) -> str:
    """Say which variants are better or worse, and where."""
    base, names = variants[BASE], told_names(variants)
    verdicts = {
        names[name]: {column: verdict(values_of(own, column), values_of(base, column)) for column in columns}
        for name, own in variants.items()
        if name != BASE
    }
    sentences = []
    for kind in (BETTER, WORSE):
        told = {name: [title(column) for column in columns if of[column] == kind] for name, of in verdicts.items()}
        listed = "; ".join(f"{name} ({', '.join(where)})" for name, where in told.items() if where)
        sentences.append(f"{kind.capitalize()} than the base: {listed or 'none'}.")
    undecided = [name for name, of in verdicts.items() if set(of.values()) == {EQUAL}]
    unknown = [name for name, of in verdicts.items() if UNKNOWN in of.values()]
    sentences.append(f"Not distinguishable from the base: {', '.join(undecided) or 'none'}.")
    if unknown:
        sentences.append(f"Too few seeds for a verdict: {', '.join(unknown)}.")
    return "\n".join(f"- {sentence}" for sentence in sentences)


def chance(variants: dict[str, list[Result]]) -> str:
    """Say how often a verdict is wrong at most, which is for the variant with the fewest seeds that give one."""
    base = len(variants[BASE])
    others = [len(own) for name, own in variants.items() if name != BASE and len(own) >= FEWEST_SEEDS]
    if base < FEWEST_SEEDS or not others:
        return "One seed says nothing about the spread, so there are no verdicts yet."
    wrong = 2 / math.comb(base + min(others), base)
    return (
        "A variant is `better` in a column if the errors of all its seeds are below those of all seeds of the base, "
        f"`worse` if all are above. If two variants are equally good, {base} and {min(others)} seeds or more are told "
        f"apart by chance in at most {100 * wrong:.0f} % of all comparisons. The columns of a row come from the same "
        "runs, so their verdicts are not independent. Take a verdict whose change is no larger than the spread of the "
        "base as a hint, not as a finding."
    )


def measured_time(results: list[Result]) -> str:
    """Write how long the runs trained."""
    seconds = [result["training_seconds"] for result in results if result["training_seconds"] is not None]
    return f" (measured: {min(seconds):.1f} to {max(seconds):.1f} s)" if seconds else ""


def sharing(variants: dict[str, list[Result]]) -> str:
    """Describe the runs that trained beside each other, if there are any."""
    alone = {name: [result["seed"] for result in own if result["alone"]] for name, own in variants.items()}
    shared = sum(len(own) for own in variants.values()) - sum(map(len, alone.values()))
    if not shared:
        return ""
    if all(alone[name] == [own[0]["seed"]] for name, own in variants.items()):
        told = f"That is how the first seed of every variant was trained; {shared} runs of other seeds"
    else:
        runs = "; ".join(f"{name}, seed {' and '.join(map(str, seeds))}" for name, seeds in alone.items() if seeds)
        told = f"That is how these were trained: {runs or 'none'}. The other {shared} runs"
    return (
        f" {told} trained beside each other on the same GPU, each for as many epochs as the run of its variant that "
        "trained alone. Cases/s are those of runs that trained alone."
    )


def draw(variants: dict[str, list[Result]], columns: list[Column]) -> Figure:
    """Draw a dot for every seed, and a band from the best to the worst seed of the base."""
    shown = [column for column in columns if column[1] == "rel_l2"]
    figure = Figure(figsize=(3.2 * len(shown) + 1.6, 0.36 * len(variants) + 1.3), layout="constrained")
    for axes, column in zip(figure.subplots(1, len(shown), sharey=True, squeeze=False)[0], shown, strict=True):
        if BASE in variants:
            base = values_of(variants[BASE], column)
            axes.axvspan(min(base), max(base), color=QUIET, alpha=0.25, linewidth=0)
        for row, (name, own) in enumerate(variants.items()):
            values = values_of(own, column)
            colour = QUIET if name == BASE else COLOURS[0]
            axes.plot(values, [row] * len(values), "o", color=colour, markersize=5, alpha=0.8)
            axes.plot(statistics.mean(values), row, "|", color=colour, markersize=14)
        axes.set_title(NAMES.get(column[0], column[0]), fontsize=9)
        axes.set_xlabel("mean rel_l2", fontsize=8)
        axes.tick_params(labelsize=8)
        axes.locator_params(axis="x", nbins=5)
        axes.grid(axis="x", color="#e4e7ec", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.set_yticks(range(len(variants)), list(variants))
        axes.set_ylim(len(variants) - 0.5, -0.5)
    return figure


def page(results: list[Result], write: Path | None) -> list[str]:
    """Write the page, and its picture if the page is to be kept."""
    variants, columns, first = of_variants(results), columns_of(results), results[0]
    if write is not None:
        with written_whole(write.parent / PICTURE) as path:
            draw(variants, columns).savefig(path, dpi=130)
    tests = ", ".join(f"{test['cases']} {NAMES.get(name, name)}" for name, test in first["tests"].items())
    everywhere = f" All variants are also trained with {' '.join(first['set'])}." if first["set"] else ""
    data = first["data"]
    compared = BASE in variants and len(variants) > 1
    return [
        "# Ablations",
        f"Written by `python benchmarks/ablations.py --minutes {first['minutes']:g}`.",
        "What is each part of the network and of the recipe worth, in equal training time? The base is the published "
        "network, trained by the recipe `fast` but with AdamW and absolute errors. Every variant changes the settings "
        f"listed beside it and nothing else.{everywhere}",
        f"- **Training:** {data['problem'].capitalize()} with the conventions `{data['conventions']}`, a file of "
        f"{data['cases']} cases. Every run trains for {60 * first['minutes']:g} s{measured_time(results)} while no "
        f"other run trains. This includes validation, but not loading and compiling.{sharing(variants)} A slower "
        "variant sees fewer cases in the same time.\n"
        f"- **Tests:** cases of other seeds of the generator: {tests}.\n"
        "- **Errors** are means over cases. Each cell is the mean over the training seeds, with the smallest and the "
        "largest value in brackets.",
        f"Machine: {' and '.join(sorted({result['machine'] for result in results}))}.",
        values_table(variants, columns),
        *([changes_table(variants, columns), findings(variants, columns), chance(variants)] if compared else []),
        f"![Mean errors of every seed]({PICTURE})",
        "*One dot per seed, with a line at the mean. The band is the spread of the base.*",
    ]
