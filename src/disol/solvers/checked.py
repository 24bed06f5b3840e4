"""A direct solver that checks itself: refinement, and a backward error for every solution."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from disol.errors import DisolError
from disol.fem.solve import LARGEST_BACKWARD_ERROR
from disol.solvers import nested_dissection
from disol.solvers.fronts import Elimination
from disol.solvers.memory import cases_at_once
from disol.solvers.nested_dissection import Factors
from disol.solvers.operator import DiscreteOperator, Fields, PerCase, unit_of

SMALL_BACKWARD_ERROR = 1e-16  # not worth refining
MOST_REFINEMENTS = 30
LEAST_GAIN = 0.5  # a refinement that does not halve the error of a case is its last one


@dataclass(frozen=True)
class BatchSettings:
    """How a batch is solved.

    precision     of the factors, float64 or float32; solutions and residuals are float64, and float32 factors are
                  made up for by refinement
    chunk         cases at once, None to take as many as fit
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


@dataclass(frozen=True, eq=False)
class CheckedSolver:
    """Factors of a batch that refine their solutions and report the backward error."""

    operator: DiscreteOperator
    factors: Factors
    norm: PerCase

    @classmethod
    def of(cls, operator: DiscreteOperator, settings: BatchSettings = DEFAULT) -> "CheckedSolver":
        """Factorise a batch."""
        factors = nested_dissection.factorise(operator.to(dtype=settings.precision), settings.elimination)
        return cls(operator, factors, operator.frobenius_norm())

    def solve(self, loads: Fields) -> tuple[Fields, PerCase]:
        """Solve, refine u ← u + A⁻¹ (b − A u) while it helps, and return u and the largest backward error per case."""
        nodes = self._solve(loads)
        errors = self.operator.backward_error(nodes, loads, self.norm)
        # Each case by itself: one that is beyond help must not keep the others from theirs.
        improving = errors > SMALL_BACKWARD_ERROR
        for _ in range(MOST_REFINEMENTS):
            if not improving.any():
                break
            refined = nodes + self._solve(self.operator.residual(nodes, loads))
            refined_errors = self.operator.backward_error(refined, loads, self.norm)
            improving &= (refined_errors <= LEAST_GAIN * errors) & (refined_errors > SMALL_BACKWARD_ERROR)
            better = refined_errors < errors
            nodes = torch.where(better[:, None, None, None], refined, nodes)
            errors = torch.where(better, refined_errors, errors)
        return nodes, errors if errors.ndim == 1 else errors.amax(dim=1)

    def _solve(self, loads: Fields) -> Fields:
        # Residuals shrink as they are refined; scaling keeps them clear of the smallest float32 numbers.
        unit = unit_of(loads)
        return self.factors.solve(loads / unit).to(loads.dtype) * unit


def chunks(operator: DiscreteOperator, settings: BatchSettings, num_loads: int = 1) -> Iterator[slice]:
    """Cut a batch into pieces that fit the device, of nearly equal size."""
    chunk = settings.chunk
    if chunk is None:
        needed = nested_dissection.bytes_per_case(operator, settings.precision, num_loads)
        chunk = cases_at_once(needed, operator.mask.device)
    pieces = -(-len(operator) // chunk)
    for piece in range(pieces):
        yield slice(piece * len(operator) // pieces, (piece + 1) * len(operator) // pieces)


def failures(errors: Float[Tensor, " batch"]) -> tuple[int, ...]:
    """List the cases that miss the largest allowed backward error; a NaN does."""
    return tuple(torch.nonzero(~(errors <= LARGEST_BACKWARD_ERROR)).flatten().tolist())
