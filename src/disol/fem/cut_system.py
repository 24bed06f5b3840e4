"""The discrete problem on cut elements, its solution, and values of it at points of the domain."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy
from jaxtyping import Float, Int

from disol._arrays import exponent_of
from disol.errors import DisolError
from disol.fem.cut_forms import (
    ComponentSource,
    Form,
    Locals,
    corner_functions,
    element_matrices,
    on_elements,
    source_load,
)
from disol.fem.nitsche import Boundary, Condition
from disol.fem.ordering import nested_dissection
from disol.fem.rounding import report, require_range
from disol.fem.solve import DirectSolver
from disol.geometry.cut_cells import CutCells, cut
from disol.geometry.region import Region
from disol.grid import Grid

Vector = Float[np.ndarray, " unknown"]
GAMMA = 1 - 0.5**0.5  # of SDIRK2
FIRST = 8  # smaller steps that the first one is taken in

# Of one component its source, of several one for each.
Sources = ComponentSource | Sequence[ComponentSource]


@dataclass(frozen=True, eq=False)
class CutField:
    """A solution: bilinear on every element, known at points of the domain only.

    values           by unknown and component; at nodes outside the domain they mean nothing by themselves
    rounding_error   estimate of what rounding has changed, as a share of the largest value; None of steps in time
    """

    cells: CutCells
    values: Float[np.ndarray, "unknown component"]
    rounding_error: float | None = None

    def at(
        self, x: Float[np.ndarray, " point"], y: Float[np.ndarray, " point"]
    ) -> Float[np.ndarray, "component point"]:
        """Evaluate at points; NaN outside the domain."""
        element, local = self.cells.find(x, y)
        values = np.einsum("pi,pic->cp", corner_functions(local)[0], self.values[self.cells.nodes[element]])
        return np.where(element >= 0, values, np.nan)

    def pixels(self) -> Float[np.ndarray, "component height width"]:
        """Evaluate at pixel centres; NaN outside the domain."""
        rows, columns, element = self.cells.centres
        local = np.stack([columns, rows], axis=1) + 0.5 - self.cells.corner[element]
        found = np.full((self.values.shape[1], *self.cells.grid.pixels), np.nan)
        values = self.values[self.cells.nodes[element]]
        found[:, rows, columns] = np.einsum("pi,pic->cp", corner_functions(local)[0], values)
        return found

    def nodes(self) -> Float[np.ndarray, "component rows columns"]:
        """Put unknowns at their nodes, of several at one node the last; NaN elsewhere. Outside they mean nothing."""
        found = np.full((self.values.shape[1], self.cells.grid.height + 1, self.cells.grid.width + 1), np.nan)
        column, row = self.cells.places.T
        found[:, row, column] = self.values.T
        return found


@dataclass(frozen=True, eq=False, repr=False)
class CutSystem:
    """A u = b on cut elements; unknowns are those of `cells.places`, components of a node one after the other.

    `discretise` makes one. Inside, unknowns are numbered in elimination order.
    """

    cells: CutCells
    form: Form
    boundary: Boundary
    sources: Sequence[ComponentSource]

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
        """Place in elimination order of the unknowns of each element."""
        count = self.form.components
        place = np.empty(len(self._order), dtype=np.int32)
        place[self._order] = np.arange(len(place), dtype=np.int32)
        local = (count * self.cells.nodes[:, :, None] + np.arange(count)).reshape(len(self.cells.nodes), -1)
        return place[local]

    @cached_property
    def _assembled(self) -> "tuple[scipy.sparse.csc_array, Vector]":
        matrices = element_matrices(self.cells, self.form, "stiffness")
        loads = source_load(self.cells, self.form, self.sources)
        self.boundary.add_to(matrices, loads)
        if not (np.isfinite(matrices).all() and np.isfinite(loads).all()):
            raise DisolError("The system overflows in double precision. Use other units.")
        load = np.bincount(self._unknowns.reshape(-1), loads.reshape(-1), len(self._order))
        return self._gathered(matrices), load

    @cached_property
    def _mass(self) -> "scipy.sparse.csc_array":
        return self._gathered(element_matrices(self.cells, self.form, "mass"))

    def _gathered(self, matrices: Locals) -> "scipy.sparse.csc_array":
        """Assemble element matrices."""
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
        return self._in_node_order(self._assembled[0])

    @cached_property
    def mass(self) -> "scipy.sparse.csr_array":
        """∫ ρ N_i N_j."""
        return self._in_node_order(self._mass)

    @cached_property
    def load(self) -> Vector:
        """Return b."""
        load = np.empty(len(self._order))
        load[self._order] = self._assembled[1]
        return load

    @property
    def unknowns(self) -> Int[np.ndarray, "unknown 3"]:
        """Component, row and column of the node of each unknown; a node that a thin wall parts has several."""
        count = self.form.components
        column, row = np.repeat(self.cells.places, count, axis=0).T
        return np.stack([np.tile(np.arange(count), len(self.cells.places)), row, column], axis=1)

    def to_vector(self, nodes: Float[np.ndarray, "component rows columns"]) -> Vector:
        """Pick the unknowns of nodal values; several at one node have the same."""
        return nodes[tuple(self.unknowns.T)]

    def residual(self, values: Float[np.ndarray, "..."]) -> Vector:
        """Return b − A u, of the values of all unknowns, as a vector or by unknown and component."""
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
        """Solve; what rounding may have changed notably is told in a warning, and too much refused."""
        if not np.any(self.form.reaction):
            self.boundary.require_support()
        matrix, load = self._assembled
        return self._field(*_Scaled(matrix).solve(load))

    def march(self, initial: Sources, step: float, steps: int) -> Iterator[CutField]:
        """Yield u¹, u², ... of M u' = b − K u, from ∫ ρ N_i u⁰ on, by SDIRK2 with γ = 1 − 1/√2.

            (M + γδ K) v   = M uⁿ + γδ b
            (M + γδ K) uⁿ⁺¹ = M uⁿ + (1 − γ)/γ (M v − M uⁿ) + γδ b

        It is of second order and L-stable. The first step is taken in `FIRST` smaller ones: initial data that do not
        meet the values on the boundary change there faster than one step could follow.
        """
        stiffness, load = self._assembled
        momentum = self._momentum(initial)
        for number in range(steps):
            inner = FIRST if number == 0 else 1
            if number < 2:
                share = GAMMA * step / inner
                solver = _Scaled(self._mass + share * stiffness)
            for _ in range(inner):
                middle, _ = solver.solve(momentum + share * load, refine=False)
                ahead = momentum + (1 - GAMMA) / GAMMA * (self._mass @ middle - momentum)
                values, _ = solver.solve(ahead + share * load, refine=False)
                momentum = self._mass @ values
            yield self._field(values)

    def project(self, initial: Sources) -> CutField:
        """Return u⁰ nearest to a function: M u⁰ = ∫ ρ N_i u⁰."""
        return self._field(_Scaled(self._mass).solve(self._momentum(initial), refine=False)[0])

    def _momentum(self, initial: Sources) -> Vector:
        """∫ ρ N_i u⁰."""
        plain = Form(self.form.law)
        density = on_elements(self.cells, "density", self.form.density, slice(None))[:, None, None]
        loads = density * source_load(self.cells, plain, _by_component(initial, self.form.components))
        return np.bincount(self._unknowns.reshape(-1), loads.reshape(-1), len(self._order))

    def _field(self, solution: Vector, rounding_error: float | None = None) -> CutField:
        values = np.empty(len(self._order))
        values[self._order] = solution
        return CutField(self.cells, values.reshape(-1, self.form.components), rounding_error)


@dataclass(frozen=True, eq=False)
class CutSolution:
    """A system on cut elements and what solves it: one field, of a transient problem one for each time asked for."""

    system: CutSystem
    fields: tuple[CutField, ...]


class _Scaled:
    """Factors of S A S, with S the powers of two next to 1 / √A_ii: the scaling is exact."""

    def __init__(self, matrix: "scipy.sparse.csc_array") -> None:
        diagonal = np.abs(matrix.diagonal())
        self.scale = np.ldexp(1.0, -(np.frexp(np.where(diagonal > 0, diagonal, 1.0))[1] // 2))
        data = matrix.data * self.scale[matrix.indices] * np.repeat(self.scale, np.diff(matrix.indptr))
        self.solver = DirectSolver(scipy.sparse.csc_array((data, matrix.indices, matrix.indptr), shape=matrix.shape))

    def solve(self, load: Vector, refine: bool = True) -> tuple[Vector, float]:
        """Solve for one load vector; estimate what rounding has changed, 0 if not refined."""
        if not load.any():
            return np.zeros_like(load), 0.0
        unit = int(exponent_of(np.abs(load).max()))  # a power of two, which keeps all but the solution from overflow
        solution, error = self.solver.solve_and_estimate(self.scale * np.ldexp(load, -unit), refine)
        report(error)
        values = self.scale * solution
        require_range(np.abs(values).max(), unit)
        return np.ldexp(values, unit), error


def _by_component(sources: Sources, count: int) -> Sequence[ComponentSource]:
    if sources is None:
        return [None] * count
    return list(sources) if isinstance(sources, Sequence) else [sources]


def discretise(
    region: Region, grid: Grid, form: Form, conditions: Sequence[Condition] = (), source: Sources = None
) -> CutSystem:
    """Discretise a form on a domain with its true boundary.

    conditions   values, fluxes and exchange on arcs; every other boundary has no flux
    source       f: a function of x and y, one value per pixel, a number or None; of several components one for each
    """
    cells = cut(region, grid, [condition.arc for condition in conditions])
    return CutSystem(cells, form, Boundary(cells, form, tuple(conditions)), _by_component(source, form.components))
