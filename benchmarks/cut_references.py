"""Problems on curved domains with known solutions, with which cut elements are compared."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.special import j0, jn_zeros

from disol.fem.cut_field import CutField
from disol.fem.cut_forms import Form, diffusive, elastic
from disol.fem.cut_system import FIRST, GAMMA, Sources, discretise
from disol.fem.nitsche import Condition, Dirichlet, Neumann, Robin
from disol.geometry.region import Arc, Region
from disol.grid import Grid

Points = Float[np.ndarray, "..."]

CENTRE = (0.503, 0.4971)
INNER, OUTER, DISC = 0.153, 0.413, 0.37
STAR_CENTRE, STAR = (0.505, 0.492), 0.32
VERTICES = 4000
STEP, STEPS, TIME_SCALE = 0.5, 20, 0.01


@dataclass(frozen=True, eq=False)
class Reference:
    """A problem and its solution.

    at_64   relative L2 error at pixel centres as once measured on a 64 grid
    steps   number of time steps from `initial`, 0 for a steady problem
    """

    name: str
    region: Region
    form: Form
    conditions: Sequence[Condition]
    source: Sources
    exact: Callable[[Points, Points], Points]
    at_64: float
    steps: int = 0
    initial: Sources = None

    def solve(self, side: int) -> CutField:
        """Solve on a grid."""
        system = discretise(self.region, Grid(side, side), self.form, self.conditions, self.source)
        if not self.steps:
            return system.solve()
        *_, last = system.march(self.initial, STEP, self.steps)
        return last

    def error(self, side: int) -> float:
        """‖u_h − u‖ / ‖u‖ over the pixel centres in the domain."""
        found = self.solve(side).pixels()
        exact = np.broadcast_to(self.exact(*Grid(side, side).pixel_centres()), found.shape)
        inside = ~np.isnan(found)
        return float(np.linalg.norm((found - exact)[inside]) / np.linalg.norm(exact[inside]))


def damping(z: float) -> float:
    """Return the amplification factor of one step of SDIRK2 for u' = −z u."""
    return (1 - (1 - 2 * GAMMA) * z) / (1 + GAMMA * z) ** 2


def circle(radius: float) -> Float[np.ndarray, "point 2"]:
    """Return a circle as a polygon with very many vertices."""
    angles = 2 * np.pi * np.arange(VERTICES) / VERTICES
    return np.stack([CENTRE[0] + radius * np.cos(angles), CENTRE[1] + radius * np.sin(angles)], axis=1)


def radius(x: Points, y: Points) -> Points:
    """Return the distance to the centre of the circles."""
    return np.hypot(x - CENTRE[0], y - CENTRE[1])


def level(x: Points, y: Points) -> tuple[Points, Points, Points]:
    """ψ = 1 − s² + 0.17 s⁵ cos 5t and its gradient, s = r / 0.32; the last term is harmonic."""
    z = ((x - STAR_CENTRE[0]) + 1j * (y - STAR_CENTRE[1])) / STAR
    slope = -2 * z.conjugate() + 0.85 * z**4  # of the complex derivative: ∂x ψ − i ∂y ψ
    return 1 - np.abs(z) ** 2 + 0.17 * (z**5).real, slope.real / STAR, -slope.imag / STAR


def star() -> Float[np.ndarray, "point 2"]:
    """Return the curve ψ = 0, by Newton's method along rays."""
    angles = 2 * np.pi * np.arange(VERTICES) / VERTICES
    s = np.ones(VERTICES)
    for _ in range(30):
        s -= (1 - s**2 + 0.17 * s**5 * np.cos(5 * angles)) / (-2 * s + 0.85 * s**4 * np.cos(5 * angles))
    return np.stack([STAR_CENTRE[0] + STAR * s * np.cos(angles), STAR_CENTRE[1] + STAR * s * np.sin(angles)], axis=1)


ANNULUS = Region.from_polygons([circle(OUTER), circle(INNER)])
ROUND = Region.from_polygons([circle(DISC)])
STARRY = Region.from_polygons([star()])


