r"""What symmetries are worth: predictions averaged over turned and mirrored copies of a case, and their spread.

    python studies/symmetry.py --cases 70 --out studies-work/symmetry --write docs/studies/symmetry.md

`disol.surrogate.symmetrise` makes such a network of any other. What `--out` holds already is not measured again.
"""

import time
from itertools import product
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from scipy.stats import spearmanr

import disol
from disol.data.recipe import read_recipe
from disol.surrogate import symmetrise
from disol.surrogate.symmetric import SymmetricNetwork
from disol.training.augmentation import IDENTITY, SQUARE_GROUP, Element
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

MODELS = ("poisson", "poisson-paper", "heat", "heat-paper", "elasticity", "elasticity-paper")
SHIFTS = {"": "in distribution", "all": "`all`", "shapes": "named shapes", "released": "`released`", "broad": "`broad`"}
TIMES = (2.0, 8.0, 14.0, 20.0)  # of heat; its errors are means over them
HALF_TURN = Element(False, -1, -1)
# The copies that are averaged, by their number: subgroups of all eight.
GROUPS = {
    1: (IDENTITY,),
    2: (IDENTITY, HALF_TURN),
    4: tuple(element for element in SQUARE_GROUP if element.is_rotation),
    8: SQUARE_GROUP,
}


def symmetric(surrogate: disol.Surrogate) -> SymmetricNetwork:
    """Return the network of a model as one that averages over copies, on the same device."""
    network = disol.load(symmetrise(surrogate), device=str(surrogate.engine.device)).network
    assert isinstance(network, SymmetricNetwork)
    return network


def predict_copies(network: SymmetricNetwork, inputs: np.ndarray) -> np.ndarray:
    """Return the patterns [copy, frame, field, height, width] for all copies of a case, turned back."""
    device = next(network.parameters()).device
    with torch.inference_mode():
        frames = torch.from_numpy(inputs).to(device)
        return torch.stack([network.predict_copy(frames, each) for each in network.elements]).double().cpu().numpy()


def measure(row: Row, models: dict[str, SymmetricNetwork], resolution: int | None) -> Row:
    """Return the errors of every model for one, two, four and eight copies, how far they are apart, and the times."""
    case = read_recipe(row["problem"], SEED, row["shift"] or None, CONVENTIONS, resolution).draw(row["index"])
    if case.times is not None:
        case = disol.Case.from_arrays(case, times=TIMES)
    started = time.perf_counter()
    exact = disol.solve_exact(case).pattern
    seconds = {"exact": time.perf_counter() - started}
    references = exact if case.times is not None else exact[None]
    inputs = case.problem.frame_inputs(case.inputs[None], TIMES)[0] if case.times is not None else case.inputs[None]
    found: Row = {"errors": {}, "spread": {}, "seconds": seconds}
    for name in row["models"]:
        started = time.perf_counter()
        copies = predict_copies(models[name], inputs)
        seconds[name] = time.perf_counter() - started
        found["errors"][name] = {
            str(number): mean_error(copies[[each in group for each in models[name].elements]], references, case.domain)
            for number, group in GROUPS.items()
        }
        found["spread"][name] = spread_of(copies, case.domain)
    return found


def mean_error(copies: np.ndarray, references: np.ndarray, domain: np.ndarray) -> float:
    """Return the relative error of the mean of some copies, averaged over frames."""
    return float(np.mean([pattern_error(*frames, domain) for frames in zip(copies.mean(0), references, strict=True)]))


def spread_of(copies: np.ndarray, domain: np.ndarray) -> float:
    """Return the root mean square distance of copies from their mean, relative to it, averaged over frames."""
    mean = copies.mean(0)
    distances = [
        np.mean([pattern_error(copy, frame, domain) ** 2 for copy in each])
        for each, frame in zip(copies.swapaxes(0, 1), mean, strict=True)
    ]
    return float(np.mean(np.sqrt(distances)))


