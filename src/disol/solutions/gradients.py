"""Gradients of a functional of the exact solution in the data of its case: coefficients, sources, boundary values.

The adjoint gives derivatives in the coefficients of each element; how these depend on the data is found by central
differences of the discrete system, for all elements at once.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from disol import _checks as checks
from disol._terms import FORCE, INITIAL, SOURCE, Term
from disol.cases.case import Case
from disol.errors import DisolError, shown
from disol.fem.cut_adjoint import Sensitivity, marched_sensitivity, steady_sensitivity
from disol.fem.cut_field import transpose_pixels
from disol.fem.cut_forms import on_elements
from disol.fem.cut_gradients import Material, boundary_gradients, element_sources, material_gradient
from disol.fem.cut_system import CutSolution, CutSystem
from disol.fem.nitsche import Condition, Dirichlet, Neumann, Robin
from disol.geometry.pieces import add_up
from disol.problems.coefficients import Coefficient, with_neighbours
from disol.problems.problem import TransientProblem
from disol.solutions.solution import Solution
from disol.solutions.true_boundary import cut_system

STEP = 3e-5  # of central differences, relative
Pixels = Float[np.ndarray, "height width"]


def solve_adjoint(solution: Solution, d_field: ArrayLike, of: Collection[str] | None = None) -> dict[str, Any]:
    """Return dJ with respect to the data of a case, by name, from dJ/dfield: one solve, Aᵀ λ = dJ/du.

    solution   solution of one case on its true boundary; factors kept by `solve_exact(..., keep_factors=True)` are
               used, otherwise the case is solved again
    d_field    dJ/dfield, with the shape of `solution.field`
    of         names of the data; by default everything that has a gradient

    Gradients in sources, initial fields and forces on a mask have one value per pixel, those in coefficients the shape
    of the coefficient: a number, a tensor, or one value per pixel. For a function it is the gradient in what is added
    to it on each pixel. For conditions stated on parts of the boundary, each part is mapped to the derivative in an
    added constant, for `convection` to two derivatives, in h and in U_out.
    """
    case = solution.case
    if case.boundary == "pixels" or case.is_batch:
        raise DisolError(
            f'Gradients are for one case on its true boundary, got {case}. Solve one with conventions="physical".'
        )
    array = checks.doubles("d_field", d_field)
    if array.shape != solution.field.shape:
        raise DisolError(
            f"d_field must have the shape of the field, {list(solution.field.shape)}, got {list(array.shape)}."
        )
    known = differentiable_names(case)
    try:
        asked = known if of is None else [of] if isinstance(of, str) else list(of)
    except TypeError:
        raise DisolError(f"of must be a list of names, as in ['diffusion'], got {shown(of)}.") from None
    own = {name: case.problem.aliases.get(name, name) for name in asked if isinstance(name, str)}
    for name in asked:
        if not isinstance(name, str) or own[name] not in known:
            raise DisolError(f"{case.problem.name} has no gradient in {shown(name)} here. It has {', '.join(known)}.")
    system = solution.cut.system if isinstance(solution.cut, CutSolution) else cut_system(case)
    with np.errstate(over="ignore", invalid="ignore"):  # whatever is not finite is refused
        adjoint = _Adjoint(case, system, _sensitivity(case, system, array))
        found = {name: _find(adjoint, own[name], array) for name in asked}
    for name, gradient in found.items():
        values = gradient.values() if isinstance(gradient, dict) else [gradient]
        if not all(np.isfinite(value).all() for value in values):
            raise DisolError(f"The gradient in {name} overflows in double precision. Use other units.")
    return found


def differentiable_names(case: Case) -> list[str]:
    """Return the names of the data that a case has a gradient in."""
    named = [term.name for term in case.problem.terms if _has_gradient(case, term)]
    known = [name for name in case.problem.coefficients if _coefficient(case, name) is not None]
    return list(dict.fromkeys([*named, *known, *(stated.argument for stated in case.stated)]))


def _has_gradient(case: Case, term: Term) -> bool:
    """Tell whether a term has values per pixel: masks, and forces on segments of curves, have none."""
    is_stated = any(stated.argument == term.name for stated in case.stated)
    return not is_stated and (term.kind in (SOURCE, INITIAL) or (term.kind is FORCE and case.boundary == "edges"))


def _coefficient(case: Case, name: str) -> Any:
    """Return a coefficient of a case, or the number of its equation; None if it has neither."""
    value = case.coefficients.get(name)
    return getattr(case.problem, name, None) if value is None else value


def _sensitivity(case: Case, system: CutSystem, d_field: Float[np.ndarray, "..."]) -> Sensitivity:
    """Solve the adjoint system, or transpose the march."""
    inside = np.where(case.domain, d_field, 0.0)
    frames = case.problem.frames(case.times)
    if frames.steps is None:
        return steady_sensitivity(system, transpose_pixels(system.cells, inside))
    d_values: dict[int, Any] = {}
    for place, step in enumerate(frames.asked):
        number = frames.steps[step]
        d_values[number] = d_values.get(number, 0.0) + transpose_pixels(system.cells, inside[place])
    problem = cast(TransientProblem, case.problem)
    steps = list(system.take_steps(case.terms["initial"], problem.step, max(d_values)))
    return marched_sensitivity(system, steps, d_values)


def _frame_of_start(case: Case, d_field: Float[np.ndarray, "..."]) -> Pixels:
    """Return what frames at 0 s, which are the initial field itself, add to its gradient."""
    starts = [frame for time, frame in zip(case.times or (), d_field, strict=True) if time == 0]
    return np.where(case.domain, sum(starts, np.zeros(d_field.shape[1:]))[0], 0.0)


def _find(adjoint: "_Adjoint", name: str, d_field: Float[np.ndarray, "..."]) -> Any:
    """Return dJ with respect to one item of the data of a case."""
    case = adjoint.case
    if any(each.argument == name for each in case.stated):
        return adjoint.of_parts(name)
    if name in case.problem.coefficients:
        return adjoint.of_coefficient(name)
    kind = case.problem.term(name).kind
    if kind is INITIAL:
        return adjoint.of_initial() + _frame_of_start(case, d_field)
    return adjoint.of_source(name) if kind is SOURCE else adjoint.of_force(name)


@dataclass(frozen=True, eq=False)
class _Adjoint:
    """A case, its system, and dJ with respect to the matrices and loads of elements."""

    case: Case
    system: CutSystem
    sensitivity: Sensitivity

    @cached_property
    def material(self) -> Material:
        """Derivatives of J in the coefficients of each element."""
        found = material_gradient(self.system, self.sensitivity)
        if "initial" not in self.case.terms:
            return found
        loads = self.system.initial_loads(self.case.terms["initial"])
        return replace(found, density=found.density + (self.sensitivity.initial * loads).sum(axis=(1, 2)))

    def changed(self, **changes: Any) -> CutSystem:
        """Discretise the case with some of its data changed, on the same elements."""
        return cut_system(replace(self.case, **changes), cells=self.system.cells)

    def on_pixels(self, values: Float[np.ndarray, " element"]) -> Pixels:
        """Add up values of elements by their pixels."""
        column, row = self.system.cells.corner.T
        height, width = self.case.grid.pixels
        return np.bincount(row * width + column, values, height * width).reshape(height, width)

    def of_coefficient(self, name: str) -> float | Float[np.ndarray, "..."]:
        """Return dJ with respect to a coefficient, with the shape of the coefficient."""
        kind, given = self.case.problem.coefficients[name], _coefficient(self.case, name)
        values = kind.on(name, given, self.case.domain)
        is_shared = values.shape in kind.axes
        gradient = np.zeros(values.shape)
        axes = values.shape if is_shared else values.shape[:-2]
        for entry in np.ndindex(axes):
            if len(entry) == 2 and entry[0] > entry[1]:
                gradient[entry] = gradient[entry[::-1]]
                continue
            step, unit = _step(kind, values), np.zeros(axes)
            # In a tensor, which stays symmetric, both off-diagonal entries change, and share the gradient.
            unit[entry] = unit[entry[::-1]] = 1.0
            change = step * (unit if is_shared else unit[..., None, None])
            below, above = values - change, values + change
            if kind.least == "not negative":
                below = np.maximum(below, 0.0)
            before, after = (
                Material.of(self.changed(coefficients={**self.case.coefficients, name: self._like(given, moved)}))
                for moved in (below, above)
            )
            changes = self.material.change(before, after) / unit.sum()
            total = changes.sum() if is_shared else self._by_owner(given, changes)
            gradient[entry] = total / (above - below)[entry]
        return float(gradient) if gradient.ndim == 0 else gradient

    def _like(self, given: Any, values: Float[np.ndarray, "..."]) -> Any:
        """Return values on the grid in the form that the case has: an array, or a function that returns them."""
        if not callable(given):
            return values
        asked = values[..., with_neighbours(self.case.domain)]
        return lambda x, y: asked  # noqa: ARG005  it is evaluated only there, in this order

    def _by_owner(self, given: Any, values: Float[np.ndarray, " element"]) -> Pixels:
        """Add up values of elements by the pixel that each takes the coefficient from: the nearest one with a value."""
        height, width = self.case.grid.pixels
        numbers = np.arange(height * width, dtype=float).reshape(height, width)
        owner = Coefficient(least="any").on("pixel", self._like(given, numbers), self.case.domain).astype(int)
        return np.bincount(owner.reshape(-1), self.on_pixels(values).reshape(-1), owner.size).reshape(height, width)

    def of_source(self, name: str) -> Pixels:
        """Return dJ with respect to the source on each pixel; the load is linear in it."""
        unit = self.changed(terms={**self.case.terms, name: np.ones(self.case.grid.pixels)})
        return self.on_pixels((element_sources(unit) * self.material.source).sum(axis=1))

    def of_initial(self) -> Pixels:
        """Return dJ with respect to the initial field on each pixel."""
        density = on_elements(self.system.cells, "density", self.system.form.density, slice(None))
        loads = self.system.initial_loads(1.0)
        return self.on_pixels(density * (self.sensitivity.initial * loads).sum(axis=(1, 2)))

    def of_force(self, name: str) -> Pixels:
        """Return dJ with respect to the force on each pixel of a mask."""
        held = tuple(each for each in self.case.stated if not isinstance(each.conditions[0], Neumann))
        none = {term.name: 0.0 * self.case.domain for term in self.case.problem.terms if term.kind is FORCE}
        unit = self.changed(terms={**self.case.terms, **none, name: self.case.domain.astype(float)}, stated=held)
        total = np.zeros(len(self.system.cells.corner))
        for each in boundary_gradients(unit, self.sensitivity):
            condition = unit.boundary.conditions[each.number]
            if isinstance(condition, Neumann):
                flux = each.at.evaluate("flux", condition.flux, each.component, unit.form.components)
                total += add_up(each.at.element, (each.gradient * flux).sum(axis=1), len(total))
        return self.on_pixels(total)

    def of_parts(self, name: str) -> dict[str, Any]:
        """Return dJ, by part, with respect to a constant added to what is stated; for convection to h and to U_out."""
        stated = [
            replace(each, conditions=tuple(_unit(condition) for condition in each.conditions))
            for each in self.case.stated
        ]
        units = self.changed(stated=tuple(stated)).boundary.conditions
        owners = [each for each in self.case.stated for _ in each.conditions]  # whose conditions are the first ones
        names = ("coefficient", "outside") if name == "convection" else ("value", "flux")
        found = {each.part: np.zeros(2) for each in owners if each.argument == name}
        for each in boundary_gradients(self.system, self.sensitivity):
            if each.number < len(owners) and owners[each.number].argument == name:
                value = getattr(units[each.number], each.name)
                factor = each.at.evaluate(each.name, value, each.component, self.system.form.components)
                found[owners[each.number].part][names.index(each.name)] += (each.gradient * factor).sum()
        if name == "convection":
            return {part: (float(values[0]), float(values[1])) for part, values in found.items()}
        return {part: float(values.sum()) for part, values in found.items()}


def _unit(condition: Condition) -> Condition:
    """Return a condition with ones in place of its values."""
    if isinstance(condition, Dirichlet):
        return replace(condition, value=1.0)
    if isinstance(condition, Neumann):
        return replace(condition, flux=1.0)
    assert isinstance(condition, Robin)
    return replace(condition, coefficient=1.0, outside=1.0)


def _step(kind: Coefficient, values: Float[np.ndarray, "..."]) -> Any:
    """Return steps of differences within the range of a coefficient, one for each pixel or one for all."""
    is_shared = values.shape in kind.axes
    if kind.least == "ratio":
        return STEP * np.minimum(0.5 - values, 1 + values)
    leading = tuple(range(values.ndim if is_shared else values.ndim - 2))
    size = np.abs(values).max(axis=leading) if leading else np.abs(values)
    largest = float(size.max())
    return STEP * np.where(size > 0, size, largest or 1.0)
