r"""Heat in time: the error against t through 50 s, inside training and beyond it.

    python studies/heat_in_time.py --cases 100 --out studies-work/heat --write docs/studies/heat_in_time.md
    python studies/heat_in_time.py --models heat heat-paper

What `--out` holds already is not measured again.
"""

import argparse
from itertools import product
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import disol
from disol.viz.errors import COLOURS, QUIET
from study import (
    CONVENTIONS,
    SEED,
    Row,
    label_decades,
    load_models,
    measure_rows,
    pattern_error,
    publish,
    read_options,
    scientific,
    table,
)

MODELS = ("heat", "heat-paper")  # those of them that are shipped
SHIFTS = {"": "in distribution", "all": "`all`"}
TIMES = (2.0, 4.0, 6.0, 8.0, 12.0, 16.0, 20.0, 22.0, 24.0, 28.0, 30.0, 36.0, 40.0, 46.0, 50.0)
TOLD = (2.0, 8.0, 20.0, 30.0, 40.0, 50.0)


def measure(row: Row, models: dict[str, "disol.Surrogate"], options: argparse.Namespace) -> Row:
    """Return the errors of every model at all times, and those of keeping the exact frame of 20 s from then on."""
    drawn = disol.draw(
        "heat", seed=SEED, index=row["index"], shift=row["shift"] or None, resolution=options.resolution,
        conventions=CONVENTIONS,
    )  # fmt: skip
    case = disol.Case.from_arrays(drawn, times=TIMES)
    exact = disol.solve_exact(case).pattern
    inputs = case.problem.frame_inputs(case.inputs[None], TIMES)[0]
    errors = {
        name: [
            pattern_error(frame, reference, case.domain)
            for frame, reference in zip(models[name].predict_pattern(inputs), exact, strict=True)
        ]
        for name in row["models"]
    }
    held = exact[TIMES.index(20.0)]
    return {"errors": errors, "held": [pattern_error(held, reference, case.domain) for reference in exact]}


def summarise(rows: list[Row], names: list[str]) -> dict[str, Any]:
    """Sum up by shift and model: percentiles and means at each time."""
    found: dict[str, Any] = {}
    for shift in SHIFTS:
        own = [row for row in rows if row["shift"] == shift]
        if not own:
            continue
        values = {name: np.array([row["errors"][name] for row in own]) for name in names}
        values["the frame of 20 s"] = np.array([row["held"] for row in own])
        found[shift] = {
            "cases": len(own),
            "times": list(TIMES),
            **{
                name: {
                    "mean": errors.mean(0).tolist(),
                    **{f"p{at}": np.percentile(errors, at, axis=0).tolist() for at in (5, 50, 95)},
                }
                for name, errors in values.items()
            },
        }
    return found


def draw_curves(found: dict[str, Any], names: list[str], trained_until: dict[str, float]) -> Figure:
    """Draw the median over time in a band of nine cases of ten, one panel for each kind of case."""
    figure = Figure(figsize=(11, 4.6), layout="constrained")
    grid = figure.subplots(1, len(found), sharey=True, squeeze=False)[0]
    for axes, (shift, of) in zip(grid, found.items(), strict=True):
        for colour, name in zip(COLOURS, names, strict=False):
            axes.plot(TIMES, of[name]["p50"], color=colour, marker="o", markersize=3.5, label=name)
            axes.fill_between(TIMES, of[name]["p5"], of[name]["p95"], color=colour, alpha=0.15, linewidth=0)
            axes.axvline(trained_until[name], color=colour, linestyle=":", linewidth=1)
        later = [place for place, time in enumerate(TIMES) if time > 20]
        axes.plot(
            [TIMES[place] for place in later], [of["the frame of 20 s"]["p50"][place] for place in later],
            color=QUIET, linestyle="--", linewidth=1.2, label="the exact frame of 20 s, kept",
        )  # fmt: skip
        axes.set_title(f"heat, {SHIFTS[shift].strip('`')}, {of['cases']} cases", fontsize=10)
        axes.set_xlabel("t in s (dotted: training ends)", fontsize=9)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=8)
    label_decades(grid[0])
    for axes in grid[1:]:
        axes.grid(color=QUIET, alpha=0.25, linewidth=0.5)
    grid[0].set_ylabel("rel_l2: median, 5 % to 95 %", fontsize=9)
    handles, labels = grid[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), fontsize=9, frameon=False)
    return figure


def conclude(found: dict[str, Any], names: list[str], trained_until: dict[str, float]) -> str:
    """Say how errors grow after training, and since when keeping the last frame is as good."""
    lines = []
    for (shift, of), name in product(found.items(), names):
        medians = dict(zip(TIMES, of[name]["p50"], strict=True))
        kept = dict(zip(TIMES, of["the frame of 20 s"]["p50"], strict=True))
        last = max(time for time in TIMES if time <= trained_until[name])
        better = [time for time in TIMES if time > 20 and medians[time] < kept[time]]
        worse = [time for time in TIMES if time > 20 and medians[time] >= kept[time]]
        told = f"- `{name}`, {SHIFTS[shift]}: the median is {scientific(medians[last])} at {last:g} s"
        told += ", where its training ends"
        if last < TIMES[-1]:
            grown = medians[TIMES[-1]] / medians[last]
            told += f", and {scientific(medians[50.0])} at 50 s, {grown:.1f} times as much"
        told += ". Keeping the exact frame of 20 s would be "
        told += (
            "worse at every later time."
            if not worse
            else "as good or better at every later time."
            if not better
            else f"better at {', '.join(f'{time:g}' for time in worse)} s and worse at the other later times."
        )
        lines.append(told)
    return "\n".join(lines)


def main() -> None:
    assert __doc__ is not None
    options = read_options(
        __doc__, cases=100, models=[name for name in MODELS if name in disol.list_pretrained()]
    ).parse_args()
    models = load_models(options.models, options.device)
    names = list(models)
    trained_until = {name: surrogate.checkpoint.trained_until for name, surrogate in models.items()}
    wanted = [
        {"index": index, "shift": shift, "models": names, "resolution": options.resolution}
        for index, shift in product(range(options.cases), SHIFTS)
    ]
    rows = measure_rows(wanted, lambda row: measure(row, models, options), options.out, options.minutes)
    found = summarise(rows, names)
    lines = [
        [f"`{name}`", SHIFTS[shift], str(of["cases"]), f"{trained_until[name]:g} s"]
        + [f"{scientific(of[name]['mean'][TIMES.index(time)])} ({scientific(of[name]['p50'][TIMES.index(time)])})"
           for time in TOLD]
        for (shift, of), name in product(found.items(), names)
    ]  # fmt: skip
    publish(
        [
            "# Heat in time",
            "This page is written by `python studies/heat_in_time.py`. It shows how the errors of the heat models grow "
            "with time, within and beyond the times that they were trained on.",
            "Errors are the `rel_l2` of a frame over the domain, against the exact frame on the same pixels and time "
            f"steps (conventions `{CONVENTIONS}`, seed {SEED}). A network receives the time as an input channel, so "
            "beyond its training it is given values that it never saw. The dashed line is a baseline that knows "
            "nothing about later times: it keeps the exact frame of 20 s.",
            "curves",
            "Mean errors over the cases, with medians in brackets:",
            table(["model", "cases of", "cases", "trained until", *(f"{time:g} s" for time in TOLD)], lines),
            conclude(found, names, trained_until),
        ],
        {"curves": draw_curves(found, names, trained_until)},
        found,
        options.write,
        "heat_in_time",
    )


if __name__ == "__main__":
    main()
