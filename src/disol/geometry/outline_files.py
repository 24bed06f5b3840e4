"""Domains given as polygons, in a JSON file or as its content."""

import json
from collections.abc import Mapping, Sized
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from disol._checks import is_number
from disol._files import as_path, read_regular
from disol.errors import DisolError, shown
from disol.geometry.curve import Curve, Geometry, fill, without_repeats
from disol.geometry.frame import Frame
from disol.geometry.region import SAME, Region, find_contact, is_line
from disol.grid import Grid

Points = Float[np.ndarray, "point 2"]
Part = list[Float[np.ndarray, "_ 2"]]  # an outer polygon and its holes

DRAWING, GRID = COORDINATES = ("drawing", "grid")  # what the coordinates of an outline refer to
MARGIN = 0.05  # left on every side of an outline that is fitted into the square
SMALLEST = 0.1  # extent of an outline in the unit square that is used as it is
MOST_BYTES = 2**23
MOST_HOLES = 1000
MOST_PARTS = 100
MOST_POINTS = 2000  # of one polygon
MOST_POINTS_TOGETHER = 20_000
ROUNDED = 4 * np.finfo(float).eps  # of the largest coordinate: consecutive points that are closer are one
FARTHEST = 1e100  # largest coordinate; beyond it, squares overflow, and below its reciprocal quotients do
JUDGED_ON = Grid(256, 256)
EXPECTED = '{"outer": [[x, y], ...], "holes": [[[x, y], ...], ...]}, or a GeoJSON Polygon or MultiPolygon'


def read_outline(source: str | Path | Mapping[str, Any], coordinates: str | None = None) -> tuple[Geometry, Frame]:
    """Read polygons from a file or its content; return them on the grid, and where the grid lies in their drawing.

    A file holds `outer` and `holes` with y downwards, or a GeoJSON Polygon or MultiPolygon, alone or as the one
    feature, whose y points up. The polygons of a MultiPolygon are parts that lie apart.

    An outline in grid coordinates is used as it is. One in drawing coordinates is moved and scaled, x and y alike, so
    that it fills the square up to a margin of 5 %. By default, an outline inside the unit square is in grid
    coordinates, unless it is very small.
    """
    name = "the geometry" if isinstance(source, Mapping) else str(as_path("path", source))
    content = _as_json(source) if isinstance(source, Mapping) else _read_json(as_path("path", source))
    parts, upwards = read_polygons(name, content)
    low, high = (end([end(outer, axis=0) for outer, *_ in parts], axis=0) for end in (np.min, np.max))
    extent, corner = float((high - low).max()), np.array([0.0, -1.0 if upwards else 0.0])  # of the unit square
    is_outside = bool((low < corner).any() or (high > corner + 1).any())
    if is_outside and coordinates == GRID:
        raise DisolError(f"{name} leaves the unit square, which the grid covers. Pass coordinates={DRAWING!r}.")
    if coordinates == DRAWING or (coordinates is None and (is_outside or extent < SMALLEST)):
        length, centre = extent / (1 - 2 * MARGIN), 0.5 * (low + high)
        parts = [[0.5 + (points - centre) / length for points in part] for part in parts]
        corner = centre - 0.5 * length
    else:
        length = 1.0
        parts = [[points - corner for points in part] for part in parts]
    left, top = corner.tolist()
    frame = Frame((left, -top if upwards else top), length, upwards)
    first, *further = (_join(_which(number, parts, name), part) for number, part in enumerate(parts, start=1))
    geometry = replace(first, further=tuple(further))
    if further:  # that parts lie apart is required of pixels, too, which would join them
        with frame.in_drawing():
            Region.from_geometry(geometry)
    return geometry, frame


def _which(number: int, parts: Sized, path: str) -> str:
    """Name a part, if there are several."""
    return path if len(parts) == 1 else f"part {number} of {path}"


def _join(name: str, part: Part) -> Geometry:
    """Make a domain of its outer polygon and its holes, which must lie inside."""
    outer, *holes = part
    low, high = outer.min(axis=0), outer.max(axis=0)
    geometry = Geometry(Curve(outer), tuple(map(Curve, holes)))
    outside = ~fill(geometry.outer.points, JUDGED_ON)
    for number, hole in enumerate(geometry.holes, start=1):
        # The pixels alone would miss holes beside the unit square, of which they cover nothing.
        is_beside = bool(((hole.points < low) | (hole.points > high)).any())
        if is_beside or (fill(hole.points, JUDGED_ON) & outside).any():
            raise DisolError(f"Hole {number} of {name} reaches outside the outer polygon. Move it inside.")
    return geometry


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


def read_polygons(path: str, content: Any) -> tuple[list[Part], bool]:
    """Read the polygons of all parts, and tell whether y points up in the file; if so, y is negated."""
    if isinstance(content, dict) and content.get("type") == "FeatureCollection":
        features = content.get("features")
        if isinstance(features, list) and len(features) > 1:
            raise DisolError(f"{path} must hold one feature, got {len(features)}. Keep the one to solve on.")
        content = features[0] if isinstance(features, list) and features else None
    if isinstance(content, dict) and content.get("type") == "Feature":
        content = content.get("geometry")
    parts: Any = None
    upwards = isinstance(content, dict) and content.get("type") in ("Polygon", "MultiPolygon")
    if isinstance(content, dict) and upwards:
        given = content.get("coordinates")
        parts = given if content["type"] == "MultiPolygon" else [given]
    elif isinstance(content, dict) and "outer" in content:
        if unknown := sorted(set(content) - {"outer", "holes"}):
            raise DisolError(f"{path} must hold outer and holes only, got {shown(', '.join(unknown))} as well.")
        holes = content.get("holes", [])
        parts = [[content["outer"], *holes]] if isinstance(holes, list) else None
    if not isinstance(parts, list) or not parts or not all(isinstance(rings, list) and rings for rings in parts):
        raise DisolError(f"{path} must hold {EXPECTED}.")
    count = sum(len(rings) - 1 for rings in parts)
    if count > MOST_HOLES:
        raise DisolError(f"{path} must have at most {MOST_HOLES} holes, got {count}.")
    if len(parts) > MOST_PARTS:
        raise DisolError(f"{path} must have at most {MOST_PARTS} parts, got {len(parts)}.")
    count = sum(len(ring) for rings in parts for ring in rings if isinstance(ring, list))
    if count > MOST_POINTS_TOGETHER:
        raise DisolError(f"{path} must have at most {MOST_POINTS_TOGETHER} points, got {count}.")
    numbers = (2, 3) if upwards else (2,)  # points of GeoJSON may have an altitude
    read = []
    for number, rings in enumerate(parts, start=1):
        where = _which(number, parts, path)
        names = ["The outer polygon", *(f"Hole {hole}" for hole in range(1, len(rings)))]
        part = [read_polygon(f"{name} of {where}", ring, numbers) for name, ring in zip(names, rings, strict=True)]
        read.append([points * [1, -1] for points in part] if upwards else part)
    return read, upwards


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
