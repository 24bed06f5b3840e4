"""A finite element function on cut elements, bilinear on each: values at points, pixel centres and nodes; gradients.

On cut elements gradients are first-order accurate, with errors of up to a third on coarse grids; at the centres of
whole pixels they are second-order. So on a cut element a quadratic polynomial is fitted to those at the centres of
nearby whole pixels that are connected to it through the domain. Gradients jump where materials meet, so only pixels
of its own material count.
"""

from dataclasses import dataclass

import numpy as np
import scipy
from jaxtyping import Bool, Float, Int

from disol.fem.cut_forms import Law, corner_functions, on_elements
from disol.geometry.cut_cells import CutCells
from disol.geometry.pieces import add_up

RINGS = 3  # how many elements away pixels are used for a fit
ALIKE = 0.7  # ratio of coefficients down to which two pixels count as one material
SMOOTHING = 1e-5  # regularises the coefficients of a fit that few pixels leave undetermined


@dataclass(frozen=True, eq=False)
class CutField:
    """A solution: bilinear on every element, defined at points of the domain only.

    law              C, which tells one material from another
    values           by unknown and component; at nodes outside the domain they have no meaning of their own
    rounding_error   estimated error by rounding, relative to the largest value; of a time step, relative to the largest
                     value of all steps so far
    """

    cells: CutCells
    law: Law
    values: Float[np.ndarray, "unknown component"]
    rounding_error: float

    def at(
        self, x: Float[np.ndarray, " point"], y: Float[np.ndarray, " point"]
    ) -> Float[np.ndarray, "component point"]:
        """Evaluate at points; NaN outside the domain."""
        element, local = self.cells.find(x, y)
        values = np.einsum("pi,pic->cp", corner_functions(local)[0], self.values[self.cells.nodes[element]])
        return np.where(element >= 0, values, np.nan)

    def pixels(self) -> Float[np.ndarray, "component height width"]:
        """Evaluate at pixel centres; NaN outside the domain."""
        rows, columns, nodes, weights = _centres(self.cells)
        found = np.full((self.values.shape[1], *self.cells.grid.pixels), np.nan)
        found[:, rows, columns] = np.einsum("pi,pic->cp", weights, self.values[nodes])
        return found

    def gradients(self) -> Float[np.ndarray, "component 2 height width"]:
        """∂_b u_c at pixel centres, NaN outside the domain: second-order, since on cut elements it is fitted."""
        cells, own = self.cells, self.element_gradients()
        rows, columns, element = cells.centres
        gradients = own[element]
        is_cut = np.flatnonzero(element < cells.num_cut)
        touched, place = np.unique(element[is_cut], return_inverse=True)
        fitted = fit_nearby(cells, self.law, touched, own.reshape(len(own), -1))
        offset = np.stack([columns, rows], axis=1)[is_cut] - cells.corner[element[is_cut]]
        recovered = np.einsum("pk,pks->ps", quadratic(offset.astype(float)), fitted[place])
        gradients[is_cut] = recovered.reshape(len(is_cut), *own.shape[1:])
        found = np.full((*own.shape[1:], *cells.grid.pixels), np.nan)
        found[:, :, rows, columns] = np.moveaxis(gradients, 0, -1)
        return found

    def element_gradients(self) -> Float[np.ndarray, "element component 2"]:
        """∂_b u_c of every element at the centre of its pixel: second-order where it is whole."""
        _, slopes = corner_functions(np.full(2, 0.5))
        return np.einsum("bi,eic->ecb", slopes / self.cells.grid.h, self.values[self.cells.nodes])

    def nodes(self) -> Float[np.ndarray, "component rows columns"]:
        """Return nodal values, the last if a node has several; NaN elsewhere. Outside the domain they mean nothing."""
        found = np.full((self.values.shape[1], self.cells.grid.height + 1, self.cells.grid.width + 1), np.nan)
        column, row = self.cells.places.T
        found[:, row, column] = self.values.T
        return found


