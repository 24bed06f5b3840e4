"""Seed to domain: random outlines, holes, named shapes, their masks, and segments of their boundaries."""

from disol.geometry.boundary import Raster, Segment, draw_segments, trace_boundary
from disol.geometry.curve import Curve, Geometry, parts
from disol.geometry.cut_cells import CutCells, cut
from disol.geometry.outline import draw_geometry, draw_outline
from disol.geometry.region import Arc, Region
from disol.geometry.shapes import named_shape

__all__ = [
    "Arc",
    "Curve",
    "CutCells",
    "Geometry",
    "Raster",
    "Region",
    "Segment",
    "cut",
    "draw_geometry",
    "draw_outline",
    "draw_segments",
    "named_shape",
    "parts",
    "trace_boundary",
]
