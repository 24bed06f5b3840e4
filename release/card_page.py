"""The model card: what comes with a shipped model as its `README.md`, all of it from what is stored beside it."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from disol.models.card import Card
from disol.models.known_errors import frames_of, headline
from disol.models.table import MODELS, find_model
from disol.problems.problem import TRAINED_UNTIL
from disol.training.run import read_described_files
from wording import bullets, kind_of, number, over_times, page, percent, table, training_sentence

STATISTICS = ("median", "mean", "p95")
ERRORS = ("field_error", "amplitude_error")


def write_card(name: str, card: Card, metrics: dict[str, Any]) -> str:
    """Return the card of a model as Markdown."""
    paragraphs = [
        f"# {name}",
        f"Predicts solutions of `{card.problem}`, {metrics['run']['data.equation']}, on {card.grids} grids with the "
        f"conventions `{card.conventions}`. Inputs: {', '.join(card.channels)}. Outputs: {', '.join(card.fields)}.",
        training_sentence(metrics),
        f"```python\n{usage(name, card)}\n```",
        table(["", ""], [list(row) for row in facts(card, metrics)]),
        f"Errors of the {card.storage} weights stored here, on cases drawn with a seed that training never used. Each "
        "case is measured over its own domain, `grid_mae` over the whole grid:",
        errors_table(metrics["tests"]),
        *solved_paragraphs(metrics["tests"], last_time(metrics)),
        "Known limits:",
        bullets(limits(card, metrics)),
    ]
    return page(paragraphs)


def usage(name: str, card: Card) -> str:
    """Show how the model is used."""
    conventions = "" if card.conventions == "paper" else f', conventions="{card.conventions}"'
    return (
        f'import disol\n\nmodel = disol.load("{name}")\n'
        f'verified = model.verify(disol.draw("{card.problem}", seed=7{conventions}))  # .prediction, .exact, .error'
    )


def facts(card: Card, metrics: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Give what can be said about a model in a few words."""
    run, cost = metrics["run"], metrics["cost"]
    yield "network", f"`{card.model}`, {metrics['num_parameters']:,} parameters, stored as {card.storage}"
    published = find_model(card.model).config.for_problem(card.problem).as_dict() if card.model in MODELS else {}
    other = [f"{name} {value}" for name, value in card.model_config.items() if value != published.get(name, value)]
    if other:
        yield "unlike the published network", ", ".join(other)
    before = metrics.get("before")
    files = [*(before["files"] if before else []), *read_described_files(run)]
    for file in files:
        shift = f"shift `{file['shift']}`" if file["shift"] else "no shift"
        grid = (
            f", {file['resolution']} x {file['resolution']}" if len({each["resolution"] for each in files}) > 1 else ""
        )
        yield "data", f"{file['num_cases']:,} cases of `{card.problem}`{grid}, seed {file['seed']}, {shift}"
    earlier = f" ({before['learning_rate']:g} in the first {before['epochs']} epochs)" if before else ""
    moved = ", cases moved over the grid" if run.get("train.augment_translation") else ""  # which older runs lack
    foreign = "" if run["recipe"] == "published" else ", not that of the paper"
    yield (
        "recipe",
        f"`{run['recipe']}`{foreign}: {run['train.optimizer']}, learning rate {run['train.learning_rate']:g}{earlier}, "
        f"batch {run['train.batch_size']}, {run['train.schedule']} schedule, training loss {run['train.loss']}, "
        f"symmetry {'on' if run['train.augment_symmetry'] else 'off'}{moved}",
    )
    speed = f"{cost['cases_per_second']:,.0f} cases per second"
    yield "cost", f"{cost['epochs']} epochs, {cost['seconds']:.0f} s on {cost['trained_on']}, {speed}"
    yield "validation `grid_mae`", f"{number(metrics['validation_loss'])} after epoch {metrics['epoch']}"
    for test in metrics["tests"].values():
        told = ", ".join(filter(None, [over_times(test), f"coverage {test['coverage']:.2f}"]))
        yield f"rel_l2, {kind_of(test)}", f"{number(headline(test))} ({told})"


