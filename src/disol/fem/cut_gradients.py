"""Gradients of a functional in the coefficients and conditions of each element: transposed weak forms.

R = Σ s : K + m : M + l · b depends on the law C, the velocity v, its upwinding τ v, the reaction r, the density ρ, the
penalty β and the source f of each element, linearly or through products of two of them, so its derivatives are exact.
τ v and β, which depend on C and v, count as independent here; the chain rule through them is left to the caller.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np
from jaxtyping import Float

from disol.fem.cut_adjoint import ElementLoads, Sensitivity
from disol.fem.cut_forms import N_N, N_SLOPE, SLOPE_SAMPLE, Elements, groups, on_elements, source_samples
from disol.fem.cut_system import CutSystem
from disol.fem.nitsche import BoundaryPoints, Dirichlet, Hold, Neumann, Robin
from disol.geometry.pieces import add_up


@dataclass(frozen=True, eq=False)
class Material:
    """The coefficients of each element, or derivatives with respect to them; a leading axis of 1 is shared by all.

    upwind    τ v of SUPG
    penalty   β of Nitsche's method
    source    by component, 0 if it is a function
    """

    law: Float[np.ndarray, "_ component 2 component 2"]
    velocity: Float[np.ndarray, "_ 2"]
    upwind: Float[np.ndarray, "_ 2"]
    reaction: Float[np.ndarray, " _"]
    density: Float[np.ndarray, " _"]
    penalty: Float[np.ndarray, " _"]
    source: Float[np.ndarray, "_ component"]

    @classmethod
    def of(cls, system: CutSystem) -> "Material":
        """Gather the coefficients of a system's elements."""
        elements = Elements.of(system.cells, system.form, slice(None))
        velocity = np.zeros((1, 2)) if elements.velocity is None else elements.velocity
        return cls(
            elements.law,
            velocity,
            elements.tau[:, None] * velocity,
            elements.reaction,
            elements.density,
            system.boundary.penalty,
            element_sources(system),
        )

    def change(self, before: "Material", after: "Material") -> Float[np.ndarray, " element"]:
        """Return the first-order change of J by the change of each element, taking `self` as the derivatives of J."""
        total = np.zeros(len(self.penalty))
        for each in fields(self):
            change = getattr(after, each.name) - getattr(before, each.name)
            total = total + (getattr(self, each.name) * change).reshape(len(total), -1).sum(axis=1)
        return total


def element_sources(system: CutSystem) -> Float[np.ndarray, "_ component"]:
    """Return the source of each component on each element, 0 if it is a function."""
    known = [0.0 if source is None or callable(source) else source for source in system.sources]
    values = [on_elements(system.cells, "source", source, slice(None)) for source in known]
    return np.stack(np.broadcast_arrays(*values), axis=-1)


def material_gradient(system: CutSystem, sensitivity: Sensitivity) -> Material:
    """Return dJ with respect to the coefficients of each element."""
    count, size = system.form.components, len(system.cells.corner)
    law, source = np.zeros((size, count, 2, count, 2)), np.zeros((size, count))
    velocity, upwind = np.zeros((2, size, 2))
    reaction, density = np.zeros((2, size))
    h = system.cells.grid.h
    for which, elements in groups(system.cells, system.form):
        slopes, stiffness, load = elements.gradients(), sensitivity.stiffness[which], sensitivity.load[which]
        same, along = (np.tensordot(elements.moments, form, (1, -1)) for form in (N_N, N_SLOPE))
        law[which] = np.einsum("...abij,...icjd->...cadb", slopes, stiffness, optimize=True)
        source[which] = (elements.test().sum(axis=-1)[:, :, None] * load).sum(axis=1)
        trace, mass = (np.einsum("eicjc->eij", each) for each in (stiffness, sensitivity.mass[which]))
        carried = np.zeros((1, 2)) if elements.velocity is None else elements.velocity
        added = elements.tau[:, None] * carried
        tested = h * np.einsum("...aij,...ji->...a", along, trace)  # ∫ ∂_a N_i N_j
        reaction[which] = h**2 * np.einsum("...ij,...ij->...", same, trace) + (added * tested).sum(axis=1)
        density[which] = h**2 * np.einsum("...ij,...ij->...", same, mass)
        if count == 1:
            both = np.einsum("...abij,...ij->...ab", slopes, trace)
            samples = source_samples(system.cells, system.sources[0])[which]
            upwind_test = h * np.tensordot(elements.moments, SLOPE_SAMPLE, (1, -1))
            velocity[which] = h * np.einsum("...aij,...ij->...a", along, trace) + np.einsum(
                "...a,...ab->...b", added, both
            )
            upwind[which] = (
                np.einsum("...b,...ab->...a", carried, both)
                + elements.reaction[:, None] * tested
                + np.einsum("...aip,...i,...p->...a", upwind_test, load[:, :, 0], samples, optimize=True)
            )
    gradient = Material(law, velocity, upwind, reaction, density, np.zeros(size), source)
    for number, component, pieces in system.boundary.where:
        condition = system.boundary.conditions[number]
        if isinstance(condition, Dirichlet | Robin):
            at = BoundaryPoints.on(system.cells, pieces)
            _add_nitsche(gradient, system, sensitivity, condition, component, at)
    return gradient


