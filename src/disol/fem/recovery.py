"""Flux and stress on the boundary, and what flows through an arc in all.

On a cut element σ(u) at the boundary is first order, and off by a third at worst on coarse grids. At the centres of
whole pixels it is second order. So σ is fitted, around every boundary element, by a quadratic polynomial to the
centres of whole pixels near by that the domain connects to it.
"""

from dataclasses import dataclass

import numpy as np
import scipy
from jaxtyping import Float, Int

from disol.fem.cut_forms import Elements, corner_functions, groups
from disol.fem.cut_system import CutField, CutSystem
from disol.fem.nitsche import Condition, Dirichlet, Neumann, Robin
from disol.geometry.pieces import add_up

RINGS = 3  # how many elements away whole pixels are looked for
SMOOTHING = 1e-5  # of the coefficients of a fit, where few pixels leave them undetermined


@dataclass(frozen=True, eq=False)
class BoundaryFlux:
    """σ = C ∇u at the middle of every piece of the boundary.

    loop, place   which loop, and where along it, as a fraction of its length
    x, y          where
    length        of the piece
    normal        outward
    stress        σ_ca; of one component its row is the flux vector
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
    laws = [Elements.of(cells, system.form, which).law for which in groups(cells)]
    parts = [
        np.einsum("...cadb,...db->...ca", law, gradients[which]) for law, which in zip(laws, groups(cells), strict=True)
    ]
    return np.concatenate(parts)


def boundary_flux(system: CutSystem, field: CutField) -> BoundaryFlux:
    """Recover σ on the boundary from whole pixels."""
    cells, pieces = system.cells, system.cells.pieces
    touched, place = np.unique(cells.element, return_inverse=True)
    one, other = _near(system, touched)
    offset = (cells.corner[other] - cells.corner[touched[one]]).astype(float)
    weight = np.where(other >= cells.num_cut, 1.0, 1e-3 * cells.areas[other] ** 2) / (1 + (offset**2).sum(axis=1)) ** 3
    basis = _quadratic(offset)
    stress = stress_at_centres(system, field)[other].reshape(len(other), -1)
    normal = add_up(one, weight[:, None, None] * basis[:, :, None] * basis[:, None, :], len(touched))
    normal += SMOOTHING * np.einsum("eii->e", normal)[:, None, None] * np.diag([0.0, 1, 1, 1, 1, 1]) / 6
    right = add_up(one, (weight[:, None] * basis)[:, :, None] * stress[:, None, :], len(touched))
    fitted = np.linalg.solve(normal, right)
    middle = 0.5 * (pieces.start + pieces.end)
    at_piece = _quadratic(middle - cells.corner[cells.element] - 0.5)
    recovered = np.einsum("pk,pks->ps", at_piece, fitted[place]).reshape(len(middle), -1, 2)
    x, y = cells.grid.h * middle.T
    return BoundaryFlux(pieces.loop, pieces.place, x, y, cells.grid.h * pieces.length, pieces.normal, recovered)


def _near(
    system: CutSystem, touched: Int[np.ndarray, " touched"]
) -> tuple[Int[np.ndarray, " pair"], Int[np.ndarray, " pair"]]:
    """Pair each of some elements with those at most `RINGS` away, from corner to corner."""
    nodes = system.cells.nodes
    ones, rows = np.ones(nodes.size, dtype=np.int32), np.arange(0, nodes.size + 1, 4)
    corners = scipy.sparse.csr_array((ones, nodes.reshape(-1), rows), shape=(len(nodes), len(system.cells.places)))
    reached = corners[touched]
    for _ in range(RINGS - 1):
        reached = (reached @ corners.T) @ corners
        reached.data[:] = 1
    pairs = (reached @ corners.T).tocoo()
    return pairs.coords[0].astype(int), pairs.coords[1].astype(int)


def _quadratic(points: Float[np.ndarray, "point 2"]) -> Float[np.ndarray, "point 6"]:
    x, y = points.T
    return np.stack([np.ones_like(x), x, y, x * x, x * y, y * y], axis=1)


def total_flux(system: CutSystem, field: CutField, condition: Condition) -> Float[np.ndarray, " component"]:
    """∫ t(u) over the pieces where a condition holds, of the components it is for, else 0: the flux in, or the force.

    Where values are given it is the flux that the discrete problem balances, t(u) − (β + max(−v·n, 0)) (u − g), so that
    the totals of all conditions and ∫ f − v · ∇u − r u add up to 0, to rounding.
    """
    boundary, total = system.boundary, np.zeros(system.form.components)
    for component in boundary.chosen(condition):
        at = boundary.points_of(condition, component)
        values = field.values[system.cells.nodes[at.element]]
        here = np.einsum("pqi,pi->pq", at.values, values[:, :, component])
        if isinstance(condition, Neumann):
            flux = at.evaluate("flux", condition.flux, component, len(total))
        elif isinstance(condition, Dirichlet):
            given = at.evaluate("value", condition.value, component, len(total))
            penalty = (boundary.penalty[at.element] + boundary.inflow(at))[:, None]
            raw = np.einsum("pqjd,pjd->pq", boundary.flux(at)[:, :, component], values)
            flux = raw - penalty * (here - given)
        elif isinstance(condition, Robin):
            coefficient = at.evaluate("coefficient", condition.coefficient, component, len(total))
            outside = at.evaluate("outside", condition.outside, component, len(total))
            flux = coefficient * (outside - here)
        total[component] = (at.weight * flux).sum()
    return total
