"""Flux and stress on the boundary, total fluxes through arcs, work and energy.

On the boundary σ is that of a quadratic polynomial, fitted around every boundary element to σ at the centres of nearby
whole pixels, as gradients on cut elements are (`fem/cut_field.py`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int

from disol.fem.cut_field import CutField, fit_nearby, quadratic
from disol.fem.cut_forms import element_matrices, on_elements, source_load
from disol.fem.cut_system import CutSystem
from disol.fem.nitsche import BoundaryPoints, Condition, Dirichlet, Neumann, Robin
from disol.geometry.cut_cells import CutCells
from disol.geometry.region import Arc


@dataclass(frozen=True, eq=False)
class BoundaryFlux:
    """σ = C ∇u at the middle of every piece of the boundary.

    loop, place   number of the loop, and position along it as a fraction of its length
    x, y          position
    length        length of the piece
    normal        outward unit normal
    stress        σ_ca; with one component its row is C ∇u
    """

    loop: Int[np.ndarray, " piece"]
    place: Float[np.ndarray, " piece"]
    x: Float[np.ndarray, " piece"]
    y: Float[np.ndarray, " piece"]
    length: Float[np.ndarray, " piece"]
    normal: Float[np.ndarray, "piece 2"]
    stress: Float[np.ndarray, "piece component 2"]

    @property
    def traction(self) -> Float[np.ndarray, "piece component"]:
        """σ n: the conormal flux κ ∂u/∂n, or the traction."""
        return np.einsum("pca,pa->pc", self.stress, self.normal)


def boundary_flux(system: CutSystem, field: CutField) -> BoundaryFlux:
    """Recover σ on the boundary from whole pixels nearby."""
    cells, pieces = system.cells, system.cells.pieces
    touched, place = np.unique(cells.element, return_inverse=True)
    law = on_elements(cells, "law", system.form.law, slice(None), axes=4)
    stress = np.einsum("...cadb,...db->...ca", law, field.element_gradients())
    fitted = fit_nearby(cells, system.form.law, touched, stress.reshape(len(stress), -1))
    middle = 0.5 * (pieces.start + pieces.end)
    at_piece = quadratic(middle - cells.corner[cells.element] - 0.5)
    recovered = np.einsum("pk,pks->ps", at_piece, fitted[place]).reshape(len(middle), -1, 2)
    x, y = cells.grid.h * middle.T
    return BoundaryFlux(pieces.loop, pieces.place, x, y, cells.grid.h * pieces.length, pieces.normal, recovered)


def total_flux(
    system: CutSystem, field: CutField, condition: Condition, arcs: Sequence[Arc] | None = None
) -> Float[np.ndarray, " component"]:
    """∫ t(u) where a condition holds, for the components it applies to, else 0: the flux into the domain, or the force.

    For a Dirichlet condition it is the flux that balances the discrete problem, t(u) − (β + max(−v·n, 0)) (u − g), and
    for exchange with α > β it is θ t(u) − β (u − ū), so that the totals of all conditions and ∫ f − v · ∇u − r u add up
    to 0, to rounding.

    arcs   integrate over these arcs only; they must not overlap
    """
    boundary, total = system.boundary, np.zeros(system.form.components)
    for number, component, pieces in boundary.where:
        if boundary.conditions[number] is condition:
            for at in _points_on(system.cells, pieces, arcs):
                total[component] += (at.weight * _density(system, field, condition, component, at)).sum()
    return total


def work(system: CutSystem, field: CutField) -> float:
    """∫ q · u over the boundary + ∫ f · u: the work of given fluxes or tractions, and of sources or body forces."""
    boundary, count = system.boundary, system.form.components
    plain = replace(system.form, upwind=False)
    loads = source_load(system.cells, plain, system.sources)
    total = float((loads * field.values[system.cells.nodes]).sum())
    for number, component, pieces in boundary.where:
        condition = boundary.conditions[number]
        if isinstance(condition, Neumann):
            at = BoundaryPoints.on(system.cells, pieces)
            flux = at.evaluate("flux", condition.flux, component, count)
            total += float((at.weight * flux * _here(system, field, component, at)).sum())
    return total


def strain_energy(system: CutSystem, field: CutField) -> float:
    """½ ∫ C ∇u : ∇u + r u²."""
    cells, values = system.cells, field.values[system.cells.nodes]
    still = replace(system.form, velocity=None, upwind=False)
    return 0.5 * float(np.einsum("eic,eicjd,ejd", values, element_matrices(cells, still, "stiffness"), values))


def _points_on(
    cells: CutCells, which: Int[np.ndarray, " some"], arcs: Sequence[Arc] | None
) -> Iterator[BoundaryPoints]:
    """Yield points on some pieces, or on the parts of them that lie on each of some arcs."""
    if arcs is None:
        yield BoundaryPoints.on(cells, which)
        return
    pieces = cells.pieces
    lengths = np.array([loop.arc_lengths[-1] for loop in cells.region.loops])
    size = cells.grid.h * pieces.length[which] / lengths[pieces.loop[which]]
    start = pieces.place[which] - 0.5 * size
    for arc in arcs:
        for lap in (-1.0, 0.0, 1.0):  # an arc may pass the start of its loop, and so may a piece
            low, high = (np.clip((end + lap - start) / size, 0.0, 1.0) for end in (arc.start, arc.end))
            some = (high > low) & (pieces.loop[which] == arc.loop)
            if some.any():
                yield BoundaryPoints.on(cells, which[some], (low[some], high[some]))


def _density(
    system: CutSystem, field: CutField, condition: Condition, component: int, at: BoundaryPoints
) -> Float[np.ndarray, "piece 3"]:
    """t(u) at points where a condition holds, as the discrete problem balances it."""
    boundary, count = system.boundary, system.form.components
    if isinstance(condition, Neumann):
        return at.evaluate("flux", condition.flux, component, count)
    assert isinstance(condition, Dirichlet | Robin)
    held, values = boundary.hold(condition, component, at), field.values[system.cells.nodes[at.element]]
    flux = np.einsum("pqjd,pjd->pq", boundary.flux(at)[:, :, component], values)
    return held.share * flux - held.square * (_here(system, field, component, at) - held.value)


def _here(system: CutSystem, field: CutField, component: int, at: BoundaryPoints) -> Float[np.ndarray, "piece 3"]:
    return np.einsum("pqi,pi->pq", at.values, field.values[system.cells.nodes[at.element]][:, :, component])
