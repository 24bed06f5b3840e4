"""What `disol solve` does: load a model, read the case, predict, solve exactly, measure, write."""

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np
from rich.table import Column, Table

from disol.cli.app import largest_of
from disol.cli.written_case import read_case
from disol.devices import find_device
from disol.evaluation.pictures import MOST_TIMES
from disol.files import written_whole
from disol.inference import load
from disol.inference.pictures import Comparison, animate, compare, draw_solution, percent
from disol.inference.solution import Solution
from disol.problems import Exact, solve_exact
from disol.problems.heat import FRAME
from disol.problems.table import find_problem

MOST_FRAMES = 50  # of an animation
DPI = 150

Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class Run:
    """Everything that `disol solve` found out about one case; `movie` has more times of a transient one."""

    rows: list[tuple[str, str]]
    notes: list[str]
    device: str
    solution: Solution
    predicted_in: float
    exact: Exact | None
    solved_in: float
    movie: tuple[Solution, Exact | None] | None

    @property
    def errors(self) -> Comparison | None:
        """How far the prediction is from the exact solution."""
        return None if self.exact is None else compare(self.solution, self.exact)

    def table(self) -> Table:
        """Return the results as a table."""
        table = Table(Column(no_wrap=True), box=None, pad_edge=False)
        for name in (
            largest_of(self.solution.fields),
            "error of\nfield",
            "\npattern",
            "\namplitude",
            "first call\ntakes",
        ):
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column("on", no_wrap=True)
        errors = self.errors
        measured = (errors.field, errors.pattern, errors.amplitude) if errors else (float(self.solution.error),)
        shown = [*map(percent, measured), *["-"] * (3 - len(measured))]
        table.add_row("predicted", sizes(self.solution), *shown, duration(self.predicted_in), self.device)
        if self.exact is not None:
            table.add_row("exact", sizes(self.exact), "", "", "", duration(self.solved_in), "cpu")
        return table


def run_case(
    name: str,
    problem: str | None,
    device: str,
    geometry: str,
    given: Mapping[str, str | None],
    resolution: int | None,
    seed: int | None,
    exact: bool,
) -> Run:
    """Solve the case that the options describe."""
    if problem is not None:
        find_problem(problem)  # a misspelt problem is not to be looked for among the models
    model = load(name, problem=problem, device=device)
    equation, conventions = model.checkpoint.problem, model.conventions
    side = model.resolution if resolution is None else resolution
    case = read_case(equation, conventions, geometry, given, side=side, seed=seed)

    asked = case.terms.get("times")
    frames = case.terms | ({"times": movie_times(asked)} if asked else {})
    known, solved_in = None, 0.0
    if exact:  # first, because it is quick to say what is wrong with the data
        known, solved_in = timed(lambda: solve_exact(equation, conventions=conventions, **frames))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        solution, predicted_in = timed(lambda: model.solve(**case.terms))
        # Apart, for the time and the error shown are those of what was asked for.
        movie = (model.solve(**frames), known) if asked else None
    if asked and known is not None:
        known = exact_at(known, asked)
    notes = list(dict.fromkeys([*case.notes, *(str(warning.message) for warning in caught)]))
    if asked and len(asked) > MOST_TIMES:
        notes.append(f"solution.png shows {MOST_TIMES} of the {len(asked)} times, the other files show all of them")
    where = str(find_device(device))
    rows = [
        ("problem", f"{equation.name}: {equation.equation}"),
        ("model", f"{name}, trained on {model.resolution} x {model.resolution}, {conventions} conventions"),
        *case.rows,
    ]
    return Run(rows, notes, where, solution, predicted_in, known, solved_in, movie)


def write_run(run: Run, folder: Path, animation: Path | None) -> list[Path]:
    """Write the picture, the arrays and, where there is time, the animation."""
    written = [folder / "solution.png", folder / "solution.npz"]
    if run.movie is not None:  # first, for its folder may be another that cannot be written to
        movie = folder / "solution.gif" if animation is None else animation
        animate(run.movie[0], movie, run.movie[1])
        written.append(movie)
    figure = draw_solution(run.solution, run.exact)
    with written_whole(written[0]) as path:
        figure.savefig(path, dpi=DPI)
    run.solution.save(written[1])
    return written


def movie_times(times: tuple[float, ...]) -> tuple[float, ...]:
    """Return the times and, up to the last of them, a frame every 2 s, or fewer of a long time."""
    frames = FRAME * np.arange(1, int(times[-1] / FRAME) + 1)
    every = max(1, -(-len(frames) // MOST_FRAMES))
    return tuple(sorted({*times, *frames[every - 1 :: every].tolist()}))


def exact_at(exact: Exact, times: tuple[float, ...]) -> Exact:
    """Return some times of an exact solution."""
    chosen = [(exact.times or ()).index(time) for time in times]
    arrays = {name: getattr(exact, name)[chosen] for name in ("field", "pattern", "nodes")}
    return replace(exact, times=times, **arrays)


def timed(call: Callable[[], Result]) -> tuple[Result, float]:
    """Return what a call gives, and the seconds it took."""
    started = time.perf_counter()
    return call(), time.perf_counter() - started


def duration(seconds: float) -> str:
    """Write a time."""
    return f"{seconds:.1f} s" if seconds >= 1 else f"{1e3 * seconds:.1f} ms"


def sizes(solution: Solution | Exact) -> str:
    """Write the amplitude, or one for each component."""
    return ", ".join(f"{size:.4g}" for size in np.atleast_1d(solution.amplitude))
