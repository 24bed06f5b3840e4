"""Cases in text form: a geometry by name or in a file, boundary conditions as ranges, fields as formulas."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool

from disol import _checks as checks
from disol._terms import FORCE, INITIAL, SUPPORT, TIMES, FieldKind, Support, Term, terms_of_kind
from disol.cases.case import SMALLEST_RESOLUTION, Case
from disol.cases.conditions import EXTRA, mark_pixels, read_conditions
from disol.cases.given import advise, read_terms
from disol.errors import DisolError, shown
from disol.expressions import read_expression
from disol.fem.nitsche import Dirichlet
from disol.geometry.curve import Geometry, eroded, fill, largest_part, parts
from disol.geometry.frame import Frame
from disol.geometry.loops import NamedLoops, is_ranges, name_curves, name_loops, read_ranges
from disol.geometry.named_parts import split_parts
from disol.geometry.shapes import require_shape
from disol.grid import Grid
from disol.problems.coefficients import read_number
from disol.problems.conventions import Conventions
from disol.problems.problem import Markers, Problem
from disol.problems.table import find_conventions, find_problem

LARGEST_RESOLUTION = 1024
LONGEST = 4096  # characters of a path
LATEST = 10_000.0  # seconds; every step of 2 s up to the last is solved
SEED = 1  # of the terms drawn for a named shape; on the arrow, errors of models are about as large as for most seeds
NEAR_EDGE = 3  # rows of pixels
ALONG_EDGE = 0.66  # of a side; 99 of 100 training cases come that near along a smaller share
SMALL = 0.6  # extent of an outline in the unit square below which fitting would give it notably more pixels
NUMBERS = ("size", "plane", "time_step")  # for cases on a true boundary
OUTLINE_ENDINGS = (".json", ".geojson")
PICTURE_ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")
ENDINGS = f"{', '.join(OUTLINE_ENDINGS)} (polygons), and {', '.join(PICTURE_ENDINGS)} (pictures)"


def read_case(
    problem: str | Problem = "poisson",
    geometry: str | Path | Mapping[str, Any] = "arrow+hole",
    *,
    conventions: str | Conventions | None = None,
    resolution: int | None = None,
    seed: int | None = None,
    coordinates: str | None = None,
    **given: Any,
) -> Case:
    """Read a case from a geometry and terms given as text.

    geometry     "star" or "star+hole" (a named shape), "random:7" or "random:7+all" (drawn), the path of polygons in
                 JSON or GeoJSON, or the content of such a file, {"outer": [[x, y], ...], "holes": [...]}, or the path
                 of a picture whose dark pixels are the domain and whose red ones are held
    conventions  "physical" (default), on the true boundary; "paper" and "published" are on pixels
    resolution   pixels along a side, by default the problem's own
    seed         seed for drawing the terms that a named shape is not given
    coordinates  of polygons: "drawing", their own, in any unit, to be fitted to the grid, or "grid", those of the unit
                 square, left in place; by default "grid" if they fit into the unit square and are not very small
    given        by name: parts of the boundary ("outer:0.1-0.3,hole1", "left"; forces "outer:0.4-0.5=-1"), formulas in
                 x and y or names of fields ("sin(6*x)*y", "gaussian"), seconds ("2,8,20")

    Under "physical", everything that `solve_exact` takes may be given: parts with values ("left=20,right=80+5*y") or as
    mappings, `flux`, `convection`, `size`, materials; x, y and lengths are those of a polygon's own drawing.

    Terms that are not given are drawn for a named or random geometry, and have defaults for the user's own. There are
    no default sources, initial fields, forces and supports if values, fluxes or convection on the boundary are given,
    or, for a transient problem, a material and one of the fields. If one support is given, the others are empty, and
    likewise for forces. The case says in `origin` where each term comes from, and in `notes` what the grid does not
    show of the geometry.
    """
    problem = find_problem(problem)
    conventions = find_conventions(conventions, problem)
    texts = problem.by_own_names({name: value for name, value in given.items() if value is not None})
    kinds = {term.name: term.kind for term in problem.terms[1:]}
    for name in [name for name in texts if kinds.get(name) is TIMES and conventions.true_boundary]:
        texts[name] = _shown_times(name, texts[name])
    if not conventions.true_boundary:
        _require_texts(problem, texts)
    for name, text in texts.items():
        if isinstance(text, str) and isinstance(kinds.get(name), FieldKind):
            read_expression(text)  # report its errors before looking for a geometry
    side = problem.resolution if resolution is None else checks.whole_number("resolution", resolution)
    if not SMALLEST_RESOLUTION <= side <= LARGEST_RESOLUTION:
        raise DisolError(
            f"resolution must lie in [{SMALLEST_RESOLUTION}, {LARGEST_RESOLUTION}], got {side}. "
            f"{problem.name} is posed on {problem.resolution}."
        )
    found = _find_geometry(problem, conventions, geometry, side, seed, _known_coordinates(coordinates))
    loops = name_loops(found.terms["domain"])
    if found.geometry is not None:
        loops = loops.named_as(found.geometry.curves)
    named = "polygons" if isinstance(geometry, Mapping) else geometry
    described = f"{named}, {loops.mask.mean():.0%} of {side} x {side} pixels; loops {loops}"
    origin, notes = {"geometry": described}, [*found.notes]
    if not found.frame.is_grid and found.frame.is_fitted and conventions.true_boundary:
        origin["length"] = f"1 unit of the grid is {found.frame.length:.6g} of the drawing"
    # On the true boundary the user's data is stated there; only the other terms are put on pixels here.
    stated = {name: value for name, value in texts.items() if kinds.get(name) is not TIMES}
    stated = stated if conventions.true_boundary else {}
    read, told = _read_all(problem, texts, stated, found, loops)
    origin |= told
    held = terms_of_kind(problem.terms, SUPPORT)[0]
    if "unpainted" in found.origin and "(default)" in told[held.name]:
        notes.append(
            f"no {found.origin['unpainted']} pixels found in {geometry}: U = 0 on {held.kind.default(held)} instead"
        )
    timed = problem.with_step(read_number(stated["time_step"], may_vary=False)) if "time_step" in stated else problem
    if "times" in read and timed is problem and not max(read["times"]) <= LATEST:  # NaN fails too
        raise DisolError(f"times are seconds from 0 to {LATEST:g}, got {origin['times']}.")
    if not stated and found.is_drawn and all(read[name] is found.terms[name] for name in read):
        return replace(found, origin=origin)
    checked, _ = read_terms(timed, read, None, held_by_pixels=not stated)
    sketch = _sketch(problem, texts, found) if conventions.true_boundary else None
    known: dict[str, Any] = {"geometry": found.geometry, "traced": found.traced, "sketch": sketch}
    known |= {"frame": found.frame, "origin": origin, "notes": tuple(notes)}
    case = Case(problem, conventions, checked, **known)
    return replace(Case.from_arrays(case, **stated), origin=origin) if stated else case


def _read_all(
    problem: Problem, texts: Mapping[str, Any], stated: Mapping[str, Any], found: Case, loops: NamedLoops
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return all terms on pixels, empty if stated on the true boundary, and where each comes from."""
    read: dict[str, Any] = {"domain": loops.mask}
    origin: dict[str, str] = {}
    for term in problem.terms[1:]:
        if term.name in stated:
            read[term.name], origin[term.name] = np.zeros(loops.mask.shape), _shown(stated[term.name])
            continue
        asked = any(name in texts for name in _with(problem, term)) or _is_none(problem, term, stated, found.terms)
        is_zero = isinstance(term.kind, FieldKind) and _is_driven(problem, stated)
        text = "zero" if is_zero else texts.get(term.name)
        read[term.name], origin[term.name] = _read_term(term, text, asked, found, loops)
    return read, origin | {name: _shown(value) for name, value in stated.items() if name not in origin}


