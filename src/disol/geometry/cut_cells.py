"""Pixels cut at the true boundary: elements, the unknowns at their corners, and the pieces of boundary they carry.

An element is a whole pixel or a connected component of pixel ∩ domain. Corners of elements are one unknown where the
elements meet across an open side, so that a wall thinner than a pixel separates its two sides: a node may then carry
two unknowns. An element with less than `SMALLEST` of a pixel hands its integrals and its boundary to the neighbour
across its longest open side, whose function is continued into it: nothing is lost but continuity across short sides.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import NamedTuple

import numpy as np
import scipy
from jaxtyping import Float, Int

from disol.errors import DisolError
from disol.geometry.cell_components import OFFSETS, Component, crowded, find_components, find_runs
from disol.geometry.pieces import DEGREE, WHOLE, Covered, Pieces, add_up, cover, shifted, split_loops
from disol.geometry.region import Arc, Region, winds_around
from disol.grid import Grid

SMALLEST = 1e-7  # of a pixel; smaller elements are merged, at the cost of an error as large in linear solutions
THIN = 1e-2  # of a pixel; the moments of smaller parts are computed from their outlines
NOTHING = 1e-8  # of a pixel: a part of the domain that consists of smaller elements is left out
CLOSED = 1e-9  # in pixels: an open side that is shorter joins nothing
TOUCHING = 1e-9  # in units of the square: a point this close to the domain lies on its boundary

# Corners that an element shares with its right and with its lower neighbour: (its own, the neighbour's).
SHARED = (((1, 0), (2, 3)), ((3, 0), (2, 1)))


# Steps to the eight neighbours of a point.
DIRECTIONS = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (1, -1), (-1, 1), (-1, -1))

# Components by the row and column of their pixel, each with the number of its element.
Parted = dict[tuple[int, int], list[tuple[Component, int]]]


@dataclass(frozen=True, eq=False)
class CutCells:
    """A domain on a grid, element by element.

    corner      column and row of the top left corner of each element
    moments     ∫ x^a y^b over element ∩ domain, a, b < 4, in pixels from its top left corner, for the cut elements,
                which come first; all others are whole pixels
    nodes       number of the unknown at each corner, clockwise from the top left
    places      column and row of the node of each unknown; unknowns are counted row by row
    pieces      pieces of the boundary
    element     the element that carries each piece
    handed      area, in pixels, of the slivers that each element has taken
    element_at  the element of each pixel, the largest if there are several; -1 outside
    parted      by (row, column), the elements of pixels that have several, each with its outline
    """

    region: Region
    grid: Grid
    corner: Int[np.ndarray, "element 2"]
    moments: Float[np.ndarray, "cut 4 4"]
    nodes: Int[np.ndarray, "element 4"]
    places: Int[np.ndarray, "unknown 2"]
    pieces: Pieces
    element: Int[np.ndarray, " piece"]
    handed: Float[np.ndarray, " element"]
    element_at: Int[np.ndarray, "height width"]
    parted: Parted

    @property
    def num_cut(self) -> int:
        """Number of elements that are not whole pixels."""
        return len(self.moments)

    @cached_property
    def areas(self) -> Float[np.ndarray, " element"]:
        """Area of each element, in pixels."""
        areas = np.ones(len(self.corner))
        areas[: self.num_cut] = self.moments[:, 0, 0]
        return areas

    def parts(self) -> Int[np.ndarray, " element"]:
        """Return the number of each element's connected part of the domain, from 0; parts share no unknowns."""
        steps = np.stack([self.nodes[:, :-1], self.nodes[:, 1:]]).reshape(2, -1)
        graph = scipy.sparse.coo_array(
            (np.ones(steps.shape[1], dtype=bool), tuple(steps)), shape=2 * (len(self.places),)
        )
        return scipy.sparse.csgraph.connected_components(graph, directed=False)[1][self.nodes[:, 0]]

    def find(
        self, x: Float[np.ndarray, " point"], y: Float[np.ndarray, " point"]
    ) -> tuple[Int[np.ndarray, " point"], Float[np.ndarray, "point 2"]]:
        """Return the element at each point, -1 outside the domain, and the point in pixels from its top left corner.

        The boundary belongs to the domain: a point on it, up to rounding, gets the element that a step of `TOUCHING`
        inwards leads to.
        """
        element = self._find_inside(x, y)
        for step_x, step_y in DIRECTIONS:
            outside = np.flatnonzero(element < 0)
            if not len(outside):
                break
            element[outside] = self._find_inside(x[outside] + TOUCHING * step_x, y[outside] + TOUCHING * step_y)
        return element, np.stack([x, y], axis=1) / self.grid.h - self.corner[element]

    def _find_inside(self, x: Float[np.ndarray, " point"], y: Float[np.ndarray, " point"]) -> Int[np.ndarray, " point"]:
        points = np.stack([x, y], axis=1) / self.grid.h
        column, row = np.clip(np.floor(points).astype(int), 0, [self.grid.width - 1, self.grid.height - 1]).T
        element = np.where(self.region.contains(x, y), self.element_at[row, column], -1)
        for (at_row, at_column), found in self.parted.items():
            here = np.flatnonzero((row == at_row) & (column == at_column) & (element >= 0))
            for component, number in found:
                inside = winds_around(component.outline, points[here] - [at_column, at_row])
                element[here[inside]] = number
        return element

    @cached_property
    def centres(self) -> tuple[Int[np.ndarray, " pixel"], Int[np.ndarray, " pixel"], Int[np.ndarray, " pixel"]]:
        """Row and column of the pixels whose centre lies in the domain, and the element there."""
        inside = self.region.mask(self.grid) & (self.element_at >= 0)
        rows, columns = np.nonzero(inside)
        element = self.element_at[inside]
        parted = np.array([pixel for pixel in self.parted if inside[pixel]], dtype=int).reshape(-1, 2)
        if len(parted):
            place = np.full(self.grid.pixels, -1)
            place[inside] = np.arange(len(rows))
            row, column = parted.T
            found, _ = self.find(self.grid.h * (column + 0.5), self.grid.h * (row + 0.5))
            element[place[row, column]] = found
        known = element >= 0
        return rows[known], columns[known], element[known]


