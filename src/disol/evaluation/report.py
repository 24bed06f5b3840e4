"""Evaluations as tables for people, and as files: numbers as JSON and CSV, and pictures."""

import csv
import hashlib
import json
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Column, Table

from disol import __version__
from disol._files import read_regular, written_whole
from disol.errors import DisolError
from disol.evaluation.results import Evaluation, FileEvaluation
from disol.models.card import read_json

FORMAT = "disol evaluation 1"
SUMMARY = "evaluation.json"
STATISTICS = ("mean", "median", "p95")
LABEL = max(map(len, STATISTICS))
NARROWEST = 4  # characters of a file's name in a line
TEXT_WIDTH = 120
MOST_BYTES = 2**24  # of an `evaluation.json`
# Of the other files that an evaluation writes.
ENDINGS = (
    *("-cases.csv", "-examples.png", "-best.png", "-median.png", "-worst.png"),
    *("errors.png", "errors-over-time.png", "amplitudes.png"),
)


def evaluation_table(evaluation: Evaluation) -> Table:
    """Return mean, median and 95th percentile over the cases of each file, and at each time."""
    metrics = _choose_metrics(evaluation)
    transient = any(file.times != (None,) for file in evaluation.files)
    amplitudes = evaluation.predicts == "log-amplitude"
    headings = ["cases", "coverage", *(["time"] if transient else [])]
    numbers = [Column(name, justify="right", no_wrap=True) for name in headings]
    errors = [Column(name, justify="right", no_wrap=True) for name in metrics]
    # A column that may shrink needs a least width, or the numbers, which may not, would leave it none.
    names, labels = Column("file", overflow="fold", min_width=NARROWEST), Column("", no_wrap=True, min_width=LABEL)
    table = Table(names, *numbers, labels, *errors, box=None, pad_edge=False)
    if amplitudes:
        table.add_column("correlation", justify="right", no_wrap=True)
    for file in evaluation.files:
        for frame, time in enumerate(file.times):
            whole_file = [file.name, str(len(file)), f"{file.coverage.mean():.3f}"] if frame == 0 else ["", "", ""]
            shown_time = [f"{time:g} s"] if transient else []
            for position, statistic in enumerate(STATISTICS):
                known = [*whole_file, *shown_time] if position == 0 else [""] * (len(headings) + 1)
                found = [f"{getattr(file.summaries[frame][name], statistic):.2e}" for name in metrics]
                correlation = [f"{file.correlations[frame]:.4f}"] if amplitudes and position == 0 else []
                table.add_row(*known, statistic, *found, *correlation)
    return table


def as_text(table: Table) -> str:
    """Write a table without colours."""
    console = Console(file=StringIO(), width=TEXT_WIDTH, force_terminal=False, force_jupyter=False)
    with console.capture() as captured:
        console.print(table)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def _choose_metrics(evaluation: Evaluation) -> list[str]:
    """Choose the errors that a table has room for in 80 columns."""
    if evaluation.predicts == "log-amplitude":
        return ["squared_log_error", "rel_amplitude_error"]
    fields = evaluation.files[0].settings.fields
    if len(fields) > 1:
        return ["rel_l2", *(f"rel_l2_{field}" for field in fields), "grid_mae"]
    return ["rel_l2", "grid_mae", "mae", "max_error"]


def write_evaluation(evaluation: Evaluation, out: str | Path) -> list[Path]:
    """Write everything into a folder and return the files, `evaluation.json` last: if it is there, all of them are.

    An earlier evaluation in that folder is removed; other files are not touched.
    """
    folder = Path(out)
    _remove_evaluation(folder)
    written = [write_cases(file, folder / f"{file.name}-cases.csv") for file in evaluation.files]
    for name, figure in import_module("disol.evaluation.pictures").draw_evaluation(evaluation):
        with written_whole(folder / name) as path:
            figure.savefig(path, dpi=150)
        written.append(folder / name)
    return [*written, write_summary(evaluation, folder / SUMMARY, written)]


