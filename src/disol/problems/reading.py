"""Cases written by people: a geometry by name or in a file, boundary conditions as ranges, fields as formulas."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool

from disol import _checks as checks
from disol._terms import FORCE, SUPPORT, TIMES, FieldKind, Support, Term, terms_of_kind
from disol.errors import DisolError, shown
from disol.fields import read_expression
from disol.geometry.curve import eroded, fill, largest_part, parts
from disol.geometry.loops import NamedLoops, name_curves, name_loops, read_ranges
from disol.grid import Grid
from disol.problems.case import SMALLEST_RESOLUTION, Case
from disol.problems.conventions import Conventions
from disol.problems.problem import Markers, Problem
from disol.problems.table import find_conventions, find_problem

LARGEST_RESOLUTION = 1024
LONGEST = 4096  # characters of a path
LATEST = 1000.0  # seconds; every step of 2 s up to the last is solved
SEED = 1  # of what is drawn for a named shape; on the arrow a model errs about as much as on most seeds
NEAR_EDGE = 3  # rows of pixels
ALONG_EDGE = 0.66  # of a side; 99 of 100 training cases are that near along less of it
OUTLINE_ENDINGS = (".json", ".geojson")
PICTURE_ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")


def read_case(
    problem: str | Problem = "poisson",
    geometry: str | Path = "arrow+hole",
    *,
    conventions: str | Conventions | None = None,
    resolution: int | None = None,
    seed: int | None = None,
    **terms: str,
) -> Case:
    """Read a case from text.

    geometry     "star" or "star+hole" (a named shape), "random:7" or "random:7+all" (drawn), the path of polygons in
                 JSON or GeoJSON, or of a picture whose dark pixels are the domain and whose red ones are held
    conventions  "physical", on the true boundary, unless given; "paper" and "published" are on pixels
    resolution   pixels along a side, the problem's own unless given
    seed         of what a named shape is not given
    terms        by name: ranges of boundary loops ("outer:0.1-0.3,hole1"; forces "outer:0.4-0.5=-1"), formulas in x and
                 y or names of fields ("sin(6*x)*y", "gaussian"), seconds ("2,8,20")

    What is not given is drawn with the geometry, or has a default where that comes from a file. Whoever gives one
    support gives all of them, and likewise for forces. The case says in `origin` where each term comes from, and in
    `notes` what the grid does not show of the geometry.
    """
    problem = find_problem(problem)
    conventions = find_conventions(conventions, problem)
    names = [term.name for term in problem.terms[1:]]
    for name, text in terms.items():
        if name not in names:
            raise DisolError(f"{problem.name} has no {name}. It takes {', '.join(names)}.")
        if not isinstance(text, str):
            raise DisolError(f"{name} must be a text, got {shown(text)}. Give numbers to Case.from_arrays.")
        if isinstance(problem.term(name).kind, FieldKind):
            read_expression(text)  # what is wrong with it is told before a geometry is looked for
    side = problem.resolution if resolution is None else checks.whole_number("resolution", resolution)
    if not SMALLEST_RESOLUTION <= side <= LARGEST_RESOLUTION:
        raise DisolError(
            f"resolution must lie in [{SMALLEST_RESOLUTION}, {LARGEST_RESOLUTION}], got {side}. "
            f"{problem.name} is posed on {problem.resolution}."
        )
    found = _find_geometry(problem, conventions, str(geometry), side, seed)
    loops = name_loops(found.terms["domain"])
    described = f"{geometry}, {loops.mask.mean():.0%} of {side} x {side} pixels; loops {loops}"
    read, origin, notes = {"domain": loops.mask}, {"geometry": described}, [*found.notes]
    for term in problem.terms[1:]:
        group = terms_of_kind(problem.terms, term.kind) if term.kind in (SUPPORT, FORCE) else [term]
        asked = any(each.name in terms for each in group)
        read[term.name], origin[term.name] = _read_term(term, terms.get(term.name), asked, found, loops)
    if "unpainted" in found.origin and not any(term.name in terms for term in terms_of_kind(problem.terms, SUPPORT)):
        held = terms_of_kind(problem.terms, SUPPORT)[0]
        notes.append(
            f"no {found.origin['unpainted']} pixels found in {geometry}: U = 0 on {held.kind.default(held)} instead"
        )
    if "times" in read and not read["times"][-1] <= LATEST:  # NaN fails too
        raise DisolError(f"times are seconds from 0 to {LATEST:g}, got {origin['times']}.")
    if found.is_drawn and all(read[name] is found.terms[name] for name in read):
        return replace(found, origin=origin)
    case = Case.from_arrays(problem, conventions=conventions, **read)
    sketch = _sketch(problem, terms, found) if conventions.true_boundary else None
    return replace(case, geometry=found.geometry, traced=found.traced, sketch=sketch, origin=origin, notes=tuple(notes))


def _sketch(problem: Problem, texts: Mapping[str, str], found: Case) -> dict[str, tuple[Markers, ...]]:
    """Return what is held and loaded as segments of curves: as written, as drawn or painted, or the default."""
    curves = name_curves(found.region.loops if found.geometry is None else found.geometry.curves)
    sketch: dict[str, tuple[Markers, ...]] = {}
    for term in problem.terms:
        if term.kind not in (SUPPORT, FORCE):
            continue
        asked = any(each.name in texts for each in terms_of_kind(problem.terms, term.kind))
        if term.name not in texts and asked:
            sketch[term.name] = ()
        elif term.name not in texts and found.sketch is not None and term.name in found.sketch:
            sketch[term.name] = (found.sketch[term.name],)
        else:
            ranges = read_ranges(texts.get(term.name, term.kind.default(term)), valued=term.kind is FORCE)
            sketch[term.name] = tuple(
                Markers((segment,), value if term.kind is FORCE else None) for segment, value in curves.segments(ranges)
            )
    return sketch


def _read_term(term: Term, text: str | None, group_asked: bool, found: Case, loops: NamedLoops) -> tuple[Any, str]:
    """Return a term and where it comes from: as written, none, as drawn or painted, or the default."""
    if text is None and group_asked:
        return np.zeros(loops.mask.shape), "none"
    if text is None and term.kind is not TIMES and term.name in found.terms:
        return found.terms[term.name], found.origin["terms"]
    value, told = term.kind.read(term, term.kind.default(term) if text is None else text, loops)
    return value, told if text is not None or term.kind is TIMES else told.replace(
        term.kind.default(term), f"{term.kind.default(term)} (default)", 1
    )


def _find_geometry(problem: Problem, conventions: Conventions, geometry: str, side: int, seed: int | None) -> Case:
    """Find a geometry: drawn at random, named, or in a file; it may bring terms along, and is not checked."""
    if len(geometry) > LONGEST:
        raise DisolError(f"geometry must be a name or a path of at most {LONGEST} characters, got {len(geometry)}.")
    kind, _, rest = geometry.partition(":")
    ending = Path(geometry).suffix.lower()
    from_file = ending in (*OUTLINE_ENDINGS, *PICTURE_ENDINGS)
    if seed is not None and (from_file or kind == "random"):
        raise DisolError("seed draws what a named shape is not given. Use the geometry random:SEED, or leave it out.")
    if from_file:
        grid = Grid(side, side)
        read = _read_outline if ending in OUTLINE_ENDINGS else _read_picture
        case = read(geometry, grid, problem, conventions)
        if not case.domain.any():
            raise DisolError(
                f"No pixel of a {side} x {side} grid lies in the domain of {geometry}. Enlarge it, or raise resolution."
            )
        if _follows_edge(case.domain):
            note = (
                f"{geometry} runs along the edge of the grid, where models trained on the paper's distribution err "
                "more: leave 5 pixels around it"
            )
            return replace(case, notes=(*case.notes, note))
        return case
    if kind == "random":
        number, *factors = rest.split("+")
        if not re.fullmatch("[0-9]{1,20}", number) or any(factor.startswith("shape:") for factor in factors):
            raise DisolError(f"A random geometry is written like random:7 or random:7+all, got {geometry!r}.")
        drawn_seed, shift = int(number), ",".join(factors) or None
    else:
        drawn_seed, shift = SEED if seed is None else seed, f"shape:{geometry}"
    case = Case.draw(problem, drawn_seed, resolution=side, shift=shift, conventions=conventions)
    return replace(case, origin={"terms": f"drawn, seed {drawn_seed}"})


def _follows_edge(domain: Bool[np.ndarray, "height width"]) -> bool:
    """Tell whether a domain lies nearer to a side of the grid, and along more of it, than training cases do."""
    near = (domain[:NEAR_EDGE], domain[-NEAR_EDGE:], domain[:, :NEAR_EDGE].T, domain[:, -NEAR_EDGE:].T)
    return any(band.any(axis=0).mean() > ALONG_EDGE for band in near)


def _read_outline(path: str, grid: Grid, problem: Problem, conventions: Conventions) -> Case:
    """Read polygons from a JSON file."""
    from disol.geometry.outline_files import MARGIN, read_outline  # noqa: PLC0415

    geometry, fitted = read_outline(path)
    notes = [f"{path} was moved and scaled into the unit square, {MARGIN:.0%} from its edge"] if fitted else []
    whole = geometry.outer.inside(grid).copy()
    for number, hole in enumerate(geometry.holes, start=1):
        pixels = fill(hole.points, grid)  # not kept, as `hole.inside` would be: there may be a thousand
        whole &= ~pixels
        rows = np.flatnonzero(pixels.any(axis=1))
        pieces = parts(pixels[rows.min(initial=0) : rows.max(initial=0) + 1])[1]
        if pieces == 0:
            notes.append(f"hole {number} of {path} is too small for this grid: it holds the centre of no pixel")
        elif pieces > 1:
            notes.append(f"hole {number} of {path} is too thin for this grid: it falls into {pieces} parts")
    domain = largest_part(whole)
    lost = int((whole & ~domain).sum())
    if lost:
        notes.append(f"{lost} pixels that no side joins to the largest part of {path} are left out on this grid")
    return Case(problem, conventions, {"domain": domain}, geometry=geometry, notes=tuple(notes))


def _read_picture(path: str, grid: Grid, problem: Problem, conventions: Conventions) -> Case:
    """Read a picture: dark is the domain, and colours mark supports."""
    from disol.geometry.drawings import read_drawing  # noqa: PLC0415  slow to import

    drawing = read_drawing(path)
    if not (drawing.ink >= 0.5).any():
        raise DisolError(f"Dark pixels are the domain, but none of {path} is darker than mid-grey. Paint it black.")
    terms: dict[str, Any] = {"domain": drawing.mask(grid)}
    drawn, seen = drawing.count_parts(grid), parts(terms["domain"])[1]
    notes = (f"{path} holds several pictures: the first one counts",) if drawing.is_first else ()
    if drawn not in (0, seen):
        lost = f"parts of the domain: {drawn} in {path}, {seen} on this grid; lines thinner than a pixel are lost"
        notes = (*notes, lost)
    traced = drawing.region(grid) if conventions.true_boundary else None
    colours = {term.name: Support.paints[term.component] for term in terms_of_kind(problem.terms, SUPPORT)}
    sketch: dict[str, Markers] | None = None if traced is None else {}
    if not any(drawing.shows(colour) for colour in colours.values()):
        unpainted = {"unpainted": " or ".join(dict.fromkeys(colours.values()))}
        return Case(problem, conventions, terms, traced=traced, sketch=sketch, notes=notes, origin=unpainted)
    for name, colour in colours.items():
        terms[name] = drawing.painted(colour, grid)
        if drawing.shows(colour) and not terms[name].any():
            raise DisolError(
                f"The {colour} pixels of {path} meet no boundary pixel of a {grid.height} x {grid.width} grid. "
                "Paint them on the edge of the dark area."
            )
        if traced is not None and sketch is not None:
            sketch[name] = Markers(drawing.painted_segments(colour, traced))
            if (terms[name] & eroded(terms["domain"], 2)).any():
                notes = (
                    *notes,
                    f"{colour} inside the dark area of {path} holds pixels, but nothing on a true boundary",
                )
    origin = {"terms": f"painted in {path}"}
    return Case(problem, conventions, terms, traced=traced, sketch=sketch, notes=notes, origin=origin)
