"""Tables of a comparison as Markdown and JSON, and the files that hold them and the pictures."""

import json
import math
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from disol import __version__
from disol._files import written_whole
from disol.comparison.comparison import Comparison
from disol.comparison.config import IN_DISTRIBUTION, PROBED, SHARED, ComparisonConfig
from disol.comparison.pictures import draw_comparison
from disol.comparison.plan import Places, find_rate, list_columns, list_probes
from disol.comparison.statistics import (
    LAST_SHARE,
    STILL_FALLING,
    Difference,
    find_quartiles,
    first_below,
    least_p_value,
)
from disol.comparison.summary import (
    ErrorSummary,
    Row,
    SummarisedTest,
    as_dict,
    compare_runs,
    find_time_flaw,
    list_devices,
    list_rows,
    measure_runs,
)
from disol.viz import save_figure
from disol.viz.errors import percent

if TYPE_CHECKING:
    from rich.table import Table

FORMAT = "disol comparison 1"
PAGE = "README.md"
NUMBERS = "comparison.json"
WIDTH = 120
# What a test is of, by its name; any other is a shift.
TESTS = {"train": "trained on", "validation": "validation", IN_DISTRIBUTION: "in distribution"}
RELATIVE, OVER_GRID = "rel_l2", "grid_mae"
# Measures of runs that the page compares, by how their names begin; the others are in the file of numbers.
COMPARED = ("best validation loss", f"{RELATIVE} of ")
TELLING = 0.01  # runs too few for a smaller p-value are pointed out

Write = Callable[[float, int], str]  # a number, with so many decimals


def write_comparison(comparison: Comparison, places: Places) -> None:
    """Write tables and pictures of all finished runs, in place of earlier ones."""
    config, records = comparison.config, comparison.records
    pictures = {}
    for name, caption, figure in draw_comparison(config, records, places.cases):
        save_figure(figure, places.out / name)
        pictures[name] = caption
    known = {"format": FORMAT, "package_version": __version__, "unfinished": list(comparison.unfinished)}
    numbers = json.dumps(_finite({**known, **as_dict(config, records)}), indent=1, ensure_ascii=False, allow_nan=False)
    for name, text in ((NUMBERS, f"{numbers}\n"), (PAGE, write_page(comparison, pictures))):
        with written_whole(places.out / name) as temporary:
            temporary.write_text(text, encoding="utf-8")


def write_page(comparison: Comparison, pictures: Mapping[str, str]) -> str:
    """Return the tables as a page; `pictures` have captions by the names of their files."""
    config, records = comparison.config, comparison.records
    paragraphs = [f"# {config.name}", *_describe(config)]
    if comparison.unfinished:
        paragraphs.append(f"**Not finished**: {_list_unfinished(comparison)}.")
    for column in list_columns(config):
        rows = list_rows(config, records, column)
        if rows:
            shared = f"All at the learning rate {config.train_settings.learning_rate:g}"
            heading = shared if column == SHARED else "Each at its own learning rate"
            paragraphs.append(f"## {heading}")
            if diverged := _list_diverged(rows):
                paragraphs.append(f"**Diverged**: {diverged}. Errors, curves and costs are those of the other runs.")
            paragraphs += [*_error_tables(config, rows), *_cost_tables(config, rows)]
    paragraphs += [*_probe_table(comparison), *_difference_table(comparison), "## How to read the tables"]
    paragraphs.append("\n".join(_fill(f"- {each}", indent="  ") for each in _explain(config)))
    if pictures:
        paragraphs.append("## Pictures")
        for name, caption in pictures.items():
            paragraphs += [f"![{caption}]({name})", f"*{caption}.*"]
    filled = [text if "\n" in text or text[0] in "#|!" else _fill(text) for text in paragraphs]
    return "\n\n".join(filled) + "\n"


def _fill(text: str, indent: str = "") -> str:
    return textwrap.fill(text, WIDTH, subsequent_indent=indent, break_on_hyphens=False)


def _list_unfinished(comparison: Comparison) -> str:
    """Name the runs that are still to be made; of probes, which are many, only tell how many."""
    probes = {run.name for entry in comparison.config.models for run in list_probes(comparison.config, entry.label)}
    runs = [name for name in comparison.unfinished if name not in probes]
    left = len(comparison.unfinished) - len(runs)
    return ", ".join([*runs, *([f"{left} of {len(probes)} probes of learning rates"] if left else [])])


def _list_diverged(rows: Iterable[Row]) -> str:
    """Name the models of which some runs diverged; tables of their other runs show them better than they are."""
    told = [f"{row.num_diverged} of {len(row.records)} runs of {row.label}" for row in rows if row.num_diverged]
    return ", ".join(dict.fromkeys(told))