def cut(region: Region, grid: Grid, arcs: Sequence[Arc] = ()) -> CutCells:
    """Cut the pixels of a grid at the boundary of a domain, and split the boundary at the ends of arcs."""
    for arc in arcs:
        if arc.loop >= len(region.loops):
            raise DisolError(f"The domain has loops 0 to {len(region.loops) - 1}, got an arc of loop {arc.loop}.")
    pieces = split_loops(region, grid, arcs)
    _require_pixels(region, pieces, grid)
    covered = cover(pieces, grid)
    if covered.winding.min() < 0 or covered.winding.max() > 1:
        raise DisolError("The loops must keep the domain on their right, and must not cross.")
    # One element for each pixel, cut ones first; then one for each further component.
    corner = np.concatenate([np.argwhere(covered.cut), np.argwhere(covered.whole)])[:, ::-1]
    moments = np.empty((len(corner), DEGREE, DEGREE))
    moments[:] = WHOLE
    moments[: len(covered.moments)] = covered.moments
    number = np.full(grid.pixels, -1)
    number[corner[:, 1], corner[:, 0]] = np.arange(len(corner))
    element = number[pieces.cell[:, 1], pieces.cell[:, 0]]
    sides = _open_sides(covered, number)
    parted = _part(pieces, covered, number, moments)
    if parted:
        sides = _between_components(sides, parted)
        further = [(pixel, part) for pixel, parts in parted.items() for part, _ in parts[1:]]
        corner = np.concatenate([corner, [pixel[::-1] for pixel, _ in further]])
        moments = np.concatenate([moments, [part.moments for _, part in further]])
        for (row, column), parts in parted.items():
            for part, its in parts:
                moments[its], element[part.pieces] = part.moments, its
            number[row, column] = max((its for _, its in parts), key=lambda its: moments[its, 0, 0])
    nodes = _shared_corners(corner, sides, grid)
    owner = _merge_slivers(corner, moments, sides)
    # Keep elements that own themselves, cut ones first, and the unknowns at their corners, row by row.
    own = owner == np.arange(len(corner))
    is_whole = own & (moments == WHOLE).all(axis=(1, 2))
    kept = np.concatenate([np.flatnonzero(own & ~is_whole), np.flatnonzero(is_whole)])
    renumbered = np.full(len(corner) + 1, -1)  # the last entry is for elements without an owner (-1)
    renumbered[kept] = np.arange(len(kept))
    renumbered[:-1] = renumbered[owner]
    is_used = np.zeros(int(nodes.max()) + 1, dtype=bool)
    is_used[nodes[kept]] = True
    unknowns = (np.cumsum(is_used) - 1)[nodes[kept]]
    places = np.empty((int(is_used.sum()), 2), dtype=int)
    places[unknowns] = corner[kept][:, None] + OFFSETS
    taken = ~own & (owner >= 0)
    handed = add_up(owner[taken], moments[taken, 0, 0], len(corner))
    carried = renumbered[element] >= 0
    return CutCells(
        region=region,
        grid=grid,
        corner=corner[kept],
        moments=moments[kept[: len(kept) - int(is_whole.sum())]],
        nodes=unknowns,
        places=places,
        pieces=pieces.some(carried),
        element=renumbered[element[carried]],
        handed=handed[kept],
        element_at=renumbered[number],
        parted={pixel: [(part, int(renumbered[its])) for part, its in parts] for pixel, parts in parted.items()},
    )


