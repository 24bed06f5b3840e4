"""Exact solutions of many cases, steady or stepped in time, every one of them checked.

A case whose backward error ‖b − A u‖ / (‖A‖ ‖u‖ + ‖b‖) is too large even after refinement is solved again by the
reference solver of `fem`, and counted.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from disol.errors import DisolError
from disol.fem import System
from disol.solvers.checked import DEFAULT, BatchSettings, CheckedSolver, chunks, failures
from disol.solvers.operator import DiscreteOperator, Fields, from_system, on_device

Nodes = Float[Tensor, "batch component rows columns"]
ElementMatrix = Float[Tensor, "local local"]


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


@dataclass(frozen=True, eq=False)
class BatchFrames:
    """Nodal values of a batch in time; a steady problem has one frame.

    frames           0 where they are not free
    backward_error   of each case, the largest of its frames
    fallbacks        the cases that the reference solver had to solve
    """

    frames: Float[Tensor, "batch frame component rows columns"]
    backward_error: Float[Tensor, " batch"]
    fallbacks: tuple[int, ...]


def solve_systems(
    systems: System,
    steps: Sequence[int] | None = None,
    device: torch.device | str = "cpu",
    settings: BatchSettings = DEFAULT,
) -> BatchFrames:
    """Solve the systems of a batch, arrays or tensors: u, or uⁿ of a transient problem for every n in `steps`."""
    operator, loads = from_system(systems, device)
    if systems.mass_matrix is None:
        solution = solve_batch(operator, loads, settings)
        return BatchFrames(solution.nodes[:, None], solution.backward_error, solution.fallbacks)
    mass, initial = (on_device(array, device).to(loads) for array in (systems.mass_matrix, systems.initial))
    return step_batch(operator, mass, loads, initial, range(1) if steps is None else steps, settings)


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
        raise DisolError(
            f"The loads of a batch must be {tuple(operator.free.shape)}, of one case at least, got "
            f"{tuple(loads.shape)}. Pass one load for every unknown."
        )
    broken = torch.nonzero(~loads.isfinite().flatten(1).all(dim=1)).flatten().tolist()
    if broken:
        raise DisolError(f"Loads must be finite, but that of case {broken[0]} is not. Check its source.")


def solve_by_reference(
    operator: DiscreteOperator, case: int, load: Float[Tensor, "component rows columns *load"]
) -> Float[Tensor, "component rows columns *load"]:
    """Solve one case, for one or several loads, with the sparse solver of `fem`."""
    if load.ndim == 3:
        return torch.from_numpy(operator.system(case, load).solve()[0]).to(load)
    systems = [operator.system(case, each) for each in load.unbind(-1)]
    solutions = systems[0].solve_for([system.load for system in systems])
    return torch.from_numpy(np.stack(solutions, axis=-1)).to(load)


@torch.no_grad()
def step_batch(
    operator: DiscreteOperator,
    mass_matrix: ElementMatrix,
    loads: Nodes,
    initial: Nodes,
    steps: Sequence[int],
    settings: BatchSettings = DEFAULT,
) -> BatchFrames:
    """Step (M + δ K) uⁿ⁺¹ = M uⁿ + δ b with one factorisation, and return uⁿ for every n in `steps`.

    `operator` holds M + δ K and `loads` δ b.
    """
    if not steps or min(steps) < 0:
        raise DisolError(f"steps must be numbers from 0 on, got {list(steps)}. Ask for at least one.")
    operator, loads, initial = operator.to(dtype=torch.float64), loads.double(), initial.double()
    frames = loads.new_empty(len(loads), len(steps), *loads.shape[1:])
    errors = loads.new_zeros(len(loads))
    for cases in chunks(operator, settings):
        evolution = _evolve(operator[cases], mass_matrix, loads[cases], initial[cases], settings)
        for step, (values, error) in zip(range(max(steps) + 1), evolution, strict=False):
            errors[cases] = torch.maximum(errors[cases], error)  # keeps a NaN, which counts as failure
            for frame in _frames_of(step, steps):
                frames[cases, frame] = values
    failed = failures(errors)
    for case in failed:
        every = range(max(steps) + 1)
        trajectory = step_by_reference(operator, case, mass_matrix, loads[case], initial[case], every)
        frames[case] = trajectory[list(steps)]
        errors[case] = _trajectory_error(operator[case : case + 1], mass_matrix, loads[case], trajectory)
    return BatchFrames(frames, errors, failed)


def _evolve(
    operator: DiscreteOperator, mass_matrix: ElementMatrix, loads: Nodes, initial: Nodes, settings: BatchSettings
) -> Iterator[tuple[Nodes, Float[Tensor, " batch"]]]:
    """Yield u⁰, u¹, … and the backward error of each step, without end."""
    once = CheckedSolver.of(operator, settings)
    solver, mass = replace(once, factors=once.factors.unshared()), operator.with_matrix(mass_matrix)
    values, error = operator.restrict(initial), loads.new_zeros(len(loads))
    while True:
        yield values, error
        values, error = solver.solve(mass.apply(values) + loads)


def _frames_of(step: int, steps: Sequence[int]) -> list[int]:
    """List the places of a step among the steps asked for."""
    return [frame for frame, asked in enumerate(steps) if asked == step]


def step_by_reference(
    operator: DiscreteOperator,
    case: int,
    mass_matrix: ElementMatrix,
    load: Float[Tensor, "component rows columns"],
    initial: Float[Tensor, "component rows columns"],
    steps: Sequence[int],
) -> Float[Tensor, "step component rows columns"]:
    """Step one case with the sparse solver of `fem`, and return uⁿ for every n in `steps`."""
    matrix, start = mass_matrix.double().cpu().numpy(), initial.double().cpu().numpy()
    system = replace(operator.system(case, load), mass_matrix=matrix, initial=start)
    return torch.from_numpy(system.solve(steps)).to(load)


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