def comparison_table(comparison: Comparison) -> "Table":
    """Return the masked relative L2 errors and the costs as a table that rich prints."""
    from rich.table import Column, Table  # noqa: PLC0415  takes 0.1 s

    config = comparison.config

    def right(heading: str) -> Column:
        return Column(heading, justify="right", no_wrap=True)

    rates = list_columns(config)
    numbers = [*(["rate"] if len(rates) > 1 else []), "size", *config.tests, "training", "prediction"]
    table = Table(Column("mean rel_l2", no_wrap=True), *map(right, numbers), box=None, pad_edge=False)
    table.collapse_padding = True  # in 80 columns
    rows = {column: list_rows(config, comparison.records, column) for column in rates}
    everything = [row for found in rows.values() for row in found]
    flaw, diverged = find_time_flaw(config, everything), _list_diverged(everything)
    told = [f"Costs {flaw} do not compare."] if flaw else []
    told += [f"Diverged: {diverged}."] if diverged else []
    table.caption = " ".join(told) or None
    for column in rates:
        for row in rows[column]:
            if column != SHARED and row.learning_rate == config.train_settings.learning_rate:
                continue  # the same runs
            means = [row.tests[name].errors["rel_l2"].mean if row.tests else math.inf for name in config.tests]
            errors = ["diverged" if mean == math.inf else "-" if math.isnan(mean) else percent(mean) for mean in means]
            size = f"{next(iter(row.records.values())).parameters / 1e6:.3g} M"
            cost = [f"{row.median('seconds'):.0f} s", f"{1e6 * row.median('inference'):.0f} µs"]
            rate = [f"{row.learning_rate:g}"] if len(rates) > 1 else []
            table.add_row(row.label, *rate, size, *errors, *cost)
    return table


def _describe(config: ComparisonConfig) -> Iterator[str]:
    """Say what was compared, and how."""
    data, train, several = config.data, config.train_settings, len(config.seeds) > 1
    length = f"{train.epochs} epochs" if config.minutes is None else f"{config.minutes:g} minutes"
    drawn = f"the distribution `{data.shift}`" if data.shift else "the paper's distribution"
    size = f" at {data.resolution} x {data.resolution} pixels" if data.resolution else ""
    cases = (
        f"the cases of `{config.problem}` in `{data.file}`"
        if data.file
        else f"{data.cases:,} cases of `{config.problem}`{size}, drawn from {drawn} (seed {data.seed}, 80 % train)"
    )
    fewer = [f"{entry.label} on {entry.training_cases:,} of them" for entry in config.models if entry.training_cases]
    yield (
        f"This page is written by `disol compare`. All models were trained on {cases}, with the conventions "
        f"`{config.conventions}`{''.join(f'; {each}' for each in fewer)}. They were trained by the recipe "
        f"`{config.recipe}` ({train.optimizer}, loss `{train.loss}`, batch size {train.batch_size}) for {length}, with "
        f"{len(config.seeds)} seed{'s' if several else ''}. Of each run, the model with the best validation loss was "
        "kept and evaluated."
    )


def _explain(config: ComparisonConfig) -> Iterator[str]:
    """Say what the tables show, one sentence or two for each of their columns."""
    yield (
        f"**Errors** are means over the cases of a test. `{RELATIVE}` is ‖û − u‖₂ / ‖u‖₂ over the domain of a case; "
        f"`{OVER_GRID}` is the mean absolute error of the pattern over the whole grid, which shrinks with the "
        "*coverage*, the mean share of the grid that the domains of a test cover. Bold is the smallest mean of a "
        "column, among the models that predict all of its cases."
        + (" After ± is the standard deviation over seeds of the mean." if len(config.seeds) > 1 else "")
    )
    yield (
        "**Tests** are cases that the models were trained on, new cases of the paper's distribution (in distribution), "
        "and cases under the shift that is named."
    )
    yield (
        "**Sizes and costs**: *parameters* counts a complex weight once, *real numbers* counts it twice; *trained on* "
        "is the number of cases; *seconds* are those of a whole run, loading and compiling included; *cases/s* is the "
        "speed of training; predictions are in eager float32."
    )
    yield (
        f"**Validation curves** are of `{OVER_GRID}`; numbers are medians over seeds. The *final fall* is the share by "
        f"which the best loss fell in the last {LAST_SHARE:.0%} of the epochs; below {STILL_FALLING:.0%} a curve "
        "counts as flattened. A learning rate that ends at zero flattens every curve, so the final fall shows what the "
        "end of the schedule gained, not what more epochs would gain."
    )
    yield (
        f"**More numbers** are in `{NUMBERS}`: `rel_l1`, the spread, median and 95th percentile of every error over "
        "cases, and every measure of the runs with its quartiles."
    )


