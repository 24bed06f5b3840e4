"""Conditions by parts of the boundary, against closed forms."""

from typing import Any

import numpy as np
import pytest

import disol


def bar(side: int) -> np.ndarray:
    domain = np.zeros((side, side))
    domain[side // 4 : side // 2, side // 4 : 3 * side // 4] = 1
    return domain


def solved(side: int = 32, problem: str = "poisson", **data: Any) -> tuple[disol.Solution, np.ndarray]:
    found = disol.solve_exact(problem, domain=bar(side), conventions="physical", **data)
    x = (np.arange(side) + 0.5)[side // 4 : 3 * side // 4] / side
    return found, x


def along(found: disol.Solution) -> np.ndarray:
    side = found.domain.shape[0]
    return found.field[..., side // 4 : side // 2, side // 4 : 3 * side // 4]


def test_linear_solutions_between_values_fluxes_and_exchange_are_exact() -> None:
    found, x = solved(dirichlet={"left": 20, "right": "160*x - 40"})
    assert along(found)[0] == pytest.approx(np.broadcast_to(20 + 120 * (x - 0.25), (8, 16)), rel=1e-9)
    found, x = solved(dirichlet={"left": 20}, flux={"right": 6}, diffusion=2.0)
    assert along(found)[0] == pytest.approx(np.broadcast_to(20 + 3 * (x - 0.25), (8, 16)), rel=1e-9)
    # 2 U' = 4 (50 − U) at the right end, half a unit away: U' = 30.
    found, x = solved(dirichlet={"left": lambda x, y: 20 + 0 * x}, convection={"right": (4, 50)}, diffusion=2.0)
    assert along(found)[0] == pytest.approx(np.broadcast_to(20 + 30 * (x - 0.25), (8, 16)), rel=1e-9)


def test_values_on_an_edge_converge_with_order_two() -> None:
    def exact(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.exp(3 * x) * np.cos(3 * y)  # harmonic

    errors = []
    for side in (64, 128):
        found, x = solved(side, dirichlet={"outer": exact})
        y = (np.arange(side) + 0.5)[side // 4 : side // 2] / side
        errors.append(np.sqrt(np.mean((along(found)[0] - exact(x[None], y[:, None])) ** 2)))
    assert np.log2(errors[0] / errors[1]) > 1.8


def test_a_wall_that_loses_heat_follows_its_cosines_with_order_two() -> None:
    # −U'' = f with U = cos(3 x) between a value and exchange with what is outside: U' = h (U_out − U).
    h, end = 2.0, 0.75
    outside = float(np.cos(3 * end) - 3 * np.sin(3 * end) / h)
    errors = []
    for side in (16, 32, 64):
        data: dict[str, Any] = {"dirichlet": {"left": "cos(3*x)"}, "convection": {"right": (h, outside)}}
        found, x = solved(side, source=lambda x, y: 9 * np.cos(3 * x), **data)
        errors.append(np.sqrt(np.mean((along(found)[0] - np.cos(3 * x)) ** 2)))
    assert min(errors[0] / errors[1], errors[1] / errors[2]) > 3.5, errors


def test_a_beam_of_sixteen_pixels_bends_within_a_per_cent_of_timoshenko() -> None:
    domain = np.zeros((144, 144))
    domain[64:80, 8:136] = 1
    depth, length, young, ratio, traction = 16 / 144, 128 / 144, 1e3, 0.3, 0.01
    data: dict[str, Any] = {"fix_x": {"left": 0}, "fix_y": {"left": 0}, "force_y": {"right": traction}}
    found = disol.solve_exact(
        "elasticity", domain=domain, conventions="physical", young=young, poisson_ratio=ratio, **data
    )
    stiff, shear = young / (1 - ratio**2), young / (2 * (1 + ratio))  # plane strain
    force, x = traction * depth, length - 0.5 / 144
    bending = force * x**2 * (3 * length - x) / (6 * stiff * depth**3 / 12)
    expected = bending + force * x / (5 / 6 * shear * depth)
    assert found.field[1, 71:73, 135].mean() == pytest.approx(expected, rel=0.01)


def test_the_total_load_of_a_traction_is_its_value_times_the_length() -> None:
    data: dict[str, Any] = {"fix_x": {"left": 0}, "fix_y": {"left": 0}, "force_y": {"right": 100}}
    system = disol.system("elasticity", domain=bar(32), conventions="physical", **data)
    component = system.unknowns[:, 0]
    assert system.load[component == 1].sum() == pytest.approx(100 * 0.25)
    assert np.abs(system.load[component == 0]).max() == 0


def test_a_displacement_can_be_prescribed() -> None:
    data: dict[str, Any] = {"fix_x": {"left": 0, "right": 0.1}, "fix_y": {"near:0.3,0.25": 0, "bottom": 0}}
    found, x = solved(32, "elasticity", **data)
    assert along(found)[0] == pytest.approx(np.broadcast_to(0.2 * (x - 0.25), (8, 16)), abs=1e-9)


def test_a_traction_may_depend_on_the_normal() -> None:
    held: dict[str, Any] = {"fix_x": {"left": 0}, "fix_y": {"left": 0}}
    pulled, _ = solved(32, "elasticity", **held, force_x={"right": 3})
    pressed, _ = solved(32, "elasticity", **held, force_x={"right": lambda x, y, nx, ny: 3 * nx})
    assert pressed.field == pytest.approx(pulled.field, abs=1e-15)
    assert pressed.case.terms["force_x"][8:16, 23].all()


def test_parameters_with_defaults_are_the_functions_own() -> None:
    held: dict[str, Any] = {"dirichlet": {"left": 0}}
    for flux in (lambda x, y, a=6.0, b=0.0: a + b * x, lambda x, y, a=6.0: a + 0 * x):
        assert solved(**held, flux={"right": flux})[0].total_flux("right") == pytest.approx(6 * 0.25)
    for outward in (lambda x, y, nx, ny, a=6.0, b=0.0: a * nx + b, lambda x, y, nx=0, ny=0: 6 * nx):
        assert solved(**held, flux={"right": outward})[0].total_flux("right") == pytest.approx(6 * 0.25)


def test_a_function_need_not_be_written_in_python() -> None:
    found, _ = solved(dirichlet={"left": np.hypot, "right": np.arctan2})
    same, _ = solved(dirichlet={"left": lambda x, y: np.hypot(x, 1 * y), "right": "arctan2(x, y)"})
    assert (found.field == same.field).all()
    with pytest.raises(disol.DisolError, match="must be a function of arrays x and y"):
        solved(dirichlet={"left": max})


def test_markers_show_where_a_case_is_held_and_loaded() -> None:
    found, _ = solved(dirichlet={"left": 20}, flux={"right": 6})
    held = found.case.channel("dirichlet")
    assert held[8:16, 8].all()
    assert held.sum() == 8
    assert solved(dirichlet={"left": 0})[0].estimate_distance() == 0


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"dirichlet": {"inside": 1}}, "There is no part 'inside'"),
        ({"dirichlet": {"left": 1}, "flux": {"left": 1}}, "dirichlet on 'left' and flux on 'left' share a piece"),
        ({"dirichlet": {"left": np.nan}}, "dirichlet must be finite"),
        ({"dirichlet": {"left": "1/(x - x)"}}, "dirichlet on 'left' holds NaN or infinite values"),
        (
            {"dirichlet": {"left": 1}, "convection": {"right": (3, "log(-x)")}},
            "U_out of convection on 'right' holds NaN",
        ),
        ({"dirichlet": {"left": 1}, "convection": {"right": ("log(-x)", 3)}}, "h of convection on 'right' holds NaN"),
        ({"dirichlet": {"left": 1}, "flux": {"right": "log(-x)"}}, "flux on 'right' holds NaN or infinite values"),
        ({"dirichlet": {}}, "dirichlet must map parts"),
        ({"flux": {"left": 1}}, "is not held against a constant"),
        ({"dirichlet": {"left": 1}, "convection": {"right": 3}}, r"convection must be \(h, U_out\)"),
        ({"dirichlet": {"left": 1}, "convection": {"right": (-1, 3)}}, "h of convection must be positive"),
        ({"convection": {"right": ("y - 0.4", 3)}}, "h of convection must not be negative"),
    ],
)
def test_what_cannot_be_stated_is_told_in_one_line(data: dict[str, Any], message: str) -> None:
    with pytest.raises(disol.DisolError, match=message):
        solved(**data)
    with pytest.raises(disol.DisolError, match="conventions='physical'"):
        disol.solve_exact("poisson", domain=bar(32), dirichlet={"left": 1}, conventions="paper")
