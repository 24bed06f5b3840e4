"""Commands about models: train one, measure it, export it, list them."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Column, Table

from disol.cli.app import DeviceName, ProblemName, console, note
from disol.errors import DisolError

if TYPE_CHECKING:
    from disol.models import Checkpoint

TrainedModel = Annotated[
    str, typer.Argument(help="A shipped model (`disol models` lists them) or the folder of a run.")
]
OwnNetwork = Annotated[
    str | None, typer.Option(help="package.module:Name of a network of your own, whose weights the run holds.")
]


def find_run(model: str, network: str | None) -> Path:
    """Return the folder of a trained model; what is wrong with it is told before torch is imported."""
    from disol.models.card import read_card
    from disol.models.pretrained import find_folder

    run = find_folder(model)
    own = read_card(run).model
    if ":" in own and network is None:
        raise DisolError(f"{model} holds the weights of a network of your own. Give --network {own}.")
    return run


def from_here(network: str | None) -> str | None:
    """Let a network of one's own be imported from the working directory too, as scripts there import theirs."""
    if network is not None and ":" in network and "" not in sys.path:
        sys.path.insert(0, "")
    return network


def train(
    problem: ProblemName,
    data: Annotated[Path, typer.Option(help="A file that `disol generate` wrote.")],
    out: Annotated[Path, typer.Option(help="The folder of the run: its best model, history and loss curve.")],
    model: Annotated[
        str | None,
        typer.Option(help="A name (`disol models`), disol unless a config says otherwise, or package.module:Name."),
    ] = None,
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
    from disol.training import train as train_model

    is_rank_zero = os.environ.get("RANK", "0") == "0"  # of the processes that torchrun has started
    if is_rank_zero and resume and not (out.exists() and any(out.iterdir())):
        note(f"nothing to resume in {out}: starting a new run")
    report = train_model(
        problem,
        data,
        out,
        model=from_here(model),
        recipe=recipe,
        config=config,
        overrides=settings or (),
        minutes=minutes,
        start=start,
        resume=resume,
        device=device,
        seed=seed,
    )
    if is_rank_zero:
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
    network: OwnNetwork = None,
    device: DeviceName = "auto",
) -> None:
    """Measure a model on files of cases: a table, and numbers and pictures in files."""
    from disol._files import require_folder
    from disol.evaluation import evaluate as evaluate_model
    from disol.models.pretrained import is_shipped

    run = find_run(model, network)
    folder = out or (Path("evaluation", model) if is_shipped(model) else run / "evaluation")
    if out is None:
        require_folder(folder)  # nothing is written outside of a run because of a link in it
    handle: Path | Checkpoint = run
    if network is not None:
        from disol.models import load_checkpoint

        handle = load_checkpoint(run, model=from_here(network))
    evaluation = evaluate_model(handle, data, split=split, device=device, out=folder)
    console.print(evaluation.table())
    for message in evaluation.notes:
        note(message)
    console.print(f"written {folder}", soft_wrap=True)


def onnx(
    model: TrainedModel,
    out: Annotated[Path, typer.Option(help="The .onnx file to write.")],
    network: OwnNetwork = None,
) -> None:
    """Export a trained model for ONNX Runtime and for programs without torch."""
    if out.suffix != ".onnx":
        raise DisolError(f"--out must end in .onnx, got {str(out)!r}.")
    run = find_run(model, network)
    from disol.surrogate import export_onnx

    console.print(f"written {export_onnx(run, out, model=from_here(network))}", soft_wrap=True)


def models() -> None:
    """List the trained models that come with the package, and every network with its size for each problem."""
    from disol.models import MODELS, count_parameters, create_model, load_checkpoint
    from disol.models.pretrained import PRETRAINED, list_pretrained
    from disol.problems import PROBLEMS

    trained = {name: load_checkpoint(PRETRAINED / name) for name in list_pretrained()}
    kinds = list(dict.fromkeys(kind for each in trained.values() for kind in each.metrics.get("tests", {})))
    errors = [right(kind) for kind in kinds]
    shipped = Table(Column("trained model", no_wrap=True), "grid", "conventions", *errors, box=None, pad_edge=False)
    for name, checkpoint in trained.items():
        problem, side = checkpoint.problem.name, checkpoint.resolution
        told = name if name.startswith(problem) else f"{name} ({problem})"
        shipped.add_row(told, f"{side} x {side}", str(checkpoint.conventions), *known_errors(checkpoint.metrics, kinds))
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
