"""What a network does inside: sensitivities, exact ones beside them, domains that share a part, scales left out."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.ndimage import binary_dilation, gaussian_filter
from scipy.sparse.linalg import splu
from torch import Tensor, nn

import disol
from disol.fem.linear import LinearSystem
from disol.grid import pixel_means
from disol.nn import MultiscaleAssembly

Map = Float[np.ndarray, "height width"]
Mask = Bool[np.ndarray, "height width"]
Pixel = tuple[int, int]


def network_sensitivity(
    network: nn.Module, inputs: Float[np.ndarray, "channel height width"], channel: int, pixel: Pixel
) -> Map:
    """∂û(x)/∂f(y) of the first field, for one pixel x and all pixels y of an input channel."""
    device = next((each.device for each in network.parameters()), torch.device("cpu"))
    given = torch.as_tensor(np.array(inputs)[None], device=device).requires_grad_()
    (slope,) = torch.autograd.grad(network(given)[0, 0][pixel], given)
    return slope[0, channel].double().cpu().numpy()


@torch.inference_mode()
def run(network: nn.Module, inputs: Float[np.ndarray, "channel height width"]) -> Map:
    """Return the first field of one case by the network itself; engines have compiled or copied it."""
    device = next((each.device for each in network.parameters()), torch.device("cpu"))
    predicted: Tensor = network(torch.as_tensor(np.array(inputs)[None], device=device))
    return predicted[0, 0].double().cpu().numpy()


class ExactSensitivity:
    """∂u(x)/∂f(y) of the exact pattern u = U / max |U|, for sources that are constant on every pixel.

    U = G f with G(x, y) = h² times the pixel mean at y of the nodes A⁻¹ eₓ, where eₓ takes the mean of the pixel x.
    With x* the pixel of the largest |U|, and s its sign, du(x) = (G(x, ·) − s u(x) G(x*, ·)) / max |U|.
    """

    def __init__(self, case: "disol.Case") -> None:
        self.case, self.h = case, case.grid.h
        self.linear = LinearSystem(case.system())
        self.solve = splu(self.linear.matrix.tocsc()).solve
        self.field = disol.solve_exact(case).field[0]
        largest = np.unravel_index(np.abs(self.field).argmax(), self.field.shape)
        self.largest: Pixel = (int(largest[0]), int(largest[1]))

    def green(self, pixel: Pixel) -> Map:
        """G(x, ·), 0 outside the domain."""
        row, column = pixel
        nodes = np.zeros((1, *(side + 1 for side in self.field.shape)))
        nodes[0, row : row + 2, column : column + 2] = 0.25
        response = self.linear.to_nodes(self.solve(self.linear.to_vector(nodes)))
        return self.h**2 * pixel_means(response)[0] * self.case.domain

    def pattern(self, pixel: Pixel) -> Map:
        """∂u(x)/∂f of the pattern."""
        top = self.field[self.largest]
        return (self.green(pixel) - self.field[pixel] / top * self.green(self.largest)) / abs(top)


def distances(shape: tuple[int, int], pixel: Pixel) -> Map:
    """Return the distance of every pixel to one of them, as a share of the grid."""
    rows, columns = np.indices(shape)
    return np.hypot(rows - pixel[0], columns - pixel[1]) / shape[0]


def profile(sensitivity: Map, domain: Mask, pixel: Pixel, edges: Float[np.ndarray, " edge"]) -> list[float]:
    """Return the mean |∂u(x)/∂f(y)| of the domain's pixels in every ring about x; NaN for an empty one."""
    ring = np.digitize(distances(sensitivity.shape, pixel), edges) - 1
    return [
        float(np.abs(sensitivity[inside]).mean()) if (inside := domain & (ring == number)).any() else float("nan")
        for number in range(len(edges) - 1)
    ]


def half_radius(sensitivity: Map, pixel: Pixel) -> float:
    """Return the radius about x that holds half of Σ |∂u(x)/∂f(y)|, as a share of the grid."""
    away, size = distances(sensitivity.shape, pixel).ravel(), np.abs(sensitivity).ravel()
    order = np.argsort(away, kind="stable")
    held = np.cumsum(size[order])
    return float(away[order][np.searchsorted(held, 0.5 * held[-1])])


def steps_from(start: Mask, domain: Mask) -> Int[np.ndarray, "height width"]:
    """Return how many steps from pixel to pixel of a domain lead from a part of it; -1 where none do."""
    steps = np.where(start & domain, 0, -1)
    reached, count = start & domain, 0
    while True:
        wider = binary_dilation(reached) & domain
        if (wider == reached).all():
            return steps
        count += 1
        steps[wider & ~reached] = count
        reached = wider


def without_far_part(case: "disol.Case", share: float) -> "disol.Case":
    """Cut off the share of a domain that is farthest from its Dirichlet pixels, as one walks inside it."""
    steps = steps_from(case.terms["dirichlet"], case.domain)
    kept = case.domain & (steps <= np.quantile(steps[case.domain], 1 - share))
    return disol.Case.from_arrays(
        case.problem, conventions=case.conventions, domain=kept, dirichlet=case.terms["dirichlet"] & kept,
        source=case.channel("source").astype(float) * kept,
    )  # fmt: skip


def find_assembly(network: nn.Module) -> MultiscaleAssembly | None:
    """Return the encoder-decoder of a network, if it has one of ours."""
    return next((module for module in network.modules() if isinstance(module, MultiscaleAssembly)), None)


@contextmanager
def silenced(assembly: MultiscaleAssembly, level: int) -> Iterator[None]:
    """Let one scale carry no more than the mean of each of its channels: a skip, or, beyond them, the coarsest."""
    decode = assembly.decode

    def changed(skips: list[Tensor], coarsest: Tensor) -> Any:
        features = [*skips, coarsest]
        features[level] = features[level].mean((2, 3), keepdim=True).expand_as(features[level])
        return decode(features[:-1], features[-1])

    assembly.decode = changed  # type: ignore[method-assign]
    try:
        yield
    finally:
        del assembly.decode


def band_sizes(field: Map, domain: Mask, edges: Float[np.ndarray, " edge"]) -> Float[np.ndarray, " band"]:
    """Return the L2 norm of what a field has in every band of wavelengths, given in pixels from the longest on.

    Bands are differences of Gaussian means over the domain's own pixels, G(f m) / G(m): a Fourier transform would take
    the edge of the domain for short waves. A Gaussian of width σ halves waves of length σ π √(2 / ln 2).
    """
    means = []
    for edge in edges:
        width = edge / (np.pi * np.sqrt(2 / np.log(2)))
        weight = gaussian_filter(domain.astype(float), width)
        means.append(
            np.where(domain, gaussian_filter(np.where(domain, field, 0.0), width) / np.maximum(weight, 1e-12), 0.0)
        )
    parts = [means[0], *(finer - coarser for coarser, finer in pairwise(means)), field - means[-1]]
    return np.array([np.linalg.norm(part[domain]) for part in parts])