def summarise(rows: list[Row], names: list[str]) -> dict[str, dict[str, Any]]:
    """Sum up by model and shift."""
    found: dict[str, dict[str, Any]] = {}
    for name, shift in product(names, SHIFTS):
        own = [row for row in rows if row["shift"] == shift and name in row["errors"]]
        if not own:
            continue
        errors = {number: np.array([row["errors"][name][number] for row in own]) for number in map(str, GROUPS)}
        spread = np.array([row["spread"][name] for row in own])
        ratio = errors["8"] / spread
        found.setdefault(name, {})[shift] = {
            "cases": len(own),
            "mean": {number: float(values.mean()) for number, values in errors.items()},
            "spread": [float(f"{value:.3e}") for value in spread],
            "error": [float(f"{value:.3e}") for value in errors["8"]],
            "ratio": {f"p{at}": float(np.percentile(ratio, at)) for at in (5, 50, 95)},
            "within": float((ratio <= 2).mean()),
            "correlation": float(spearmanr(spread, errors["8"])[0]) if len(own) > 2 else None,
            "times_as_long": float(np.median([row["seconds"][name] / row["seconds"]["exact"] for row in own])),
        }
    return found


def draw_errors(found: dict[str, Any], problems: dict[str, str]) -> Figure:
    """Draw mean errors against the number of copies, one panel for each problem."""
    kinds = list(dict.fromkeys(problems.values()))
    figure = Figure(figsize=(3.7 * len(kinds), 4.4), layout="constrained")
    panels = dict(zip(kinds, figure.subplots(1, len(kinds), sharey=True, squeeze=False)[0], strict=True))
    colours = dict(zip(SHIFTS, COLOURS, strict=False))
    for name, by_shift in found.items():
        axes, paper = panels[problems[name]], name.endswith("-paper")
        for shift, of in by_shift.items():
            axes.plot(
                list(GROUPS), list(of["mean"].values()), color=colours[shift], marker="o", markersize=4,
                linestyle="--" if paper else "-", markerfacecolor="white" if paper else colours[shift],
            )  # fmt: skip
    for kind, axes in panels.items():
        axes.set_title(kind, fontsize=10)
        axes.set_xlabel("copies that are averaged", fontsize=9)
        axes.set_xscale("log", base=2)
        axes.set_xticks(list(GROUPS), [str(number) for number in GROUPS])
        axes.minorticks_off()
        axes.tick_params(labelsize=8)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color=QUIET, alpha=0.25, linewidth=0.5)
    first = panels[kinds[0]]
    label_decades(first)
    first.set_ylabel("mean rel_l2", fontsize=9)
    handles = [Line2D([], [], color=colours[shift], label=told.strip("`")) for shift, told in SHIFTS.items()]
    handles += [
        Line2D([], [], color=QUIET, marker="o", markersize=4, label="trained broadly"),
        Line2D([], [], color=QUIET, marker="o", markersize=4, markerfacecolor="white", linestyle="--", label="-paper"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), fontsize=8, frameon=False)
    return figure


def draw_spread(found: dict[str, Any], problems: dict[str, str]) -> Figure:
    """Draw the error of the mean against the spread of copies, a dot for each case."""
    figure = Figure(figsize=(10, 4.9), layout="constrained")
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    colours = dict(zip(dict.fromkeys(problems.values()), COLOURS, strict=False))
    for axes, paper in zip(panels, (False, True), strict=True):
        for name, by_shift in found.items():
            if name.endswith("-paper") == paper:
                spread, error = (np.concatenate([of[what] for of in by_shift.values()]) for what in ("spread", "error"))
                axes.scatter(spread, error, s=7, color=colours[problems[name]], alpha=0.5, linewidths=0)
        for factor, style in ((1, "-"), (2, ":")):
            axes.axline((1e-2, factor * 1e-2), (1e-1, factor * 1e-1), color=QUIET, linewidth=0.9, linestyle=style)
        axes.set_title("trained on the paper's cases (-paper)" if paper else "trained broadly", fontsize=10)
        axes.set_xlabel("spread of the eight copies, relative", fontsize=9)
        axes.set_xscale("log")
        axes.tick_params(labelsize=8)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color=QUIET, alpha=0.25, linewidth=0.5)
    label_decades(panels[0])
    panels[0].set_ylabel("rel_l2 of their mean", fontsize=9)
    handles = [
        Line2D([], [], color=colour, marker="o", linestyle="", markersize=4, label=problem)
        for problem, colour in colours.items()
    ]
    handles += [
        Line2D([], [], color=QUIET, label="error = spread"),
        Line2D([], [], color=QUIET, linestyle=":", label="error = 2 x spread"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), fontsize=8, frameon=False)
    return figure


