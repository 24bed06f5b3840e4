"""Pictures of an evaluation: its best, median and worst cases as patterns, and the distribution of errors."""

from collections.abc import Iterator
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from disol.evaluation.results import Evaluation, Example, FileEvaluation
from disol.problems.problem import component_of
from disol.viz.cases import field_panels, is_field, is_marker, marker_panel
from disol.viz.errors import plot_agreement, plot_over_time, plot_spread
from disol.viz.panels import (
    Image,
    Mask,
    Panel,
    Scale,
    draw_panels,
    error_scale,
    field_panel,
    name_strips,
    signed_scale,
    strip,
    values_scale,
)
from disol.viz.solutions import choose_times, pad_rows


def draw_evaluation(evaluation: Evaluation) -> Iterator[tuple[str, Figure]]:
    """Yield every picture of an evaluation with its file name."""
    for file in evaluation.files:
        for name, figure in draw_examples(file):
            yield f"{file.name}-{name}.png", figure
    yield "errors.png", draw_errors(evaluation)
    if any(len(file.times) > 1 for file in evaluation.files):
        yield "errors-over-time.png", draw_errors_over_time(evaluation)
    if evaluation.predicts == "log-amplitude":
        yield "amplitudes.png", draw_amplitudes(evaluation)


def draw_examples(file: FileEvaluation) -> Iterator[tuple[str, Figure]]:
    """Draw the best, median and worst cases by name: steady scalar fields in one picture, others in one for each."""
    if not file.examples:
        return
    if file.times == (None,) and len(file.problem.fields) == 1:
        rows = [[*_given(example), *_compare(file, example, 0)] for example in file.examples]
        names = [str(example).replace(", ", "\n") for example in file.examples]
        yield "examples", draw_panels(rows, _heading(file), names)
        return
    for example in file.examples:
        yield example.rank, draw_fields(file, example) if file.times == (None,) else draw_frames(file, example)


def draw_fields(file: FileEvaluation, example: Example) -> Figure:
    """Draw the components of a vector field and its length, one per row, with what is given for each component."""
    fields, domain = file.problem.fields, example.domain
    rows = []
    for position, name in enumerate(fields):
        axis = component_of(name)
        given = _given(example) if axis is None else [_markers(example, f"along {axis}", axis)]
        rows.append([*given, *_compare(file, example, position)])
    normalisation, unit = file.settings.normalisation, example.amplitude / (example.amplitude.max() or 1.0)
    reference, prediction = (
        normalisation.to_field(patterns[0], unit, domain) for patterns in (example.reference, example.prediction)
    )
    exact, predicted, error = (
        np.sqrt((vectors**2).sum(axis=0)) for vectors in (reference, prediction, prediction - reference)
    )
    known = Panel("errors of this case", partial(_show_numbers, example=example, fields=fields))
    rows.append([known, *_compare_images("|u|", exact, predicted, error, domain, values_scale(exact[domain]))])
    return draw_panels(rows, f"{_heading(file)}\n{example}")


def draw_frames(file: FileEvaluation, example: Example) -> Figure:
    """Draw a transient case as strips of times: exact, predicted and error share their scale over all times."""
    shown, domain = choose_times(len(file.times)), example.domain
    titles = [f"t = {file.times[frame]:g} s\nrel_l2 {example.errors['rel_l2'][frame]:.1%}" for frame in shown]
    strips = []
    for position, name in enumerate(file.problem.fields):
        reference, prediction = example.reference[shown, position], example.prediction[shown, position]
        error = np.abs(prediction - reference)
        scale = _scale(file, name, reference[:, domain])
        strips += [(f"exact {name}", reference, scale), (f"predicted {name}", prediction, scale)]
        strips.append(("|error|", error, error_scale(error[:, domain])))
    given = pad_rows(_given(example), len(strips))
    rows = [
        [*left, *strip(list(images), domain, scale, None if row else titles)]
        for row, (left, (_, images, scale)) in enumerate(zip(given, strips, strict=True))
    ]
    figure = draw_panels(rows, f"{_heading(file)}\n{example}")
    name_strips(figure, [name for name, _, _ in strips], columns=len(rows[0]), first=len(given[0]))
    return figure


