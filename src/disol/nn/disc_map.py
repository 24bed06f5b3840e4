"""Maps of domains to the unit disc: boundaries matched by arc length, harmonic inside, so that nothing folds.

A harmonic map onto a convex set whose boundary values run once around it is one to one (Radó, Kneser, Choquet; for the
five-point stencil Tutte). In the other direction, from the disc to a domain that is not convex, nothing of the kind is
guaranteed. So the map to the disc is the harmonic one, and its inverse is looked up.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad

from disol.errors import DisolError
from disol.geometry.boundary import SIDES
from disol.grid import CORNERS
from disol.solvers import DiscreteOperator, solve_batch

# Differences along the four sides of a pixel: a positive weight for every edge of a planar graph.
FIVE_POINT = ((1.0, -0.5, 0.0, -0.5), (-0.5, 1.0, -0.5, 0.0), (0.0, -0.5, 1.0, -0.5), (-0.5, 0.0, -0.5, 1.0))
FAR = 100.0  # from the disc; infinite coordinates would give NaN distances
DISTANCES_AT_ONCE = 2**26  # from points of the disc to pixels, on a GPU
DISTANCES_IN_CACHE = 2**20  # of a CPU


class BoundaryWalk(NamedTuple):
    """Where the sides of pixels end along the boundary of a domain, which lies on the right.

    Sides are indexed (number, row, column).

    is_side    whether the pixel is in the domain and the one beyond this side is not
    fraction   share of the length of the boundary up to the end of a side
    is_whole   whether all sides of a domain are on one loop
    """

    is_side: Bool[Tensor, "batch 4 height width"]
    fraction: Float[Tensor, "batch 4 height width"]
    is_whole: Bool[Tensor, " batch"]


def walk_boundaries(masks: Bool[Tensor, "batch height width"]) -> BoundaryWalk:
    """Walk around all domains of a batch at once, by pointer jumping: every side finds the one 2ⁿ steps ahead.

    Lengths are measured from the middle of a side to that of the next, which is exact along axes and diagonals.
    """
    framed = pad(masks, (1, 1, 1, 1))
    height, width = framed.shape[1:]
    here = torch.arange(height * width, device=masks.device).reshape(height, width)
    is_side, following, steps = [], [], []
    for side, (outward, along) in enumerate(SIDES):
        across = (outward[0] + along[0], outward[1] + along[1])
        beyond, ahead, diagonal = (framed.roll((-row, -column), (1, 2)) for row, column in (outward, along, across))
        straight = side * here.numel() + here + along[0] * width + along[1]
        inward = (side - 1) % 4 * here.numel() + here + across[0] * width + across[1]
        turned = (side + 1) % 4 * here.numel() + here
        is_side.append(framed & ~beyond)
        following.append(torch.where(~ahead, turned, torch.where(diagonal, inward, straight)))
        steps.append(torch.where(ahead & ~diagonal, 1.0, 0.5**0.5))
    sides = torch.stack(is_side, 1)
    flat = sides.flatten(1)
    step = torch.stack(steps, 1).flatten(1).double() * flat
    itself = torch.arange(flat.shape[1], device=masks.device)
    successor = torch.where(flat, torch.stack(following, 1).flatten(1), itself)
    start = flat.int().argmax(1, keepdim=True)
    first = step.gather(1, start)
    second = successor.gather(1, start)
    left = step.scatter(1, start, 0.0)  # length left to walk, from the middle of a side to that of the first
    jump = successor.scatter(1, start, start)
    for _ in range(int(flat.sum(1).max()).bit_length()):
        left = left + left.gather(1, jump)
        jump = jump.gather(1, jump)
    length = first + left.gather(1, second)
    walked = torch.where(itself == start, 0.0, length - left)
    fraction = ((walked + step / 2) / length.clamp(min=1)).reshape(sides.shape)
    is_whole = flat.any(1) & ((jump == start) | ~flat).all(1)
    return BoundaryWalk(sides[..., 1:-1, 1:-1], fraction[..., 1:-1, 1:-1], is_whole)


class DiscMap(NamedTuple):
    """Where the corners of the pixels of domains lie on the unit disc.

    mask       the pixels of the domains
    corners    from the top left one clockwise
    """

    mask: Bool[Tensor, "batch height width"]
    corners: Float[Tensor, "batch 4 2 height width"]

    @property
    def pixels(self) -> Float[Tensor, "batch 2 height width"]:
        """Where the pixels lie, each at the mean of its corners; 0 outside the domain."""
        return self.corners.mean(1) * self.mask[:, None]

    def count_folds(self) -> Int[Tensor, " batch"]:
        """Count the pixels of each domain that the map inverts or flattens: a triangle of corners has an area ≤ 0."""
        following, before = self.corners.roll(-1, 1), self.corners.roll(1, 1)
        a, b = following - self.corners, before - self.corners
        areas = a[:, :, 0] * b[:, :, 1] - a[:, :, 1] * b[:, :, 0]
        return ((areas <= 0).any(1) & self.mask).sum((1, 2))

    def nearest(self, points: Float[Tensor, "point 2"]) -> Int[Tensor, "batch point"]:
        """Return the pixel of each domain, as an index into the flattened grid, nearest to each point of the disc."""
        places = torch.where(self.mask[:, None], self.pixels, FAR).flatten(2)
        most = DISTANCES_AT_ONCE if places.is_cuda else DISTANCES_IN_CACHE
        at_once = max(most // (len(points) * places.shape[2]), 1)
        exact, found = points.to(places), []
        for some in places.split(at_once):  # type: ignore[no-untyped-call]
            squares = some.square().sum(1, keepdim=True)
            # |w|² − 2 w · p, which is least where the distance |w − p| is.
            found.append(torch.baddbmm(squares, exact.expand(len(some), -1, -1), some, alpha=-2).argmin(2))
        return torch.cat(found)

    def symmetric_versions(self) -> Iterator["DiscMap"]:
        """Yield the maps of these domains and of their mirrored and, on a square grid, rotated versions."""
        for mirrored in (self, self._mirrored()):
            for version in (mirrored, mirrored._upended()):
                yield version
                if self.mask.shape[1] == self.mask.shape[2]:
                    yield version._transposed()

    def _mirrored(self) -> "DiscMap":
        signs = self.corners.new_tensor([-1.0, 1.0])[:, None, None]
        return DiscMap(self.mask.flip(2), self.corners[:, [1, 0, 3, 2]].flip(4) * signs)

    def _upended(self) -> "DiscMap":
        return self._transposed()._mirrored()._transposed()

    def _transposed(self) -> "DiscMap":
        return DiscMap(self.mask.mT, self.corners[:, [0, 3, 2, 1]].flip(2).mT)


@torch.no_grad()
def map_to_disc(masks: Bool[Tensor, "batch height width"], cases: Sequence[int] | None = None) -> DiscMap:
    """Map domains to the unit disc, each rotated so that its boundary moves least.

    cases   numbers of the domains in the batch that they are from, for error messages
    """
    walk = walk_boundaries(masks)
    if not walk.is_whole.all():
        refused = int((~walk.is_whole).nonzero()[0])
        case = refused if cases is None else cases[refused]
        raise DisolError(
            "A domain that is mapped to a disc must be one part without holes, but that of "
            f"case {case} of the batch is not. Use a model without such a map, such as 'fno' or 'disol'."
        )
    batch, height, width = masks.shape
    ends = _turned(walk, height, width)
    nodes = ends.new_zeros(batch, 2, height + 1, width + 1)
    for side in range(4):  # a side ends at the corner of the next one
        row, column = CORNERS[(side + 1) % 4]
        window = nodes[:, :, row : row + height, column : column + width]
        window.copy_(torch.where(walk.is_side[:, side, None], ends[:, side], window))
    nodes = nodes + _harmonic(masks, nodes)
    corners = []
    for corner, (row, column) in enumerate(CORNERS):
        shared = nodes[:, :, row : row + height, column : column + width]
        # Where two pixels touch only at a corner, the boundary passes it twice: each pixel has its own place there.
        passes = walk.is_side[:, corner - 1] & walk.is_side[:, corner]
        corners.append(torch.where(passes[:, None], ends[:, corner - 1], shared))
    return DiscMap(masks, torch.stack(corners, 1))


def _turned(walk: BoundaryWalk, height: int, width: int) -> Float[Tensor, "batch 4 2 {height} {width}"]:
    """Return the points of the circle where sides end, rotated to fit best where they end on the grid."""
    angle = 2 * torch.pi * walk.fraction
    rows, columns = torch.meshgrid(
        torch.arange(height, device=angle.device), torch.arange(width, device=angle.device), indexing="ij"
    )
    counts = walk.is_side.double()
    places = [
        torch.stack([columns + CORNERS[(side + 1) % 4][1], rows + CORNERS[(side + 1) % 4][0]]) for side in range(4)
    ]
    at = torch.stack(places)[None] * counts[:, :, None]
    mean = at.sum((1, 3, 4), keepdim=True) / counts.sum((1, 2, 3))[:, None, None, None, None].clamp(min=1)
    x, y = (at - mean * counts[:, :, None]).unbind(2)
    along = (x * angle.cos() + y * angle.sin()).sum((1, 2, 3))
    aside = (y * angle.cos() - x * angle.sin()).sum((1, 2, 3))
    turned = angle + torch.atan2(aside, along)[:, None, None, None]
    return torch.stack([turned.cos(), turned.sin()], dim=2) * counts[:, :, None]


def _harmonic(
    masks: Bool[Tensor, "batch height width"], boundary: Float[Tensor, "batch 2 rows columns"]
) -> Float[Tensor, "batch 2 rows columns"]:
    """Return inner values that are each the mean of their four neighbours; 0 on the boundary and outside."""
    framed = pad(masks, (1, 1, 1, 1))
    inside = framed[:, :-1, :-1] & framed[:, :-1, 1:] & framed[:, 1:, :-1] & framed[:, 1:, 1:]
    everywhere = torch.ones_like(inside)[:, None]
    matrix = torch.tensor(FIVE_POINT, dtype=boundary.dtype, device=boundary.device)
    values = boundary.movedim(1, -1)[:, None]
    load = -DiscreteOperator(masks, everywhere, matrix).apply(values) * inside[:, None, ..., None]
    return solve_batch(DiscreteOperator(masks, inside[:, None], matrix), load).nodes[:, 0].movedim(-1, 1)
