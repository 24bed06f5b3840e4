"""Commands about models: train one, measure it, export it, list them."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from disol._devices import check_device
from disol._lazy import names_own
from disol.cli.app import FAILED, PROBLEM_HELP, DeviceName, print_table, tell
from disol.errors import DisolError, shown
from disol.models.pretrained import find_folder, is_shipped
from disol.problems.table import check_problem, find_problem

if TYPE_CHECKING:
    from disol.models import Checkpoint
    from disol.models.card import Card
    from disol.problems import Problem

Own = TypeVar("Own", bound=str | None)
TrainedModel = Annotated[
    str, typer.Argument(help="A shipped model (`disol models` lists them) or the folder of a run.", metavar="RUN")
]
OwnNetwork = Annotated[
    str | None,
    typer.Option("--model", help="package.module:Name of a network of your own, whose weights the run holds."),
]
OwnProblem = Annotated[
    str | None,
    typer.Option("--problem", help="package.module:NAME of a PDE of your own, which the run was trained on."),
]


def find_run(run: str, network: str | None) -> "tuple[Path, Card]":
    """Return the folder of a trained model and its card; errors are raised before torch is imported."""
    folder = find_folder(run)
    from disol.models.card import read_card

    card = read_card(folder)
    if ":" in card.model and network is None:
        raise DisolError(f"{run} holds the weights of a network of your own. Give --model {card.model} too.")
    return folder, card


def find_own_problem(run: str, card: "Card", problem: str | None) -> "Problem | None":
    """Return the PDE of your own that a run was trained on; a PDE of the package need not be named."""
    if problem is not None:
        return find_problem(from_here(problem))
    from disol.problems import PROBLEMS

    if card.problem not in PROBLEMS:
        raise DisolError(
            f"{run} was trained on a PDE of your own, {shown(card.problem)}. Give --problem package.module:NAME too."
        )
    return None


def is_own_network(model: str) -> bool:
    """Tell package.module:Name apart from the name of a model and from a folder."""
    return names_own(model) and not {"/", "\\"} & set(model)


def from_here(own: Own) -> Own:
    """Let a user's network or PDE be imported from the working directory too, as scripts there would."""
    if own is not None and is_own_network(own) and "" not in sys.path:
        sys.path.insert(0, "")
    return own


