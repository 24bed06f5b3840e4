"""A direct solver that refines every solution, and reports its backward error and an estimate of its error."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from disol._arrays import exponent_of, ldexp
from disol.errors import DisolError
from disol.fem.rounding import (
    EPSILON,
    GOLDEN,
    NOTABLE_ERROR,
    SMALLEST_NORMAL,
    WELL_CONDITIONED,
    Refinement,
    last_places,
)
from disol.fem.solve import LARGEST_BACKWARD_ERROR
from disol.solvers import nested_dissection
from disol.solvers.fronts import Elimination
from disol.solvers.memory import cases_at_once
from disol.solvers.nested_dissection import Factors
from disol.solvers.operator import DiscreteOperator, Fields, PerCase, largest, unit_of


@dataclass(frozen=True)
class BatchSettings:
    """How a batch is solved.

    precision     of the factors, float64 or float32; solutions and residuals are always float64, and refinement makes
                  up for float32 factors
    chunk         cases solved at once; None takes as many as fit into memory
    elimination   settings of the direct solver
    """

    precision: torch.dtype = torch.float64
    chunk: int | None = None
    elimination: Elimination = nested_dissection.DEFAULT

    def __post_init__(self) -> None:
        if self.precision not in (torch.float64, torch.float32):
            raise DisolError(
                f"precision must be torch.float64 or torch.float32, got {self.precision}. Use one of them."
            )
        if self.chunk is not None and self.chunk < 1:
            raise DisolError(f"chunk must be at least 1, got {self.chunk}. Leave it out to fill the device.")


DEFAULT = BatchSettings()


class Solved(NamedTuple):
    """Solutions and their errors, of each case the largest over its loads.

    backward_error   ‖b − A u‖ / (‖A‖ ‖u‖ + ‖b‖)
    rounding_error   estimate of the largest error, relative to the largest nodal value
    """

    nodes: Fields
    backward_error: PerCase
    rounding_error: PerCase


@dataclass(frozen=True, eq=False)
class CheckedSolver:
    """A factorised batch that refines its solutions and reports their errors.

    operator   scaled to entries of about 1: its element matrix is divided by 2ᵉ, with e the `exponent`
    """

    operator: DiscreteOperator
    factors: Factors
    norm: PerCase
    exponent: Int[Tensor, ""]

    @classmethod
    def of(cls, operator: DiscreteOperator, settings: BatchSettings = DEFAULT) -> "CheckedSolver":
        """Factorise a batch."""
        exponent = exponent_of(operator.element_matrix.abs().max())
        scaled = operator.with_matrix(ldexp(operator.element_matrix, -exponent))
        factors = nested_dissection.factorise(scaled.to(dtype=settings.precision), settings.elimination)
        return cls(scaled, factors, scaled.frobenius_norm(), exponent)

    def solve(self, loads: Fields, refine: bool = True) -> Solved:
        """Solve, and refine u ← u + A⁻¹ (b − A u) while that helps; without `refine`, do not estimate errors either."""
        several = loads if loads.ndim == 5 else loads[..., None]
        unit = exponent_of(largest(several, keepdim=True))
        scaled = self.operator.restrict(ldexp(several, -unit))
        nodes, error = self._refine(scaled) if refine else (self._solve(scaled), torch.zeros_like(largest(scaled)))
        backward_error = self.operator.backward_error(nodes, scaled, self.norm)
        found = ldexp(nodes, unit - self.exponent)
        return Solved(found if loads.ndim == 5 else found[..., 0], backward_error.amax(dim=1), error.amax(dim=1))

    def _refine(self, loads: Fields) -> tuple[Fields, Float[Tensor, "batch load"]]:
        # As in the reference solver, a load with a known solution is solved along with the others.
        free = self.operator.free
        places = torch.arange(free[0].numel(), dtype=loads.dtype, device=loads.device).view(free.shape[1:])
        known = self.operator.restrict((places * GOLDEN % 2 - 1).expand(free.shape))
        found = self._solve(torch.cat([loads, self.operator.apply(known)[..., None]], dim=-1))
        nodes, rate = found[..., :-1], largest(found[..., -1] - known)
        rounding = torch.finfo(self.factors.dtype).eps
        rates = rate[:, None].expand(-1, nodes.shape[-1])
        refinement = Refinement(largest(nodes), rates, rounding, WELL_CONDITIONED)
        while refinement.active.any():
            correction = self._solve(self.operator.precise_residual(nodes, loads))
            # Decided for each case: one that no longer converges must not stop the others.
            accepted = refinement.accept(largest(correction), largest(nodes))
            nodes = torch.where(accepted[:, None, None, None], nodes + correction, nodes)
        error, sizes = refinement.error, largest(nodes).clamp(min=SMALLEST_NORMAL)
        for change in torch.from_numpy(last_places(self.operator.element_matrix.cpu().numpy())):
            changed = largest(self._solve(self.operator.with_matrix(change).apply(nodes)))
            error = error.maximum(refinement.error + changed / sizes)
        return nodes, error

    def measure_steps(self, mass: DiscreteOperator) -> tuple[PerCase, PerCase]:
        """Return the error that rounding adds in a time step, and the share of an earlier error that a step keeps."""
        ones = self.operator.restrict(torch.ones_like(self.operator.free, dtype=torch.float64))
        sizes = self.operator.with_matrix(self.operator.element_matrix.abs()).apply(ones)
        scaled = mass.with_matrix(ldexp(mass.element_matrix, -self.exponent)).apply(ones)
        added, kept = largest(self._solve(torch.stack([sizes, scaled], dim=-1))).unbind(dim=1)
        return EPSILON * added, kept.clamp(max=1.0)

    def _solve(self, loads: Fields) -> Fields:
        # Residuals shrink under refinement; scaling keeps them from underflowing in float32.
        unit = unit_of(loads)
        return self.factors.solve(loads / unit).to(loads.dtype) * unit


def chunks(operator: DiscreteOperator, settings: BatchSettings, num_loads: int = 1) -> Iterator[slice]:
    """Cut a batch into chunks of nearly equal size that fit on the device."""
    chunk = settings.chunk
    if chunk is None:
        needed = nested_dissection.bytes_per_case(operator, settings.precision, num_loads)
        chunk = cases_at_once(needed, operator.mask.device)
    pieces = -(-len(operator) // chunk)
    for piece in range(pieces):
        yield slice(piece * len(operator) // pieces, (piece + 1) * len(operator) // pieces)


def failures(backward_error: PerCase, rounding_error: PerCase) -> tuple[int, ...]:
    """List the cases whose backward error is too large or that rounding changes notably; NaN is too large."""
    passed = (backward_error <= LARGEST_BACKWARD_ERROR) & (rounding_error <= NOTABLE_ERROR)
    return tuple(torch.nonzero(~passed).flatten().tolist())
