"""Adjoint solves on cut elements: derivatives of a functional J of the solution in element matrices and loads.

    dJ = Σ_K s : dK + m : dM + l · db + i · dm⁰

summed over elements with stiffness K, mass M, load b and m⁰ = ∫ ρ N_i u⁰.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from disol.fem.cut_forms import Locals
from disol.fem.cut_system import GAMMA, CutSystem, Step, Vector

ElementLoads = Float[np.ndarray, "element 4 component"]
Unknowns = Float[np.ndarray, "unknown component"]


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """dJ with respect to the stiffness, the load, the mass and the initial load of each element."""

    stiffness: Locals
    load: ElementLoads
    mass: Locals
    initial: ElementLoads


def steady_sensitivity(system: CutSystem, d_values: Unknowns) -> Sensitivity:
    """Solve Aᵀ λ = dJ/du: dJ = λᵀ (db − dK u)."""
    adjoint = system.solve_adjoint(d_values)
    solution = system.solve().values.reshape(-1)[system._order]
    stiffness, load = _outer(system, -adjoint, solution), _local(system, adjoint)
    return Sensitivity(stiffness, load, np.zeros_like(stiffness), np.zeros_like(load))


def marched_sensitivity(system: CutSystem, steps: Sequence[Step], d_values: Mapping[int, Unknowns]) -> Sensitivity:
    """Run the transposed steps of `CutSystem.march` backwards; `d_values` has dJ/du after whole steps, by number.

    With μ = dJ/d(M uⁿ⁺¹), B = M + γδ K and c = (1 − γ)/γ

        Bᵀ λ = dJ/duⁿ⁺¹ + Mᵀ μ,   Bᵀ κ = c Mᵀ λ,   dJ/d(M uⁿ) = κ + (1 − c) λ
        dJ = κᵀ (d(M uⁿ) + γδ db − dB v) + λᵀ (d(M uⁿ) + c d(M v − M uⁿ) + γδ db − dB uⁿ⁺¹)
    """
    ratio = (1 - GAMMA) / GAMMA
    after = np.zeros(len(system._order))  # μ
    stiffness = mass = np.zeros((len(system._unknowns), *2 * (4, system.form.components)))
    load = np.zeros(stiffness.shape[:3])
    for place in reversed(range(len(steps))):
        step = steps[place]
        given = system._mass.T @ after
        if step.number is not None and step.number in d_values:
            given = given + d_values[step.number].reshape(-1)[system._order]
        solver = system.factors_of_step(step.share).transposed
        last, _ = solver.solve(given, refine=False)
        middle, _ = solver.solve(ratio * (system._mass.T @ last), refine=False)
        after = middle + (1 - ratio) * last
        to_middle, to_last = _outer(system, middle, step.middle), _outer(system, last, step.values)
        stiffness = stiffness - step.share * (to_middle + to_last)
        mass = mass - to_middle - to_last + ratio * _outer(system, last, step.middle)
        if place > 0:
            mass = mass + _outer(system, after, steps[place - 1].values)
        load = load + step.share * _local(system, middle + last)
    return Sensitivity(stiffness, load, mass, _local(system, after))


def _local(system: CutSystem, vector: Vector) -> ElementLoads:
    """Return the entries of a vector in elimination order that belong to each element."""
    return vector[system._unknowns].reshape(-1, 4, system.form.components)


def _outer(system: CutSystem, rows: Vector, columns: Vector) -> Locals:
    """Multiply every entry of one vector on an element with every entry of another."""
    return np.einsum("eic,ejd->eicjd", _local(system, rows), _local(system, columns))
