"""The relative error of a prediction, and pictures of the distribution of errors over cases and time."""

from collections.abc import Mapping, Sequence
from itertools import cycle

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from disol.problems.problem import TRAINED_UNTIL
from disol.viz.panels import new_figure, write_title

# People with red-green blindness can tell any two apart, too.
COLOURS = ("#00798c", "#d1495b", "#edae49", "#7b4fa3", "#6b8e23", "#5a3e1b", "#2b3a67", "#f4a7b9")
QUIET = "#808890"
SMALLEST = 1e-7  # float32 patterns cannot agree more closely, and a logarithmic axis has no 0
MOST_BINS = 40

Errors = Float[np.ndarray, "..."]


def relative_error(prediction: Float[np.ndarray, "*shape"], reference: Float[np.ndarray, "*shape"]) -> float:
    """‖Û − U‖₂ / ‖U‖₂; where U = 0 it is 0 for Û = 0 and 1 for any other Û. NaN propagates."""
    unit = float(np.abs(reference).max(initial=0.0)) or 1.0  # squares of very small or large values under- or overflow
    error, size = np.linalg.norm(prediction / unit - reference / unit), np.linalg.norm(reference / unit)
    if size == 0:
        return 0.0 if error == 0 else float(error / error)
    return float(error / size)


def percent(error: float) -> str:
    """Write an error with two significant digits."""
    value = 100 * error
    if value >= 1e6:
        return f"{value:.1e} %"
    return f"{value:.{0 if value >= 10 else 1}f} %" if value >= 1 else f"{value:.2g} %"


def plot_spread(errors: Mapping[str, Errors], label: str, title: str) -> Figure:
    """Draw the distribution over cases of errors, given by name: histograms that add up to 1."""
    finite = {name: np.clip(values[np.isfinite(values)], SMALLEST, None) for name, values in errors.items()}
    together = np.concatenate(list(finite.values()))
    low, high = (float(together.min()), float(together.max())) if len(together) else (SMALLEST, 1.0)
    count = int(np.clip(2 * np.sqrt(len(together)), 8, MOST_BINS))  # finer for more cases
    bins = np.geomspace(low / 1.05, high * 1.05, count + 1).tolist()
    figure, axes = _begin(title)
    for colour, (name, values) in zip(cycle(COLOURS), finite.items(), strict=False):
        if not len(values):
            axes.plot([], [], color=colour, label=f"{name}: no finite error")
            continue
        median, p95 = np.percentile(values, [50, 95])
        share = np.full(len(values), 1 / len(values))
        explained = f"{name}: mean {values.mean():.2g}, median {median:.2g}, p95 {p95:.2g}"
        axes.hist(values, bins, weights=share, histtype="stepfilled", color=colour, alpha=0.35, label=explained)
        axes.hist(values, bins, weights=share, histtype="step", color=colour)
        axes.axvline(median, color=colour, linestyle="--", linewidth=1)
    axes.set(xscale="log", xlabel=f"{label} (dashed: median)", ylabel="share of cases")
    _label_decades(axes.xaxis, bins[0], bins[-1])
    _explain_below(figure)
    return figure


def plot_over_time(
    errors: Mapping[str, tuple[Float[np.ndarray, " frame"], Float[np.ndarray, "frame case"]]],
    label: str,
    title: str,
    trained_until: float = TRAINED_UNTIL,
) -> Figure:
    """Draw the median of errors at each time, given in seconds, with a band that holds nine cases in ten."""
    figure, axes = _begin(title)
    for colour, (name, (times, values)) in zip(cycle(COLOURS), errors.items(), strict=False):
        order = np.argsort(times)
        with np.errstate(invalid="ignore"):  # infinite errors have no percentiles between them
            low, median, high = np.percentile(np.clip(values, SMALLEST, None), [5, 50, 95], axis=1)[:, order]
        axes.plot(times[order], median, color=colour, marker="o", markersize=3, label=name)
        axes.fill_between(times[order], low, high, color=colour, alpha=0.2, linewidth=0)
    if trained_until < max(times.max() for times, _ in errors.values()):
        place = axes.get_xaxis_transform()
        axes.axvline(trained_until, color=QUIET, linestyle=":", linewidth=1)
        axes.text(trained_until, 0.98, " training ends", transform=place, va="top", size=7, color=QUIET)
    if not any(np.isfinite(values).any() for _, values in errors.values()):
        axes.set_ylim(SMALLEST, 1.0)  # a logarithmic axis needs limits even if there is nothing to show
    axes.set(yscale="log", xlabel="t in s", ylabel=f"{label}: median, 5 % to 95 %")
    _label_decades(axes.yaxis, *axes.get_ylim())
    _explain_below(figure)
    return figure


def plot_agreement(pairs: Mapping[str, tuple[Errors, Errors]], label: str, title: str) -> Figure:
    """Plot predicted against reference values, given in this order; names may say how well they agree."""
    figure, axes = _begin(title, height=5.4)
    for colour, (name, (predicted, reference)) in zip(cycle(COLOURS), pairs.items(), strict=False):
        axes.scatter(reference, predicted, s=8, alpha=0.6, linewidths=0, color=colour, label=name)
    references = np.concatenate([reference.ravel() for _, reference in pairs.values()])
    ends = (float(references.min()), float(references.max()))
    axes.plot(ends, ends, color="#404850", linewidth=0.8, linestyle="--", label="predicted = true")
    axes.set(xlabel=f"true {label}", ylabel=f"predicted {label}")
    _explain_below(figure)
    return figure


