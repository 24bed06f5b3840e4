"""Solve many cases at once, in torch: the discrete operator, batched exact solvers, multigrid, an error estimate."""

from disol.solvers.batched import BatchFrames, BatchSolution, solve_batch, solve_systems, step_batch
from disol.solvers.checked import BatchSettings, CheckedSolver
from disol.solvers.fronts import Elimination
from disol.solvers.iterative import IterativeSolution, conjugate_gradients, stabilised_biconjugate_gradients
from disol.solvers.multigrid import Multigrid
from disol.solvers.nested_dissection import Factors, factorise
from disol.solvers.operator import DiscreteOperator, from_system

__all__ = [
    "BatchFrames",
    "BatchSettings",
    "BatchSolution",
    "CheckedSolver",
    "DiscreteOperator",
    "Elimination",
    "Factors",
    "IterativeSolution",
    "Multigrid",
    "conjugate_gradients",
    "factorise",
    "from_system",
    "solve_batch",
    "solve_systems",
    "stabilised_biconjugate_gradients",
    "step_batch",
]
