"""Load vectors: what a source or a boundary force gives to each node."""

import numpy as np
from jaxtyping import Bool, Float

from disol.fem.elements import Element
from disol.fields import Source, at_nodes, at_pixels
from disol.grid import node_means, nodes_touching, sum_over_corners

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
    return sum_over_corners(np.multiply.outer(weighted.sum(axis=0), at_pixels(source, mask)))


def nodal_load(mask: Mask, source: Source) -> NodeField:
    """bᵢ = f(node i), without a mass matrix."""
    return at_nodes(source, mask, nodes_touching(mask))


def boundary_force(force: Float[np.ndarray, "*batch height width"]) -> NodeField:
    """Give each corner of a loaded pixel the pixel's force once (their mean where loaded pixels meet)."""
    return node_means(force, force != 0)
