"""Cut elements: equivalence with pixels, patch tests, orders of convergence, thin walls, balance of fluxes."""

import sys
from pathlib import Path

import numpy as np
import pytest
import scipy
from scipy.special import j0, jn_zeros

from disol import DisolError
from disol.fem import ELEMENTS, LinearSystem, System, consistent_load, forms
from disol.fem.cut_forms import Form, anisotropic, diffusive, elastic
from disol.fem.cut_system import discretise
from disol.fem.nitsche import Dirichlet, Neumann, Robin
from disol.fem.recovery import boundary_flux, total_flux
from disol.geometry import Region, draw_geometry
from disol.geometry.cut_cells import CutCells
from disol.geometry.region import Arc, arcs_of_pixels
from disol.grid import Grid, nodes_touching

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))  # scripts, which import each other by name

from body_fitted import RINGS, difference
from cut_references import REFERENCES, cylinder

STRAIN = elastic(1e3, 0.3, "strain")


def drawn(seed: int) -> Region:
    rng = np.random.default_rng(seed)
    return Region.from_geometry(draw_geometry(rng, rng, hole_size=(0.2, 0.4)))


def box(left: float, top: float, right: float, bottom: float) -> np.ndarray:
    return np.array([(left, top), (right, top), (right, bottom), (left, bottom)])


@pytest.mark.parametrize("problem", ["diffusion", "advection", "elasticity", "mass"])
def test_on_a_rectangle_along_grid_lines_the_system_is_that_of_pixels(problem):
    grid, velocity = Grid(8, 10), (0.5, -1.0)
    mask = np.zeros(grid.pixels, dtype=bool)
    mask[1:6, 2:9] = True
    element = ELEMENTS["q1"](grid.h)
    flow = forms.advection(element, velocity)
    form, matrix = {
        "diffusion": (Form(diffusive(0.7)), 0.7 * forms.diffusion(element)),
        "advection": (Form(diffusive(0.2), velocity), 0.2 * forms.diffusion(element) + flow),
        "elasticity": (Form(STRAIN), forms.elasticity(element, forms.hooke(1e3, 0.3, "strain"))),
        "mass": (Form(diffusive(1.0), density=3.0), 3.0 * forms.mass(element)),
    }[problem]  # fmt: skip
    count = form.components

    def source(x, y):  # that both quadratures integrate exactly
        return 1 + 2 * x - y + 3 * x * y

    load = np.stack([consistent_load(element, element.values, mask, source)] * count)
    free = np.stack([nodes_touching(mask)] * count)
    pixels = LinearSystem(System(mask, matrix, free, load))
    region = Region.from_polygons([grid.h * box(2, 1, 9, 6)])
    cut = discretise(region, grid, form, source=[source] * count)
    assert cut.cells.num_cut == 0
    found = cut.mass if problem == "mass" else cut.matrix
    assert abs(found - pixels.matrix).max() < 1e-12 * abs(matrix).max()
    np.testing.assert_allclose(cut.load, pixels.load, atol=1e-14)


