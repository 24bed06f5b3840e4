"""Backward Euler steps of many cases at once, with one factorisation each and every step checked."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from disol.fem import System, backward_euler
from disol.solvers.checked import DEFAULT, BatchSettings, CheckedSolver, chunks, failures
from disol.solvers.operator import DiscreteOperator, from_systems

Nodes = Float[Tensor, "batch component rows columns"]
ElementMatrix = Float[Tensor, "local local"]


@dataclass(frozen=True, eq=False)
class BatchEvolution:
    """Frames of a batch of transient cases.

    frames           nodal values at the steps asked for
    backward_error   of each case, the largest of all its steps
    fallbacks        the cases that the reference solver had to step
    """

    frames: Float[Tensor, "batch frame component rows columns"]
    backward_error: Float[Tensor, " batch"]
    fallbacks: tuple[int, ...]


def step_systems(
    systems: Sequence[System],
    mass_matrix: Float[np.ndarray, "local local"],
    initial: Sequence[Float[np.ndarray, "component rows columns"]],
    steps: Sequence[int],
    device: torch.device | str = "cpu",
    settings: BatchSettings = DEFAULT,
) -> BatchEvolution:
    """Step the systems of one transient problem, each from its own initial field."""
    if len(initial) != len(systems):
        raise ValueError(
            f"Every system needs an initial field of its own, got {len(initial)} for {len(systems)} systems. "
            "Pass as many."
        )
    operator, loads = from_systems(systems, device)
    start = torch.from_numpy(np.stack(initial)).to(loads)
    return step_batch(operator, torch.from_numpy(mass_matrix).to(loads), loads, start, steps, settings)


@torch.no_grad()
def step_batch(
    operator: DiscreteOperator,
    mass_matrix: ElementMatrix,
    loads: Nodes,
    initial: Nodes,
    steps: Sequence[int],
    settings: BatchSettings = DEFAULT,
) -> BatchEvolution:
    """Step (M + δ K) uⁿ⁺¹ = M uⁿ + δ b with one factorisation, and return uⁿ for every n in `steps`.

    `operator` holds M + δ K and `loads` δ b.
    """
    if not steps or min(steps) < 0:
        raise ValueError(f"steps must be numbers from 0 on, got {list(steps)}. Ask for at least one.")
    operator, loads, initial = operator.to(dtype=torch.float64), loads.double(), initial.double()
    frames = loads.new_empty(len(loads), len(steps), *loads.shape[1:])
    errors = loads.new_zeros(len(loads))
    for cases in chunks(operator, settings):
        evolution = evolve(operator[cases], mass_matrix, loads[cases], initial[cases], settings)
        for step, (values, error) in zip(range(max(steps) + 1), evolution, strict=False):
            errors[cases] = torch.maximum(errors[cases], error)  # keeps a NaN, which counts as failure
            for frame in frames_of(step, steps):
                frames[cases, frame] = values
    failed = failures(errors)
    for case in failed:
        every = range(max(steps) + 1)
        trajectory = step_by_reference(operator, case, mass_matrix, loads[case], initial[case], every)
        frames[case] = trajectory[list(steps)]
        errors[case] = trajectory_error(operator[case : case + 1], mass_matrix, loads[case], trajectory)
    return BatchEvolution(frames, errors, failed)


def evolve(
    operator: DiscreteOperator, mass_matrix: ElementMatrix, loads: Nodes, initial: Nodes, settings: BatchSettings
) -> Iterator[tuple[Nodes, Float[Tensor, " batch"]]]:
    """Yield u⁰, u¹, … and the backward error of each step, without end."""
    once = CheckedSolver.of(operator, settings)
    solver, mass = replace(once, factors=once.factors.unshared()), operator.with_matrix(mass_matrix)
    values, error = operator.restrict(initial), loads.new_zeros(len(loads))
    while True:
        yield values, error
        values, error = solver.solve(mass.apply(values) + loads)


def frames_of(step: int, steps: Sequence[int]) -> list[int]:
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
    matrix = mass_matrix.double().cpu().numpy()
    evolution = backward_euler(operator.system(case, load), matrix, initial.cpu().numpy(), max(steps))
    kept = {step: nodes for step, nodes in enumerate(evolution) if step in steps}
    return torch.from_numpy(np.stack([kept[step] for step in steps])).to(load)


def trajectory_error(
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
