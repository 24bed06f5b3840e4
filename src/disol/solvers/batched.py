"""Exact solutions of many cases, steady or stepped in time, each of them checked.

A case whose backward error ‖b − A u‖ / (‖A‖ ‖u‖ + ‖b‖) stays too large after refinement, or whose solution rounding may
have changed notably, is solved again by the reference solver of `fem` and listed in `fallbacks`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from disol._arrays import exponent_of, ldexp
from disol.errors import DisolError
from disol.fem import System
from disol.fem.rounding import SMALLEST_NORMAL, naming_case, report, require_range, sensitivity
from disol.solvers.checked import DEFAULT, BatchSettings, CheckedSolver, Solved, chunks, failures
from disol.solvers.operator import DiscreteOperator, Fields, PerCase, from_system, largest, on_device

Nodes = Float[Tensor, "batch component rows columns"]
ElementMatrix = Float[Tensor, "local local"]


@dataclass(frozen=True, eq=False)
class BatchSolution:
    """Nodal values of a batch, and how accurately they solve its systems.

    nodes            0 where values are not free
    backward_error   of each case, the largest over its loads
    rounding_error   of each case, the largest over its loads: estimate of the largest error, relative to the largest
                     value
    fallbacks        the cases that the reference solver had to solve
    """

    nodes: Fields
    backward_error: PerCase
    rounding_error: PerCase
    fallbacks: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class BatchFrames:
    """Nodal values of a batch in time; a steady problem has one frame.

    frames           0 where values are not free
    backward_error   of each case, the largest over its frames
    rounding_error   of each case: estimate of the largest error, relative to the largest value at any time
    fallbacks        the cases that the reference solver had to solve
    """

    frames: Float[Tensor, "batch frame component rows columns"]
    backward_error: PerCase
    rounding_error: PerCase
    fallbacks: tuple[int, ...]


def solve_systems(
    systems: System,
    steps: Sequence[int] | None = None,
    device: torch.device | str = "cpu",
    settings: BatchSettings = DEFAULT,
    first_case: int | None = 0,
) -> BatchFrames:
    """Solve a batch of systems, given as arrays or tensors: u, or uⁿ of a transient problem for every n in `steps`.

    A case that rounding may have changed by more than 1e-6 of its largest value gives a warning, by more than 1e-2 an
    error. Messages count cases from `first_case`; if it is None, they name no case.
    """
    operator, loads = from_system(systems, device)
    if systems.mass_matrix is None:
        solution = solve_batch(operator, loads, settings, first_case)
        frames, fallbacks = solution.nodes[:, None], solution.fallbacks
        found = BatchFrames(frames, solution.backward_error, solution.rounding_error, fallbacks)
    else:
        mass, initial = (on_device(array, device).to(loads) for array in (systems.mass_matrix, systems.initial))
        asked = range(1) if steps is None else steps
        found = step_batch(operator, mass, loads, initial, asked, settings, first_case)
    report(found.rounding_error.tolist(), first_case)
    return found


@torch.no_grad()
def solve_batch(
    operator: DiscreteOperator, loads: Fields, settings: BatchSettings = DEFAULT, first_case: int | None = 0
) -> BatchSolution:
    """Solve A u = b for every case, and for several loads each if they have a last axis."""
    require_loads(operator, loads)
    operator, loads = operator.to(dtype=torch.float64), loads.double()
    nodes, backward_error, rounding_error = torch.empty_like(loads), *loads.new_empty(2, len(loads))
    for cases in chunks(operator, settings, loads[0, 0, 0, 0].numel()):
        solved = CheckedSolver.of(operator[cases], settings).solve(loads[cases])
        nodes[cases], backward_error[cases], rounding_error[cases] = solved
    rounding_error += sensitivity(operator.element_matrix.cpu().numpy())
    failed = failures(backward_error, rounding_error)
    for case in failed:
        with naming_case(None if first_case is None else first_case + case):
            nodes[case], rounding_error[case] = solve_by_reference(operator, case, loads[case])
        backward_error[case] = operator[case : case + 1].backward_error(nodes[case, None], loads[case, None]).max()
    sizes, forces = (largest(each).reshape(len(nodes), -1).amax(dim=1) for each in (nodes, operator.restrict(loads)))
    require_range(torch.where((sizes == 0) & (forces > 0), SMALLEST_NORMAL / 2, sizes), first_case=first_case)
    return BatchSolution(nodes, backward_error, rounding_error, failed)


def require_loads(operator: DiscreteOperator, loads: Fields) -> None:
    """Require finite loads, as many and as large as the operators of a batch."""
    if len(operator) == 0 or loads.shape[:4] != operator.free.shape:
        raise DisolError(
            f"The loads of a batch must be {tuple(operator.free.shape)}, of one case at least, got "
            f"{tuple(loads.shape)}. Pass one load for every unknown."
        )
    broken = torch.nonzero(~loads.isfinite().flatten(1).all(dim=1)).flatten().tolist()
    if broken:
        raise DisolError(f"Loads must be finite, but that of case {broken[0]} is not. Check its source.")


def solve_by_reference(
    operator: DiscreteOperator, case: int, load: Float[Tensor, "component rows columns *load"]
) -> tuple[Float[Tensor, "component rows columns *load"], float]:
    """Solve one case for one or several loads with the sparse solver of `fem`, and estimate the largest error."""
    systems = [operator.system(case, each) for each in (load[..., None] if load.ndim == 3 else load).unbind(-1)]
    solutions, error = systems[0].solve_for([system.load for system in systems])
    found = torch.from_numpy(np.stack(solutions, axis=-1)).to(load)
    return found.reshape(load.shape), error + sensitivity(systems[0].element_matrix)


@torch.no_grad()
def step_batch(
    operator: DiscreteOperator,
    mass_matrix: ElementMatrix,
    loads: Nodes,
    initial: Nodes,
    steps: Sequence[int],
    settings: BatchSettings = DEFAULT,
    first_case: int | None = 0,
) -> BatchFrames:
    """Step (M + δ K) uⁿ⁺¹ = M uⁿ + δ b with one factorisation, and return uⁿ for every n in `steps`.

    `operator` holds M + δ K and `loads` δ b.
    """
    if not steps or min(steps) < 0:
        raise DisolError(f"steps must be one or more numbers from 0 on, got {list(steps)}.")
    operator, loads, initial = operator.to(dtype=torch.float64), loads.double(), initial.double()
    frames = loads.new_empty(len(loads), len(steps), *loads.shape[1:])
    backward_error, rounding_error, sizes = loads.new_zeros(3, len(loads))
    # Scaling by powers of two is exact, and keeps products with M far from overflow and underflow.
    scale = exponent_of(operator.element_matrix.abs().max())
    unit = torch.maximum(_exponent(initial), _exponent(loads) - scale).clamp(min=-2000)
    for cases in chunks(operator, settings):
        own_unit = unit[cases, None, None, None]
        load, start = ldexp(loads[cases], -own_unit), ldexp(initial[cases], -own_unit)
        evolution = _evolve(operator[cases], mass_matrix, load, start, settings)
        for step, solved in zip(range(max(steps) + 1), evolution, strict=False):
            backward_error[cases] = backward_error[cases].maximum(solved.backward_error)  # keeps a NaN
            rounding_error[cases] = solved.rounding_error
            sizes[cases] = sizes[cases].maximum(largest(solved.nodes))
            for frame in (place for place, asked in enumerate(steps) if asked == step):
                frames[cases, frame] = ldexp(solved.nodes, own_unit)
    failed = failures(backward_error, rounding_error)
    for case in failed:
        every = range(max(steps) + 1)
        with naming_case(None if first_case is None else first_case + case):
            trajectory, rounding_error[case] = step_by_reference(
                operator, case, mass_matrix, loads[case], initial[case], every
            )
        frames[case] = trajectory[list(steps)]
        backward_error[case] = _trajectory_error(operator[case : case + 1], mass_matrix, loads[case], trajectory)
    require_range(sizes, unit, first_case)
    return BatchFrames(frames, backward_error, rounding_error, failed)


def _exponent(fields: Nodes) -> Int[Tensor, " batch"]:
    """Return the binary exponent of the largest |u| of each case, or a very small one where all are 0."""
    sizes = largest(fields)
    return torch.where(sizes > 0, exponent_of(sizes), -10_000)


def _evolve(
    operator: DiscreteOperator, mass_matrix: ElementMatrix, loads: Nodes, initial: Nodes, settings: BatchSettings
) -> Iterator[Solved]:
    """Yield u⁰, u¹, … and their errors, indefinitely."""
    once = CheckedSolver.of(operator, settings)
    solver, mass = replace(once, factors=once.factors.unshared()), operator.with_matrix(mass_matrix)
    added, kept = solver.measure_steps(mass)
    nothing = loads.new_zeros(len(loads))
    solved = Solved(operator.restrict(initial), nothing, nothing)
    while True:
        yield solved
        # The error is relative to the largest value so far, which never shrinks.
        error = kept * solved.rounding_error + added
        found = solver.solve(mass.apply(solved.nodes) + loads, refine=solver.factors.dtype != loads.dtype)
        solved = found._replace(rounding_error=error)


def step_by_reference(
    operator: DiscreteOperator,
    case: int,
    mass_matrix: ElementMatrix,
    load: Float[Tensor, "component rows columns"],
    initial: Float[Tensor, "component rows columns"],
    steps: Sequence[int],
) -> tuple[Float[Tensor, "step component rows columns"], float]:
    """Step one case with the sparse solver of `fem` to uⁿ for every n in `steps`, and estimate the largest error."""
    mass, start = mass_matrix.double().cpu().numpy(), initial.double().cpu().numpy()
    system = replace(operator.system(case, load), mass_matrix=mass, initial=start)
    frames, error = system.solve_and_estimate(steps)
    return torch.from_numpy(frames).to(load), error


def _trajectory_error(
    operator: DiscreteOperator,
    mass_matrix: ElementMatrix,
    load: Float[Tensor, "component rows columns"],
    trajectory: Float[Tensor, "step component rows columns"],
) -> Float[Tensor, ""]:
    """Return the largest backward error of the steps of one case."""
    if len(trajectory) == 1:
        return load.new_zeros(())
    values = trajectory.movedim(0, -1)[None]
    loads = operator.with_matrix(mass_matrix).apply(values[..., :-1]) + load[None, ..., None]
    return operator.backward_error(values[..., 1:], loads).max()