def inside(found: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """The differences where both are."""
    return (found - np.broadcast_to(exact, found.shape))[~np.isnan(found)]


# Slivers are merged into neighbours, which breaks continuity along their short sides; without that, solutions in the
# space of elements are found to rounding.
SLIVERS = pytest.mark.parametrize(("smallest", "tolerance"), [(1e-12, 1e-8), (1e-7, 1e-8)], ids=["kept", "merged"])


@SLIVERS
@pytest.mark.parametrize("upwind", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_a_linear_solution_is_found_exactly(seed, upwind, smallest, tolerance, monkeypatch):
    monkeypatch.setattr("disol.geometry.cut_cells.SMALLEST", smallest)
    tensor, velocity, reaction = np.array([[2.0, 0.6], [0.6, 1.0]]), (0.5, -1.0), 1.5
    slope = np.array([2.0, -3.0])
    flow = tensor @ slope

    def exact(x, y):
        return 1 + slope[0] * x + slope[1] * y

    conditions = [
        Dirichlet(Arc(0, 0.2, 0.7), exact),
        Neumann(Arc(0, 0.7, 1.2), lambda x, y, nx, ny: flow[0] * nx + flow[1] * ny),
        Robin(Arc(1), 2.0, lambda x, y, nx, ny: exact(x, y) + (flow[0] * nx + flow[1] * ny) / 2),
    ]
    form = Form(anisotropic(tensor), velocity, reaction=reaction, upwind=upwind)
    grid = Grid(16, 16)
    system = discretise(drawn(seed), grid, form, conditions, lambda x, y: slope @ velocity + reaction * exact(x, y))
    found = system.solve()
    assert np.abs(inside(found.pixels(), exact(*grid.pixel_centres()))).max() < tolerance
    stress = boundary_flux(system, found).stress
    np.testing.assert_allclose(stress[:, 0], np.broadcast_to(flow, stress[:, 0].shape), atol=100 * tolerance)


@SLIVERS
@pytest.mark.parametrize("plane", ["strain", "stress"])
def test_a_linear_displacement_is_found_exactly(plane, smallest, tolerance, monkeypatch):
    monkeypatch.setattr("disol.geometry.cut_cells.SMALLEST", smallest)
    law = elastic(1e3, 0.3, plane)
    gradient = np.array([[1.0, 2.0], [-0.5, 3.0]])  # [component, axis]
    stress = np.einsum("cadb,db->ca", law, gradient)

    def exact(x, y):
        return tuple(gradient[:, 0, None, None] * x + gradient[:, 1, None, None] * y)

    def traction(x, y, nx, ny):
        return tuple(stress[:, 0, None, None] * nx + stress[:, 1, None, None] * ny)

    conditions = [
        Dirichlet(Arc(0, 0.0, 0.3), exact, components=(0,)),
        Dirichlet(Arc(0, 0.2, 0.5), exact, components=(1,)),
        Neumann(Arc(0), traction),
        Neumann(Arc(1), traction),
    ]
    grid = Grid(16, 16)
    found = discretise(drawn(0), grid, Form(law), conditions).solve()
    assert np.abs(inside(found.pixels(), np.stack(exact(*grid.pixel_centres())))).max() < tolerance


@pytest.mark.parametrize("reference", REFERENCES, ids=lambda reference: reference.name)
def test_error_falls_fourfold_when_pixels_halve_and_is_as_small_as_measured(reference):
    coarse, fine = reference.error(64), reference.error(256)
    assert coarse <= 1.3 * reference.at_64
    assert np.log2(coarse / fine) / 2 == pytest.approx(2, abs=0.15)


@pytest.mark.parametrize(("is_elastic", "largest"), [(False, (1.6e-2, 7e-3)), (True, (3.6e-2, 2.1e-2))])
def test_mixed_arcs_agree_with_a_body_fitted_mesh_of_another_package(is_elastic, largest):
    """What limits the order is the solution, which is like r^½ at the ends of arcs."""
    coarse, fine = difference(RINGS[0], is_elastic, (32, 64), around=72, across=9)
    assert coarse < largest[0]
    assert fine < largest[1]
    assert fine < 0.7 * coarse


def test_upwinding_keeps_a_strong_flow_smooth():
    """The inflow term holds values where the flow enters, and SUPG those where it leaves."""
    points = 0.5 + 0.3 * np.stack([f(2 * np.pi * np.arange(400) / 400) for f in (np.cos, np.sin)], axis=1)
    form = Form(diffusive(2e-5), (0.5, -1.0), upwind=True)
    ones = discretise(Region.from_polygons([points]), Grid(32, 32), form, [Dirichlet(Arc(0), 1.0)]).solve()
    assert np.abs(inside(ones.pixels(), np.ones((32, 32)))).max() < 1e-9
    ramp = discretise(
        Region.from_polygons([points]), Grid(32, 32), form, [Dirichlet(Arc(0), lambda x, y: x)], 0.5
    ).solve()
    x, _ = Grid(32, 32).pixel_centres()
    assert np.abs(inside(ramp.pixels(), x)).max() < 1e-9


@pytest.mark.parametrize("gap", [0.05, 0.4, 0.95])
@pytest.mark.parametrize("place", [7.98, 8.0, 8.3])
def test_a_wall_thinner_than_a_pixel_does_not_leak(gap, place):
    left, right = box(1.3, 1.3, place, 14.6), box(place + gap, 1.3, 14.6, 14.6)
    region = Region.from_polygons([left / 16, right / 16])
    conditions = [Dirichlet(Arc(0, 0.55, 0.95), 2.0), Dirichlet(Arc(1, 0.3, 0.5), -1.0)]
    system = discretise(region, Grid(16, 16), Form(diffusive(1.0)), conditions)
    assert system.cells.parts().max() == 1
    found = system.solve()
    y = np.full(2, 0.5)
    np.testing.assert_allclose(found.at(np.array([place - 0.02, place + gap + 0.02]) / 16, y)[0], [2, -1], rtol=1e-9)
    assert np.isnan(found.at(np.array([place + gap / 2]) / 16, np.full(1, 0.5))).all()


@pytest.mark.parametrize("law", [diffusive(1.0), STRAIN], ids=["diffusion", "elasticity"])
@pytest.mark.parametrize("seed", range(5))
def test_symmetric_systems_are_positive_definite(law, seed):
    rng = np.random.default_rng(seed)
    start, length = rng.random(), rng.uniform(0.05, 0.3)
    conditions = [Dirichlet(Arc(0, start, start + length)), Dirichlet(Arc(1, 0.1, 0.2)), Robin(Arc(1, 0.2, 0.6), 1e5)]
    matrix = discretise(drawn(seed), Grid(14, 14), Form(law), conditions).matrix.toarray()
    assert np.abs(matrix - matrix.T).max() <= 1e-12 * np.abs(matrix).max()
    scale = 1 / np.sqrt(np.diagonal(matrix))
    eigenvalues = np.linalg.eigvalsh(scale[:, None] * matrix * scale)
    assert eigenvalues[0] > 1e-7 * eigenvalues[-1]


@pytest.mark.parametrize("exchange", [1e2, 1e4, 1e9])
def test_exchange_of_any_size_is_second_order(exchange):
    """Plain terms of an exchange of 1e9 fix bilinear functions, and are off by 13 % on the coarsest grid."""
    angles = 2 * np.pi * np.arange(1000) / 1000
    disc = Region.from_polygons([[0.503, 0.497] + 0.37 * np.stack([np.cos(angles), np.sin(angles)], axis=1)])

    def exact(x, y):
        return 1 + np.exp(3 * x) * np.sin(3 * y)

    def outside(x, y, nx, ny):
        return exact(x, y) + 3 * np.exp(3 * x) * (np.sin(3 * y) * nx + np.cos(3 * y) * ny) / exchange

    errors = []
    for side in (16, 32, 64):
        grid = Grid(side, side)
        conditions = [Robin(Arc(0), exchange, outside)]
        system = discretise(disc, grid, Form(diffusive(1.0)), conditions)
        found = system.solve()
        errors.append(np.linalg.norm(inside(found.pixels(), exact(*grid.pixel_centres()))) / side)
        assert total_flux(system, found, conditions[0]) == pytest.approx(0, abs=1e-8)
    assert np.log2(errors[0] / errors[2]) > 3.5
    assert errors[2] < 4e-4


def test_exchange_without_resistance_is_a_value():
    held = [Dirichlet(Arc(0, 0.2, 0.7), lambda x, y: x - y), Dirichlet(Arc(1), 2.0)]
    exchanged = [held[0], Robin(Arc(1), 1e30, 2.0)]
    for law in (diffusive(3.0), STRAIN):
        source = [1.0] * Form(law).components
        systems = [discretise(drawn(0), Grid(16, 16), Form(law), each, source) for each in (held, exchanged)]
        one, other = (system.solve() for system in systems)
        np.testing.assert_allclose(one.values, other.values, atol=1e-11 * np.abs(one.values).max())
        flows = [total_flux(*each) for each in zip(systems, (one, other), (held[1], exchanged[1]), strict=True)]
        np.testing.assert_allclose(*flows, rtol=1e-9)


def test_what_flows_in_through_all_arcs_balances_the_source():
    conditions = [
        Dirichlet(Arc(0, 0.2, 0.5), lambda x, y: np.sin(5 * x) + y),
        Neumann(Arc(0, 0.6, 1.1), lambda x, y: 1 + x * y),
        Robin(Arc(1), 3.0, 0.5),
    ]
    system = discretise(drawn(0), Grid(24, 24), Form(diffusive(2.0)), conditions, 1.7)
    found = system.solve()
    flows = [total_flux(system, found, condition) for condition in conditions]
    area = sum(loop.signed_area for loop in system.cells.region.loops)
    assert sum(flows) == pytest.approx(-1.7 * area, rel=1e-9)


def test_the_force_on_a_held_arc_balances_the_traction():
    held, pulled = Dirichlet(Arc(0, 0.0, 0.3)), Neumann(Arc(1), (1.0, -2.0))
    region = drawn(1)
    system = discretise(region, Grid(24, 24), Form(STRAIN), [held, pulled])
    found = system.solve()
    length = region.loops[1].arc_lengths[-1]
    assert total_flux(system, found, pulled) == pytest.approx(length * np.array([1.0, -2.0]))
    assert total_flux(system, found, held) == pytest.approx(length * np.array([-1.0, 2.0]), rel=1e-8)


def test_stress_recovered_from_whole_pixels_converges_on_the_boundary():
    reference = cylinder()
    errors = []
    for side in (64, 128):
        system = discretise(reference.region, Grid(side, side), reference.form, reference.conditions)
        found = boundary_flux(system, system.solve())
        on_hole = found.loop == 1  # where the traction is −n
        errors.append(np.abs(found.traction + found.normal)[on_hole].max())
    assert errors[0] < 0.05
    assert errors[1] < errors[0] / 3


def test_layers_of_different_conductivity_share_one_flux():
    grid = Grid(8, 8)
    conductivity = np.ones(grid.pixels)
    conductivity[4:] = 3.0
    region = Region.from_polygons([box(0.1, 0.13, 0.9, 0.87)])
    sides = region.loops[0].arc_lengths / region.loops[0].arc_lengths[-1]
    conditions = [Dirichlet(Arc(0, 0.0, sides[1]), 0.0), Dirichlet(Arc(0, sides[2], sides[3]), 1.0)]
    system = discretise(region, grid, Form(diffusive(conductivity)), conditions)
    found = system.solve()
    flux = 1 / (0.37 / 1 + 0.37 / 3)
    y = np.array([0.2, 0.45, 0.5, 0.8])
    expected = np.where(y < 0.5, flux * (y - 0.13), 1 - flux / 3 * (0.87 - y))
    np.testing.assert_allclose(found.at(np.full(4, 0.31), y)[0], expected, rtol=1e-9)
    assert total_flux(system, found, conditions[1]) == pytest.approx(0.8 * flux)


@pytest.mark.parametrize("conductivity", [2.0, 1e6])
def test_the_boundary_of_two_materials_that_meet_has_the_flux_of_each(conductivity):
    grid, angles = Grid(32, 32), 2 * np.pi * np.arange(500) / 500
    disc = Region.from_polygons([0.5 + 0.37 * np.stack([np.cos(angles), np.sin(angles)], axis=1)])
    across = np.where(np.arange(32) < 16, 1.0, conductivity)
    law = diffusive(np.broadcast_to(across, grid.pixels))

    def exact(x, y):
        return y + (x - 0.5) / np.where(x < 0.5, 1.0, conductivity)

    system = discretise(disc, grid, Form(law), [Dirichlet(Arc(0), exact)])
    found = system.solve()
    gradients = found.gradients()
    assert inside(across * gradients[:, 0], np.ones(1)) == pytest.approx(0, abs=1e-6)
    assert inside(gradients[:, 1], np.ones(1)) == pytest.approx(0, abs=1e-11)
    stress = boundary_flux(system, found).stress[:, 0]
    own = across[system.cells.corner[system.cells.element][:, 0]]
    assert stress[:, 0] == pytest.approx(np.ones(len(own)), abs=1e-6)
    assert stress[:, 1] / own == pytest.approx(np.ones(len(own)), abs=1e-11)


def test_coefficients_of_pixels_that_are_all_alike_are_numbers():
    ones = np.ones((12, 12))
    flows = np.broadcast_to([0.5, -1.0], (12, 12, 2))
    pairs = [
        (
            Form(diffusive(0.3), (0.5, -1.0), reaction=2.0, density=3.0, upwind=True),
            Form(diffusive(0.3 * ones), flows, reaction=2 * ones, density=3 * ones, upwind=True),
        ),
        (Form(STRAIN), Form(elastic(1e3 * ones, 0.3 * ones, "strain"))),
    ]
    for one, other in pairs:
        conditions = [Dirichlet(Arc(0, 0.1, 0.4), 1.0), Robin(Arc(1), 5.0)]
        sources = [1.5] * one.components, [1.5 * ones] * one.components
        systems = [
            discretise(drawn(0), Grid(12, 12), form, conditions, source)
            for form, source in zip((one, other), sources, strict=True)
        ]
        assert abs(systems[0].matrix - systems[1].matrix).max() < 1e-12 * abs(systems[0].matrix).max()
        assert abs(systems[0].mass - systems[1].mass).max() < 1e-15
        np.testing.assert_allclose(systems[0].load, systems[1].load, atol=1e-12 * np.abs(systems[0].load).max())


def test_a_mask_held_along_its_outer_sides_is_second_order():
    """Where pixels are held, nodes of one layer too many are, and the order is one."""

    def exact(x, y):
        return np.sin(np.pi * (x - 0.25) / 0.5) * np.sin(np.pi * (y - 0.125) / 0.75)

    factor = np.pi**2 * (1 / 0.5**2 + 1 / 0.75**2)
    errors = []
    for side in (16, 32, 64):
        mask = np.zeros((side, side), dtype=bool)
        mask[side // 8 : -side // 8, side // 4 : -side // 4] = True
        conditions = [Dirichlet(arc) for arc in arcs_of_pixels(mask, mask)]
        grid = Grid(side, side)
        form = Form(diffusive(1.0))
        system = discretise(Region.from_mask(mask), grid, form, conditions, lambda x, y: factor * exact(x, y))
        errors.append(np.linalg.norm(inside(system.solve().pixels(), exact(*grid.pixel_centres()))) / side)
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2, abs=0.15)
    assert np.log2(errors[1] / errors[2]) == pytest.approx(2, abs=0.1)


def test_heat_settles_at_the_steady_solution_and_keeps_its_sum_where_nothing_flows():
    region, grid = drawn(2), Grid(16, 16)
    held = discretise(region, grid, Form(diffusive(1.0), density=2.0), [Dirichlet(Arc(0, 0.1, 0.4))], 1.0)
    *_, last = held.march(0.0, 0.5, 40)
    np.testing.assert_allclose(last.pixels(), held.solve().pixels(), rtol=1e-6)
    insulated = discretise(region, grid, Form(diffusive(1.0), density=2.0))
    contents = [insulated.mass.sum(axis=0) @ field.values[:, 0] for field in insulated.march(lambda x, y: x, 0.1, 3)]
    start = discretise(region, grid, Form(diffusive(1.0)), source=lambda x, y: 2 * x).load.sum()
    np.testing.assert_allclose(contents, start, rtol=1e-10)


def test_steps_of_time_are_second_order():
    """The first mode of a disc, whose decay is that of its discrete eigenvalue: what is left is due to time alone."""
    angles = 2 * np.pi * np.arange(500) / 500
    disc = Region.from_polygons([0.5 + 0.37 * np.stack([np.cos(angles), np.sin(angles)], axis=1)])
    system = discretise(disc, Grid(24, 24), Form(diffusive(1.0)), [Dirichlet(Arc(0))])
    root = jn_zeros(0, 1)[0] / 0.37

    def first_mode(x, y):
        return j0(root * np.minimum(np.hypot(x - 0.5, y - 0.5), 0.37))

    time = 1.0 / root**2
    found = []
    for steps in (4, 8, 16, 256):
        *_, last = system.march(first_mode, time / steps, steps)
        found.append(np.nan_to_num(last.pixels()))
    errors = [np.linalg.norm(each - found[-1]) / np.linalg.norm(found[-1]) for each in found[:-1]]
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2, abs=0.2)
    assert np.log2(errors[1] / errors[2]) == pytest.approx(2, abs=0.2)
    size = np.nanmax(found[-1])
    assert size == pytest.approx(np.exp(-1.0), rel=0.03)


def test_a_start_that_supports_do_not_meet_is_damped_at_once():
    """A hot body with a cold boundary: after one coarse step nothing overshoots, and all is close to fine steps."""
    system = discretise(drawn(2), Grid(24, 24), Form(diffusive(1.0)), [Dirichlet(Arc(0, 0.0, 1.0))])
    coarse = next(system.march(1.0, 0.02, 1)).pixels()
    *_, fine = system.march(1.0, 0.02 / 64, 64)
    inside = ~np.isnan(coarse)
    assert coarse[inside].min() > -0.01
    difference = (coarse - fine.pixels())[inside]
    assert np.linalg.norm(difference) < 0.02 * np.linalg.norm(fine.pixels()[inside])


def test_the_matrix_is_that_of_the_unknowns_in_node_order():
    system = discretise(drawn(3), Grid(12, 12), Form(diffusive(1.0)), [Dirichlet(Arc(1))], 1.0)
    solution = scipy.sparse.linalg.spsolve(system.matrix.tocsc(), system.load)
    np.testing.assert_allclose(solution, system.solve().values[:, 0], rtol=1e-9)
    rows = system.cells.places @ [1, 13]
    assert (np.diff(rows) >= 0).all()


HELD, BOTH = Dirichlet(Arc(0, 0.1, 0.3)), Dirichlet(Arc(1, 0.1, 0.3))
TWO = Region.from_polygons([box(0.1, 0.1, 0.4, 0.9), box(0.6, 0.1, 0.9, 0.9)])


SCALAR, ELASTIC = Form(diffusive(1.0)), Form(STRAIN)


@pytest.mark.parametrize(
    ("form", "conditions", "message"),
    [
        (SCALAR, [HELD], "The part of the domain around x = 0.75, y = 0.5 is not held against a constant"),
        (SCALAR, [HELD, Neumann(Arc(1), 1.0)], "is not held against a constant"),
        (ELASTIC, [HELD, Dirichlet(Arc(1), components=(0,))], "is not held against translation and rotation"),
        (ELASTIC, [HELD, Dirichlet(Arc(1), components=(2,))], "Components of a condition are among 0 to 1"),
        (SCALAR, [HELD, Dirichlet(Arc(2))], "loops 0 to 1, got an arc of loop 2"),
        (SCALAR, [BOTH, Dirichlet(Arc(0), lambda x, y: 1 / 0)], "value must be a function of arrays x and y"),
        (SCALAR, [BOTH, Dirichlet(Arc(0), (1.0, 2.0))], "value must have one value"),
        (SCALAR, [BOTH, Dirichlet(Arc(0), lambda x, y: np.nan * x)], "value holds NaN"),
        (SCALAR, [BOTH, Dirichlet(Arc(0), lambda x, y: np.ones(3))], "value must return one value per point"),
        (Form(diffusive(np.ones((3, 3)))), [HELD, BOTH], "law must be one value, or one for each pixel of"),
    ],
)
def test_bad_conditions_are_refused_in_one_line(form, conditions, message):
    with pytest.raises(DisolError, match=message) as refused:
        discretise(TWO, Grid(8, 8), form, conditions).solve()
    assert "\n" not in str(refused.value)


def test_forms_that_mean_nothing_are_refused():
    with pytest.raises(DisolError, match="A velocity carries one component"):
        Form(STRAIN, (1.0, 0.0))
    with pytest.raises(DisolError, match="law holds NaN or infinite values"):
        Form(diffusive(np.nan * np.ones((8, 8))))
    with pytest.raises(DisolError, match="poisson_ratio must lie in"):
        elastic(1e3, 0.5, "strain")
    with pytest.raises(DisolError, match="source holds NaN or infinite values"):
        discretise(TWO, Grid(8, 8), SCALAR, [HELD, BOTH], np.nan).solve()


def test_a_source_for_each_component_is_required():
    with pytest.raises(DisolError, match="one source for each of 2 components, got 1"):
        discretise(TWO, Grid(8, 8), Form(STRAIN), [HELD, BOTH], 1.0).solve()


def test_pixels_that_thin_walls_part_are_looked_up_all_at_once(monkeypatch):
    tips = np.stack([np.linspace(0.15, 0.85, 29), np.tile([0.2, 0.8], 15)[:29]], axis=1)
    comb = Region.from_polygons([np.concatenate([tips, [[0.9, 0.9], [0.1, 0.9]]])])
    field = discretise(comb, Grid(16, 16), Form(diffusive(1.0)), [Dirichlet(Arc(0))], source=lambda x, y: 1 + x).solve()
    assert len(field.cells.parted) > 10
    rows, columns = np.nonzero(comb.mask(field.cells.grid))
    expected = field.at((columns + 0.5) / 16, (rows + 0.5) / 16)
    looked = []
    find = CutCells.find
    monkeypatch.setattr(CutCells, "find", lambda cells, x, y: looked.append(len(x)) or find(cells, x, y))
    assert np.array_equal(field.pixels()[:, rows, columns], expected)
    assert len(looked) == 1
