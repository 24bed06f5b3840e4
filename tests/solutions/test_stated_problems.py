"""Problems as users state them on the true boundary: closed forms, manufactured solutions, and another package."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import skfem
from skfem.helpers import ddot, sym_grad, trace

import disol
from disol.problems.conventions import PHYSICAL

Field = Callable[[Any, Any], Any]


def solve(problem: str, domain: np.ndarray, **data: Any) -> disol.Solution:
    return disol.solve_exact(problem, domain=domain, **({"conventions": "physical"} | data))


def box(side: int, rows: tuple[float, float], columns: tuple[float, float]) -> np.ndarray:
    """A rectangle in the unit square, from one fraction of its sides to another."""
    domain = np.zeros((side, side))
    (top, bottom), (left, right) = ([round(side * end) for end in ends] for ends in (rows, columns))
    domain[top:bottom, left:right] = 1
    return domain


def plate(side: int) -> np.ndarray:
    """A square with a square hole."""
    return box(side, (1 / 8, 7 / 8), (1 / 8, 7 / 8)) - box(side, (3 / 8, 5 / 8), (3 / 8, 5 / 8))


def distance(found: disol.Solution, exact: Field) -> float:
    """‖u − U‖ / ‖U‖ over pixel centres of the domain."""
    x, y = (np.broadcast_to(axis, found.domain.shape)[found.domain] for axis in found.case.grid.pixel_centres())
    expected = np.broadcast_to(exact(x, y), (len(found.fields), len(x)))
    return float(np.linalg.norm(found.field[..., found.domain] - expected) / np.linalg.norm(expected))


def order(solved: Callable[[int], disol.Solution], exact: Field, sides: tuple[int, int] = (64, 128)) -> float:
    """By which power of the pixel size the error falls."""
    coarse, fine = (distance(solved(side), exact) for side in sides)
    return float(np.log(coarse / fine) / np.log(sides[1] / sides[0]))


def wave(x: Any, y: Any) -> Any:
    return np.sin(2 * x + y) + x * y


def slope(x: Any, y: Any) -> tuple[Any, Any]:
    return 2 * np.cos(2 * x + y) + y, np.cos(2 * x + y) + x


def smooth(x: Any, y: Any) -> Any:
    return 1 + 0.5 * np.sin(3 * x + y)


def tilted(x: Any, y: Any) -> Any:
    return (2 + x, 0.5 * y), (0.5 * y, 1.5 + 0 * x)


EQUATIONS: dict[str, dict[str, Any]] = {
    "a number": {"diffusion": 2.0},
    "a tensor": {"diffusion": [[2.0, 0.5], [0.5, 1.0]]},
    "a function and a reaction": {"diffusion": smooth, "reaction": lambda x, y: 5 * x},
    "a tensor that changes, and a flow": {"diffusion": tilted, "velocity": lambda x, y: (1 + y, -2 * x)},
}


@pytest.mark.parametrize("name", EQUATIONS)
def test_values_fluxes_and_exchange_together_converge_with_order_two(name: str) -> None:
    numbers = EQUATIONS[name]

    def flux(x: Any, y: Any) -> tuple[Any, Any]:
        law: Any = numbers["diffusion"](x, y) if callable(numbers["diffusion"]) else numbers["diffusion"]
        k = law if isinstance(law, list | tuple) else ((law, 0 * x), (0 * x, law))
        across, down = slope(x, y)
        return k[0][0] * across + k[0][1] * down, k[1][0] * across + k[1][1] * down

    def source(x: Any, y: Any, step: float = 1e-4) -> Any:
        spread = flux(x + step, y)[0] - flux(x - step, y)[0] + flux(x, y + step)[1] - flux(x, y - step)[1]
        velocity = numbers.get("velocity", lambda x, y: (0, 0))(x, y)
        reaction = numbers.get("reaction", lambda x, y: 0)(x, y)
        carried = velocity[0] * slope(x, y)[0] + velocity[1] * slope(x, y)[1]
        return carried + reaction * wave(x, y) - spread / (2 * step)

    def into_hole(x: Any, y: Any) -> Any:
        """n · K ∇U on the sides of the hole; n points into it."""
        across, down = flux(x, y)
        is_upright = np.abs(x - 0.5) > np.abs(y - 0.5)
        return np.where(is_upright, -np.sign(x - 0.5) * across, -np.sign(y - 0.5) * down)

    def solved(side: int) -> disol.Solution:
        stated: dict[str, Any] = {
            "dirichlet": {"left": wave, "bottom": "sin(2*x + y) + x*y"},
            "flux": {"right": lambda x, y: flux(x, y)[0], "hole1": into_hole},
            "convection": {"top": (3, lambda x, y: wave(x, y) - flux(x, y)[1] / 3)},
        }
        problem = "advection-diffusion-low" if "velocity" in numbers else "poisson"
        return solve(problem, plate(side), source=source, **stated, **numbers)

    assert order(solved, wave) == pytest.approx(2, abs=0.2)
    assert distance(solved(32), wave) < 1e-3


def test_what_is_used_up_on_its_way_falls_like_a_hyperbolic_cosine() -> None:
    # κ U″ = r U, U = 1 at the left end, nothing flows through the right one.
    m, start, end = 6.0, 0.25, 0.75

    def solved(side: int) -> disol.Solution:
        domain = box(side, (0.25, 0.5), (start, end))
        return solve("poisson", domain, dirichlet={"left": 1}, diffusion=0.5, reaction=0.5 * m**2)

    def exact(x: Any, y: Any) -> Any:
        return np.cosh(m * (end - x)) / np.cosh(m * (end - start))

    assert order(solved, exact) == pytest.approx(2, abs=0.2)
    assert distance(solved(64), exact) < 1e-3


def test_what_a_flow_carries_against_diffusion_is_exponential() -> None:
    # v U′ = κ U″ between two values.
    rate, start, end = 8.0, 0.25, 0.75

    def solved(side: int) -> disol.Solution:
        domain = box(side, (0.25, 0.5), (start, end))
        flow: dict[str, Any] = {"diffusion": 0.1, "velocity": (0.1 * rate, 0.0)}
        return solve("advection-diffusion-high", domain, dirichlet={"left": 1, "right": 3}, **flow)

    def exact(x: Any, y: Any) -> Any:
        return 1 + 2 * np.expm1(rate * (x - start)) / np.expm1(rate * (end - start))

    assert order(solved, exact) == pytest.approx(2, abs=0.2)
    assert distance(solved(64), exact) < 1e-3


def test_a_wall_of_two_materials_resists_as_their_resistances_add_up() -> None:
    # κ U′ is one number q, U_out − U = q / h outside: U is linear in each layer, and found exactly.
    side, start, kink, end = 32, 8, 14, 24
    material = np.ones((side, side))
    material[:, kink:] = 5.0
    found = solve(
        "poisson",
        box(side, (0.25, 0.5), (start / side, end / side)),
        dirichlet={"left": 20},
        convection={"right": (4, 80)},
        diffusion=material,
    )
    q = 60 / ((kink - start) / side + (end - kink) / (5 * side) + 1 / 4)

    def exact(x: Any, y: Any) -> Any:
        return 20 + q * np.where(x < kink / side, x - start / side, (kink - start + (side * x - kink) / 5) / side)

    assert distance(found, exact) < 1e-12


def fin(side: int, base: Any, half: float, h: float) -> disol.Solution:
    """A fin that stands out to the right, loses heat along its sides to what has U = 0, and none at its tip."""
    domain = box(side, (0.5 - half, 0.5 + half), (1 / 8, 7 / 8))
    return solve("poisson", domain, dirichlet={"left": base}, convection={"top": (h, 0), "bottom": (h, 0)})


def test_a_fin_that_is_warm_like_a_cosine_cools_with_order_two() -> None:
    # U = cos(λ (y − ½)) cosh(λ (L − x)) / cosh(λ L), h = λ tan(λ b) for the half thickness b.
    rate, half, length = 4.0, 1 / 8, 3 / 4
    h = float(rate * np.tan(rate * half))

    def exact(x: Any, y: Any) -> Any:
        return np.cos(rate * (y - 0.5)) * np.cosh(rate * (7 / 8 - x)) / np.cosh(rate * length)

    assert order(lambda side: fin(side, exact, half, h), exact) == pytest.approx(2, abs=0.2)


def test_the_heat_that_a_thin_fin_takes_is_a_hyperbolic_tangent() -> None:
    # Q = √(2 h κ t) tanh(m L), m = √(2 h / (κ t)), up to the Biot number h b / κ, which is 0.3 % here.
    half, h, length = 1 / 16, 0.05, 3 / 4
    found = fin(64, 1.0, half, h)
    m = np.sqrt(h / half)
    assert found.total_flux("left") == pytest.approx(2 * h / m * np.tanh(m * length), rel=3e-3)
    x, _ = found.case.grid.pixel_centres()
    along = np.cosh(m * (7 / 8 - x)) / np.cosh(m * length)
    assert found.field[0, 31, 8:56] == pytest.approx(along.reshape(-1)[8:56], rel=3e-3)


def test_heat_between_two_values_settles_like_its_first_wave() -> None:
    # U = 1 + 2 (x − a) / L + sin(π (x − a) / L) exp(−s (π / L)² t)
    start, length, time, scale = 0.25, 0.5, 4.0, 0.01

    def at(t: float) -> Field:
        decay = np.exp(-scale * (np.pi / length) ** 2 * t)
        return lambda x, y: 1 + 2 * (x - start) / length + decay * np.sin(np.pi * (x - start) / length)

    def solved(side: int) -> disol.Solution:
        # Steps shrink with the pixels, both of second order.
        steps: dict[str, Any] = {"steps_per_frame": side // 16, "times": [time], "time_scale": scale}
        domain = box(side, (0.25, 0.5), (start, start + length))
        return solve("heat", domain, dirichlet={"left": 1, "right": 3}, initial=at(0.0), **steps)

    assert order(solved, at(time)) == pytest.approx(2, abs=0.2)


def gentle(x: Any, y: Any) -> Any:
    """U = ∇φ, φ = e^{3x} cos 3y / 9: neither its divergence nor its Laplacian is other than 0, so no load is needed."""
    return np.stack([np.exp(3 * x) * np.cos(3 * y), -np.exp(3 * x) * np.sin(3 * y)]) / 3


def pull(x: Any, y: Any, shear: float = 1e3 / 2.6) -> tuple[Any, Any, Any]:
    """σ = 2 μ ∇∇φ: σ_xx, σ_xy, σ_yy."""
    straight, across = np.exp(3 * x) * np.cos(3 * y), -np.exp(3 * x) * np.sin(3 * y)
    return 2 * shear * straight, 2 * shear * across, -2 * shear * straight


def test_displacements_that_are_prescribed_all_around_converge_with_order_two() -> None:
    def solved(side: int) -> disol.Solution:
        held: dict[str, Any] = {"fix_x": {"outer": lambda x, y: gentle(x, y)[0]}}
        held |= {"fix_y": {"outer": lambda x, y: gentle(x, y)[1]}}
        return solve("elasticity", box(side, (1 / 8, 7 / 8), (1 / 8, 7 / 8)), **held)

    assert order(solved, gentle) == pytest.approx(2, abs=0.2)


def test_one_component_prescribed_and_the_other_pulled_converge_with_order_two() -> None:
    def solved(side: int) -> disol.Solution:
        stated: dict[str, Any] = {
            "fix_x": {name: lambda x, y: gentle(x, y)[0] for name in ("left", "right")},
            "force_y": {"left": lambda x, y: -pull(x, y)[1], "right": lambda x, y: pull(x, y)[1]},
            "fix_y": {"top": lambda x, y: gentle(x, y)[1]},
        }
        stated["force_x"] = {"top": lambda x, y: -pull(x, y)[1], "bottom": lambda x, y: pull(x, y)[1]}
        stated["force_y"]["bottom"] = lambda x, y: pull(x, y)[2]
        return solve("elasticity", box(side, (1 / 8, 7 / 8), (1 / 8, 7 / 8)), **stated)

    assert order(solved, gentle) == pytest.approx(2, abs=0.2)


def test_a_bar_that_softens_along_its_length_converges_with_order_two() -> None:
    # E U′ = t without a Poisson's ratio, E = 1 / (1 + 4 x²).
    start, t = 0.25, 3.0

    def solved(side: int) -> disol.Solution:
        stated: dict[str, Any] = {"fix_x": {"left": 0}, "fix_y": {"left": 0}, "force_x": {"right": t}}
        material = {"young": lambda x, y: 1 / (1 + 4 * x**2), "poisson_ratio": 0.0}
        return solve("elasticity", box(side, (0.25, 0.5), (start, 0.75)), **stated, **material)

    def exact(x: Any, y: Any) -> Any:
        return np.stack([t * (x - start + 4 * (x**3 - start**3) / 3), 0 * x])

    assert order(solved, exact) == pytest.approx(2, abs=0.2)


@pytest.mark.parametrize(("plane", "along", "across"), [("strain", 0.91, 0.39), ("stress", 1.0, 0.3)])
def test_a_bar_that_slides_stretches_and_thins_as_its_plane_says(plane: Any, along: float, across: float) -> None:
    # ε_xx = t (1 − ν²) / E and ε_yy = −t ν (1 + ν) / E in plane strain, t / E and −t ν / E in plane stress.
    stated: dict[str, Any] = {"fix_x": {"left": 0}, "fix_y": {"bottom": 0}, "force_x": {"right": 2}}
    domain = box(32, (0.25, 0.5), (0.25, 0.75))
    found = solve("elasticity", domain, conventions=replace(PHYSICAL, plane=plane), poisson_ratio=0.3, **stated)
    expected = 2 / 1e3
    assert distance(found, lambda x, y: expected * np.stack([along * (x - 0.25), across * (0.5 - y)])) < 1e-10


def test_an_elastic_inclusion_under_a_pull_that_grows_agrees_with_another_package() -> None:
    side = 32
    young, ratio = np.full((side, side), 10.0), np.full((side, side), 0.3)
    young[8:20, 10:24], ratio[8:20, 10:24] = 80.0, 0.2
    mesh = skfem.MeshQuad.init_tensor(*[np.linspace(0, 1, side + 1)] * 2)
    basis = skfem.Basis(mesh, skfem.ElementVector(skfem.ElementQuad2()))

    @skfem.BilinearForm
    def stiffness(u: Any, v: Any, w: Any) -> Any:
        row, column = (np.minimum((side * axis).astype(int), side - 1) for axis in (w.x[1], w.x[0]))
        e, nu = young[row, column], ratio[row, column]
        one, other = sym_grad(u), sym_grad(v)
        volume = e * nu / ((1 + nu) * (1 - 2 * nu)) * trace(one) * trace(other)
        return volume + e / (1 + nu) * ddot(one, other)

    right = mesh.facets_satisfying(lambda x: x[0] == 1.0, boundaries_only=True)
    load = skfem.LinearForm(lambda v, w: 2 * w.x[1] * v[0] + v[1]).assemble(basis.boundary(right))
    left = basis.get_dofs(lambda x: x[0] == 0.0)
    reference = skfem.solve(*skfem.condense(stiffness.assemble(basis), load, D=left))
    stated: dict[str, Any] = {"fix_x": {"left": 0}, "fix_y": {"left": 0}}
    stated |= {"force_x": {"right": "2*y"}, "force_y": {"right": 1}}
    errors = []
    for factor in (1, 2):
        material = {"young": young, "poisson_ratio": ratio}
        finer = {name: value.repeat(factor, axis=0).repeat(factor, axis=1) for name, value in material.items()}
        found = solve("elasticity", np.ones((factor * side, factor * side)), **stated, **finer)

        def theirs(x: Any, y: Any) -> Any:
            return (basis.probes(np.stack([x, y])) @ reference).reshape(2, -1)

        errors.append(distance(found, theirs))
    assert errors[0] < 1e-2
    assert errors[1] < errors[0] / 2.5
