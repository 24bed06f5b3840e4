"""From seeds to domains: random outlines, holes, named shapes, their masks, and segments of their boundaries.

Names for regions with true boundaries are imported on first use.
"""

from typing import TYPE_CHECKING

from disol._lazy import lazy_names
from disol.geometry.boundary import Raster, Segment, draw_segments, trace_boundary
from disol.geometry.curve import Curve, Geometry, parts
from disol.geometry.outline import draw_geometry, draw_outline
from disol.geometry.shapes import named_shape

if TYPE_CHECKING:
    from disol.geometry.cut_cells import CutCells, cut
    from disol.geometry.region import Arc, Region

_CUT_NAMES = {"Arc": "region", "CutCells": "cut_cells", "Region": "region", "cut": "cut_cells"}

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

__getattr__ = lazy_names(__name__, _CUT_NAMES, __all__)
