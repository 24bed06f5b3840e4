"""Commands about cases: list problems, draw one case, generate many, inspect and export files of them."""

import time
import warnings
from pathlib import Path
from typing import Annotated

import typer

from disol.cli.app import (
    DeviceName,
    PixelConventionsName,
    ProblemName,
    Resolution,
    Seed,
    max_symbol,
    print_rows,
    print_table,
    tell,
)
from disol.cli.models import from_here
from disol.errors import DisolError
from disol.problems.table import check_problem

SHOWN_TIMES = (2.0, 8.0, 20.0, 50.0)  # seconds, of a transient problem
PICTURES = (".png", ".pdf", ".svg")


def problems() -> None:
    """List the problems."""
    from rich.table import Column, Table

    from disol.problems import PROBLEMS

    named = [Column(heading, no_wrap=True) for heading in ("problem", "equation", "grid")]
    table = Table(*named, "inputs", "outputs", box=None, pad_edge=False)
    for problem in PROBLEMS.values():
        table.add_row(
            problem.name,
            problem.equation,
            f"{problem.resolution}²",
            ", ".join(problem.channels),
            ", ".join(problem.fields),
        )
    print_table(table)


def draw(
    problem: ProblemName,
    seed: Seed = 0,
    index: Annotated[int, typer.Option(help="Which case of the sequence.")] = 0,
    shift: Annotated[
        str | None,
        typer.Option(
            help="topology, boundary, source, all, shape:NAME, shape:NAME+hole, broad, released; sizes as in "
            "topology=0.3 or topology=0.2..0.3."
        ),
    ] = None,
    resolution: Resolution = None,
    conventions: Annotated[
        str | None,
        typer.Option(
            help="physical (on the true boundary), paper or published (on pixels); default: physical, or paper for a "
            "PDE of your own that has no form.",
        ),
    ] = None,
    element: Annotated[str, typer.Option(help="Finite element, q1 or p1.")] = "q1",
    alpha: Annotated[float, typer.Option(help="How closely the outline hugs its points, 0 to 1.")] = 0.8,
    out: Annotated[Path, typer.Option(help="Where to write: a picture (.png, .pdf, .svg) or arrays (.npz).")] = Path(
        "case.png"
    ),
) -> None:
    """Draw a random case, solve it exactly, and write a picture or arrays."""
    check_problem(from_here(problem))
    if out.suffix not in (*PICTURES, ".npz"):
        raise DisolError(f"--out must end in .npz, {', '.join(PICTURES)}, got {str(out)!r}.")
    import numpy as np

    from disol.cases import Case
    from disol.solutions import solve_exact

    started = time.perf_counter()
    case = Case.draw(problem, seed, index, resolution=resolution, shift=shift, conventions=conventions, alpha=alpha)
    drawn = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        solution = solve_exact(case, element=element, times=None if case.times is None else SHOWN_TIMES)
    solved = time.perf_counter()
    if out.suffix == ".npz":
        solution.save(out)
    else:
        from disol.viz import plot_solution, save_figure

        save_figure(plot_solution(solution, managed=False), out)
    sizes = ", ".join(f"{size:.4g}" for size in np.atleast_1d(solution.amplitude))
    height, width = case.grid.pixels
    print_rows(
        [
            ("problem", f"{case.problem}: {case.equation}"),
            ("grid", f"{height} x {width}, {case.domain.mean():.0%} of it domain"),
            ("amplitude", f"{max_symbol(solution.fields)} = {sizes}"),
            ("time", f"drawn in {1e3 * (drawn - started):.1f} ms, solved in {1e3 * (solved - drawn):.1f} ms"),
            ("written", str(out)),
        ]
    )
    for message in dict.fromkeys(str(warning.message) for warning in caught):
        tell(message, "note")


def generate(
    problem: ProblemName,
    cases: Annotated[int, typer.Option(help="How many cases.")],
    out: Annotated[Path, typer.Option(help="The HDF5 file to write.")],
    seed: Seed = 0,
    shift: Annotated[str | None, typer.Option(help="As for draw, or 'shapes': all named shapes in turn.")] = None,
    conventions: PixelConventionsName = "paper",
    resolution: Resolution = None,
    device: DeviceName = "auto",
    workers: Annotated[int | None, typer.Option(help="Processes that draw; one per core unless given.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an unfinished file, or start one.")] = False,
    backend: Annotated[str, typer.Option(help="Where workers run: local, or dask with --scheduler.")] = "local",
    scheduler: Annotated[str | None, typer.Option(help="Address of a Dask scheduler.")] = None,
) -> None:
    """Draw and solve many cases into one file."""
    if backend not in ("local", "dask") or (backend == "dask") != (scheduler is not None):
        raise DisolError(
            f"--backend is local, or dask together with --scheduler ADDRESS, got {backend!r} and {scheduler!r}."
        )
    check_problem(from_here(problem))
    from disol.data import generate as generate_cases

    if resume and not out.exists():
        tell(f"nothing to resume in {out}: starting a new file", "note")
    report = generate_cases(
        problem,
        cases,
        out,
        seed=seed,
        shift=shift,
        conventions=conventions,
        resolution=resolution,
        device=device,
        workers=workers,
        resume=resume,
        scheduler=scheduler,
    )
    typer.echo(report)


def info(file: Annotated[Path, typer.Argument(help="A file that `disol generate` wrote.")]) -> None:
    """Show what a file of cases holds."""
    from disol.data import describe

    print_rows(describe(file))


def export(
    file: Annotated[Path, typer.Argument(help="A file that `disol generate` wrote.")],
    out: Annotated[Path, typer.Option(help="The .npz file to write.")],
    split: Annotated[str, typer.Option(help="train, validation or all.")] = "all",
) -> None:
    """Write a file of cases as plain NumPy arrays."""
    from disol.data import export_npz

    tell(f"written {export_npz(file, out, split=split)}")
