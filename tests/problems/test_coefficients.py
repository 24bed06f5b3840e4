"""Coefficients that change from pixel to pixel: closed forms, orders of convergence, another package, refusals."""

from typing import Any

import numpy as np
import pytest
import skfem
from skfem.helpers import grad

import disol
from disol import Case, DisolError
from disol.fem import forms
from disol.problems.heat import HeatProblem

PHYSICAL = {"conventions": "physical"}


def relative(found, expected):
    return np.linalg.norm(found - expected) / np.linalg.norm(expected)


def square(side):
    """The unit square, held all around."""
    ring = np.ones((side, side))
    ring[1:-1, 1:-1] = 0
    return {"domain": np.ones((side, side)), "dirichlet": ring}


def strip(side):
    """A strip over the whole width, held at its left end."""
    domain, held = np.zeros((2, side, side))
    domain[side // 4 : side // 2] = 1
    held[:, 0] = domain[:, 0]
    return {"domain": domain, "dirichlet": held}


def wave(x, y):
    return np.sin(np.pi * x) * np.sin(2 * np.pi * y)


def flux_source(x, y, tensor, velocity=(0.0, 0.0), reaction=0.0, step=1e-4):
    """−div(K ∇U) + v · ∇U + r U of the wave, by differences of the fluxes, which are known."""

    def flux(x, y):
        across = np.pi * np.cos(np.pi * x) * np.sin(2 * np.pi * y)
        down = 2 * np.pi * np.sin(np.pi * x) * np.cos(2 * np.pi * y)
        k = tensor(x, y)
        return (k[0][0] * across + k[0][1] * down, k[1][0] * across + k[1][1] * down), (across, down)

    along_x = (flux(x + step, y)[0][0] - flux(x - step, y)[0][0]) / (2 * step)
    along_y = (flux(x, y + step)[0][1] - flux(x, y - step)[0][1]) / (2 * step)
    slopes = flux(x, y)[1]
    v = velocity(x, y) if callable(velocity) else velocity
    r = reaction(x, y) if callable(reaction) else reaction
    return -along_x - along_y + v[0] * slopes[0] + v[1] * slopes[1] + r * wave(x, y)


def conductivity(x, y):
    return 1 + 0.5 * np.sin(3 * x + y)


def tensor(x, y):
    return (2 + x, 0.5 * y), (0.5 * y, 1 + 0.3 * np.cos(4 * x))


def whirl(x, y):
    return (1 + y, -2 * x)


VARYING = {
    "diffusion": ("poisson", {"diffusion": conductivity}),
    "tensor": ("poisson", {"diffusion": tensor}),
    "reaction": ("poisson", {"diffusion": conductivity, "reaction": lambda x, y: 5 * x}),
    "velocity": ("advection-diffusion-high", {"diffusion": tensor, "velocity": whirl, "reaction": 2.0}),
}


def manufactured(name, side):
    problem, given = VARYING[name]
    k = given["diffusion"]
    law = k if k is tensor else lambda x, y: ((k(x, y), 0 * x), (0 * x, k(x, y)))
    rest = given.get("velocity", (0.0, 0.0)), given.get("reaction", 0.0)
    return disol.solve_exact(
        problem, **square(side), source=lambda x, y: flux_source(x, y, law, *rest), **given, **PHYSICAL
    )


@pytest.mark.parametrize("name", VARYING)
def test_error_falls_fourfold_when_pixels_halve(name):
    errors = []
    for side in (64, 256):
        found = manufactured(name, side)
        x, y = found.case.grid.pixel_centres()
        errors.append(relative(found.field[0], wave(x, y)))
    assert np.log2(errors[0] / errors[1]) / 2 == pytest.approx(2, abs=0.15)
    assert errors[0] < 4e-3


def test_the_distance_to_the_equation_is_that_of_the_function_on_the_finer_grid():
    found = manufactured("tensor", 32)
    true = relative(found.field[0], wave(*found.case.grid.pixel_centres()))
    assert 0.8 * true < found.estimate_distance() < 4 * true


def test_arrays_are_the_same_on_a_finer_grid_and_functions_are_asked_there():
    case = Case.from_arrays(
        "poisson", **square(16), source=1 + 0 * np.ones((16, 16)), diffusion=conductivity, **PHYSICAL
    )
    fine = case.coefficient_values(2)["diffusion"]
    x, y = case.grid.__class__(32, 32).pixel_centres()
    np.testing.assert_allclose(fine, conductivity(x, y))
    steps = Case.from_arrays(case, diffusion=np.arange(1.0, 257).reshape(16, 16))
    fine = steps.coefficient_values(2)["diffusion"]
    assert np.array_equal(fine[::2, 1::2], steps.coefficient_values()["diffusion"])


def test_two_materials_in_a_row_have_the_kinked_solution_of_their_layers():
    """In a strip the solution is quadratic in each material; without a source in the first it is linear there."""
    side = 32
    given = strip(side)
    material, source = np.ones((2, side, side))
    material[:, 12:], source[:, :12] = 5.0, 0.0
    found = disol.solve_exact("poisson", **given, source=source, diffusion=material, **PHYSICAL)
    x = (np.arange(side) + 0.5) / side
    kink = 12 / side
    flux = 1 - kink  # what the source of the second material sends to the left
    rest = x - kink
    second = flux * kink + (flux * rest - rest**2 / 2) / 5
    expected = np.where(x < kink, flux * x, second)
    centre_offset = 1 / (
        8 * side**2 * 5
    )  # nodes are exact in one dimension, and the middle is on the chord of a parabola
    expected = np.where(x < kink, expected, expected - centre_offset)
    row = found.field[0, side // 4 + 2]
    assert np.abs(row - expected).max() < 1e-12
    assert np.abs(found.field[0][found.domain] - np.broadcast_to(row, (side // 4, side)).reshape(-1)).max() < 1e-12


def test_an_inclusion_agrees_with_another_package():
    side = 32
    material = np.ones((side, side))
    material[8:20, 10:24] = 20.0
    tilted = np.array([[1.0, 0.4], [0.4, 2.0]])[:, :, None, None] * material
    mesh = skfem.MeshQuad.init_tensor(*[np.linspace(0, 1, 2 * side + 1)] * 2)
    basis = skfem.Basis(mesh, skfem.ElementQuad2())

    @skfem.BilinearForm
    def stiffness(u, v, w):
        k = material[
            np.minimum((w.x[1] * side).astype(int), side - 1), np.minimum((w.x[0] * side).astype(int), side - 1)
        ]
        (across, down), (a, b) = grad(u), grad(v)
        return k * ((across + 0.4 * down) * a + (0.4 * across + 2 * down) * b) + 3 * u * v

    @skfem.LinearForm
    def load(v, w):
        return (1 + w.x[0]) * v

    solved = skfem.solve(*skfem.condense(stiffness.assemble(basis), load.assemble(basis), D=basis.get_dofs()))
    errors = []
    for factor in (1, 2):
        case = disol.solve_exact(
            "poisson", **square(factor * side), source=lambda x, y: 1 + x, reaction=3.0,
            diffusion=tilted.repeat(factor, axis=2).repeat(factor, axis=3), **PHYSICAL,
        )  # fmt: skip
        x, y = (np.broadcast_to(axis, case.domain.shape).reshape(-1) for axis in case.case.grid.pixel_centres())
        errors.append(relative(case.field[0].reshape(-1), basis.probes(np.stack([x, y])) @ solved))
    assert errors[0] < 1e-2
    assert errors[1] < errors[0] / 2.5


def bar(side=32, **numbers):
    domain, left, right = np.zeros((3, side, side))
    domain[side // 4 : side // 2], left[:, 0], right[:, -1] = 1, 1, 1
    left, right = left * domain, right * domain
    return disol.solve_exact(
        "elasticity", domain=domain, fix_x=left, fix_y=left, force_x=right, force_y=0 * right, **numbers, **PHYSICAL
    )


def test_a_bar_of_two_materials_stretches_by_their_lengths():
    """Each pulls by 1 / E per length, without a Poisson's ratio exactly."""
    young = np.full((32, 32), 10.0)
    young[:, 20:] = 40.0
    x = (np.arange(32) + 0.5) / 32
    expected = np.where(x < 20 / 32, x / 10, 2 / 32 + (x - 20 / 32) / 40)
    found = bar(young=young, poisson_ratio=np.zeros((32, 32)))
    assert np.abs(found.field[0, 8:16] - expected).max() < 1e-12
    assert np.abs(found.field[1]).max() < 1e-12


def test_materials_that_are_the_same_everywhere_are_a_number():
    for numbers in ({"young": 7.0, "poisson_ratio": 0.3}, {"young": 7.0}):
        arrays = {name: np.full((32, 32), value) for name, value in numbers.items()}
        assert relative(bar(**arrays).field, bar(**numbers).field) < 1e-11
    given = square(32) | {"source": lambda x, y: x}
    usual = disol.solve_exact("poisson", **given, diffusion=3.0, **PHYSICAL)
    for same in (np.full((32, 32), 3.0), 3 * np.eye(2), [[3.0, 0.0], [0.0, 3.0]], lambda x, y: 3.0):
        assert relative(disol.solve_exact("poisson", **given, diffusion=same, **PHYSICAL).field, usual.field) < 1e-11
    flow = {"velocity": (0.5, -1.0), "diffusion": 0.01}
    constant = disol.solve_exact("advection-diffusion-high", **given, **flow, **PHYSICAL)
    array = np.stack([np.full((32, 32), 0.5), np.full((32, 32), -1.0)])
    for velocity in (array, lambda x, y: (0.5, -1.0)):
        found = disol.solve_exact("advection-diffusion-high", **given, diffusion=0.01, velocity=velocity, **PHYSICAL)
        assert relative(found.field, constant.field) < 1e-11


def test_heat_of_four_times_the_capacity_takes_four_times_as_long_and_settles_at_the_same():
    given = strip(32) | {"source": strip(32)["domain"], "initial": strip(32)["domain"]}
    materials: dict[str, Any] = {"density": 2.0, "capacity": np.full((32, 32), 2.0)}
    unscaled = {"time_scale": 0.01, "source_strength": 3.0}  # both are 1 where a material is given
    heavy = disol.solve_exact("heat", **given, **materials, **unscaled, times=[8], **PHYSICAL)
    light = disol.solve_exact("heat", **given, times=[2], **PHYSICAL)
    slow = disol.solve_exact("heat", **given, times=[8], time_scale=0.0025, **PHYSICAL)
    assert relative(heavy.field, slow.field) < 1e-11
    assert 1e-9 < relative(heavy.field, light.field) < 1e-3  # steps of another length, of second order
    split = np.ones((32, 32))
    split[:, 16:] = 4.0
    late = disol.solve_exact("heat", **given, conductivity=split, times=[400], **PHYSICAL)
    steady = disol.solve_exact("poisson", **strip(32), source=given["source"], diffusion=split, **PHYSICAL)
    assert relative(late.field[0], steady.field) < 1e-6


def test_a_drawn_case_keeps_its_curves_and_elements_outside_its_mask_have_the_nearest_value():
    case = disol.draw("poisson", 2, 0, resolution=32, **PHYSICAL)
    within = np.where(case.domain, 2.5, 0.0)  # nothing outside of the mask
    found = disol.solve_exact(case, diffusion=within)
    assert found.case.boundary == "true"
    assert relative(found.field, disol.solve_exact(case).field / 2.5) < 1e-11
    assert "own diffusion" in repr(found.case)
    number = disol.solve_exact(found.case, diffusion=5.0)
    assert number.case.coefficients == {}
    assert relative(number.field, found.field / 2) < 1e-11


def test_coefficients_are_saved_and_shown(tmp_path):
    array = np.full((16, 16), 2.0)
    found = disol.solve_exact(
        "poisson", **square(16), source=array, diffusion=array, reaction=lambda x, y: x, **PHYSICAL
    )
    with np.load(found.save(tmp_path / "found.npz")) as file:
        saved = dict(file)
    assert np.array_equal(saved["diffusion"], array)
    assert saved["reaction"][3, 5] == 5.5 / 16
    assert 'Name="reaction"' in found.save(tmp_path / "found.vtu").read_text(errors="replace")
    assert found.case.channel("source").shape == (16, 16)
    assert disol.system(found.case).matrix.shape[0] == 17**2


ONES = np.ones((16, 16))


@pytest.mark.parametrize(
    ("problem", "given", "equation"),
    [
        *((name, {}, problem.equation) for name, problem in disol.PROBLEMS.items()),
        ("poisson", {"diffusion": 45}, "−κ ΔU = f"),
        ("poisson", {"conductivity": lambda x, y: 1 + x, "reaction": 2.0}, "−div(κ ∇U) + r U = f"),
        ("poisson", {"velocity": (1, 0)}, "−ΔU + v · ∇U = f"),
        ("advection-diffusion-high", {"velocity": (0, 0)}, "−κ ΔU = f"),
        ("advection-diffusion-low", {"diffusion": [[2, 0], [0, 1]]}, "−div(κ ∇U) + v · ∇U = f"),
        ("heat", {"source_strength": 1}, "∂U/∂t = s (ΔU + f)"),
        ("heat", {"size": 300}, "∂U/∂t = ΔU + f"),
        ("heat", {"conductivity": 45, "density": 7, "capacity": 460}, "ρ c ∂U/∂t = div(κ ∇U) + f"),
        ("heat", {"capacity": 460, "time_scale": 2}, "c ∂U/∂t = s (ΔU + f)"),
        ("elasticity", {"body_force": (0, 9.81)}, "−div σ(U) = F, σ·n = t"),
    ],
)
def test_the_equation_of_a_case_has_the_numbers_and_coefficients_it_was_given(problem, given, equation):
    case = Case.from_arrays(disol.draw(problem, resolution=16, **PHYSICAL), **given)
    assert case.equation == equation
    assert Case.stack([case, case]).equation == equation


def test_an_equation_that_is_derived_from_another_keeps_its_own_text():
    class Carried(HeatProblem):
        def element_matrix(self, element, conventions):
            return super().element_matrix(element, conventions) + forms.advection(element, (1.0, 0.0))

    assert Carried("carried", "∂U/∂t + v · ∇U = ...", 16).equation_with(()) == "∂U/∂t + v · ∇U = ..."


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"diffusion": 0 * ONES}, "diffusion must be positive on every pixel of the domain, got 0"),
        ({"diffusion": lambda x, y: x - 0.5}, "diffusion must be positive on every pixel"),
        ({"diffusion": np.ones((8, 8))}, r"one value per pixel, shape \[16, 16\] or \[2, 2, 16, 16\]"),
        ({"diffusion": np.nan * ONES}, "diffusion holds NaN or infinite values"),
        ({"diffusion": [[1.0, 0.5], [0.4, 1.0]]}, "diffusion must be a symmetric tensor"),
        ({"diffusion": [[1.0, 2.0], [2.0, 1.0]]}, "diffusion must be a positive definite tensor"),
        ({"diffusion": lambda x: x}, "diffusion must be a function of two arrays x and y, but raised TypeError"),
        ({"diffusion": lambda x, y: np.ones(3)}, "diffusion must return one value per point"),
        ({"diffusion": lambda x, y: np.log(x - 1 + 0j)}, "diffusion must hold real numbers"),
        ({"diffusion": -1.0}, "diffusion must be positive, got -1.0"),
        ({"reaction": -ONES}, "reaction must not be negative, got -1"),
        ({"velocity": [ONES]}, r"velocity must have one value per pixel, shape \[2, 16, 16\]"),
        ({"diffusion": ONES, "conventions": "paper"}, 'Pass conventions="physical"'),
        ({"reaction": 1.0, "conventions": "paper"}, 'Pass conventions="physical"'),
        ({"diffusion": -np.ones((2, 16, 16)), "domain": np.ones((2, 16, 16))}, "Case 0: diffusion must be positive"),
        ({"diffusion": np.ones((3, 16, 16)), "domain": np.ones((2, 16, 16))}, "equally many cases, .* 3 of diffusion"),
        ({"young": ONES}, "poisson has no 'young'. It takes .*velocity, reaction. Pass problem='elasticity', which"),
    ],
)  # fmt: skip
def test_bad_coefficients_are_refused_in_one_line(given, message):
    with pytest.raises(DisolError, match=message) as refused:
        disol.solve_exact("poisson", **({**square(16), "source": ONES} | PHYSICAL | given))
    assert "\n" not in str(refused.value)


def test_ratios_of_poisson_are_refused_where_they_are_out_of_range_and_warned_of_near_one_half():
    with pytest.raises(
        DisolError, match=r"poisson_ratio must lie in \(-1, 0.5\) on every pixel of the domain, got 0.5"
    ):
        bar(poisson_ratio=np.full((32, 32), 0.5))
    with pytest.warns(UserWarning, match="Poisson's ratio is 0.48"):
        bar(poisson_ratio=np.full((32, 32), 0.48))


def test_networks_know_no_coefficients():
    case = Case.from_arrays("poisson", **square(64), source=np.ones((64, 64)), diffusion=np.ones((64, 64)), **PHYSICAL)
    for asked in (case, [case, case]):
        with pytest.raises(DisolError, match="Neither networks nor pixels take a case's own diffusion"):
            disol.load("poisson").predict(asked)


def test_a_formula_may_be_wrong_beside_the_domain_but_not_in_it():
    square = {"outer": [[0, 0], [9, 0], [9, 9], [0, 9]]}
    case = disol.read_case("poisson", square, dirichlet="left=0,right=1", conductivity="2 + 0*sqrt(x)", resolution=16)
    assert disol.solve_exact(case).total_flux("right") == pytest.approx(2)
    with pytest.raises(DisolError, match="diffusion must be positive on every pixel of the domain, got"):
        disol.read_case("poisson", square, dirichlet="left=0,right=1", conductivity="x - 1")


def test_a_single_number_is_no_vector():
    with pytest.raises(DisolError, match=r"body_force must be two numbers, \(along x, along y\), got 9.81"):
        disol.solve_exact("elasticity", domain=np.ones((16, 16)), fix_x={"left": 0}, body_force=9.81)


@pytest.mark.parametrize(
    "velocity",
    [
        "maximum(y, 0.5*x), -x",
        ("maximum(y, 0.5*x)", "-x"),
        (lambda x, y: np.maximum(y, 0.5 * x), "-x"),
        [lambda x, y: np.maximum(y, 0.5 * x), lambda x, y: -x],
    ],
)
def test_components_may_be_given_one_by_one(velocity):
    expected = disol.solve_exact(
        "poisson",
        **square(16),
        source=1,
        velocity=lambda x, y: (np.maximum(y, 0.5 * x), -x),
        diffusion=[[2, 1], [1, 3]],
    )
    tensor = [["2", lambda x, y: 1.0], ["1 + 0*x", 3]]
    found = disol.solve_exact("poisson", **square(16), source=1, velocity=velocity, diffusion=tensor)
    assert found.field == pytest.approx(expected.field, abs=1e-13)


def test_a_body_force_may_be_a_number_and_a_formula_in_units_of_the_drawing():
    plate = {"outer": [[0, 0], [200, 0], [200, 100], [0, 100]]}
    held = {"fix_x": "left", "fix_y": "left", "resolution": 16}
    written, coded = (
        disol.solve_exact(disol.read_case("elasticity", plate, **held, body_force=force))
        for force in ("0, 9.81*x", lambda x, y: (0, 9.81 * x))
    )
    assert (written.field == coded.field).all()
    assert written.reactions()["fix_y on left"][1] == pytest.approx(-9.81 * 100 * 200**2 / 2)
