"""Domains given as polygons, in a JSON file or as its content."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from disol._checks import is_number
from disol._files import as_path, read_regular
from disol.errors import DisolError, shown
from disol.geometry.curve import Curve, Geometry, fill, without_repeats
from disol.geometry.frame import Frame
from disol.geometry.region import SAME, find_contact, is_line
from disol.grid import Grid

Points = Float[np.ndarray, "point 2"]

DRAWING, GRID = COORDINATES = ("drawing", "grid")  # what the coordinates of an outline refer to
MARGIN = 0.05  # left on every side of an outline that is fitted into the square
SMALLEST = 0.1  # extent of an outline in the unit square that is used as it is
MOST_BYTES = 2**23
MOST_HOLES = 1000
MOST_POINTS = 2000  # of one polygon
MOST_POINTS_TOGETHER = 20_000
ROUNDED = 4 * np.finfo(float).eps  # of the largest coordinate: consecutive points that are closer are one
FARTHEST = 1e100  # largest coordinate; beyond it, squares overflow, and below its reciprocal quotients do
JUDGED_ON = Grid(256, 256)
EXPECTED = '{"outer": [[x, y], ...], "holes": [[[x, y], ...], ...]} or a GeoJSON Polygon'


def read_outline(source: str | Path | Mapping[str, Any], coordinates: str | None = None) -> tuple[Geometry, Frame]:
    """Read polygons from a file or its content; return them on the grid, and where the grid lies in their drawing.

    A file holds `outer` and `holes` with y downwards, or a GeoJSON Polygon, alone or as the one feature,
    whose y points up.

    An outline in grid coordinates is used as it is. One in drawing coordinates is moved and scaled, x and y alike, so
    that it fills the square up to a margin of 5 %. By default, an outline inside the unit square is in grid
    coordinates, unless it is very small.
    """
    name = "the geometry" if isinstance(source, Mapping) else str(as_path("path", source))
    content = _as_json(source) if isinstance(source, Mapping) else _read_json(as_path("path", source))
    (outer, *holes), upwards = read_polygons(name, content)
    low, high = outer.min(axis=0), outer.max(axis=0)
    for number, points in enumerate(holes, start=1):
        # A check on pixels, as below, would miss this: they cover nothing beside the unit square.
        if ((points < low) | (points > high)).any():
            raise DisolError(f"Hole {number} of {name} reaches outside the outer polygon. Move it inside.")
    extent, corner = float((high - low).max()), np.array([0.0, -1.0 if upwards else 0.0])  # of the unit square
    is_outside = bool((low < corner).any() or (high > corner + 1).any())
    if is_outside and coordinates == GRID:
        raise DisolError(f"{name} leaves the unit square, which the grid covers. Pass coordinates={DRAWING!r}.")
    if coordinates == DRAWING or (coordinates is None and (is_outside or extent < SMALLEST)):
        length, centre = extent / (1 - 2 * MARGIN), 0.5 * (low + high)
        outer, *holes = (0.5 + (points - centre) / length for points in (outer, *holes))
        corner = centre - 0.5 * length
    else:
        length = 1.0
        outer, *holes = (points - corner for points in (outer, *holes))
    left, top = corner.tolist()
    frame = Frame((left, -top if upwards else top), length, upwards)
    geometry = Geometry(Curve(outer), tuple(map(Curve, holes)))
    outside = ~geometry.outer.inside(JUDGED_ON)
    for number, hole in enumerate(geometry.holes, start=1):
        if (fill(hole.points, JUDGED_ON) & outside).any():
            raise DisolError(f"Hole {number} of {name} reaches outside the outer polygon. Move it inside.")
    return geometry, frame


def _as_json(content: Mapping[str, Any]) -> Any:
    """Convert tuples and arrays to lists, as a file has them."""
    try:
        return json.loads(json.dumps(dict(content), default=np.ndarray.tolist))
    except (TypeError, ValueError, RecursionError):
        raise DisolError(f"The geometry must be {EXPECTED}, got {shown(content)}.") from None


def _read_json(path: Path) -> Any:
    try:
        return json.loads(read_regular(path, MOST_BYTES).decode("utf-8-sig"))  # editors may mark it
    except DisolError:
        raise
    except ValueError as error:
        raise DisolError(f"{path} is not JSON: {error}. Write {EXPECTED}.") from error
    except RecursionError:
        raise DisolError(f"{path} is nested too deeply. Write {EXPECTED}.") from None


def read_polygons(path: str, content: Any) -> tuple[list[Points], bool]:
    """Read the outer polygon and the holes, and tell whether y points up in the file; if so, y is negated."""
    if isinstance(content, dict) and content.get("type") == "FeatureCollection":
        features = content.get("features")
        if isinstance(features, list) and len(features) > 1:
            raise DisolError(f"{path} must hold one feature, got {len(features)}. Keep the one to solve on.")
        content = features[0] if isinstance(features, list) and features else None
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
        raise DisolError(f"{path} must hold {EXPECTED}.")
    if len(rings) > 1 + MOST_HOLES:
        raise DisolError(f"{path} must have at most {MOST_HOLES} holes, got {len(rings) - 1}.")
    count = sum(len(ring) for ring in rings if isinstance(ring, list))
    if count > MOST_POINTS_TOGETHER:
        raise DisolError(f"{path} must have at most {MOST_POINTS_TOGETHER} points, got {count}.")
    names = ["The outer polygon", *(f"Hole {number}" for number in range(1, len(rings)))]
    numbers = (2, 3) if up else (2,)  # points of GeoJSON may have an altitude
    polygons = [read_polygon(f"{name} of {path}", ring, numbers) for name, ring in zip(names, rings, strict=True)]
    return [points * [1, -1] for points in polygons] if up else polygons, up


def read_polygon(name: str, ring: Any, numbers: tuple[int, ...]) -> Points:
    """Read one closed polygon, whose last point may repeat the first; points may have more than two coordinates."""
    is_list = isinstance(ring, list) and all(isinstance(point, list) and len(point) in numbers for point in ring)
    if not is_list or not all(is_number(coordinate) for point in ring for coordinate in point):
        raise DisolError(f"{name} must be a list of points [x, y], got {shown(ring)}.")
    # Compared before they become floats, for which integers can be too large.
    if not all(abs(coordinate) <= FARTHEST for point in ring for coordinate in point[:2]):
        raise DisolError(f"{name} has coordinates that are not finite, or beyond {FARTHEST:g}.")
    points = np.array([point[:2] for point in ring], dtype=float).reshape(-1, 2)
    extent = float(np.ptp(points, axis=0).max()) if len(points) else 0.0
    # A computed point that repeats another may be written with slightly different digits.
    rounding = ROUNDED * float(np.abs(points).max(initial=0.0))
    points = without_repeats(points, max(SAME * extent, rounding))
    if not 3 <= len(points) <= MOST_POINTS:
        raise DisolError(f"{name} must have 3 to {MOST_POINTS} different points, got {len(points)}.")
    curve = Curve((points - points.min(axis=0)) / max(extent, 1 / FARTHEST))
    contact = None if is_line(curve.points) else find_contact((curve,))
    if contact is not None:
        x, y = (points.min(axis=0) + extent * contact[2]).tolist()
        raise DisolError(
            f"{name} crosses or touches itself near {x:.4g}, {y:.4g}. Order its points along the boundary, each once."
        )
    if abs(curve.signed_area) < 1e-9:
        raise DisolError(f"{name} has no area: its points lie on one line.")
    return points
