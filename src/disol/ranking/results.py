"""The result of a ranking: its rows in order, as a table, a file and a picture."""

import csv
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from disol._files import as_path, written_whole
from disol.cases.case import Case
from disol.errors import DisolError
from disol.solutions.solution import Solution
from disol.solutions.solve import solve_exact

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table

COLUMNS = ("rank", "number", "name", "by", "value", "amplitude", "error")
MOST_ROWS = 20  # of a table in a notebook, half of them from its end

# A case, or a function that makes it.
Variant = Case | Callable[[], Case]


@dataclass(frozen=True, eq=False)
class Ranked:
    """One variant and its result.

    rank        counted from 1; None if it failed
    number      its place among those given, counted from 0
    name        as given, or its number
    value       of the measure it was ranked by
    amplitude   max |U|, the largest if there are several
    error       why it failed, in one line
    notes       warnings that solving it gave
    """

    rank: int | None
    number: int
    name: str
    value: float | None
    amplitude: float | None
    error: str | None = None
    notes: tuple[str, ...] = ()
    variant: Variant = field(kw_only=True, repr=False)

    @cached_property
    def case(self) -> Case:
        """The case; one that was given as a function is made again."""
        return self.variant if isinstance(self.variant, Case) else self.variant()

    @cached_property
    def solution(self) -> Solution:
        """Its exact solution, solved again when first asked for, as a ranking keeps none; warnings are in `notes`."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            return solve_exact(self.case, device="cpu")


@dataclass(frozen=True, eq=False, repr=False)
class Ranking:
    """Variants, sorted by one number of each; those that failed come last.

    by          the measure they are ranked by
    ascending   the smallest value is the best
    rows        one for each variant, the best first
    """

    by: str
    ascending: bool
    rows: tuple[Ranked, ...]

    @cached_property
    def ranked(self) -> tuple[Ranked, ...]:
        """Rows of the variants that have a value, the best first."""
        found = tuple(row for row in self.rows if row.error is None)
        if not found:
            raise DisolError(f"None of {len(self)} cases could be ranked, {self.rows[0].name}: {self.rows[0].error}")
        return found

    @property
    def best(self) -> Ranked:
        """The first row."""
        return self.ranked[0]

    @property
    def worst(self) -> Ranked:
        """The last row that did not fail."""
        return self.ranked[-1]

    @property
    def failed(self) -> tuple[Ranked, ...]:
        """Rows of the variants that failed."""
        return tuple(row for row in self.rows if row.error is not None)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Ranked]:
        return iter(self.rows)

    def __getitem__(self, place: int) -> Ranked:
        return self.rows[place]

    def __repr__(self) -> str:
        failed = f", {len(self.failed)} failed" if self.failed else ""
        if len(self.failed) == len(self):
            return f"Ranking({len(self)} cases by {self.by}{failed})"
        best, worst = (f"{row.name} with {row.value:.4g}" for row in (self.best, self.worst))
        return f"Ranking({len(self)} cases by {self.by}, best {best}, worst {worst}{failed})"

    def table(self, most: int | None = None) -> "Table":
        """Return the rows as a table that rich prints; of more than `most` the first and the last ones."""
        return import_module("disol.ranking.report").ranking_table(self, most)

    def _repr_html_(self) -> str:
        return import_module("disol.ranking.report").as_html(self, MOST_ROWS)

    def plot(self) -> "Figure":
        """Draw the best and the worst on one scale; the figure belongs to pyplot, so that notebooks show it."""
        return import_module("disol.ranking.report").plot_ranking(self)

    def save(self, path: str | Path) -> Path:
        """Write all rows as `.csv`, whole or not at all."""
        target = as_path("path", path)
        if target.suffix.lower() != ".csv":
            raise DisolError(f"A ranking is saved as .csv, got {target.name!r}.")
        with (
            written_whole(target) as temporary,
            temporary.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file,  # of odd file names
        ):
            writer = csv.writer(file)
            writer.writerow(COLUMNS)
            for row in self.rows:
                writer.writerow([row.rank, row.number, row.name, self.by, row.value, row.amplitude, row.error])
        return target
