"""Geometric multigrid for a batch of domains: Galerkin coarse stencils, coloured Gauss-Seidel, one V-cycle.

Fast where domains are at least a few pixels thick. Walls one pixel wide defeat it, but not the direct solver.
"""

from dataclasses import dataclass
from functools import cache

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import conv2d, conv_transpose2d, pad

from disol.fem.assembly import NEIGHBOURS
from disol.solvers.operator import DiscreteOperator, inner_product

COLOURS = ((0, 0), (1, 1), (0, 1), (1, 0))  # no two nodes of one colour are neighbours
COARSEST_PIXELS = 4  # along the shorter side
# By default, cuDNN rounds the operands of float32 convolutions to ten bits (TensorFloat32).
IN_FULL_PRECISION = torch.backends.cudnn.flags(enabled=True, allow_tf32=False)

Nodes = Float[Tensor, "batch component rows columns"]
Stencil = Float[Tensor, "batch 9 component component rows columns"]
Coarse = Float[Tensor, "batch component _ _"]
CoarseStencil = Float[Tensor, "batch 9 component component coarse_rows coarse_columns"]
BlockDiagonal = Float[Tensor, "batch component component rows columns"]


@dataclass(frozen=True, eq=False)
class Colour:
    """The nodes of one colour: every second row and column from `(row, column)`, their stencil and inverse diagonal."""

    row: int
    column: int
    stencil: Stencil
    inverse: BlockDiagonal

    def of(self, fields: Tensor) -> Tensor:
        """Pick this colour's nodes."""
        return fields[..., self.row :: 2, self.column :: 2]

    def product(self, surrounded: Nodes) -> Coarse:
        """A u at this colour's nodes, from u with a border of one node."""
        rows, columns = self.stencil.shape[-2:]
        if self.stencil.shape[2] == 1:
            # On a CPU, one product over views of the nine neighbours is twice as fast as nine small ones.
            reached = surrounded[..., self.row : self.row + 2 * rows + 1, self.column : self.column + 2 * columns + 1]
            around = reached.unfold(2, 3, 2).unfold(3, 3, 2).permute(0, 4, 5, 1, 2, 3)
            return (self.stencil.reshape(-1, 3, 3, 1, rows, columns) * around).sum(dim=(1, 2))
        total = torch.zeros_like(self.stencil[:, 0, 0])
        for place, (down, across) in enumerate(NEIGHBOURS):
            top, left = self.row + 1 + down, self.column + 1 + across
            shifted = surrounded[..., top : top + 2 * rows - 1 : 2, left : left + 2 * columns - 1 : 2]
            total = total + contract(self.stencil[:, place], shifted)
        return total


@dataclass(frozen=True, eq=False)
class Level:
    """The operator on one grid."""

    colours: tuple[Colour, ...]
    active: Nodes

    def apply(self, fields: Nodes) -> Nodes:
        """A u."""
        surrounded = pad(fields, (1, 1, 1, 1))
        result = torch.empty_like(fields)
        for colour in self.colours:
            colour.of(result).copy_(colour.product(surrounded))
        return result

    def smooth(self, fields: Nodes, loads: Nodes, upwards: bool) -> Nodes:
        """Improve u in A u = b by a Gauss-Seidel sweep: solve for the nodes of one colour after the other.

        The order of colours is reversed on the way up, so that a cycle is symmetric.
        """
        surrounded = pad(fields, (1, 1, 1, 1))
        inner = surrounded[..., 1:-1, 1:-1]
        for colour in reversed(self.colours) if upwards else self.colours:
            residual = colour.of(loads) - colour.product(surrounded)
            colour.of(inner).add_(contract(colour.inverse, residual))
        return inner


