"""`disol solve`: predict a solution on a geometry, solve the same case exactly, print and draw both."""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from disol._devices import check_device
from disol.cli.app import DeviceName, max_symbol, print_rows, print_table, tell
from disol.cli.given import GIVEN, join_texts
from disol.cli.models import find_run, from_here, is_own_network
from disol.errors import DisolError
from disol.problems.table import check_problem

if TYPE_CHECKING:
    from rich.table import Table

    from disol.problems import Case, Solution
    from disol.surrogate import Surrogate, Verification

DEFAULT_PROBLEM = "poisson"
DEFAULT_FOLDER = Path("solution")
FILES = ("solution.png", "solution.npz", "solution.gif")
TRUE_FILES = ("true-boundary.png", "true-boundary.npz")
MOST_FRAMES = 50  # of an animation


def _ranges(help_text: str) -> Any:
    """Describe an option that takes boundary ranges."""
    return typer.Option(help=help_text, metavar="RANGES", rich_help_panel=GIVEN)


HELP = """\
Solve a PDE on a geometry of your own, by a trained model and exactly.

Without options: a Poisson problem on an arrow with a hole, held at zero on fragments of its boundary, under a source \
of high frequency. Writes solution.png and solution.npz (heat: solution.gif too) into a new folder. What is not given \
is drawn with the geometry, or has a default where that comes from a file.

max |U| is that of the times asked for. Times are those of a first call, of the network and of the exact solution.

Boundaries are named outer and hole1, hole2, ... from the top down. A range such as outer:0.1-0.3 goes from one \
fraction of a loop's length to another. Fraction 0 is the loop's highest pixel, the leftmost of those; the walk has \
the domain on its right: clockwise along outer, counter-clockwise around a hole.

x runs to the right and y downwards, both from 0 to 1. outline.json holds {"outer": \\[\\[x, y], ...], "holes": \
\\[\\[\\[x, y], ...]]} or a GeoJSON Polygon, whose y points up. In a picture dark pixels are the domain and white or \
transparent ones are not; red marks U = 0 (elasticity: red U_x = 0, blue U_y = 0, magenta both).
"""
EXAMPLES = """\
Examples:

disol solve --geometry star+hole --dirichlet outer:0-0.2,hole1 --source "sin(6*x)*y"

disol solve --geometry outline.json --source gaussian --out plate

disol solve --problem elasticity --geometry part.png --force-y outer:0.5-0.6=1

disol solve --problem heat --geometry random:3+all --time 2,8,20
"""