def _require_pixels(region: Region, pieces: Pieces, grid: Grid) -> None:
    """Require that no part of the domain lies inside a single pixel, unless it fills it."""
    for number, loop in enumerate(region.loops):
        cells = pieces.cell[pieces.loop == number]
        if (cells == cells[:1]).all() and 0 < loop.signed_area < 0.99 * grid.h**2:
            raise DisolError(
                f"Loop {number} lies inside one pixel of a grid of {grid.height} x {grid.width}. "
                "Use a finer grid, or a larger domain."
            )


def _part(
    pieces: Pieces,
    covered: Covered,
    number: Int[np.ndarray, "height width"],
    moments: Float[np.ndarray, "element 4 4"],
) -> Parted:
    """Find the components of pixels that have several: the first keeps its number, others get new numbers at the end.

    For thin pixels with one component, the moments are replaced by those of its outline, in place.
    """
    parted: Parted = {}
    size = len(moments)
    starts, thin = find_runs(pieces), np.zeros(number.shape, dtype=bool)
    thin[covered.cut] = covered.moments[:, 0, 0] < THIN
    asked = thin | crowded(pieces, starts, Grid(*number.shape))
    for pixel, found in find_components(pieces, starts, asked, covered.winding):
        if len(found) > 1:
            numbers = [int(number[pixel]), *range(size, size + len(found) - 1)]
            parted[pixel] = list(zip(found, numbers, strict=True))
            size += len(found) - 1
        elif thin[pixel]:
            moments[number[pixel]] = found[0].moments
    return parted


class _Sides(NamedTuple):
    """Open sides between two elements: the left or upper one, the other one, the axis across them, the open length."""

    one: Int[np.ndarray, " side"]
    other: Int[np.ndarray, " side"]
    axis: Int[np.ndarray, " side"]
    length: Float[np.ndarray, " side"]


def _open_sides(covered: Covered, number: Int[np.ndarray, "height width"]) -> _Sides:
    found = []
    across = (number[:, :-1], number[:, 1:], covered.right[:, :-1]), (number[:-1], number[1:], covered.below[:-1])
    for axis, (one, other, length) in enumerate(across):
        is_open = (length > CLOSED) & (one >= 0) & (other >= 0)
        found.append((one[is_open], other[is_open], np.full(int(is_open.sum()), axis), length[is_open]))
    return _Sides(*(np.concatenate(each) for each in zip(*found, strict=True)))


def _between_components(sides: _Sides, parted: Parted) -> _Sides:
    """Replace the open sides of pixels with several components by those between components that meet there."""
    found = {components[0][1]: components for components in parted.values()}
    concerned = np.isin(sides.one, list(found)) | np.isin(sides.other, list(found))

    def openings(element: int, side: int) -> list[tuple[int, list[tuple[float, float]]]]:
        parts = [(number, component.on_side(side)) for component, number in found.get(element, ())]
        return parts or [(element, [(0.0, 1.0)])]

    added = []
    for one, other, axis, length in zip(*(each[concerned].tolist() for each in sides), strict=True):
        here, there = (1, 3) if axis == 0 else (2, 0)
        for mine, its in product(openings(one, here), openings(other, there)):
            shared = sum(max(0.0, min(b, d) - max(a, c)) for (a, b), (c, d) in product(mine[1], its[1]))
            if shared > CLOSED:
                added.append((mine[0], its[0], axis, min(shared, length)))
    new = np.array(added).reshape(-1, 4).T
    return _Sides(
        *(
            np.concatenate([each[~concerned], column.astype(each.dtype)])
            for each, column in zip(sides, new, strict=True)
        )
    )


