"""Load vectors: the contributions of a source or a boundary force to each node."""

import numpy as np
from jaxtyping import Bool, Float

from disol._arrays import Array
from disol.fem.elements import Element
from disol.fields import Source, at_nodes, at_pixels, is_function
from disol.grid import node_means, nodes_touching, sum_over_corners, weigh_at_nodes

Mask = Bool[Array, "*batch height width"]
NodeField = Float[Array, "*batch rows columns"]


def consistent_load(
    element: Element,
    test: Float[np.ndarray, "point 4"],
    mask: Mask,
    source: Source,
) -> NodeField:
    """bᵢ = ∫ wᵢ f, with the test functions w given at the quadrature points."""
    weighted = element.weights[:, None] * test
    if is_function(source):
        samples = np.stack([at_pixels(source, mask, *point) for point in element.positions])
        return sum_over_corners(np.einsum("pi,p...yx->i...yx", weighted, samples))
    return weigh_at_nodes(at_pixels(source, mask), weighted.sum(axis=0))


def nodal_load(mask: Mask, source: Source) -> NodeField:
    """bᵢ = f(node i), without a mass matrix."""
    return at_nodes(source, mask, nodes_touching(mask))


def boundary_force(force: Float[Array, "*batch height width"], unit: float = 1.0) -> NodeField:
    """Load each corner of a loaded pixel with the pixel's force, times `unit` (the mean where loaded pixels meet)."""
    return unit * node_means(force, force != 0)
