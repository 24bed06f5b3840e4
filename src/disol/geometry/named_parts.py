"""Parts of a boundary by name: `left`, `outer`, `hole1`, `outer:0.1-0.35`, `near:0.2,0.7`, and texts that list them.

A side (left, right, top, bottom) is the part of the outer loops on that side of the domain's bounding box. If that is
less than a tenth of the side of the box, as for round domains, it is the part that faces that way, to within 45
degrees. `near:` is the run of a loop nearest to a point, from corner to corner.
"""

import re
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float

from disol.errors import DisolError, shown
from disol.geometry.curve import Curve, next_points
from disol.geometry.frame import Frame
from disol.geometry.loops import LONGEST, NUMBER, list_some, name_curves, read_ranges
from disol.geometry.region import Arc, Region

# Outward; y points downwards.
SIDES = {"left": (-1.0, 0.0), "right": (1.0, 0.0), "top": (0.0, -1.0), "bottom": (0.0, 1.0)}
ON_SIDE = 1e-9  # tolerance, relative to the size of the box
FLAT = 0.1  # smallest share of a side of the box that must lie on it to be taken as the side
CORNER = np.radians(20)
HALF_POINT = re.compile(rf"near:\s*[-+]?{NUMBER}")  # the part of near:X,Y before the comma

Edges = Bool[np.ndarray, " edge"]


def split_parts(text: str) -> dict[str, str | None]:
    """Read `PART` or `PART=VALUE`, separated by commas outside parentheses; a value may be a formula."""
    if len(text) > LONGEST:
        raise DisolError(f"Parts of a boundary have at most {LONGEST} characters, got {len(text)}.")
    pieces: list[str] = []
    for piece in split_at_commas(text):
        if pieces and HALF_POINT.fullmatch(pieces[-1].strip().lower()):
            pieces[-1] += f",{piece}"
        else:
            pieces.append(piece)
    parts: dict[str, str | None] = {}
    for piece in pieces:
        name, equals, value = (each.strip() for each in piece.partition("="))
        if not name or (equals and not value):
            raise DisolError(f"Parts of a boundary are written like left=20,hole1, got {shown(piece.strip())}.")
        if name in parts:
            raise DisolError(f"The part {shown(name)} is given twice. Keep one of them.")
        parts[name] = value if equals else None
    return parts


def split_at_commas(text: str) -> list[str]:
    """Split a text at its commas outside parentheses."""
    pieces, depth = [""], 0
    for sign in text:
        depth += (sign in "([") - (sign in ")]")
        if sign == "," and depth == 0:
            pieces.append("")
        else:
            pieces[-1] += sign
    return pieces


def find_part(region: Region, name: str, frame: Frame = Frame()) -> tuple[Arc, ...]:  # noqa: B008  it is frozen
    """Return the arcs of a part of the boundary; errors list the known names. Points are in drawing coordinates."""
    asked = name.strip().lower() if isinstance(name, str) else ""
    if asked in SIDES:
        found = find_side(region, asked)
        if not found:
            raise DisolError(
                f"Nothing of this boundary faces {asked} to within 45 degrees: it ends in a point there. Use a range "
                "such as outer:0.1-0.35, or near:X,Y."
            )
        return found
    if asked.startswith("near:"):
        return (_nearest(region, asked, frame),)
    curves = name_curves(region.loops)
    if not asked or asked.partition(":")[0] not in curves.places:
        raise DisolError(
            f"There is no part {shown(name)} of this boundary. Use {', '.join(SIDES)}, "
            f"{list_some(list(curves.places))}, a range such as outer:0.1-0.35, or near:X,Y."
        )
    return tuple(Arc.from_segment(segment) for segment, _ in curves.segments(read_ranges(asked)))


