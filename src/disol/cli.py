"""The `disol` command: parse, call, print."""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Column, Table

from disol import __version__

if TYPE_CHECKING:
    from disol.problems import Case, Exact

app = typer.Typer(
    help="Solve PDEs on changing geometries.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
console = Console(highlight=False)

HEAT_TIMES = (2.0, 8.0, 20.0, 50.0)

# What several commands take.
ProblemName = Annotated[str, typer.Argument(help="Which problem; `disol problems` lists them.")]
ConventionsName = Annotated[str, typer.Option(help="paper or published.")]
DeviceName = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:NUMBER.")]
Resolution = Annotated[int | None, typer.Option(help="Pixels along a side.")]
Sequence = Annotated[int, typer.Option(help="Which sequence of cases.")]


def main() -> None:
    """Run the command; a wrong input is one line and exit code 2."""
    try:
        app()
    except ValueError as error:
        Console(stderr=True, highlight=False, soft_wrap=True).print(f"[red]error:[/] {one_line(error)}")
        sys.exit(2)
    except KeyboardInterrupt:
        Console(stderr=True).print("interrupted; generate and train go on with --resume")
        sys.exit(130)


def one_line(error: Exception) -> str:
    """Return a message that can be printed as it is."""
    return " ".join(str(error).split()).replace("[", r"\[")


def show_version(asked: bool) -> None:
    """Print the version and stop."""
    if asked:
        console.print(f"disol {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[bool, typer.Option("--version", callback=show_version, is_eager=True, help="Show it.")] = False,
) -> None:
    """Solve PDEs on changing geometries."""
    del version  # its callback has answered


@app.command()
def problems() -> None:
    """List the problems."""
    from disol.problems import PROBLEMS

    table = Table(Column("problem", no_wrap=True), "equation", "grid", "inputs", "outputs", box=None, pad_edge=False)
    for problem in PROBLEMS.values():
        grid = f"{problem.resolution} x {problem.resolution}"
        table.add_row(problem.name, problem.equation, grid, ", ".join(problem.channels), ", ".join(problem.fields))
    console.print(table)


@app.command()
def draw(
    problem: ProblemName,
    seed: Sequence = 0,
    index: Annotated[int, typer.Option(help="Which case of it.")] = 0,
    shift: Annotated[
        str | None,
        typer.Option(help="topology, boundary, source, all, shape:NAME, shape:NAME+hole; sizes as in topology=0.3."),
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
    times: dict[str, Any] = {"times": HEAT_TIMES} if case.problem == "heat" else {}
    exact = solve_exact(case, element=element, **times)
    solved = time.perf_counter()
    write(out, case, exact)
    sizes = ", ".join(f"{size:.4g}" for size in np.atleast_1d(exact.amplitude))
    print_rows(
        [
            ("problem", f"{case.problem}: {case.equation.equation}"),
            ("grid", f"{case.resolution} x {case.resolution}, {case.terms['domain'].mean():.0%} of it domain"),
            ("amplitude", f"max |U| = {sizes}"),
            ("time", f"drawn in {1e3 * (drawn - started):.1f} ms, solved in {1e3 * (solved - drawn):.1f} ms"),
            ("written", str(out)),
        ]
    )


@app.command()
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
    resume: Annotated[bool, typer.Option("--resume", help="Continue an unfinished file.")] = False,
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


@app.command()
def info(file: Annotated[Path, typer.Argument(help="A file that `disol generate` wrote.")]) -> None:
    """Tell what a file of cases holds."""
    from disol.data import describe

    print_rows(describe(file))


@app.command()
def export(
    file: Annotated[Path, typer.Argument(help="A file that `disol generate` wrote.")],
    out: Annotated[Path, typer.Option(help="The .npz file to write.")],
    split: Annotated[str, typer.Option(help="train, validation or all.")] = "all",
) -> None:
    """Write a file of cases as plain NumPy arrays."""
    from disol.data import export_npz

    console.print(f"written {export_npz(file, out, split=split)}", soft_wrap=True)


@app.command()
def train(
    problem: ProblemName,
    data: Annotated[Path, typer.Option(help="A file that `disol generate` wrote.")],
    out: Annotated[Path, typer.Option(help="The folder of the run: its best model, history and loss curve.")],
    model: Annotated[str | None, typer.Option(help="disol unless a config says otherwise.")] = None,
    recipe: Annotated[str | None, typer.Option(help="fast (default) or published.")] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file of settings, as in configs/.")] = None,
    settings: Annotated[list[str] | None, typer.Option("--set", help="A setting, as in train.epochs=100.")] = None,
    minutes: Annotated[float | None, typer.Option(help="End after this time; the schedule ends with it.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an unfinished run.")] = False,
    device: DeviceName = "auto",
    seed: Annotated[int, typer.Option(help="Of the weights, the order of cases and their symmetries.")] = 0,
) -> None:
    """Train a model on a file of cases."""
    from disol.training import train as train_model

    report = train_model(
        problem,
        data,
        out,
        model=model,
        recipe=recipe,
        config=config,
        overrides=settings or (),
        minutes=minutes,
        resume=resume,
        device=device,
        seed=seed,
    )
    console.print(str(report), soft_wrap=True)


@app.command()
def evaluate(
    run: Annotated[Path, typer.Argument(help="A folder that `disol train` wrote.")],
    data: Annotated[list[Path], typer.Option(help="Files of cases; give the option once for each.")],
    out: Annotated[Path | None, typer.Option(help="Where to write; RUN/evaluation unless given.")] = None,
    split: Annotated[str, typer.Option(help="train, validation or all.")] = "all",
    device: DeviceName = "auto",
) -> None:
    """Measure a model on files of cases: a table, and numbers and pictures in files."""
    from disol.evaluation.evaluate import evaluate as evaluate_model
    from disol.evaluation.tables import evaluation_table

    folder = run / "evaluation" if out is None else out
    evaluation = evaluate_model(run, data, split=split, device=device, out=folder)
    console.print(evaluation_table(evaluation))
    for note in evaluation.notes:
        console.print(f"note: {note}", soft_wrap=True)
    console.print(f"written {folder}", soft_wrap=True)


@app.command()
def models() -> None:
    """List the models, with their size for each problem."""
    from disol.models import MODELS, count_parameters, create_model
    from disol.problems import PROBLEMS

    table = Table(Column("model", no_wrap=True), *PROBLEMS, box=None, pad_edge=False)
    for name in MODELS:
        table.add_row(name, *(f"{count_parameters(create_model(name, problem)):,}" for problem in PROBLEMS))
    console.print(table)


def print_rows(rows: list[tuple[str, str]]) -> None:
    """Print names and values."""
    table = Table(box=None, pad_edge=False, show_header=False)
    for name, value in rows:
        table.add_row(name, value)
    console.print(table)


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
