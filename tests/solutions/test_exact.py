"""Exact solutions: linearity, symmetry, conventions, amplitudes, and parity with released data."""

import numpy as np
import pytest
from numpy.polynomial import chebyshev

import disol
from disol.fem import ELEMENTS, System, assemble, boundary_force, free_unknowns
from disol.grid import nodes_touching, pixel_means
from disol.problems.conventions import PAPER

SCALAR = ["poisson", "advection-diffusion-low", "advection-diffusion-high"]


def scalar_data(seed: int = 0, side: int = 24) -> dict:
    case = disol.draw("poisson", seed, 1, shift="all", resolution=side, conventions="paper")
    rng = np.random.default_rng(seed)
    return {"domain": case.terms["domain"], "dirichlet": case.terms["dirichlet"], "source": rng.random((side, side))}


def elasticity_data(seed: int = 0, side: int = 24) -> dict:
    return disol.draw("elasticity", seed, 1, shift="all", resolution=side, conventions="paper").terms


def transforms():
    """The eight symmetries of the square, on arrays and on (x, y) components."""
    for turns in range(4):
        for mirrored in (False, True):

            def move(array, turns=turns, mirrored=mirrored):
                moved = np.rot90(array, turns, axes=(-2, -1))
                return moved[..., ::-1] if mirrored else moved

            # rot90 turns the picture counter-clockwise: what pointed right then points up (−y).
            quarter = np.array([[0, 1], [-1, 0]])
            turn = np.linalg.matrix_power(quarter, turns)
            mirror = np.diag([-1, 1]) if mirrored else np.eye(2, dtype=int)
            yield pytest.param(move, mirror @ turn, id=f"{turns} quarter turns{', mirrored' if mirrored else ''}")


SYMMETRIES = list(transforms())


@pytest.mark.parametrize("conventions", ["paper", "published"])
@pytest.mark.parametrize("name", SCALAR)
def test_solutions_are_linear_in_the_source(name, conventions):
    data = scalar_data()
    f, g = np.random.default_rng(1).standard_normal((2, *data["domain"].shape))

    def solve(source):
        return disol.solve_exact(name, **{**data, "source": source}, conventions=conventions).nodes

    assert solve(2 * f - 3 * g) == pytest.approx(2 * solve(f) - 3 * solve(g), rel=1e-9, abs=1e-12)


