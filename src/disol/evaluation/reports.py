"""Evaluations as files: numbers as JSON and CSV, and pictures."""

import csv
import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from disol import __version__
from disol.evaluation.pictures import draw_examples
from disol.evaluation.results import Evaluation, FileEvaluation
from disol.evaluation.spreads import draw_amplitudes, draw_errors, draw_errors_over_time
from disol.files import written_whole

FORMAT = "disol evaluation 1"
SUMMARY = "evaluation.json"


def write_evaluation(evaluation: Evaluation, out: str | Path) -> list[Path]:
    """Write everything into a folder and return the files, `evaluation.json` last: where it is, all of them are.

    An earlier evaluation in that folder is removed; other files are not touched.
    """
    folder = Path(out)
    remove_evaluation(folder)
    written = [write_cases(file, folder / f"{file.name}-cases.csv") for file in evaluation.files]
    for name, figure in draw_evaluation(evaluation):
        with written_whole(folder / name) as path:
            figure.savefig(path, dpi=150)
        written.append(folder / name)
    return [*written, write_summary(evaluation, folder / SUMMARY, written)]


def remove_evaluation(folder: Path) -> None:
    """Remove the files that an earlier evaluation lists, if they are still as it wrote them, and the list last."""
    try:
        earlier = json.loads((folder / SUMMARY).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return  # there is none, or it is no evaluation
    written = earlier.get("written") if isinstance(earlier, dict) and earlier.get("format") == FORMAT else None
    if not isinstance(written, dict):
        return
    try:
        for name, content in written.items():
            if (folder / name).is_file() and digest(folder / name) == content:
                (folder / name).unlink()
        (folder / SUMMARY).unlink()
    except OSError as error:
        raise ValueError(
            f"Cannot replace the evaluation in {folder}: {error.strerror or error}. Choose another --out."
        ) from error


def digest(path: Path) -> str:
    """Return what tells the content of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def draw_evaluation(evaluation: Evaluation) -> Iterator[tuple[str, Figure]]:
    """Give every picture of an evaluation with its file name."""
    for file in evaluation.files:
        for name, figure in draw_examples(file):
            yield f"{file.name}-{name}.png", figure
    yield "errors.png", draw_errors(evaluation)
    if any(len(file.times) > 1 for file in evaluation.files):
        yield "errors-over-time.png", draw_errors_over_time(evaluation)
    if evaluation.predicts == "log-amplitude":
        yield "amplitudes.png", draw_amplitudes(evaluation)


def write_summary(evaluation: Evaluation, path: Path, written: Sequence[Path] = ()) -> Path:
    """Write what was evaluated, the summaries and what else was written as JSON; numbers not finite become null."""
    found = finite(as_dict(evaluation)) | {"written": {file.name: digest(file) for file in written}}
    content = json.dumps(found, indent=2, ensure_ascii=False, allow_nan=False)
    with written_whole(path) as temporary:
        temporary.write_text(content + "\n", encoding="utf-8")
    return path


def write_cases(file: FileEvaluation, path: Path) -> Path:
    """Write one row for each case and time, with every digit."""
    with written_whole(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        time = ["time"] if file.settings.times else []
        writer.writerow(["index", "shift", "outline", *time, "coverage", *file.values])
        writer.writerows(rows_of(file))
    return path


def rows_of(file: FileEvaluation) -> Iterator[list[Any]]:
    """Give what is known about each case at each time."""
    for case in range(len(file)):
        for frame, time in enumerate(file.times):
            known = [int(file.index[case]), file.shift[case], int(file.outline[case])]
            measured = [float(values[frame, case]) for values in file.values.values()]
            yield [*known, *([] if time is None else [time]), float(file.coverage[case]), *measured]


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
    results = {"frames": frames} if file.settings.times else frames[0]
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


def finite(value: Any) -> Any:
    """Replace numbers that JSON has no name for by None."""
    if isinstance(value, dict):
        return {name: finite(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
