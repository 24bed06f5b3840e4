"""Commands about models: train one, measure it, export it, list them."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from disol._devices import check_device
from disol.cli.app import FAILED, DeviceName, ProblemName, print_table, tell
from disol.errors import DisolError
from disol.models.pretrained import find_folder, is_shipped
from disol.problems.table import check_problem

if TYPE_CHECKING:
    from disol.models import Checkpoint
    from disol.models.card import Card

TrainedModel = Annotated[
    str, typer.Argument(help="A shipped model (`disol models` lists them) or the folder of a run.", metavar="RUN")
]
OwnNetwork = Annotated[
    str | None,
    typer.Option("--model", help="package.module:Name of a network of your own, whose weights the run holds."),
]


def find_run(run: str, network: str | None) -> "tuple[Path, Card]":
    """Return the folder of a trained model and its card; what is wrong is told before torch is imported."""
    folder = find_folder(run)
    from disol.models.card import read_card

    card = read_card(folder)
    if ":" in card.model and network is None:
        raise DisolError(f"{run} holds the weights of a network of your own. Give --model {card.model} too.")
    return folder, card


def is_own_network(model: str) -> bool:
    """Tell package.module:Name from the name of a model and from a folder."""
    return ":" in model and not {"/", "\\"} & set(model)


def from_here(network: str | None) -> str | None:
    """Let a network of one's own be imported from the working directory too, as scripts there import theirs."""
    if network is not None and is_own_network(network) and "" not in sys.path:
        sys.path.insert(0, "")
    return network


def train(
    problem: ProblemName,
    data: Annotated[
        list[Path],
        typer.Option(help="A file that `disol generate` wrote; give the option for each, as of several resolutions."),
    ],
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
    """Train a model on a file of cases, or on several."""
    check_problem(problem)
    check_device(device)
    if model is not None and not is_own_network(model):
        from disol.models.table import find_model

        find_model(model)
    if start is not None:
        find_folder(start)
    from disol.training import train as train_model

    is_rank_zero = os.environ.get("RANK", "0") == "0"  # of the processes that torchrun has started
    if is_rank_zero and resume and not (out.exists() and any(out.iterdir())):
        tell(f"nothing to resume in {out}: starting a new run", "note")
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
            tell(message, "note")
        typer.echo(report)


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
    run, _ = find_run(model, network)
    check_device(device)
    from disol._files import require_folder
    from disol.evaluation import evaluate as evaluate_model

    folder = out or (Path("evaluation", model) if is_shipped(model) else run / "evaluation")
    if out is None:
        require_folder(folder)  # nothing is written outside of a run because of a link in it
    handle: Path | Checkpoint = run
    if network is not None:
        from disol.models import load_checkpoint

        handle = load_checkpoint(run, model=from_here(network))
    evaluation = evaluate_model(handle, data, split=split, device=device, out=folder)
    print_table(evaluation.table())
    for message in evaluation.notes:
        tell(message, "note")
    tell(f"written {folder}")


def compare(
    config: Annotated[Path, typer.Argument(help="A TOML file of settings, as in configs/compare/.")],
    out: Annotated[
        Path | None, typer.Option(help="A folder for results, tables and pictures; comparisons/NAME unless given.")
    ] = None,
    work: Annotated[Path | None, typer.Option(help="A folder for files of cases and weights; OUT/work.")] = None,
    only: Annotated[list[str] | None, typer.Option(help="A model to train now; give the option for each.")] = None,
    minutes: Annotated[float | None, typer.Option(help="Stop after this time; call again to go on.")] = None,
    jobs: Annotated[int, typer.Option(help="Runs side by side, each in a process; with one GPU they share it.")] = 1,
    device: DeviceName = "auto",
    settings: Annotated[list[str] | None, typer.Option("--set", help="A setting, as in train.epochs=2.")] = None,
) -> None:
    """Train and evaluate several models alike; call it again to go on where it stopped."""
    from disol.comparison import compare as compare_models
    from disol.comparison import read_comparison

    for entry in read_comparison(config, settings or ()).models:
        from_here(entry.name)
    found = compare_models(
        config,
        out,
        work=work,
        only=only or (),
        minutes=minutes,
        jobs=jobs,
        device=device,
        overrides=settings or (),
        tell=tell,
    )
    print_table(found.table())
    tell(found)
    for name, reason in found.failures.items():
        tell(f"{name} failed: {reason}", "error")
    if found.failures:
        raise typer.Exit(FAILED)


def onnx(
    model: TrainedModel,
    out: Annotated[Path, typer.Option(help="The .onnx file to write.")],
    network: OwnNetwork = None,
) -> None:
    """Export a trained model for ONNX Runtime and for programs without torch."""
    if out.suffix != ".onnx":
        raise DisolError(f"--out must end in .onnx, got {str(out)!r}.")
    run, _ = find_run(model, network)
    from disol.surrogate import export_onnx

    tell(f"written {export_onnx(run, out, model=from_here(network))}")


def models() -> None:
    """List the trained models that come with the package, and every network with its size for each problem."""
    from rich.table import Column, Table

    from disol.models import MODELS, count_parameters, create_model, load_checkpoint
    from disol.models.known_errors import headline, headline_times
    from disol.models.pretrained import PRETRAINED, list_pretrained
    from disol.problems import PROBLEMS

    def right(heading: str) -> Column:
        return Column(heading, justify="right", no_wrap=True)

    trained = {name: load_checkpoint(PRETRAINED / name) for name in list_pretrained()}
    tests: dict[str, dict[str, Any]] = {name: each.metrics.get("tests", {}) for name, each in trained.items()}
    kinds = list(dict.fromkeys(kind for own in tests.values() for kind in own))
    known = [Column(heading, no_wrap=True) for heading in ("trained model", "grid", "conventions")]
    shipped = Table(*known, *map(right, kinds), box=None, pad_edge=False, collapse_padding=True)  # in 80 columns
    for name, checkpoint in trained.items():
        problem = checkpoint.problem.name
        told = name if name.startswith(problem) else f"{name} ({problem})"
        means = [headline(tests[name][kind]) if kind in tests[name] else None for kind in kinds]
        errors = ["-" if mean is None else f"{mean:.1%}" for mean in means]
        shipped.add_row(
            told, ", ".join(f"{side}²" for side in checkpoint.resolutions), str(checkpoint.conventions), *errors
        )
    print_table(shipped)
    over = {
        f"; of {trained[name].problem.name} over {', '.join(f'{time:g}' for time in times)} s"
        for name, own in tests.items()
        for test in own.values()
        if (times := headline_times(test))
    }
    typer.echo(f"Mean rel_l2 by kind of test cases{''.join(sorted(over))}.\n")

    headings = [right(problem.replace("-", "-\n")) for problem in PROBLEMS]
    table = Table(Column("parameters of", no_wrap=True), *headings, box=None, pad_edge=False)
    for name in MODELS:
        table.add_row(name, *(f"{count_parameters(create_model(name, problem)):,}" for problem in PROBLEMS))
    print_table(table)