def test_displacements_are_linear_in_the_forces():
    data = elasticity_data()
    whole = disol.solve_exact("elasticity", **data, conventions="paper").nodes
    nothing = np.zeros_like(data["force_x"])
    from_x = disol.solve_exact("elasticity", **{**data, "force_y": nothing}, conventions="paper").nodes
    from_y = disol.solve_exact("elasticity", **{**data, "force_x": nothing}, conventions="paper").nodes
    assert whole == pytest.approx(from_x + from_y, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("conventions", ["paper", "published"])
@pytest.mark.parametrize(("move", "rotation"), SYMMETRIES)
def test_poisson_keeps_the_symmetries_of_the_square(move, rotation, conventions):
    del rotation
    data = scalar_data(3)
    moved = disol.solve_exact("poisson", **{name: move(array) for name, array in data.items()}, conventions=conventions)
    assert moved.field == pytest.approx(move(disol.solve_exact("poisson", **data, conventions=conventions).field))


@pytest.mark.parametrize(("move", "rotation"), SYMMETRIES)
def test_heat_keeps_the_symmetries_of_the_square(move, rotation):
    del rotation
    data = {**scalar_data(3), "initial": np.random.default_rng(5).random((24, 24))}
    moved = disol.solve_exact("heat", **{name: move(array) for name, array in data.items()}, conventions="paper")
    assert moved.field == pytest.approx(move(disol.solve_exact("heat", **data, conventions="paper").field))


@pytest.mark.parametrize("conventions", ["paper", "published"])
@pytest.mark.parametrize(("move", "rotation"), SYMMETRIES)
def test_advection_diffusion_keeps_a_symmetry_only_if_the_flow_moves_along(move, rotation, conventions):
    data = scalar_data(3)
    velocity = np.array([0.5, -1.0])
    moved_data = {name: move(array) for name, array in data.items()}
    still = disol.solve_exact("advection-diffusion-high", **data, conventions=conventions)
    turned = disol.solve_exact(
        "advection-diffusion-high", **moved_data, velocity=tuple(rotation @ velocity), conventions=conventions
    )
    assert turned.field == pytest.approx(move(still.field))
    if not np.array_equal(rotation, np.eye(2)):
        fixed_flow = disol.solve_exact("advection-diffusion-high", **moved_data, conventions=conventions)
        assert np.abs(fixed_flow.field - move(still.field)).max() > 0.01 * still.amplitude


@pytest.mark.parametrize(("move", "rotation"), SYMMETRIES)
def test_elasticity_keeps_the_symmetries_of_the_square_with_its_components(move, rotation):
    data = elasticity_data(2)
    swaps = rotation[0, 0] == 0
    forces = np.einsum("ij,jyx->iyx", rotation, np.stack([data["force_x"], data["force_y"]]))
    fixes = ("fix_y", "fix_x") if swaps else ("fix_x", "fix_y")
    moved = disol.solve_exact(
        "elasticity",
        domain=move(data["domain"]),
        fix_x=move(data[fixes[0]]),
        fix_y=move(data[fixes[1]]),
        force_x=move(forces[0]),
        force_y=move(forces[1]),
        conventions="paper",
    )
    expected = np.einsum(
        "ij,jyx->iyx", rotation, move(disol.solve_exact("elasticity", **data, conventions="paper").field)
    )
    assert moved.field == pytest.approx(expected, abs=1e-12)


def test_a_fixed_diagonal_breaks_the_mirror_symmetry_that_bilinear_squares_keep():
    data = scalar_data(3)
    mirrored = {name: array[:, ::-1] for name, array in data.items()}
    gaps = {}
    for element in ("q1", "p1"):
        straight = disol.solve_exact("poisson", **data, element=element, conventions="paper")
        gaps[element] = np.abs(
            disol.solve_exact("poisson", **mirrored, element=element, conventions="paper").field
            - straight.field[..., ::-1]
        ).max()
    assert gaps["q1"] < 1e-12
    assert gaps["p1"] > 1e-6


@pytest.mark.parametrize("name", SCALAR)
def test_a_function_and_its_pixel_values_give_close_solutions(name):
    data = scalar_data()
    x, y = np.broadcast_arrays((np.arange(24)[None] + 0.5) / 24, (np.arange(24)[:, None] + 0.5) / 24)

    def source(x, y):
        return 1 + x * y

    smooth = disol.solve_exact(name, **{**data, "source": source}, conventions="paper")
    steps = disol.solve_exact(name, **{**data, "source": source(x, y)}, conventions="paper")
    assert np.linalg.norm(smooth.field - steps.field) < 0.01 * np.linalg.norm(smooth.field)


def test_a_source_that_returns_one_number_is_constant():
    data = scalar_data()
    constant = disol.solve_exact("poisson", **{**data, "source": lambda x, y: 2.0}, conventions="paper")
    pixels = disol.solve_exact("poisson", **{**data, "source": np.full((24, 24), 2.0)}, conventions="paper")
    assert constant.field == pytest.approx(pixels.field)


def test_a_source_is_asked_only_where_the_domain_is():
    domain = np.ones((16, 16), dtype=bool)
    domain[:, :4] = False
    dirichlet = np.zeros_like(domain)
    dirichlet[0, 4:] = True
    with np.errstate(all="raise"):
        exact = disol.solve_exact(
            "poisson", domain=domain, dirichlet=dirichlet, source=lambda x, y: np.log(x - 0.1) + 3, conventions="paper"
        )
    assert np.isfinite(exact.field).all()


def test_a_wide_grid_has_square_pixels_and_starts_at_the_origin():
    seen = {}

    def source(x, y):
        seen["x"], seen["y"] = x.max(), y.max()
        return 1.0 + 0 * x

    domain = np.ones((10, 30), dtype=bool)
    dirichlet = np.zeros_like(domain)
    dirichlet[:, 0] = True
    exact = disol.solve_exact("poisson", domain=domain, dirichlet=dirichlet, source=source, conventions="paper")
    # −U'' = 1 on [h, 3] with U(h) = 0 and U'(3) = 0
    length = 3 - 0.1
    assert exact.nodes[0, 5, -1] == pytest.approx(length**2 / 2)
    assert 2.9 < seen["x"] < 3.0
    assert 0.9 < seen["y"] < 1.0


def test_elastic_forces_do_not_grow_with_resolution_by_the_papers_convention():
    amplitudes = {}
    for conventions in ("paper", "published"):
        drawn = [disol.draw("elasticity", 1, 0, resolution=side, conventions=conventions) for side in (48, 96)]
        amplitudes[conventions] = [np.max(disol.solve_exact(case).amplitude) for case in drawn]
    assert amplitudes["paper"][1] == pytest.approx(amplitudes["paper"][0], rel=0.3)
    assert amplitudes["published"][1] > 1.5 * amplitudes["published"][0]


def test_pinned_beats_loaded():
    data = elasticity_data()
    both = {f"force_{axis}": np.where(data[f"fix_{axis}"], 3.0, data[f"force_{axis}"]) for axis in "xy"}
    exact = disol.solve_exact("elasticity", **{**data, **both}, conventions="paper")
    h = 1 / len(data["domain"])
    free = np.stack([nodes_touching(data["domain"]) & ~nodes_touching(data[f"fix_{axis}"]) for axis in "xy"])
    load = np.where(free, h * np.stack([boundary_force(data[f"force_{axis}"]) for axis in "xy"]), 0.0)
    matrix = disol.PROBLEMS["elasticity"].element_matrix(ELEMENTS["q1"](h), PAPER)
    assert exact.nodes == pytest.approx(System(data["domain"], matrix, free, load).solve()[0], rel=1e-9, abs=1e-15)
    unknowns = free_unknowns(free)
    residual = assemble(data["domain"], matrix, free) @ exact.nodes.reshape(-1)[unknowns] - load.reshape(-1)[unknowns]
    assert np.abs(residual).max() < 1e-9 * np.abs(load).max()


@pytest.mark.parametrize("conventions", ["paper", "published"])
def test_a_zero_source_is_legal(conventions):
    data = scalar_data()
    exact = disol.solve_exact("poisson", **{**data, "source": np.zeros((24, 24))}, conventions=conventions)
    assert not exact.field.any()
    assert not exact.pattern.any()
    assert exact.amplitude == 0


@pytest.mark.parametrize("conventions", ["paper", "published"])
def test_a_zero_load_is_legal(conventions):
    data = elasticity_data()
    nothing = np.zeros_like(data["force_x"])
    exact = disol.solve_exact("elasticity", **{**data, "force_x": nothing, "force_y": nothing}, conventions=conventions)
    assert not exact.field.any()
    assert not exact.pattern.any()
    assert not np.any(exact.amplitude)


def test_published_displacements_are_scaled_per_component_around_one_half():
    case = disol.draw("elasticity", 0, 2, conventions="published", resolution=32)
    exact = disol.solve_exact(case)
    inside = exact.pattern[:, exact.domain]
    assert inside.min() >= 0
    assert inside.max() <= 1
    rebuilt = (2 * exact.pattern - 1) * exact.amplitude[:, None, None] * exact.domain
    assert rebuilt == pytest.approx(exact.field)


def test_heat_gives_the_frames_asked_for_and_starts_from_the_initial_field():
    case = disol.draw("heat", 0, 2, resolution=32, conventions="paper")
    exact = disol.solve_exact(case, times=[0, 2, 50])
    assert exact.field.shape == (3, 1, 32, 32)
    assert exact.times == (0.0, 2.0, 50.0)
    free = nodes_touching(exact.domain) & ~nodes_touching(case.terms["dirichlet"])
    x, y = np.broadcast_arrays(np.arange(33)[None] / 32, np.arange(33)[:, None] / 32)
    assert exact.nodes[0, 0][free] == pytest.approx(case.terms["initial"](x, y)[free])


def test_the_heat_amplitude_covers_twenty_seconds_whatever_is_asked_for():
    case = disol.draw("heat", 0, 2, resolution=32, conventions="paper")
    amplitudes = {disol.solve_exact(case, times=times).amplitude for times in ([2.0], [50.0], [0.0, 20.0])}
    assert len(amplitudes) == 1
    every = disol.solve_exact(case, times=np.arange(0, 22, 2.0))
    assert np.abs(every.field).max() == pytest.approx(amplitudes.pop())


def test_heat_tends_to_the_poisson_solution():
    data = scalar_data()
    steady = disol.solve_exact("poisson", **data, conventions="paper")
    late = disol.solve_exact(
        "heat",
        **data,
        initial=np.zeros((24, 24)),
        times=[400.0],
        time_scale=1.0,
        source_strength=1.0,
        conventions="paper",
    )
    assert late.field[0] == pytest.approx(steady.field, rel=1e-8)


def test_the_literal_reading_of_heat_is_steady_after_a_few_seconds():
    data = {**scalar_data(), "initial": np.ones((24, 24))}
    literal = disol.solve_exact(
        "heat", **data, times=[8.0, 50.0], time_scale=1.0, source_strength=1.0, conventions="paper"
    )
    default = disol.solve_exact("heat", **data, times=[8.0, 50.0], conventions="paper")
    change = [np.abs(exact.field[0] - exact.field[1]).max() / exact.amplitude for exact in (literal, default)]
    assert change[0] < 0.01
    assert change[1] > 0.05


def recovered_source(domain, dirichlet, channel, degree=20):
    """Fit the smooth f whose nodal values, 0 at pinned nodes, average to the released channel."""
    free = nodes_touching(domain) & ~nodes_touching(dirichlet)
    vandermonde = chebyshev.chebvander(np.linspace(-1, 1, 65), degree)
    powers = [(i, j) for i in range(degree + 1) for j in range(degree + 1 - i)]
    basis = np.stack([np.outer(vandermonde[:, i], vandermonde[:, j]) * free for i, j in powers])
    coefficients, *_ = np.linalg.lstsq(pixel_means(basis)[:, domain].T, channel[domain], rcond=1e-13)
    table = np.zeros((degree + 1, degree + 1))
    table[tuple(np.transpose(powers))] = coefficients
    return lambda x, y: chebyshev.chebval2d(2 * y - 1, 2 * x - 1, table)


@pytest.mark.parametrize("sample", range(4))
def test_the_published_conventions_reproduce_the_released_poisson_samples(released_data, sample):
    with np.load(released_data / "poisson_published.npz") as file:
        released = dict(file)
    domain, dirichlet = released["inputs"][sample, :2] > 0.5
    channel = released["inputs"][sample, 2].astype(float)
    exact = disol.solve_exact(
        "poisson",
        domain=domain,
        dirichlet=dirichlet,
        source=recovered_source(domain, dirichlet, channel),
        conventions="published",
    )
    expected = released["outputs"][sample]
    assert np.linalg.norm(exact.pattern - expected) < 1e-6 * np.linalg.norm(expected)


def test_parameters_may_be_whole_numbers_lists_or_arrays():
    data = scalar_data()
    flows = [(1, 0), [1.0, 0.0], np.array([1, 0])]
    fields = [
        disol.solve_exact("advection-diffusion-low", **data, diffusion=1, velocity=flow, conventions="paper").field
        for flow in flows
    ]
    assert (fields[0] == fields[1]).all()
    assert (fields[0] == fields[2]).all()
    heat = disol.solve_exact(
        "heat", **data, initial=np.ones((24, 24)), times=2, time_scale=1, source_strength=1, conventions="paper"
    )
    assert heat.field.shape == (1, 1, 24, 24)
