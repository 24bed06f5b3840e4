"""Load vectors: what a source or a boundary force gives to each node."""

import numpy as np
from jaxtyping import Bool, Float

from disol.fem.elements import Element
from disol.fields import Source, at_nodes, at_pixels
from disol.grid import CORNERS, nodes_touching, sum_over_corners, weigh_at_nodes

Mask = Bool[np.ndarray, "*batch height width"]
NodeField = Float[np.ndarray, "*batch rows columns"]


def consistent_load(
    element: Element,
    test: Float[np.ndarray, "point 4"],
    mask: Mask,
    source: Source,
) -> NodeField:
    """bᵢ = ∫ wᵢ f, with the test functions w given at the quadrature points."""
    weighted = element.weights[:, None] * test
    if callable(source):
        samples = np.stack([at_pixels(source, mask, *point) for point in element.positions])
        return sum_over_corners(np.einsum("pi,pyx->iyx", weighted, samples))
    return weigh_at_nodes(at_pixels(source, mask), weighted.sum(axis=0))


def nodal_load(mask: Mask, source: Source) -> NodeField:
    """bᵢ = f(node i), without a mass matrix."""
    return at_nodes(source, mask, nodes_touching(mask))


def boundary_force(force: Float[np.ndarray, "*batch height width"], unit: float = 1.0) -> NodeField:
    """Give each corner of a loaded pixel the pixel's force, in a unit, once (their mean where loaded pixels meet)."""
    *batch, height, width = force.shape
    total, count = (np.zeros((*batch, height + 1, width + 1), dtype).ravel() for dtype in (float, np.int8))
    # Few pixels are loaded, so these are looked up instead of summing images. Nodes have one more column and row.
    pixels = np.flatnonzero(force != 0)
    corner = pixels + pixels // width + pixels // (height * width) * (width + 1)
    nodes = [corner + row * (width + 1) + column for row, column in CORNERS]
    for own in nodes:
        total[own] += unit * force.reshape(-1)[pixels]
        count[own] += 1
    touched = np.concatenate(nodes)
    total[touched] = total[touched] / count[touched]
    return total.reshape(*batch, height + 1, width + 1)