@dataclass(frozen=True, eq=False)
class Multigrid:
    """One V-cycle as an approximate inverse M⁻¹ ≈ A⁻¹, symmetric where A is."""

    levels: tuple[Level, ...]
    coarse_inverse: Float[Tensor, "batch coarse coarse"]

    @classmethod
    def of(cls, operator: DiscreteOperator) -> "Multigrid":
        """Build the coarse operators of a batch."""
        stencil = padded_stencil(operator)
        levels = [level_of(stencil)]
        while min(stencil.shape[-2:]) - 1 > COARSEST_PIXELS:
            stencil = coarsen(stencil)
            levels.append(level_of(stencil))
        return cls(tuple(levels), dense_inverse(stencil))

    def v_cycle(self, residual: Nodes) -> Nodes:
        """M⁻¹ r."""
        rows, columns = residual.shape[-2:]
        finest = self.levels[0].active
        # Scaling keeps the full precision of a float32 cycle, however small the residual has become.
        scale = residual.abs().amax(dim=(1, 2, 3), keepdim=True).detach()
        scaled = (residual / torch.where(scale > 0, scale, 1.0)).to(finest.dtype)
        padded = pad(scaled, (0, finest.shape[-1] - columns, 0, finest.shape[-2] - rows)) * finest
        return self._cycle(padded, 0)[..., :rows, :columns].to(residual.dtype) * scale

    def energy_error_estimate(self, residual: Nodes) -> Float[Tensor, " batch"]:
        """√(r · M⁻¹ r), an estimate of the energy norm of the error, √(e · A e)."""
        return inner_product(residual, self.v_cycle(residual)).clamp(min=0).sqrt()

    def _cycle(self, loads: Nodes, depth: int) -> Nodes:
        if depth == len(self.levels) - 1:
            return (self.coarse_inverse @ loads.flatten(1)[..., None]).view(loads.shape)
        level = self.levels[depth]
        fields = level.smooth(torch.zeros_like(loads), loads, upwards=False)
        residual = (loads - level.apply(fields)) * level.active
        correction = self._cycle(restrict(residual) * self.levels[depth + 1].active, depth + 1)
        return level.smooth(fields + prolong(correction) * level.active, loads, upwards=True)


def contract(blocks: BlockDiagonal, fields: Nodes) -> Nodes:
    """Multiply each node's components by its own small matrix."""
    if fields.shape[1] == 1:
        return blocks[:, 0] * fields
    return (blocks * fields[:, None]).sum(dim=2)


def padded_stencil(operator: DiscreteOperator) -> Stencil:
    """Return the stencil on a grid that can be halved until its shorter side has at most `COARSEST_PIXELS`."""
    height, width = operator.mask.shape[1:]
    halvings = 0
    while min(height, width) > COARSEST_PIXELS << halvings:
        halvings += 1
    down, right = -height % 2**halvings, -width % 2**halvings
    return torch.stack([pad(part, (0, right, 0, down)) for part in operator.stencil()], dim=1)


def level_of(stencil: Stencil) -> Level:
    """Split a stencil by colours and invert its diagonal blocks."""
    blocks = stencil[:, NEIGHBOURS.index((0, 0))]
    diagonal = blocks.diagonal(dim1=1, dim2=2).movedim(-1, 1)
    active = diagonal > 0
    inverse = invert_blocks(blocks, active)
    colours = tuple(
        Colour(row, column, *(part[..., row::2, column::2].contiguous() for part in (stencil, inverse)))
        for row, column in COLOURS
    )
    return Level(colours, active.to(stencil.dtype))


def invert_blocks(blocks: BlockDiagonal, active: Tensor) -> BlockDiagonal:
    """Invert the small matrix of each node on its active components (by formula: a library is slow for so many)."""
    diagonal = blocks.diagonal(dim1=1, dim2=2).movedim(-1, 1)
    diagonal = diagonal + regularisation(diagonal)
    if blocks.shape[1] == 1:
        return (active / diagonal)[:, None]
    (a, d), b, c = diagonal.unbind(dim=1), blocks[:, 0, 1], blocks[:, 1, 0]
    adjugate = torch.stack([torch.stack([d, -b], dim=1), torch.stack([-c, a], dim=1)], dim=1)
    return adjugate / (a * d - b * c)[:, None, None] * (active[:, None] & active[:, :, None])


