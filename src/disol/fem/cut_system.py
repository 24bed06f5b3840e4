"""The discrete problem on cut elements, and its solution."""

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy
from jaxtyping import Float, Int

from disol._arrays import exponent_of
from disol.errors import DisolError
from disol.fem.cut_field import CutField
from disol.fem.cut_forms import (
    ComponentSource,
    Form,
    Locals,
    element_matrices,
    on_elements,
    source_load,
)
from disol.fem.cut_rounding import Noise, Shares, motions, seen_inside, springs
from disol.fem.nitsche import LARGEST_EXPONENT, Boundary, Condition
from disol.fem.ordering import nested_dissection
from disol.fem.rounding import EPSILON, GOLDEN, report, require_range
from disol.fem.solve import DirectSolver
from disol.geometry.cut_cells import CutCells, cut
from disol.geometry.region import Region
from disol.grid import Grid

Vector = Float[np.ndarray, " unknown"]
GAMMA = 1 - 0.5**0.5  # of SDIRK2
SPRINGS = 2.0**-25  # errors of the springs, in rounding errors of the entries of A that they correct
FIRST = 8  # substeps of the first step

# The source of one component, or a sequence with one for each component.
Sources = ComponentSource | Sequence[ComponentSource]


class _Assembled(NamedTuple):
    """A and b in elimination order, b summed from absolute values, and the errors of the element matrices."""

    matrix: "scipy.sparse.csc_array"
    load: Vector
    loads: Vector
    noise: Noise


@dataclass(frozen=True, eq=False)
class Step:
    """A step of SDIRK2, in elimination order.

    share    γδ
    middle   v
    values   uⁿ⁺¹
    number   number, from 1, of the whole step that ends with it; None for substeps before the last
    """

    share: float
    middle: Vector
    values: Vector
    number: int | None


