"""From `--geometry` to a domain on a grid: drawn, named, written as polygons, or painted."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool

from disol.geometry.curve import largest_part, parts
from disol.grid import Grid
from disol.problems import Problem, draw

SEED = 1  # of what is drawn for a named shape; on the arrow a model errs about as much as on most seeds
NEAR_EDGE = 3  # rows of pixels
ALONG_EDGE = 0.66  # of a side; 99 of 100 training cases are that near along less of it
OUTLINE_ENDINGS = (".json", ".geojson")
PICTURE_ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")


@dataclass(frozen=True, eq=False)
class Ground:
    """A geometry on a grid, and the terms that came with it, because they were drawn or painted.

    unpainted   the colours of supports, of a picture that has none of them
    """

    terms: dict[str, Any]
    origin: str = ""
    notes: tuple[str, ...] = ()
    unpainted: str = ""


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
