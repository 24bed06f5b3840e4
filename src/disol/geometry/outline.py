"""Random outlines, concave envelopes of random points rounded by a B-spline, and holes of the same kind."""

import numpy as np
from jaxtyping import Bool, Float

from disol.errors import DisolError
from disol.geometry.curve import Curve, Geometry, eroded, next_points, parts
from disol.geometry.envelope import concave_envelope
from disol.grid import Grid, framed

NUM_POINTS = 20
HOLE_POINTS = 10
HOLE_ALPHA = (0.2, 0.85)
SMALLEST_AREA = 0.05
SAMPLES_PER_VERTEX = 32
# Outlines are judged on one grid, so that a case has the same outline at every resolution; holes are judged in
# their own box, which is about a quarter as large.
JUDGED_ON = Grid(64, 64)
HOLE_JUDGED_ON = Grid(16, 16)
WALL = 2  # pixels of that grid that must remain between a hole and the outer boundary
PLACES_PER_HOLE = 64
HOLES_PER_OUTLINE = 10
MOST_OUTLINES = 100
MOST_TRIES = 1000


def closed_spline(vertices: Float[np.ndarray, "vertex 2"], samples: int) -> Curve:
    """Sample the closed quadratic B-spline with these control points.

    Piece i is ½(1−t)² Pᵢ₋₁ + (½ + t − t²) Pᵢ + ½t² Pᵢ₊₁, from the midpoint of one side to that of the next.
    """
    t = (np.arange(samples) / samples)[None, :, None]
    before, after = np.concatenate([vertices[-1:], vertices[:-1]]), next_points(vertices)
    pieces = 0.5 * (1 - t) ** 2 * before[:, None] + (0.5 + t - t**2) * vertices[:, None] + 0.5 * t**2 * after[:, None]
    return Curve(pieces.reshape(-1, 2))


def is_sound(curve: Curve, grid: Grid) -> bool:
    """Tell whether a curve bounds a large enough area, without necks or inlets that pixels could cut or close."""
    mask = curve.inside(grid)
    if mask.mean() < SMALLEST_AREA:
        return False
    return parts(~framed(mask))[1] == 1 and parts(eroded(mask))[1] == 1


def draw_outline(
    rng: np.random.Generator, num_points: int = NUM_POINTS, alpha: float = 0.8, judged_on: Grid = JUDGED_ON
) -> Curve:
    """Draw a smooth closed curve around random points in the unit square; a larger `alpha` hugs them more closely."""
    for _ in range(MOST_TRIES):
        vertices = concave_envelope(rng.random((num_points, 2)), alpha)
        if closed_spline(vertices, samples=6).crosses_itself():
            continue
        curve = closed_spline(vertices, SAMPLES_PER_VERTEX).oriented(clockwise=True)
        if is_sound(curve, judged_on):
            return curve
    raise DisolError(
        f"No sound outline was found in {MOST_TRIES} draws with num_points={num_points}, alpha={alpha}. "
        "Use more points or a smaller alpha."
    )


def draw_hole(rng: np.random.Generator, outer: Curve, size: tuple[float, float]) -> Curve | None:
    """Draw a hole inside `outer`, from points in a box whose side is uniform in `size`; None if none fits."""
    room = eroded(outer.inside(JUDGED_ON), WALL)
    if not room.any():
        return None
    for _ in range(HOLES_PER_OUTLINE):
        side = rng.uniform(*size)
        shape = draw_outline(rng, HOLE_POINTS, rng.uniform(*HOLE_ALPHA), HOLE_JUDGED_ON).points * side
        shape -= 0.5 * (shape.min(axis=0) + shape.max(axis=0))
        centre = find_place(rng, shape[::8], room)
        if centre is not None:
            return Curve(shape + centre)
    return None


def find_place(
    rng: np.random.Generator, shape: Float[np.ndarray, "point 2"], room: Bool[np.ndarray, "height width"]
) -> Float[np.ndarray, "2"] | None:
    """Find a random place where every point of a shape lies in free pixels (`room`) of the grid `JUDGED_ON`."""
    rows, columns = np.nonzero(room)
    places = rng.integers(len(rows), size=PLACES_PER_HOLE)
    centres = (np.stack([columns[places], rows[places]], axis=1) + rng.random((PLACES_PER_HOLE, 2))) * JUDGED_ON.h
    pixels = np.floor((centres[:, None] + shape) / JUDGED_ON.h).astype(int)
    in_grid = ((pixels >= 0) & (pixels < JUDGED_ON.width)).all(axis=(1, 2))
    column, row = np.clip(pixels, 0, JUDGED_ON.width - 1).transpose(2, 0, 1)
    fits = in_grid & room[row, column].all(axis=1)
    return centres[np.argmax(fits)] if fits.any() else None


def draw_geometry(
    outline_rng: np.random.Generator,
    hole_rng: np.random.Generator,
    alpha: float = 0.8,
    hole_size: tuple[float, float] | None = None,
) -> Geometry:
    """Draw a domain: an outline and, if a size is given, a hole; an outline without room for it is redrawn."""
    for _ in range(MOST_OUTLINES):
        outer = draw_outline(outline_rng, alpha=alpha)
        if hole_size is None:
            return Geometry(outer)
        hole = draw_hole(hole_rng, outer, hole_size)
        if hole is not None:
            return Geometry(outer, (hole,))
    raise DisolError(f"No outline had room for a hole of size {hole_size}. Ask for a smaller one, at most about 0.5.")
