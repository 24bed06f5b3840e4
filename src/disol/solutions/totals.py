"""Total fluxes and forces: through parts of the boundary and supports, and from sources; work and energy.

On the true boundary, totals are those that balance the discrete problem: Nitsche's flux where values are held, given
fluxes and convection elsewhere, 0 on free parts. They add up to 0, to rounding. On pixels they are sums over nodes:
A u − b at held nodes, and the forces on loaded ones.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from disol._terms import FORCE, SUPPORT, Term, terms_of_kind
from disol.cases.case import Case
from disol.cases.conditions import pixels_along
from disol.errors import DisolError
from disol.fem import ELEMENTS, System
from disol.fem.cut_forms import Form, element_matrices, source_load
from disol.fem.cut_system import CutSolution
from disol.fem.nitsche import Dirichlet
from disol.fem.pixel_field import PixelField
from disol.fem.recovery import strain_energy, total_flux, work
from disol.geometry.named_parts import find_part
from disol.geometry.region import Region
from disol.grid import nodes_touching
from disol.problems.problem import component_of
from disol.solutions.quantities import energy_matrix
from disol.solutions.true_boundary import state

# By time (one for a steady problem) and component.
Values = Float[np.ndarray, "frame component"]
Nodes = Float[np.ndarray, "component rows columns"]


class OnBoundary(NamedTuple):
    """A condition: the argument that stated it, its part of the boundary, whether it is a support, and its totals."""

    argument: str
    part: str
    holds: bool
    values: Values


class Totals(ABC):
    """Totals of one case."""

    @abstractmethod
    def through(self, part: str) -> Values:
        """Return the total flux in through a part of the boundary, or the force on it."""

    @abstractmethod
    def conditions(self) -> Iterator[OnBoundary]:
        """Yield the totals of all held and loaded parts."""

    @abstractmethod
    def inside(self) -> Iterator[tuple[str, Values]]:
        """Yield the contributions of the interior: ∫ f, −∫ v · ∇U, −∫ r U, −∫ ρ U_t."""

    @abstractmethod
    def work(self) -> Float[np.ndarray, " frame"]:
        """∫ q · U over the boundary + ∫ f · U."""

    @abstractmethod
    def energy(self) -> Float[np.ndarray, " frame"]:
        """½ ∫ C ∇U : ∇U + r U²."""


@dataclass(frozen=True, eq=False)
class CutTotals(Totals):
    """Totals of one case on its true boundary."""

    case: Case
    cut: CutSolution

    def through(self, part: str) -> Values:
        """Return the total flux in through a part of the boundary, or the force on it."""
        system, arcs = self.cut.system, find_part(self.case.region, part, self.case.frame)
        totals = np.zeros((len(self.cut.fields), system.form.components))
        for number, field in enumerate(self.cut.fields):
            for condition in system.boundary.conditions:
                totals[number] += total_flux(system, field, condition, arcs)
        return totals / self.case.problem.flux_factor

    def conditions(self) -> Iterator[OnBoundary]:
        """Yield the totals of all held and loaded parts."""
        system = self.cut.system
        given = iter(system.boundary.conditions)  # in the order of what was stated
        for stated in state(self.case):
            own = [next(given) for _ in stated.conditions]
            values = np.array([[total_flux(system, field, each) for each in own] for field in self.cut.fields])
            total = values.sum(axis=1) / self.case.problem.flux_factor
            yield OnBoundary(stated.argument, stated.part, isinstance(own[0], Dirichlet), total)

    def inside(self) -> Iterator[tuple[str, Values]]:
        """Yield the contributions of the interior: ∫ f, −∫ v · ∇U, −∫ r U, −∫ ρ U_t."""
        for what, values in self._inside():
            yield what, values / self.case.problem.flux_factor

    def _inside(self) -> Iterator[tuple[str, Values]]:
        system, form, fields = self.cut.system, self.cut.system.form, self.cut.fields
        if any(source is not None for source in system.sources):
            total = source_load(system.cells, form, system.sources).sum(axis=(0, 1))
            yield "source" if len(total) == 1 else "body force", np.stack([total] * len(fields))
        if form.velocity is not None:
            yield "advection", -self._integrate(replace(form, reaction=0.0, upwind=False))
        if np.any(form.reaction):
            yield "reaction", -self._integrate(replace(form, velocity=None))
        if self.case.times is not None:
            rates = [system.residual(field.values).reshape(field.values.shape).sum(axis=0) for field in fields]
            yield "storage", -np.stack(rates)

    def _integrate(self, form: Form) -> Values:
        """∫ v · ∇u + r u: element matrices applied to u and tested with 1."""
        cells = self.cut.system.cells
        tested = element_matrices(cells, form, "stiffness").sum(axis=1)
        return np.stack([np.einsum("ecjd,ejd->c", tested, field.values[cells.nodes]) for field in self.cut.fields])

    def work(self) -> Float[np.ndarray, " frame"]:
        """∫ q · U over the boundary + ∫ f · U."""
        return np.array([work(self.cut.system, field) for field in self.cut.fields]) / self.case.problem.flux_factor

    def energy(self) -> Float[np.ndarray, " frame"]:
        """½ ∫ C ∇U : ∇U + r U²."""
        energies = [strain_energy(self.cut.system, field) for field in self.cut.fields]
        return np.array(energies) / self.case.problem.flux_factor


@dataclass(frozen=True, eq=False)
class PixelTotals(Totals):
    """Totals of one case on pixels; total fluxes need the previous time step, so a transient case has none."""

    case: Case
    fields: tuple[PixelField, ...]

    @cached_property
    def _system(self) -> System:
        return self.case.problem.system(self.case.terms, self.case.conventions, ELEMENTS["q1"](self.case.grid.h))

    @cached_property
    def _product(self) -> Nodes:
        if self.case.times is not None:
            raise DisolError(
                "Fluxes through the boundary are known for transient problems on their true boundary only. Solve the "
                'case with conventions="physical".'
            )
        return self.fields[0].product(self._system.element_matrix)

    def _load_of(self, term: Term | None) -> Nodes:
        """Return the part of the load that comes from one force, or from no force."""
        forces = terms_of_kind(self.case.problem.terms, FORCE)
        others = {each.name: np.zeros(self.case.grid.pixels) for each in forces if each is not term}
        load = self.case.problem.load(
            {**self.case.terms, **others}, self.case.conventions, ELEMENTS["q1"](self.case.grid.h)
        )
        return load if term is None else load - self._load_of(None)

    def through(self, part: str) -> Values:
        """Sum A u minus the source over the nodes of the pixels along a part."""
        region = Region.from_mask(self.case.domain)
        at_part = nodes_touching(pixels_along(region, find_part(region, part, self.case.frame), self.case.domain))
        return ((self._product - self._load_of(None)) * at_part).sum(axis=(1, 2))[None]

    def conditions(self) -> Iterator[OnBoundary]:
        """Yield the totals of all held and loaded parts: A u − b of held nodes, and forces on nodes."""
        problem, reaction = self.case.problem, self._product - self._system.load
        axes = [component_of(name) for name in problem.fields]
        for term in problem.terms:
            if term.kind is SUPPORT:
                held = nodes_touching(self.case.terms[term.name])
                chosen = [term.component in (None, axis) for axis in axes]
                values = (reaction * held).sum(axis=(1, 2)) * chosen
                yield OnBoundary(term.name, "marked pixels", True, values[None])
            elif term.kind is FORCE and self.case.terms[term.name].any():
                yield OnBoundary(term.name, "marked pixels", False, self._load_of(term).sum(axis=(1, 2))[None])

    def inside(self) -> Iterator[tuple[str, Values]]:
        """Yield the sum of the source, and minus that of A u, which is due to advection and reaction."""
        problem, product = self.case.problem, self._product
        source = self._load_of(None)
        if source.any():
            yield "source" if len(source) == 1 else "body force", source.sum(axis=(1, 2))[None]
        form = problem.form(self.case.conventions, {}) if problem.has_form else None
        if form is None or form.velocity is not None or np.any(form.reaction):
            yield "advection and reaction", -product.sum(axis=(1, 2))[None]

    def work(self) -> Float[np.ndarray, " frame"]:
        """∫ q · U over the boundary + ∫ f · U, summed over the loads of nodes."""
        load = self._system.load / (self.case.problem.step * self.case.problem.flux_factor)
        return np.array([(load * field.values).sum() for field in self.fields])

    def energy(self) -> Float[np.ndarray, " frame"]:
        """½ ∫ C ∇U : ∇U."""
        matrix = energy_matrix(self.case)
        return np.array([0.5 * (field.values * field.product(matrix)).sum() for field in self.fields])


def rows(totals: Totals) -> list[tuple[str, str, Values]]:
    """Return all totals with what and where, and their sum, which is 0 to rounding for an exact solution."""
    found = [(what, "domain", values) for what, values in totals.inside()]
    found += [(each.argument, each.part, each.values) for each in totals.conditions()]
    return [*found, ("balance", "all of these", np.sum([values for _, _, values in found], axis=0))]
