"""`disol solve`: predict a solution on a geometry, solve the same case exactly, print and draw both."""

import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from disol._devices import check_device
from disol.cli.app import DeviceName, as_options, find_options, print_rows, print_table, tell
from disol.cli.files import check_files, check_targets, choose_folder, taken
from disol.cli.given import GIVEN, join_texts
from disol.cli.models import find_run, from_here, is_own_network
from disol.cli.report import (
    TRUE_FILES,
    OnTrueBoundary,
    Outcome,
    draw_preview,
    extremes,
    results,
    solve_true,
    totals,
    write,
    write_alone,
    write_true,
)
from disol.errors import DisolError
from disol.problems.table import check_problem

if TYPE_CHECKING:
    from disol.cases import Case
    from disol.problems import Problem
    from disol.surrogate import Surrogate

DEFAULT_PROBLEM = "poisson"
# Options that are texts of what a case is given.
TEXTS = (
    *("dirichlet", "fix_x", "fix_y", "force_x", "force_y", "flux", "convection", "source", "initial", "times"),
    *("conductivity", "velocity", "reaction", "density", "capacity", "young", "poisson_ratio", "body_force"),
    *("plane", "size", "time_step", "coordinates"),
)


def _parts(help_text: str) -> Any:
    """Describe an option that takes parts of the boundary."""
    return typer.Option(help=help_text, metavar="PARTS", rich_help_panel=GIVEN)


def _number(help_text: str, *names: str) -> Any:
    """Describe an option that takes a number of the equation, or a formula."""
    return typer.Option(*names, help=help_text, metavar="NUMBER", rich_help_panel=GIVEN)


