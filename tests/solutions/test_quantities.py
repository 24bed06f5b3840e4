"""Values, gradients, fluxes and stresses of solutions are those of closed forms; totals balance."""

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest

import disol
from disol import DisolError, Solution
from disol.cases.conditions import Stated
from disol.fem.nitsche import Dirichlet, Neumann
from disol.geometry.region import Arc

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
    """An annulus under unit pressure from within, moved outside as it should be."""
    case = annulus(folder, "elasticity", side, fix_x="outer", fix_y="outer", force_x="hole1=1", force_y="hole1=1")
    young, ratio = case.problem.young, case.problem.poisson_ratio
    moved = INNER**2 / (OUTER**2 - INNER**2) * (1 + ratio) / young * (2 - 2 * ratio)
    stated = (
        Stated("fix_x", "outer", (Dirichlet(Arc(0), lambda x, y: moved * (x - CENTRE[0]), components=(0,)),)),
        Stated("fix_y", "outer", (Dirichlet(Arc(0), lambda x, y: moved * (y - CENTRE[1]), components=(1,)),)),
        Stated("force_x", "hole1", (Neumann(Arc(1), lambda x, y, nx, ny: -nx, components=(0,)),)),
        Stated("force_y", "hole1", (Neumann(Arc(1), lambda x, y, nx, ny: -ny, components=(1,)),)),
    )
    return disol.solve_exact(replace(case, stated=stated))


def test_stresses_of_a_thick_walled_cylinder_are_second_order_at_pixel_centres(tmp_path):
    errors = []
    for side in (32, 64, 128):
        solution = cylinder(tmp_path, side)
        radius, x, y = polar(solution.case)
        radial, hoop = lame(radius, 1.0)
        exact = np.stack([radial * x**2 + hoop * y**2, radial * y**2 + hoop * x**2, (radial - hoop) * x * y])
        zz = solution.problem.poisson_ratio * (radial + hoop)
        von_mises = np.sqrt(0.5 * ((radial - hoop) ** 2 + (hoop - zz) ** 2 + (zz - radial) ** 2))
        inside = solution.domain
        errors.append(
            [
                relative(solution.stress[:, inside], exact[:, inside]),
                relative(solution.von_mises[inside], von_mises[inside]),
                np.abs(solution.von_mises - von_mises)[inside].max() / von_mises[inside].max(),
            ]
        )
    coarse, middle, fine = np.array(errors)
    assert (middle[:2] < 6e-3).all()
    assert (coarse[:2] / middle[:2] > 3).all()
    assert (middle[:2] / fine[:2] > 3).all()
    assert fine[2] < 0.006


def test_stress_recovered_on_the_boundary_of_a_cylinder_is_within_a_few_per_cent(tmp_path):
    solution = cylinder(tmp_path, 64)
    found = solution.boundary()
    inner = found.loop == "hole1"
    assert set(found.loop) == {"outer", "hole1"}
    assert np.hypot(found.x - CENTRE[0], found.y - CENTRE[1])[inner] == pytest.approx(INNER, rel=1e-4)
    assert found.length[inner].sum() == pytest.approx(2 * np.pi * INNER, rel=1e-4)
    assert found.traction[:, inner] == pytest.approx(-found.normal[inner].T, abs=0.05)
    radial, hoop = lame(INNER, 1.0)
    zz = solution.problem.poisson_ratio * (radial + hoop)
    expected = np.sqrt(0.5 * ((radial - hoop) ** 2 + (hoop - zz) ** 2 + (zz - radial) ** 2))
    assert found.von_mises[inner] == pytest.approx(expected, rel=0.03)
    assert (found.stress[0] + found.stress[1])[inner] == pytest.approx(radial + hoop, abs=0.04 * hoop)
    x, y = found.x, found.y
    assert np.nan_to_num(solution.at(np.stack([x, y], axis=1)) - found.value) == pytest.approx(0, abs=1e-12)


def test_what_flows_through_an_annulus_is_that_of_the_logarithm(tmp_path):
    case = annulus(tmp_path, "poisson", 64, dirichlet="outer,hole1", source="0")
    stated = (
        Stated("dirichlet", "outer", (Dirichlet(Arc(0), 1.0),)),
        Stated("dirichlet", "hole1", (Dirichlet(Arc(1), 0.0),)),
    )
    problem = replace(case.problem, diffusion=3.0)
    solution = disol.solve_exact(replace(case, problem=problem, stated=stated))
    slope = 1 / (OUTER * np.log(OUTER / INNER))
    expected = 2 * np.pi * OUTER * 3.0 * slope
    assert solution.total_flux("outer") == pytest.approx(expected, rel=2e-3)
    assert solution.total_flux("hole1") == pytest.approx(-solution.total_flux("outer"), rel=1e-10)
    recovered = solution.boundary()
    outer = recovered.loop == "outer"
    assert (recovered.length * recovered.traction[0])[outer].sum() == pytest.approx(expected, rel=5e-3)
    assert recovered.flux[:, outer] == pytest.approx(-3 * slope * recovered.normal[outer].T, abs=0.2)