def solve(
    problem: Annotated[
        str | None,
        typer.Option(help="That of --model, or poisson; `disol problems` lists them.", rich_help_panel=GIVEN),
    ] = None,
    geometry: Annotated[
        str,
        typer.Option(
            help="NAME or NAME+hole (arrow, star, y, ...), random:SEED or random:SEED+all (or +topology, +boundary, "
            "+source), outline.json, or a picture.png.",
            rich_help_panel=GIVEN,
        ),
    ] = "arrow+hole",
    dirichlet: Annotated[list[str] | None, _ranges("Where U = 0, as in outer:0.1-0.3,hole1.")] = None,
    fix_x: Annotated[list[str] | None, _ranges("Elasticity: where U_x = 0.")] = None,
    fix_y: Annotated[list[str] | None, _ranges("Elasticity: where U_y = 0.")] = None,
    force_x: Annotated[list[str] | None, _ranges("Elasticity: forces to the right, as in outer:0.4-0.5=-1.")] = None,
    force_y: Annotated[list[str] | None, _ranges("Elasticity: forces downwards.")] = None,
    source: Annotated[
        str | None,
        typer.Option(
            help="f: a formula in x and y, or zero, constant, ramp, wave, ripples, gaussian, spots.",
            metavar="FORMULA",
            rich_help_panel=GIVEN,
        ),
    ] = None,
    initial: Annotated[
        str | None, typer.Option(help="Heat: U at time 0, like --source.", metavar="FORMULA", rich_help_panel=GIVEN)
    ] = None,
    times: Annotated[
        list[str] | None,
        typer.Option("--time", help="Heat: seconds, as in 2,8,20.", metavar="SECONDS", rich_help_panel=GIVEN),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Draws what a named shape is not given.", rich_help_panel=GIVEN)
    ] = None,
    models: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            help="A run's folder or the name of a shipped model; the problem's own unless given. Where a run holds a "
            "network of your own, give package.module:Name as a second --model.",
        ),
    ] = None,
    resolution: Annotated[
        int | None, typer.Option(help="Pixels along a side; as many as the model was trained on unless given.")
    ] = None,
    device: DeviceName = "auto",
    exact: Annotated[
        bool,
        typer.Option(
            "--exact/--no-exact",
            help="Solve exactly as well, and show the solution and the error beside the prediction. Displacements "
            "need it: their size comes from it.",
        ),
    ] = True,
    distance: Annotated[
        bool,
        typer.Option(
            "--distance/--no-distance",
            help="Estimate the distance to the PDE of the solution on the true boundary, on a twice finer grid.",
        ),
    ] = True,
    out: Annotated[
        Path | None, typer.Option(help="The folder to write to; a new one, solution or solution-2, ..., unless given.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the solution in --out, and the file of --animate.")
    ] = False,
    animation: Annotated[
        Path | None, typer.Option("--animate", help="Heat: the .gif to write; OUT/solution.gif unless given.")
    ] = None,
) -> None:
    """Predict the solution of one case, solve it exactly, and write both."""
    given: dict[str, list[str] | str | None] = {
        "dirichlet": dirichlet,
        "fix_x": fix_x,
        "fix_y": fix_y,
        "force_x": force_x,
        "force_y": force_y,
        "source": source,
        "initial": initial,
        "times": times,
    }
    texts = join_texts(given)
    if animation is not None and animation.suffix.lower() != ".gif":
        raise DisolError(f"--animate must end in .gif, got {str(animation)!r}.")
    folder = choose_folder(out, overwrite)
    if animation is not None and animation.exists() and not overwrite:
        raise DisolError(f"{animation} exists already. Choose another --animate, or give --overwrite.")

    # All that is written is read before torch is imported, names even before NumPy: what is wrong is told at once.
    check_device(device)
    if problem is not None:
        check_problem(problem)  # a misspelt problem is not to be looked for among the models
    own = [model for model in models or () if is_own_network(model)]
    trained = [model for model in models or (problem or DEFAULT_PROBLEM,) if model not in own]
    if not trained:
        raise DisolError(f"{own[-1]} is a network without weights. Give the folder of its run as another --model.")
    name, network = trained[-1], own[-1] if own else None
    run, card = find_run(name, network)
    from disol.models.card import CARD
    from disol.problems import read_case

    with silenced_decoders():
        case = read_case(
            card.find_problem(run / CARD, problem),
            geometry,
            conventions=card.conventions,
            resolution=card.resolution if resolution is None else resolution,
            seed=seed,
            **texts,
        )
    if animation is not None and case.times is None:
        raise DisolError(f"--animate needs a problem with time, got {case.problem}. Use --problem heat.")

    from disol.surrogate import load
    from disol.surrogate.prediction import is_sized_by_its_system
    from disol.viz.solutions import MOST_TIMES

    if not exact and not is_sized_by_its_system(case.problem):
        raise DisolError(
            f"The size of {case.problem} is known accurately from its solution only: leave out --no-exact."
        )
    surrogate = load(run, problem, device=device, model=from_here(network))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        started = perf_counter()
        found = surrogate.verify(case) if exact else surrogate.predict(case)
        seconds = perf_counter() - started
        true = solve_true(found, geometry, seed, texts, distance)
        written = write(surrogate, found, folder, animation) + write_true(true, folder)
    print_rows(
        [
            ("problem", f"{case.problem}: {case.problem.equation}"),
            (
                "model",
                f"{name}, trained on {surrogate.resolution} x {surrogate.resolution}, {case.conventions} conventions",
            ),
            *case.origin.items(),
        ]
    )
    typer.echo()
    print_table(results(found, seconds, true))
    typer.echo(true.told)
    if true.solution is not None:
        print_table(totals(true.solution))
        typer.echo()
    notes = [*case.notes, *(str(warning.message) for warning in caught), *true.notes]
    if case.times is not None and len(case.times) > MOST_TIMES:
        notes.append(
            f"solution.png shows {MOST_TIMES} of the {len(case.times)} times, the other files show all of them"
        )
    for message in dict.fromkeys(notes):
        tell(message, "note")
    tell(f"written {', '.join(map(str, written))}")


