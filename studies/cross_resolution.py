r"""Across resolutions: Poisson models trained at 64, on the same continuous cases at 64, 96, 128 and 256 pixels.

    python studies/cross_resolution.py --cases 40 --out studies-work/resolution --write docs/studies/cross_resolution.md
    python studies/cross_resolution.py --model runs/poisson-resolutions

Beside running a network on a finer grid stands what it competes with: predict at 64, and interpolate. What `--out`
holds already is not measured again.
"""

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from matplotlib.figure import Figure
from scipy.ndimage import distance_transform_edt, map_coordinates

import disol
from disol.viz.errors import COLOURS, QUIET
from disol.viz.panels import Panel, draw_panels, error_scale, field_panel, values_scale
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

MODELS = ("poisson", "poisson-paper")
SHIFTS = {"": "in distribution", "all": "`all`"}
SIDES = (64, 96, 128, 256)
EXACT = "exact"

Map = Float[np.ndarray, "height width"]
Mask = Bool[np.ndarray, "height width"]


def interpolate(coarse: Map, coarse_domain: Mask, domain: Mask) -> Map:
    """Bring a field to a finer grid: continued beyond its domain by the nearest pixel, bilinear, cut to that domain.

    Without that continuation its zeros outside would be mixed into the pixels at the boundary.
    """
    nearest = distance_transform_edt(~coarse_domain, return_distances=False, return_indices=True)
    continued = coarse[tuple(nearest)]
    ratio = coarse.shape[0] / domain.shape[0]
    places = (np.indices(domain.shape) + 0.5) * ratio - 0.5  # centres of the fine pixels, in coarse ones
    return map_coordinates(continued, places, order=1, mode="nearest") * domain


def draw_case(index: int, shift: str, side: int) -> "disol.Case":
    """Draw the same continuous case on a grid of any side."""
    return disol.draw("poisson", seed=SEED, index=index, shift=shift or None, resolution=side, conventions=CONVENTIONS)


def predict_all(
    index: int, shift: str, side: int, models: dict[str, "disol.Surrogate"], names: Sequence[str]
) -> tuple["disol.Case", Map, dict[str, Map]]:
    """Return a case, its exact pattern, and every way to it: on its grid, or interpolated from that of training."""
    case = draw_case(index, shift, side)
    found: dict[str, Map] = {}
    for name in names:
        found[name] = models[name].predict_pattern(case.inputs[None])[0, 0].astype(float)
        trained = min(models[name].resolutions)
        if side > trained:
            coarse = draw_case(index, shift, trained)
            predicted = models[name].predict_pattern(coarse.inputs[None])[0, 0].astype(float)
            found[f"{name}, interpolated"] = interpolate(predicted, coarse.domain, case.domain)
    coarsest = min(min(models[name].resolutions) for name in names)
    if side > coarsest:
        coarse = draw_case(index, shift, coarsest)
        solved = disol.solve_exact(coarse).pattern[0]
        found[f"{EXACT}, interpolated"] = interpolate(solved, coarse.domain, case.domain)
    return case, disol.solve_exact(case).pattern[0], found


def measure(row: Row, models: dict[str, "disol.Surrogate"]) -> Row:
    """Return the error of every way to one case on one grid."""
    case, exact, found = predict_all(row["index"], row["shift"], row["side"], models, row["models"])
    return {"errors": {way: pattern_error(pattern, exact, case.domain) for way, pattern in found.items()}}


def summarise(rows: list[Row]) -> dict[str, Any]:
    """Sum up by shift, way and side."""
    found: dict[str, Any] = {}
    for shift, side in product(SHIFTS, sorted({row["side"] for row in rows})):
        own = [row["errors"] for row in rows if (row["shift"], row["side"]) == (shift, side)]
        for way in own[0] if own else ():
            errors = np.array([each[way] for each in own])
            q1, median, q3 = map(float, np.percentile(errors, [25, 50, 75]))
            found.setdefault(shift, {}).setdefault(way, {})[str(side)] = {
                "cases": len(own), "mean": float(errors.mean()), "q1": q1, "median": median, "q3": q3,
            }  # fmt: skip
    return found


