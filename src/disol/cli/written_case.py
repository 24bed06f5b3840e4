"""From the options of `disol solve` to the terms of a case: a geometry, its markers and its fields."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool

from disol.expressions import NAMED_FIELDS, read_expression
from disol.geometry.curve import largest_part, parts
from disol.geometry.loops import NamedLoops, name_loops, read_ranges
from disol.grid import Grid
from disol.problems import Problem, draw
from disol.problems.case import SMALLEST_RESOLUTION
from disol.problems.heat import TRAINED_UNTIL, HeatProblem

LARGEST_RESOLUTION = 1024
SEED = 1  # of what is drawn for a named shape; on the arrow a model errs about as much as on most seeds
LATEST = 1000.0  # seconds; every step of 2 s is predicted
NEAR_EDGE = 3  # rows of pixels
ALONG_EDGE = 0.66  # of a side; 99 of 100 training cases are that near along less of it
DEFAULT_TIMES = (2.0, 8.0, 20.0)  # as far as models are trained
OUTLINE_ENDINGS = (".json", ".geojson")
PICTURE_ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")

MARKED, FORCED, FIELDS = ("dirichlet", "fix_x", "fix_y"), ("force_x", "force_y"), ("source", "initial")
# Terms that are given together: whoever gives one of a group gives the group.
GROUPS = (MARKED, FORCED, *((name,) for name in FIELDS))
# What a geometry from a file gets where nothing is said.
DEFAULTS = {
    **dict.fromkeys(MARKED, "outer:0-0.25"),
    "force_x": "outer:0.4-0.55=1",
    "force_y": "outer:0.5-0.65=1",
    "source": "wave",
    "initial": "gaussian",
}


@dataclass(frozen=True, eq=False)
class Ground:
    """A geometry on a grid, and the terms that came with it, because they were drawn or painted.

    unpainted   the colours of supports, of a picture that has none of them
    """

    terms: dict[str, Any]
    origin: str = ""
    notes: tuple[str, ...] = ()
    unpainted: str = ""


@dataclass(frozen=True, eq=False)
class WrittenCase:
    """The terms of a case, where each comes from, and what its author should know."""

    terms: dict[str, Any]
    rows: list[tuple[str, str]]
    notes: list[str] = field(default_factory=list)


def read_case(
    problem: Problem,
    conventions: str,
    geometry: str,
    given: Mapping[str, str | None],
    *,
    side: int,
    seed: int | None = None,
) -> WrittenCase:
    """Build the terms of a case from text; what is not given is drawn with the geometry or has a default."""
    wanted = {name: text for name, text in given.items() if text is not None}
    for name in wanted:
        if name not in problem.terms:
            known = ", ".join(map(option, problem.terms[1:]))
            raise ValueError(f"{problem.name} has no {option(name)}. It takes {known}.")
    if not SMALLEST_RESOLUTION <= side <= LARGEST_RESOLUTION:
        raise ValueError(
            f"--resolution must lie in [{SMALLEST_RESOLUTION}, {LARGEST_RESOLUTION}], got {side}. "
            f"{problem.name} is posed on {problem.resolution}."
        )
    ground = find_ground(problem, conventions, geometry, side, seed)
    domain = ground.terms["domain"]
    loops = name_loops(domain)
    names = ", ".join(f"{name} ({len(loop)} pixels)" for name, loop in loops.loops.items())
    rows = [("geometry", f"{geometry}, {domain.mean():.0%} of {side} x {side} pixels; loops {names}")]
    terms, notes = {"domain": domain}, list(ground.notes)
    if ground.unpainted and not wanted.keys() & set(MARKED):
        notes.append(f"no {ground.unpainted} pixels found in {geometry}: U = 0 on {DEFAULTS['dirichlet']} instead")
    for group in GROUPS:
        members = [name for name in group if name in problem.terms]
        asked = any(name in wanted for name in members)
        for name in members:
            terms[name], origin = build_term(name, wanted.get(name), asked, ground, loops)
            rows.append((name, origin))
    if "times" in problem.terms:
        terms["times"] = read_times(wanted["times"], problem) if "times" in wanted else DEFAULT_TIMES
        rows.append(("times", ", ".join(f"{time:g}" for time in terms["times"]) + " s"))
        if terms["times"][-1] > TRAINED_UNTIL:
            notes.append(f"models are trained up to {TRAINED_UNTIL:g} s: expect larger errors after that")
    return WrittenCase(terms, rows, notes)


def build_term(name: str, text: str | None, group_asked: bool, ground: Ground, loops: NamedLoops) -> tuple[Any, str]:
    """Return a term and where it comes from: as written, as drawn or painted, or the default."""
    if text is None and not group_asked and name in ground.terms:
        return ground.terms[name], ground.origin
    if text is None and group_asked:
        return np.zeros(loops.mask.shape), "none"
    written = DEFAULTS[name] if text is None else text
    origin = written if text is not None else f"{written} (default)"
    if name not in FIELDS:
        ranges = read_ranges(written, valued=name in FORCED)
        return (loops.assign(ranges) if name in FORCED else loops.mark(ranges)), origin
    expression = read_expression(written)
    expression.require_finite(loops.mask)
    return expression, f"{origin}: {expression.text}" if written.strip() in NAMED_FIELDS else origin


def find_ground(problem: Problem, conventions: str, geometry: str, side: int, seed: int | None) -> Ground:
    """Find a geometry: drawn at random, named, or in a file."""
    kind, _, rest = geometry.partition(":")
    ending = Path(geometry).suffix.lower()
    from_file = ending in (*OUTLINE_ENDINGS, *PICTURE_ENDINGS)
    if seed is not None and (from_file or kind == "random"):
        raise ValueError("--seed draws what a named shape is not given. Write --geometry random:SEED, or leave it out.")
    if from_file:
        grid = Grid(side, side)
        ground = outlined(geometry, grid) if ending in OUTLINE_ENDINGS else painted(geometry, grid, problem)
        if not ground.terms["domain"].any():
            raise ValueError(
                f"No pixel of a {side} x {side} grid lies in the domain of {geometry}. "
                "Enlarge it, or raise --resolution."
            )
        if follows_edge(ground.terms["domain"]):
            note = f"{geometry} runs along the edge of the grid, where models err more: leave 5 pixels around it"
            return replace(ground, notes=(*ground.notes, note))
        return ground
    if kind == "random":
        number, *factors = rest.split("+")
        if not (number.isascii() and number.isdigit()) or any(factor.startswith("shape:") for factor in factors):
            raise ValueError(f"A random geometry is written like random:7 or random:7+all, got {geometry!r}.")
        drawn_seed, shift = int(number), ",".join(factors) or None
    else:
        drawn_seed, shift = SEED if seed is None else seed, f"shape:{geometry}"
    case = draw(problem, drawn_seed, resolution=side, shift=shift, conventions=conventions)
    return Ground({name: case.terms[name] for name in problem.terms if name != "times"}, f"drawn, seed {drawn_seed}")


def follows_edge(domain: Bool[np.ndarray, "height width"]) -> bool:
    """Tell whether a domain lies nearer to a side of the grid, and along more of it, than training cases do."""
    near = (domain[:NEAR_EDGE], domain[-NEAR_EDGE:], domain[:, :NEAR_EDGE].T, domain[:, -NEAR_EDGE:].T)
    return any(band.any(axis=0).mean() > ALONG_EDGE for band in near)


def outlined(path: str, grid: Grid) -> Ground:
    """Read polygons from a JSON file."""
    from disol.geometry.outline_files import MARGIN, read_outline

    outline = read_outline(path)
    notes = [f"{path} was moved and scaled into the unit square, {MARGIN:.0%} from its edge"] if outline.fitted else []
    whole = outline.geometry.outer.inside(grid).copy()
    for number, hole in enumerate(outline.geometry.holes, start=1):
        pixels = hole.inside(grid)
        whole &= ~pixels
        pieces = parts(pixels)[1]
        if pieces == 0:
            notes.append(f"hole {number} of {path} is too small for this grid: it holds the centre of no pixel")
        elif pieces > 1:
            notes.append(f"hole {number} of {path} is too thin for this grid: it falls into {pieces} parts")
    domain = largest_part(whole)
    lost = int((whole & ~domain).sum())
    if lost:
        notes.append(f"{lost} pixels that no side joins to the largest part of {path} are left out on this grid")
    return Ground({"domain": domain}, notes=tuple(notes))


def painted(path: str, grid: Grid, problem: Problem) -> Ground:
    """Read a picture: dark is the domain; red marks dirichlet or fix_x, blue fix_y, magenta both."""
    from disol.geometry.drawings import read_drawing

    drawing = read_drawing(path)
    if not (drawing.ink >= 0.5).any():
        raise ValueError(f"Dark pixels are the domain, but none of {path} is darker than mid-grey. Paint it black.")
    terms: dict[str, Any] = {"domain": drawing.mask(grid)}
    drawn, seen = drawing.count_parts(grid), parts(terms["domain"])[1]
    notes: tuple[str, ...] = ()
    if drawn not in (0, seen):
        notes = (f"parts of the domain: {drawn} in {path}, {seen} on this grid; lines thinner than a pixel are lost",)
    colours = {"dirichlet": "red"} if "dirichlet" in problem.terms else {"fix_x": "red", "fix_y": "blue"}
    if not any(drawing.shows(colour) for colour in colours.values()):
        return Ground(terms, notes=notes, unpainted=" or ".join(colours.values()))
    for name, colour in colours.items():
        terms[name] = drawing.painted(colour, grid)
        if drawing.shows(colour) and not terms[name].any():
            raise ValueError(
                f"The {colour} pixels of {path} meet no boundary pixel of a {grid.height} x {grid.width} grid. "
                "Paint them on the edge of the dark area."
            )
    return Ground(terms, f"painted in {path}", notes)


def read_times(text: str, problem: Problem) -> tuple[float, ...]:
    """Read seconds separated by commas, in ascending order, that the steps of a problem meet."""
    try:
        times = sorted({float(piece) for piece in text.split(",")})
    except ValueError:
        raise ValueError(f"--time takes seconds such as 2,8,20, got {text!r}. Write numbers.") from None
    if not 0 <= times[0] <= times[-1] <= LATEST:  # NaN fails too
        raise ValueError(
            f"--time takes seconds from 0 to {LATEST:g}, got {text!r}. Models are trained up to {TRAINED_UNTIL:g} s."
        )
    if isinstance(problem, HeatProblem):
        try:
            problem.check_times(times)
        except ValueError:  # of all it asks for, only whole steps are left to be missed
            raise ValueError(f"--time takes multiples of {problem.step:g} s, got {text!r}. Round them.") from None
    return tuple(times)


def option(name: str) -> str:
    """Return the option that gives a term."""
    return "--" + name.replace("_", "-").replace("times", "time")
