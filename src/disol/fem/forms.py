"""Weak forms over one pixel: the equations, as element matrices.

Row i is the test function, column j the trial function. With two unknowns per node the order is
(corner, component), component fastest.
"""

from typing import Literal

import numpy as np
from jaxtyping import Float

from disol.fem.elements import Element

Matrix = Float[np.ndarray, "rows columns"]
Velocity = tuple[float, float]


def diffusion(element: Element) -> Matrix:
    """∫ ∇Nᵢ · ∇Nⱼ over one pixel."""
    return element.integrate(lambda at: at.gradients @ at.gradients.T)


def mass(element: Element) -> Matrix:
    """∫ Nᵢ Nⱼ over one pixel."""
    return element.integrate(lambda at: np.outer(at.values, at.values))


def advection(element: Element, velocity: Velocity) -> Matrix:
    """∫ Nᵢ v · ∇Nⱼ over one pixel (non-conservative form)."""
    return element.integrate(lambda at: np.outer(at.values, at.gradients @ np.asarray(velocity)))


def streamline_diffusion(element: Element, velocity: Velocity) -> Matrix:
    """∫ τ (v · ∇Nᵢ)(v · ∇Nⱼ) over one pixel: what SUPG adds to the advection term."""
    along = np.asarray(velocity)
    tau = upwind_time(element, velocity)
    return element.integrate(lambda at: tau * np.outer(at.gradients @ along, at.gradients @ along))


def upwind_time(element: Element, velocity: Velocity) -> float:
    """τ = (2/3) h / |v|."""
    return float(2.0 / 3.0 * element.h / np.hypot(*velocity))


def galerkin_test(element: Element) -> Float[np.ndarray, "point 4"]:
    """wᵢ = Nᵢ at the quadrature points."""
    return element.values


def upwind_test(element: Element, velocity: Velocity) -> Float[np.ndarray, "point 4"]:
    """wᵢ = Nᵢ + τ v · ∇Nᵢ at the quadrature points."""
    return element.values + upwind_time(element, velocity) * (element.gradients @ np.asarray(velocity))


def hooke(young: float, poisson: float, plane: Literal["strain", "stress"]) -> Float[np.ndarray, "3 3"]:
    """Stress of unit strains, σ = C (ε_xx, ε_yy, 2 ε_xy), in plane strain or plane stress."""
    shear = young / (2 * (1 + poisson))
    if plane == "strain":
        first = young * poisson / ((1 + poisson) * (1 - 2 * poisson))
    else:
        first = young * poisson / ((1 + poisson) * (1 - poisson))
    direct = first + 2 * shear
    return np.array([[direct, first, 0.0], [first, direct, 0.0], [0.0, 0.0, shear]])


def elasticity(element: Element, stiffness: Float[np.ndarray, "3 3"]) -> Matrix:
    """∫ ε(Nᵢ) : C : ε(Nⱼ) over one pixel, two components per corner."""

    def strains(gradients: Float[np.ndarray, "4 2"]) -> Float[np.ndarray, "3 8"]:
        strain = np.zeros((3, 4, 2))
        strain[0, :, 0] = strain[2, :, 1] = gradients[:, 0]
        strain[1, :, 1] = strain[2, :, 0] = gradients[:, 1]
        return strain.reshape(3, 8)

    return element.integrate(lambda at: strains(at.gradients).T @ stiffness @ strains(at.gradients))
