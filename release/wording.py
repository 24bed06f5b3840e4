"""How measurements are written: numbers, tables, and what a file of test cases holds."""

import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from disol.models.known_errors import headline_times
from disol.training.run import read_described_files

WIDTH = 120


def number(value: float | None) -> str:
    """Write three digits, as in 3.93e-3."""
    if value is None:
        return "not finite"
    mantissa, _, exponent = f"{value:.2e}".partition("e")
    return f"{mantissa}e{int(exponent)}" if int(exponent) else mantissa


def percent(value: float | None) -> str:
    """Write a share in per cent, with two digits."""
    if value is None:
        return "not finite"
    digits = f"{100 * value:.0f}" if value >= 0.1 else f"{100 * value:#.2g}".rstrip(".")
    return f"{digits} %"


def page(paragraphs: Sequence[str]) -> str:
    """Put paragraphs below each other; prose is broken into lines, tables, lists, pictures and code are left alone."""
    return "\n\n".join(text if "\n" in text or text[0] in "#|!-" else wrap(text) for text in paragraphs) + "\n"


def bullets(items: Iterable[str]) -> str:
    """Write a list."""
    return "\n".join(wrap(f"- {item}", indent="  ") for item in items)


def wrap(text: str, indent: str = "") -> str:
    """Break prose into lines."""
    return textwrap.fill(text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Format a table in Markdown."""
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def kind_of(test: dict[str, Any]) -> str:
    """Say what the cases of a test are."""
    if not test["shift"]:
        return "in distribution"
    return "named shapes with holes" if test["shift"] == "shapes" else f"shifted by `{test['shift']}`"


def seconds(times: Sequence[float]) -> str:
    """List times, as in 2, 8 and 14 s."""
    *others, last = (f"{time:g}" for time in times)
    return f"{', '.join(others)} and {last} s" if others else f"{last} s"


def over_times(test: dict[str, Any]) -> str:
    """Say which times the headline of a transient problem is the mean over; nothing of a steady one."""
    times = headline_times(test)
    return f"mean over {seconds(times)}" if times else ""


def training_sentence(metrics: dict[str, Any]) -> str:
    """Say how a model was trained and what that cost."""
    run, cost = metrics["run"], metrics["cost"]
    files = read_described_files(run)
    first = files[0]
    split = "four fifths of them for training, one fifth for validation"
    told = f"{first['num_cases']:,} cases (seed {first['seed']}, {split})"
    if len(files) > 1:
        each = (
            f"{file['num_cases']:,} of {file['resolution']} x {file['resolution']} (seed {file['seed']})"
            for file in files
        )
        told = f"cases of several resolutions, {', '.join(each)}, {split},"
    return (
        f"Trained on {told} with the recipe `{run['recipe']}`: {cost['epochs']} epochs, which took "
        f"{cost['seconds']:.0f} s in all ({cost['trained_on']}), at {cost['cases_per_second']:,.0f} cases per second "
        f"in the median epoch. {start_sentence(metrics)}{stop_sentence(metrics)}The weights are those after epoch "
        f"{metrics['epoch']}, which had the best validation `grid_mae`: {number(metrics['validation_loss'])}."
    )


def stop_sentence(metrics: dict[str, Any]) -> str:
    """Say that a run was stopped, where it was: its learning rate had not come to its end."""
    if not metrics.get("stopped"):
        return ""
    minutes = metrics["run"]["minutes"]
    asked = f"the {60 * minutes:.0f} s" if minutes else f"the {metrics['run']['train.epochs']} epochs"
    return f"It was stopped before the end of {asked} that its schedule was made for. "


def start_sentence(metrics: dict[str, Any]) -> str:
    """Say what a run began with, where that was not random weights."""
    if not metrics["run"].get("start"):
        return ""
    before = metrics.get("before")
    if before is None:
        return "It started from the weights of another run. "
    end = "that ended as planned" if before["finished"] else "that was interrupted"
    cases = "".join(f" on {file['num_cases']:,} others (seed {file['seed']})" for file in before["files"])
    return (
        f"The first {before['epochs']} of these epochs, {before['seconds']:.0f} s, are of a run{cases} with a learning "
        f"rate of {before['learning_rate']:g} {end}. The remaining epochs started from its weights with a new "
        f"optimizer and a new schedule, at a learning rate of {metrics['run']['train.learning_rate']:g}. "
    )
