"""The Cartesian grid: square pixels, the nodes at their corners, and the maps between the two.

`H x W` pixels of side `h = 1/H` cover `[0, W/H] x [0, 1]`; x runs along columns to the right, y along rows
downwards. Nodes are the pixel corners, `(H+1) x (W+1)`.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Shaped

from disol._arrays import Array, as_int8, zeros

# Corners of a pixel as (row, column) offsets, clockwise from the top left: the order of every element matrix.
CORNERS = ((0, 0), (0, 1), (1, 1), (1, 0))


@dataclass(frozen=True)
class Grid:
    """`height x width` square pixels of side `1/height`."""

    height: int
    width: int

    @property
    def h(self) -> float:
        """Side of a pixel."""
        return 1.0 / self.height

    @property
    def pixels(self) -> tuple[int, int]:
        """Shape of an array with one value per pixel."""
        return self.height, self.width

    def pixel_centres(self) -> tuple[Float[np.ndarray, "1 width"], Float[np.ndarray, "height 1"]]:
        """Return x and y of the pixel centres, as a row and a column that broadcast."""
        return self.points(0.5, 0.5)

    def node_positions(self) -> tuple[Float[np.ndarray, "1 columns"], Float[np.ndarray, "rows 1"]]:
        """Return x and y of the nodes, as a row and a column that broadcast."""
        return self.h * np.arange(self.width + 1.0)[None, :], self.h * np.arange(self.height + 1.0)[:, None]

    def points(self, across: float, down: float) -> tuple[Float[np.ndarray, "1 width"], Float[np.ndarray, "height 1"]]:
        """Return x and y of the point at `(across, down)`, in [0, 1], of every pixel."""
        return (
            self.h * (np.arange(self.width) + across)[None, :],
            self.h * (np.arange(self.height) + down)[:, None],
        )


def nodes_touching(pixels: Bool[Array, "*batch height width"]) -> Bool[Array, "*batch rows columns"]:
    """Mark every node that is a corner of a marked pixel."""
    return sum_at_nodes(pixels)  # summing booleans is a logical or


def sum_at_nodes(pixels: Shaped[Array, "*batch height width"]) -> Shaped[Array, "*batch rows columns"]:
    """Add up at each node the values of the pixels it is a corner of."""
    frame = framed(pixels)
    pairs = frame[..., :-1, :] + frame[..., 1:, :]
    return pairs[..., :-1] + pairs[..., 1:]


def weigh_at_nodes(
    pixels: Float[Array, "*batch height width"], weights: Float[np.ndarray, "4"]
) -> Float[Array, "*batch rows columns"]:
    """Add up at each node the values of its pixels, with a weight for each corner of a pixel."""
    frame = framed(pixels)
    top_left, top_right, bottom_right, bottom_left = weights.tolist()
    total = top_left * frame[..., 1:, 1:]  # the node is the top left corner of the pixel below it, to the right
    total += top_right * frame[..., 1:, :-1]
    total += bottom_right * frame[..., :-1, :-1]
    total += bottom_left * frame[..., :-1, 1:]
    return total


def framed(pixels: Shaped[Array, "*batch height width"]) -> Shaped[Array, "*batch height+2 width+2"]:
    """Pad an array of pixels with a frame of zeros."""
    *batch, height, width = pixels.shape
    frame = zeros((*batch, height + 2, width + 2), like=pixels)
    frame[..., 1:-1, 1:-1] = pixels
    return frame


def sum_over_corners(per_corner: Float[Array, "4 *batch height width"]) -> Float[Array, "*batch rows columns"]:
    """Add up at each node what its pixels contribute to that corner (the assembly of a vector)."""
    _, *batch, height, width = per_corner.shape
    total = zeros((*batch, height + 1, width + 1), like=per_corner)
    for (row, column), values in zip(CORNERS, per_corner, strict=True):
        total[..., row : row + height, column : column + width] += values
    return total


def pixel_means(nodes: Float[Array, "*batch rows columns"]) -> Float[Array, "*batch height width"]:
    """Average the four corner nodes of every pixel."""
    pairs = nodes[..., :-1] + nodes[..., 1:]
    return 0.25 * (pairs[..., :-1, :] + pairs[..., 1:, :])


def node_means(
    values: Float[Array, "*batch height width"], pixels: Bool[Array, "*batch height width"]
) -> Float[Array, "*batch rows columns"]:
    """Average at every node the values of its marked pixels; 0 where it has none."""
    total = sum_at_nodes(values * pixels)
    total /= sum_at_nodes(as_int8(pixels)).clip(1)
    return total
