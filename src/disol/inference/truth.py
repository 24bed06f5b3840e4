"""The solutions of the discrete systems themselves, which tell how large predictions are and how wrong.

There are other ways to the size of a pattern p, such as its multiple of least energy, (p · b) / (p · A p), after a
multigrid V-cycle. But none that knows where it fails: coarse grids do not see slits, walls and elastic hinges of few
pixels, and what is left of a residual there may be as small as the error is large. The several cycles that a guess at
the error takes cost as much as the solution.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from disol.fem.solve import one_thread
from disol.inference.threads import in_threads
from disol.solvers import DiscreteOperator, solve_batch, step_batch
from disol.solvers.batched import solve_by_reference
from disol.solvers.loads import pixel_means
from disol.solvers.transient import step_by_reference

Nodes = Float[Tensor, "batch field rows columns"]
# A batch that the CPU has solved before a GPU has launched all its kernels. Measured beside an H200, one case by the
# CPU and by the GPU: 15 and 31 ms for 2,000 unknowns, 66 and 57 for 8,000; with ten steps of time 119 and 150.
FEW_UNKNOWNS = 5_000
FEW_IF_STEPPED = 10_000


def solve(operator: DiscreteOperator, loads: Nodes) -> Float[Tensor, "batch field height width"]:
    """Solve A u = b, by pixel: all cases at once on a GPU, on a CPU each by a core, which is quicker there."""
    if device_for(operator).type == "cuda":
        nodes = solve_batch(operator, loads).nodes
    else:
        with one_thread():
            solved = in_threads(lambda case: solve_by_reference(operator, case, loads[case]), range(len(loads)))
        nodes = torch.stack(solved)
    return pixel_means(nodes) * operator.mask[:, None]


def step(
    operator: DiscreteOperator,
    mass_matrix: Float[Tensor, "local local"],
    loads: Nodes,
    initial: Nodes,
    steps: Sequence[int],
) -> Float[Tensor, "batch step field height width"]:
    """Take steps (M + δ K) Uⁿ⁺¹ = M Uⁿ + δ b, and return those asked for, by pixel."""
    if device_for(operator, stepped=True).type == "cuda":
        frames = step_batch(operator, mass_matrix, loads, initial, steps).frames
    else:

        def step_case(case: int) -> Float[Tensor, "step field rows columns"]:
            return step_by_reference(operator, case, mass_matrix, loads[case], initial[case], steps)

        with one_thread():
            frames = torch.stack(in_threads(step_case, range(len(loads))))
    return pixel_means(frames) * operator.mask[:, None, None]


def device_for(operator: DiscreteOperator, stepped: bool = False) -> torch.device:
    """Return where a batch is solved: on the device it lies on, if it is large enough to be worth that."""
    few = FEW_IF_STEPPED if stepped else FEW_UNKNOWNS
    return operator.mask.device if int(operator.free.sum()) > few else torch.device("cpu")
