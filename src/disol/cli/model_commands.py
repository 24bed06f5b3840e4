"""Commands about models: train one, measure it, export it, list them."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Column, Table

from disol.cli.app import DeviceName, ProblemName, console, note

if TYPE_CHECKING:
    from disol.models import Checkpoint

TrainedModel = Annotated[
    str, typer.Argument(help="A shipped model (`disol models` lists them) or the folder of a run.")
]


def train(
    problem: ProblemName,
    data: Annotated[Path, typer.Option(help="A file that `disol generate` wrote.")],
    out: Annotated[Path, typer.Option(help="The folder of the run: its best model, history and loss curve.")],
    model: Annotated[str | None, typer.Option(help="disol unless a config says otherwise.")] = None,
    recipe: Annotated[str | None, typer.Option(help="fast (default) or published.")] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file of settings, as in configs/.")] = None,
    settings: Annotated[list[str] | None, typer.Option("--set", help="A setting, as in train.epochs=100.")] = None,
    minutes: Annotated[float | None, typer.Option(help="End after this time; the schedule ends with it.")] = None,
    start: Annotated[
        str | None, typer.Option(help="A shipped model or a run whose weights to begin with, to train them further.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an unfinished run, or start one.")] = False,
    device: DeviceName = "auto",
    seed: Annotated[int, typer.Option(help="Of the weights, the order of cases and their symmetries.")] = 0,
) -> None:
    """Train a model on a file of cases."""
    from disol.inference.loading import find_folder
    from disol.training import train as train_model
    from disol.training.folder import is_vacant

    speaks = os.environ.get("RANK", "0") == "0"  # for all processes that torchrun has started
    if speaks and resume and is_vacant(out):
        note(f"nothing to resume in {out}: starting a new run")
    report = train_model(
        problem,
        data,
        out,
        model=model,
        recipe=recipe,
        config=config,
        overrides=settings or (),
        minutes=minutes,
        start=None if start is None else find_folder(start),
        resume=resume,
        device=device,
        seed=seed,
    )
    if speaks:
        for message in report.notes:
            note(message)
        console.print(str(report), soft_wrap=True)


def evaluate(
    model: TrainedModel,
    data: Annotated[list[Path], typer.Option(help="Files of cases; give the option once for each.")],
    out: Annotated[
        Path | None, typer.Option(help="Where to write; RUN/evaluation, of a shipped model evaluation/NAME.")
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(help="train, validation or all (default, but validation of the file the model was trained on)."),
    ] = None,
    device: DeviceName = "auto",
) -> None:
    """Measure a model on files of cases: a table, and numbers and pictures in files."""
    from disol.evaluation.evaluating import evaluate as evaluate_model
    from disol.evaluation.tables import evaluation_table
    from disol.inference.loading import find_folder, is_shipped

    run = find_folder(model)
    folder = out or (Path("evaluation", model) if is_shipped(model) else run / "evaluation")
    evaluation = evaluate_model(run, data, split=split, device=device, out=folder)
    console.print(evaluation_table(evaluation))
    for message in evaluation.notes:
        note(message)
    console.print(f"written {folder}", soft_wrap=True)


def onnx(
    model: TrainedModel,
    out: Annotated[Path, typer.Option(help="The .onnx file to write.")],
) -> None:
    """Export a trained model for ONNX Runtime and for programs without torch."""
    from disol.inference.loading import find_folder
    from disol.inference.onnx_export import export_onnx
    from disol.models import load_checkpoint

    written = export_onnx(load_checkpoint(find_folder(model)), out)
    console.print(f"written {written}", soft_wrap=True)


def models() -> None:
    """List the trained models that come with the package, and every network with its size for each problem."""
    from disol.inference.loading import PRETRAINED, list_pretrained
    from disol.models import MODELS, count_parameters, create_model, load_checkpoint
    from disol.problems import PROBLEMS

    trained = {name: load_checkpoint(PRETRAINED / name) for name in list_pretrained()}
    kinds = list(dict.fromkeys(kind for each in trained.values() for kind in each.metrics.get("tests", {})))
    errors = [right(kind) for kind in kinds]
    shipped = Table(Column("trained model", no_wrap=True), "grid", "conventions", *errors, box=None, pad_edge=False)
    for name, checkpoint in trained.items():
        problem, side = checkpoint.problem.name, checkpoint.resolution
        told = name if name == problem else f"{name} ({problem})"
        shipped.add_row(told, f"{side} x {side}", checkpoint.conventions, *known_errors(checkpoint.metrics, kinds))
    console.print(shipped)
    console.print(f"Mean rel_l2 by kind of test cases{told_times(trained)}.")
    console.print()

    headings = [right(problem.replace("-", "-\n")) for problem in PROBLEMS]
    table = Table(Column("parameters of", no_wrap=True), *headings, box=None, pad_edge=False)
    for name in MODELS:
        table.add_row(name, *(f"{count_parameters(create_model(name, problem)):,}" for problem in PROBLEMS))
    console.print(table)


def right(heading: str) -> Column:
    """Return a column of numbers."""
    return Column(heading, justify="right", no_wrap=True)


def known_errors(metrics: dict[str, Any], kinds: list[str]) -> list[str]:
    """Write the mean errors that a shipped model says it has."""
    from disol.models.known_errors import headline

    tests = metrics.get("tests", {})
    errors = [headline(tests[kind]) if kind in tests else None for kind in kinds]
    return ["-" if mean is None else f"{mean:.1%}" for mean in errors]


def told_times(trained: "dict[str, Checkpoint]") -> str:
    """Say which times the errors of transient problems are means over."""
    from disol.models.known_errors import headline_times

    told = {
        f"; of {name} over {', '.join(f'{time:g}' for time in times)} s"
        for name, checkpoint in trained.items()
        for test in checkpoint.metrics.get("tests", {}).values()
        if (times := headline_times(test))
    }
    return "".join(sorted(told))
