"""`disol rank`: solve many geometries exactly, and sort them."""

import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from disol._devices import check_device
from disol.cli.app import DeviceName, print_table, tell
from disol.cli.files import require_writable
from disol.cli.given import GIVEN, join_texts, taking_what_is_given_to
from disol.cli.models import from_here
from disol.cli.solve import DEFAULT_PROBLEM, silenced_decoders, solve
from disol.errors import DisolError
from disol.problems.table import check_problem

if TYPE_CHECKING:
    from disol.cases import Case

FILES = ("ranking.csv", "ranking.png")
OUTLINES = (".json", ".geojson")
MOST_ROWS = 40  # of the table that is printed; the file has all
HELP = """\
Solve many geometries exactly, and rank them by one number of each.

Supports, loads and sources are given once, for all of them. Prints the ranking and writes ranking.csv and \
ranking.png (the best and the worst) into --out. A geometry that cannot be read or solved is reported in one line \
and in ranking.csv; the others are ranked.
"""
EXAMPLES = """\
Examples:

disol rank parts/ --problem elasticity --by max_displacement --fix-x outer:0.6-0.9 --fix-y outer:0.6-0.9 \
--force-y outer:0.2-0.3=1

disol rank star+hole arrow random:3 --source 1 --dirichlet outer --by max --descending
"""


@taking_what_is_given_to(solve, but=["geometry"])
def rank(
    geometries: Annotated[
        list[str],
        typer.Argument(
            help="NAME or NAME+hole, random:SEED, outline.json, picture.png, or a folder with outlines.",
            metavar="GEOMETRY",
        ),
    ],
    problem: Annotated[str, typer.Option(help="`disol problems` lists them.", rich_help_panel=GIVEN)] = DEFAULT_PROBLEM,
    by: Annotated[
        str,
        typer.Option(
            help="max (largest |U|), max_temperature, max_displacement, von_mises, compliance, energy, or flux:PART as "
            "in flux:left."
        ),
    ] = "max",
    descending: Annotated[bool, typer.Option("--descending", help="The largest value is the best.")] = False,
    conventions: Annotated[
        str, typer.Option(help="physical (on the true boundary), paper or published (on pixels).")
    ] = "physical",
    resolution: Annotated[int | None, typer.Option(help="Pixels along a side; the problem's own unless given.")] = None,
    workers: Annotated[
        int | None, typer.Option(help="Number of processes; default: one per core, fewer for few geometries.")
    ] = None,
    device: DeviceName = "auto",
    out: Annotated[Path, typer.Option(help="The folder to write to.")] = Path("ranking"),
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the ranking in --out.")] = False,
    *,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the terms drawn for a named shape; default: 1.", rich_help_panel=GIVEN)
    ] = None,
    **given: Any,
) -> None:
    """Solve many geometries exactly, rank them, and write the ranking."""
    require_writable(out)
    if not overwrite and any((out / name).exists() for name in FILES):
        raise DisolError(f"{out} holds a ranking already. Choose another --out, or give --overwrite.")
    check_device(device)
    check_problem(from_here(problem))
    names = list(dict.fromkeys(name for geometry in geometries for name in list_geometries(geometry)))
    from disol.problems.table import find_conventions, find_problem
    from disol.ranking import rank as rank_cases

    find_conventions(conventions, find_problem(problem))
    known = {"conventions": conventions, "resolution": resolution, "seed": seed, **join_texts(given)}
    variants = {name: partial(read_quietly, problem, name, known) for name in names}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        ranking = rank_cases(variants, by, ascending=not descending, workers=workers, device=device)
    for row in ranking.failed:
        tell(f"{row.name}: {row.error}", "error")
    if len(ranking.failed) == len(ranking):
        raise DisolError("No geometry could be ranked.")
    print_table(replace(ranking, rows=ranking.ranked).table(MOST_ROWS))
    from disol.ranking.report import plot_ranking
    from disol.viz import save_figure

    table, picture = (out / name for name in FILES)
    ranking.save(table)
    save_figure(plot_ranking(ranking, managed=False), picture)
    for warning in caught:
        tell(warning.message, "note")
    tell(f"written {table}, {picture}")


def list_geometries(geometry: str) -> list[str]:
    """Return the outlines in a folder, or the geometry itself."""
    folder = Path(geometry)
    if not folder.is_dir():
        return [geometry]
    found = sorted(str(path) for path in folder.iterdir() if path.suffix.lower() in OUTLINES)
    if not found:
        raise DisolError(f"{geometry} holds no outlines, files that end in {' or '.join(OUTLINES)}.")
    return found


def read_quietly(problem: str, geometry: str, known: dict[str, Any]) -> "Case":
    """Read one geometry with what is given for all of them."""
    from disol.cases import read_case

    with silenced_decoders():
        return read_case(problem, geometry, **known)