HELP = """\
Solve a PDE on a geometry of your own, by a trained model and exactly.

Without options, it solves a Poisson problem on an arrow with a hole, held at zero on fragments of its boundary, with \
a source of high frequency. It writes solution.png and solution.npz (heat: also solution.gif) into a new folder. What \
is not given is drawn together with the geometry, or has a default if the geometry comes from a file; where values, \
fluxes or convection on the boundary are given, there are no default loads and supports.

max |U| is taken over the times asked for. Run times are those of a first call of the network and of the exact solver.

Boundary loops are named outer and hole1, hole2, ... from the top down. A range such as outer:0.1-0.3 goes from one \
fraction of a loop's length to another. Fraction 0 is the loop's highest pixel, the leftmost if there are several; \
fractions grow with the domain on the right: clockwise along outer, counter-clockwise around a hole. left, right, top, \
bottom and near:X,Y are parts, too; --preview draws them.

Values and fluxes on parts, materials and sizes are solved on the true boundary only, in your units: networks know \
only supports at zero. An outline that does not fit into the unit square keeps its own coordinates, as does any with \
--coordinates drawing; x, y, lengths and results are then in its units. For others, --size is the height of the grid.

x runs to the right and y downwards, from 0 to 1 unless the outline or --size say otherwise; fields with a name, such \
as gaussian, keep their shape on the grid. outline.json holds \
{"outer": \\[\\[x, y], ...], "holes": \\[\\[\\[x, y], ...]]} or a GeoJSON Polygon, whose y points up. In a picture \
dark pixels are the domain and white or transparent ones are not; red marks U = 0 (elasticity: red U_x = 0, blue \
U_y = 0, magenta both).
"""
EXAMPLES = """\
Examples:

disol solve --geometry star+hole --dirichlet outer:0-0.2,hole1 --source "sin(6*x)*y"

disol solve --geometry outline.json --source gaussian --out plate

disol solve --problem elasticity --geometry part.png --force-y outer:0.5-0.6=1

disol solve --problem heat --geometry random:3+all --time 2,8,20

disol solve --geometry wall.json --dirichlet left=20 --convection right=8:5 --conductivity 0.8 --source 0

disol solve --problem elasticity --geometry bracket.json --fix-x hole1 --fix-y hole1 --force-y right=2 --young 210e3 \
--plane stress --save bracket.vtu
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
            "+source), outline.json, or picture.png.",
            rich_help_panel=GIVEN,
        ),
    ] = "arrow+hole",
    dirichlet: Annotated[
        list[str] | None, _parts("Where U is held at 0, as in outer:0.1-0.3,hole1, or at a value, as in left=20.")
    ] = None,
    fix_x: Annotated[list[str] | None, _parts("Elasticity: where U_x is held.")] = None,
    fix_y: Annotated[list[str] | None, _parts("Elasticity: where U_y is held.")] = None,
    force_x: Annotated[
        list[str] | None, _parts("Elasticity: forces per length to the right, as in outer:0.4-0.5=-1.")
    ] = None,
    force_y: Annotated[list[str] | None, _parts("Elasticity: forces per length downwards.")] = None,
    flux: Annotated[list[str] | None, _parts("Flux into the domain, per length, as in right=5.")] = None,
    convection: Annotated[
        list[str] | None, _parts("h:U_out of the flux h (U_out - U) into the domain, as in top=10:20.")
    ] = None,
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
    conductivity: Annotated[str | None, _number("Conductivity, or diffusion coefficient.")] = None,
    velocity: Annotated[str | None, _number("Velocity of the flow, as in 0.5,-1 or y,-x.")] = None,
    reaction: Annotated[str | None, _number("r of the term r U.")] = None,
    density: Annotated[str | None, _number("Heat: density.")] = None,
    capacity: Annotated[str | None, _number("Heat: capacity per mass.")] = None,
    young: Annotated[str | None, _number("Elasticity: Young's modulus.")] = None,
    poisson_ratio: Annotated[str | None, _number("Elasticity: Poisson's ratio.", "--poisson")] = None,
    body_force: Annotated[str | None, _number("Elasticity: force per area, as in 0,9.81 or 0,9.81*x.")] = None,
    time_step: Annotated[str | None, _number("Heat: seconds between two steps; 2 unless given.")] = None,
    plane: Annotated[
        str | None, typer.Option(help="Elasticity: plane strain (default) or stress.", rich_help_panel=GIVEN)
    ] = None,
    size: Annotated[
        str | None, _number("Height of the grid in your unit of length, unless an outline keeps its own coordinates.")
    ] = None,
    coordinates: Annotated[
        str | None,
        typer.Option(
            help="Coordinates of an outline: drawing (its own, in any unit, fitted to the grid) or grid (of the unit "
            "square). Default: grid if the outline fits into that.",
            metavar="WHOSE",
            rich_help_panel=GIVEN,
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the terms drawn for a named shape; default: 1.", rich_help_panel=GIVEN)
    ] = None,
    models: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            help="The folder of a run or the name of a shipped model (`disol models`); default: the problem's own. "
            "If a run holds a network of your own, give package.module:Name as a second --model.",
        ),
    ] = None,
    resolution: Annotated[
        int | None, typer.Option(help="Pixels along a side; as many as the model was trained on unless given.")
    ] = None,
    device: DeviceName = "auto",
    exact: Annotated[
        bool,
        typer.Option(
            "--exact/--no-exact",
            help="Solve exactly as well, and show the solution and the error beside the prediction. Displacements "
            "need it: their size comes from it.",
        ),
    ] = True,
    distance: Annotated[
        bool,
        typer.Option(
            "--distance/--no-distance",
            help="Estimate how far the solution on the true boundary is from that of the PDE, by a twice finer grid.",
        ),
    ] = True,
    out: Annotated[
        Path | None, typer.Option(help="The folder to write to; a new one, solution or solution-2, ..., unless given.")
    ] = None,
    save: Annotated[
        list[Path] | None,
        typer.Option(help="A further file to write: .vtu for ParaView (heat: .pvd), .npz or .png.", metavar="FILE"),
    ] = None,
    preview: Annotated[
        bool, typer.Option("--preview", help="Only draw the outline, its names and fractions: OUT/preview.png.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the solution in --out, and the files of --animate and --save.")
    ] = False,
    animation: Annotated[
        Path | None, typer.Option("--animate", help="Heat: the .gif to write; OUT/solution.gif unless given.")
    ] = None,
) -> None:
    """Predict the solution of one case, solve it exactly, and write both."""
    options = locals()
    texts = join_texts({name: options[name] for name in TEXTS})
    check_files(animation, save or [], overwrite)
    folder = choose_folder(out, overwrite)

    # Everything given is read before torch is imported, names even before NumPy, so that errors are reported at once.
    check_device(device)
    if problem is not None:
        check_problem(from_here(problem))  # or a misspelt problem would be looked for among the models
    own = [model for model in models or () if is_own_network(model)]
    trained = [model for model in models or (problem or DEFAULT_PROBLEM,) if model not in own]
    if not trained:
        raise DisolError(f"{own[-1]} is a network without weights. Give the folder of its run as another --model.")
    name, network = trained[-1], own[-1] if own else None
    run, card = find_run(name, network)
    equation = card.find_problem(name, problem)
    known = {"resolution": card.resolution if resolution is None else resolution, "seed": seed, **texts}
    with silenced_decoders():
        cases = read_cases(equation, card.conventions, geometry, known)
    if animation is not None and cases.shown.times is None:
        raise DisolError(f"--animate needs a problem with time, got {cases.shown.problem}. Use --problem heat.")
    check_targets(save or [], cases.shown, folder)
    if preview:
        tell(f"written {draw_preview(cases.true or cases.shown, folder)}")
        return
    if cases.pixels is None and not exact:
        raise DisolError(f"{cases.notes[-1]} Leave out --no-exact.")
    with taken(folder, is_new=out is None) as folder, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        if cases.pixels is None:
            outcome = solve_alone(cases, folder, animation, distance)
        else:

            def find() -> "Surrogate":
                from disol.surrogate import load

                return load(run, problem, device=device, model=from_here(network))

            outcome = solve_by_network(find, cases, folder, animation, distance if exact else None)
        best = outcome.true.solution or outcome.found
        assert best is not None
        written = [*outcome.written, *(best.save(path) for path in save or ())]
    print_outcome(cases, name, outcome, [str(warning.message) for warning in caught])
    tell(f"written {', '.join(map(str, written))}")


@dataclass(frozen=True)
class Cases:
    """The same case on pixels, as a network knows it, and on its true boundary, and why there is only one of them."""

    pixels: "Case | None"
    true: "Case | None"
    notes: tuple[str, ...] = ()

    @property
    def shown(self) -> "Case":
        """The one to be described."""
        case = self.true if self.pixels is None else self.pixels
        assert case is not None
        return case


def read_cases(problem: "Problem", conventions: str, geometry: str, known: Mapping[str, Any]) -> Cases:
    """Read a case on pixels, and on its true boundary.

    What pixels can show is read on pixels, so that networks see what they were trained on. Values and fluxes on parts,
    materials and sizes are stated on the true boundary; where a network can predict such a case all the same, as with
    another Young's modulus or length, it gets the pixels of that case.
    """
    from disol.cases import read_case
    from disol.cases.conditions import SharedPieceError
    from disol.cases.reading import note_holes, shows_on_pixels

    is_plain = shows_on_pixels(problem, known)
    pixels = read_case(problem, geometry, conventions=conventions, **known) if is_plain else None
    if not problem.has_form and pixels is not None:
        return Cases(pixels, None)
    try:
        true = read_case(problem, geometry, conventions="physical", **known)
    except DisolError as error:
        if pixels is None or isinstance(error, SharedPieceError):
            raise
        return Cases(pixels, None, (f"not solved on its true boundary: {error}",))
    if pixels is not None and true.frame.is_grid:
        return Cases(pixels, true)
    try:
        scaled = true.on_pixels(conventions)
        if not scaled.problem.is_multiple_of(problem):
            raise DisolError("Networks know only the numbers they were trained with.")
        unseen = () if true.geometry is None else note_holes(geometry, true.geometry, true.grid)
        return Cases(replace(scaled, origin=true.origin, notes=(*true.notes, *unseen)), true)
    except DisolError as error:
        reason = str(error).removesuffix(" Use disol.solve_exact.")  # which is what the command does
        return Cases(None, true, (f"not predicted: {reason}",))


def solve_alone(cases: Cases, folder: Path, animation: Path | None, distance: bool) -> Outcome:
    """Solve a case that no network knows, on its true boundary."""
    assert cases.true is not None
    true = solve_true(cases.true, None, distance)
    assert true.solution is not None
    return Outcome(None, 0.0, true, write_alone(true.solution, folder, animation))


def solve_by_network(
    find: "Callable[[], Surrogate]", cases: Cases, folder: Path, animation: Path | None, distance: bool | None
) -> Outcome:
    """Predict a case and, unless `distance` is None, solve it on pixels and on its true boundary."""
    from disol.surrogate import Verification
    from disol.surrogate.prediction import is_sized_by_its_system

    case = cases.pixels
    assert case is not None
    if distance is None and not is_sized_by_its_system(case.problem):
        raise DisolError(
            f"The size of {case.problem} is known accurately from its solution only: leave out --no-exact."
        )
    surrogate = find()
    started = perf_counter()
    found = surrogate.predict(case) if distance is None else surrogate.verify(case)
    seconds, true = perf_counter() - started, OnTrueBoundary()
    if cases.true is not None and isinstance(found, Verification):
        true = solve_true(cases.true, found, bool(distance))
    written = [*write(surrogate, found, folder, animation), *write_true(true.solution, folder, TRUE_FILES)]
    return Outcome(found, seconds, true, written, f"trained on {surrogate.checkpoint.card.grids}")


def print_outcome(cases: Cases, model: str, outcome: Outcome, warned: list[str]) -> None:
    """Print what was given, what was found, and notes on both."""
    from disol.viz.solutions import MOST_TIMES

    case, true = cases.shown, outcome.true
    rows = [("problem", f"{case.problem}: {(cases.true or case).equation}")]
    if outcome.trained is not None:
        rows.append(("model", f"{model}, {outcome.trained}, {case.conventions} conventions"))
    print_rows([*rows, *case.origin.items()])
    typer.echo()
    print_table(results(outcome.found, outcome.seconds, true))
    typer.echo(true.told)
    if true.solution is not None:
        print_rows(extremes(true.solution))
        typer.echo()
        print_table(totals(true.solution))
        typer.echo()
    notes = [*case.notes, *cases.notes, *warned, *true.notes]
    if case.times is not None and len(case.times) > MOST_TIMES:
        notes.append(
            f"solution.png shows {MOST_TIMES} of the {len(case.times)} times, the other files show all of them"
        )
    for message in dict.fromkeys(notes):
        tell(as_options(message, find_options(["solve"])), "note")


@contextmanager
def silenced_decoders() -> Iterator[None]:
    """Keep libtiff, which reports errors in a picture by itself, from standard error: one line is enough."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