def conclude(found: dict[str, Any]) -> str:
    """Say what the numbers say of each model: the gain, whether the spread tells the error, and the cost."""
    lines = []
    for name, by_shift in found.items():
        gains = [1 - of["mean"]["8"] / of["mean"]["1"] for of in by_shift.values()]
        within = [of["within"] for of in by_shift.values()]
        cost = np.median([of["times_as_long"] for of in by_shift.values()])
        lines.append([f"`{short_name(name)}`", _range(gains), _range(within), f"x {cost:.0f}"])
    return table(["model", "error reduced by", "error at most twice the spread", "time of all eight"], lines)


def _range(shares: list[float]) -> str:
    low, high = (f"{100 * share:.0f}" for share in (min(shares), max(shares)))
    return f"{low} %" if low == high else f"{low} to {high} %"


def main() -> None:
    assert __doc__ is not None
    options = read_options(__doc__, cases=70, models=MODELS).parse_args()
    loaded = load_models(options.models, options.device)
    problems = {name: surrogate.problem.name for name, surrogate in loaded.items()}
    models = {name: symmetric(each) for name, each in loaded.items()}
    wanted = [
        {"problem": problem, "shift": shift, "index": index, "models": names, "resolution": options.resolution}
        for index, (problem, names), shift in product(range(options.cases), group_by_problem(loaded).items(), SHIFTS)
    ]
    device = "a GPU" if any(each.engine.device.type == "cuda" for each in loaded.values()) else "a CPU"
    rows = measure_rows(wanted, lambda row: measure(row, models, options.resolution), options.out, options.minutes)
    found = summarise(rows, list(models))
    errors = [
        [f"`{short_name(name)}`", SHIFTS[shift], str(of["cases"]), *map(scientific, of["mean"].values()),
         f"{1 - of['mean']['8'] / of['mean']['1']:.0%}"]
        for name, by_shift in found.items() for shift, of in by_shift.items()
    ]  # fmt: skip
    spreads = [
        [f"`{short_name(name)}`", SHIFTS[shift], *(f"{of['ratio'][at]:.2g}" for at in ("p5", "p50", "p95")),
         f"{of['within']:.0%}", "" if of["correlation"] is None else f"{of['correlation']:.2f}"]
        for name, by_shift in found.items() for shift, of in by_shift.items()
    ]  # fmt: skip
    publish(
        [
            "# What symmetries are worth",
            "This page is written by `python studies/symmetry.py`. If a case of Poisson, heat or elasticity is turned "
            "or mirrored, its solution is turned or mirrored too. Networks are trained on such copies, but they learn "
            "the symmetry only roughly: their predictions for the eight copies of a case, turned back, differ. This "
            "study averages them.",
            "Two copies are the case and its half turn, four are its rotations, eight are its rotations and "
            f"reflections (conventions `{CONVENTIONS}`, seed {SEED}; for heat, errors are means over 2, 8, 14 and 20 "
            "s). Advection-diffusion is left out: its fixed velocity leaves no symmetry.",
            "errors",
            "Mean `rel_l2` by the number of copies that are averaged, and by how much eight copies reduce it:",
            table(["model", "cases of", "cases", "1", "2", "4", "8", "reduced by"], errors),
            "## What the spread tells",
            "The spread is the root mean square distance of the eight predictions from their mean, relative to that "
            "mean. It needs no solution. Can it stand in for the error? The table gives percentiles over cases of the "
            "ratio of both (the error of the mean, divided by the spread), the share of cases where this ratio is at "
            "most 2, and the rank correlation between error and spread:",
            table(["model", "cases of", "p5", "median", "p95", "at most 2", "rank correlation"], spreads),
            "spread",
            "On a kind of case that a network was never trained on, all copies share what it gets wrong, and their "
            "spread does not show it.",
            "In short, with ranges over the kinds of cases: by how much the mean of eight predictions reduces the "
            "error of one, in how many cases its error is at most twice the spread, and how many times as long all "
            "eight predictions take as the exact solution on the same pixels:",
            conclude(found),
            f"Times are those of single cases, with networks on {device}; for heat, they cover all four times.",
        ],
        {"errors": draw_errors(found, problems), "spread": draw_spread(found, problems)},
        found,
        options.write,
        "symmetry",
    )


if __name__ == "__main__":
    main()
