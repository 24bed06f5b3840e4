"""The discrete problem of a case, and its sparse direct solution: one system, or backward Euler steps."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from threading import Lock

import numpy as np
import scipy
from jaxtyping import Bool, Float
from threadpoolctl import ThreadpoolController

from disol._arrays import Array
from disol.errors import DisolError
from disol.fem.assembly import assemble, free_unknowns

LARGEST_BACKWARD_ERROR = 1e-13
_LIMIT = Lock()  # held by the thread that limits BLAS

NodeFields = Float[np.ndarray, "component rows columns"]


@dataclass(frozen=True, eq=False)
class System:
    """The discrete problem of one case, or of a batch of them, whose arrays then start with a batch axis: A u = b.

    With a mass matrix M it is a step of backward Euler, (M + δ K) uⁿ⁺¹ = M uⁿ + δ b, from u⁰ on: A is M + δ K, the load
    δ b.

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
        """Return the nodal values of one case: u, or uⁿ for every n in `steps`; 0 where they are not free."""
        if self.mass_matrix is None:
            return self.solve_for([self.load])[0][None]
        asked = range(1) if steps is None else steps
        kept = {step: nodes for step, nodes in enumerate(self._march(max(asked))) if step in asked}
        return np.stack([kept[step] for step in asked])

    def solve_for(self, loads: Sequence[NodeFields]) -> list[NodeFields]:
        """Return u of one case for each of several loads instead of its own, with one factorisation."""
        unknowns = free_unknowns(self.free)
        vectors = [load.reshape(-1)[unknowns] for load in loads]
        solutions = np.zeros((len(loads), self.free.size))
        loaded = [number for number, vector in enumerate(vectors) if vector.any()]
        if loaded:
            solver = DirectSolver(assemble(self.mask, self.element_matrix, self.free))
            for number in loaded:
                solutions[number, unknowns] = solver.solve(vectors[number])
        return list(solutions.reshape(-1, *self.free.shape))

    def _march(self, num_steps: int) -> Iterator[NodeFields]:
        """Yield u⁰ … uᴺ by node, with one factorisation."""
        assert self.mass_matrix is not None
        assert self.initial is not None
        unknowns = free_unknowns(self.free)
        solver = DirectSolver(assemble(self.mask, self.element_matrix, self.free))
        mass = assemble(self.mask, self.mass_matrix, self.free)
        load = self.load.reshape(-1)[unknowns]
        values = self.initial.reshape(-1)[unknowns]
        for step in range(num_steps + 1):
            if step > 0:
                values = solver.solve(mass @ values + load)
            nodes = np.zeros(self.free.size)
            nodes[unknowns] = values
            yield nodes.reshape(self.free.shape)


@dataclass(eq=False)
class DirectSolver:
    """LU factors of a sparse matrix whose unknowns are already in elimination order.

    Finite element matrices of these problems need no pivoting, which keeps the elimination order and halves
    the work. Each solution is checked; should one ever fail, the matrix is factorised again with pivoting.
    """

    matrix: "scipy.sparse.csc_array"
    factors: "scipy.sparse.linalg.SuperLU" = field(init=False)
    size: float = field(init=False)

    def __post_init__(self) -> None:
        with one_thread():
            self.factors = factorise(self.matrix, pivot=False)
        self.size = float(scipy.sparse.linalg.norm(self.matrix))

    def solve(self, load: Float[np.ndarray, " unknown"]) -> Float[np.ndarray, " unknown"]:
        """Solve for one load vector."""
        with one_thread():
            solution = self.factors.solve(load)
            if self.backward_error(solution, load) <= LARGEST_BACKWARD_ERROR:  # a NaN is no solution either
                return solution
            self.factors = factorise(self.matrix, pivot=True)
            solution = self.factors.solve(load)
        error = self.backward_error(solution, load)
        if not error <= LARGEST_BACKWARD_ERROR:
            raise DisolError(
                f"The system is numerically singular (backward error {error:.1e}). "
                "Check that the boundary conditions hold every part of the domain."
            )
        return solution

    def backward_error(self, solution: Float[np.ndarray, " unknown"], load: Float[np.ndarray, " unknown"]) -> float:
        """‖b − A u‖ / (‖A‖ ‖u‖ + ‖b‖), zero where both u and b are."""
        unit = np.abs(load).max(initial=0.0) or 1.0  # squares of very small or large values are no numbers any more
        solution, load = solution / unit, load / unit
        residual = np.linalg.norm(load - self.matrix @ solution)
        scale = self.size * np.linalg.norm(solution) + np.linalg.norm(load)
        return 0.0 if scale == 0 else float(residual / scale)


@cache
def blas_libraries() -> ThreadpoolController:
    """Find the BLAS libraries that SciPy loads with its solvers."""
    import_module("scipy.sparse.linalg")  # not before it is needed: it takes longer to import than all of NumPy
    return ThreadpoolController()


@contextmanager
def one_thread() -> Iterator[None]:
    """Keep BLAS to one thread: SuperLU hands it thousands of tiny products, which threads slow down threefold.

    The limit is one for the whole process. Whoever comes while another Python thread holds it does without its own: two
    that overlap would each restore what the other had set.
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
    """Factorise a matrix, in its own order or with pivoting, or say why it cannot be done."""
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
