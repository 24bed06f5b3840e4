"""A ranking as a table, in a terminal and in a notebook, and as a picture of the best and the worst."""

import html
from dataclasses import replace

import numpy as np
from matplotlib.figure import Figure
from rich.markup import escape
from rich.table import Column, Table

from disol.errors import DisolError
from disol.ranking.results import Ranked, Ranking
from disol.solutions.solution import Solution
from disol.viz.cases import given_panels
from disol.viz.panels import (
    GAP,
    Panel,
    deformed_panel,
    draw_panels,
    field_panel,
    field_scale,
    motion_factor,
    values_scale,
)
from disol.viz.solutions import frames_of, is_vector

Cells = tuple[str, str, str, str, str]
SIDE = 2.8  # inches of a panel


def ranking_table(ranking: Ranking, most: int | None = None) -> Table:
    """Return rank, name, value, largest |U| and error of each variant; of more than `most` the first and last ones."""
    right = {"justify": "right", "no_wrap": True}
    columns = [Column(name, **right) for name in ("rank", ranking.by, "max |U|")]  # type: ignore[arg-type]
    columns.insert(1, Column("case", overflow="fold"))
    failed = [Column("error", overflow="fold")] if ranking.failed else []
    table = Table(*columns, *failed, box=None, pad_edge=False)
    for cells in choose_rows(ranking, most):
        table.add_row(*map(escape, cells[: len(columns) + len(failed)]))
    return table


def choose_rows(ranking: Ranking, most: int | None) -> list[Cells]:
    """Write all rows, or the first and the last ones with a gap between them."""
    rows = [_write(row) for row in ranking.rows]
    if most is None or len(rows) <= most:
        return rows
    first = -(-most // 2)
    return [*rows[:first], ("...", f"{len(rows) - most} more", "", "", ""), *rows[len(rows) - (most - first) :]]


def _write(row: Ranked) -> Cells:
    place, value, size = (
        "" if number is None else f"{number:.4g}" if isinstance(number, float) else str(number)
        for number in (row.rank, row.value, row.amplitude)
    )
    return place, row.name, value, size, row.error or ""


def as_html(ranking: Ranking, most: int) -> str:
    """Return a table for notebooks."""
    names = ("rank", "case", ranking.by, "max |U|", "error")
    head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>"
        for cells in choose_rows(ranking, most)
    )
    return f"<div><table><tr>{head}</tr>{body}</table>{html.escape(repr(ranking))}</div>"


def plot_ranking(ranking: Ranking, *, managed: bool = True) -> Figure:
    """Draw what the best and the worst are given, and their solutions on one scale, at the last time.

    managed   by pyplot, so that notebooks and `plt.show()` show the figure
    """
    ends = list(dict.fromkeys((ranking.best, ranking.worst)))
    solutions = [row.solution for row in ends]
    first = solutions[0].case
    for solution in solutions:
        if solution.fields != first.problem.fields:
            raise DisolError(f"One problem is drawn at a time, got {first} and {solution.case}. Plot their solutions.")
    drawn: list[Panel] = []
    for name, row, solved in zip(("best", "worst"), ends, _in_one_scale(solutions), strict=False):
        title = f"{name}: {row.name}\n{ranking.by} {row.value:.4g}"
        drawn += [replace(given_panels(row.case)[0], title=title), solved]
    order = "smallest first" if ranking.ascending else "largest first"
    heading = f"{len(ranking.ranked)} cases by {ranking.by}, {order}{GAP}{first.problem.name}{GAP}{first.equation}"
    return draw_panels([drawn], heading, side=SIDE, managed=managed)


def _in_one_scale(solutions: list[Solution]) -> list[Panel]:
    """Return the panel of each solution at its last time: the deformed body of a vector, else its first field."""
    last = [frames_of(solution)[-1] for solution in solutions]
    domains = [solution.case.domain for solution in solutions]
    if is_vector(solutions[0].case):
        sizes = [np.hypot(*field)[domain] for field, domain in zip(last, domains, strict=True)]
        scale, lengths = values_scale(np.concatenate(sizes)), [each.case.length for each in solutions]
        # The same exaggeration for all, whatever the lengths of their grids.
        factor = min(motion_factor(field) * length for field, length in zip(last, lengths, strict=True))
        return [
            deformed_panel("|U|", field, domain, scale, factor / length, length)
            for field, domain, length in zip(last, domains, lengths, strict=True)
        ]
    inside = [field[0][domain] for field, domain in zip(last, domains, strict=True)]
    scale = field_scale(np.concatenate(inside))
    return [field_panel("U", field[0], domain, scale) for field, domain in zip(last, domains, strict=True)]