def _error_tables(config: ComparisonConfig, rows: Sequence[Row]) -> Iterator[str]:
    """Give a table for each headline error, and one of the named shapes."""
    yield f"`{RELATIVE}` in %:"
    yield _table_of_tests(config, rows, RELATIVE, _percent)
    yield f"`{OVER_GRID}`:"
    yield _table_of_tests(config, rows, OVER_GRID, _number)
    for name in config.tests:
        shifts = list(dict.fromkeys(shift for row in rows if row.tests for shift in row.tests[name].shifts))
        if shifts:
            yield f"`{RELATIVE}` of {_name_test(name)} in %, shape by shape:"
            known = [row for row in rows if row.tests and row.tests[name].shifts]
            columns = []
            for shift in shifts:
                means = [row.tests[name].shifts[shift][RELATIVE].mean for row in known]
                columns.append(_mark_best([_percent(mean) for mean in means], means))
            lines = [[row.label, *cells] for row, cells in zip(known, zip(*columns, strict=True), strict=True)]
            yield _table(["model", *(shift.removeprefix("shape:") for shift in shifts)], lines)


def _table_of_tests(config: ComparisonConfig, rows: Sequence[Row], error: str, write: Write) -> str:
    """Return a table of one error, models by tests; of cases that a model cannot predict it has none."""
    heading, columns = ["model"], []
    for name in config.tests:
        tests = [row.tests.get(name) for row in rows]
        whole = [test for test in tests if test is not None and test.predicted == test.asked]
        coverage = f" (coverage {whole[0].coverage:.2f})" if whole and error == OVER_GRID else ""
        heading.append(_name_test(name) + coverage)
        texts = ["diverged" if test is None else _cell(test, test.errors[error], write) for test in tests]
        means = [test.errors[error].mean if test in whole and test is not None else math.nan for test in tests]
        columns.append(_mark_best(texts, means))
    return _table(heading, [[row.label, *cells] for row, cells in zip(rows, zip(*columns, strict=True), strict=True)])


def _cell(test: SummarisedTest, error: ErrorSummary, write: Write) -> str:
    if not test.predicted:
        return f"none of {test.asked} predicted"
    seeds = "" if error.over_seeds is None else f" ± {write(error.over_seeds, 1)}"
    part = "" if test.predicted == test.asked else f" ({test.predicted} of {test.asked} cases)"
    return f"{write(error.mean, 2)}{seeds}{part}"


def _cost_tables(config: ComparisonConfig, rows: Sequence[Row]) -> Iterator[str]:
    """Give tables of sizes and times, and of what the validation curves tell."""
    devices, batch_size = list_devices(rows), next(iter(rows[0].records.values())).batch_size
    flaw = find_time_flaw(config, rows)
    where = f"{flaw}, which do not compare" if flaw else f"on one {devices[0]}"
    yield f"Sizes, and costs {where}:"
    heading = ["model", "parameters", "real numbers", "trained on", "epochs", "seconds", "cases/s"]
    heading += [f"µs per prediction, {batch_size} at a time"]
    heading += [] if len(devices) == 1 else ["device"]
    lines = []
    for row in rows:
        record = next(iter(row.records.values()))
        everything = record.cases + record.refused
        cases = f"{record.cases:,}" + (f" ({record.cases / everything:.1%})" if record.refused else "")
        lengths = [len(each.curve) for each in row.records.values()]
        epochs = " to ".join(str(each) for each in dict.fromkeys((min(lengths), max(lengths))))
        times = [f"{row.median('seconds'):.0f}", f"{row.cases_per_second:,.0f}"]
        predicts = f"{1e6 * row.median('inference'):.0f}" if row.trained else ""
        device = [] if len(devices) == 1 else [" or ".join(list_devices([row]))]
        sizes = [f"{record.parameters:,}", f"{record.real_numbers:,}", cases, epochs]
        lines.append([row.label, *sizes, *times, predicts, *device])
    yield _table(heading, lines)
    yield "Validation curves:"
    heading = ["model", "learning rate", "best loss", "at epoch", f"epochs to {config.report.threshold:g}"]
    lines = []
    for row in rows:
        line = [row.label, f"{row.learning_rate:g}"]
        if row.trained:
            curves = [record.validation_losses for record in row.trained]
            numbers = [np.arange(1.0, len(curve) + 1) for curve in curves]
            pairs = list(zip(curves, numbers, strict=True))
            line += [_number(float(np.median([curve.min() for curve in curves])))]
            line += [_number(float(np.median([curve.argmin() + 1 for curve in curves])))]
            reached = [first_below(curve, places, config.report.threshold) for curve, places in pairs]
            line += [_number(find_quartiles(reached).median)]
            line += [f"{row.last_fall:.1%}", "yes" if row.last_fall < STILL_FALLING else "**no**"]
        else:
            line += ["diverged", "", "", "", ""]
        lines.append(line)
    yield _table([*heading, "final fall", "flattened"], lines)


