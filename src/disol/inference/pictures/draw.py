"""One picture of a solution: what is given, the predicted field, the exact one and the error, in physical values."""

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from disol.evaluation.pictures import MOST_TIMES, Scale, exact_scale, name_strips, sizes_scale, strip
from disol.evaluation.plots import Panel, draw_panels
from disol.inference.pictures.comparison import frame_errors, percent, require_one_case
from disol.inference.pictures.panels import (
    deformed_panel,
    error_panel,
    field_panel,
    field_scale,
    given_field,
    given_panel,
    motion_scale,
)
from disol.inference.solution import Solution
from disol.problems import PROBLEMS

Frames = Float[np.ndarray, "time height width"]
COMPARED = 2  # panels at the end of a row: the exact field and the error


def draw_solution(solution: Solution, with_exact: bool = True) -> Figure:
    """Draw one case; with the exact solution also that, the error, and how large it is."""
    require_one_case(solution)
    if solution.times is not None:
        return draw_frames(solution, with_exact)
    rows = vector_rows(solution) if len(solution.fields) == 2 else scalar_rows(solution)
    shown = rows if with_exact else [row[:-COMPARED] for row in rows]
    return draw_panels(shown, heading(solution, with_exact))


def heading(solution: Solution, with_exact: bool) -> str:
    """Say what is solved and how well."""
    return subject(solution) + (f"   relative L2 error {percent(float(solution.error))}" if with_exact else "")


def subject(solution: Solution) -> str:
    """Say what is solved."""
    height, width = solution.domain.shape
    known = PROBLEMS.get(solution.problem)
    equation = f"   {known.equation}" if known else ""
    return f"{solution.problem}{equation}   {height} x {width}"


def scalar_rows(solution: Solution) -> list[list[Panel]]:
    """Show one unknown in one row."""
    domain, predicted, exact = solution.domain, solution.field[0], solution.exact[0]
    scale = field_scale(exact[domain])
    return [
        [
            given_panel(solution, "domain", ("dirichlet",)),
            given_field(solution, "source", "f"),
            field_panel("predicted U", predicted, domain, scale),
            field_panel("exact U", exact, domain, scale),
            error_panel(np.abs(predicted - exact), domain),
        ]
    ]


def vector_rows(solution: Solution) -> list[list[Panel]]:
    """Show the deformed body in the first row and a component in each other one."""
    domain, predicted, exact = solution.domain, solution.field, solution.exact
    factor = motion_scale(exact)
    scale = exact_scale(np.hypot(*exact)[domain])
    rows = [
        [
            given_panel(solution, "domain", ("force_x", "force_y", "fix_x", "fix_y")),
            deformed_panel("predicted |U|", predicted, domain, scale, factor),
            deformed_panel("exact |U|", exact, domain, scale, factor),
            error_panel(np.hypot(*(predicted - exact)), domain),
        ]
    ]
    for position, axis in enumerate("xy"):
        scale = Scale(-(size := float(np.abs(exact[position]).max()) or 1.0), size, "RdBu_r")
        rows.append(
            [
                given_panel(solution, f"along {axis}", (f"force_{axis}", f"fix_{axis}")),
                field_panel(f"predicted U_{axis}", predicted[position], domain, scale),
                field_panel(f"exact U_{axis}", exact[position], domain, scale),
                error_panel(np.abs(predicted[position] - exact[position]), domain),
            ]
        )
    return rows


def draw_frames(solution: Solution, with_exact: bool) -> Figure:
    """Draw a transient case as strips of times; each strip has one scale for all of them."""
    times = solution.times or ()
    shown = np.unique(np.linspace(0, len(times) - 1, min(len(times), MOST_TIMES)).round().astype(int))
    domain, predicted, exact = solution.domain, solution.field[shown, 0], solution.exact[shown, 0]
    error = np.abs(predicted - exact)
    scale = field_scale(exact[:, domain])
    strips: list[tuple[str, Frames, Scale]] = [
        ("predicted U", predicted, scale),
        ("exact U", exact, scale),
        ("|error|", error, sizes_scale(error[:, domain])),
    ]
    given = [
        given_panel(solution, "domain", ("dirichlet",)),
        given_field(solution, "initial", "U₀"),
        given_field(solution, "source", "f"),
    ]
    titles = [f"t = {times[frame]:g} s" for frame in shown]
    if with_exact:
        errors = frame_errors(solution)
        titles = [f"{title}, {percent(errors[frame])}" for title, frame in zip(titles, shown, strict=True)]
        rows = [
            [panel, *strip(frames, domain, colours, None if row else titles)]
            for row, (panel, (_, frames, colours)) in enumerate(zip(given, strips, strict=True))
        ]
    else:
        rows = [[*given, *strip(predicted, domain, scale, titles)]]
    figure = draw_panels(rows, heading(solution, with_exact))
    columns, names = len(rows[0]), [name for name, _, _ in strips]
    name_strips(figure, names[: len(rows)], columns, first=columns - len(shown))
    return figure
