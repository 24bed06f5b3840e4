"""Commands about cases: list problems, draw one case, generate many, look into files of them."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Column, Table

from disol.cli.app import (
    ConventionsName,
    DeviceName,
    ProblemName,
    Resolution,
    Sequence,
    console,
    largest_of,
    note,
    print_rows,
)

if TYPE_CHECKING:
    from disol.problems import Case, Exact

HEAT_TIMES = (2.0, 8.0, 20.0, 50.0)


def problems() -> None:
    """List the problems."""
    from disol.problems import PROBLEMS

    table = Table(Column("problem", no_wrap=True), "equation", "grid", "inputs", "outputs", box=None, pad_edge=False)
    for problem in PROBLEMS.values():
        grid = f"{problem.resolution} x {problem.resolution}"
        table.add_row(problem.name, problem.equation, grid, ", ".join(problem.channels), ", ".join(problem.fields))
    console.print(table)


def draw(
    problem: ProblemName,
    seed: Sequence = 0,
    index: Annotated[int, typer.Option(help="Which case of it.")] = 0,
    shift: Annotated[
        str | None,
        typer.Option(
            help="topology, boundary, source, all, shape:NAME, shape:NAME+hole; sizes as in topology=0.3 or "
            "topology=0.2..0.3."
        ),
    ] = None,
    resolution: Resolution = None,
    conventions: ConventionsName = "paper",
    element: Annotated[str, typer.Option(help="q1 or p1.")] = "q1",
    alpha: Annotated[float, typer.Option(help="How closely the outline hugs its points, 0 to 1.")] = 0.8,
    out: Annotated[Path, typer.Option(help="Where to write: a picture (.png, .pdf, .svg) or arrays (.npz).")] = Path(
        "case.png"
    ),
) -> None:
    """Draw a random case, solve it exactly, and write a picture or arrays."""
    import numpy as np

    from disol.problems import draw as draw_case
    from disol.problems import solve_exact

    write = find_writer(out)
    started = time.perf_counter()
    case = draw_case(problem, seed, index, resolution=resolution, shift=shift, conventions=conventions, alpha=alpha)
    drawn = time.perf_counter()
    times: dict[str, Any] = {"times": HEAT_TIMES} if "times" in case.terms else {}
    exact = solve_exact(case, element=element, **times)
    solved = time.perf_counter()
    write(out, case, exact)
    sizes = ", ".join(f"{size:.4g}" for size in np.atleast_1d(exact.amplitude))
    print_rows(
        [
            ("problem", f"{case.problem}: {case.equation.equation}"),
            ("grid", f"{case.resolution} x {case.resolution}, {case.terms['domain'].mean():.0%} of it domain"),
            ("amplitude", f"{largest_of(case.equation.fields)} = {sizes}"),
            ("time", f"drawn in {1e3 * (drawn - started):.1f} ms, solved in {1e3 * (solved - drawn):.1f} ms"),
            ("written", str(out)),
        ]
    )


def generate(
    problem: ProblemName,
    cases: Annotated[int, typer.Option(help="How many cases.")],
    out: Annotated[Path, typer.Option(help="The HDF5 file to write.")],
    seed: Sequence = 0,
    shift: Annotated[str | None, typer.Option(help="As for draw, or 'shapes': all named shapes in turn.")] = None,
    conventions: ConventionsName = "paper",
    resolution: Resolution = None,
    device: DeviceName = "auto",
    workers: Annotated[int | None, typer.Option(help="Processes that draw; one per core unless given.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an unfinished file, or start one.")] = False,
    backend: Annotated[str, typer.Option(help="Where workers run: local, or dask with --scheduler.")] = "local",
    scheduler: Annotated[str | None, typer.Option(help="Address of a Dask scheduler.")] = None,
) -> None:
    """Draw and solve many cases into one file."""
    if backend not in ("local", "dask") or (backend == "dask") != (scheduler is not None):
        raise ValueError(
            f"--backend is local, or dask together with --scheduler ADDRESS, got {backend!r} and {scheduler!r}. "
            "Give both or neither."
        )
    from disol.data import generate as generate_cases

    if resume and not out.exists():
        note(f"nothing to resume in {out}: starting a new file")
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
    console.print(str(report), soft_wrap=True)


def info(file: Annotated[Path, typer.Argument(help="A file that `disol generate` wrote.")]) -> None:
    """Tell what a file of cases holds."""
    from disol.data import describe

    print_rows(describe(file))


def export(
    file: Annotated[Path, typer.Argument(help="A file that `disol generate` wrote.")],
    out: Annotated[Path, typer.Option(help="The .npz file to write.")],
    split: Annotated[str, typer.Option(help="train, validation or all.")] = "all",
) -> None:
    """Write a file of cases as plain NumPy arrays."""
    from disol.data import export_npz

    console.print(f"written {export_npz(file, out, split=split)}", soft_wrap=True)


def find_writer(out: Path) -> "Callable[[Path, Case, Exact], None]":
    """Choose how to write by the ending of the file, before any work is done."""
    writers = {".npz": write_arrays, ".png": write_picture, ".pdf": write_picture, ".svg": write_picture}
    if out.suffix not in writers:
        raise ValueError(f"--out must end in {', '.join(writers)}, got {str(out)!r}. Change the ending.")
    return writers[out.suffix]


def write_picture(out: Path, case: "Case", exact: "Exact") -> None:
    """Write a picture of a case."""
    from disol.evaluation.plots import plot_case
    from disol.files import written_whole

    figure = plot_case(case, exact)
    with written_whole(out) as path:
        figure.savefig(path, dpi=150)


def write_arrays(out: Path, case: "Case", exact: "Exact") -> None:
    """Write the arrays of a case and its solution."""
    import numpy as np

    from disol.files import written_whole

    times: dict[str, Any] = {} if exact.times is None else {"times": exact.times}
    with written_whole(out) as path:
        np.savez_compressed(
            path,
            problem=case.problem,
            seed=case.seed,
            index=case.index,
            shift=case.shift or "",
            conventions=case.conventions,
            channels=list(case.channels),
            inputs=case.inputs,
            field=exact.field,
            pattern=exact.pattern,
            amplitude=exact.amplitude,
            nodes=exact.nodes,
            **times,
        )