def _probe_table(comparison: Comparison) -> Iterator[str]:
    """Give the validation losses of the probes."""
    config, records = comparison.config, comparison.records
    rates = config.probes.learning_rates
    if not rates:
        return
    yield "## Probes"
    yield (
        "Probes are short runs that find the learning rate of each model. The table gives their best validation loss "
        f"in {config.probes.epochs} epochs, with a schedule of that length; the learning rate with the smallest loss "
        "is taken. If that is the learning rate of the recipe, both sections above show the same runs of the model."
    )
    lines = []
    for entry in config.models:
        found = [records.get(probe.name) for probe in list_probes(config, entry.label)]
        losses = [
            "" if record is None else "diverged" if record.diverged else _number(record.best_loss) for record in found
        ]
        rate = find_rate(config, records, entry.label, PROBED)
        if any(losses):
            lines.append([entry.label, *losses, "" if rate is None else f"{rate:g}"])
    yield _table(["model", *(f"{rate:g}" for rate in rates), "taken"], lines)


def _difference_table(comparison: Comparison) -> Iterator[str]:
    """Give what runs of several seeds tell about the first model and each other one."""
    config = comparison.config
    rows = list_rows(config, comparison.records)
    found = compare_runs(config, rows)
    if not found:
        return
    enough = [row for row in rows if row.is_repeated]
    first = enough[0].label
    own = {
        name: find_quartiles(values).median
        for name, values in measure_runs(config, enough[0], enough).items()
        if name.startswith(COMPARED)
    }
    counts = {other: next(iter(differences.values())) for other, differences in found.items()}
    least = max(least_p_value(each.first.count, each.second.count) for each in counts.values())
    yield "## Over runs"
    yield (
        f"Medians over runs with different seeds, and in brackets how each model differs from {first}: p, by the "
        f"two-sided Mann-Whitney U test, and the effect, Cliff's delta, which is +1 if every run of {first} has a "
        "smaller value and −1 if every one has a larger value."
        + (f" Runs as few as these have p ≥ {least:.2g}, however far apart they are." if least > TELLING else "")
        + (" A run that diverged counts as worse than all others." if any(row.num_diverged for row in rows) else "")
    )
    lines = [[first, f"{next(iter(counts.values())).first.count}"]]
    lines[0] += [_write_measure(name, median) for name, median in own.items()]
    for other, differences in found.items():
        cells = [
            _compared(name, differences[name], first, median) if name in differences else ""
            for name, median in own.items()
        ]
        lines.append([other, f"{counts[other].second.count}", *cells])
    yield _table(["model", "runs", *map(_name_measure, own)], lines)


def _name_measure(name: str) -> str:
    error, _, test = name.partition(" of ")
    return f"`{error}`, {_name_test(test)}" if error == RELATIVE else name


def _compared(name: str, found: Difference, first: str, median: float) -> str:
    told = f"p = {found.p_value:.2g}, {found.effect:+.2f}"
    if found.first.median != median:  # the other model predicts only some of the cases
        told += f"; {first} {_write_measure(name, found.first.median)} on the same cases"
    return f"{_write_measure(name, found.second.median)} ({told})"


def _write_measure(name: str, value: float) -> str:
    if value == math.inf:
        return "diverged"
    return f"{_percent(value)} %" if name.startswith(RELATIVE) else _number(value)


def _name_test(name: str) -> str:
    return TESTS.get(name, f"`{name}`")


def _mark_best(texts: Sequence[str], means: Sequence[float]) -> list[str]:
    """Set the text of the smallest mean in bold."""
    best = min((mean for mean in means if math.isfinite(mean)), default=math.nan)
    return [f"**{text}**" if mean == best else text for text, mean in zip(texts, means, strict=True)]


def _number(value: float, decimals: int = 2) -> str:
    """Write a few digits, as in 3.93e-3; small whole numbers as they are."""
    if not math.isfinite(value):
        return "never" if value == math.inf else "not finite"
    if value == round(value) and abs(value) < 1e5:
        return f"{value:.0f}"
    mantissa, _, exponent = f"{value:.{decimals}e}".partition("e")
    return f"{mantissa}e{int(exponent)}" if int(exponent) else mantissa


def _percent(value: float, decimals: int = 2) -> str:
    """Write a share in per cent, with about as many digits as `_number`, and without a power of ten."""
    if not math.isfinite(value):
        return _number(value)
    return f"{100 * value:#.{decimals + 1}g}".rstrip(".") if value < 0.995 else f"{100 * value:.0f}"


def _table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _finite(value: Any) -> Any:
    """Replace numbers that JSON has no name for by None."""
    if isinstance(value, Mapping):
        return {name: _finite(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