def regularisation(diagonal: Tensor) -> Tensor:
    """Return what to add to a diagonal to keep the matrix invertible: 1 in empty rows, next to nothing elsewhere."""
    tiny = 1e4 * torch.finfo(diagonal.dtype).eps
    return torch.where(diagonal > 0, tiny * diagonal, 1.0)


@IN_FULL_PRECISION
def coarsen(stencil: Stencil) -> CoarseStencil:
    """Pᵀ A P: the stencil of every second node, for bilinear interpolation P."""
    batch, _, components, _, rows, columns = stencil.shape
    images = stencil.permute(0, 2, 3, 1, 4, 5).reshape(-1, 9, rows, columns)
    coarse = conv2d(images, galerkin_weights(stencil.dtype, stencil.device), stride=2, padding=1)
    return coarse.view(batch, components, components, 9, *coarse.shape[-2:]).permute(0, 3, 1, 2, 4, 5)


@cache  # copying constants to a GPU would synchronise with it every time
@torch.inference_mode(False)  # autograd could not use a cached inference tensor
def galerkin_weights(dtype: torch.dtype, device: torch.device) -> Float[Tensor, "9 9 3 3"]:
    """Weights of `coarsen`: coarse neighbour q gathers w(p) w(p + s − 2 q) of the fine coefficient s at offset p."""
    offsets = torch.tensor([-1, 0, 1])
    coarse, fine, place = offsets[:, None, None], offsets[None, :, None], offsets[None, None, :]
    along = hat(place) * hat(place + fine - 2 * coarse)
    return torch.einsum("qsp,rtu->qrstpu", along, along).reshape(9, 9, 3, 3).to(device, dtype)


def hat(offset: Tensor) -> Tensor:
    """Return the basis function of a coarse node at a fine node `offset` away: 1, ½ or 0."""
    return (1 - 0.5 * offset.abs()).clamp(min=0) * (offset.abs() <= 1)


@cache
@torch.inference_mode(False)
def interpolation_kernel(dtype: torch.dtype, device: torch.device) -> Float[Tensor, "1 1 3 3"]:
    """Bilinear weights around a coarse node."""
    along = hat(torch.tensor([-1, 0, 1])).to(device, dtype)
    return (along[:, None] * along)[None, None]


@IN_FULL_PRECISION
def restrict(fields: Nodes) -> Coarse:
    """Pᵀ r."""
    kernel = interpolation_kernel(fields.dtype, fields.device)
    coarse = conv2d(fields.flatten(0, 1)[:, None], kernel, stride=2, padding=1)
    return coarse.view(*fields.shape[:2], *coarse.shape[-2:])


@IN_FULL_PRECISION
def prolong(fields: Coarse) -> Coarse:
    """P u."""
    kernel = interpolation_kernel(fields.dtype, fields.device)
    fine = conv_transpose2d(fields.flatten(0, 1)[:, None], kernel, stride=2, padding=1)
    return fine.view(*fields.shape[:2], *fine.shape[-2:])


def dense_inverse(stencil: Stencil) -> Float[Tensor, "batch coarse coarse"]:
    """Invert the coarsest operator."""
    batch, _, components, _, rows, columns = stencil.shape
    numbers = torch.arange(rows * columns, device=stencil.device).view(rows, columns)
    surrounded = pad(numbers, (1, 1, 1, 1), value=-1)
    matrix = stencil.new_zeros(batch, components, components, rows * columns, rows * columns)
    for place, (down, across) in enumerate(NEIGHBOURS):
        others = surrounded[1 + down : 1 + down + rows, 1 + across : 1 + across + columns]
        inside = others >= 0
        matrix[..., numbers[inside], others[inside]] = stencil[:, place][..., inside]
    dense = matrix.transpose(2, 3).reshape(batch, components * rows * columns, -1)
    return torch.linalg.inv(dense + torch.diag_embed(regularisation(dense.diagonal(dim1=1, dim2=2))))