def name_arcs(region: Region, arcs: Sequence[Arc]) -> list[str]:
    """Return the names of arcs: loops, or ranges of loops."""
    names = {loop: (name, first) for name, (loop, first) in name_curves(region.loops).places.items()}
    found = []
    for arc in arcs:
        name, first = names[arc.loop]
        start, length = (arc.start - first) % 1.0, arc.end - arc.start
        end = start + length if start + length <= 1 + ON_SIDE else start + length - 1
        found.append(name if length >= 1 else f"{name}:{start:.6g}-{end:.6g}")
    return found


def find_side(region: Region, name: str) -> tuple[Arc, ...]:
    """Return the arcs of a side, none if it ends in a point."""
    outward = np.array(SIDES[name])
    points = np.concatenate([loop.points for loop in region.loops])
    size, far = np.ptp(points, axis=0), float((points @ outward).max())
    outer = {number: loop for number, loop in enumerate(region.loops) if loop.signed_area > 0}
    slack = ON_SIDE * float(size.max())
    lying = {
        number: np.minimum(loop.points @ outward, next_points(loop.points) @ outward) >= far - slack
        for number, loop in outer.items()
    }
    length = sum(float(np.diff(loop.arc_lengths)[lying[number]].sum()) for number, loop in outer.items())
    if length >= FLAT * float(size @ np.abs(outward[::-1])):
        return tuple(arc for number, loop in outer.items() for arc in _runs(number, loop, lying[number]))
    facing = {number: _facing(loop, outward) for number, loop in outer.items()}
    return tuple(arc for number, loop in outer.items() for arc in _runs(number, loop, facing[number]))


def _facing(loop: Curve, outward: Float[np.ndarray, "2"]) -> Edges:
    """Mark the edges whose outward normal is within 45 degrees of a direction."""
    step = next_points(loop.points) - loop.points
    return step @ [-outward[1], outward[0]] >= np.sqrt(0.5) * np.hypot(*step.T)


def _runs(number: int, loop: Curve, chosen: Edges) -> list[Arc]:
    """Return the arcs formed by runs of chosen edges."""
    if chosen.all():
        return [Arc(number)]
    place = loop.arc_lengths / loop.arc_lengths[-1]
    found = []
    for first in np.flatnonzero(chosen & ~np.roll(chosen, 1)).tolist():
        count = int(np.argmin(np.roll(chosen, -first)))
        last = first + count
        end = place[last] if last < len(chosen) else 1.0 + place[last - len(chosen)]
        found.append(Arc(number, float(place[first]), float(end)))
    return found


def _nearest(region: Region, name: str, frame: Frame) -> Arc:
    """Return the run from corner to corner that is nearest to the point of `near:x,y`; a smooth loop as a whole."""
    try:
        point = np.array([float(piece) for piece in name.removeprefix("near:").split(",")])
    except ValueError:
        point = np.empty(0)
    if point.shape != (2,) or not np.isfinite(point).all():
        raise DisolError(f"The part nearest to a point is written like near:0.2,0.7, got {shown(name)}.")
    point = frame.to_grid(point)
    best = (np.inf, 0, 0)
    for number, loop in enumerate(region.loops):
        step = next_points(loop.points) - loop.points
        along = ((point - loop.points) * step).sum(axis=1) / (step**2).sum(axis=1)
        foot = loop.points + np.clip(along, 0.0, 1.0)[:, None] * step
        distance = np.hypot(*(foot - point).T)
        best = min(best, (float(distance.min()), number, int(distance.argmin())))
    _, number, edge = best
    loop = region.loops[number]
    step = next_points(loop.points) - loop.points
    way = step / np.hypot(*step.T)[:, None]
    begins = (way * np.roll(way, 1, axis=0)).sum(axis=1) < np.cos(CORNER)  # there is a corner before this edge
    if not begins.any():
        return Arc(number)
    first = (edge - int(np.argmax(np.roll(begins, -edge - 1)[::-1]))) % len(begins)
    count = 1 + int(np.argmax(np.roll(begins, -first - 1)))
    kept = np.zeros_like(begins)
    kept[(first + np.arange(count)) % len(kept)] = True
    return _runs(number, loop, kept)[0]