def _shared_corners(corner: Int[np.ndarray, "element 2"], sides: _Sides, grid: Grid) -> Int[np.ndarray, "element 4"]:
    """Number the corners of elements in the order of their nodes, row by row; corners joined by open sides share one.

    Around nearly every node all elements are connected: there is at most one more of them than open sides. Only
    elsewhere are corners joined one by one.
    """
    columns = grid.width + 1
    node = (corner[:, None] + OFFSETS) @ [1, columns]
    joined = [(4 * sides.one + np.array([SHARED[0][k][0], SHARED[1][k][0]])[sides.axis],
               4 * sides.other + np.array([SHARED[0][k][1], SHARED[1][k][1]])[sides.axis]) for k in (0, 1)]  # fmt: skip
    one, other = (np.concatenate(each) for each in zip(*joined, strict=True))
    flat = node.reshape(-1)
    size = columns * (grid.height + 1)
    loose = np.bincount(flat, minlength=size) - np.bincount(flat[one], minlength=size) > 1
    pixel = corner @ [1, grid.width]
    loose[node[np.bincount(pixel)[pixel] > 1]] = True  # several components of one pixel
    twins = np.zeros(len(flat), dtype=int)
    at_loose = np.flatnonzero(loose[flat])
    if len(at_loose):
        place = np.full(len(flat), -1)
        place[at_loose] = np.arange(len(at_loose))
        kept = loose[flat[one]]
        graph = scipy.sparse.coo_array(
            (np.ones(int(kept.sum()), dtype=bool), (place[one[kept]], place[other[kept]])), shape=2 * (len(at_loose),)
        )
        _, label = scipy.sparse.csgraph.connected_components(graph, directed=False)
        groups, group = np.unique(np.stack([flat[at_loose], label], axis=1), axis=0, return_inverse=True)
        _, first, of_node = np.unique(groups[:, 0], return_index=True, return_inverse=True)
        twins[at_loose] = (np.arange(len(groups)) - first[of_node])[group.reshape(-1)]
    return (flat * (1 + int(twins.max())) + twins).reshape(-1, 4)


def _merge_slivers(
    corner: Int[np.ndarray, "element 2"],
    moments: Float[np.ndarray, "element 4 4"],
    sides: _Sides,
) -> Int[np.ndarray, " element"]:
    """Hand the moments of slivers to neighbours, in place; return the owner of each element, -1 for none.

    A sliver among slivers follows its neighbour. In a part of the domain that consists of slivers, the largest takes
    the others.
    """
    owner, area = np.arange(len(corner)), moments[:, 0, 0].copy()
    slivers = np.flatnonzero(area < SMALLEST)
    if not len(slivers):
        return owner
    owner[slivers] = -1
    around: dict[int, list[tuple[float, int]]] = {sliver: [] for sliver in slivers.tolist()}
    touching = np.flatnonzero(np.isin(sides.one, slivers) | np.isin(sides.other, slivers))
    for one, other, length in zip(
        *(each[touching].tolist() for each in (sides.one, sides.other, sides.length)), strict=True
    ):
        for mine, its in ((one, other), (other, one)):
            if mine in around:
                around[mine].append((length, its))
    waiting = sorted(around, key=lambda sliver: -area[sliver])
    while waiting:
        placed = [sliver for sliver in waiting if any(owner[its] >= 0 for _, its in around[sliver])]
        for sliver in placed:
            taker = owner[max((length, its) for length, its in around[sliver] if owner[its] >= 0)[1]]
            owner[sliver] = taker
            moments[taker] += shifted(moments[sliver], corner[sliver] - corner[taker])
        if not placed:
            placed = waiting[:1]
            owner[placed] = placed if area[placed[0]] > NOTHING else -1
        waiting = [sliver for sliver in waiting if sliver not in placed]
    return owner
