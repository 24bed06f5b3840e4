r"""Out of distribution, factor by factor: holes, fragmented boundary conditions and rough sources, alone and together.

    python studies/factors.py --cases 30 --out studies-work/factors --write docs/studies/factors.md

Case i has the same outline whatever its shift. What `--out` holds already is not measured again.
"""

from itertools import product
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

import disol
from disol.viz.errors import COLOURS, QUIET
from study import (
    CONVENTIONS,
    SEED,
    Row,
    group_by_problem,
    label_decades,
    load_models,
    measure_rows,
    pattern_error,
    publish,
    read_options,
    scientific,
    short_name,
    table,
)

MODELS = (
    "poisson",
    "poisson-paper",
    "advection-diffusion-low",
    "advection-diffusion-low-paper",
    "advection-diffusion-high",
    "advection-diffusion-high-paper",
)
TOPOLOGY = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
BOUNDARY = (1, 2, 3, 4, 6, 8)
SOURCE = (1, 2, 3, 4, 6, 8)
# By curve: the size that is shown, and the shift.
CURVES: dict[str, list[tuple[float, str]]] = {
    "topology": [(size, f"topology={size}") for size in TOPOLOGY],
    "boundary": [(size, f"boundary={size}") for size in BOUNDARY],
    "source": [(size, f"source={size}") for size in SOURCE],
    "together": [
        (level, f"topology={hole},boundary={pieces},source={waves}")
        for level, (hole, pieces, waves) in enumerate(zip(TOPOLOGY, BOUNDARY, SOURCE, strict=True), 1)
    ],
}
USUAL = ("", "topology", "boundary", "source", "all")
AXES = {
    "topology": "side of the box a hole is drawn in, shares of the grid",
    "boundary": "Dirichlet segments on the outer boundary",
    "source": "highest frequency of a source, waves across the grid",
    "together": "all three at once, each at its size number",
}


def shifts() -> list[str]:
    """Return every shift once; "" is none."""
    return list(dict.fromkeys([*USUAL, *(shift for curve in CURVES.values() for _, shift in curve)]))


def measure(row: Row, models: dict[str, "disol.Surrogate"], resolution: int | None) -> Row:
    """Return the error of every model on one case."""
    case = disol.draw(
        row["problem"],
        seed=SEED,
        index=row["index"],
        shift=row["shift"] or None,
        resolution=resolution,
        conventions=CONVENTIONS,
    )
    exact = disol.solve_exact(case).pattern
    return {
        "errors": {
            name: pattern_error(models[name].predict_pattern(case.inputs[None])[0], exact, case.domain)
            for name in row["models"]
        }
    }


def collect(rows: list[Row], model: str, shift: str) -> np.ndarray:
    """Return the errors of a model, one for each case of a shift."""
    return np.array([row["errors"][model] for row in rows if row["shift"] == shift and model in row["errors"]])


def summarise(rows: list[Row], names: list[str]) -> dict[str, dict[str, dict[str, float]]]:
    """Sum up by model and shift."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for name, shift in product(names, shifts()):
        errors = collect(rows, name, shift)
        if len(errors):
            quartiles = dict(zip(("q1", "median", "q3"), map(float, np.percentile(errors, [25, 50, 75])), strict=True))
            found.setdefault(name, {})[shift] = {"cases": len(errors), "mean": float(errors.mean()), **quartiles}
    return found


def draw_curves(found: dict[str, Any], problems: dict[str, str]) -> Figure:
    """Draw medians against the size of each factor, one colour for a problem; models of the paper's cases dashed."""
    figure = Figure(figsize=(11, 7.4), layout="constrained")
    grid = figure.subplots(2, 2, sharey=True).ravel()
    colours = dict(zip(dict.fromkeys(problems.values()), COLOURS, strict=False))
    for axes, (factor, curve) in zip(grid, CURVES.items(), strict=True):
        for name, by_shift in found.items():
            known = [(size, by_shift[shift]) for size, shift in curve if shift in by_shift]
            colour = colours[problems[name]]
            sizes, paper = [size for size, _ in known], name.endswith("-paper")
            axes.plot(
                sizes, [each["median"] for _, each in known], color=colour, marker="o", markersize=4,
                linestyle="--" if paper else "-", markerfacecolor="white" if paper else colour,
            )  # fmt: skip
            axes.fill_between(
                sizes, [each["q1"] for _, each in known], [each["q3"] for _, each in known],
                color=colour, alpha=0.1, linewidth=0,
            )  # fmt: skip
            if "" in by_shift:
                axes.axhline(by_shift[""]["median"], color=colour, linewidth=0.7, linestyle=":")
        axes.set_title(factor, fontsize=10)
        axes.set_xlabel(AXES[factor], fontsize=9)
        axes.tick_params(labelsize=8)
        axes.spines[["top", "right"]].set_visible(False)
    label_decades(grid[0])
    for axes in grid[1:]:
        axes.grid(color=QUIET, alpha=0.25, linewidth=0.5)
    for axes in grid[::2]:
        axes.set_ylabel("rel_l2: median, and its quartiles", fontsize=9)
    handles = [Line2D([], [], color=colour, label=problem) for problem, colour in colours.items()]
    handles += [
        Line2D([], [], color=QUIET, marker="o", markersize=4, label="trained broadly"),
        Line2D([], [], color=QUIET, marker="o", markersize=4, markerfacecolor="white", linestyle="--",
               label="trained on the paper's cases (-paper)"),
        Line2D([], [], color=QUIET, linewidth=0.7, linestyle=":", label="in distribution"),
    ]  # fmt: skip
    figure.legend(handles=handles, loc="outside lower center", ncols=3, fontsize=9, frameon=False)
    return figure