def all_at_once():
    """A wall with every kind of condition and every term of the equation."""
    return disol.solve_exact(
        "poisson",
        domain=rectangle(),
        dirichlet={"left": 20, "right": "80 + 5*y"},
        convection={"top": (10, 20)},
        flux={"bottom": "3*x"},
        source=lambda x, y: x,
        velocity=(3.0, 1.0),
        reaction=2.0,
        diffusion=[[2.0, 0.5], [0.5, 1.0]],
        **PHYSICAL,
    )


@pytest.mark.parametrize(
    "solve",
    [
        all_at_once,
        lambda: disol.solve_exact(disol.draw("poisson", 3, shift="all", **PHYSICAL)),
        lambda: disol.solve_exact(disol.draw("elasticity", 3, resolution=32, **PHYSICAL)),
        lambda: disol.solve_exact(disol.draw("advection-diffusion-high", 3, resolution=32, **PHYSICAL)),
        lambda: disol.solve_exact(disol.draw("heat", 3, resolution=32, **PHYSICAL), times=[0, 2, 20]),
        lambda: disol.solve_exact(disol.draw("poisson", 3, conventions="paper")),
        lambda: disol.solve_exact(disol.draw("elasticity", 3, resolution=32, conventions="published")),
        lambda: disol.solve_exact(disol.draw("advection-diffusion-high", 3, resolution=32, conventions="paper")),
    ],
)
def test_totals_of_every_solution_balance_to_rounding(solve):
    solution = solve()
    *rows, balance = solution.totals()
    assert balance.what == "balance"
    largest = max(np.abs(row.value).max() for row in rows)
    assert np.abs(balance.value).max() < 1e-10 * largest
    assert len({(row.what, row.where) for row in rows}) == len(rows)
    supports = {f"{row.what} on {row.where}": row.value for row in rows if row.what in ("dirichlet", "fix_x", "fix_y")}
    assert solution.reactions().keys() == supports.keys()


def test_parts_of_one_support_add_up_and_free_parts_have_nothing():
    wall = all_at_once()
    whole = wall.total_flux("outer")
    assert wall.total_flux("outer:0-0.37") + wall.total_flux("outer:0.37-1") == pytest.approx(whole)
    assert sum(wall.total_flux(side) for side in ("left", "right", "top", "bottom")) == pytest.approx(whole)
    assert wall.total_flux("bottom") == pytest.approx(1.125)  # of 3 x
    free = disol.solve_exact("poisson", domain=rectangle(), dirichlet={"left": 0}, source=np.ones((32, 32)), **PHYSICAL)
    assert free.total_flux("right") == 0
    assert free.total_flux("left") == pytest.approx(-0.375)
    with pytest.raises(DisolError, match="There is no part 'front'"):
        free.total_flux("front")


@pytest.mark.parametrize("conventions", ["physical", "paper"])
def test_the_work_of_a_steady_source_of_heat_is_twice_the_energy_whatever_the_time_scale(conventions):
    held = rectangle() * (np.arange(32) < 6)
    fields = {"source": rectangle(), "initial": 0 * rectangle()}
    heat = disol.solve_exact(
        "heat", domain=rectangle(), dirichlet=held, times=[4000], conventions=conventions, **fields
    )
    assert heat.compliance[0] == pytest.approx(3 * heat.field.sum() / 32**2)  # g ∫ f U
    assert heat.compliance == pytest.approx(2 * heat.energy, rel=1e-6 if conventions == "paper" else 0.02)


def test_on_pixels_reactions_are_those_of_the_nodes_of_a_part():
    clamped, pulled = np.zeros((2, 32, 32))
    clamped[8:24, 4], pulled[8:24, 27] = 1, 1
    bar = disol.solve_exact(
        "elasticity",
        domain=rectangle(),
        fix_x=clamped,
        fix_y=clamped,
        force_x=pulled,
        force_y=0 * pulled,
        conventions="paper",
    )
    assert bar.total_flux("right") == pytest.approx(-bar.total_flux("left"), abs=1e-10)
    assert bar.reactions()["fix_x on marked pixels"] == pytest.approx(bar.total_flux("left"), abs=1e-10)
    assert bar.energy == pytest.approx(0.5 * bar.compliance)
    assert bar.energy == pytest.approx(disol.system(bar.case).energy(bar.nodes))