def _add_nitsche(
    gradient: Material,
    system: CutSystem,
    sensitivity: Sensitivity,
    condition: Dirichlet | Robin,
    component: int,
    at: BoundaryPoints,
) -> None:
    """Add the contributions of a condition through the law, the penalty and the inflow, in place."""
    held = system.boundary.hold(condition, component, at)
    if not held.is_stiff.any():
        return
    size = len(gradient.penalty)
    through = _Through.of(system, sensitivity, held, component, at)
    weight = at.weight * held.share
    along_normal = -np.einsum("pq,pqbj,pqjd->pdb", weight, at.slopes, through.flux, optimize=True)
    gradient.law[:, component] += add_up(at.element, np.einsum("pa,pdb->padb", at.normal, along_normal), size)
    by_penalty = through.square - held.resistance * (through.share + held.resistance * through.slack)
    gradient.penalty[:] += add_up(at.element, (at.weight * held.is_stiff * by_penalty).sum(axis=1), size)
    if isinstance(condition, Dirichlet):
        velocity = np.zeros(2) if system.form.velocity is None else system.form.velocity
        carried = on_elements(system.cells, "velocity", velocity, at.element, axes=1)
        enters = np.heaviside(-(carried * at.normal).sum(axis=1), 0.5)
        square = (at.weight * through.square).sum(axis=1)
        gradient.velocity[:] -= add_up(at.element, (square * enters)[:, None] * at.normal, size)


@dataclass(frozen=True, eq=False)
class _Through:
    """dJ with respect to the terms of a `Hold` at points, per unit of quadrature weight.

    slack   with respect to share · resistance
    flux    with respect to t(N_j e_d), divided by −share
    """

    square: Float[np.ndarray, "piece 3"]
    share: Float[np.ndarray, "piece 3"]
    slack: Float[np.ndarray, "piece 3"]
    flux: Float[np.ndarray, "piece 3 4 component"]

    @classmethod
    def of(
        cls, system: CutSystem, sensitivity: Sensitivity, held: Hold, component: int, at: BoundaryPoints
    ) -> "_Through":
        stiffness, load = sensitivity.stiffness[at.element], sensitivity.load[at.element]
        flux = system.boundary.flux(at)[:, :, component]
        consistency = stiffness[:, :, component] + stiffness[:, :, :, :, component].transpose(0, 3, 1, 2)
        tested = np.einsum("pqi,pijd->pqjd", at.values, consistency) + held.value[:, :, None, None] * load[:, None]
        both = stiffness + stiffness.transpose(0, 3, 4, 1, 2)
        slack = np.einsum("pqic,picjd->pqjd", flux, both, optimize=True)
        square = np.einsum("pqi,pqj,pij->pq", at.values, at.values, stiffness[:, :, component, :, component])
        return cls(
            square + held.value * _tested(sensitivity.load, component, at),
            -(tested * flux).sum(axis=(2, 3)),
            -0.5 * (slack * flux).sum(axis=(2, 3)),
            tested + held.resistance[:, :, None, None] * slack,
        )


def _tested(loads: ElementLoads, component: int, at: BoundaryPoints) -> Float[np.ndarray, "piece 3"]:
    return np.einsum("pqi,pi->pq", at.values, loads[at.element][:, :, component])


@dataclass(frozen=True, eq=False)
class ValueGradient:
    """Derivatives of J in the values of a condition at its points; their sum is the derivative in an added constant.

    number      number of the condition in its system
    name        name of the attribute that has these values
    component   component of the solution
    """

    number: int
    name: str
    component: int
    at: BoundaryPoints
    gradient: Float[np.ndarray, "piece 3"]


def boundary_gradients(system: CutSystem, sensitivity: Sensitivity) -> Iterator[ValueGradient]:
    """Yield dJ with respect to the values, fluxes, Robin coefficients and outside values of all conditions."""
    for number, component, pieces in system.boundary.where:
        condition, at = system.boundary.conditions[number], BoundaryPoints.on(system.cells, pieces)
        tested = _tested(sensitivity.load, component, at)
        if isinstance(condition, Neumann):
            found = {"flux": tested}
        else:
            assert isinstance(condition, Dirichlet | Robin)
            held = system.boundary.hold(condition, component, at)
            flux = system.boundary.flux(at)[:, :, component]
            value = held.square * tested - held.share * np.einsum("pqjd,pjd->pq", flux, sensitivity.load[at.element])
            found = {"value": value}
            if isinstance(condition, Robin):
                through = _Through.of(system, sensitivity, held, component, at)
                stiff = held.resistance * (  # dθ/dα = (1 − θ)/α, and d(θ/α)/dα = (1 − 2θ)/α²
                    (1 - held.share) * through.share + held.resistance * (1 - 2 * held.share) * through.slack
                )
                found = {"coefficient": np.where(held.is_stiff, stiff, through.square), "outside": value}
        for name, gradient in found.items():
            yield ValueGradient(number, name, component, at, at.weight * gradient)
