"""Domains that a user wrote down as polygons in a JSON file."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from disol.errors import DisolError
from disol.geometry.curve import Curve, Geometry
from disol.grid import Grid

Points = Float[np.ndarray, "point 2"]

MARGIN = 0.05  # left on every side of an outline that is fitted into the square
MOST_POINTS = 2000  # of one polygon; every pair of sides is tested for crossing
JUDGED_ON = Grid(256, 256)
EXPECTED = '{"outer": [[x, y], ...], "holes": [[[x, y], ...], ...]} or a GeoJSON Polygon'


def read_outline(path: str | Path) -> tuple[Geometry, bool]:
    """Read polygons, and tell whether they had to be fitted into the unit square.

    A file holds `outer` and `holes` with y downwards, or a GeoJSON Polygon or Feature, whose y points up.

    An outline inside the unit square is used as it is. Any other is moved and scaled, x and y alike, so that it
    fills the square up to a margin of 5 %.
    """
    outer, *holes = read_polygons(Path(path))
    low, high = outer.min(axis=0), outer.max(axis=0)
    fitted = bool((low < 0).any() or (high > 1).any())
    if fitted:
        scale = (1 - 2 * MARGIN) / float((high - low).max())
        outer, *holes = (0.5 + scale * (points - 0.5 * (low + high)) for points in (outer, *holes))
    geometry = Geometry(Curve(outer), tuple(map(Curve, holes)))
    inside = geometry.outer.inside(JUDGED_ON)
    low, high = outer.min(axis=0), outer.max(axis=0)
    for number, (hole, points) in enumerate(zip(geometry.holes, holes, strict=True), start=1):
        # Pixels alone would not tell: those of the square know nothing of what lies beside it.
        if ((points < low) | (points > high)).any() or (hole.inside(JUDGED_ON) & ~inside).any():
            raise DisolError(f"Hole {number} of {path} reaches outside the outer polygon. Move it inside.")
    return geometry, fitted


def read_polygons(path: Path) -> list[Points]:
    """Read the outer polygon and the holes of a file, y downwards."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DisolError(f"Cannot read {path}: {error.strerror}. Give the path of a JSON file.") from error
    except (ValueError, RecursionError) as error:
        raise DisolError(f"{path} is not JSON: {error}. Write {EXPECTED}.") from error
    if isinstance(content, dict) and content.get("type") == "Feature":
        content = content.get("geometry")
    if isinstance(content, dict) and content.get("type") == "Polygon":
        rings, up = content.get("coordinates"), True
    elif isinstance(content, dict) and "outer" in content and not set(content) - {"outer", "holes"}:
        holes = content.get("holes", [])
        rings, up = [content["outer"], *holes] if isinstance(holes, list) else None, False
    else:
        rings, up = None, False
    if not isinstance(rings, list) or not rings:
        raise DisolError(f"{path} must hold {EXPECTED}. Rewrite it so.")
    names = ["The outer polygon", *(f"Hole {number}" for number in range(1, len(rings)))]
    numbers = (2, 3) if up else (2,)  # points of GeoJSON may have an altitude
    polygons = [read_polygon(f"{name} of {path}", ring, numbers) for name, ring in zip(names, rings, strict=True)]
    return [points * [1, -1] + [0, 1] for points in polygons] if up else polygons


def read_polygon(name: str, ring: Any, numbers: tuple[int, ...]) -> Points:
    """Read one closed polygon, whose last point may repeat the first; of the numbers of a point the first two count."""
    try:
        written = [tuple(map(float, point)) for point in ring]
    except (TypeError, ValueError, OverflowError):
        written = [()]
    if any(len(point) not in numbers for point in written):
        raise DisolError(f"{name} must be a list of points [x, y], got {str(ring)[:60]}. Rewrite it so.")
    points = np.array([point[:2] for point in written])
    if not np.isfinite(points).all():
        raise DisolError(f"{name} has coordinates that are not finite. Replace them.")
    if len(points):
        points = points[(points != np.roll(points, 1, axis=0)).any(axis=1)]
    if not 3 <= len(points) <= MOST_POINTS:
        raise DisolError(f"{name} must have 3 to {MOST_POINTS} different points, got {len(points)}. Add or drop some.")
    extent = points.max(axis=0) - points.min(axis=0)
    curve = Curve((points - points.min(axis=0)) / extent.max())
    if curve.crosses_itself():
        raise DisolError(f"{name} crosses or touches itself. Order its points along the boundary, each once.")
    if abs(curve.signed_area) < 1e-9:
        raise DisolError(f"{name} has no area: its points lie on one line. Move some of them.")
    return points