@pytest.mark.parametrize("conventions", ["paper", "physical"])
def test_each_case_of_a_batch_has_what_it_has_by_itself(conventions):
    cases = [disol.draw("elasticity", 3, index, resolution=32, conventions=conventions) for index in range(3)]
    batch = disol.solve_exact(cases)
    own = batch[1]
    for name in ("gradient", "strain", "stress", "von_mises", "energy", "compliance", "max_displacement"):
        assert np.array_equal(getattr(batch, name)[1], getattr(own, name))
    assert np.array_equal(batch.at([[0.5, 0.5]])[1], own.at([[0.5, 0.5]]), equal_nan=True)
    assert np.array_equal(batch.total_flux("left")[1], own.total_flux("left"))
    with pytest.raises(DisolError, match="Totals are for one case, got a batch of 3"):
        batch.totals()


def test_pixels_of_a_case_on_its_true_boundary_have_values_but_no_totals():
    exact = disol.solve_exact(disol.draw("poisson", 3, **PHYSICAL))
    pixels = Solution(exact.case, exact.field, exact.amplitude)
    assert relative(pixels.flux, exact.flux) < 0.4
    for ask in (lambda: pixels.energy, lambda: pixels.compliance, pixels.totals, lambda: pixels.total_flux("outer")):
        with pytest.raises(DisolError, match="are those of its exact solution"):
            ask()


def test_ratios_per_pixel_that_are_all_alike_are_a_number():
    case = disol.draw("elasticity", 3, resolution=32, **PHYSICAL)
    number, array = (disol.solve_exact(case, poisson_ratio=ratio) for ratio in (0.2, np.full((32, 32), 0.2)))
    assert array.von_mises == pytest.approx(number.von_mises, abs=1e-9 * number.von_mises.max())
    assert array.boundary().von_mises == pytest.approx(number.boundary().von_mises, rel=1e-6)


@pytest.mark.parametrize("problem", ["poisson", "elasticity"])
def test_a_solution_on_the_true_boundary_can_be_pickled(problem):
    solution = disol.solve_exact(disol.draw(problem, 1, resolution=32, **PHYSICAL))
    assert np.array_equal(pickle.loads(pickle.dumps(solution)).gradient, solution.gradient)


def test_heat_has_an_axis_of_time():
    heat = disol.solve_exact(disol.draw("heat", 3, resolution=32, **PHYSICAL), times=[0, 2, 20])
    assert heat.gradient.shape == (3, 1, 2, 32, 32)
    assert heat.flux.shape == (3, 2, 32, 32)
    assert np.allclose(heat.flux, -heat.gradient[:, 0])
    assert heat.at([[0.5, 0.5], [0.4, 0.5]]).shape == (3, 1, 2)
    assert heat.total_flux("outer").shape == heat.energy.shape == (3,)
    assert heat.boundary().flux.shape[:2] == (3, 2)
    later = disol.solve_exact(heat.case, times=[20])
    assert later.energy == pytest.approx(heat.energy[2:])


@pytest.mark.parametrize(
    ("problem", "ask", "message"),
    [
        (
            "poisson",
            lambda found: found.stress,
            "poisson has no stress: its fields are not displacements. Ask for flux.",
        ),
        ("poisson", lambda found: found.max_displacement, "poisson has no displacement"),
        ("elasticity", lambda found: found.flux, "elasticity has no flux: it has 2 fields. Ask for stress."),
        ("poisson", lambda found: found.boundary(), 'Solve the case with conventions="physical"'),
        ("heat", lambda found: found.total_flux("outer"), 'Solve the case with conventions="physical"'),
        ("poisson", lambda found: found.at([0.5, 0.5]), r"points must be an array \[point, 2\]"),
        ("poisson", lambda found: found.at([["a", "b"]]), "points must"),
    ],
)
def test_what_a_solution_does_not_have_is_told_in_one_line(problem, ask, message):
    solution = disol.solve_exact(disol.draw(problem, 0, resolution=16, conventions="paper"))
    with pytest.raises(DisolError, match=message) as told:
        ask(solution)
    assert "\n" not in str(told.value)