def draw_curves(found: dict[str, Any], names: Sequence[str]) -> Figure:
    """Draw medians against the side of the grid: solid on its own grid, dashed interpolated."""
    figure = Figure(figsize=(11, 4.8), layout="constrained")
    grid = figure.subplots(1, len(found), sharey=True, squeeze=False)[0]
    colours = dict(zip(names, COLOURS, strict=False)) | {EXACT: QUIET}
    coarsest = min(int(side) for ways in found.values() for by_side in ways.values() for side in by_side)
    for axes, (shift, ways) in zip(grid, found.items(), strict=True):
        for way, by_side in ways.items():
            colour, dashed = colours[way.partition(",")[0]], "interpolated" in way
            sides = [int(side) for side in by_side]
            label = way if not dashed else f"{way.partition(',')[0]} at {coarsest}, interpolated"
            axes.plot(
                sides, [each["median"] for each in by_side.values()], color=colour, marker="o", markersize=4.5,
                linestyle="--" if dashed else "-", markerfacecolor="white" if dashed else colour, label=label,
            )  # fmt: skip
            axes.fill_between(
                sides, [each["q1"] for each in by_side.values()], [each["q3"] for each in by_side.values()],
                color=colour, alpha=0.12, linewidth=0,
            )  # fmt: skip
        cases = min(each["cases"] for by_side in ways.values() for each in by_side.values())
        axes.set_title(f"Poisson, {SHIFTS[shift].strip('`')}, {cases} cases", fontsize=10)
        axes.set_xlabel("pixels along a side", fontsize=9)
        axes.set_xscale("log", base=2)
        sides = sorted({int(side) for by_side in ways.values() for side in by_side})
        axes.set_xticks(sides, [str(side) for side in sides])
        axes.minorticks_off()
        axes.tick_params(labelsize=8)
        axes.spines[["top", "right"]].set_visible(False)
    label_decades(grid[0])
    for axes in grid[1:]:
        axes.grid(color=QUIET, alpha=0.25, linewidth=0.5)
    grid[0].set_ylabel("rel_l2 on that grid: median, quartiles", fontsize=9)
    handles, labels = grid[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, fontsize=9, frameon=False)
    return figure


def draw_example(models: dict[str, "disol.Surrogate"], sides: Sequence[int], shift: str) -> Figure:
    """Draw one case on every grid: exact, predicted there and interpolated by the first model, and their errors."""
    name, rows = next(iter(models)), []
    for side in sides:
        case, exact, found = predict_all(0, shift, side, models, [name])
        scale = values_scale(exact[case.domain])
        row = [field_panel(f"exact, {side} x {side}", exact, case.domain, scale)]
        ways = {"on this grid": found[name]}
        if f"{name}, interpolated" in found:
            ways["interpolated"] = found[f"{name}, interpolated"]
        limits = error_scale(
            np.array([np.abs(each - exact)[case.domain].max() for each in ways.values()]).min(keepdims=True)
        )
        for way, pattern in ways.items():
            missed = pattern_error(pattern, exact, case.domain)
            row.append(field_panel(f"{name}, {way}", pattern, case.domain, scale))
            row.append(field_panel(f"|error|, rel_l2 {missed:.1%}", np.abs(pattern - exact), case.domain, limits))
        rows.append([*row, *[Panel("", lambda axes: axes.set_visible(False))] * (5 - len(row))])
    return draw_panels(
        rows, f"One case on every grid ({SHIFTS[shift].strip('`')}); errors of a grid in one scale", side=2.2
    )