def _known_coordinates(coordinates: Any) -> str | None:
    """Require a known kind of coordinates, or none."""
    from disol.geometry.outline_files import COORDINATES  # noqa: PLC0415

    if coordinates is not None and coordinates not in COORDINATES:
        raise DisolError(f"coordinates must be 'drawing' or 'grid', got {shown(coordinates)}.")
    return coordinates


def _shown_times(name: str, times: Any) -> str:
    """Write times given as numbers as a text."""
    if isinstance(times, str):
        return times
    seconds = np.atleast_1d(checks.real_numbers(name, times))
    if seconds.ndim != 1:
        raise DisolError(f"{name} are seconds, such as [2, 8, 20], got {shown(times)}.")
    return ",".join(repr(float(second)) for second in seconds)


def _shown(value: Any) -> str:
    """Describe a stated value in a few words."""
    if isinstance(value, Mapping):
        return ", ".join(f"{part} = {_shown(each)}" for part, each in value.items())
    return value if isinstance(value, str) else "a function" if callable(value) else shown(value)


def _with(problem: Problem, term: Term) -> list[str]:
    """Return the names of a term and of all arguments that replace its default when one of them is given."""
    together = [each.name for each in terms_of_kind(problem.terms, term.kind)]
    if term.kind is SUPPORT:
        return [*together, "convection"]
    return [*together, "body_force"] if term.kind is FORCE else [term.name]


