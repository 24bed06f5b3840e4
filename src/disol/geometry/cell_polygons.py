"""The polygons that make up a domain on a grid: whole pixels, and triangles where the boundary cuts pixels.

Vertices are shared where elements share unknowns, so that a wall thinner than a pixel separates the polygons on its two
sides. Triangles use the vertices of their connected component; a component with a hole is divided into trapezoids
first. All lengths are in pixels, and polygons run clockwise on the screen.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from jaxtyping import Bool, Float, Int

from disol.geometry.cell_components import OFFSETS, Component, find_components, find_runs
from disol.geometry.curve import next_points
from disol.geometry.cut_cells import CutCells
from disol.geometry.pieces import Pieces, cover, split_loops
from disol.geometry.region import Arc
from disol.geometry.triangles import triangulate

# Corners at the two ends of each side of a pixel: top, right, bottom, left.
ENDS = np.array([(0, 1), (1, 2), (3, 2), (0, 3)])

Polygon = Float[np.ndarray, "vertex 2"]


@dataclass(frozen=True, eq=False)
class Polygons:
    """Polygons by the numbers of their vertices.

    vertices   column and row of each vertex, as fractions
    element    the element whose function gives the value at each vertex
    numbers    vertex numbers of all polygons, one polygon after the other
    ends       position in `numbers` after the last vertex of each polygon
    pixel      row and column of the pixel of each polygon
    """

    vertices: Float[np.ndarray, "point 2"]
    element: Int[np.ndarray, " point"]
    numbers: Int[np.ndarray, " corner"]
    ends: Int[np.ndarray, " polygon"]
    pixel: Int[np.ndarray, "polygon 2"]


def cell_polygons(cells: CutCells, arcs: Sequence[Arc]) -> Polygons:
    """Divide a domain into polygons; `arcs` are those at whose ends its pieces were split."""
    pieces = split_loops(cells.region, cells.grid, arcs)
    covered = cover(pieces, cells.grid)
    is_whole = covered.whole | (covered.cut & (cells.element_at >= cells.num_cut))
    rows, columns = np.nonzero(is_whole & (cells.element_at >= 0))
    corner = np.stack([columns, rows], axis=1)
    found = [(corner[:, None] + OFFSETS).reshape(-1, 2).astype(float)]
    elements = [np.repeat(cells.element_at[rows, columns], 4)]
    sizes, pixels = [np.full(len(rows), 4)], [np.stack([rows, columns], axis=1)]
    for place, polygon, number in _cut_polygons(cells, pieces, covered.cut & ~is_whole, covered.winding):
        found.append(polygon + place[::-1])
        elements.append(np.full(len(polygon), number))
        sizes.append(np.array([len(polygon)]))
        pixels.append(np.array([place]))
    points, element = np.concatenate(found), np.concatenate(elements)
    pixel, size = np.concatenate(pixels), np.concatenate(sizes)
    keys = np.concatenate([points, _joints(cells, points, element, np.repeat(pixel, size, axis=0))], axis=1)
    order = np.lexsort(keys.T[::-1])  # np.unique sorts rows three times as slowly
    ordered = keys[order]
    is_first = np.append(True, (ordered[1:] != ordered[:-1]).any(axis=1))
    first, numbers = order[is_first], np.empty(len(keys), dtype=int)
    numbers[order] = np.cumsum(is_first) - 1
    return Polygons(points[first], element[first], numbers, np.cumsum(size), pixel)


def _joints(
    cells: CutCells,
    points: Float[np.ndarray, "corner 2"],
    element: Int[np.ndarray, " corner"],
    pixel: Int[np.ndarray, "corner 2"],
) -> Float[np.ndarray, "corner 2"]:
    """Return a key that two vertices at one place share if they are one: the unknowns at the ends of their side."""
    local = points - cells.corner[element]
    own = (cells.corner[element] == pixel[:, ::-1]).all(axis=1)  # not a neighbour that took a sliver
    joints = np.stack([-1.0 - element, np.full(len(points), -1.0)], axis=1)
    sides = local[:, 1] == 0, local[:, 0] == 1, local[:, 1] == 1, local[:, 0] == 0
    for ends, on_side in zip(ENDS, sides, strict=True):
        joints[own & on_side] = cells.nodes[element[own & on_side]][:, ends]
    for number, offset in enumerate(OFFSETS):
        here = own & (local == offset).all(axis=1)
        joints[here] = cells.nodes[element[here], number][:, None]
    return joints


def _cut_polygons(
    cells: CutCells,
    pieces: Pieces,
    cut: Bool[np.ndarray, "height width"],
    winding: Float[np.ndarray, "height width"],
) -> Iterator[tuple[tuple[int, int], Polygon, int]]:
    """Yield the pixel, the polygon relative to its top left corner, and the element, for all cut pixels."""
    for pixel, found in find_components(pieces, find_runs(pieces), cut, winding):
        known = cells.parted.get(pixel)
        numbers = [int(cells.element_at[pixel])] if known is None else [number for _, number in known]
        for component, element in zip(found, numbers, strict=True):
            for polygon in _polygons(component) if element >= 0 else ():
                yield pixel, polygon, element


def _polygons(component: Component) -> Iterator[Polygon]:
    """Yield the triangles of a component, via trapezoids if it has holes."""
    outline = component.outline.points
    if component.holes:
        loops = [outline, *(hole.points for hole in component.holes)]
        parts = _trapezoids(np.concatenate(loops), np.concatenate([next_points(loop) for loop in loops]))
    else:
        parts = iter([outline[(outline != next_points(outline)).any(axis=1)]])
    for part in parts:
        yield from part[triangulate(part)]


def _trapezoids(start: Polygon, end: Polygon) -> Iterator[Polygon]:
    """Divide the area enclosed by some sides at the heights of all their ends."""
    heights = np.unique(start[:, 1])
    for top, bottom in pairwise(heights.tolist()):
        crossing = (np.minimum(start, end)[:, 1] <= top) & (np.maximum(start, end)[:, 1] >= bottom)
        (x0, y0), (x1, y1) = start[crossing].T, end[crossing].T
        above, below = (x0 + (height - y0) / (y1 - y0) * (x1 - x0) for height in (top, bottom))
        order = np.argsort(above + below)
        for left, right in order.reshape(-1, 2):
            ring = [(above[left], top), (above[right], top), (below[right], bottom), (below[left], bottom)]
            yield np.array([point for point, after in zip(ring, [*ring[1:], ring[0]], strict=True) if point != after])
