"""The discrete problem of a case, and its sparse direct solution: one system, or backward Euler steps."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from importlib import import_module
from threading import Lock
from typing import Literal

import numpy as np
import scipy
from jaxtyping import Bool, Float
from threadpoolctl import ThreadpoolController

from disol._arrays import Array, exponent_of
from disol.errors import DisolError
from disol.fem.assembly import assemble, free_unknowns
from disol.fem.rounding import (
    EPSILON,
    GOLDEN,
    NOTABLE_ERROR,
    Refinement,
    last_places,
    leading_part,
    report,
    require_range,
    sensitivity,
)

LARGEST_BACKWARD_ERROR = 1e-13
_LIMIT = Lock()  # held by the thread that limits BLAS

NodeFields = Float[np.ndarray, "component rows columns"]
Vector = Float[np.ndarray, " unknown"]


@dataclass(frozen=True, eq=False)
class System:
    """The discrete problem A u = b of one case, or of a batch, whose arrays then start with a batch axis.

    With a mass matrix M it is a step of backward Euler, (M + δ K) uⁿ⁺¹ = M uⁿ + δ b, starting from u⁰: A is M + δ K and
    the load δ b.

    mask             one finite element per marked pixel
    element_matrix   its local matrix, the same for every pixel
    free             the unknowns; every other nodal value is 0
    load             b, by node
    mass_matrix      local matrix of M; None for a steady problem
    initial          u⁰, by node
    """

    mask: Bool[Array, "*batch height width"]
    element_matrix: Float[np.ndarray, "local local"]
    free: Bool[Array, "*batch component rows columns"]
    load: Float[Array, "*batch component rows columns"]
    mass_matrix: Float[np.ndarray, "local local"] | None = None
    initial: Float[Array, "*batch component rows columns"] | None = None

    @classmethod
    def stack(cls, systems: Sequence["System"]) -> "System":
        """Make a batch of the systems of single cases, which must share grid and element matrix."""
        if not systems:
            raise DisolError("A batch needs at least one system, got none.")
        first = systems[0]
        for system in systems:
            if system.free.shape != first.free.shape or not np.array_equal(system.element_matrix, first.element_matrix):
                raise DisolError(
                    f"The systems of a batch must share grid and element matrix, got free unknowns {first.free.shape} "
                    f"and {system.free.shape}. Solve different problems or resolutions in batches of their own."
                )
        mask, free, load = (np.stack([getattr(each, name) for each in systems]) for name in ("mask", "free", "load"))
        starts = [each.initial for each in systems if each.initial is not None]
        initial = np.stack(starts) if starts else None
        return cls(mask, first.element_matrix, free, load, first.mass_matrix, initial)

    def __len__(self) -> int:
        return len(self.mask) if self.mask.ndim == 3 else 1

    def __getitem__(self, case: int | slice) -> "System":
        """Return one system of a batch, or some of them."""
        initial = None if self.initial is None else self.initial[case]
        return replace(self, mask=self.mask[case], free=self.free[case], load=self.load[case], initial=initial)

    def solve(self, steps: Sequence[int] | None = None) -> Float[np.ndarray, "frame component rows columns"]:
        """Return the nodal values of one case: u, or uⁿ for every n in `steps`; 0 where they are not free.

        If rounding may have changed it by more than 1e-6 of the largest value, a warning says so; more than 1e-2 is an
        error.
        """
        nodes, error = self.solve_and_estimate(steps)
        report(error)
        return nodes

    def solve_and_estimate(
        self, steps: Sequence[int] | None = None
    ) -> tuple[Float[np.ndarray, "frame component rows columns"], float]:
        """Solve, and estimate the rounding error, relative to the largest nodal value."""
        with one_thread():
            if self.mass_matrix is not None:
                return self._march(range(1) if steps is None else steps)
            solutions, error = self.solve_for([self.load])
        return solutions[0][None], error + sensitivity(self.element_matrix) * (error > 0)

    def solve_for(self, loads: Sequence[NodeFields]) -> tuple[list[NodeFields], float]:
        """Return u of one case for each of several loads instead of its own, with one factorisation.

        The largest estimated rounding error is returned with them.
        """
        unknowns = free_unknowns(self.free)
        vectors = [load.reshape(-1)[unknowns] for load in loads]
        solutions, errors = np.zeros((len(loads), self.free.size)), [0.0]
        loaded = [number for number, vector in enumerate(vectors) if vector.any()]
        if loaded:
            # Scaling by powers of two is exact, and keeps all computations far from overflow and underflow.
            exponent = int(exponent_of(np.abs(self.element_matrix).max()))
            scaled = np.ldexp(self.element_matrix, -exponent)
            solver = DirectSolver(assemble(self.mask, scaled, self.free))
            changes = [assemble(self.mask, change, self.free) for change in last_places(scaled)]
            for number in loaded:
                unit = int(exponent_of(np.abs(vectors[number]).max()))
                solution, error = solver.solve_and_estimate(np.ldexp(vectors[number], -unit))
                require_range(np.abs(solution).max(), unit - exponent)
                solutions[number, unknowns] = np.ldexp(solution, unit - exponent)
                changed = (np.abs(solver.factors.solve(change @ solution)).max() for change in changes)
                errors.append(error + max(changed, default=0.0) / np.abs(solution).max())
        return list(solutions.reshape(-1, *self.free.shape)), max(errors)

    def _march(self, steps: Sequence[int]) -> tuple[Float[np.ndarray, "frame component rows columns"], float]:
        """Take all steps from u⁰ with one factorisation."""
        assert self.mass_matrix is not None
        assert self.initial is not None
        unknowns = free_unknowns(self.free)
        exponent = int(exponent_of(np.abs(self.element_matrix).max()))
        load, values = (array.reshape(-1)[unknowns] for array in (self.load, self.initial))
        sizes = ((np.abs(values).max(), 0), (np.abs(load).max(), exponent))
        unit = max((int(exponent_of(size)) - scale for size, scale in sizes if size > 0), default=0)
        load, values = np.ldexp(load, -unit - exponent), np.ldexp(values, -unit)
        matrix, mass = (
            assemble(self.mask, np.ldexp(each, -exponent), self.free)
            for each in (self.element_matrix, self.mass_matrix)
        )
        solver, ones = DirectSolver(matrix), np.ones(len(unknowns))
        # Every step has the same factors, so its rounding error is estimated once: ε |A| |u| in each equation, and a
        # share of the error of the step before. Refinement would not help: rounding the entries of M + δ K, where M may
        # be small beside δ K, does as much harm.
        added, kept = (np.abs(solver.factors.solve(each)).max() for each in (abs(matrix) @ ones, mass @ ones))
        frames, error, largest = np.zeros((len(steps), self.free.size)), 0.0, np.abs(values).max()
        for step in range(max(steps) + 1):
            if step > 0:
                values = solver.solve(mass @ values + load, refine=False)
                largest = max(largest, np.abs(values).max())
                error = min(kept, 1.0) * error + EPSILON * added * largest
            for frame in (place for place, asked in enumerate(steps) if asked == step):
                frames[frame, unknowns] = values
        require_range(largest, unit)
        return np.ldexp(frames, unit).reshape(-1, *self.free.shape), float(error / (largest or 1.0))


@dataclass(eq=False)
class DirectSolver:
    """LU factors of a sparse matrix whose unknowns are already in elimination order.

    Finite element matrices of these problems need no pivoting, which keeps the elimination order and halves
    the work. Each solution is refined and checked; should one ever fail, the matrix is factorised again with pivoting.

    rest   what rounding has left out of the entries of `matrix`: solutions are refined to those of the sum of both
    """

    matrix: "scipy.sparse.csc_array"
    rest: "scipy.sparse.csr_array | None" = None
    factors: "scipy.sparse.linalg.SuperLU" = field(init=False)
    size: float = field(init=False)
    is_pivoted: bool = field(init=False, default=False)
    _factored: Literal["N", "T"] = field(init=False, default="N")  # the matrix, or its transpose

    def __post_init__(self) -> None:
        with one_thread():
            self.factors = factorise(self.matrix, pivot=False)
        self.size = float(scipy.sparse.linalg.norm(self.matrix))

    def transposed(self) -> "DirectSolver":
        """Return the solver of Aᵀ, with the same factors."""
        other = copy(self)
        other.matrix, other._factored = self.matrix.T.tocsc(), "N" if self._factored == "T" else "T"
        other.rest = None if self.rest is None else self.rest.T.tocsr()
        other.__dict__.pop("_parts", None)
        return other

    def solve(self, load: Vector, refine: bool = True) -> Vector:
        """Solve for one load vector."""
        return self.solve_and_estimate(load, refine)[0]

    def solve_and_estimate(self, load: Vector, refine: bool = True) -> tuple[Vector, float]:
        """Solve for one load vector; estimate the largest error relative to the largest value, 0 if not refined."""
        with one_thread(), np.errstate(over="ignore", invalid="ignore"):
            solution, error = self._refine(load) if refine else (self._apply(load), 0.0)
            backward_error = self.backward_error(solution, load)
            # False for NaN, too.
            is_exact = error <= NOTABLE_ERROR and backward_error <= LARGEST_BACKWARD_ERROR
            if not is_exact and not self.is_pivoted:
                self.factors, self.is_pivoted, self._factored = factorise(self.matrix, pivot=True), True, "N"
                return self.solve_and_estimate(load, refine)
        if not backward_error <= LARGEST_BACKWARD_ERROR:
            raise DisolError(
                f"The system is numerically singular (backward error {backward_error:.1e}). "
                "Check that the boundary conditions hold every part of the domain."
            )
        return solution, error

    def _apply(self, load: Float[np.ndarray, "unknown *columns"]) -> Float[np.ndarray, "unknown *columns"]:
        return self.factors.solve(load, self._factored)  # type: ignore[call-overload]

    def _refine(self, load: Vector) -> tuple[Vector, float]:
        # A known solution is computed beside the unknown one: its error reveals factors so wrong that they make the
        # corrections small, which then show nothing.
        known = np.arange(len(load)) * GOLDEN % 2 - 1
        solution, found = self._apply(np.stack([load, self.matrix @ known], axis=1)).T
        refinement = Refinement(np.abs(solution).max(), np.abs(found - known).max())
        while refinement.active:
            correction = self._apply(self.residual(solution, load))
            if refinement.accept(np.abs(correction).max(), np.abs(solution).max()):
                solution = solution + correction
        return solution, float(refinement.error)

    @cached_property
    def _parts(self) -> "list[scipy.sparse.csc_array]":
        """A as a sum of the leading bits of its entries and the remainder."""
        matrix = self.matrix
        row_sums = np.bincount(matrix.indices, np.abs(matrix.data), minlength=len(matrix.indptr) - 1)
        leading = leading_part(matrix.data, row_sums.max())
        return [
            scipy.sparse.csc_array((data, matrix.indices, matrix.indptr), shape=matrix.shape)
            for data in (leading, matrix.data - leading)
        ]

    def residual(self, solution: Vector, load: Vector) -> Vector:
        """Return b − A u with about 25 bits more than a double has, where it is small."""
        leading, rest = self._parts
        large = leading_part(solution, np.abs(solution).max())
        left, product = solution - large, rest @ large
        if left.any():
            product = self.matrix @ left + product
        if self.rest is not None:
            product = product + self.rest @ solution
        return (load - leading @ large) - product

    def backward_error(self, solution: Vector, load: Vector) -> float:
        """‖b − A u‖ / (‖A‖ ‖u‖ + ‖b‖), zero if both u and b are zero; A includes its rest."""
        unit = np.abs(load).max(initial=0.0) or 1.0  # squares of very small or large values would under- or overflow
        solution, load = solution / unit, load / unit
        product = self.matrix @ solution
        if self.rest is not None:  # for slivers it is far more than the last places of A
            product = product + self.rest @ solution
        residual = np.linalg.norm(load - product)
        scale = self.size * np.linalg.norm(solution) + np.linalg.norm(load)
        return 0.0 if scale == 0 else float(residual / scale)


@cache
def blas_libraries() -> ThreadpoolController:
    """Find the BLAS libraries that SciPy loads with its solvers."""
    import_module("scipy.sparse.linalg")  # only when needed: it takes longer to import than all of NumPy
    return ThreadpoolController()


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit BLAS to one thread: SuperLU calls it for thousands of tiny products, which threads slow down threefold.

    The limit is one for the whole process. While one Python thread holds it, others do not set their own: overlapping
    limits would each restore what the other had set.
    """
    if not _LIMIT.acquire(blocking=False):
        yield
        return
    try:
        with blas_libraries().limit(limits=1, user_api="blas"):
            yield
    finally:
        _LIMIT.release()


def factorise(matrix: "scipy.sparse.csc_array", pivot: bool) -> "scipy.sparse.linalg.SuperLU":
    """Factorise a matrix, in its own order or with pivoting; raise an error if it is singular."""
    try:
        if pivot:
            return scipy.sparse.linalg.splu(matrix)
        return scipy.sparse.linalg.splu(
            matrix, permc_spec="NATURAL", diag_pivot_thresh=0.0, options={"SymmetricMode": True}
        )
    except RuntimeError as error:
        raise DisolError(
            f"The system is singular ({error}). Check that the boundary conditions hold every part of the domain."
        ) from error
