"""Pictures of how errors are spread: over cases, over time, and of predicted against true amplitudes."""

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from disol.evaluation.results import Evaluation, FileEvaluation, summarise
from disol.problems.heat import TRAINED_UNTIL

COLOURS = ("#00798c", "#d1495b", "#edae49", "#7b4fa3", "#3a7d44", "#8a5a44", "#5c6b8a", "#c06c9c")
QUIET = "#808890"
SMALLEST = 1e-7  # float32 patterns cannot agree better, and a logarithmic axis has no 0
MOST_BINS = 40


def draw_errors(evaluation: Evaluation) -> Figure:
    """Draw how the headline error is spread over the cases of each file."""
    name = headline(evaluation)
    found = [shown_errors(file, name) for file in evaluation.files]
    bins = bins_for(np.concatenate(found))
    figure, axes = begin(evaluation)
    for position, (file, errors) in enumerate(zip(evaluation.files, found, strict=True)):
        show_spread(axes, errors, bins, file.name, colour_of(position))
    times = ", all times shown" if any(len(file.times) > 1 for file in evaluation.files) else ""
    axes.set(xscale="log", xlabel=f"{name} of a case{times} (dashed: median)", ylabel="share of cases")
    label_decades(axes.xaxis, bins[0], bins[-1])
    legend_below(figure)
    return figure


def show_spread(axes: Axes, errors: Float[np.ndarray, " error"], bins: list[float], name: str, colour: str) -> None:
    """Draw a histogram whose bars add up to 1."""
    if not len(errors):
        axes.plot([], [], color=colour, label=f"{name}: no finite error")
        return
    share, summary = np.full(len(errors), 1 / len(errors)), summarise(errors)
    label = f"{name}: mean {summary.mean:.2g}, median {summary.median:.2g}, p95 {summary.p95:.2g}"
    axes.hist(errors, bins, weights=share, histtype="stepfilled", color=colour, alpha=0.35, label=label)
    axes.hist(errors, bins, weights=share, histtype="step", color=colour)
    axes.axvline(summary.median, color=colour, linestyle="--", linewidth=1)


def draw_errors_over_time(evaluation: Evaluation) -> Figure:
    """Draw the median error at each time in a band that holds nine cases of ten."""
    name = headline(evaluation)
    figure, axes = begin(evaluation)
    for position, file in enumerate(evaluation.files):
        errors, times = np.clip(file.values[name], SMALLEST, None), np.array(file.times, dtype=float)
        order = np.argsort(times)
        with np.errstate(invalid="ignore"):  # infinite errors have no percentiles between them
            low, median, high = np.percentile(errors, [5, 50, 95], axis=1)[:, order]
        axes.plot(times[order], median, color=colour_of(position), marker="o", markersize=3, label=file.name)
        axes.fill_between(times[order], low, high, color=colour_of(position), alpha=0.2, linewidth=0)
    axes.axvline(TRAINED_UNTIL, color=QUIET, linestyle=":", linewidth=1)
    axes.text(
        TRAINED_UNTIL, 0.98, " training ends", transform=axes.get_xaxis_transform(), va="top", size=7, color=QUIET
    )
    if not any(len(shown_errors(file, name)) for file in evaluation.files):
        axes.set_ylim(SMALLEST, 1.0)  # a logarithmic axis needs limits even if there is nothing to show
    axes.set(yscale="log", xlabel="t in s", ylabel=f"{name}: median, 5 % to 95 %")
    label_decades(axes.yaxis, *axes.get_ylim())
    legend_below(figure)
    return figure


def draw_amplitudes(evaluation: Evaluation) -> Figure:
    """Draw predicted against true ln u_lim."""
    figure, axes = begin(evaluation, height=5.4)
    for position, file in enumerate(evaluation.files):
        true, predicted = file.values["log_amplitude"], file.values["predicted_log_amplitude"]
        axes.scatter(
            true, predicted, s=8, alpha=0.6, linewidths=0, color=colour_of(position), label=amplitude_label(file)
        )
    true = np.concatenate([file.values["log_amplitude"].ravel() for file in evaluation.files])
    ends = (float(true.min()), float(true.max()))
    axes.plot(ends, ends, color="#404850", linewidth=0.8, linestyle="--", label="predicted = true")
    axes.set(xlabel="true ln u_lim", ylabel="predicted ln u_lim")
    legend_below(figure)
    return figure


def amplitude_label(file: FileEvaluation) -> str:
    """Say how well the amplitudes of a file are predicted, on average over times."""
    correlation = float(np.mean(file.correlations))
    error = float(file.values["squared_log_error"].mean())
    typical = float(np.median(file.values["rel_amplitude_error"]))
    return f"{file.name}: correlation {correlation:.4f}, MSE {error:.2g}, median error of u_lim {typical:.1%}"


def headline(evaluation: Evaluation) -> str:
    """Name the error that is shown."""
    return "rel_l2" if evaluation.predicts == "pattern" else "rel_amplitude_error"


def shown_errors(file: FileEvaluation, name: str) -> Float[np.ndarray, " error"]:
    """Return the errors that a logarithmic axis can show; tiny ones are moved to its end."""
    values = file.values[name]
    return np.clip(values[np.isfinite(values)], SMALLEST, None)


def bins_for(errors: Float[np.ndarray, " error"]) -> list[float]:
    """Divide the range of errors evenly on a logarithmic axis, more finely for more cases."""
    low, high = (float(errors.min()), float(errors.max())) if len(errors) else (SMALLEST, 1.0)
    count = int(np.clip(2 * np.sqrt(len(errors)), 8, MOST_BINS))
    return np.geomspace(low / 1.05, high * 1.05, count + 1).tolist()


def begin(evaluation: Evaluation, height: float = 4.0) -> tuple[Figure, Axes]:
    """Start a picture that says which model was evaluated on which problem."""
    figure = Figure(figsize=(6.4, height), layout="constrained")
    axes = figure.subplots()
    axes.set_title(f"{evaluation.model['model']} on {evaluation.files[0].settings.problem}", fontsize=10)
    return figure, axes


def legend_below(figure: Figure) -> None:
    """Explain the colours below a picture, where they hide nothing."""
    figure.legend(loc="outside lower center", fontsize=8, frameon=False)


def label_decades(axis: Axis, low: float, high: float) -> None:
    """Label a logarithmic axis at powers of ten, and between them where it spans few."""
    between = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0) if high < 10 * low else (1.0, 2.0, 5.0) if high < 100 * low else (1.0,)
    axis.set_major_locator(LogLocator(subs=between))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def colour_of(position: int) -> str:
    """Return the colour of a file."""
    return COLOURS[position % len(COLOURS)]
