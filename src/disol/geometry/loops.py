"""Boundary loops by name, of pixels or of curves, and ranges of them written as text: `outer:0.1-0.3,hole1`."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float

from disol.errors import DisolError, shown
from disol.geometry.boundary import Loop, Segment, trace_boundary
from disol.geometry.curve import Curve, parts
from disol.grid import Grid

Mask = Bool[np.ndarray, "height width"]

LONGEST = 10_000  # characters of ranges
MOST_LOOPS = 2000
MOST_LISTED = 12
LEVEL = 1e-9  # heights of curves, in units of the square, that differ by less may do so by rounding, and are one
NUMBER = r"(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:e[-+]?[0-9]+)?"
RANGE = re.compile(rf"(?P<loop>[a-z]+[0-9]*)(?::(?P<start>{NUMBER})-(?P<end>{NUMBER}))?(?:=(?P<value>[-+]?{NUMBER}))?")


@dataclass(frozen=True)
class LoopRange:
    """The part of a loop from one fraction of its length to another, through its start if the first is larger."""

    loop: str
    start: float = 0.0
    end: float = 1.0
    value: float | None = None


def is_ranges(text: str) -> bool:
    """Tell whether a text names loops only, correctly or not, and no sides or points."""
    return not re.search(r"(?:^|,)\s*(?:left|right|top|bottom|near)\b", text.lower())


def read_ranges(text: str, *, valued: bool = False) -> tuple[LoopRange, ...]:
    """Read `LOOP`, `LOOP:FROM-TO` or, if ranges may have values, `LOOP:FROM-TO=VALUE`, separated by commas."""
    example = "outer:0.1-0.3=-1" if valued else "outer:0.1-0.3"
    if len(text) > LONGEST:
        raise DisolError(f"Boundary ranges have at most {LONGEST} characters, got {len(text)}.")
    ranges = []
    for piece in text.split(","):
        match = RANGE.fullmatch(piece.strip().lower())
        if match is None or (match["value"] is not None and not valued):
            within = "" if piece == text else f" in {shown(text)}"
            raise DisolError(
                f"A boundary range is written like {example!r} or 'hole1', got {shown(piece.strip())}{within}."
            )
        start, end = float(match["start"] or 0), float(match["end"] or 1)
        if max(start, end) > 1 or start == end:
            raise DisolError(
                "A boundary range goes from one fraction in [0, 1] to a different one, "
                f"got {shown(piece.strip())}. "
                f"Write it like {example!r}; '0.9-0.1' passes through the start."
            )
        ranges.append(LoopRange(match["loop"], start, end, float(match["value"]) if match["value"] else None))
    return tuple(ranges)


@dataclass(frozen=True, eq=False)
class NamedLoops:
    """The boundary loops of a mask: `outer`, and `hole1`, `hole2`, ... from the top down.

    A mask in several parts has `outer2`, `outer3`, ... too. Every loop starts at its highest pixel, the leftmost of
    those, and keeps the domain on its right: clockwise along an outer boundary, counter-clockwise around a hole.
    """

    mask: Mask
    loops: dict[str, Loop]

    def mark(self, ranges: tuple[LoopRange, ...]) -> Mask:
        """Mark the pixels of the ranges."""
        return self.assign(ranges) != 0

    def assign(self, ranges: tuple[LoopRange, ...]) -> Float[np.ndarray, "height width"]:
        """Return the value of each range, by default 1, on its pixels and 0 elsewhere; later ranges win."""
        values = np.zeros(self.mask.shape)
        for wanted in ranges:
            if wanted.loop not in self.loops:
                raise DisolError(
                    f"There is no boundary loop {shown(wanted.loop)} on this grid. "
                    f"The loops are {list_some(list(self.loops))}."
                )
            rows, columns = pixels_between(self.loops[wanted.loop], wanted.start, wanted.end).T
            values[rows, columns] = 1.0 if wanted.value is None else wanted.value
        return values

    def named_as(self, curves: Sequence[Curve]) -> "NamedLoops":
        """Return the loops by the names of the curves that they follow; as they are if these are not one for each.

        In one row of pixels one curve may be higher than another one to its left, and only pixels have them level.
        """
        names = {number: name for name, (number, _) in name_curves(curves).places.items()}
        if {*names.values()} <= {"outer", "hole1"}:
            return self
        from scipy.spatial import cKDTree  # noqa: PLC0415  it takes longer to import than all of NumPy

        grid = Grid(*self.mask.shape)
        points = [curve.resampled(4 + int(2 * curve.arc_lengths[-1] / grid.h)) for curve in curves]
        curve_of = np.repeat(np.arange(len(curves)), [len(each) for each in points])
        tree = cKDTree(np.concatenate(points) / grid.h - 0.5)
        followed: dict[str, Loop] = {}
        for own, loop in self.loops.items():
            _, nearest = tree.query(loop[:, ::-1])
            name = names[int(np.bincount(curve_of[nearest]).argmax())]
            if name in followed or name.startswith("outer") != own.startswith("outer"):
                return self
            followed[name] = loop
        return replace(self, loops={name: followed[name] for name in names.values() if name in followed})

    def __str__(self) -> str:
        return list_some([f"{name} ({len(loop)} pixels)" for name, loop in self.loops.items()])


def name_loops(mask: Mask) -> NamedLoops:
    """Trace and name the boundary loops of a mask."""
    traced = trace_boundary(mask)
    if len(traced) > MOST_LOOPS:
        raise DisolError(
            f"The domain has {len(traced)} boundary loops on this grid, at most {MOST_LOOPS} can be named. "
            "Remove specks from it, and fill small holes."
        )
    labels, _ = parts(mask)
    outer: dict[int, Loop] = {}
    holes = []
    for walk in traced:
        highest = np.lexsort((walk[:, 1], walk[:, 0]))[0]  # the leftmost of those
        loop = np.roll(walk, -highest, axis=0)
        part = int(labels[tuple(loop[0])])
        if part in outer:
            holes.append(loop)
        else:
            outer[part] = loop
    holes.sort(key=lambda hole: tuple(hole[0]))
    loops = {"outer" if part == 1 else f"outer{part}": loop for part, loop in outer.items()}
    loops.update({f"hole{number}": hole for number, hole in enumerate(holes, start=1)})
    return NamedLoops(mask, loops)


@dataclass(frozen=True)
class NamedCurves:
    """Curves by loop name: the number of each, and the fraction of its length where the loop starts."""

    places: dict[str, tuple[int, float]]

    def segments(self, ranges: tuple[LoopRange, ...]) -> list[tuple[Segment, float]]:
        """Return each range as a segment of its curve, with its value, by default 1."""
        found = []
        for wanted in ranges:
            if wanted.loop not in self.places:
                raise DisolError(
                    f"There is no boundary loop {shown(wanted.loop)}. The loops are {list_some(list(self.places))}."
                )
            curve, first = self.places[wanted.loop]
            length = wanted.end - wanted.start if wanted.start < wanted.end else 1.0 + wanted.end - wanted.start
            segment = Segment((first + wanted.start) % 1.0, length, curve)
            found.append((segment, 1.0 if wanted.value is None else wanted.value))
        return found


def name_curves(curves: Sequence[Curve]) -> NamedCurves:
    """Name curves, clockwise ones as outer; like loops of pixels they start at their highest point, the leftmost."""
    tops = []
    for curve in curves:
        x, y = curve.points.T
        tops.append(int(np.argmin(np.where(y <= y.min() + LEVEL, x, np.inf))))
    x, y = np.stack([curve.points[top] for curve, top in zip(curves, tops, strict=True)]).T
    downwards = np.argsort(y, kind="stable")
    level = np.zeros(len(curves), dtype=int)
    level[downwards] = np.cumsum(np.diff(y[downwards], prepend=y.min()) > LEVEL)
    places: dict[str, tuple[int, float]] = {}
    counts = {"outer": 0, "hole": 0}
    for number in np.lexsort((x, level)).tolist():
        lengths = curves[number].arc_lengths
        first = float(lengths[tops[number]] / lengths[-1])
        kind = "outer" if curves[number].signed_area > 0 else "hole"
        counts[kind] += 1
        places[kind if (kind, counts[kind]) == ("outer", 1) else f"{kind}{counts[kind]}"] = number, first
    return NamedCurves(places)


def list_some(names: list[str]) -> str:
    """List names, only the first ones if there are many."""
    more = f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
    return ", ".join(names[:MOST_LISTED]) + more


def pixels_between(loop: Loop, start: float, end: float) -> Loop:
    """Return the pixels whose place along a loop, as a fraction of its length, is in [start, end).

    Lengths are measured from pixel centre to pixel centre, so that adjacent ranges share no pixel. A range shorter than
    a pixel is the one pixel it starts in.
    """
    steps = np.hypot(*(np.roll(loop, -1, axis=0) - loop).T)
    place = np.concatenate([[0.0], np.cumsum(steps)[:-1]]) / max(float(steps.sum()), 1.0)
    chosen = (place >= start) & (place < end) if start < end else (place >= start) | (place < end)
    return loop[chosen] if chosen.any() else loop[[np.searchsorted(place, start, side="right") - 1]]
