"""Sparse direct solution of one system, and backward Euler steps with one factorisation."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from threading import Lock

import numpy as np
from jaxtyping import Bool, Float
from scipy import sparse
from scipy.sparse.linalg import SuperLU, norm, splu
from threadpoolctl import ThreadpoolController

from disol.fem.assembly import assemble, free_unknowns

LARGEST_BACKWARD_ERROR = 1e-13
LIMIT = Lock()  # held by the thread that limits BLAS

NodeFields = Float[np.ndarray, "component rows columns"]


@dataclass(frozen=True, eq=False)
class System:
    """The discrete problem A u = b of one case, or of a batch of them, whose arrays then start with a batch axis.

    mask             one finite element per marked pixel
    element_matrix   its local matrix, the same for every pixel
    free             the unknowns; every other nodal value is 0
    load             b, by node
    """

    mask: Bool[np.ndarray, "*batch height width"]
    element_matrix: Float[np.ndarray, "local local"]
    free: Bool[np.ndarray, "*batch component rows columns"]
    load: Float[np.ndarray, "*batch component rows columns"]

    def solve(self) -> NodeFields:
        """Return the nodal values of u of one case, 0 where they are not free."""
        return self.solve_for([self.load])[0]

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


@dataclass(eq=False)
class DirectSolver:
    """LU factors of a sparse matrix whose unknowns are already in elimination order.

    Finite element matrices of these problems need no pivoting, which keeps the elimination order and halves
    the work. Each solution is checked; should one ever fail, the matrix is factorised again with pivoting.
    """

    matrix: sparse.csc_array
    factors: SuperLU = field(init=False)
    size: float = field(init=False)

    def __post_init__(self) -> None:
        with one_thread():
            self.factors = factorise(self.matrix, pivot=False)
        self.size = float(norm(self.matrix))

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
            raise ValueError(
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
    """Find the BLAS libraries that SciPy has loaded."""
    return ThreadpoolController()


@contextmanager
def one_thread() -> Iterator[None]:
    """Keep BLAS to one thread: SuperLU hands it thousands of tiny products, which threads slow down threefold.

    The limit is one for the whole process. Whoever comes while another Python thread holds it does without its own: two
    that overlap would each restore what the other had set.
    """
    if not LIMIT.acquire(blocking=False):
        yield
        return
    try:
        with blas_libraries().limit(limits=1, user_api="blas"):
            yield
    finally:
        LIMIT.release()


def factorise(matrix: sparse.csc_array, pivot: bool) -> SuperLU:
    """Factorise a matrix, in its own order or with pivoting, or say why it cannot be done."""
    try:
        if pivot:
            return splu(matrix)
        return splu(matrix, permc_spec="NATURAL", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    except RuntimeError as error:
        raise ValueError(
            f"The system is singular ({error}). Check that the boundary conditions hold every part of the domain."
        ) from error


def backward_euler(
    step_system: System,
    mass_matrix: Float[np.ndarray, "local local"],
    initial: NodeFields,
    num_steps: int,
) -> Iterator[NodeFields]:
    """Step (M + δ K) uⁿ⁺¹ = M uⁿ + δ b with one factorisation, and yield u⁰ … uᴺ by node.

    `step_system` holds M + δ K and δ b.
    """
    free = step_system.free
    unknowns = free_unknowns(free)
    solver = DirectSolver(assemble(step_system.mask, step_system.element_matrix, free))
    mass = assemble(step_system.mask, mass_matrix, free)
    load = step_system.load.reshape(-1)[unknowns]
    values = initial.reshape(-1)[unknowns]
    for step in range(num_steps + 1):
        if step > 0:
            values = solver.solve(mass @ values + load)
        nodes = np.zeros(free.size)
        nodes[unknowns] = values
        yield nodes.reshape(free.shape)