@dataclass(frozen=True, eq=False, repr=False)
class CutSystem:
    """A u = b on cut elements; unknowns are those of `cells.places`, components of a node one after the other.

    Built by `discretise`. Private attributes number the unknowns in elimination order.
    """

    cells: CutCells
    form: Form
    boundary: Boundary
    sources: Sequence[ComponentSource]

    def __reduce__(self) -> tuple[Any, ...]:
        # Factors cannot be copied; a copy computes what it needs again.
        return type(self), (self.cells, self.form, self.boundary, self.sources)

    @cached_property
    def _order(self) -> Int[np.ndarray, " unknown"]:
        """The unknowns in elimination order: nested dissection of the nodes."""
        rows, columns = self.cells.grid.height + 1, self.cells.grid.width + 1
        position = np.empty(rows * columns, dtype=int)
        position[nested_dissection(rows, columns)] = np.arange(rows * columns)
        nodes = np.argsort(position[self.cells.places @ [1, columns]], kind="stable")
        count = self.form.components
        return (count * nodes[:, None] + np.arange(count)).reshape(-1)

    @cached_property
    def _unknowns(self) -> Int[np.ndarray, "element local"]:
        """The unknowns of each element, as positions in elimination order."""
        count = self.form.components
        place = np.empty(len(self._order), dtype=np.int32)
        place[self._order] = np.arange(len(place), dtype=np.int32)
        local = (count * self.cells.nodes[:, :, None] + np.arange(count)).reshape(len(self.cells.nodes), -1)
        return place[local]

    @cached_property
    def _assembled(self) -> "_Assembled":
        free = element_matrices(self.cells, self.form, "transport")
        reacts = bool(np.any(self.form.reaction))
        held = element_matrices(self.cells, self.form, "reactive") if reacts else np.zeros_like(free)
        loads = source_load(self.cells, self.form, self.sources)
        self.boundary.add_to(held, loads)
        sizes = self._added_up(np.abs(loads))
        if not np.isfinite(sizes).all():
            raise DisolError("The load overflows in double precision. Use other units.")
        holding = np.flatnonzero(held.any(axis=(1, 2, 3, 4)))
        noise = Noise.of(self.cells, self.form, holding, held[holding])
        free[holding] += noise.held
        return _Assembled(self._gathered(free), self._added_up(loads), sizes, noise)

    def _added_up(self, shares: Shares, which: Int[np.ndarray, " some"] | slice = slice(None)) -> Vector:
        """Add up the contributions of all elements, or of some, at their corners."""
        return np.bincount(self._unknowns[which].reshape(-1), shares.reshape(-1), len(self._order))

    @cached_property
    def _mass(self) -> "scipy.sparse.csc_array":
        return self._gathered(element_matrices(self.cells, self.form, "mass"))

    def _gathered(self, matrices: Locals) -> "scipy.sparse.csc_array":
        """Assemble element matrices."""
        _require_finite(matrices)
        unknowns = self._unknowns
        size = unknowns.shape[1]
        rows, columns = np.repeat(unknowns, size, axis=1).reshape(-1), np.tile(unknowns, (1, size)).reshape(-1)
        return scipy.sparse.coo_array((matrices.reshape(-1), (rows, columns)), shape=2 * (len(self._order),)).tocsc()

    def _in_node_order(self, matrix: "scipy.sparse.csc_array") -> "scipy.sparse.csr_array":
        place = np.argsort(self._order)
        return scipy.sparse.csr_array(matrix[place][:, place])

    @cached_property
    def matrix(self) -> "scipy.sparse.csr_array":
        """A."""
        return self._in_node_order(self._assembled.matrix)

    @cached_property
    def mass(self) -> "scipy.sparse.csr_array":
        """∫ ρ N_i N_j."""
        return self._in_node_order(self._mass)

    @cached_property
    def load(self) -> Vector:
        """Return b."""
        load = np.empty(len(self._order))
        load[self._order] = self._assembled.load
        return load

    @property
    def unknowns(self) -> Int[np.ndarray, "unknown 3"]:
        """Component, row and column of the node of each unknown; a node split by a thin wall has several."""
        count = self.form.components
        column, row = np.repeat(self.cells.places, count, axis=0).T
        return np.stack([np.tile(np.arange(count), len(self.cells.places)), row, column], axis=1)

    def to_vector(self, nodes: Float[np.ndarray, "component rows columns"]) -> Vector:
        """Return the vector of unknowns with given nodal values; several unknowns at one node get the same value."""
        return nodes[tuple(self.unknowns.T)]

    def residual(self, values: Float[np.ndarray, "..."]) -> Vector:
        """Return b − A u for the values of all unknowns, as a vector or by unknown and component."""
        return self.load - self.matrix @ values.reshape(-1)

    def energy(self, values: Float[np.ndarray, "..."]) -> float:
        """½ uᵀ A u."""
        return float(0.5 * values.reshape(-1) @ (self.matrix @ values.reshape(-1)))

    def __repr__(self) -> str:
        height, width = self.cells.grid.pixels
        return (
            f"CutSystem({len(self._order)} unknowns on {len(self.cells.corner)} elements of {height} x {width} pixels, "
            f"{self.cells.num_cut} of them cut)"
        )

    def solve(self) -> CutField:
        """Solve; warn if rounding may have changed the solution notably, raise an error if too much."""
        field = self.solve_and_estimate()
        report(field.rounding_error)
        return field

    def solve_and_estimate(self) -> CutField:
        """Solve, and leave the check of the rounding error to the caller."""
        return self._solution

    @cached_property
    def _solution(self) -> CutField:
        if not np.any(self.form.reaction):
            self.boundary.require_support()
        solution, error = self._factors.solve(self._assembled.load)
        # Springs are as accurate as the residuals that solutions are refined with, and so add the same error again.
        return self._field(solution, 2 * error + self._change(solution))

    def _change(self, solution: Vector) -> float:
        """Estimate the change of a solution by errors of element matrices and loads, relative to its largest value.

        Nodes outside the domain count by how much of their values shows inside.
        """
        if not solution.any():
            return 0.0
        unit = np.ldexp(1.0, min(int(exponent_of(np.abs(solution).max())), LARGEST_EXPONENT))
        values = solution / unit
        corners = values[self._unknowns].reshape(len(self._unknowns), 4, -1)
        noise = self._assembled.loads / unit + self._added_up(self._assembled.noise.forces(corners))
        noise += SPRINGS * (abs(self._assembled.matrix) @ np.abs(values))
        half = np.arange(len(noise)) * GOLDEN % 2 < 1  # of the errors, so that they neither cancel nor all add up
        change = self._factors.apply(2 * half * noise)
        seen = np.repeat(seen_inside(self.cells), self.form.components)[self._order]
        return float(EPSILON * np.abs(seen * change).max() / np.abs(seen * values).max())

    @cached_property
    def _factors(self) -> "_Scaled":
        factors = _Scaled(self._assembled.matrix)
        factors.add(self._springs(factors))
        return factors

    def _springs(self, factors: "_Scaled") -> "scipy.sparse.csr_array":
        """Return the correction that frees strain-free motions from the springs in the rounded entries of A."""
        count, noise = self.form.components, self._assembled.noise
        nodes = self._unknowns[:, ::count] // count
        known = motions(self.cells.places[self._order[::count] // count], count)
        left = np.empty_like(known)
        for place, motion in enumerate(known):
            held = np.einsum("eicjd,ejd->eic", noise.held, motion[nodes[noise.holding]])
            forces = self._added_up(held, noise.holding)
            left[place] = factors.residual(motion.reshape(-1), forces).reshape(-1, count)
        return springs(nodes, known, left)

    def solve_adjoint(self, d_values: Float[np.ndarray, "node component"]) -> Vector:
        """Solve Aᵀ λ = dJ/du with the factors of A, in elimination order."""
        adjoint, error = self._factors.transposed.solve(d_values.reshape(-1)[self._order])
        report(error)
        return adjoint

    def march(self, initial: Sources, step: float, steps: int) -> Iterator[CutField]:
        """Yield the steps of `march_and_estimate`; after the last, check the rounding error as `solve` does."""
        worst = 0.0
        for field in self.march_and_estimate(initial, step, steps):
            worst = float(np.maximum(worst, field.rounding_error))  # NaN propagates
            yield field
        report(worst)

    def march_and_estimate(self, initial: Sources, step: float, steps: int) -> Iterator[CutField]:
        """Yield u¹, u², ... of M u' = b − K u, starting from ∫ ρ N_i u⁰, by SDIRK2 with γ = 1 − 1/√2.

            (M + γδ K) v   = M uⁿ + γδ b
            (M + γδ K) uⁿ⁺¹ = M uⁿ + (1 − γ)/γ (M v − M uⁿ) + γδ b

        It is second-order and L-stable. The first step is split into `FIRST` substeps: initial data that do not match
        the boundary values change there faster than one step could resolve.
        """
        error, largest, share = 0.0, 0.0, 0.0
        for taken in self.take_steps(initial, step, steps):
            if taken.share != share:
                share = taken.share
                added, kept = self._rounding_of_a_step(self.factors_of_step(share))
            largest = max(largest, np.abs(taken.middle).max(), np.abs(taken.values).max())
            error = kept * error + added * largest
            if taken.number is not None:
                yield self._field(taken.values, error / (largest or 1.0))

    def take_steps(self, initial: Sources, step: float, steps: int) -> Iterator[Step]:
        """Yield the steps of `march`, including the substeps of the first."""
        load = self._assembled.load
        momentum = self._momentum(initial)
        for number in range(steps):
            inner = FIRST if number == 0 else 1
            if number < 2:
                share = GAMMA * step / inner
                solver = self.factors_of_step(share)
            for part in range(inner):
                middle, _ = solver.solve(momentum + share * load, refine=False)
                values, _ = solver.solve(self._ahead(momentum, middle) + share * load, refine=False)
                momentum = self._mass @ values
                yield Step(share, middle, values, number + 1 if part == inner - 1 else None)

    def initial_loads(self, initial: Sources) -> Float[np.ndarray, "element 4 component"]:
        """∫ N_i u⁰ of every element."""
        return source_load(self.cells, Form(self.form.law), _by_component(initial, self.form.components))

    def factors_of_step(self, share: float) -> "_Scaled":
        """Return the factors of M + γδ K, computed once."""
        if share not in self._factors_of_steps:
            self._factors_of_steps[share] = _Scaled(self._mass + share * self._assembled.matrix)
        return self._factors_of_steps[share]

    @cached_property
    def _factors_of_steps(self) -> "dict[float, _Scaled]":
        return {}

    def project(self, initial: Sources) -> CutField:
        """Return the projection of an initial field: M u = ∫ ρ N_i u⁰."""
        return self._field(_Scaled(self._mass).solve(self._momentum(initial), refine=False)[0], 0.0)

    def _momentum(self, initial: Sources) -> Vector:
        """∫ ρ N_i u⁰."""
        density = on_elements(self.cells, "density", self.form.density, slice(None))[:, None, None]
        loads = density * self.initial_loads(initial)
        return self._added_up(loads)

    def _ahead(self, momentum: Vector, middle: Vector) -> Vector:
        """M uⁿ + (1 − γ)/γ (M v − M uⁿ)."""
        return momentum + (1 - GAMMA) / GAMMA * (self._mass @ middle - momentum)

    def _rounding_of_a_step(self, solver: "_Scaled") -> tuple[float, float]:
        """Return the rounding error added per step, relative to the largest value, and the share kept of earlier ones.

        Each equation of A = M + γδ K has an error of ε |A| |u| of unknown sign in both stages; the first stage enters
        the second (1 − γ)/γ times. Refinement would not help: rounding the entries of A does as much harm.
        """
        ones = np.ones(len(self._order))
        sizes, signs = abs(solver.matrix) @ ones, np.sign(np.arange(len(ones)) * GOLDEN % 2 - 1)
        added = np.max([np.abs(solver.apply(each)) for each in (sizes, signs * sizes)])
        constant = self._mass @ ones
        after = solver.apply(self._ahead(constant, solver.apply(constant)))
        return float(EPSILON * added / GAMMA), min(float(np.abs(after).max()), 1.0)

    def _field(self, solution: Vector, rounding_error: float) -> CutField:
        values = np.empty(len(self._order))
        values[self._order] = solution
        return CutField(self.cells, self.form.law, values.reshape(-1, self.form.components), rounding_error)


@dataclass(frozen=True, eq=False)
class CutSolution:
    """A system on cut elements and its solution: one field, or one for each requested time of a transient problem."""

    system: CutSystem
    fields: tuple[CutField, ...]


def _require_finite(matrices: Locals) -> None:
    if not np.isfinite(matrices).all():
        raise DisolError("The system overflows in double precision. Use other units.")


class _Scaled:
    """Factors of S A S, where S has the powers of two closest to 1 / √A_ii, so that the scaling is exact."""

    def __init__(self, matrix: "scipy.sparse.csc_array") -> None:
        self.matrix = matrix
        diagonal = np.abs(matrix.diagonal())
        self.scale = np.ldexp(1.0, -(np.frexp(np.where(diagonal > 0, diagonal, 1.0))[1] // 2))
        data = matrix.data * self.scale[matrix.indices] * np.repeat(self.scale, np.diff(matrix.indptr))
        self.solver = DirectSolver(scipy.sparse.csc_array((data, matrix.indices, matrix.indptr), shape=matrix.shape))

    def add(self, rest: "scipy.sparse.csr_array") -> None:
        """Add the part of A that rounding left out of its entries."""
        data = np.repeat(self.scale, np.diff(rest.indptr)) * rest.data * self.scale[rest.indices]
        self.solver.rest = scipy.sparse.csr_array((data, rest.indices, rest.indptr), shape=rest.shape)

    def residual(self, values: Vector, load: Vector) -> Vector:
        """Return b − A u with more digits than doubles have."""
        return self.solver.residual(values / self.scale, self.scale * load) / self.scale

    @cached_property
    def transposed(self) -> "_Scaled":
        """Factors of the transpose, with the same scaling."""
        other = copy(self)
        other.solver = self.solver.transposed()
        return other

    def solve(self, load: Vector, refine: bool = True) -> tuple[Vector, float]:
        """Solve for one load vector and estimate the rounding error, 0 without refinement."""
        if not load.any():
            return np.zeros_like(load), 0.0
        unit = int(exponent_of(np.abs(load).max()))  # this power of two keeps all but the solution from overflow
        solution, error = self.solver.solve_and_estimate(self.scale * np.ldexp(load, -unit), refine)
        values = self.scale * solution
        require_range(np.abs(values).max(), unit)
        return np.ldexp(values, unit), error

    def apply(self, vector: Vector) -> Vector:
        """A⁻¹ times a vector, without refinement or checks: for estimates."""
        return self.scale * self.solver.factors.solve(self.scale * vector)


def _by_component(sources: Sources, count: int) -> Sequence[ComponentSource]:
    if sources is None:
        return [None] * count
    return list(sources) if isinstance(sources, Sequence) else [sources]


def discretise(
    region: Region,
    grid: Grid,
    form: Form,
    conditions: Sequence[Condition] = (),
    source: Sources = None,
    cells: CutCells | None = None,
) -> CutSystem:
    """Discretise a form on a domain with its true boundary.

    conditions   Dirichlet, Neumann and Robin conditions on arcs; the flux through any other boundary is zero
    source       f: a function of x and y, one value per pixel, a number or None; for several components a sequence
    cells        the grid cut at the region and these arcs, if that has been done already
    """
    if cells is None:
        cells = cut(region, grid, [condition.arc for condition in conditions])
    return CutSystem(cells, form, Boundary(cells, form, tuple(conditions)), _by_component(source, form.components))