def draw_errors(evaluation: Evaluation) -> Figure:
    """Draw the distribution of the headline error over the cases of each file."""
    errors = {file.name: file.values[evaluation.headline] for file in evaluation.files}
    times = ", all times shown" if any(len(file.times) > 1 for file in evaluation.files) else ""
    return plot_spread(errors, f"{evaluation.headline} of a case{times}", _subject(evaluation))


def draw_errors_over_time(evaluation: Evaluation) -> Figure:
    """Draw the median error at each time, with a band that holds nine cases in ten."""
    errors = {
        file.name: (np.array(file.times, dtype=float), file.values[evaluation.headline]) for file in evaluation.files
    }
    return plot_over_time(errors, evaluation.headline, _subject(evaluation), evaluation.trained_until)


def draw_amplitudes(evaluation: Evaluation) -> Figure:
    """Draw predicted against true ln u_lim, and say how well the amplitudes of each file are predicted."""
    pairs = {}
    for file in evaluation.files:
        correlation, error = float(np.mean(file.correlations)), float(file.values["squared_log_error"].mean())
        typical = float(np.median(file.values["rel_amplitude_error"]))
        name = f"{file.name}: correlation {correlation:.4f}, MSE {error:.2g}, median error of u_lim {typical:.1%}"
        pairs[name] = (file.values["predicted_log_amplitude"], file.values["log_amplitude"])
    return plot_agreement(pairs, "ln u_lim", _subject(evaluation))


def _subject(evaluation: Evaluation) -> str:
    return f"{evaluation.model['model']} on {evaluation.files[0].settings.problem}"


def _heading(file: FileEvaluation) -> str:
    side = file.settings.resolution
    return f"{file.settings.problem}   {file.name}: {len(file)} cases, {side} x {side}"


def _values(example: Example) -> dict[str, Image]:
    shown = [term for term in example.problem.terms if is_marker(term) or is_field(term)]
    return {term.name: example.channel(term.channel) for term in shown}


def _markers(example: Example, title: str, component: str | None = None) -> Panel:
    return marker_panel(title, example.problem.terms, _values(example), example.domain, component)


def _given(example: Example) -> list[Panel]:
    fields = field_panels(example.problem.terms, _values(example), example.domain)
    return [_markers(example, "domain"), *fields]


def _compare(file: FileEvaluation, example: Example, position: int) -> list[Panel]:
    """Return the panels of one field of a steady problem."""
    name = file.problem.fields[position]
    reference, prediction = example.reference[0, position], example.prediction[0, position]
    scale = _scale(file, name, reference[example.domain])
    return _compare_images(name, reference, prediction, np.abs(prediction - reference), example.domain, scale)


def _compare_images(
    name: str, reference: Image, prediction: Image, error: Image, domain: Mask, scale: Scale
) -> list[Panel]:
    """Return the panels of exact and predicted field, in the same colours, and of the error."""
    title = f"|error|, mean {error[domain].mean():.2g}"
    return [
        field_panel(f"exact {name}", reference, domain, scale),
        field_panel(f"predicted {name}", prediction, domain, scale),
        field_panel(title, error, domain, error_scale(error[domain])),
    ]


def _scale(file: FileEvaluation, name: str, values: Image) -> Scale:
    """Return the scale of a pattern; for a component of a vector, symmetric about the value that stands for zero."""
    if component_of(name) is None:
        return values_scale(values)
    return signed_scale(values, 0.5 if file.settings.normalisation.per_component else 0.0)


def _show_numbers(axes: Axes, example: Example, fields: tuple[str, ...]) -> None:
    """Write the errors of a case as text."""
    lines = [f"{'':9} {'both':>8} " + " ".join(f"{field:>8}" for field in fields)]
    for name in (name for name in example.errors if f"{name}_{fields[0]}" in example.errors):
        columns = [name, *(f"{name}_{field}" for field in fields)]
        lines.append(f"{name:9} " + " ".join(f"{example.errors[column][0]:8.1e}" for column in columns))
    axes.set_box_aspect(1)
    axes.text(
        0.5, 0.5, "\n".join(lines), transform=axes.transAxes, ha="center", va="center", family="monospace", size=5.5
    )
