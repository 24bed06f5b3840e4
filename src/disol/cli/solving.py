"""What `disol solve` does: load a model, read the case, solve it, measure, write."""

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
from jaxtyping import Float, Float32
from rich.table import Column, Table
from torch import Tensor

from disol.cli.app import largest_of
from disol.cli.written_case import read_case
from disol.evaluation.pictures import MOST_TIMES
from disol.files import written_whole
from disol.inference import load
from disol.inference.pictures import amplitude_error, animate, draw_solution, largest, percent
from disol.inference.solution import Solution
from disol.inference.torch_engines import TorchEngine
from disol.problems.heat import FRAME
from disol.problems.table import find_problem

MOST_FRAMES = 50  # of an animation
DPI = 150

Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class TimedEngine(TorchEngine):
    """Eager torch that notes how many seconds each run of the network takes."""

    seconds: list[float] = field(default_factory=list)

    def run(
        self, cases: Float32[Tensor, "batch channel height width"], at_once: int
    ) -> Float32[np.ndarray, "batch ..."]:
        """Predict, and note the time."""
        predictions, seconds = timed(partial(super().run, cases, at_once))
        self.seconds.append(seconds)
        return predictions


@dataclass(frozen=True, eq=False)
class Run:
    """Everything that `disol solve` found out about one case.

    device         of the network
    predicted_in   seconds of the network
    solved_in      seconds of everything else: checking, discretising and solving
    movie          more times of a transient case
    with_exact     the exact solution and the error are to be shown
    """

    rows: list[tuple[str, str]]
    notes: list[str]
    device: str
    solution: Solution
    predicted_in: float
    solved_in: float
    movie: Solution | None
    with_exact: bool

    def table(self) -> Table:
        """Return the results as a table."""
        errors = ("relative\nL2 error", "amplitude\nerror") if self.with_exact else ()
        table = Table(Column(no_wrap=True), box=None, pad_edge=False)
        for name in (largest_of(self.solution.fields), *errors, "first call\ntakes"):
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column("on", no_wrap=True)
        shown = [percent(float(self.solution.error)), percent(amplitude_error(self.solution))][: len(errors)]
        table.add_row("predicted", sizes(self.solution.field), *shown, duration(self.predicted_in), self.device)
        if self.with_exact:
            solved_on = str(self.solution.solved_on)
            table.add_row("exact", sizes(self.solution.exact), "", "", duration(self.solved_in), solved_on)
        return table


def run_case(
    name: str,
    problem: str | None,
    device: str,
    geometry: str,
    given: Mapping[str, str | None],
    resolution: int | None,
    seed: int | None,
    with_exact: bool,
) -> Run:
    """Solve the case that the options describe."""
    if problem is not None:
        find_problem(problem)  # a misspelt problem is not to be looked for among the models
    loaded = load(name, problem=problem, device=device)
    engine = TimedEngine(loaded.engine.network, loaded.engine.device, loaded.engine.precision)
    model = replace(loaded, engine=engine)
    equation, conventions = model.checkpoint.problem, model.conventions
    side = model.resolution if resolution is None else resolution
    case = read_case(equation, conventions, geometry, given, side=side, seed=seed)

    asked = case.terms.get("times")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        solution, seconds = timed(partial(model.solve, **case.terms))
        predicted_in = sum(engine.seconds)
        # The frames of an animation are solved apart, for the times shown are those of what was asked for.
        movie = model.solve(**case.terms | {"times": movie_times(asked)}) if asked else None
    notes = list(dict.fromkeys([*case.notes, *(str(warning.message) for warning in caught)]))
    if asked and len(asked) > MOST_TIMES:
        notes.append(f"solution.png shows {MOST_TIMES} of the {len(asked)} times, the other files show all of them")
    rows = [
        ("problem", f"{equation.name}: {equation.equation}"),
        ("model", f"{name}, trained on {model.resolution} x {model.resolution}, {conventions} conventions"),
        *case.rows,
    ]
    return Run(rows, notes, str(engine.device), solution, predicted_in, seconds - predicted_in, movie, with_exact)


def write_run(run: Run, folder: Path, animation: Path | None) -> list[Path]:
    """Write the picture, the arrays and, where there is time, the animation."""
    written = [folder / "solution.png", folder / "solution.npz"]
    if run.movie is not None:  # first, for its folder may be another that cannot be written to
        movie = folder / "solution.gif" if animation is None else animation
        animate(run.movie, movie, run.with_exact)
        written.append(movie)
    figure = draw_solution(run.solution, run.with_exact)
    with written_whole(written[0]) as path:
        figure.savefig(path, dpi=DPI)
    run.solution.save(written[1])
    return written


def movie_times(times: tuple[float, ...]) -> tuple[float, ...]:
    """Return the times and, up to the last of them, a frame every 2 s, or fewer of a long time."""
    frames = FRAME * np.arange(1, int(times[-1] / FRAME) + 1)
    every = max(1, -(-len(frames) // MOST_FRAMES))
    return tuple(sorted({*times, *frames[every - 1 :: every].tolist()}))


def timed(call: Callable[[], Result]) -> tuple[Result, float]:
    """Return what a call gives, and the seconds it took."""
    started = time.perf_counter()
    return call(), time.perf_counter() - started


def duration(seconds: float) -> str:
    """Write a time."""
    return f"{seconds:.1f} s" if seconds >= 1 else f"{1e3 * seconds:.1f} ms"


def sizes(field: Float[np.ndarray, "*time field height width"]) -> str:
    """Write the largest value over the times asked for, or one for each component."""
    return ", ".join(f"{size:.4g}" for size in largest(field))