def poisson_annulus() -> Reference:
    """Let u = sin k (r − a): 0 on the hole, no flux outside."""
    k = np.pi / 2 / (OUTER - INNER)

    def source(x: Points, y: Points) -> Points:
        r = radius(x, y)
        return k * k * np.sin(k * (r - INNER)) - k * np.cos(k * (r - INNER)) / r

    def exact(x: Points, y: Points) -> Points:
        return np.sin(k * (radius(x, y) - INNER))

    return Reference("Poisson, annulus", ANNULUS, Form(diffusive(1.0)), [Dirichlet(Arc(1))], source, exact, 1.2e-3)


def poisson_disc() -> Reference:
    """Let u = cos k r."""
    k = np.pi / 2 / DISC

    def source(x: Points, y: Points) -> Points:
        r = np.maximum(radius(x, y), 1e-12)
        return k * k * np.cos(k * r) + k * np.sin(k * r) / r

    def exact(x: Points, y: Points) -> Points:
        return np.cos(k * radius(x, y))

    return Reference("Poisson, disc", ROUND, Form(diffusive(1.0)), [Dirichlet(Arc(0))], source, exact, 9.2e-4)


def heat_disc() -> Reference:
    """Let u = R(δ s λ)ⁿ J₀(√λ r), with the amplification factor R of SDIRK2: the time-discrete solution."""
    root = float(jn_zeros(0, 1)[0]) / DISC

    def initial(x: Points, y: Points) -> Points:
        return j0(root * radius(x, y))

    def exact(x: Points, y: Points) -> Points:
        z = STEP * TIME_SCALE * root**2
        return initial(x, y) * damping(z) ** (STEPS - 1) * damping(z / FIRST) ** FIRST

    form, held = Form(diffusive(TIME_SCALE)), [Dirichlet(Arc(0))]
    return Reference("heat, disc", ROUND, form, held, None, exact, 3.0e-3, steps=STEPS, initial=initial)


def advection_star(upwind: bool = False) -> Reference:
    """Let u = ψ (1 + ½ sin(3x + y)), κ = 0.2, v = (0.5, −1)."""
    conductivity, velocity = 0.2, (0.5, -1.0)

    def exact(x: Points, y: Points) -> Points:
        return level(x, y)[0] * (1 + 0.5 * np.sin(3 * x + y))

    def source(x: Points, y: Points) -> Points:
        psi, psi_x, psi_y = level(x, y)
        wave, slope = np.sin(3 * x + y), 0.5 * np.cos(3 * x + y)
        factor = 1 + 0.5 * wave
        laplacian = -4 / STAR**2 * factor + 2 * slope * (3 * psi_x + psi_y) - 5 * psi * wave
        u_x, u_y = psi_x * factor + 3 * psi * slope, psi_y * factor + psi * slope
        return -conductivity * laplacian + velocity[0] * u_x + velocity[1] * u_y

    form = Form(diffusive(conductivity), velocity=velocity, upwind=upwind)
    name = "advection-diffusion, star" + (", SUPG" if upwind else "")
    return Reference(name, STARRY, form, [Dirichlet(Arc(0))], source, exact, 1.6e-3)


def values_and_fluxes_star() -> Reference:
    """Let u = sin(4x + 1) cos 3y, r = 2: Dirichlet, Neumann and Robin conditions on a third of the star each."""
    reaction, coefficient = 2.0, 3.0

    def exact(x: Points, y: Points) -> Points:
        return np.sin(4 * x + 1) * np.cos(3 * y)

    def flux(x: Points, y: Points, nx: Points, ny: Points) -> Points:
        return 4 * np.cos(4 * x + 1) * np.cos(3 * y) * nx - 3 * np.sin(4 * x + 1) * np.sin(3 * y) * ny

    conditions: list[Condition] = [
        Dirichlet(Arc(0, 0.9, 1.25), exact),
        Neumann(Arc(0, 0.25, 0.6), flux),
        Robin(
            Arc(0, 0.6, 0.9), coefficient, lambda x, y, nx, ny: exact(x, y) + flux(x, y, nx, ny) / coefficient
        ),
    ]  # fmt: skip

    def source(x: Points, y: Points) -> Points:
        return (25 + reaction) * exact(x, y)

    form = Form(diffusive(1.0), reaction=reaction)
    return Reference("values, fluxes and exchange, star", STARRY, form, conditions, source, exact, 4.8e-4)


