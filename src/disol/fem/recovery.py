"""Flux and stress on the boundary, and total fluxes through arcs.

On a cut element σ(u) is first-order accurate at the boundary, with errors of up to a third on coarse grids. At the
centres of whole pixels it is second-order. So around every boundary element, a quadratic polynomial is fitted to σ at
the centres of nearby whole pixels that are connected to it through the domain.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy
from jaxtyping import Float, Int

from disol.fem.cut_forms import corner_functions, element_matrices, on_elements, source_load
from disol.fem.cut_system import CutField, CutSystem
from disol.fem.nitsche import BoundaryPoints, Condition, Dirichlet, Neumann, Robin
from disol.geometry.cut_cells import CutCells
from disol.geometry.pieces import add_up
from disol.geometry.region import Arc

RINGS = 3  # how many elements away pixels are used for a fit
SMOOTHING = 1e-5  # regularises the coefficients of a fit that few pixels leave undetermined


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


def stress_at_centres(system: CutSystem, field: CutField) -> Float[np.ndarray, "element component 2"]:
    """σ = C ∇u at the centre of the pixel of every element: second order where it is whole."""
    cells = system.cells
    _, slopes = corner_functions(np.full(2, 0.5))
    gradients = np.einsum("bi,eid->edb", slopes / cells.grid.h, field.values[cells.nodes])
    law = on_elements(cells, "law", system.form.law, slice(None), axes=4)
    return np.einsum("...cadb,...db->...ca", law, gradients)


def pixel_gradients(field: CutField) -> Float[np.ndarray, "component 2 height width"]:
    """∂_b u_c at pixel centres, NaN outside the domain: second-order, since on cut elements it is fitted like σ."""
    cells = field.cells
    _, slopes = corner_functions(np.full(2, 0.5))
    own = np.einsum("bi,eic->ecb", slopes / cells.grid.h, field.values[cells.nodes])
    rows, columns, element = cells.centres
    gradients = own[element]
    is_cut = np.flatnonzero(element < cells.num_cut)
    touched, place = np.unique(element[is_cut], return_inverse=True)
    fitted = _fit(cells, touched, own.reshape(len(own), -1))
    offset = np.stack([columns, rows], axis=1)[is_cut] - cells.corner[element[is_cut]]
    recovered = np.einsum("pk,pks->ps", _quadratic(offset.astype(float)), fitted[place])
    gradients[is_cut] = recovered.reshape(len(is_cut), *own.shape[1:])
    found = np.full((*own.shape[1:], *cells.grid.pixels), np.nan)
    found[:, :, rows, columns] = np.moveaxis(gradients, 0, -1)
    return found


def boundary_flux(system: CutSystem, field: CutField) -> BoundaryFlux:
    """Recover σ on the boundary from whole pixels nearby."""
    cells, pieces = system.cells, system.cells.pieces
    touched, place = np.unique(cells.element, return_inverse=True)
    stress = stress_at_centres(system, field)
    fitted = _fit(cells, touched, stress.reshape(len(stress), -1))
    middle = 0.5 * (pieces.start + pieces.end)
    at_piece = _quadratic(middle - cells.corner[cells.element] - 0.5)
    recovered = np.einsum("pk,pks->ps", at_piece, fitted[place]).reshape(len(middle), -1, 2)
    x, y = cells.grid.h * middle.T
    return BoundaryFlux(pieces.loop, pieces.place, x, y, cells.grid.h * pieces.length, pieces.normal, recovered)


def _fit(
    cells: CutCells, touched: Int[np.ndarray, " touched"], samples: Float[np.ndarray, "element sample"]
) -> Float[np.ndarray, "touched 6 sample"]:
    """Fit a quadratic polynomial, around each of some elements, to samples at the centres of nearby elements."""
    one, other = _near(cells, touched)
    offset = (cells.corner[other] - cells.corner[touched[one]]).astype(float)
    weight = np.where(other >= cells.num_cut, 1.0, 1e-3 * cells.areas[other] ** 2) / (1 + (offset**2).sum(axis=1)) ** 3
    basis = _quadratic(offset)
    normal = add_up(one, weight[:, None, None] * basis[:, :, None] * basis[:, None, :], len(touched))
    normal += SMOOTHING * np.einsum("eii->e", normal)[:, None, None] * np.diag([0.0, 1, 1, 1, 1, 1]) / 6
    right = add_up(one, (weight[:, None] * basis)[:, :, None] * samples[other][:, None, :], len(touched))
    return np.linalg.solve(normal, right)


def _near(
    cells: CutCells, touched: Int[np.ndarray, " touched"]
) -> tuple[Int[np.ndarray, " pair"], Int[np.ndarray, " pair"]]:
    """Pair each of some elements with those at most `RINGS` elements away, counted from corner to corner."""
    nodes = cells.nodes
    ones, rows = np.ones(nodes.size, dtype=np.int32), np.arange(0, nodes.size + 1, 4)
    corners = scipy.sparse.csr_array((ones, nodes.reshape(-1), rows), shape=(len(nodes), len(cells.places)))
    reached = corners[touched]
    for _ in range(RINGS - 1):
        reached = (reached @ corners.T) @ corners
        reached.data[:] = 1
    pairs = (reached @ corners.T).tocoo()
    return pairs.coords[0].astype(int), pairs.coords[1].astype(int)


def _quadratic(points: Float[np.ndarray, "point 2"]) -> Float[np.ndarray, "point 6"]:
    x, y = points.T
    return np.stack([np.ones_like(x), x, y, x * x, x * y, y * y], axis=1)


def total_flux(
    system: CutSystem, field: CutField, condition: Condition, arcs: Sequence[Arc] | None = None
) -> Float[np.ndarray, " component"]:
    """∫ t(u) where a condition holds, for the components it applies to, else 0: the flux into the domain, or the force.

    For a Dirichlet condition it is the flux that balances the discrete problem, t(u) − (β + max(−v·n, 0)) (u − g), so
    that the totals of all conditions and ∫ f − v · ∇u − r u add up to 0, to rounding.

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
    here = _here(system, field, component, at)
    if isinstance(condition, Robin):
        coefficient = at.evaluate("coefficient", condition.coefficient, component, count)
        return coefficient * (at.evaluate("outside", condition.outside, component, count) - here)
    assert isinstance(condition, Dirichlet)
    given = at.evaluate("value", condition.value, component, count)
    penalty = (boundary.penalty[at.element] + boundary.inflow(at))[:, None]
    values = field.values[system.cells.nodes[at.element]]
    return np.einsum("pqjd,pjd->pq", boundary.flux(at)[:, :, component], values) - penalty * (here - given)


def _here(system: CutSystem, field: CutField, component: int, at: BoundaryPoints) -> Float[np.ndarray, "piece 3"]:
    return np.einsum("pqi,pi->pq", at.values, field.values[system.cells.nodes[at.element]][:, :, component])
