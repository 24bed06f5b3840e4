"""From element matrices to sparse matrices, without a list of triplets.

On a pixel grid every node meets at most nine nodes. The nine coefficients are summed as whole images, one
shifted image per pair of corners, and written straight into compressed columns: no sorting of triplets, no
duplicates to add up. Unknowns are numbered in elimination order, so the factorisation need not search for one.
"""

import numpy as np
import scipy
from jaxtyping import Bool, Float, Int

from disol.fem.ordering import nested_dissection
from disol.grid import CORNERS

NEIGHBOURS = tuple((row, column) for row in (-1, 0, 1) for column in (-1, 0, 1))


def stencil(
    mask: Bool[np.ndarray, "height width"], matrix: Float[np.ndarray, "local local"]
) -> Float[np.ndarray, "9 component component rows columns"]:
    """Return Aᵢⱼ for every node j and its nine neighbours i: `[neighbour, component of i, component of j, j]`."""
    height, width = mask.shape
    components = len(matrix) // 4
    local = matrix.reshape(4, components, 4, components)
    weight = mask.astype(float)
    coefficients = np.zeros((9, components, components, height + 1, width + 1))
    for test, (test_row, test_column) in enumerate(CORNERS):
        for trial, (row, column) in enumerate(CORNERS):
            neighbour = NEIGHBOURS.index((test_row - row, test_column - column))
            for i, j in np.argwhere(local[test, :, trial, :]):
                target = coefficients[neighbour, i, j, row : row + height, column : column + width]
                target += local[test, i, trial, j] * weight
    return coefficients


def free_unknowns(
    free: Bool[np.ndarray, "component rows columns"],
) -> Int[np.ndarray, " unknown"]:
    """Return the positions, in `free` flattened, of the free unknowns in elimination order, component fastest."""
    components, rows, columns = free.shape
    order = nested_dissection(rows, columns)
    positions = order[:, None] + rows * columns * np.arange(components)
    return positions[free.reshape(-1)[positions]]


def assemble(
    mask: Bool[np.ndarray, "height width"],
    matrix: Float[np.ndarray, "local local"],
    free: Bool[np.ndarray, "component rows columns"],
) -> "scipy.sparse.csc_array":
    """Assemble the element matrix of every mask pixel, on the free unknowns in elimination order."""
    components, rows, columns = free.shape
    unknowns = free_unknowns(free)
    numbers = np.full((components, rows + 2, columns + 2), -1, dtype=np.int32)
    component, node = np.divmod(unknowns, rows * columns)
    row, column = np.divmod(node, columns)
    numbers[component, row + 1, column + 1] = np.arange(len(unknowns), dtype=np.int32)
    # One gather finds the row numbers of a column: the same place in the nine shifted images of the numbering.
    shifts = np.array([down * (columns + 2) + across for down, across in NEIGHBOURS])
    centres = (row + 1) * (columns + 2) + column + 1
    row_numbers = numbers.reshape(components, -1)[:, centres[:, None] + shifts]
    values = stencil(mask, matrix).reshape(9, components, components, -1)[:, :, component, node]
    row_numbers, values = row_numbers.transpose(1, 2, 0), values.transpose(2, 0, 1)
    kept = (row_numbers >= 0) & (values != 0)
    starts = np.zeros(len(unknowns) + 1, dtype=np.int32)
    np.cumsum(kept.sum(axis=(1, 2)), out=starts[1:])
    assembled = scipy.sparse.csc_array((values[kept], row_numbers[kept], starts), shape=2 * (len(unknowns),))
    assembled.sort_indices()
    return assembled
