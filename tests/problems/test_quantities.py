"""Values, gradients, fluxes and stresses of solutions are those of closed forms; totals balance."""

import json

import numpy as np
import pytest

import disol
from disol import DisolError, Solution
from disol.geometry.curve import Curve, Geometry
from disol.problems.conditions import Stated
from disol.problems.true_boundary import state

PHYSICAL = {"conventions": "physical"}
INNER, OUTER, CENTRE = 0.2, 0.45, np.array([0.503, 0.497])


def rectangle(side=32):
    mask = np.zeros((side, side))
    mask[side // 4 : 3 * side // 4, side // 8 : 7 * side // 8] = 1
    return mask


def written(folder, loops):
    """Write polygons to a file that `read_case` reads."""
    path = folder / "outline.json"
    outer, *holes = ([point.tolist() for point in loop] for loop in loops)
    path.write_text(json.dumps({"outer": outer, "holes": holes}))
    return path


def circle(radius, count=1500):
    angle = 2 * np.pi * np.arange(count) / count
    return CENTRE + radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)


def annulus(folder, problem, side, **terms):
    path = written(folder, [circle(OUTER), circle(INNER)])
    return disol.read_case(problem, path, resolution=side, **terms, **PHYSICAL)


def polar(case):
    """Radius and direction of pixel centres."""
    x, y = case.grid.pixel_centres()
    radius = np.hypot(x - CENTRE[0], y - CENTRE[1])
    return radius, (x - CENTRE[0]) / radius, (y - CENTRE[1]) / radius


def test_a_linear_field_is_met_at_every_point_of_the_closed_domain_and_nowhere_else():
    linear = disol.solve_exact("poisson", domain=rectangle(), dirichlet={"outer": "2*x - 3*y + 1"}, **PHYSICAL)
    points = np.random.default_rng(0).uniform([0.125, 0.25], [0.875, 0.75], (200, 2))
    corners = np.array([[0.125, 0.25], [0.875, 0.25], [0.875, 0.75], [0.125, 0.75], [0.875, 0.4]])
    for inside in (points, corners):
        assert linear.at(inside)[0] == pytest.approx(2 * inside[:, 0] - 3 * inside[:, 1] + 1, abs=1e-12)
    assert np.isnan(linear.at([[0.1, 0.5], [0.88, 0.5], [2.0, -1.0]])).all()
    assert linear.gradient[0][:, linear.domain] == pytest.approx(np.array([[2.0], [-3.0]]) * np.ones(384), abs=1e-10)
    assert (linear.gradient[0][:, ~linear.domain] == 0).all()


def test_points_of_a_curved_domain_have_the_values_of_its_pixels():
    solution = disol.solve_exact(disol.draw("poisson", 4, **PHYSICAL))
    x, y = np.meshgrid(*(axis.reshape(-1) for axis in solution.case.grid.pixel_centres()))
    found = solution.at(np.stack([x[solution.domain], y[solution.domain]], axis=1))
    assert found[0] == pytest.approx(solution.field[0][solution.domain], abs=1e-14)
    on_curve = solution.case.region.loops[0].points
    assert np.isfinite(solution.at(on_curve)).all()


@pytest.mark.parametrize("conventions", ["paper", "published"])
def test_pixels_and_their_nodes_are_met_by_points(conventions):
    exact = disol.solve_exact(disol.draw("elasticity", 1, resolution=32, conventions=conventions))
    predicted = Solution(exact.case, exact.field, exact.amplitude)
    x, y = np.meshgrid(*(axis.reshape(-1) for axis in exact.case.grid.pixel_centres()))
    centres = np.stack([x[exact.domain], y[exact.domain]], axis=1)
    assert exact.at(centres) == pytest.approx(exact.field[:, exact.domain], abs=1e-14)
    rows, columns = np.nonzero(exact.domain)
    corner = np.stack([columns[-1] + 1, rows[-1] + 1]) / 32  # of the last pixel, on the boundary
    assert exact.at(corner[None])[:, 0] == pytest.approx(exact.nodes[:, rows[-1] + 1, columns[-1] + 1])
    assert np.isnan(exact.at([[-0.1, 0.5], [0.5, 1.2]])).all()
    inner = exact.domain & (exact.field[0] != 0)
    assert np.isfinite(predicted.at(centres)).all()
    assert relative(predicted.stress[:, inner], exact.stress[:, inner]) < 0.35  # smoothed twice


