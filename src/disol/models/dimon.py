"""DIMON: a DeepONet on a disc that every domain is mapped to (Yin et al., Nature Computational Science 2024).

u_f(x) = Σₚ G_fp(shape) D_fp(data on the disc) T_p(w(x)) + b_f, with w the map of a domain to the disc, its shape as
principal components of where points of the disc come from, and its data as the channels at these points.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from disol.geometry import draw_outline
from disol.geometry.curve import largest_part
from disol.grid import Grid
from disol.models.base import Network
from disol.models.settings import DIMONConfig
from disol.nn import perceptron, pick_channels, project
from disol.nn.disc_map import DiscMap, map_to_disc, walk_boundaries
from disol.nn.known_domains import KnownDomains
from disol.problems import Problem

# The principal components are those of outlines drawn as for training, with a seed of their own.
OUTLINES = 96
OUTLINE_SEED = 20240912
OUTLINE_GRID = Grid(32, 32)
ON_CIRCLE = 0.25  # share of the points of the disc that lie on its boundary, where supports are
WALKS_AT_ONCE = 256  # domains whose boundaries are walked together
GOLDEN_ANGLE = np.pi * (3 - 5**0.5)


class Reading(NamedTuple):
    """What DIMON reads from the cases of a batch.

    shape    principal components of the displacement, those along x and then those along y
    data     all channels but the domain, at the points of the disc
    places   of the pixels on the disc
    """

    shape: Float[Tensor, "batch component"]
    data: Float[Tensor, "batch value"]
    places: Float[Tensor, "batch 2 height width"]


class DIMON(Network):
    """A branch for the shape, one for the data, and a trunk for the place on the disc; all three are multiplied.

    mean, components   of displacements, from outlines drawn with a fixed seed; components give values of variance 1
    """

    compiles = False  # it solves a linear system for each domain
    precision = "float32"  # for the places on the disc, and the basis there

    mean: Tensor
    components: Tensor

    def __init__(self, config: DIMONConfig, problem: Problem) -> None:
        super().__init__(config, problem)
        outputs, hidden = len(self.fields) * config.basis, [config.width] * (config.branch_layers - 1)
        self.points = config.points
        self.known_domains = KnownDomains()
        self.register_buffer("mean", torch.zeros(2, config.points))
        self.register_buffer("components", torch.zeros(2, config.points, config.components))
        if not self.mean.is_meta:
            mean, components = analyse_outlines(config.points, config.components)
            self.mean.copy_(torch.from_numpy(mean))
            self.components.copy_(torch.from_numpy(components))
        self.shape_branch = perceptron([2 * config.components, *hidden, outputs])
        self.data_branch = perceptron([(self.num_channels - 1) * config.points, *hidden, outputs])
        self.trunk = perceptron([2, *[config.trunk_width] * (config.trunk_layers - 1), config.basis])
        self.bias = nn.Parameter(torch.zeros(len(self.fields)))

    def forward(self, inputs: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch field height width"]:
        """Map the channels to a pattern on the domain."""
        domain = self.domain_of(inputs)
        reading = self.read(inputs, domain)
        coefficients = self.shape_branch(reading.shape) * self.data_branch(reading.data)
        with torch.autocast(inputs.device.type, enabled=False):  # bfloat16 would not distinguish neighbouring pixels
            basis = functional.gelu(self.trunk(reading.places.movedim(1, -1)))
        coefficients = coefficients.reshape(len(inputs), len(self.fields), -1)
        field = torch.einsum("bfp,bhwp->bfhw", coefficients, basis) + self.bias[:, None, None]
        return project(field, domain)

    @torch.no_grad()
    def accepts(self, domains: Bool[Tensor, "batch height width"]) -> Bool[Tensor, " batch"]:
        """Tell which domains are in one part without holes."""
        return torch.cat([walk_boundaries(some).is_whole for some in domains.split(WALKS_AT_ONCE)])  # type: ignore[no-untyped-call]

    @torch.compiler.disable  # type: ignore[untyped-decorator] # it solves a linear system for each domain
    @torch.no_grad()
    def read(
        self, inputs: Float[Tensor, "batch channel height width"], domain: Float[Tensor, "batch 1 height width"]
    ) -> Reading:
        """Map the domains to the disc and read their shapes and data there; a domain with a hole is refused."""
        masks = domain[:, 0] > 0
        dtype = torch.promote_types(inputs.dtype, torch.float32)
        # These rows are cached, so nothing in them may depend on weights, buffers or autocast.
        rows = self.known_domains.recall(masks, dtype, lambda cases: self.map_domains(masks[cases], cases, dtype))
        flat_places, flat_moved, numbers = rows.split([2 * masks[0].numel(), 2 * self.points, self.points], dim=1)  # type: ignore[no-untyped-call]
        places = flat_places.unflatten(1, (2, *masks.shape[1:])).to(inputs.dtype)
        moved, nearest = flat_moved.unflatten(1, (2, self.points)).float(), numbers.long()
        shape = torch.einsum("bct,ctm->bcm", moved - self.mean, self.components).flatten(1)
        data = pick_channels(inputs, [place for place in range(self.num_channels) if place != self.domain_position])
        found = data.flatten(2).gather(2, nearest[:, None].expand(-1, data.shape[1], -1)).flatten(1)
        return Reading(shape, found, places)

    def map_domains(
        self, masks: Bool[Tensor, "domain height width"], cases: list[int], dtype: torch.dtype
    ) -> Iterator[tuple[Bool[Tensor, "domain height width"], Float[Tensor, "domain number"]]]:
        """Yield places of pixels, displacements, and numbers of nearest pixels, which float32 holds exactly up to 2²⁴.

        In training the symmetric versions follow, since augmentation will ask for them: they need no further solution,
        which is what takes longest.
        """
        points = disc_points(self.points).to(masks.device)
        disc_map = map_to_disc(masks, cases)
        for version in disc_map.symmetric_versions() if self.training else [disc_map]:
            nearest = version.nearest(points)
            moved = find_displacements(version, nearest, points).float()
            parts = (version.pixels, moved, nearest)
            yield version.mask, torch.cat([part.flatten(1).to(dtype) for part in parts], 1)


def disc_points(count: int) -> Float[Tensor, "{count} 2"]:
    """Spread points over the unit disc: some of them on its boundary, the others as the seeds of a sunflower."""
    on_circle = round(ON_CIRCLE * count)
    around = 2 * np.pi * np.arange(on_circle) / max(on_circle, 1)
    seed = np.arange(count - on_circle)
    radius = np.concatenate([np.ones(on_circle), np.sqrt((seed + 0.5) / max(len(seed), 1))])
    angle = np.concatenate([around, GOLDEN_ANGLE * seed])
    return torch.from_numpy(np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1))


def find_displacements(
    disc_map: DiscMap, nearest: Tensor, points: Float[Tensor, "point 2"]
) -> Float[Tensor, "batch 2 point"]:
    """x(w) − (1 + w)/2: where points of the disc come from, relative to the disc in the middle of the unit square.

    Within the nearest pixel the map is taken as linear.
    """
    height, width = disc_map.mask.shape[1:]
    top_left, top_right, bottom_right, bottom_left = disc_map.corners.flatten(3).unbind(1)
    slopes = torch.stack([(top_right + bottom_right - top_left - bottom_left) / 2,
                          (bottom_left + bottom_right - top_left - top_right) / 2], dim=2)  # fmt: skip
    index = nearest[:, None].expand(-1, 2, -1)
    missed = points.T - disc_map.pixels.flatten(2).gather(2, index)
    jacobian = slopes.gather(3, index[:, :, None].expand(-1, -1, 2, -1)).movedim(3, 1)
    steps = torch.linalg.solve(jacobian, missed.mT[..., None])[..., 0].mT.clamp(-0.5, 0.5)
    pixel = torch.stack([nearest % width, nearest // width], dim=1) + 0.5
    return (pixel + steps) / max(height, width) - (1 + points.T) / 2


@lru_cache(maxsize=8)
def analyse_outlines(points: int, components: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean displacement of random outlines, and principal components divided by standard deviations."""
    drawn = [draw_outline(np.random.default_rng([OUTLINE_SEED, index])) for index in range(OUTLINES)]
    masks = torch.from_numpy(np.stack([largest_part(outline.inside(OUTLINE_GRID)) for outline in drawn])).cpu()
    masks = masks[walk_boundaries(masks).is_whole]
    disc_map, on_disc = map_to_disc(masks), disc_points(points)
    moved = find_displacements(disc_map, disc_map.nearest(on_disc), on_disc).numpy()
    mean = moved.mean(0)
    bases = []
    for along in (0, 1):
        _, values, rows = np.linalg.svd(moved[:, along] - mean[along], full_matrices=False)
        signs = np.sign(rows[np.arange(len(rows)), np.abs(rows).argmax(1)])  # components are unique up to their sign
        deviations = values[:components] / np.sqrt(len(moved))
        bases.append((rows * signs[:, None])[:components].T / deviations)
    return mean.astype(np.float32), np.stack(bases).astype(np.float32)
