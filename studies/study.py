"""What all studies share: their options, rows that are measured once, and pages with tables, pictures and numbers."""

import argparse
import json
import textwrap
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

import disol
from disol._files import written_whole
from disol.viz.errors import QUIET, relative_error
from disol.viz.panels import save_figure

CONVENTIONS = "paper"  # named, so that the numbers of a study stay what they are when a default changes
WIDTH = 120  # of a page
SEED = 1903  # of the cases of all studies; no shipped model was trained on it

Row = dict[str, Any]


def read_options(about: str, cases: int, models: Sequence[str]) -> argparse.ArgumentParser:
    """Return the options that every study has."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=cases, help="of each kind")
    parser.add_argument("--minutes", type=float, help="stop measuring after this time; the next call goes on")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--models", nargs="+", default=list(models), help="shipped names, or folders of runs")
    parser.add_argument("--resolution", type=int, help="pixels along a side, the problem's own unless given")
    parser.add_argument("--out", type=Path, help="a folder for what was measured, which is continued")
    parser.add_argument("--write", type=Path, help="where to write the page; pictures and numbers go beside it")
    return parser


def measure_rows(
    wanted: Iterable[Row], measure: Callable[[Row], Row], folder: Path | None, minutes: float | None = None
) -> list[Row]:
    """Measure what a folder does not hold yet, in the order wanted, and return all of it that is wanted."""
    path = None if folder is None else folder / "rows.jsonl"
    known: dict[str, Row] = {}
    if path is not None and path.exists():
        known = {_key(stored["of"]): stored["found"] for stored in map(json.loads, path.read_text().splitlines())}
    rows, started = [], time.monotonic()
    for identity in wanted:
        key = _key(identity)
        if key not in known:
            if minutes is not None and time.monotonic() - started > 60 * minutes:
                continue
            known[key] = measure(identity)
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("a") as lines:
                    lines.write(json.dumps({"of": identity, "found": known[key]}) + "\n")
        rows.append({**identity, **known[key]})
    return rows


def _key(identity: Row) -> str:
    return json.dumps(identity, sort_keys=True)


def pattern_error(
    prediction: Float[np.ndarray, "*shape height width"],
    reference: Float[np.ndarray, "*shape height width"],
    domain: np.ndarray,
) -> float:
    """‖û − u‖₂ / ‖u‖₂ over the domain."""
    return relative_error(prediction[..., domain].astype(float), reference[..., domain].astype(float))


def short_name(model: str) -> str:
    """Return the name of a model, or that of the folder of a run."""
    return Path(model).name


def load_models(names: Sequence[str], device: str) -> dict[str, "disol.Surrogate"]:
    """Load models by the names they are shown by."""
    loaded = {short_name(name): disol.load(name, device=device) for name in names}
    if len(loaded) < len(names):
        raise disol.DisolError(f"Models are told apart by their names, got {', '.join(names)}. Rename a folder.")
    for name, surrogate in loaded.items():
        if surrogate.conventions.name != CONVENTIONS:
            raise disol.DisolError(
                f"Studies are of the conventions {CONVENTIONS!r}, but {name} was trained on "
                f"{surrogate.conventions.name!r}. Leave it out."
            )
    return loaded


def group_by_problem(models: dict[str, "disol.Surrogate"]) -> dict[str, list[str]]:
    """Return the names of the models of each problem."""
    groups: dict[str, list[str]] = {}
    for name, surrogate in models.items():
        groups.setdefault(surrogate.problem.name, []).append(name)
    return groups


def label_decades(axes: Axes) -> None:
    """Give a picture a logarithmic scale of errors, with numbers that can be read."""
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    between = (1.0, 2.0, 5.0) if high < 300 * low else (1.0,)
    axes.yaxis.set_major_locator(LogLocator(subs=between))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.grid(color=QUIET, alpha=0.25, linewidth=0.5)


def scientific(value: float) -> str:
    """Write an error as tables of this project do: 5.2e-3."""
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Format a table in Markdown."""
    return "\n".join("| " + " | ".join(line) + " |" for line in [heading, ["---"] * len(heading), *rows])


def _wrap(paragraph: str) -> str:
    """Break prose and lists into lines."""
    if paragraph.startswith(("#", "|", "!", "```")):
        return paragraph
    return "\n".join(
        textwrap.fill(
            line, WIDTH, subsequent_indent="  " if line.startswith("- ") else "",
            break_long_words=False, break_on_hyphens=False,
        )
        for line in paragraph.split("\n")
    )  # fmt: skip


def publish(paragraphs: Sequence[str], figures: dict[str, Figure], numbers: Any, path: Path | None, name: str) -> None:
    """Print a page; if asked to, write it with its pictures and the numbers it was made from.

    A paragraph that is the name of a picture becomes this picture.
    """
    page = "\n\n".join(
        f"![{paragraph}](images/{name}-{paragraph}.png)" if paragraph in figures else _wrap(paragraph)
        for paragraph in paragraphs
    )
    print(page)
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    (path.parent / "images").mkdir(exist_ok=True)
    for title, figure in figures.items():
        save_figure(figure, path.parent / "images" / f"{name}-{title}.png")
    numbers_path = path.with_suffix(".json")
    with written_whole(numbers_path) as temporary:
        temporary.write_text(json.dumps(numbers, indent=1) + "\n")
    with written_whole(path) as temporary:
        link = f"[{numbers_path.name}]({numbers_path.name})"
        temporary.write_text(f"{page}\n\nThe numbers behind this page are in {link}.\n")
