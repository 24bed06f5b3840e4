"""Solutions on the true boundary itself: U, and the flux or stress recovered there from whole pixels."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Shaped

from disol.cases.case import Case
from disol.errors import DisolError
from disol.fem.cut_forms import corner_functions
from disol.fem.cut_system import CutSolution
from disol.fem.recovery import boundary_flux
from disol.geometry.loops import name_curves
from disol.solutions.quantities import combine


@dataclass(frozen=True, eq=False)
class BoundaryValues:
    """A solution at the middle of every straight piece of the boundary; a pixel has one or a few.

    loop        name of the loop: "outer", "hole1", ...
    x, y        position
    normal      outward unit normal
    length      length of the piece, so that (length * traction).sum(axis=-1) approximates a total
    value       U
    traction    κ ∂U/∂n, the flux into the domain; for displacements σ n, the force on the body per length
    flux        −κ ∇U along x and y; None for displacements
    stress      σ_xx, σ_yy and σ_xy for displacements, else None
    von_mises   von Mises stress for displacements, else None

    Tractions and stresses are fitted, around each piece, to nearby whole pixels: second-order accurate where the
    solution is smooth, but unreliable within a few pixels of the end of a support. `solution.total_flux` balances
    exactly.
    """

    loop: Shaped[np.ndarray, " piece"]
    x: Float[np.ndarray, " piece"]
    y: Float[np.ndarray, " piece"]
    normal: Float[np.ndarray, "piece 2"]
    length: Float[np.ndarray, " piece"]
    value: Float[np.ndarray, "*time field piece"]
    traction: Float[np.ndarray, "*time field piece"]
    flux: Float[np.ndarray, "*time 2 piece"] | None = None
    stress: Float[np.ndarray, "*time 3 piece"] | None = None
    von_mises: Float[np.ndarray, "*time piece"] | None = None


def recover(case: Case, cut: CutSolution | None) -> BoundaryValues:
    """Recover the values of a solution on its boundary."""
    if cut is None:
        raise DisolError(
            "Values on the boundary are known for exact solutions on the true boundary only. Solve the case with "
            'conventions="physical".'
        )
    cells, system = cut.system.cells, cut.system
    found = [boundary_flux(system, field) for field in cut.fields]
    pieces, first = cells.pieces, found[0]
    corners = corner_functions(0.5 * (pieces.start + pieces.end) - cells.corner[cells.element])[0]
    values = np.stack(
        [np.einsum("pi,pic->cp", corners, field.values[cells.nodes[cells.element]]) for field in cut.fields]
    )
    scale = case.length * case.problem.flux_factor
    stress = np.stack([each.stress for each in found]) / scale  # by time, piece, component and axis
    traction = np.einsum("tpca,pa->tcp", stress, first.normal)
    names = {number: name for name, (number, _) in name_curves(cells.region.loops).places.items()}
    x, y = case.to_drawing(np.stack([first.x, first.y], axis=1)).T
    ratio = case.problem.out_of_plane(case.conventions, case.coefficient_values())
    derived = {}
    if stress.shape[2] == 1:
        derived["flux"] = -np.moveaxis(stress[:, :, 0], 1, 2)
    elif ratio is not None:
        derived["stress"] = np.stack([stress[..., 0, 0], stress[..., 1, 1], stress[..., 0, 1]], axis=1)
        column, row = cells.corner[cells.element].T
        xx, yy, xy = derived["stress"].swapaxes(0, 1)
        derived["von_mises"] = combine(xx, yy, xy, ratio if np.ndim(ratio) == 0 else ratio[row, column])
    by_time = {"value": values, "traction": traction} | derived
    return BoundaryValues(
        loop=np.array([names[number] for number in first.loop.tolist()]),
        x=x,
        y=y,
        normal=first.normal,
        length=case.length * first.length,
        **{name: array if case.times is not None else array[0] for name, array in by_time.items()},
    )
