"""Quantities derived from a solution point by point: values and gradients, fluxes, strains and stresses.

    flux −κ ∇U,   ε = ½ (∇U + ∇Uᵀ),   σ = C : ε

x runs to the right and y downwards, as arrays do. Gradients are at pixel centres, per unit of length of the drawing,
and second-order accurate on whole pixels; on pixels cut by the true boundary they are fitted to nearby whole ones.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from disol import _checks as checks
from disol.cases.case import Case
from disol.errors import DisolError
from disol.fem.cut_field import CutField
from disol.fem.cut_forms import Elements, Law
from disol.fem.pixel_field import PixelField
from disol.geometry.pieces import WHOLE
from disol.problems.problem import Problem

# The finite element function of one case at one time: on cut elements, or on pixels.
DiscreteField = CutField | PixelField
Gradients = Float[np.ndarray, "*frames field 2 height width"]
Tensors = Float[np.ndarray, "*frames 3 height width"]  # xx, yy, xy


def read_points(case: Case, points: Any) -> tuple[Float[np.ndarray, " point"], Float[np.ndarray, " point"]]:
    """Read points [point, 2] in the coordinates of a case; return x and y on its grid."""
    read = checks.doubles("points", points)
    if read.ndim != 2 or read.shape[1] != 2:
        raise DisolError(f"points must be an array [point, 2] of x and y, got shape {list(read.shape)}.")
    x, y = case.to_grid(read).T
    return x, y


def gradients(case: Case, fields: Sequence[DiscreteField]) -> Float[np.ndarray, "frame field 2 height width"]:
    """∂_b U_c of each frame at pixel centres, 0 outside the domain."""
    return np.nan_to_num(np.stack([each.gradients() for each in fields])) / case.length


def require_law(problem: Problem, what: str) -> None:
    """Require a problem with a `form`, which says what its gradients mean."""
    if not problem.has_form:
        raise DisolError(f"{problem.name} has no {what}: the problem has no `form` that says which law it follows.")


def law(case: Case, what: str) -> Law:
    """Return C of σ = C ∇U, one for all pixels or one per pixel; `what` names the quantity in errors."""
    require_law(case.problem, what)
    return case.problem.form(case.conventions, case.coefficient_values()).law / case.problem.flux_factor


def flux(case: Case, gradient: Gradients) -> Float[np.ndarray, "*frames 2 height width"]:
    """−κ ∇U."""
    if len(case.problem.fields) > 1:
        raise DisolError(f"{case.problem.name} has no flux: it has {len(case.problem.fields)} fields. Ask for stress.")
    return -_along(law(case, "flux"), gradient)[..., 0, :, :, :]


def strain(case: Case, gradient: Gradients) -> Tensors:
    """ε_xx, ε_yy and ε_xy = ½ (∂_y U_x + ∂_x U_y)."""
    require_displacements(case, "strain")
    return _symmetric(0.5 * (gradient + np.swapaxes(gradient, -4, -3)))


def stress(case: Case, gradient: Gradients) -> Tensors:
    """σ_xx, σ_yy and σ_xy."""
    require_displacements(case, "stress")
    return _symmetric(_along(law(case, "stress"), gradient))


def von_mises(case: Case, stress: Tensors) -> Float[np.ndarray, "*frames height width"]:
    """Combine xx, yy and xy at pixels, with σ_zz, into √(½ Σ (σ_i − σ_j)² + 3 σ_xy²), i and j over xx, yy and zz."""
    ratio = case.problem.out_of_plane(case.conventions, case.coefficient_values())
    xx, yy, xy = np.moveaxis(stress, -3, 0)
    return combine(xx, yy, xy, ratio)


def combine(xx: Any, yy: Any, xy: Any, ratio: Any) -> Float[np.ndarray, "..."]:
    """√(½ Σ (σ_i − σ_j)² + 3 σ_xy²) with σ_zz = ratio · (σ_xx + σ_yy)."""
    zz = ratio * (xx + yy)
    return np.sqrt(0.5 * ((xx - yy) ** 2 + (yy - zz) ** 2 + (zz - xx) ** 2) + 3 * xy**2)


def require_displacements(case: Case, what: str) -> None:
    """Require a problem whose fields are displacements."""
    require_law(case.problem, what)
    if case.problem.out_of_plane(case.conventions, {}) is None:
        raise DisolError(f"{case.problem.name} has no {what}: its fields are not displacements. Ask for flux.")


def energy_matrix(case: Case) -> Float[np.ndarray, "local local"]:
    """∫ C ∇N_i : ∇N_j over one pixel."""
    own, none = law(case, "energy"), np.zeros(1)
    element = Elements(WHOLE.reshape(1, -1), own[None], None, none, none, none, case.grid.h)
    return element.energy()[0].reshape(2 * (4 * own.shape[0],))


def _along(law: Law, gradient: Gradients) -> Float[np.ndarray, "*frames field 2 height width"]:
    """C ∇U."""
    last = np.moveaxis(gradient, (-4, -3), (-2, -1))
    return np.moveaxis(np.einsum("...cadb,...db->...ca", law, last), (-2, -1), (-4, -3))


def _symmetric(tensor: Gradients) -> Tensors:
    return np.stack([tensor[..., row, column, :, :] for row, column in ((0, 0), (1, 1), (0, 1))], axis=-3)