@contextmanager
def silenced_decoders() -> Iterator[None]:
    """Keep libtiff, which tells what is wrong with a picture by itself, from standard error: one line is enough."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def choose_folder(out: Path | None, overwrite: bool) -> Path:
    """Return a folder that holds no solution yet: the one asked for, or the first of solution, solution-2, ..."""
    if out is None:
        number = 1
        while (folder := DEFAULT_FOLDER if number == 1 else Path(f"{DEFAULT_FOLDER}-{number}")).exists():
            number += 1
        return folder
    if not overwrite and any((out / name).exists() for name in (*FILES, *TRUE_FILES)):
        raise DisolError(f"{out} holds a solution already. Choose another --out, or give --overwrite.")
    return out


@dataclass(frozen=True)
class OnTrueBoundary:
    """The solution of the same case on its true boundary, if there is one, the seconds it took, and what to say of it.

    notes   on it, or why there is none
    """

    solution: "Solution | None" = None
    seconds: float = 0.0
    told: str = ""
    notes: tuple[str, ...] = ()


def solve_true(
    found: "Verification | Solution", geometry: str, seed: int | None, texts: dict[str, str], with_distance: bool
) -> OnTrueBoundary:
    """Solve a verified case on its true boundary, too, and say how far that is from pixels and from the PDE."""
    from disol.problems import Solution, read_case, solve_exact
    from disol.viz.errors import percent, relative_error

    if isinstance(found, Solution) or not found.case.problem.has_form:
        return OnTrueBoundary()
    known: dict[str, Any] = {"resolution": found.case.grid.height, "seed": seed, **texts}
    try:
        with silenced_decoders():
            case = read_case(found.case.problem, geometry, conventions="physical", **known)
        started = perf_counter()
        solution = solve_exact(case)
        seconds = perf_counter() - started
        away = percent(relative_error(found.exact.field, solution.field))
        told = f"The solution on pixels is {away} from that on the true boundary"
        if with_distance:
            staircase = " of this staircase of pixels" if case.boundary == "edges" else ""
            told += f", which is about {percent(solution.estimate_distance())} from that of the PDE{staircase}"
        return OnTrueBoundary(solution, seconds, f"\n{told}.\n", case.notes)
    except DisolError as error:
        return OnTrueBoundary(notes=(f"not solved on its true boundary: {error}",))


def write_true(true: OnTrueBoundary, folder: Path) -> list[Path]:
    """Write the picture and the arrays of the solution on the true boundary."""
    from disol.viz import plot_solution, save_figure

    if true.solution is None:
        return []
    picture, arrays = (folder / name for name in TRUE_FILES)
    save_figure(plot_solution(true.solution, managed=False), picture)
    true.solution.save(arrays)
    return [picture, arrays]


def results(found: "Verification | Solution", seconds: float, true: OnTrueBoundary) -> "Table":
    """Return what was found as a table; a prediction alone took so long."""
    from rich.table import Column, Table

    from disol.problems import Solution
    from disol.viz.errors import percent

    verified = None if isinstance(found, Solution) else found
    prediction = found if isinstance(found, Solution) else found.prediction
    errors = ("relative\nL2 error", "amplitude\nerror") if verified else ()
    table = Table(Column(no_wrap=True), box=None, pad_edge=False)
    for name in (max_symbol(prediction.fields), *errors, "first call\ntakes"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("on", no_wrap=True)
    if verified is None:
        table.add_row("predicted", sizes(prediction), duration(seconds), prediction.device)
        return table
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
    name = "forces in all" if len(solution.fields) > 1 else "what flows in"
    table = Table(Column(f"{name}{at}", no_wrap=True), "where", box=None, pad_edge=False)
    table.add_column("total", justify="right", no_wrap=True)
    rows = [
        (what, where, np.asarray(value) if solution.times is None else np.asarray(value)[-1])
        for what, where, value in solution.totals()
    ]
    largest = max(float(np.abs(value).max()) for _, _, value in rows)
    for what, where, value in rows:
        # What rounding leaves of a sum is no number to be told.
        numbers = [0.0 if abs(each) < 1e-9 * largest else each for each in np.atleast_1d(value).tolist()]
        table.add_row(what, where, ", ".join(f"{each:.4g}" for each in numbers))
    return table


def write(surrogate: "Surrogate", found: "Verification | Solution", folder: Path, animation: Path | None) -> list[Path]:
    """Write the picture, the arrays and, where there is time, the animation."""
    from disol.problems import Solution
    from disol.viz import animate, plot_comparison, plot_solution, save_figure

    picture, arrays, gif = (folder / name for name in FILES)
    written = [picture, arrays]
    if found.case.times is not None:  # first, for its folder may be another that cannot be written to
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
    """Return the times of a case and, up to the last of them, a frame every 2 s, or fewer of a long time."""
    import numpy as np

    from disol.problems.problem import FRAME

    times = case.times or ()
    frames = FRAME * np.arange(1, int(times[-1] / FRAME) + 1)
    every = max(1, -(-len(frames) // MOST_FRAMES))
    return tuple(sorted({*times, *frames[every - 1 :: every].tolist()}))


def amplitude_error(verified: "Verification") -> float:
    """Return |max |Û| / max |U| − 1| over the times shown, the largest where there are several fields.

    A zero field is met by 0 and missed entirely by anything else.
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