def write_summary(evaluation: Evaluation, path: Path, written: Sequence[Path] = ()) -> Path:
    """Write what was evaluated, summaries and the other files written as JSON; numbers not finite become null."""
    found = _finite(as_dict(evaluation)) | {"written": {file.name: _digest(file) for file in written}}
    content = json.dumps(found, indent=2, ensure_ascii=False, allow_nan=False)
    with written_whole(path) as temporary:
        temporary.write_text(content + "\n", encoding="utf-8")
    return path


def write_cases(file: FileEvaluation, path: Path) -> Path:
    """Write one row for each case and time, with every digit."""
    with written_whole(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        time = ["time"] if file.times != (None,) else []
        writer.writerow(["index", "shift", "outline", *time, "coverage", *file.values])
        writer.writerows(_list_rows(file))
    return path


def as_dict(evaluation: Evaluation) -> dict[str, Any]:
    """Return an evaluation as plain containers."""
    return {
        "format": FORMAT,
        "package_version": __version__,
        "model": evaluation.model,
        "predicts": evaluation.predicts,
        "device": evaluation.device,
        "notes": list(evaluation.notes),
        "files": [
            {"split": split, **file_as_dict(file)}
            for file, split in zip(evaluation.files, evaluation.splits, strict=True)
        ],
    }


def file_as_dict(file: FileEvaluation) -> dict[str, Any]:
    """Return the summaries of one file, by time where it has frames."""
    frames = []
    for frame, (time, summaries) in enumerate(zip(file.times, file.summaries, strict=True)):
        found: dict[str, Any] = {} if time is None else {"time": time}
        found["metrics"] = {name: asdict(summary) for name, summary in summaries.items()}
        if file.correlations:
            found["correlation"] = file.correlations[frame]
        frames.append(found)
    results = frames[0] if file.times == (None,) else {"frames": frames}
    shown = {example.rank: example.index for example in file.examples}
    return {
        "name": file.name,
        "path": str(file.path),
        "cases": len(file),
        "coverage": float(file.coverage.mean()),
        **results,
        "examples": shown,
        "settings": asdict(file.settings),
    }


def _list_rows(file: FileEvaluation) -> Iterator[list[Any]]:
    """Yield what is known about each case at each time."""
    for case in range(len(file)):
        for frame, time in enumerate(file.times):
            known = [int(file.index[case]), file.shift[case], int(file.outline[case])]
            measured = [float(values[frame, case]) for values in file.values.values()]
            yield [*known, *([] if time is None else [time]), float(file.coverage[case]), *measured]


def _remove_evaluation(folder: Path) -> None:
    """Remove the files that an earlier evaluation lists, if they are still as it wrote them, and the list last.

    The list may come from a stranger: only files in this folder, with names that evaluations give, are removed.
    """
    if not os.path.isfile(folder / SUMMARY):
        return
    try:
        earlier = read_json(read_regular(folder / SUMMARY, MOST_BYTES), folder / SUMMARY)
    except DisolError:
        return  # it is no evaluation
    written = earlier.get("written") if isinstance(earlier, dict) and earlier.get("format") == FORMAT else None
    if not isinstance(written, dict):
        return
    try:
        for file in folder.iterdir():
            is_ours = file.name.endswith(ENDINGS) and file.name in written and not file.is_symlink() and file.is_file()
            if is_ours and _digest(file) == written[file.name]:
                file.unlink()
        (folder / SUMMARY).unlink()
    except OSError as error:
        raise DisolError(
            f"Cannot replace the evaluation in {folder}: {error.strerror or error}. Choose another folder."
        ) from error


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _finite(value: Any) -> Any:
    """Replace NaN and infinite values, which JSON cannot hold, by None."""
    if isinstance(value, dict):
        return {name: _finite(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
