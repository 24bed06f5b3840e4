"""The numbers of a comparison's tables, from the results of its runs alone."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from disol.comparison.config import SHARED, ComparisonConfig
from disol.comparison.plan import PlannedRun, find_rate, list_columns, list_probes
from disol.comparison.records import ERRORS, RunRecord
from disol.comparison.statistics import (
    STILL_FALLING,
    Difference,
    area_over_epochs,
    area_over_time,
    find_difference,
    find_last_fall,
    first_below,
    quartile_curves,
)

LEAST_RUNS = 3  # of each model, for statistics over runs


@dataclass(frozen=True)
class ErrorSummary:
    """Statistics of an error.

    mean         over all cases of all runs
    spread       standard deviation over the same
    over_seeds   standard deviation over runs of the means over cases; None for one run
    """

    mean: float
    spread: float
    median: float
    p95: float
    over_seeds: float | None


@dataclass(frozen=True)
class SummarisedTest:
    """The results of a model on a test.

    asked       number of cases of the test
    predicted   number of those that the model could predict; errors are over these alone
    shifts      the same errors for each named shape, if the test has several
    """

    asked: int
    predicted: int
    coverage: float
    errors: Mapping[str, ErrorSummary]
    shifts: Mapping[str, Mapping[str, ErrorSummary]]


@dataclass(frozen=True, eq=False)
class Row:
    """All finished runs of a model at one learning rate, by seed.

    column   "shared": the learning rate of the recipe; "probed": the best of the probes
    """

    label: str
    column: str
    learning_rate: float
    records: Mapping[int, RunRecord]

    @cached_property
    def trained(self) -> tuple[RunRecord, ...]:
        """The runs that did not diverge."""
        return tuple(record for record in self.records.values() if not record.diverged)

    @property
    def num_diverged(self) -> int:
        """Number of runs that diverged."""
        return len(self.records) - len(self.trained)

    @property
    def is_repeated(self) -> bool:
        """Whether it has runs enough to be compared with others over them."""
        return len(self.records) >= LEAST_RUNS and bool(self.trained)

    def median(self, name: str) -> float:
        """Return the median of a number that is recorded of each run, over those that did not diverge, if any."""
        return float(np.median([getattr(record, name) for record in self.trained or self.records.values()]))

    @property
    def cases_per_second(self) -> float:
        """Median over all epochs of all runs."""
        paces = [epoch.cases_per_second for record in self.records.values() for epoch in record.curve]
        return float(np.median(paces)) if paces else math.nan

    @property
    def last_fall(self) -> float:
        """Median over runs of the share by which the best validation loss fell in the last fifth of the epochs."""
        return float(np.median([find_last_fall(record.validation_losses) for record in self.trained]))

    @cached_property
    def tests(self) -> dict[str, SummarisedTest]:
        """Summaries of all tests, by name."""
        names = self.trained[0].tests if self.trained else {}
        return {name: self._summarise(name) for name in names}

    def _summarise(self, name: str) -> SummarisedTest:
        tests = [record.tests[name] for record in self.trained]
        first = tests[0]
        shifts = list(dict.fromkeys(first.shift))
        parts = {shift: [each == shift for each in first.shift] for shift in shifts} if len(shifts) > 1 else {}
        return SummarisedTest(
            first.asked,
            len(first.index),
            first.coverage,
            {error: summarise_errors([test.errors[error] for test in tests]) for error in ERRORS},
            {
                shift: {error: summarise_errors([test.errors[error][part] for test in tests]) for error in ERRORS}
                for shift, part in parts.items()
            },
        )


def summarise_errors(runs: Sequence[np.ndarray]) -> ErrorSummary:
    """Summarise the errors of the same cases in several runs; without any case, all statistics are NaN."""
    together = np.concatenate(runs)
    if not len(together):
        return ErrorSummary(math.nan, math.nan, math.nan, math.nan, None)
    means = [float(run.mean()) for run in runs]
    with np.errstate(invalid="ignore"):
        median, p95 = np.percentile(together, [50, 95])
    over_seeds = float(np.std(means, ddof=1)) if len(means) > 1 else None
    return ErrorSummary(float(together.mean()), float(together.std()), float(median), float(p95), over_seeds)


def list_rows(config: ComparisonConfig, records: Mapping[str, RunRecord], column: str = SHARED) -> list[Row]:
    """List the models with a finished run in one column, in the order of the settings."""
    rows = []
    for entry in config.models:
        rate = find_rate(config, records, entry.label, column)
        runs = [] if rate is None else [PlannedRun(config, entry.label, seed, rate) for seed in config.seeds]
        finished = {run.seed: records[run.name] for run in runs if run.name in records}
        if rate is not None and finished:
            rows.append(Row(entry.label, column, rate, finished))
    return rows


def list_devices(rows: Iterable[Row]) -> tuple[str, ...]:
    """List the devices that runs were made on, each once; costs can be compared only if there is just one."""
    return tuple(dict.fromkeys(record.made_on for row in rows for record in row.records.values()))


def find_time_flaw(config: ComparisonConfig, rows: Iterable[Row]) -> str:
    """Say why the times of runs do not compare, to follow "costs"; empty if they do."""
    devices = list_devices(rows)
    if len(devices) > 1:
        return f"on different devices ({'; '.join(devices)})"
    return "" if config.report.timed else f"on one {devices[0]} that did other work beside the runs"


def compare_runs(config: ComparisonConfig, rows: Sequence[Row]) -> dict[str, dict[str, Difference]]:
    """Compare the first model with each of the others over their runs, by every measure; models with few are left out.

    Curves are compared over equal epochs, the fewest of any run, and, if all runs were made on the same device, over
    equal time, the shortest of any run. Errors are compared on the cases that both models predict. A run that diverged
    counts as infinitely bad, not as if it had not been made.
    """
    enough = [row for row in rows if row.is_repeated]
    if len(enough) < 2:
        return {}
    first, *others = enough
    found = {}
    for other in others:
        one, two = measure_runs(config, first, enough, beside=other), measure_runs(config, other, enough, beside=first)
        found[other.label] = {name: find_difference(one[name], two[name]) for name in one if name in two}
    return found


def measure_runs(
    config: ComparisonConfig, row: Row, rows: Sequence[Row], beside: Row | None = None
) -> dict[str, list[float]]:
    """Return every measure of the runs of a model, by name.

    rows     all models that are compared: their shortest curve says how far curves are compared
    beside   count only errors of cases that this model predicts, too
    """
    return {
        name: values + [math.inf] * row.num_diverged for name, values in _measure_trained(config, row, rows, beside)
    }


def _measure_trained(
    config: ComparisonConfig, row: Row, rows: Sequence[Row], beside: Row | None
) -> Iterator[tuple[str, list[float]]]:
    """Yield every measure of the runs of a model that did not diverge, with its name."""
    everyone = [record for each in rows for record in each.trained]
    epochs = min(len(record.curve) for record in everyone)
    end = min(record.curve[-1].seconds for record in everyone)
    start = max(record.curve[0].seconds for record in everyone)
    threshold = config.report.threshold
    losses = [record.validation_losses for record in row.trained]
    seconds = [np.array([epoch.seconds for epoch in record.curve]) for record in row.trained]
    numbers = np.arange(1, epochs + 1, dtype=float)
    yield f"best validation loss in {epochs} epochs", [float(each[:epochs].min()) for each in losses]
    yield f"epochs to {threshold:g}", [first_below(each[:epochs], numbers, threshold) for each in losses]
    yield f"area under the curve of {epochs} epochs", [area_over_epochs(each[:epochs]) for each in losses]
    if end > start and not find_time_flaw(config, rows):
        within = list(zip(losses, seconds, strict=True))
        yield f"best validation loss in {end:.0f} s", [float(loss[time <= end].min()) for loss, time in within]
        yield (
            f"seconds to {threshold:g}",
            [first_below(loss[time <= end], time[time <= end], threshold) for loss, time in within],
        )
        areas = [area_over_time(loss, time, start, end) for loss, time in within]
        yield f"area under the curve from {start:.0f} to {end:.0f} s", areas
    for name, test in row.trained[0].tests.items():
        counted = np.isin(test.index, (beside or row).trained[0].tests[name].index)
        if counted.any():
            for error in ("rel_l1", "rel_l2"):
                yield (
                    f"{error} of {name}",
                    [float(record.tests[name].errors[error][counted].mean()) for record in row.trained],
                )


def as_dict(config: ComparisonConfig, records: Mapping[str, RunRecord]) -> dict[str, Any]:
    """Return all numbers of the tables as plain containers."""
    columns = {column: list_rows(config, records, column) for column in list_columns(config)}
    return {
        "config": asdict(config),
        "columns": {column: [_row_as_dict(row) for row in rows] for column, rows in columns.items()},
        "probes": {
            entry.label: {
                f"{probe.learning_rate:g}": records[probe.name].best_loss
                for probe in list_probes(config, entry.label)
                if probe.name in records
            }
            for entry in config.models
        },
        "over_runs": {
            other: {name: asdict(found) for name, found in differences.items()}
            for other, differences in compare_runs(config, columns[SHARED]).items()
        },
    }


def _row_as_dict(row: Row) -> dict[str, Any]:
    first = next(iter(row.records.values()))
    return {
        "label": row.label,
        "learning_rate": row.learning_rate,
        "seeds": list(row.records),
        "diverged": [seed for seed, record in row.records.items() if record.diverged],
        "parameters": first.parameters,
        "real_numbers": first.real_numbers,
        "model_config": dict(first.model_config),
        "training_cases": first.cases,
        "refused_cases": first.refused,
        "epochs": [len(record.curve) for record in row.records.values()],
        "seconds": [record.seconds for record in row.records.values()],
        "cases_per_second": row.cases_per_second,
        "inference_seconds": row.median("inference"),
        "devices": [record.device for record in row.records.values()],
        "side_by_side": [record.side_by_side for record in row.records.values()],
        "validation_loss": [record.best_loss for record in row.records.values()],
        "validation_quartiles": quartile_curves([record.validation_losses for record in row.trained]).tolist()
        if row.trained
        else [],
        "last_fall": row.last_fall if row.trained else None,
        "flattened": row.last_fall < STILL_FALLING if row.trained else None,
        "tests": {name: asdict(test) for name, test in row.tests.items()},
    }