def cylinder(ratio: float = 0.3) -> Reference:
    """Thick-walled cylinder in plane strain, unit pressure in the hole, held on the outside: u_r = A r + B / r."""
    young = 1000.0
    first, shear = young * ratio / ((1 + ratio) * (1 - 2 * ratio)), young / (2 * (1 + ratio))
    a, b = np.linalg.solve([[OUTER, 1 / OUTER], [2 * (first + shear), -2 * shear / INNER**2]], [0.0, -1.0])

    def exact(x: Points, y: Points) -> Points:
        r = radius(x, y)
        stretch = a + b / r**2
        return np.stack([stretch * (x - CENTRE[0]), stretch * (y - CENTRE[1])])

    def pressure(x: Points, y: Points, nx: Points, ny: Points) -> tuple[Points, Points]:
        del x, y
        return -nx, -ny

    conditions: list[Condition] = [Dirichlet(Arc(0)), Neumann(Arc(1), pressure)]
    form = Form(elastic(young, ratio, "strain"))
    return Reference("thick-walled cylinder", ANNULUS, form, conditions, None, exact, 1.2e-3)


def elastic_star() -> Reference:
    """U = (sin(4x + 1) cos 3y, cos 2x sin(3y + 1)) in plane stress: values on an arc, traction on the rest."""
    law = elastic(1000.0, 0.3, "stress")
    first, shear = law[0, 0, 1, 1], law[0, 1, 0, 1]

    def exact(x: Points, y: Points) -> Points:
        return np.stack(np.broadcast_arrays(np.sin(4 * x + 1) * np.cos(3 * y), np.cos(2 * x) * np.sin(3 * y + 1)))

    def gradient(x: Points, y: Points) -> Points:
        return np.array(
            [
                [4 * np.cos(4 * x + 1) * np.cos(3 * y), -3 * np.sin(4 * x + 1) * np.sin(3 * y)],
                [-2 * np.sin(2 * x) * np.sin(3 * y + 1), 3 * np.cos(2 * x) * np.cos(3 * y + 1)],
            ]
        )

    def traction(x: Points, y: Points, nx: Points, ny: Points) -> Sequence[Points]:
        return list(np.einsum("cadb,db...,a...->c...", law, gradient(x, y), np.stack([nx, ny])))

    # −div σ = −μ ΔU − (λ + μ) ∇ div U
    def along_x(x: Points, y: Points) -> Points:
        div_x = -16 * np.sin(4 * x + 1) * np.cos(3 * y) - 6 * np.sin(2 * x) * np.cos(3 * y + 1)
        return 25 * shear * exact(x, y)[0] - (first + shear) * div_x

    def along_y(x: Points, y: Points) -> Points:
        div_y = -12 * np.cos(4 * x + 1) * np.sin(3 * y) - 9 * np.cos(2 * x) * np.sin(3 * y + 1)
        return 13 * shear * exact(x, y)[1] - (first + shear) * div_y

    values = Dirichlet(Arc(0, 0.8, 1.2), lambda x, y: tuple(exact(x, y)))
    conditions: list[Condition] = [values, Neumann(Arc(0, 0.2, 0.8), traction)]
    forces = (along_x, along_y)
    return Reference("elasticity, star, values and traction", STARRY, Form(law), conditions, forces, exact, 4.0e-4)


REFERENCES = [
    poisson_annulus(),
    poisson_disc(),
    heat_disc(),
    advection_star(),
    advection_star(upwind=True),
    values_and_fluxes_star(),
    cylinder(),
    elastic_star(),
]