def _is_driven(problem: Problem, stated: Mapping[str, Any]) -> bool:
    """Tell whether a case needs no default loads: the boundary drives it, or a field and a material of its own."""
    supports = {term.name for term in terms_of_kind(problem.terms, SUPPORT)}
    if any(name in EXTRA or (name in supports and "=" in _shown(value)) for name, value in stated.items()):
        return True
    is_transient = bool(terms_of_kind(problem.terms, INITIAL))
    has_field = any(term.name in stated for term in problem.terms if isinstance(term.kind, FieldKind))
    return is_transient and has_field and not shows_on_pixels(problem, stated)


def _is_none(problem: Problem, term: Term, stated: Mapping[str, Any], known: Mapping[str, Any]) -> bool:
    """Tell whether a driven case gets no default for a force, or for a support that is neither drawn nor painted."""
    is_default = term.kind is FORCE or (term.kind is SUPPORT and term.name not in known)
    return is_default and _is_driven(problem, stated)


def shows_on_pixels(problem: Problem, given: Mapping[str, Any]) -> bool:
    """Tell whether marked pixels and fields can show all given data: no values, fluxes, materials or sizes."""
    kinds = {term.name: term.kind for term in problem.terms}
    named = {name: text for name, text in given.items() if name not in ("resolution", "seed", "coordinates")}
    if not all(name in kinds and isinstance(text, str) for name, text in named.items()):
        return not set(named) & {*problem.parameters, *problem.coefficients, *problem.aliases, *EXTRA, *NUMBERS}
    return not any("=" in text for name, text in named.items() if kinds[name] is SUPPORT)


def _require_texts(problem: Problem, given: Mapping[str, Any]) -> None:
    """Require data that pixels can show: terms of the problem, as text."""
    names = [term.name for term in problem.terms[1:]]
    for name, text in given.items():
        if name not in names:
            further = (*problem.parameters, *problem.coefficients, *EXTRA, *NUMBERS)
            if name in further:
                raise DisolError(f"{name} needs a true boundary. Pass conventions='physical'.")
            raise DisolError(f"{problem.name} has no {name}. {advise(problem, name, names)}")
        if not isinstance(text, str):
            raise DisolError(f"{name} must be a text, got {shown(text)}. Pass numbers to Case.from_arrays.")


