"""What `disol solve` prints, draws and writes."""

from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from disol.cli.app import max_symbol
from disol.errors import DisolError

if TYPE_CHECKING:
    from jaxtyping import Float
    from numpy import ndarray
    from rich.table import Table

    from disol.cases import Case
    from disol.solutions import Solution
    from disol.solutions.boundary_values import BoundaryValues
    from disol.surrogate import Surrogate, Verification

FILES = ("solution.png", "solution.npz", "solution.gif")
TRUE_FILES = ("true-boundary.png", "true-boundary.npz")
STRESS_FILE = "von-mises.png"
PREVIEW_FILE = "preview.png"
MOST_FRAMES = 50  # of an animation
ROUNDING = 1e-6  # of a frame: closer times are the same


@dataclass(frozen=True)
class OnTrueBoundary:
    """The solution of the same case on its true boundary, if there is one, and the seconds it took.

    told    its distances to the solution on pixels and to the PDE
    notes   on it, or why there is none
    """

    solution: "Solution | None" = None
    seconds: float = 0.0
    told: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """What was found: by a network, if one knows the case, with its seconds, and on the true boundary; and files."""

    found: "Verification | Solution | None"
    seconds: float
    true: OnTrueBoundary
    written: list[Path]
    trained: str | None = None


def solve_true(case: "Case", found: "Verification | None", with_distance: bool) -> OnTrueBoundary:
    """Solve a case on its true boundary, and state its distances to the solution on pixels, if any, and to the PDE."""
    from disol.solutions import solve_exact
    from disol.viz.errors import percent, relative_error

    try:
        started = perf_counter()
        solution = solve_exact(case)
        seconds = perf_counter() - started
        told = []
        if found is not None:
            pixels = found.exact.field
            away = percent(relative_error(pixels, solution.field))
            if len(solution.fields) > 1 and pixels.any():
                # On pixels two layers of nodes are loaded, so that displacements are about twice as large.
                multiple = float((pixels * solution.field).sum() / (pixels**2).sum())
                away += f" ({percent(relative_error(multiple * pixels, solution.field))} apart from its size)"
            told.append(f"The solution on pixels is {away} from that on the true boundary")
        if with_distance:
            staircase = " of this staircase of pixels" if case.boundary == "edges" else ""
            which = "The solution" if found is None else "which"
            told.append(f"{which} is about {percent(solution.estimate_distance())} from that of the PDE{staircase}")
        return OnTrueBoundary(solution, seconds, f"\n{', '.join(told)}.\n" if told else "", case.notes)
    except DisolError as error:
        if found is None:
            raise
        return OnTrueBoundary(notes=(f"not solved on its true boundary: {error}",))


def write_true(solution: "Solution | None", folder: Path, names: tuple[str, str]) -> list[Path]:
    """Write the picture and the arrays of a solution on the true boundary, for displacements also von Mises stress."""
    from disol.viz import plot_quantity, plot_solution, save_figure

    if solution is None:
        return []
    picture, arrays = (folder / name for name in names)
    save_figure(plot_solution(solution, managed=False), picture)
    written = [picture, solution.save(arrays)]
    if len(solution.fields) > 1:
        written.append(folder / STRESS_FILE)
        save_figure(plot_quantity(solution, "von_mises", managed=False), written[-1])
    return written


def write_alone(solution: "Solution", folder: Path, animation: Path | None) -> list[Path]:
    """Write a solution without a prediction and, for a transient problem, its animation."""
    from disol.solutions import solve_exact
    from disol.viz import animate

    written = []
    if solution.times is not None:
        written.append(folder / FILES[2] if animation is None else animation)
        animate(solve_exact(solution.case, times=movie_times(solution.case)), written[-1])
    return [*write_true(solution, folder, FILES[:2]), *written]


def draw_preview(case: "Case", folder: Path) -> Path:
    """Draw the outline of a case with the names of its parts."""
    from disol.viz import plot_outline, save_figure

    picture = folder / PREVIEW_FILE
    save_figure(plot_outline(case, managed=False), picture)
    return picture


