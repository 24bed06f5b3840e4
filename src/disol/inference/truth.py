"""The solutions of the discrete systems themselves, which tell how large predictions are and how wrong.

There are other ways to the size of a pattern p, such as its multiple of least energy, (p · b) / (p · A p), after a
multigrid V-cycle. But none that knows where it fails: coarse grids do not see slits, walls and elastic hinges of few
pixels, and what is left of a residual there may be as small as the error is large. The several cycles that a guess at
the error takes cost as much as the solution.
"""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from disol.fem import backward_euler
from disol.solvers import DiscreteOperator, solve_batch, step_batch
from disol.solvers.batched import solve_by_reference
from disol.solvers.loads import pixel_means

Nodes = Float[Tensor, "batch field rows columns"]


def solve(operator: DiscreteOperator, loads: Nodes) -> Float[Tensor, "batch field height width"]:
    """Solve A u = b, by pixel: all cases at once on a GPU, on a CPU one by one, which is quicker there."""
    if loads.is_cuda:
        nodes = solve_batch(operator, loads).nodes
    else:
        nodes = torch.stack([solve_by_reference(operator, case, load) for case, load in enumerate(loads)])
    return pixel_means(nodes) * operator.mask[:, None]


def step(
    operator: DiscreteOperator,
    mass_matrix: Float[np.ndarray, "local local"],
    loads: Nodes,
    initial: Nodes,
    steps: Sequence[int],
) -> Float[Tensor, "batch step field height width"]:
    """Take steps (M + δ K) Uⁿ⁺¹ = M Uⁿ + δ b, and return those asked for, in ascending order, by pixel."""
    if loads.is_cuda:
        frames = step_batch(operator, torch.from_numpy(mass_matrix).to(loads), loads, initial, steps).frames
    else:
        stepped = []
        for case, load in enumerate(loads):
            evolution = backward_euler(operator.system(case, load), mass_matrix, initial[case].numpy(), steps[-1])
            stepped.append(np.stack([nodes for number, nodes in enumerate(evolution) if number in steps]))
        frames = torch.from_numpy(np.stack(stepped))
    return pixel_means(frames) * operator.mask[:, None, None]