def _sketch(problem: Problem, texts: Mapping[str, Any], found: Case) -> dict[str, tuple[Markers, ...]]:
    """Return segments of curves for each support and force: none if given, else as drawn or painted, or the default."""
    curves = name_curves(found.region.loops if found.geometry is None else found.geometry.curves)
    sketch: dict[str, tuple[Markers, ...]] = {}
    for term in problem.terms:
        if term.kind not in (SUPPORT, FORCE):
            continue
        if any(name in texts for name in _with(problem, term)) or _is_none(problem, term, texts, found.terms):
            sketch[term.name] = ()
        elif found.sketch is not None and term.name in found.sketch:
            sketch[term.name] = (found.sketch[term.name],)
        else:
            ranges = read_ranges(term.kind.default(term), valued=term.kind is FORCE)
            sketch[term.name] = tuple(
                Markers((segment,), value if term.kind is FORCE else None) for segment, value in curves.segments(ranges)
            )
    return sketch


def _read_term(term: Term, text: str | None, group_asked: bool, found: Case, loops: NamedLoops) -> tuple[Any, str]:
    """Return a term and where it comes from: the text, nothing, the drawing or picture, or the default."""
    if text is None and group_asked:
        return np.zeros(loops.mask.shape), "none"
    if text is None and term.kind is not TIMES and term.name in found.terms:
        return found.terms[term.name], found.origin["terms"]
    if text is not None and term.kind in (SUPPORT, FORCE) and not is_ranges(text):
        return _mark(term, text, found), text
    value, told = term.kind.read(term, term.kind.default(term) if text is None else text, loops)
    return value, told if text is not None or term.kind is TIMES else told.replace(
        term.kind.default(term), f"{term.kind.default(term)} (default)", 1
    )


def _mark(term: Term, text: str, found: Case) -> Any:
    """Mark the pixels along parts of the boundary that have names of their own, such as left."""
    stated = read_conditions(found.problem, {term.name: split_parts(text)}, found.region, Frame())
    for each in stated:
        first = each.conditions[0]
        if isinstance(first, Dirichlet) and first.value != 0:
            raise DisolError(f"{term.name} at {_shown(each.value)} needs a true boundary. Pass conventions='physical'.")
    return mark_pixels(stated, found.region, found.domain)


def _find_geometry(
    problem: Problem,
    conventions: Conventions,
    asked: str | Path | Mapping[str, Any],
    side: int,
    seed: int | None,
    coordinates: str | None,
) -> Case:
    """Find a geometry: drawn at random, named, or in a file; the case may bring terms along, and is not checked."""
    if isinstance(asked, Mapping):
        case = _read_outline(asked, Grid(side, side), problem, conventions, coordinates)
        _require_domain(case, "the geometry")
        return case
    geometry = str(asked)
    if len(geometry) > LONGEST:
        raise DisolError(f"geometry must be a name or a path of at most {LONGEST} characters, got {len(geometry)}.")
    kind, _, rest = geometry.partition(":")
    ending = Path(geometry).suffix.lower()
    from_file = ending in (*OUTLINE_ENDINGS, *PICTURE_ENDINGS)
    if coordinates is not None and ending not in OUTLINE_ENDINGS:
        raise DisolError(f"coordinates are for polygons, got {geometry}. Leave out coordinates.")
    if seed is not None and (from_file or kind == "random"):
        raise DisolError("seed draws the missing terms of a named shape. Use geometry random:SEED, or leave it out.")
    if from_file:
        grid = Grid(side, side)
        if ending in OUTLINE_ENDINGS:
            case = _read_outline(geometry, grid, problem, conventions, coordinates)
        else:
            case = _read_picture(geometry, grid, problem, conventions)
        _require_domain(case, geometry)
        if _follows_edge(case.domain):
            note = (
                f"{geometry} runs along the edge of the grid, where models trained on the paper's distribution err "
                "more: leave 5 pixels around it"
            )
            return replace(case, notes=(*case.notes, note))
        return case
    if ending and re.fullmatch(r"\.[a-z][a-z0-9]*", ending):
        raise DisolError(f"Cannot read {geometry}: geometries are read from {ENDINGS}. Convert it.")
    if kind == "random":
        number, *factors = rest.split("+")
        if not re.fullmatch("[0-9]{1,20}", number) or any(factor.startswith("shape:") for factor in factors):
            raise DisolError(f"A random geometry is written like random:7 or random:7+all, got {geometry!r}.")
        drawn_seed, shift = int(number), ",".join(factors) or None
    else:
        require_shape(geometry.partition("+")[0], f" Or give random:SEED, or a file that ends in {ENDINGS}.")
        drawn_seed, shift = SEED if seed is None else seed, f"shape:{geometry}"
    case = Case.draw(problem, drawn_seed, resolution=side, shift=shift, conventions=conventions)
    return replace(case, origin={"terms": f"drawn, seed {drawn_seed}"})