def relative(found, expected):
    return np.linalg.norm(found - expected) / np.linalg.norm(expected)


@pytest.mark.parametrize("per_pixel", [False, True])
def test_the_flux_of_a_linear_solution_is_exact_also_of_tensors_per_pixel(per_pixel):
    tensor = np.array([[2.0, 0.5], [0.5, 1.0]])
    given = tensor[:, :, None, None] * np.ones((32, 32)) if per_pixel else tensor
    values = {"dirichlet": {"outer": "3*x - y"}, "diffusion": given}
    solution = disol.solve_exact("poisson", domain=rectangle(), **values, **PHYSICAL)
    expected = -tensor @ [3.0, -1.0]
    assert solution.flux[:, solution.domain] == pytest.approx(expected[:, None] * np.ones(384), abs=1e-10)
    assert solution.total_flux("right") == pytest.approx(-expected[0] * 0.5)
    assert solution.total_flux("outer:0.1-0.6") + solution.total_flux("outer:0.6-0.1") == pytest.approx(0, abs=1e-11)


def test_uniaxial_tension_is_uniform_and_in_balance():
    traction, young, ratio = 2.0, 100.0, 0.3
    bar = disol.solve_exact(
        "elasticity",
        domain=rectangle(),
        fix_x={"left": 0},
        fix_y={"bottom": 0},
        force_x={"right": traction},
        young=young,
        poisson_ratio=ratio,
        **PHYSICAL,
    )
    inside = bar.domain
    assert bar.stress[:, inside] == pytest.approx(np.array([[traction], [0.0], [0.0]]) * np.ones(384), abs=1e-11)
    assert bar.von_mises[inside] == pytest.approx(traction * np.sqrt(1 - ratio + ratio**2))  # σ_zz = ν t
    strain = traction * (1 - ratio**2) / young, -traction * ratio * (1 + ratio) / young
    assert bar.strain[:2, inside] == pytest.approx(np.array(strain)[:, None] * np.ones(384), abs=1e-12)
    assert bar.total_flux("right") == pytest.approx([0.5 * traction, 0])
    assert bar.total_flux("right") + bar.total_flux("left") == pytest.approx([0, 0], abs=1e-11)
    assert bar.reactions()["fix_x on left"] == pytest.approx([-0.5 * traction, 0])
    assert bar.compliance == pytest.approx(0.5 * traction * 0.75 * strain[0])
    assert bar.energy == pytest.approx(0.5 * bar.compliance)
    far = np.hypot(strain[0] * (0.75 - 1 / 64), strain[1] * (0.5 - 1 / 64))
    assert bar.max_displacement == pytest.approx(far)


def lame(radius, pressure):
    """Radial and hoop stress of a thick-walled cylinder under pressure from within."""
    unit = pressure * INNER**2 / (OUTER**2 - INNER**2)
    return unit * (1 - (OUTER / radius) ** 2), unit * (1 + (OUTER / radius) ** 2)


def cylinder(folder, side):
    """An annulus under pressure from within, held only against rigid motions, which its symmetry leaves unloaded."""
    case = annulus(folder, "elasticity", side, fix_x="outer", fix_y="outer", force_x="hole1=1")
    young, ratio = case.problem.young, case.problem.poisson_ratio
    unit = INNER**2 / (OUTER**2 - INNER**2)
    moved = unit * (1 + ratio) / young * ((1 - 2 * ratio) * OUTER + OUTER)  # at the outer radius
    angle = [lambda x, y, nx, ny: moved * nx, lambda x, y, nx, ny: moved * ny]
    push = [lambda x, y, nx, ny: -nx, lambda x, y, nx, ny: -ny]
    return disol.solve_exact(with_conditions(case, angle, push))
