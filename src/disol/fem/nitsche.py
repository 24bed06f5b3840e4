"""Conditions on arcs of the true boundary, which passes through elements: Nitsche's method.

With t(u) = σ(u) n the conormal flux, or traction, the symmetric Nitsche terms of values g on D are

    − ∫_D t(u) · w − ∫_D t(w) · u + ∫_D β u · w − ∫_{D, v·n<0} (v·n) u w
        = − ∫_D t(w) · g + ∫_D β g · w − ∫_{D, v·n<0} (v·n) g w,

those of a flux q on N are ∫_N q · w on the right, and those of a Robin condition t(u) = α (ū − u) on R are ∫_R α u · w
on the left and ∫_R α ū · w on the right. Any other boundary has zero flux, and no term.

Where α > β, ∫_R α (u − ū) · w would fix bilinear functions on R and so spoil their slopes nearby. There, with
θ = 1 − β/α, its place is taken by terms that are as consistent, and those of values as α → ∞:

    ∫_R β (u − ū) · w − θ (t(u) · w + t(w) · (u − ū)) − θ/α t(u) · t(w).

The penalty of an element K is β = max(2 Λ, 4 |C| / h), with Λ = max ∫_{D∩K} |t(w)|² / ∫_K C ∇w : ∇w over bilinear w:
twice the bound for positive definiteness. Half of it is not enough, and much more spoils the solution at ends of arcs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from inspect import signature
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from disol import _checks as checks
from disol.errors import DisolError, PlacedError
from disol.fem.cut_forms import Elements, Form, Locals, corner_functions, on_elements
from disol.geometry.cell_components import OFFSETS
from disol.geometry.cut_cells import CutCells
from disol.geometry.pieces import add_up
from disol.geometry.region import Arc

SAFETY = 2.0  # β / Λ
SMALLEST_PENALTY = 4.0  # β h / |C|
LARGEST_EXPONENT = 1023  # of a power of two that is a double
LOOSE = 1e-9  # in pixels: a part of the domain that is held along less counts as not held

_nodes, _weights = np.polynomial.legendre.leggauss(3)
GAUSS_POINTS, GAUSS_WEIGHTS = 0.5 + 0.5 * _nodes, 0.5 * _weights  # on [0, 1], exact up to degree 5

# A number, one for each component, or a function of (x, y) or (x, y, nx, ny), n outward, that returns either of these.
BoundaryValue = float | Sequence[float] | Callable[..., object]


@dataclass(frozen=True, eq=False)
class Condition:
    """A condition on an arc of the boundary, for all components or only for some.

    name   what messages call it, such as "flux on 'left'"
    """

    arc: Arc
    components: tuple[int, ...] | None = field(default=None, kw_only=True)
    name: str | None = field(default=None, kw_only=True)


@dataclass(frozen=True, eq=False)
class Dirichlet(Condition):
    """u = value."""

    value: BoundaryValue = 0.0


@dataclass(frozen=True, eq=False)
class Neumann(Condition):
    """n · C ∇u = flux: a flux into the domain, or a traction (a force per length)."""

    flux: BoundaryValue


@dataclass(frozen=True, eq=False)
class Robin(Condition):
    """n · C ∇u = coefficient · (outside − u): exchange with the outside, or springs."""

    coefficient: BoundaryValue
    outside: BoundaryValue = 0.0

    def call(self, symbol: str) -> str:
        """Name one of its values in messages."""
        return f"{symbol} of {self.name}" if self.name else symbol


def takes_normal(function: Callable[..., Any]) -> bool:
    """Tell whether a boundary value is a function of x, y, nx and ny, and not of x and y only.

    Parameters with a default, as in `lambda x, y, a=a, b=b: a + b * x`, are the function's own.
    """
    try:
        parameters = signature(function).parameters.values()
    except (TypeError, ValueError):  # raised for functions that are not written in Python
        return False
    by_place = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    is_named = [each.name for each in by_place[2:4]] == ["nx", "ny"]
    return is_named or sum(each.default is each.empty for each in by_place) == 4


@dataclass(frozen=True, eq=False)
class BoundaryPoints:
    """Three Gauss points on each of some pieces of the boundary.

    element   the element that carries the piece
    weight    quadrature weights, which add up to the length of the piece
    x, y      positions
    normal    outward unit normal
    values    N_i
    slopes    ∂_a N_i
    """

    element: Int[np.ndarray, " piece"]
    weight: Float[np.ndarray, "piece 3"]
    x: Float[np.ndarray, "piece 3"]
    y: Float[np.ndarray, "piece 3"]
    normal: Float[np.ndarray, "piece 2"]
    values: Float[np.ndarray, "piece 3 4"]
    slopes: Float[np.ndarray, "piece 3 2 4"]

    @classmethod
    def on(
        cls,
        cells: CutCells,
        which: Int[np.ndarray, " some"],
        between: tuple[Float[np.ndarray, " some"], Float[np.ndarray, " some"]] | None = None,
    ) -> "BoundaryPoints":
        """Return the points on some pieces, or on the part of each between two fractions of its length."""
        pieces, element, h = cells.pieces, cells.element[which], cells.grid.h
        start, step = pieces.start[which], (pieces.end - pieces.start)[which]
        low, high = between or (np.zeros(len(which)), np.ones(len(which)))
        share = low[:, None] + GAUSS_POINTS * (high - low)[:, None]
        points = start[:, None] + share[:, :, None] * step[:, None]
        values, slopes = corner_functions(points - cells.corner[element][:, None])
        weight = h * (pieces.length[which] * (high - low))[:, None] * GAUSS_WEIGHTS
        return cls(element, weight, h * points[..., 0], h * points[..., 1], pieces.normal[which], values, slopes / h)

    def evaluate(self, name: str, value: BoundaryValue, component: int, count: int) -> Float[np.ndarray, "piece 3"]:
        """Evaluate a number, numbers or a function at the points, for one of `count` components."""
        given: object = value
        if callable(value):
            along = self.normal.T if takes_normal(value) else ()
            normal = [np.broadcast_to(axis[:, None], self.x.shape) for axis in along]
            try:
                given = value(self.x, self.y, *normal)
            except Exception as error:
                raise DisolError(
                    f"{name} must be a function of arrays x and y, or of x, y, nx and ny, but raised "
                    f"{type(error).__name__}: {error}. Write it with NumPy functions."
                ) from error
        parts = list(given) if isinstance(given, tuple | list) else [given]
        if len(parts) not in (1, count):
            raise DisolError(f"{name} must have one value, or one for each of {count} components, got {len(parts)}.")
        part = checks.real_numbers(name, parts[component if len(parts) > 1 else 0])
        if part.shape not in ((), self.x.shape):
            raise DisolError(f"{name} must return one value per point, shape {self.x.shape}, got {part.shape}.")
        return np.broadcast_to(checks.as_float(name, part), self.x.shape)


@dataclass(frozen=True, eq=False)
class Hold:
    """What holds u at points.

        ∫ square (u − value) w − share (t(u) w + t(w) (u − value)) − share · resistance t(u) t(w)

    value        g, or ū outside
    square       β + max(−v·n, 0), or the smaller one of α and β
    share        1, or θ
    resistance   0, or 1/α where α > β
    is_stiff     whether the terms depend on β: for values, and where α > β
    """

    value: Float[np.ndarray, "piece 3"]
    square: Float[np.ndarray, "piece 3"]
    share: Float[np.ndarray, "piece 3"]
    resistance: Float[np.ndarray, "piece 3"]
    is_stiff: Bool[np.ndarray, "piece 3"]


@dataclass(frozen=True, eq=False)
class Boundary:
    """Conditions on arcs, and their contributions to the matrices and loads of elements.

    conditions   later ones replace earlier ones of their kind, and Dirichlet replaces Neumann and Robin, which add up
    """

    cells: CutCells
    form: Form
    conditions: tuple[Condition, ...]

    @cached_property
    def kinds(self) -> dict[type[Condition], Int[np.ndarray, "component piece"]]:
        """Number of the condition on each piece, by kind and component; -1 where there is none."""
        pieces, count = self.cells.pieces, self.form.components
        kinds: tuple[type[Condition], ...] = (Dirichlet, Neumann, Robin)
        found = {kind: np.full((count, len(pieces.loop)), -1) for kind in kinds}
        for number, condition in enumerate(self.conditions):
            on_arc = condition.arc.covers(pieces.loop, pieces.place)
            chosen = range(count) if condition.components is None else condition.components
            if not chosen or not set(chosen) <= set(range(count)):
                raise DisolError(f"Components of a condition are among 0 to {count - 1}, got {chosen}.")
            for component in chosen:
                found[type(condition)][component, on_arc] = number
        for kind in (Neumann, Robin):
            found[kind][found[Dirichlet] >= 0] = -1
        return found

    @cached_property
    def where(self) -> list[tuple[int, int, Int[np.ndarray, " _"]]]:
        """Where conditions hold: the number of each, a component, and the pieces, of which there is at least one."""
        return [
            (number, component, pieces)
            for number, condition in enumerate(self.conditions)
            for component, numbers in enumerate(self.kinds[type(condition)])
            if len(pieces := np.flatnonzero(numbers == number))
        ]

    def flux(self, at: BoundaryPoints) -> Float[np.ndarray, "piece 3 component 4 component"]:
        """t_c(N_j e_d) = n_a C_cadb ∂_b N_j at points, [c, j, d]."""
        law = on_elements(self.cells, "law", self.form.law, at.element, axes=4)
        along_normal = np.einsum("...a,...cadb->...cdb", at.normal, law)
        return np.einsum("pcdb,pqbj->pqcjd", along_normal, at.slopes)

    def inflow(self, at: BoundaryPoints) -> Float[np.ndarray, " piece"]:
        """max(−v·n, 0) of each piece."""
        if self.form.velocity is None:
            return np.zeros(len(at.element))
        velocity = on_elements(self.cells, "velocity", self.form.velocity, at.element, axes=1)
        return np.maximum(-(velocity * at.normal).sum(axis=1), 0.0)

    def _exchange(self, condition: Robin, component: int, at: BoundaryPoints) -> Float[np.ndarray, "piece 3"]:
        """α at points."""
        coefficient = at.evaluate(condition.call("h"), condition.coefficient, component, self.form.components)
        if (coefficient < 0).any():
            raise DisolError("h of convection must not be negative on any piece of its part. Raise it there.")
        return coefficient

    def hold(self, condition: Dirichlet | Robin, component: int, at: BoundaryPoints) -> Hold:
        """Return how a condition holds a component at points."""
        penalty = np.broadcast_to(self.penalty[at.element][:, None], at.x.shape)
        none, count = np.zeros_like(penalty), self.form.components
        if isinstance(condition, Dirichlet):
            value = at.evaluate(condition.name or "value", condition.value, component, count)
            return Hold(value, penalty + self.inflow(at)[:, None], none + 1, none, np.ones_like(none, dtype=bool))
        coefficient = self._exchange(condition, component, at)
        value = at.evaluate(condition.call("U_out"), condition.outside, component, count)
        is_stiff = (coefficient > penalty) & (penalty > 0)
        resistance = np.divide(1.0, coefficient, out=none, where=is_stiff)
        share = np.where(is_stiff, 1 - penalty * resistance, 0.0)
        return Hold(value, np.where(is_stiff, penalty, coefficient), share, resistance, is_stiff)

    def _holds_stiffly(self) -> Bool[np.ndarray, "piece component"]:
        """Tell which pieces have values or, somewhere, an exchange that exceeds the smallest penalty."""
        found = self.kinds[Dirichlet].T >= 0
        for number, component, pieces in self.where:
            condition = self.conditions[number]
            if isinstance(condition, Robin):
                at = BoundaryPoints.on(self.cells, pieces)
                law = on_elements(self.cells, "law", self.form.law, at.element, axes=4)
                least = SMALLEST_PENALTY * np.abs(law).max(axis=(1, 2, 3, 4)) / self.cells.grid.h
                found[pieces, component] |= (self._exchange(condition, component, at) > least[:, None]).any(axis=1)
        return found

    @cached_property
    def penalty(self) -> Float[np.ndarray, " element"]:
        """β of each element, 0 where nothing holds it stiffly."""
        penalty = np.zeros(len(self.cells.corner))
        held = self._holds_stiffly()
        which = np.flatnonzero(held.any(axis=1))
        if not len(which):
            return penalty
        at = BoundaryPoints.on(self.cells, which)
        # Relative to the size of the law, because squares of very large or small numbers would over- or underflow.
        size = np.ldexp(1.0, min(np.frexp(np.abs(self.form.law).max())[1], LARGEST_EXPONENT))
        fluxes = self.flux(at) / size * held[which][:, None, :, None, None]
        touched, place = np.unique(at.element, return_inverse=True)
        traces = add_up(
            place, np.einsum("pq,pqcid,pqcje->pidje", at.weight, fluxes, fluxes, optimize=True), len(touched)
        )
        elements = Elements.of(self.cells, self.form, touched)
        energies = elements.energy() / size
        if not (np.isfinite(traces).all() and np.isfinite(energies).all()):
            raise DisolError("The system overflows in double precision. Use other units.")
        largest = size * _largest_ratio(traces, energies, elements.moments)
        least = SMALLEST_PENALTY * np.abs(elements.law).max(axis=(1, 2, 3, 4)) / self.cells.grid.h
        penalty[touched] = np.maximum(SAFETY * largest, least)
        return penalty

    def require_support(self) -> None:
        """Require that Dirichlet or Robin conditions hold every part of the domain against motions without energy."""
        count = self.form.components
        holds = ((self.kinds[Dirichlet] >= 0) | (self.kinds[Robin] >= 0)).T
        which = np.flatnonzero(holds.any(axis=1))
        at = BoundaryPoints.on(self.cells, which)
        parts = self.cells.parts()
        motions = np.zeros((len(at.element), 3, count, 2 * count - 1))  # translations; with two components a rotation
        for component in range(count):
            motions[:, :, component, component] = 1
        if count == 2:
            motions[:, :, 0, 2], motions[:, :, 1, 2] = 0.5 - at.y, at.x - 0.5
        felt = motions * holds[which][:, None, :, None]
        total = add_up(parts[at.element], np.einsum("pq,pqck,pqcl->pkl", at.weight, felt, felt), int(parts.max()) + 1)
        smallest = np.linalg.eigvalsh(total)[:, 0]
        loose = np.flatnonzero(smallest <= LOOSE * self.cells.grid.h)
        if len(loose):
            x, y = self.cells.grid.h * (self.cells.corner[parts == loose[0]].mean(axis=0) + 0.5)
            against = "translation and rotation" if count == 2 else "a constant"
            raise PlacedError(
                "The part of the domain around x = {x:.4g}, y = {y:.4g} is not held against "
                f"{against}. Give values on a part of its boundary.",
                float(x),
                float(y),
            )

    def add_to(self, matrices: Locals, loads: Float[np.ndarray, "element 4 component"]) -> None:
        """Add the terms of all conditions to the matrices and loads of elements, in place."""
        for number, component, pieces in self.where:
            at = BoundaryPoints.on(self.cells, pieces)
            self._add(self.conditions[number], component, at, matrices, loads)

    def _add(
        self,
        condition: Condition,
        component: int,
        at: BoundaryPoints,
        matrices: Locals,
        loads: Float[np.ndarray, "element 4 component"],
    ) -> None:
        count = self.form.components
        matrix, load = np.zeros((len(at.element), 4, count, 4, count)), np.zeros((len(at.element), 4, count))
        if isinstance(condition, Neumann):
            flux = at.evaluate(condition.name or "flux", condition.flux, component, count)
            load[:, :, component] = np.einsum("pq,pq,pqi->pi", at.weight, flux, at.values)
        elif isinstance(condition, Dirichlet | Robin):
            held = self.hold(condition, component, at)
            if held.share.any():
                flux, shared = self.flux(at)[:, :, component], at.weight * held.share
                consistency = np.einsum("pq,pqi,pqjd->pijd", shared, at.values, flux)
                matrix[:, :, component] -= consistency
                matrix[:, :, :, :, component] -= consistency.transpose(0, 2, 3, 1)
                matrix -= np.einsum("pq,pqic,pqjd->picjd", shared * held.resistance, flux, flux, optimize=True)
                load -= np.einsum("pq,pq,pqjd->pjd", shared, held.value, flux)
            squared = at.weight * held.square
            matrix[:, :, component, :, component] += np.einsum("pq,pqi,pqj->pij", squared, at.values, at.values)
            load[:, :, component] += np.einsum("pq,pqi->pi", squared * held.value, at.values)
        touched, place = np.unique(at.element, return_inverse=True)
        matrices[touched] += add_up(place, matrix, len(touched))
        loads[touched] += add_up(place, load, len(touched))


def _largest_ratio(
    traces: Locals, energies: Locals, moments: Float[np.ndarray, "element 16"]
) -> Float[np.ndarray, " element"]:
    """Return the largest ∫ |t(w)|² / ∫ C ∇w : ∇w of each element, over bilinear w modulo those without energy.

    With one component x, y and xy remain, with two (x, 0), (0, y), (y, x), (xy, 0) and (0, xy), about the centroid.
    """
    centre = moments[:, [4, 1]] / moments[:, :1]  # ∫ x and ∫ y over the area
    x, y = (OFFSETS - centre[:, None]).transpose(2, 0, 1)
    none = np.zeros_like(x)
    scalar = [(x,), (y,), (x * y,)]
    modes = scalar if energies.shape[2] == 1 else [(x, none), (none, y), (y, x), (x * y, none), (none, x * y)]
    basis = np.stack([np.stack(mode, axis=-1) for mode in modes], axis=-1).reshape(len(x), -1, len(modes))
    size = basis.shape[1]
    energy, trace = (basis.swapaxes(1, 2) @ each.reshape(len(x), size, size) @ basis for each in (energies, traces))
    diagonal = np.einsum("ekk->ek", energy)
    scale = 1 / np.sqrt(np.maximum(diagonal, 1e-14 * diagonal.max(axis=1, keepdims=True)))
    energy, trace = (scale[:, :, None] * each * scale[:, None, :] for each in (energy, trace))
    values, vectors = np.linalg.eigh(energy)
    root = vectors / np.sqrt(np.maximum(values, 1e-10))[:, None, :]
    return np.linalg.eigvalsh(root.swapaxes(1, 2) @ trace @ root)[:, -1]