def conclude(found: dict[str, Any]) -> str:
    """Say how many times larger the median error of a model is under each factor, and under all of them."""
    smallest, shift = CURVES["topology"][0]
    asked = {**{each: each for each in USUAL[1:]}, shift: f"hole of {smallest}"}
    lines = []
    for name, by_shift in found.items():
        usual = by_shift.get("", {}).get("median")
        if usual:
            times = [f"x {by_shift[each]['median'] / usual:.1f}" if each in by_shift else "" for each in asked]
            lines.append([f"`{name}`", *times])
    return table(["model", *asked.values()], lines)


def main() -> None:
    assert __doc__ is not None
    options = read_options(__doc__, cases=30, models=MODELS).parse_args()
    models = load_models(options.models, options.device)
    problems = {name: surrogate.problem.name for name, surrogate in models.items()}
    # Case by case through all shifts, so that what was measured when it is stopped is of all of them.
    wanted = [
        {"problem": problem, "shift": shift, "index": index, "models": names, "resolution": options.resolution}
        for index, (problem, names), shift in product(range(options.cases), group_by_problem(models).items(), shifts())
    ]
    rows = measure_rows(wanted, lambda row: measure(row, models, options.resolution), options.out, options.minutes)
    found = summarise(rows, list(models))
    heading = ["model", "cases", "in distribution", "topology", "boundary", "source", "all"]
    heading += [f"together, {level}" for level, _ in CURVES["together"]]
    shown = [*USUAL, *(shift for _, shift in CURVES["together"])]
    lines = [
        [
            f"`{short_name(name)}`",
            str(min(each["cases"] for each in by_shift.values())),
            *(scientific(by_shift[shift]["mean"]) if shift in by_shift else "" for shift in shown),
        ]
        for name, by_shift in found.items()
    ]
    sizes = [
        [f"together, {level}", *map(str, size)]
        for level, size in enumerate(zip(TOPOLOGY, BOUNDARY, SOURCE, strict=True), 1)
    ]
    publish(
        [
            "# Out of distribution, factor by factor",
            "This page is written by `python studies/factors.py`. It measures what holes (`topology`), fragmented "
            "boundary conditions (`boundary`) and rough sources (`source`) cost, alone and together.",
            "Errors are the `rel_l2` of patterns over the domain, against the exact solution on the same pixels "
            f"(conventions `{CONVENTIONS}`, seed {SEED}). Case i has the same outline under every shift, so columns "
            "differ only in the factors that are applied.",
            "The models named `-paper` were trained on the paper's distribution, which has no holes, one Dirichlet "
            "segment and smooth sources. The others were trained on `broad`, which has many kinds of all three.",
            "Median errors by the size of each factor:",
            "curves",
            "Mean errors over the cases. A factor without a size has its usual one: a hole of 0.2 to 0.4; 1 to 3 "
            "segments, half the time one of them on the hole; frequencies up to 4.",
            table(heading, lines),
            "The columns *together* apply all three factors at these sizes: the side of the box that a hole is drawn "
            "in, as a share of the grid; the number of Dirichlet segments on the outer boundary; and the highest "
            "frequency of a source, in waves across the grid.",
            table(["", "hole", "segments", "frequency"], sizes),
            "How many times larger the median error is than for the same outlines in distribution, by factor at its "
            "usual size, for all three factors, and for the smallest hole:",
            conclude(found),
        ],
        {"curves": draw_curves(found, problems)},
        found,
        options.write,
        "factors",
    )


if __name__ == "__main__":
    main()
