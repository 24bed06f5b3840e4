"""The discrete operator A of a batch of cases, applied without ever being assembled."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor
from torch.nn.functional import pad

from disol._arrays import Array, to_device
from disol.fem import System
from disol.fem.assembly import NEIGHBOURS
from disol.fem.rounding import leading_part
from disol.grid import CORNERS

Fields = Float[Tensor, "batch component rows columns *load"]
PerCase = Float[Tensor, " batch"]


@dataclass(frozen=True, eq=False)
class DiscreteOperator:
    """A u = Σ over mask pixels of the element matrix, on the free unknowns of each case.

    mask             one finite element per marked pixel
    free             the unknowns; every other nodal value is 0
    element_matrix   the local matrix of every pixel, in the order (corner, component), component fastest

    Fields are nodal values `[batch, component, rows, columns]`; a last axis may hold several of them per case.
    """

    mask: Bool[Tensor, "batch height width"]
    free: Bool[Tensor, "batch component rows columns"]
    element_matrix: Float[Tensor, "local local"]

    @property
    def components(self) -> int:
        """Unknowns per node."""
        return self.free.shape[1]

    @property
    def is_symmetric(self) -> bool:
        """Tell whether the element matrix equals its transpose, up to rounding."""
        matrix = self.element_matrix
        tolerance = 4 * torch.finfo(matrix.dtype).eps * float(matrix.abs().max())
        return bool((matrix - matrix.mT).abs().max() <= tolerance)

    def __len__(self) -> int:
        return len(self.mask)

    def __getitem__(self, cases: slice | Tensor) -> "DiscreteOperator":
        return replace(self, mask=self.mask[cases], free=self.free[cases])

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> "DiscreteOperator":
        """Move to a device, and compute in another precision."""
        return DiscreteOperator(
            self.mask.to(device), self.free.to(device), self.element_matrix.to(device=device, dtype=dtype)
        )

    def with_matrix(self, element_matrix: Float[Tensor, "local local"]) -> "DiscreteOperator":
        """Keep the domains and the unknowns, and replace the element matrix."""
        return replace(self, element_matrix=element_matrix.to(self.element_matrix))

    def restrict(self, fields: Fields) -> Fields:
        """Set values that are not free to zero."""
        return fields * trailing(self.free, fields)

    def apply(self, fields: Fields) -> Fields:
        """A u, zero where values are not free."""
        height, width = self.mask.shape[1:]
        inner = self.restrict(fields)
        corners = [inner[:, :, row : row + height, column : column + width] for row, column in CORNERS]
        local = torch.einsum("ij,bj...->bi...", self.element_matrix, torch.cat(corners, dim=1))
        local = local * trailing(self.mask[:, None], local)
        return self.restrict(sum_over_corners(local, self.components))

    def residual(self, fields: Fields, loads: Fields) -> Fields:
        """Return b − A u on the free unknowns."""
        return self.restrict(loads) - self.apply(fields)

    def precise_residual(self, fields: Fields, loads: Fields) -> Fields:
        """Return b − A u, where it is small, with about 25 bits more than double precision."""
        large = leading_part(fields, largest(fields, keepdim=True))
        leading = leading_part(self.element_matrix, 4 * self.element_matrix.abs().sum(dim=1).max())  # four pixels meet
        rest = self.with_matrix(self.element_matrix - leading)
        small = self.apply(fields - large) + rest.apply(large)
        return self.restrict(loads) - self.with_matrix(leading).apply(large) - small

    def energy(self, left: Fields, right: Fields) -> Float[Tensor, "batch *load"]:
        """vᵀ A u."""
        return inner_product(self.restrict(left), self.apply(right))

    def diagonal(self) -> Float[Tensor, "batch component rows columns"]:
        """Aᵢᵢ, zero where values are not free."""
        local = self.element_matrix.diagonal()[:, None, None] * self.mask[:, None]
        return self.restrict(sum_over_corners(local, self.components))

    def stencil(self) -> Iterator[Float[Tensor, "batch component component rows columns"]]:
        """Yield the coefficients of row i for each neighbour j of node i, in the order of `fem.assembly.NEIGHBOURS`."""
        height, width = self.mask.shape[1:]
        local = self.element_matrix.reshape(4, self.components, 4, self.components)
        weight = self.mask.to(local.dtype)[:, None, None]
        surrounded = pad(self.free, (1, 1, 1, 1))
        rows, columns = self.free.shape[2:]
        for down, across in NEIGHBOURS:
            total = weight.new_zeros(len(self), self.components, self.components, rows, columns)
            for test, trial in pairs_of_corners(down, across):
                row, column = CORNERS[test]
                target = total[..., row : row + height, column : column + width]
                target.addcmul_(local[test, :, trial, :, None, None], weight)
            neighbour_free = surrounded[:, :, 1 + down : 1 + down + rows, 1 + across : 1 + across + columns]
            yield total.mul_(self.free[:, :, None]).mul_(neighbour_free[:, None])

    def frobenius_norm(self) -> PerCase:
        """(Σ Aᵢⱼ²)^½ of each case."""
        squares = [coefficients.square_().flatten(1).sum(dim=1) for coefficients in self.stencil()]
        return torch.stack(squares).sum(dim=0).sqrt()

    def backward_error(
        self, fields: Fields, loads: Fields, norm: PerCase | None = None
    ) -> Float[Tensor, "batch *load"]:
        """‖b − A u‖ / (‖A‖ ‖u‖ + ‖b‖), zero where both u and b are."""
        unit = unit_of(loads)  # squares of very small or large values underflow or overflow
        fields, loads = fields / unit, loads / unit
        size = trailing(self.frobenius_norm() if norm is None else norm, inner_product(fields, fields))
        scale = size * length(fields) + length(self.restrict(loads))
        return torch.where(scale == 0, 0.0, length(self.residual(fields, loads)) / scale)

    def system(self, case: int, load: Float[Tensor, "component rows columns"]) -> System:
        """Return one case for the reference solver."""
        return System(
            self.mask[case].cpu().numpy(),
            self.element_matrix.detach().double().cpu().numpy(),
            self.free[case].cpu().numpy(),
            load.detach().double().cpu().numpy(),
        )


def from_system(
    systems: System, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float64
) -> tuple[DiscreteOperator, Float[Tensor, "batch component rows columns"]]:
    """Return the operator and the loads of a batch of systems, moved to a device if they are not there."""
    mask, free, loads = (on_device(array, device) for array in (systems.mask, systems.free, systems.load))
    matrix = on_device(systems.element_matrix, device).to(dtype)
    return DiscreteOperator(mask, free, matrix), loads.to(dtype)


def on_device(array: Shaped[Array, "..."], device: torch.device | str) -> Shaped[Tensor, "..."]:
    """Return an array, or a tensor, as a tensor on a device."""
    return array.to(device) if isinstance(array, Tensor) else to_device(array, device)


def unit_of(loads: Fields) -> Float[Tensor, "batch 1 1 1 *load"]:
    """Return what to divide loads by: the largest |b| of each case and load, or 1 where it is 0."""
    sizes = largest(loads, keepdim=True)
    return torch.where(sizes > 0, sizes, 1.0)


def largest(fields: Fields, keepdim: bool = False) -> Float[Tensor, "batch ..."]:
    """Return max |u| of each case and load."""
    return fields.abs().amax(dim=(1, 2, 3), keepdim=keepdim)


def pairs_of_corners(down: int, across: int) -> list[tuple[int, int]]:
    """List the corners (test, trial) of a pixel whose trial corner lies `(down, across)` from the test corner."""
    corners = list(enumerate(CORNERS))
    return [
        (test, trial)
        for test, (row, column) in corners
        for trial, other in corners
        if other == (row + down, column + across)
    ]


def sum_over_corners(
    local: Float[Tensor, "batch local height width *load"], components: int
) -> Float[Tensor, "batch component rows columns *load"]:
    """Sum at each node the contributions of the pixels around it (the assembly of a vector)."""
    height, width = local.shape[2:4]
    total = local.new_zeros(len(local), components, height + 1, width + 1, *local.shape[4:])
    for (row, column), values in zip(CORNERS, local.chunk(4, dim=1), strict=True):
        total[:, :, row : row + height, column : column + width] += values
    return total


def inner_product(left: Fields, right: Fields) -> Float[Tensor, "batch *load"]:
    """Σ uᵢ vᵢ of each case."""
    return (left * right).sum(dim=(1, 2, 3))


def length(fields: Fields) -> Float[Tensor, "batch *load"]:
    """‖u‖ of each case."""
    return torch.linalg.vector_norm(fields, dim=(1, 2, 3))


def trailing(values: Tensor, like: Tensor) -> Tensor:
    """Give `values` the number of axes of `like`, the new ones last."""
    return values.reshape(*values.shape, *[1] * (like.ndim - values.ndim))
