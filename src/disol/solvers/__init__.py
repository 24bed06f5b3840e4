"""Many cases at once, in torch: the discrete operator, batched exact solvers, multigrid and its estimate of errors.

Load vectors of sampled sources and forces are in `disol.solvers.loads`.
"""

from disol.solvers.batched import BatchSolution, solve_batch, solve_systems
from disol.solvers.checked import BatchSettings, CheckedSolver
from disol.solvers.fronts import Elimination
from disol.solvers.iterative import IterativeSolution, conjugate_gradients, stabilised_biconjugate_gradients
from disol.solvers.multigrid import Multigrid
from disol.solvers.nested_dissection import Factors, factorise
from disol.solvers.operator import DiscreteOperator, from_batch, from_systems
from disol.solvers.transient import BatchEvolution, step_batch, step_systems

__all__ = [
    "BatchEvolution",
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
    "from_batch",
    "from_systems",
    "solve_batch",
    "solve_systems",
    "stabilised_biconjugate_gradients",
    "step_batch",
    "step_systems",
]
