"""A finite element function on the pixels of a mask, bilinear on each: values at points, gradients, and A u."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from disol.fem.cut_forms import corner_functions
from disol.geometry.cut_cells import TOUCHING
from disol.grid import CORNERS, Grid, sum_over_corners


@dataclass(frozen=True, eq=False)
class PixelField:
    """A finite element function: its nodal values, and the pixels it is defined on."""

    mask: Bool[np.ndarray, "height width"]
    values: Float[np.ndarray, "component rows columns"]

    @property
    def grid(self) -> Grid:
        """The pixels."""
        return Grid(*self.mask.shape)

    def at(
        self, x: Float[np.ndarray, " point"], y: Float[np.ndarray, " point"]
    ) -> Float[np.ndarray, "component point"]:
        """Evaluate at points; NaN outside the pixels, which include their sides."""
        found = np.full((len(self.values), len(x)), np.nan)
        points, slack = np.stack([x, y]) / self.grid.h, TOUCHING / self.grid.h
        for step_x, step_y in ((slack, slack), (slack, -slack), (-slack, slack), (-slack, -slack)):
            column, row = (np.floor(points[axis] + step).astype(int) for axis, step in enumerate((step_x, step_y)))
            on_grid = (column >= 0) & (column < self.grid.width) & (row >= 0) & (row < self.grid.height)
            here = np.flatnonzero(on_grid & np.isnan(found[0]))
            here = here[self.mask[row[here], column[here]]]
            local = (points[:, here] - [column[here], row[here]]).T
            corners = np.stack([self.values[:, row[here] + down, column[here] + right] for down, right in CORNERS])
            found[:, here] = np.einsum("pi,icp->cp", corner_functions(local)[0], corners)
        return found

    def gradients(self) -> Float[np.ndarray, "component 2 height width"]:
        """∂_b u_c at pixel centres, of all pixels."""
        _, slopes = corner_functions(np.full(2, 0.5))
        return np.einsum("bi,icyx->cbyx", slopes / self.grid.h, self._corners())

    def product(self, element_matrix: Float[np.ndarray, "local local"]) -> Float[np.ndarray, "component rows columns"]:
        """A u at all nodes, including held ones, with A assembled from the element matrix on every pixel."""
        count = len(self.values)
        local = element_matrix.reshape(4, count, 4, count)
        return sum_over_corners(np.einsum("icjd,jdyx->icyx", local, self._corners()) * self.mask)

    def _corners(self) -> Float[np.ndarray, "4 component height width"]:
        height, width = self.mask.shape
        return np.stack([self.values[:, row : row + height, column : column + width] for row, column in CORNERS])
