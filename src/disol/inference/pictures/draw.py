"""One picture of a solution: what is given, the predicted field, the exact one and the error, in physical values."""

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from disol.evaluation.pictures import MOST_TIMES, Scale, exact_scale, name_strips, sizes_scale, strip
from disol.evaluation.plots import Panel, draw_panels
from disol.inference.pictures.comparison import Comparison, compare, percent, require_one_case
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
from disol.problems import PROBLEMS, Exact

Frames = Float[np.ndarray, "time height width"]


def draw_solution(solution: Solution, exact: Exact | None = None) -> Figure:
    """Draw one case; with the exact solution also that, the error, and how large it is."""
    require_one_case(solution)
    errors = None if exact is None else compare(solution, exact)
    if solution.times is not None:
        return draw_frames(solution, exact, errors)
    rows = vector_rows(solution, exact) if len(solution.fields) == 2 else scalar_rows(solution, exact)
    return draw_panels(rows, heading(solution, errors))


def heading(solution: Solution, errors: Comparison | None) -> str:
    """Say what is solved and how well, as far as that is known."""
    own = f"relative L2 error {percent(float(solution.error))}"
    return f"{subject(solution)}   {errors or own}"


def subject(solution: Solution) -> str:
    """Say what is solved."""
    height, width = solution.domain.shape
    known = PROBLEMS.get(solution.problem)
    equation = f"   {known.equation}" if known else ""
    return f"{solution.problem}{equation}   {height} x {width}"


def scalar_rows(solution: Solution, exact: Exact | None) -> list[list[Panel]]:
    """Show one unknown in one row."""
    domain, predicted = solution.domain, solution.field[0]
    given = [given_panel(solution, "domain", ("dirichlet",)), given_field(solution, "source", "f")]
    if exact is None:
        return [[*given, field_panel("predicted U", predicted, domain)]]
    scale = field_scale(exact.field[0][domain])
    return [
        [
            *given,
            field_panel("predicted U", predicted, domain, scale),
            field_panel("exact U", exact.field[0], domain, scale),
            error_panel(np.abs(predicted - exact.field[0]), domain),
        ]
    ]


def vector_rows(solution: Solution, exact: Exact | None) -> list[list[Panel]]:
    """Show the deformed body in the first row and a component in each other one."""
    domain, predicted = solution.domain, solution.field
    known = predicted if exact is None else exact.field
    factor = motion_scale(known)
    scale = exact_scale(np.hypot(*known)[domain])
    everything = given_panel(solution, "domain", ("force_x", "force_y", "fix_x", "fix_y"))
    rows = [[everything, deformed_panel("predicted |U|", predicted, domain, scale, factor)]]
    if exact is not None:
        rows[0] += [
            deformed_panel("exact |U|", exact.field, domain, scale, factor),
            error_panel(np.hypot(*(predicted - exact.field)), domain),
        ]
    for position, axis in enumerate("xy"):
        scale = Scale(-(size := float(np.abs(known[position]).max()) or 1.0), size, "RdBu_r")
        row = [
            given_panel(solution, f"along {axis}", (f"force_{axis}", f"fix_{axis}")),
            field_panel(f"predicted U_{axis}", predicted[position], domain, scale),
        ]
        if exact is not None:
            row.append(field_panel(f"exact U_{axis}", exact.field[position], domain, scale))
            row.append(error_panel(np.abs(predicted[position] - exact.field[position]), domain))
        rows.append(row)
    return rows


def draw_frames(solution: Solution, exact: Exact | None, errors: Comparison | None) -> Figure:
    """Draw a transient case as strips of times; each strip has one scale for all of them."""
    times = solution.times or ()
    shown = np.unique(np.linspace(0, len(times) - 1, min(len(times), MOST_TIMES)).round().astype(int))
    domain = solution.domain
    titles = [f"t = {times[frame]:g} s" + (f", {percent(errors.frames[frame])}" if errors else "") for frame in shown]
    known = solution.field if exact is None else exact.field
    scale = field_scale(known[shown, 0][:, domain])
    strips: list[tuple[str, Frames, Scale]] = [("predicted U", solution.field[shown, 0], scale)]
    if exact is not None:
        error = np.abs(solution.field - exact.field)[shown, 0]
        strips += [("exact U", exact.field[shown, 0], scale), ("|error|", error, sizes_scale(error[:, domain]))]
    given = [
        given_panel(solution, "domain", ("dirichlet",)),
        given_field(solution, "initial", "U₀"),
        given_field(solution, "source", "f"),
    ]
    if exact is None:
        rows = [[*given, *strip(solution.field[shown, 0], domain, scale, titles)]]
    else:
        blank = [""] * len(shown)
        rows = [
            [panel, *strip(frames, domain, colours, titles if row == 0 else blank)]
            for row, (panel, (_, frames, colours)) in enumerate(zip(given, strips, strict=True))
        ]
    figure = draw_panels(rows, heading(solution, errors))
    columns = len(rows[0])
    name_strips(figure, [name for name, _, _ in strips], columns, first=columns - len(shown))
    return figure
