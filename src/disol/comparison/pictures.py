"""Pictures of a comparison, from the records of its runs alone: loss curves, errors, the same cases by all models."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from disol._files import read_regular
from disol.comparison.config import SHARED, ComparisonConfig
from disol.comparison.plan import list_columns
from disol.comparison.records import MOST_BYTES, RunRecord, unpack
from disol.comparison.summary import Row, find_time_flaw, list_rows
from disol.data.recipe import SPLITS
from disol.errors import DisolError, listed
from disol.models.card import read_json
from disol.problems.problem import Problem
from disol.viz.cases import field_panels, is_field, is_marker, marker_panel
from disol.viz.errors import percent, plot_boxes, plot_curves
from disol.viz.panels import (
    BLANK,
    Image,
    Panel,
    draw_panels,
    error_scale,
    name_strips,
    strip,
    values_scale,
)

SIDE = 1.55  # inches, of a panel
BOXED = ("rel_l1", "rel_l2")

Patterns = Float[np.ndarray, "field height width"]


def draw_comparison(
    config: ComparisonConfig, records: Mapping[str, RunRecord], cases: Path
) -> Iterator[tuple[str, str, Figure]]:
    """Yield every picture with its file name and its caption; `cases` is the file with the cases to show."""
    for column in list_columns(config):
        rows = [row for row in list_rows(config, records, column) if row.trained]
        suffix = "" if column == SHARED else f"-{column}"
        told = "" if column == SHARED else ", each model at its own learning rate"
        if not rows:
            continue
        losses = {
            row.label: [
                (np.array([epoch.seconds for epoch in record.curve]), record.validation_losses)
                for record in row.trained
            ]
            for row in rows
        }
        flaw = find_time_flaw(config, rows)
        caption = f"Validation loss (grid_mae) over epochs and over time{told}{flaw and ', '}{flaw}"
        curves = plot_curves(losses, "validation loss", f"{config.problem}: {caption}", config.report.threshold)
        yield f"curves{suffix}.png", caption, curves
        for error in BOXED:
            errors = {
                name: {
                    row.label: np.concatenate([record.tests[name].errors[error] for record in row.trained])
                    for row in rows
                }
                for name in config.tests
            }
            caption = f"Masked {error} of the cases of each test{told}"
            boxes = plot_boxes(errors, error, f"{config.problem}: {caption}")
            yield f"{error}{suffix}.png", caption, boxes
        if column == SHARED and cases.exists():
            yield from _draw_cases(config, rows, cases)


def _draw_cases(config: ComparisonConfig, rows: Sequence[Row], path: Path) -> Iterator[tuple[str, str, Figure]]:
    """Draw the first cases of each test as all models predict them, and their errors."""
    stored = read_json(read_regular(path, MOST_BYTES), path)
    for name in config.tests:
        if name in SPLITS or not stored.get(name):
            continue
        shown: list[list[Panel]] = []
        for index, case in enumerate(stored[name]):
            try:
                inputs = np.stack([unpack(channel) for channel in case["inputs"]])
                shown += _panels_of_case(
                    config.problem, inputs, unpack(case["pattern"]), _predictions(config, rows, name, index)
                )
            except (LookupError, TypeError, ValueError) as error:
                raise DisolError(f"{path} must hold cases, but: {listed([repr(error)])}. Remove it.") from error
        figure = draw_panels(shown, f"{config.problem}, test {name}", side=SIDE)
        name_strips(figure, ["", "|error|"] * (len(shown) // 2), columns=len(shown[0]), first=2)
        file = f"cases-{name.replace(':', '-')}.png"
        yield file, f"{config.problem}, test {name}: the same cases predicted by all models, and their errors", figure


def _predictions(config: ComparisonConfig, rows: Sequence[Row], test: str, index: int) -> dict[str, Patterns | None]:
    """Return what each model predicts for a case by its first seed; None if it cannot."""
    found: dict[str, Patterns | None] = {}
    for row in rows:
        record = row.records.get(config.seeds[0])
        shown = [] if record is None or record.diverged else record.tests[test].shown
        found[row.label] = next((each.pattern for each in shown if each.index == index), None)
    return found


def _panels_of_case(
    problem: Problem,
    inputs: Float[np.ndarray, "channel height width"],
    reference: Patterns,
    predictions: Mapping[str, Patterns | None],
) -> list[list[Panel]]:
    """Return two rows: what is given, the exact pattern and the predictions; below them, the errors."""
    domain = problem.channels.select(inputs, "domain") > 0
    given = {
        term.name: problem.channels.select(inputs, term.channel)
        for term in problem.terms
        if is_marker(term) or is_field(term)
    }
    first = marker_panel("", problem.terms, given, domain)
    fields = field_panels(problem.terms, given, domain)
    exact, scale = _size(reference), values_scale(_size(reference)[domain])
    errors = {label: np.abs(_size(each - reference)) for label, each in predictions.items() if each is not None}
    largest = [float(error[domain].max()) for error in errors.values()]
    limits = error_scale(np.array([np.median(largest)] if largest else [1.0]))
    size = float(np.sqrt((reference[:, domain] ** 2).sum())) or 1.0
    top = [first, *strip([exact], domain, scale, ["exact"])]
    below = [fields[0] if fields else BLANK, BLANK]
    for label, prediction in predictions.items():
        if prediction is None:
            top.append(Panel(label, partial(_say, text="cannot be\npredicted")))
            below.append(BLANK)
            continue
        missed = float(np.sqrt(((prediction - reference)[:, domain] ** 2).sum())) / size
        top += strip([_size(prediction)], domain, scale, [label])
        below += strip([errors[label]], domain, limits, [f"rel_l2 {percent(missed)}"])
    return [top, below]


def _size(patterns: Patterns) -> Image:
    """Return a scalar pattern as it is, and the length of a vector."""
    return patterns[0] if len(patterns) == 1 else np.sqrt((patterns**2).sum(axis=0))


def _say(axes: Axes, text: str) -> None:
    """Write a text in place of a picture."""
    axes.set_box_aspect(1)
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", size=7, color="#808890")