def _require_domain(case: Case, name: str) -> None:
    """Require that a grid shows something of a domain."""
    if not case.domain.any():
        height, width = case.domain.shape
        raise DisolError(
            f"No pixel of a {width} x {height} grid lies in the domain of {name}. Enlarge it, or raise resolution."
        )


def _follows_edge(domain: Bool[np.ndarray, "height width"]) -> bool:
    """Tell whether a domain runs close to a side of the grid along more of it than training cases do."""
    near = (domain[:NEAR_EDGE], domain[-NEAR_EDGE:], domain[:, :NEAR_EDGE].T, domain[:, -NEAR_EDGE:].T)
    return any(band.any(axis=0).mean() > ALONG_EDGE for band in near)


def _read_outline(
    source: str | Mapping[str, Any], grid: Grid, problem: Problem, conventions: Conventions, coordinates: str | None
) -> Case:
    """Read polygons from a JSON file or its content."""
    from disol.geometry.outline_files import MARGIN, read_outline  # noqa: PLC0415

    geometry, frame = read_outline(source, coordinates)
    path, notes = "the outline" if isinstance(source, Mapping) else source, []
    extent = np.ptp(np.concatenate([curve.points for curve in geometry.curves]), axis=0).max()
    if frame.is_fitted:
        notes.append(f"{path} was moved and scaled into the unit square, {MARGIN:.0%} from its edge")
    elif coordinates is None and extent < SMALL:
        notes.append(
            f"{path} fits in the unit square and was left where it is, on a grid that is 1 high: "
            "give coordinates='drawing' to fit it to the grid, as in any other unit"
        )
    if not conventions.true_boundary:
        notes += note_holes(source, geometry, grid)
    domain, lost = np.zeros(grid.pixels, dtype=bool), 0
    for part in (geometry, *geometry.further):
        whole = fill(part.outer.points, grid)
        for hole in part.holes:
            whole &= ~fill(hole.points, grid)  # not kept, as `hole.inside` would be: there may be a thousand
        kept = largest_part(whole)
        domain |= kept
        lost += int((whole & ~kept).sum())
    if lost:
        notes.append(f"{lost} pixels that no side joins to the largest part of {path} are left out on this grid")
    drawn, seen = 1 + len(geometry.further), parts(domain)[1]
    if seen not in (0, drawn):
        notes.append(f"parts of the domain: {drawn} in {path}, {seen} on this grid")
    known = frame if conventions.true_boundary else Frame()
    return Case(problem, conventions, {"domain": domain}, geometry=geometry, frame=known, notes=tuple(notes))


def note_holes(source: str | Mapping[str, Any], geometry: Geometry, grid: Grid) -> Iterator[str]:
    """Note the holes of polygons that the pixels of a grid do not show as they are."""
    path = "the outline" if isinstance(source, Mapping) else source
    holes = [hole for part in (geometry, *geometry.further) for hole in part.holes]
    for number, hole in enumerate(holes, start=1):
        pixels = fill(hole.points, grid)
        rows = np.flatnonzero(pixels.any(axis=1))
        pieces = parts(pixels[rows.min(initial=0) : rows.max(initial=0) + 1])[1]
        if pieces == 0:
            yield f"hole {number} of {path} is too small for this grid: it holds the centre of no pixel"
        elif pieces > 1:
            yield f"hole {number} of {path} is too thin for this grid: it falls into {pieces} parts"


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
