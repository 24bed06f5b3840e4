"""Loops around the bright area of a picture, at its own resolution: marching squares between pixel centres."""

import numpy as np
from jaxtyping import Float

from disol.geometry.curve import Curve
from disol.grid import Grid

NEAREST = 1e-6  # smallest distance of a loop from a pixel centre, as a share of the way to the next

# Sides of the square between four pixel centres, clockwise from the top: each from one centre to the next, as
# (row, column) steps from its top left centre.
SIDES = (((0, 0), (0, 1)), ((0, 1), (1, 1)), ((1, 1), (1, 0)), ((1, 0), (0, 0)))


def trace_levels(levels: Float[np.ndarray, "height width"], level: float = 0.5) -> tuple[Curve, ...]:
    """Trace the boundary of the area where levels, linear between pixel centres, exceed `level`; it lies on the right.

    A loop enters a square where, clockwise, a centre inside is followed by one outside, and leaves it where the
    opposite holds. If opposite centres agree in pairs, the mean of all four decides which pair is connected. Beyond its
    edges the picture is reflected to the other side of the level, so that loops run along them.
    """
    height, width = levels.shape
    framed = np.pad(levels - level, 1, mode="edge")
    frame = np.ones_like(framed, dtype=bool)
    frame[1:-1, 1:-1] = False
    framed[frame] = -np.abs(framed[frame])
    inside = framed > 0
    entered = np.stack([_shifted(inside, start) & ~_shifted(inside, stop) for start, stop in SIDES], axis=-1)
    count = sum(_shifted(inside, start).astype(int) for start, _ in SIDES)
    centre_inside = sum(_shifted(framed, start) for start, _ in SIDES) > 0
    rows, columns, entries = np.nonzero(entered)
    # The side before the entry, clockwise, cuts off one centre inside; the side after it one outside.
    turn = np.where(count == 1, -1, np.where(count == 3, 1, 2))
    turn = np.where(entered.sum(axis=-1) == 2, np.where(centre_inside, 1, -1), turn)
    exits = (entries + turn[rows, columns]) % 4
    starts, stops = (_numbers(rows, columns, side, framed.shape) for side in (entries, exits))
    points = dict(zip(starts.tolist(), _crossings(rows, columns, entries, framed).tolist(), strict=True))
    successors = dict(zip(starts.tolist(), stops.tolist(), strict=True))
    loops, h = [], Grid(height, width).h
    for first in list(successors):
        walk, here = [], first
        while here in successors:
            walk.append(points[here])
            here = successors.pop(here)
        if walk:
            loops.append(Curve(h * np.clip(np.array(walk), 0, [width, height])))
    return tuple(loops)


def _shifted(values: np.ndarray, step: tuple[int, int]) -> np.ndarray:
    """Return the values at one of the four centres of every square."""
    rows, columns = (slice(at, size - 1 + at) for at, size in zip(step, values.shape, strict=True))
    return values[rows, columns]


def _numbers(rows: np.ndarray, columns: np.ndarray, sides: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Number the sides of squares, horizontal ones first; a side shared by two squares has one number."""
    at = rows * shape[1] + columns
    across, down = shape[0] * shape[1], shape[1]
    return np.choose(sides, [at, across + at + 1, at + down, across + at])


def _crossings(
    rows: np.ndarray, columns: np.ndarray, sides: np.ndarray, framed: Float[np.ndarray, "rows columns"]
) -> Float[np.ndarray, "crossing 2"]:
    """Return where the level is crossed on sides of squares, in pixels."""
    ends = np.array(SIDES)[sides]  # [crossing, start or stop, row or column]
    place = np.stack([rows, columns], axis=1)[:, None] + ends
    start, stop = (framed[place[:, end, 0], place[:, end, 1]] for end in (0, 1))
    share = np.clip(start / (start - stop), NEAREST, 1 - NEAREST)
    met = place[:, 0] + share[:, None] * (place[:, 1] - place[:, 0])
    return met[:, ::-1] - 0.5