def conclude(found: dict[str, Any], names: Sequence[str]) -> list[str]:
    """Set a model that is run on each finer grid beside its interpolated prediction."""
    lines, sides = [], []
    for (shift, ways), name in product(found.items(), names):
        other = ways.get(f"{name}, interpolated", {})
        medians = {side: (ways[name][side]["median"], other[side]["median"]) for side in other}
        better = [side for side, (run, interpolated) in medians.items() if run < interpolated]
        sides += [side for side in medians if side not in sides]
        if medians:
            cells = {side: " against ".join(map(scientific, pair)) for side, pair in medians.items()}
            verdict = f"yes, at {', '.join(better)}" if better else "no"
            lines.append((f"`{name}`", SHIFTS[shift], cells, verdict))
    if not lines:
        return []
    rows = [[name, kind, *(cells.get(side, "") for side in sides), verdict] for name, kind, cells, verdict in lines]
    return [
        "Does it pay to run a network on a finer grid than it was trained on? Median errors, run as it is against "
        "interpolated:",
        table(["model", "cases of", *sides, "better as it is"], rows),
    ]


def main() -> None:
    assert __doc__ is not None
    parser = read_options(__doc__, cases=40, models=MODELS)
    parser.add_argument("--model", nargs="+", default=[], help="more models, such as one trained on several grids")
    parser.add_argument("--sides", type=int, nargs="+", default=list(SIDES))
    options = parser.parse_args()
    models = load_models([*options.models, *options.model], options.device)
    names = list(models)
    wanted = [
        {"index": index, "shift": shift, "side": side, "models": names}
        for index, shift, side in product(range(options.cases), SHIFTS, options.sides)
    ]
    rows = measure_rows(wanted, lambda row: measure(row, models), options.out, options.minutes)
    found = summarise(rows)
    lines = [
        [f"`{way}`" if "," not in way else way, SHIFTS[shift], str(min(each["cases"] for each in by_side.values()))]
        + [
            f"{scientific(by_side[str(side)]['mean'])} ({scientific(by_side[str(side)]['median'])})"
            if str(side) in by_side
            else ""
            for side in options.sides
        ]
        for shift, ways in found.items()
        for way, by_side in ways.items()
    ]
    added = " and ".join(f"`{name}`" for name in names[len(options.models) :])
    shown = f"here {added}" if added else "of which none is shown here yet"
    publish(
        [
            "# Across resolutions",
            "This page is written by `python studies/cross_resolution.py`. It takes the same continuous Poisson cases "
            f"on several grids (conventions `{CONVENTIONS}`, seed {SEED}). Errors are the `rel_l2` of patterns over "
            "the domain, against the exact solution on the pixels of each grid.",
            "There are two ways to use a network that was trained at 64 on a finer grid:",
            "- run it on the finer grid as it is;\n- predict at 64 and interpolate the result: extend it beyond its "
            "domain by the nearest pixel, then interpolate bilinearly.",
            "*Exact, interpolated* is the exact solution at 64, interpolated in the same way. A prediction at 64 can "
            "beat it only by luck: pixel geometry is first-order accurate, so the two grids do not have the same "
            "solution.",
            "curves",
            "Mean errors, with medians in brackets, by the number of pixels along a side:",
            table(["", "cases of", "cases", *(str(side) for side in options.sides)], lines),
            *conclude(found, names),
            "One case on every grid:",
            "example",
            "`--model RUN` adds a DiSOL that was trained on several resolutions "
            f"([how](../training.md#several-resolutions)), {shown}. "
            "[experiments.md](../experiments.md#several-resolutions) says how it was trained, and what such training "
            "gains on small grids. A longer run, for a GPU, is that of `configs/poisson-resolutions.toml`. Generate "
            "the files that it names, then:",
            "```\ndisol train poisson --config configs/poisson-resolutions.toml --data poisson-64.h5 "
            "--data poisson-96.h5 \\\n"
            "    --data poisson-128.h5 --data poisson-256.h5 --out runs/poisson-resolutions\n"
            "python studies/cross_resolution.py --model runs/poisson-resolutions\n```",
        ],
        {"curves": draw_curves(found, names), "example": draw_example(models, options.sides, "all")},
        found,
        options.write,
        "cross_resolution",
    )


if __name__ == "__main__":
    main()