def results(found: "Verification | Solution | None", seconds: float, true: OnTrueBoundary) -> "Table":
    """Return what was found as a table; `seconds` are those of a prediction alone."""
    from rich.table import Column, Table

    from disol.solutions import Solution
    from disol.viz.errors import percent

    verified = None if found is None or isinstance(found, Solution) else found
    shown = true.solution if found is None else found if isinstance(found, Solution) else found.prediction
    assert shown is not None
    errors = ("relative\nL2 error", "amplitude\nerror") if verified else ()
    table = Table(Column(no_wrap=True), box=None, pad_edge=False)
    for name in (max_symbol(shown.fields), *errors, "first call\ntakes"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("on", no_wrap=True)
    if verified is None:
        name = "true boundary" if found is None else "predicted"
        table.add_row(name, sizes(shown), duration(true.seconds if found is None else seconds), shown.device)
        return table
    prediction = shown
    known, times = [percent(float(verified.error)), percent(amplitude_error(verified))], verified.seconds
    table.add_row("predicted", sizes(prediction), *known, duration(times["network"]), prediction.device)
    table.add_row("exact for pixels", sizes(verified.exact), "", "", duration(times["exact"]), verified.exact.device)
    if true.solution is not None:
        table.add_row("true boundary", sizes(true.solution), "", "", duration(true.seconds), true.solution.device)
    return table


def totals(solution: "Solution") -> "Table":
    """Return what flows in or acts on the true boundary and inside it, at the last time, as a table."""
    import numpy as np
    from rich.table import Column, Table

    at = "" if solution.times is None else f" at {solution.times[-1]:g} s"
    name = "forces" if len(solution.fields) > 1 else "inflow"
    table = Table(Column(f"{name}{at}", no_wrap=True), "where", box=None, pad_edge=False)
    table.add_column("total", justify="right", no_wrap=True)
    rows = [
        (what, where, np.asarray(value) if solution.times is None else np.asarray(value)[-1])
        for what, where, value in solution.totals()
    ]
    largest = max(float(np.abs(value).max()) for _, _, value in rows)
    for what, where, value in rows:
        # What rounding leaves of a sum is not worth printing.
        numbers = [0.0 if abs(each) < 1e-9 * largest else each for each in np.atleast_1d(value).tolist()]
        table.add_row(what, where, ", ".join(f"{each:.4g}" for each in numbers))
    return table


def extremes(solution: "Solution") -> list[tuple[str, str]]:
    """Return the main numbers, at pixel centres and on a true boundary: displacement and stress, or the range of U."""
    around = solution.boundary() if solution.case.boundary == "true" else None
    if len(solution.fields) == 1:
        rows = [("U", f"{extent(solution.field[..., solution.domain])} at pixel centres")]
        return rows if around is None else [*rows, ("", f"{extent(around.value)} on the boundary")]
    displacement = [("largest displacement", f"{solution.max_displacement:.5g} at pixel centres")]
    stress = [("largest von Mises stress", f"{float(solution.von_mises.max()):.5g} at pixel centres")]
    if around is not None and around.von_mises is not None:
        displacement.append(("", largest_around(around, (around.value**2).sum(axis=-2) ** 0.5)))
        stress.append(("", largest_around(around, around.von_mises)))
    return [*displacement, *stress, ("compliance", f"{solution.compliance:.5g}, the work of all loads")]


def largest_around(around: "BoundaryValues", values: "Float[ndarray, '*time piece']") -> str:
    """Write the largest value on the boundary, and where it is."""
    place = int(values.argmax()) % len(around.x)
    where = f"{around.loop[place]}, x = {around.x[place]:.5g}, y = {around.y[place]:.5g}"
    return f"{values.max():.5g} on the boundary: {where}"


def extent(values: "Float[ndarray, '...']") -> str:
    """Write a range; what rounding leaves of a zero end is not worth printing."""
    low, high = float(values.min()), float(values.max())
    rounding = 1e-9 * max(abs(low), abs(high))
    low, high = (0.0 if abs(end) < rounding else end for end in (low, high))
    return f"from {low:.5g} to {high:.5g}"


def write(surrogate: "Surrogate", found: "Verification | Solution", folder: Path, animation: Path | None) -> list[Path]:
    """Write the picture, the arrays and, for a transient problem, the animation."""
    from disol.solutions import Solution
    from disol.viz import animate, plot_comparison, plot_solution, save_figure

    picture, arrays, gif = (folder / name for name in FILES)
    written = [picture, arrays]
    if found.case.times is not None:  # first, since its folder may be another one that cannot be written to
        times = movie_times(found.case)
        written.append(gif if animation is None else animation)
        if isinstance(found, Solution):
            animate(surrogate.predict(found.case, times=times), written[-1])
        else:
            movie = surrogate.verify(found.case, times=times)
            animate(movie.prediction, written[-1], movie.exact)
    if isinstance(found, Solution):
        figure = plot_solution(found, managed=False)
    else:
        figure = plot_comparison(found.prediction, found.exact, managed=False)
    save_figure(figure, picture)
    found.save(arrays)
    return written


def movie_times(case: "Case") -> tuple[float, ...]:
    """Return the times of a case and, up to the last of them, a frame every 2 s, or fewer if that would be many.

    A case with a time step of its own has frames at multiples of that.
    """
    import numpy as np

    from disol.problems.problem import FRAME

    times = case.times or ()
    apart = getattr(case.problem, "time_step", None) or FRAME
    frames = apart * np.arange(1, int(times[-1] / apart + ROUNDING) + 1)
    every = max(1, -(-len(frames) // MOST_FRAMES))
    shown = frames[every - 1 :: every]
    further = shown[(np.abs(shown[:, None] - times) > ROUNDING * apart).all(axis=1)]
    return tuple(sorted({*times, *further.tolist()}))


def amplitude_error(verified: "Verification") -> float:
    """Return |max |Û| / max |U| − 1| over the times shown, the largest where there are several fields.

    For a zero field the error is 0 for a zero prediction, and 1 for any other.
    """
    pairs = zip(largest(verified.prediction), largest(verified.exact), strict=True)
    return max(abs(predicted / exact - 1) if exact > 0 else float(predicted != 0) for predicted, exact in pairs)


def largest(solution: "Solution") -> list[float]:
    """Return max |U| of each field of one case, over all its times."""
    field = abs(solution.field)
    return field.max(axis=(-2, -1)).reshape(-1, field.shape[-3]).max(axis=0).tolist()


def sizes(solution: "Solution") -> str:
    """Write the largest value over the times asked for, or one for each component."""
    return ", ".join(f"{size:.4g}" for size in largest(solution))


def duration(seconds: float) -> str:
    """Write a time."""
    return f"{seconds:.1f} s" if seconds >= 1 else f"{1e3 * seconds:.1f} ms"