def plot_boxes(errors: Mapping[str, Mapping[str, Errors]], label: str, title: str) -> Figure:
    """Draw errors of several models side by side, as box plots: by the name of a test, then by that of a model.

    A box holds the middle half of the cases, its line is the median, and whiskers span 5 % to 95 %.
    """
    models = list(dict.fromkeys(name for group in errors.values() for name in group))
    colours = dict(zip(models, cycle(COLOURS), strict=False))
    step = len(models) + 1.5
    figure = new_figure((max(6.4, 0.22 * step * len(errors) + 1.2), 4.2), managed=False)
    axes = figure.subplots()
    write_title(figure, title, fontsize=10)
    drawn = []
    for place, group in enumerate(errors.values()):
        for number, model in enumerate(models):
            values = group.get(model, np.zeros(0))
            values = np.clip(values[np.isfinite(values)], SMALLEST, None)
            if not len(values):
                continue
            drawn.append(values)
            boxes = axes.boxplot(
                values, positions=[place * step + number], widths=0.75, whis=(5, 95), showfliers=False,
                patch_artist=True, manage_ticks=False,
            )  # fmt: skip
            boxes["boxes"][0].set(facecolor=colours[model], alpha=0.55, edgecolor=colours[model])
            boxes["medians"][0].set(color="#202428", linewidth=1.4)
            for line in [*boxes["whiskers"], *boxes["caps"]]:
                line.set(color=colours[model], linewidth=1)
    for place in range(1, len(errors)):
        axes.axvline((place - 0.5) * step + (len(models) - 1) / 2, color=QUIET, linewidth=0.4)
    axes.set_xticks([place * step + (len(models) - 1) / 2 for place in range(len(errors))], list(errors))
    axes.tick_params(axis="x", length=0)
    axes.set(yscale="log", ylabel=f"{label}: 5, 25, 50, 75, 95 % of cases")
    axes.grid(axis="y", color=QUIET, alpha=0.25, linewidth=0.5)
    if drawn:
        _label_decades(axes.yaxis, *axes.get_ylim())
    handles = [Patch(facecolor=colours[model], alpha=0.55, edgecolor=colours[model], label=model) for model in models]
    figure.legend(handles=handles, loc="outside lower center", ncols=min(len(models), 8), fontsize=8, frameon=False)
    return figure


def plot_curves(
    curves: Mapping[str, Sequence[tuple[Errors, Errors]]],
    label: str,
    title: str,
    threshold: float | None = None,
) -> Figure:
    """Plot losses of models over epochs and over time; for several runs, the median in a band between the quartiles.

    curves      for each run of each model, the seconds after each epoch and the losses
    threshold   of the loss, drawn as a line
    """
    figure = new_figure((9.6, 4.0), managed=False)
    over_epochs, over_time = figure.subplots(1, 2, sharey=True)
    for colour, (name, runs) in zip(cycle(COLOURS), curves.items(), strict=False):
        length = min(len(losses) for _, losses in runs)
        epochs = np.arange(1, length + 1)
        seconds = np.median([times[:length] for times, _ in runs], axis=0)
        low, median, high = np.percentile([losses[:length] for _, losses in runs], [25, 50, 75], axis=0)
        for axes, places in ((over_epochs, epochs), (over_time, seconds)):
            mark = "o" if length == 1 else None
            axes.plot(
                places, median, color=colour, linewidth=1.4, marker=mark, label=name if axes is over_epochs else None
            )
            if len(runs) > 1:
                axes.fill_between(places, low, high, color=colour, alpha=0.2, linewidth=0)
    lowest = min((float(losses.min()) for runs in curves.values() for _, losses in runs), default=0.0)
    for axes, unit in ((over_epochs, "epoch"), (over_time, "training time in s")):
        axes.set(yscale="log", xlabel=unit)
        axes.grid(color=QUIET, alpha=0.25, linewidth=0.5)
        if threshold is not None and lowest < 2 * threshold:  # else it would leave the curves little room
            axes.axhline(threshold, color=QUIET, linestyle=":", linewidth=1)
    over_epochs.xaxis.set_major_locator(MaxNLocator(integer=True))
    over_time.set_xscale("log")
    _label_decades(over_time.xaxis, *over_time.get_xlim())
    over_epochs.set_ylabel(label)
    _label_decades(over_epochs.yaxis, *over_epochs.get_ylim())
    write_title(figure, title, fontsize=10)
    figure.legend(loc="outside lower center", ncols=min(len(curves), 8), fontsize=8, frameon=False)
    return figure


def _begin(title: str, height: float = 4.0) -> tuple[Figure, Axes]:
    figure = new_figure((6.4, height), managed=False)
    axes = figure.subplots()
    write_title(figure, title, fontsize=10)
    return figure, axes


def _explain_below(figure: Figure) -> None:
    """Explain the colours below a picture, where they hide nothing."""
    for text in figure.legend(loc="outside lower center", fontsize=8, frameon=False).get_texts():
        text.set_parse_math(False)  # names of files may hold dollars


def _label_decades(axis: Axis, low: float, high: float) -> None:
    """Label a logarithmic axis at powers of ten, and between them where it spans few."""
    between = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0) if high < 10 * low else (1.0, 2.0, 5.0) if high < 100 * low else (1.0,)
    axis.set_major_locator(LogLocator(subs=between))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())