def train(
    problem: Annotated[
        str | None, typer.Argument(help=f"{PROBLEM_HELP} With --resume, in place of --out, the folder of a run.")
    ] = None,
    data: Annotated[
        list[Path] | None,
        typer.Option(
            help="A file that `disol generate` wrote; repeat the option for several, of other resolutions. Not needed "
            "with --resume, unless files were moved."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The folder of the run: its best model, history and loss curve.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="A name (`disol models`; disol unless --config says otherwise), or package.module:Name."),
    ] = None,
    recipe: Annotated[str | None, typer.Option(help="fast (default) or published.")] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file of settings, as in configs/.")] = None,
    settings: Annotated[list[str] | None, typer.Option("--set", help="A setting, as in train.epochs=100.")] = None,
    minutes: Annotated[float | None, typer.Option(help="Train for this time; the schedule ends with it.")] = None,
    start: Annotated[
        str | None, typer.Option(help="A shipped model or a run to fine-tune; it brings its own model.")
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Continue an unfinished run, with its own settings unless some are given, or start one."
        ),
    ] = False,
    device: DeviceName = "auto",
    seed: Annotated[
        int | None, typer.Option(help="Seed of the weights, the order of cases and their augmentation; default: 0.")
    ] = None,
) -> None:
    """Train a model on a file of cases, or on several."""
    if resume and out is None and problem is not None:
        out, problem = Path(problem), None
        if not out.exists():
            raise DisolError(f"There is no run to resume in {out}. Give its folder.")
    if out is None:
        raise DisolError("Give --out, the folder of the run.")
    if problem is not None:
        check_problem(from_here(problem))
    elif not resume:
        raise DisolError("Name the problem to train on; only --resume knows it.")
    if not data and not resume:
        raise DisolError("Give --data, the cases to train on; only --resume knows them.")
    check_device(device)
    if model is not None and not is_own_network(model):
        from disol.models.table import find_model

        find_model(model)
    if start is not None:
        find_folder(start)
    from disol.training import train as train_model

    is_rank_zero = os.environ.get("RANK", "0") == "0"  # of the processes that torchrun has started
    if is_rank_zero and resume and problem and data and not (out.exists() and any(out.iterdir())):
        tell(f"nothing to resume in {out}: starting a new run", "note")
    report = train_model(
        problem,
        data or None,
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
    data: Annotated[list[Path], typer.Option(help="A file of cases; repeat the option for several.")],
    out: Annotated[
        Path | None, typer.Option(help="Where to write; default: RUN/evaluation, or evaluation/NAME if shipped.")
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(help="train, validation or all; default: validation for the file it was trained on, else all."),
    ] = None,
    network: OwnNetwork = None,
    problem: OwnProblem = None,
    device: DeviceName = "auto",
) -> None:
    """Measure a model's errors on files of cases: print a table, and write numbers and pictures."""
    run, card = find_run(model, network)
    check_device(device)
    equation = find_own_problem(model, card, problem)
    from disol._files import require_folder
    from disol.evaluation import evaluate as evaluate_model

    folder = out or (Path("evaluation", model) if is_shipped(model) else run / "evaluation")
    if out is None:
        require_folder(folder)  # a link in a run must not make this write outside of it
    handle: Path | Checkpoint = run
    if network is not None:
        from disol.models import load_checkpoint

        handle = load_checkpoint(run, equation, model=from_here(network))
    evaluation = evaluate_model(handle, data, split=split, device=device, out=folder, problem=equation)
    print_table(evaluation.table())
    for message in evaluation.notes:
        tell(message, "note")
    tell(f"written {folder}")


def compare(
    config: Annotated[Path, typer.Argument(help="A TOML file of settings, as in configs/compare/.")],
    out: Annotated[
        Path | None, typer.Option(help="A folder for results, tables and pictures; comparisons/NAME unless given.")
    ] = None,
    work: Annotated[Path | None, typer.Option(help="Folder for files of cases and weights; default: OUT/work.")] = None,
    only: Annotated[list[str] | None, typer.Option(help="A model to train now; repeat the option for several.")] = None,
    minutes: Annotated[float | None, typer.Option(help="Stop after this time; call again to continue.")] = None,
    jobs: Annotated[int, typer.Option(help="Runs side by side, each in its own process; one GPU is shared.")] = 1,
    device: DeviceName = "auto",
    settings: Annotated[list[str] | None, typer.Option("--set", help="A setting, as in train.epochs=2.")] = None,
) -> None:
    """Train and evaluate several models alike; call it again to continue where it stopped."""
    from disol.comparison import compare as compare_models
    from disol.comparison.config import list_own

    for own in list_own(config, settings or ()):
        from_here(own)
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
    if found.records:
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
    problem: OwnProblem = None,
) -> None:
    """Export a trained model for ONNX Runtime and for programs without torch."""
    if out.suffix != ".onnx":
        raise DisolError(f"--out must end in .onnx, got {str(out)!r}.")
    run, card = find_run(model, network)
    equation = find_own_problem(model, card, problem)
    from disol.surrogate import export_onnx

    tell(f"written {export_onnx(run, out, equation, model=from_here(network))}")


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
    typer.echo(f"Mean rel_l2 of patterns by kind of test cases{''.join(sorted(over))}.\n")

    headings = [right(problem.replace("-", "-\n")) for problem in PROBLEMS]
    table = Table(Column("parameters of", no_wrap=True), *headings, box=None, pad_edge=False)
    for name in MODELS:
        table.add_row(name, *(f"{count_parameters(create_model(name, problem)):,}" for problem in PROBLEMS))
    print_table(table)
