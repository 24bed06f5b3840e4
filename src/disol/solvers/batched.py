"""Exact solutions of many cases, every one of them checked.

A case whose backward error ‖b − A u‖ / (‖A‖ ‖u‖ + ‖b‖) is too large even after refinement is solved again by the
reference solver of `fem`, and counted.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from disol.fem import System
from disol.solvers.checked import DEFAULT, BatchSettings, CheckedSolver, chunks, failures
from disol.solvers.operator import DiscreteOperator, Fields, from_systems


@dataclass(frozen=True, eq=False)
class BatchSolution:
    """Nodal values of a batch, with the proof that they solve it.

    nodes            0 where they are not free
    backward_error   of each case, the largest of its loads
    fallbacks        the cases that the reference solver had to solve
    """

    nodes: Fields
    backward_error: Float[Tensor, " batch"]
    fallbacks: tuple[int, ...]


def solve_systems(
    systems: Sequence[System], device: torch.device | str = "cpu", settings: BatchSettings = DEFAULT
) -> BatchSolution:
    """Solve systems of one problem on one grid."""
    return solve_batch(*from_systems(systems, device), settings)


@torch.no_grad()
def solve_batch(operator: DiscreteOperator, loads: Fields, settings: BatchSettings = DEFAULT) -> BatchSolution:
    """Solve A u = b for every case, and for several loads each if they have a last axis."""
    require_loads(operator, loads)
    operator, loads = operator.to(dtype=torch.float64), loads.double()
    nodes, errors = torch.empty_like(loads), loads.new_empty(len(loads))
    for cases in chunks(operator, settings, loads[0, 0, 0, 0].numel()):
        solver = CheckedSolver.of(operator[cases], settings)
        nodes[cases], errors[cases] = solver.solve(loads[cases])
    failed = failures(errors)
    for case in failed:
        nodes[case] = solve_by_reference(operator, case, loads[case])
        errors[case] = operator[case : case + 1].backward_error(nodes[case, None], loads[case, None]).max()
    return BatchSolution(nodes, errors, failed)


def require_loads(operator: DiscreteOperator, loads: Fields) -> None:
    """Require finite loads, as many and as large as the operators of a batch."""
    if len(operator) == 0 or loads.shape[:4] != operator.free.shape:
        raise ValueError(
            f"The loads of a batch must be {tuple(operator.free.shape)}, of one case at least, got "
            f"{tuple(loads.shape)}. Pass one load for every unknown."
        )
    broken = torch.nonzero(~loads.isfinite().flatten(1).all(dim=1)).flatten().tolist()
    if broken:
        raise ValueError(f"Loads must be finite, but that of case {broken[0]} is not. Check its source.")


def solve_by_reference(
    operator: DiscreteOperator, case: int, load: Float[Tensor, "component rows columns *load"]
) -> Float[Tensor, "component rows columns *load"]:
    """Solve one case, for one or several loads, with the sparse solver of `fem`."""
    if load.ndim == 3:
        return torch.from_numpy(operator.system(case, load).solve()).to(load)
    systems = [operator.system(case, each) for each in load.unbind(-1)]
    solutions = systems[0].solve_for([system.load for system in systems])
    return torch.from_numpy(np.stack(solutions, axis=-1)).to(load)