def errors_table(tests: dict[str, Any]) -> str:
    """List every test, and every time of a transient problem."""
    times = ["time"] if any("frames" in test for test in tests.values()) else []
    heading = ["test cases", "cases", "coverage", *times]
    heading += ["`rel_l2` mean", "median", "p95", "`mae` mean", "`grid_mae` mean"]
    rows = []
    for test in tests.values():
        for time, metrics in frames_of(test):
            known = [kind_of(test), f"{test['cases']:,}", f"{test['coverage']:.2f}"]
            known += [f"{time:g} s"] if time is not None else []
            errors = [metrics["rel_l2"][statistic] for statistic in ("mean", "median", "p95")]
            errors += [metrics[metric]["mean"] for metric in ("mae", "grid_mae")]
            rows.append([*known, *map(number, errors)])
    return table(heading, rows)


def last_time(metrics: dict[str, Any]) -> float:
    """Return the seconds of the last frame a model was trained on, which older runs do not tell."""
    return metrics["run"].get("train.last_time", TRAINED_UNTIL)


def solved_paragraphs(tests: dict[str, Any], last: float) -> list[str]:
    """Give the errors of physical fields, where they were measured."""
    solved = {kind_of(test): test["solved"] for test in tests.values() if "solved" in test}
    if not solved:
        return []
    if all(each["sized_by"] == "system" for each in solved.values()):
        explained = (
            "Errors of the physical fields from `model.predict`, which finds the amplitude of the network's pattern "
            "from the discrete system without solving it. L2 is the relative error of the field, max |U| that of its "
            "largest value, both against the exact solution."
        )
    else:
        explained = (
            "Errors of the physical fields from `model.verify`, which scales the network's pattern to be as close as "
            "possible to the solution of the discrete system. L2 is the relative error of the field "
            "(`verified.error`), max |U| that of its largest value."
        )
    if any("frames" in test for test in tests.values()):
        explained += f" Each case is at one time, drawn from every 2 s up to {last:g} s."
    rows = [
        [kind, str(each["cases"]), *(percent(each[error][name]) for error in ERRORS for name in STATISTICS)]
        for kind, each in solved.items()
    ]
    heading = ["test cases", "cases", "L2 median", "mean", "p95", "max \\|U\\| median", "mean", "p95"]
    return [explained, table(heading, rows)]


def limits(card: Card, metrics: dict[str, Any]) -> Iterator[str]:
    """Say where a model is not to be trusted."""
    tests, last = metrics["tests"], last_time(metrics)
    yield f"It was trained on {card.grids} grids only. On other grids it predicts with a warning."
    numbers = ", ".join(f"{name} {value}" for name, value in card.parameters.items() if np.any(value))
    yield f"It was trained with the conventions `{card.conventions}` and fixed numbers in the equation: {numbers}."
    if any(test["shift"] for test in tests.values()):
        spreads = [
            f"{kind_of(test)} {percent(headline(test))}, p95 {percent(headline(test, statistic='p95'))}"
            for test in tests.values()
        ]
        over = {f", each the {text}" for text in map(over_times, tests.values()) if text}
        yield f"Mean `rel_l2` in and out of distribution{''.join(sorted(over))}: {'; '.join(spreads)}."
    if any("frames" in test for test in tests.values()):
        errors = "; ".join(map(last_error, tests.values()))
        beyond = f"Times after {last:g} s lie beyond its training"
        if any(time is not None and time > last for test in tests.values() for time, _ in frames_of(test)):
            beyond += f". Mean `rel_l2` there: {errors}"
        yield f"{beyond}."
    yield (
        "All errors are against exact solutions of the discrete problem on pixels. With respect to the smooth domain, "
        "these solutions are themselves only first-order accurate: a few per cent off on a 64 grid."
    )


def last_error(test: dict[str, Any]) -> str:
    """Give the error at the last time of a test."""
    time, metrics = frames_of(test)[-1]
    return f"{kind_of(test)} {percent(metrics['rel_l2']['mean'])} at {time:g} s"