def transpose_pixels(
    cells: CutCells, d_pixels: Float[np.ndarray, "component height width"]
) -> Float[np.ndarray, "unknown component"]:
    """Return dJ/du of the unknowns from dJ with respect to values at pixel centres in the domain."""
    rows, columns, nodes, weights = _centres(cells)
    shares = np.einsum("pi,cp->pic", weights, d_pixels[:, rows, columns])
    return add_up(nodes.reshape(-1), shares.reshape(-1, len(d_pixels)), len(cells.places))


def _centres(
    cells: CutCells,
) -> tuple[
    Int[np.ndarray, " pixel"], Int[np.ndarray, " pixel"], Int[np.ndarray, "pixel 4"], Float[np.ndarray, "pixel 4"]
]:
    """Return row and column of the pixels with centres in the domain, the unknowns of their elements, and N_i there."""
    rows, columns, element = cells.centres
    local = np.stack([columns, rows], axis=1) + 0.5 - cells.corner[element]
    return rows, columns, cells.nodes[element], corner_functions(local)[0]


def fit_nearby(
    cells: CutCells, law: Law, touched: Int[np.ndarray, " touched"], samples: Float[np.ndarray, "element sample"]
) -> Float[np.ndarray, "touched 6 sample"]:
    """Fit a quadratic polynomial, around each of some elements, to samples at the centres of nearby elements."""
    one, other = _near(cells, touched)
    alike = _are_alike(cells, law, touched[one], other)
    one, other = one[alike], other[alike]
    offset = (cells.corner[other] - cells.corner[touched[one]]).astype(float)
    weight = np.where(other >= cells.num_cut, 1.0, 1e-3 * cells.areas[other] ** 2) / (1 + (offset**2).sum(axis=1)) ** 3
    basis = quadratic(offset)
    normal = add_up(one, weight[:, None, None] * basis[:, :, None] * basis[:, None, :], len(touched))
    normal += SMOOTHING * np.einsum("eii->e", normal)[:, None, None] * np.diag([0.0, 1, 1, 1, 1, 1]) / 6
    right = add_up(one, (weight[:, None] * basis)[:, :, None] * samples[other][:, None, :], len(touched))
    return np.linalg.solve(normal, right)


def _are_alike(
    cells: CutCells, law: Law, one: Int[np.ndarray, " pair"], other: Int[np.ndarray, " pair"]
) -> Bool[np.ndarray, " pair"]:
    """Tell which pairs of elements are of about the same material."""
    first, second = (on_elements(cells, "law", law, which, axes=4) for which in (one, other))
    largest, change = np.maximum(np.abs(first), np.abs(second)), np.abs(first - second)
    alike = change.max(axis=(1, 2, 3, 4)) <= (1 - ALIKE) * largest.max(axis=(1, 2, 3, 4))
    return np.broadcast_to(alike, len(one))


def _near(
    cells: CutCells, touched: Int[np.ndarray, " touched"]
) -> tuple[Int[np.ndarray, " pair"], Int[np.ndarray, " pair"]]:
    """Pair each of some elements with those at most `RINGS` elements away, counted from corner to corner."""
    nodes = cells.nodes
    ones, rows = np.ones(nodes.size, dtype=np.int32), np.arange(0, nodes.size + 1, 4)
    corners = scipy.sparse.csr_array((ones, nodes.reshape(-1), rows), shape=(len(nodes), len(cells.places)))
    reached = corners[touched]
    for _ in range(RINGS - 1):
        reached = (reached @ corners.T) @ corners
        reached.data[:] = 1
    pairs = (reached @ corners.T).tocoo()
    return pairs.coords[0].astype(int), pairs.coords[1].astype(int)


def quadratic(points: Float[np.ndarray, "point 2"]) -> Float[np.ndarray, "point 6"]:
    """1, x, y, x², xy and y² at points."""
    x, y = points.T
    return np.stack([np.ones_like(x), x, y, x * x, x * y, y * y], axis=1)
