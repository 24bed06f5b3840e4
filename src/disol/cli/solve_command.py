"""`disol solve`: predict a solution on a geometry, solve the same case exactly, print and draw both."""

from pathlib import Path
from typing import Annotated, Any

import typer

from disol.cli.app import DeviceName, console, note, one_line, print_rows

DEFAULT_PROBLEM = "poisson"
GIVEN = "What is given"


def ranges(help_text: str) -> Any:
    """Describe an option that takes boundary ranges."""
    return typer.Option(help=help_text, metavar="RANGES", rich_help_panel=GIVEN)


HELP = """\
Solve a PDE on a geometry of your own, by a trained model and exactly.

Without options: a Poisson problem on an arrow with a hole, held at zero on fragments of its boundary, under a source \
of high frequency. Writes solution.png and solution.npz (heat: solution.gif too). What is not given is drawn with the \
geometry, or has a default where that comes from a file.

max |U| is that of the times asked for. The time of the prediction is that of the network alone, the time of the exact \
solution that of everything else: checking, discretising and solving.

Boundaries are named outer and hole1, hole2, ... from the top down. A range such as outer:0.1-0.3 goes from one \
fraction of a loop's length to another. Fraction 0 is the loop's highest pixel, the leftmost of those; the walk has \
the domain on its right: clockwise along outer, counter-clockwise around a hole.

x runs to the right and y downwards, both from 0 to 1. outline.json holds {"outer": \\[\\[x, y], ...], "holes": \
\\[\\[\\[x, y], ...]]} or a GeoJSON Polygon, whose y points up. In a picture dark pixels are the domain and white or \
transparent ones are not; red marks U = 0 (elasticity: red U_x = 0, blue U_y = 0, magenta both).
"""
EXAMPLES = """\
Examples:

disol solve --geometry star+hole --dirichlet outer:0-0.2,hole1 --source "sin(6*x)*y"

disol solve --geometry outline.json --source gaussian --out plate

disol solve --problem elasticity --geometry part.png --force-y outer:0.5-0.6=1

disol solve --problem heat --geometry random:3+all --time 2,8,20
"""


def solve(
    problem: Annotated[
        str | None,
        typer.Option(help="That of --model, or poisson; `disol problems` lists them.", rich_help_panel=GIVEN),
    ] = None,
    geometry: Annotated[
        str,
        typer.Option(
            help="NAME or NAME+hole (arrow, star, y, ...), random:SEED or random:SEED+all (or +topology, +boundary, "
            "+source), outline.json, or a picture.png.",
            rich_help_panel=GIVEN,
        ),
    ] = "arrow+hole",
    dirichlet: Annotated[list[str] | None, ranges("Where U = 0, as in outer:0.1-0.3,hole1.")] = None,
    fix_x: Annotated[list[str] | None, ranges("Elasticity: where U_x = 0.")] = None,
    fix_y: Annotated[list[str] | None, ranges("Elasticity: where U_y = 0.")] = None,
    force_x: Annotated[list[str] | None, ranges("Elasticity: forces to the right, as in outer:0.4-0.5=-1.")] = None,
    force_y: Annotated[list[str] | None, ranges("Elasticity: forces downwards.")] = None,
    source: Annotated[
        str | None,
        typer.Option(
            help="f: a formula in x and y, or zero, constant, ramp, wave, ripples, gaussian, spots.",
            metavar="FORMULA",
            rich_help_panel=GIVEN,
        ),
    ] = None,
    initial: Annotated[
        str | None, typer.Option(help="Heat: U at time 0, like --source.", metavar="FORMULA", rich_help_panel=GIVEN)
    ] = None,
    times: Annotated[
        list[str] | None,
        typer.Option("--time", help="Heat: seconds, as in 2,8,20.", metavar="SECONDS", rich_help_panel=GIVEN),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Draws what a named shape is not given.", rich_help_panel=GIVEN)
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="A run's folder or the name of a shipped model; the problem's own unless given."),
    ] = None,
    resolution: Annotated[
        int | None, typer.Option(help="Pixels along a side; as many as the model was trained on unless given.")
    ] = None,
    device: DeviceName = "auto",
    exact: Annotated[
        bool,
        typer.Option(
            "--exact/--no-exact",
            help="Show the exact solution and the error beside the prediction. Both are known in any case: the size of "
            "a prediction comes from them.",
        ),
    ] = True,
    out: Annotated[Path, typer.Option(help="The folder to write to.")] = Path("solution"),
    animation: Annotated[
        Path | None, typer.Option("--animate", help="Heat: the .gif to write; OUT/solution.gif unless given.")
    ] = None,
) -> None:
    """Predict the solution of one case, solve it exactly, and write both."""
    given = {
        "dirichlet": joined(dirichlet),
        "fix_x": joined(fix_x),
        "fix_y": joined(fix_y),
        "force_x": joined(force_x),
        "force_y": joined(force_y),
        "source": source,
        "initial": initial,
        "times": joined(times),
    }
    if animation is not None and animation.suffix.lower() != ".gif":
        raise ValueError(f"--animate must end in .gif, got {str(animation)!r}. Change the ending.")
    from disol.cli.solving import run_case, write_run  # torch and matplotlib, which --help does without

    name = model or problem or DEFAULT_PROBLEM
    run = run_case(name, problem, device, geometry, given, resolution, seed, exact)
    if run.movie is None and animation is not None:
        raise ValueError(f"--animate needs a problem with time, got {run.solution.problem}. Use --problem heat.")
    written = write_run(run, out, animation)
    print_rows(run.rows)
    console.print()
    console.print(run.table())
    console.print()
    for message in run.notes:
        note(message)
    console.print(one_line(f"written {', '.join(map(str, written))}"), soft_wrap=True)


def joined(pieces: list[str] | None) -> str | None:
    """Return an option that was given several times as if it were given once."""
    return None if pieces is None else ",".join(pieces)
