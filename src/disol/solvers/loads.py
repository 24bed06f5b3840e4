"""Load vectors of a batch of cases from sampled sources, on the device: the counterparts of `fem.loads` and `grid`."""

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from disol.fem import Element
from disol.solvers.operator import sum_over_corners

Pixels = Float[Tensor, "batch height width"]
Nodes = Float[Tensor, "batch rows columns"]
Mask = Bool[Tensor, "batch height width"]
TestFunctions = Float[np.ndarray, "point 4"]


def consistent_load(
    element: Element, test: TestFunctions, mask: Mask, samples: Float[Tensor, "batch point height width"]
) -> Nodes:
    """bᵢ = ∫ wᵢ f, from f at the element's quadrature points and the test functions w there.

    Galerkin and SUPG differ in the test functions alone: `forms.galerkin_test`, `forms.upwind_test`.
    """
    weighted = torch.from_numpy(element.weights[:, None] * test).to(samples)
    return assemble(torch.einsum("pi,bpyx->biyx", weighted, samples), mask)


def consistent_load_of_pixels(element: Element, test: TestFunctions, mask: Mask, values: Pixels) -> Nodes:
    """bᵢ = ∫ wᵢ f, for a source that is constant on each pixel."""
    weighted = torch.from_numpy(element.weights @ test).to(values)
    return assemble(weighted[:, None, None] * values[:, None], mask)


def nodal_load(mask: Mask, values: Nodes) -> Nodes:
    """bᵢ = f(node i), without a mass matrix."""
    return values * nodes_touching(mask)


def boundary_force(force: Pixels) -> Nodes:
    """Give each corner of a loaded pixel the pixel's force once (their mean where loaded pixels meet)."""
    return node_means(force, force != 0)


def assemble(local: Float[Tensor, "batch 4 height width"], mask: Mask) -> Nodes:
    """Add up at each node what the marked pixels around it give to that corner."""
    return sum_over_corners(local * mask[:, None], components=1)[:, 0]


def nodes_touching(pixels: Mask) -> Bool[Tensor, "batch rows columns"]:
    """Mark every node that is a corner of a marked pixel."""
    return counts(pixels, torch.float32) > 0


def node_means(values: Pixels, pixels: Mask) -> Nodes:
    """Average at every node the values of its marked pixels; 0 where it has none."""
    total = assemble(values[:, None].expand(-1, 4, -1, -1), pixels)
    return total / counts(pixels, values.dtype).clamp(min=1)


def counts(pixels: Mask, dtype: torch.dtype) -> Nodes:
    """Count the marked pixels around each node."""
    return assemble(pixels.to(dtype)[:, None].expand(-1, 4, -1, -1), pixels)


def pixel_means(nodes: Float[Tensor, "*batch rows columns"]) -> Float[Tensor, "*batch height width"]:
    """Average the four corner nodes of every pixel."""
    pairs = nodes[..., :-1] + nodes[..., 1:]
    return 0.25 * (pairs[..., :-1, :] + pairs[..., 1:, :])
