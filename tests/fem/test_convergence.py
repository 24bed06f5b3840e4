"""Orders of convergence against manufactured solutions on the unit square."""

import numpy as np
import pytest

import disol
from disol.fem import ELEMENTS, System, consistent_load, forms
from disol.grid import Grid

PI = np.pi
WIDTHS = (8, 16, 32)


def sine(x, y):
    return np.sin(PI * x) * np.sin(PI * y)


def interior_nodes(side: int) -> np.ndarray:
    free = np.zeros((side + 1, side + 1), dtype=bool)
    free[1:-1, 1:-1] = True
    return free


def l2_error(element, nodes, exact) -> float:
    """‖u_h − u‖ over the unit square, by the element's own quadrature."""
    side = nodes.shape[-1] - 1
    grid = Grid(side, side)
    corners = np.stack([nodes[:-1, :-1], nodes[:-1, 1:], nodes[1:, 1:], nodes[1:, :-1]])
    total = 0.0
    for weight, values, position in zip(element.weights, element.values, element.positions, strict=True):
        difference = np.tensordot(values, corners, 1) - exact(*grid.points(*position))
        total += weight * (difference**2).sum()
    return float(np.sqrt(total))


def orders(errors) -> np.ndarray:
    return np.log2(np.array(errors[:-1]) / errors[1:])


@pytest.mark.parametrize("name", ELEMENTS)
@pytest.mark.parametrize(
    ("velocity", "upwind"),
    [((0.0, 0.0), False), ((0.5, -1.0), False), ((0.5, -1.0), True)],
    ids=["poisson", "galerkin", "upwind"],
)
def test_scalar_error_falls_fourfold_when_the_mesh_width_halves(name, velocity, upwind):
    diffusion = 0.2

    def source(x, y):
        advected = velocity[0] * PI * np.cos(PI * x) * np.sin(PI * y) + velocity[1] * PI * np.sin(PI * x) * np.cos(
            PI * y
        )
        return 2 * diffusion * PI**2 * sine(x, y) + advected

    errors = []
    for side in WIDTHS:
        element = ELEMENTS[name](1 / side)
        matrix = diffusion * forms.diffusion(element)
        test = forms.galerkin_test(element)
        if any(velocity):
            matrix = matrix + forms.advection(element, velocity)
        if upwind:
            matrix = matrix + forms.streamline_diffusion(element, velocity)
            test = forms.upwind_test(element, velocity)
        domain = np.ones((side, side), dtype=bool)
        load = consistent_load(element, test, domain, source)
        nodes = System(domain, matrix, interior_nodes(side)[None], load[None]).solve()[0]
        errors.append(l2_error(element, nodes[0], sine))
    if upwind:  # w leaves the diffusion term alone, so the scheme is consistent to first order only
        assert orders(errors)[-1] > 0.8
    else:
        assert orders(errors) == pytest.approx(2.0, abs=0.12)


@pytest.mark.parametrize("name", ELEMENTS)
@pytest.mark.parametrize("plane", ["strain", "stress"])
def test_displacement_error_falls_fourfold_when_the_mesh_width_halves(name, plane):
    stiffness = forms.hooke(1e3, 0.3, plane)
    direct, first, shear = stiffness[0, 0], stiffness[0, 1], stiffness[2, 2]

    # U = (s, s) with s = sin πx sin πy, and f = −div σ(U)
    def body_force(x, y):
        mixed = np.cos(PI * x) * np.cos(PI * y)
        return PI**2 * ((direct + shear) * sine(x, y) - (first + shear) * mixed)

    errors = []
    for side in WIDTHS:
        element = ELEMENTS[name](1 / side)
        domain = np.ones((side, side), dtype=bool)
        load = consistent_load(element, element.values, domain, body_force)
        free = np.stack([interior_nodes(side)] * 2)
        nodes = System(domain, forms.elasticity(element, stiffness), free, np.stack([load, load])).solve()[0]
        errors.append(np.hypot(*(l2_error(element, component, sine) for component in nodes)))
    assert orders(errors) == pytest.approx(2.0, abs=0.15)


@pytest.mark.parametrize("element", ELEMENTS)
def test_dirichlet_pixels_pin_one_layer_too_many_and_cost_one_order(element):
    errors = []
    for side in (16, 32, 64):
        domain = np.ones((side, side), dtype=bool)
        border = domain.copy()
        border[1:-1, 1:-1] = False
        exact = disol.solve_exact(
            "poisson",
            domain=domain,
            dirichlet=border,
            source=lambda x, y: 2 * PI**2 * sine(x, y),
            element=element,
            conventions="paper",
        )
        errors.append(l2_error(ELEMENTS["q1"](1 / side), exact.nodes[0], sine))
    assert orders(errors) == pytest.approx(1.0, abs=0.12)


def decay_through_pixels(steps_per_frame: int) -> tuple[float, float, float]:
    """Let a sine decay for 20 s; return what is left, what backward Euler promises, and what the ODE promises."""
    side = 18
    h, inner = 1 / side, side - 2
    domain = np.ones((side, side), dtype=bool)
    border = domain.copy()
    border[1:-1, 1:-1] = False
    exact = disol.solve_exact(
        "heat",
        domain=domain,
        dirichlet=border,
        source=np.zeros((side, side)),
        initial=lambda x, y: sine((x - h) / (inner * h), (y - h) / (inner * h)),
        times=[20.0],
        steps_per_frame=steps_per_frame,
        conventions="paper",
    )
    # The sine is an eigenvector of the bilinear element on this square: M and K act on it as numbers.
    cosine = np.cos(PI / inner)
    stretch, mass = 2 - 2 * cosine, (4 + 2 * cosine) / 6
    rate = 0.01 * 2 * stretch / (mass * h**2)
    step = 2.0 / steps_per_frame
    middle = exact.nodes[0, 0, side // 2, side // 2]
    return float(middle), (1 + step * rate) ** -(20.0 / step), float(np.exp(-20.0 * rate))


@pytest.mark.parametrize("steps_per_frame", [1, 4])
def test_heat_decays_exactly_as_backward_euler_of_its_eigenvalue(steps_per_frame):
    left, promised, _ = decay_through_pixels(steps_per_frame)
    assert left == pytest.approx(promised, rel=1e-12)


def test_time_error_halves_when_the_step_halves():
    errors = [abs(left - ode) for left, _, ode in map(decay_through_pixels, (8, 16, 32))]
    assert orders(errors) == pytest.approx(1.0, abs=0.1)


def test_pixel_geometry_is_first_order_on_a_disc():
    # −ΔU = 1 on a disc of radius r pinned all around: U = (r² − ρ²) / 4.
    radius = 0.4
    errors = []
    for side in (32, 64, 128):
        x, y = Grid(side, side).pixel_centres()
        domain = np.hypot(x - 0.5, y - 0.5) < radius
        inner = np.hypot(x - 0.5, y - 0.5) < radius - 1.5 / side
        exact = disol.solve_exact(
            "poisson", domain=domain, dirichlet=domain & ~inner, source=lambda x, y: 1.0 + 0 * x, conventions="paper"
        )
        errors.append(abs(exact.amplitude - radius**2 / 4))
    assert orders([errors[0], errors[2]]) / 2 == pytest.approx(1.0, abs=0.3)
