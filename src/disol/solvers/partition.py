"""How nested dissection cuts a grid: equal boxes, merged in pairs until one is left.

Everything here depends on the grid alone. Unknowns are numbered `node * components + component`, with nodes counted
row by row on the padded grid.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad

from disol.grid import CORNERS

LEAF_SIDES = (4, 3, 5)  # of the smallest boxes; the first is preferred where it pads no more than the others

Node = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Merge:
    """The merging of two equal boxes into one, in which the unknowns they share can be eliminated.

    across       whether the two lie side by side (or one above the other)
    unknowns     of each merged box: first those to eliminate, then its ring
    eliminated   how many are eliminated
    first        place of each unknown in the ring of the first box; one past its end if it is absent
    second       the same for the second box
    """

    across: bool
    unknowns: Int[Tensor, "box unknown"]
    eliminated: int
    first: Int[Tensor, " unknown"]
    second: Int[Tensor, " unknown"]

    def children(self, boxes: Tensor) -> tuple[Tensor, Tensor]:
        """Split `[batch, box rows, box columns, ...]` into the first and the second box of each pair."""
        if self.across:
            return boxes[:, :, 0::2], boxes[:, :, 1::2]
        return boxes[:, 0::2], boxes[:, 1::2]


@dataclass(frozen=True, eq=False)
class Partition:
    """The boxes of a grid of `height x width` pixels, padded to `shape`.

    leaves       unknowns of each smallest box: first those inside, then its ring
    inside       how many are inside
    leaf_shape   pixels of a smallest box
    leaf_corners places in a smallest box of the unknowns of each of its pixels, in the order of element matrices
    merges       from the smallest boxes to the whole grid; the last one eliminates everything
    """

    height: int
    width: int
    components: int
    shape: tuple[int, int]
    leaf_shape: tuple[int, int]
    leaves: Int[Tensor, "box unknown"]
    inside: int
    leaf_corners: Int[Tensor, "pixel local"]
    merges: tuple[Merge, ...]

    @property
    def boxes(self) -> tuple[int, int]:
        """Rows and columns of smallest boxes."""
        return self.shape[0] // self.leaf_shape[0], self.shape[1] // self.leaf_shape[1]

    def boxes_at(self, level: int) -> tuple[int, int]:
        """Rows and columns of boxes after `level` merges."""
        rows, columns = self.boxes
        for merge in self.merges[:level]:
            rows, columns = (rows, columns // 2) if merge.across else (rows // 2, columns)
        return rows, columns

    def unknowns_at(self, level: int) -> Int[Tensor, "box unknown"]:
        """Return the unknowns of each box after `level` merges: first those to eliminate, then its ring."""
        return self.merges[level - 1].unknowns if level else self.leaves

    def eliminated_at(self, level: int) -> int:
        """Return how many unknowns each box eliminates after `level` merges."""
        return self.merges[level - 1].eliminated if level else self.inside

    def flatten(self, fields: Tensor) -> Tensor:
        """Turn fields `[batch, component, rows, columns, ...]` into `[batch, unknown, ...]`, as boxes number them."""
        down, right = self.shape[0] - self.height, self.shape[1] - self.width
        last = fields.movedim(1, 3)
        if down or right:
            last = pad(last, (0, 0) * (last.ndim - 3) + (0, right, 0, down))
        return last.flatten(1, 3)

    def unflatten(self, vectors: Tensor) -> Tensor:
        """Turn `[batch, unknown, ...]` into fields without the padding."""
        grid = vectors.reshape(len(vectors), self.shape[0] + 1, self.shape[1] + 1, self.components, *vectors.shape[2:])
        return grid[:, : self.height + 1, : self.width + 1].movedim(3, 1)

    def leaf_pixels(self, mask: Bool[Tensor, "batch height width"]) -> Bool[Tensor, "box pixel"]:
        """Return the mask of each smallest box of each case."""
        padded = pad(mask, (0, self.shape[1] - self.width, 0, self.shape[0] - self.height))
        (rows, columns), (height, width) = self.boxes, self.leaf_shape
        blocks = padded.reshape(-1, rows, height, columns, width).transpose(2, 3)
        return blocks.reshape(-1, height * width)

    def leaf_matrices(self, element_matrix: Float[Tensor, "local local"]) -> Float[Tensor, "pixel side side"]:
        """Return the contribution of each pixel to the matrix of its box, bordered with zeros to an even side."""
        side = bordered_side(self.leaves.shape[1])
        matrices = element_matrix.new_zeros(len(self.leaf_corners), side, side)
        pixels = torch.arange(len(matrices), device=matrices.device)[:, None, None]
        matrices[pixels, self.leaf_corners[:, :, None], self.leaf_corners[:, None, :]] = element_matrix
        return matrices


@lru_cache(maxsize=32)
def partition(height: int, width: int, components: int, device: torch.device) -> Partition:
    """Cut a grid into boxes for nested dissection."""
    rows, leaf_height = padded_side(height, fewest_boxes=1)
    columns, leaf_width = padded_side(width, fewest_boxes=2)
    shape, leaf = (rows, columns), (leaf_height, leaf_width)
    leaves = expand_components(number_boxes(shape, leaf, leaf_order(*leaf)), components)
    corners = expand_components(corner_places(*leaf), components)
    inside = (leaf_height - 1) * (leaf_width - 1) * components
    merges: list[Merge] = []
    box = leaf
    while box != shape:
        across = box[1] < columns and (box[1] <= box[0] or box[0] == rows)
        merges.append(merge_boxes(shape, box, across, components, device))
        box = (box[0], 2 * box[1]) if across else (2 * box[0], box[1])
    tables = leaves.to(device), inside, corners.to(device), tuple(merges)
    return Partition(height, width, components, shape, leaf, *tables)


def merge_boxes(shape: Node, box: Node, across: bool, components: int, device: torch.device) -> Merge:
    """Merge boxes of `height x width` pixels with their neighbours to the right or below."""
    height, width = box
    down, right = (0, width) if across else (height, 0)
    merged = height + down, width + right
    first = {node: place for place, node in enumerate(ring(height, width))}
    second = {(row + down, column + right): place for (row, column), place in first.items()}
    outer = ring(*merged)
    shared = sorted(first.keys() & second.keys() - set(outer))
    order = shared + outer
    eliminated = len(order) if merged == shape else len(shared)
    unknowns = expand_components(number_boxes(shape, merged, order), components)
    positions = [ring_positions(half, order, components).to(device) for half in (first, second)]
    return Merge(across, unknowns.to(device), eliminated * components, *positions)


def ring_positions(half: dict[Node, int], order: list[Node], components: int) -> Int[Tensor, " unknown"]:
    """Return the places of the unknowns of these nodes in the ring of a half; one past its end if absent."""
    absent = len(half)
    places = torch.tensor([half.get(node, absent) for node in order])
    return expand_components(places, components).clamp(max=absent * components)


def padded_side(pixels: int, fewest_boxes: int) -> tuple[int, int]:
    """Return the smallest leaf * 2ᵏ that holds `pixels`, and its leaf."""
    sides = []
    for leaf in LEAF_SIDES:
        side = leaf * fewest_boxes
        while side < pixels:
            side *= 2
        sides.append((side, leaf))
    return min(sides, key=lambda side: side[0])


def ring(height: int, width: int) -> list[Node]:
    """List the nodes on the boundary of a box."""
    return [
        (row, column)
        for row in range(height + 1)
        for column in (range(width + 1) if row in (0, height) else (0, width))
    ]


def leaf_order(height: int, width: int) -> list[Node]:
    """List the nodes of a smallest box, those inside first."""
    inside = [(row, column) for row in range(1, height) for column in range(1, width)]
    return inside + ring(height, width)


def corner_places(height: int, width: int) -> Int[Tensor, "pixel 4"]:
    """Return the places, in `leaf_order`, of the corners of each pixel of a smallest box."""
    position = {node: place for place, node in enumerate(leaf_order(height, width))}
    pixels = [(row, column) for row in range(height) for column in range(width)]
    return torch.tensor([[position[row + down, column + across] for down, across in CORNERS] for row, column in pixels])


def number_boxes(shape: tuple[int, int], box: Node, order: list[Node]) -> Int[Tensor, "box node"]:
    """Number the nodes of every box of a level on the padded grid."""
    top, left = np.arange(0, shape[0], box[0]), np.arange(0, shape[1], box[1])
    corner = (top[:, None] * (shape[1] + 1) + left).reshape(-1, 1)
    offsets = np.array([row * (shape[1] + 1) + column for row, column in order])
    return torch.from_numpy(corner + offsets)


def expand_components(nodes: Int[Tensor, "*box node"], components: int) -> Int[Tensor, "*box unknown"]:
    """Number the unknowns of numbered nodes, component fastest."""
    return (nodes[..., None] * components + torch.arange(components)).flatten(-2)


def bordered_side(size: int) -> int:
    """Side of a stored matrix: room for one zero row and column, and even so that rows stay aligned."""
    return size + 2 - size % 2
