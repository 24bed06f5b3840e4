"""Gradients of the exact solution, against central differences of whole solutions."""

import copy
import json
import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import disol
from disol.fem import solve as direct

SIDE = 16
RNG = np.random.default_rng(7)
SMOOTH = 1 + RNG.random((SIDE, SIDE))
TENSOR = np.array([[2.0, 0.5], [0.5, 1.0]])
PLATE = np.zeros((SIDE, SIDE))
PLATE[2:14, 3:13] = 1
PLATE[6:9, 6:9] = 0


def drawn(problem: str) -> disol.Case:
    return disol.draw(problem, seed=3, resolution=SIDE, conventions="physical")


def plate(**data: Any) -> dict[str, Any]:
    return {"domain": PLATE, "conventions": "physical", **data}


def slope(functional: Callable[[float], float], step: float) -> float:
    """f'(0), of fourth order."""
    near, far = (functional(size) - functional(-size) for size in (step, 2 * step))
    return (8 * near - far) / (12 * step)


def require_slopes(problem: str | disol.Case, names: tuple[str, ...], data: dict[str, Any]) -> None:
    """Compare the gradient in numbers and arrays, along a random direction, with differences of solutions."""
    found = disol.solve_exact(problem, **data)
    weights = np.random.default_rng(0).standard_normal(found.field.shape)
    gradients = disol.solve_adjoint(found, weights)

    def functional(name: str, value: np.ndarray, direction: np.ndarray, size: float) -> float:
        moved = value + size * direction
        changed = disol.solve_exact(problem, **{**data, name: moved if moved.ndim else float(moved)})
        return float((weights * changed.field).sum())

    for name in names:
        value = np.asarray(data[name], dtype=float)
        direction = np.random.default_rng(1).standard_normal(value.shape)
        if value.shape[:2] == (2, 2):
            direction = direction + direction.swapaxes(0, 1)

        expected = slope(
            partial(functional, name, value, direction), 2e-4 * np.abs(value).max() / np.abs(direction).max()
        )
        assert np.shape(gradients[name]) == value.shape
        assert float((gradients[name] * direction).sum()) == pytest.approx(expected, rel=1e-6), name


@pytest.mark.parametrize(
    ("problem", "data"),
    [
        ("poisson", {"diffusion": 2.0}),
        ("poisson", {"diffusion": SMOOTH, "reaction": 3.0}),
        ("poisson", {"diffusion": TENSOR}),
        ("poisson", {"diffusion": TENSOR[:, :, None, None] * SMOOTH, "reaction": SMOOTH}),
        ("advection-diffusion-high", {"diffusion": 0.2, "velocity": np.array([3.0, -5.0])}),
        (
            "advection-diffusion-high",
            {"diffusion": SMOOTH / 5, "velocity": np.stack([3 * SMOOTH, -SMOOTH.T]), "reaction": 9 * SMOOTH},
        ),
        ("elasticity", {"young": 7.0, "poisson_ratio": 0.3}),
        ("elasticity", {"young": SMOOTH, "poisson_ratio": SMOOTH / 5}),
        ("heat", {"conductivity": SMOOTH / 100, "density": 1.5, "capacity": SMOOTH.T}),
        ("heat", {"conductivity": TENSOR / 100, "density": SMOOTH}),
    ],
)
def test_gradients_in_coefficients_of_drawn_cases_are_slopes(problem: str, data: dict[str, Any]) -> None:
    require_slopes(drawn(problem), tuple(data), data)


@pytest.mark.filterwarnings("ignore:.*walls thinner than 4 pixels")
@pytest.mark.parametrize("index", [0, 20, 70])
def test_gradients_of_bodies_with_slivers_are_slopes(index: int) -> None:
    """Their matrices lack more than the last places, which solutions are refined by, and adjoints are huge there."""
    body = disol.draw("elasticity", seed=1, index=index, resolution=24, conventions="physical")
    require_slopes(body, ("young",), {"young": np.full((24, 24), 1000.0)})


def test_gradients_in_coefficients_and_loads_of_a_mask_are_slopes() -> None:
    flowing = plate(dirichlet={"left": 1.0, "right": "2 + y"}, flux={"hole1": 5.0}, convection={"top": (3.0, 20.0)})
    flowing |= {"source": SMOOTH, "diffusion": SMOOTH, "velocity": np.array([3.0, 4.0])}
    require_slopes("advection-diffusion-high", ("source", "diffusion", "velocity"), flowing)
    for exchange in (3.0, 300.0):
        cooled = plate(flux={"hole1": 5.0}, convection={"top": (exchange, 20.0)}, diffusion=SMOOTH)  # no value is held
        require_slopes("poisson", ("diffusion",), cooled)
    held, pulled = np.zeros((2, SIDE, SIDE))
    held[2:14, 3], pulled[2:14, 12] = 1, 1 + RNG.random(12)
    clamped = plate(fix_x=held, fix_y=held, force_x=0 * pulled, force_y=pulled, young=SMOOTH, poisson_ratio=0.3)
    require_slopes("elasticity", ("young", "poisson_ratio"), clamped)
    heated = plate(dirichlet=held, source=SMOOTH * PLATE, initial=SMOOTH.T * PLATE, times=[0, 2, 8])
    require_slopes("heat", ("source", "initial"), heated)


def test_the_gradient_in_forces_of_a_mask_knows_pixels_without_a_force_too() -> None:
    held, pulled, others = np.zeros((3, SIDE, SIDE))
    held[2:14, 3], pulled[2:14, 12], others[2, 4:12] = 1, 2, 1
    data = plate(fix_x=held, fix_y=held, force_x=pulled, force_y=0 * pulled)
    found = disol.solve_exact("elasticity", **data)
    weights = np.random.default_rng(0).standard_normal(found.field.shape)
    gradients = disol.solve_adjoint(found, weights, of=("force_x", "force_y"))
    for name in ("force_x", "force_y"):
        moved = disol.solve_exact("elasticity", **{**data, name: data[name] + others})
        change = float((weights * (moved.field - found.field)).sum())  # the solution is linear in forces
        assert float((gradients[name] * others).sum()) == pytest.approx(change, rel=1e-9)


def add(value: Any, size: float) -> Any:
    return (lambda x, y: value(x, y) + size) if callable(value) else value + size


def add_to_part(parts: dict[str, Any], part: str, place: int | None, size: float) -> dict[str, Any]:
    """Add a constant to what is stated of a part, of a pair to one of both."""
    value = parts[part]
    if place is None:
        return {**parts, part: add(value, size)}
    return {**parts, part: tuple(add(each, size) if at == place else each for at, each in enumerate(value))}


@pytest.mark.parametrize(
    ("problem", "data"),
    [
        (
            "advection-diffusion-high",
            {
                "dirichlet": {"left": 1.0, "right": lambda x, y: 2 + x * y},
                "flux": {"hole1": 5.0},
                "convection": {"top": (3.0, lambda x, y: 20 + x)},
            },
        ),
        (
            "elasticity",
            {
                "fix_x": {"left": 0.0, "right": 0.01},
                "fix_y": {"left": 0.0},
                "force_x": {"hole1": 1.0},
                "force_y": {"right": lambda x, y: y},
            },
        ),
        ("heat", {"dirichlet": {"left": 1.0, "hole1": lambda x, y: x}, "initial": SMOOTH, "times": [2, 6]}),
        ("poisson", {"flux": {"left": 5.0}, "convection": {"top": (300.0, 2.0), "hole1": (lambda x, y: 400 * x, 1.0)}}),
    ],
)
def test_gradients_in_what_is_stated_by_parts_are_slopes(problem: str, data: dict[str, Any]) -> None:
    found = disol.solve_exact(problem, **plate(**data))
    weights = np.random.default_rng(0).standard_normal(found.field.shape)
    gradients = disol.solve_adjoint(found, weights)

    def functional(name: str, part: str, place: int | None, size: float) -> float:
        moved = {**data, name: add_to_part(data[name], part, place, size)}
        return float((weights * disol.solve_exact(problem, **plate(**moved)).field).sum())

    for name in {*data} - {"initial", "times"}:
        assert gradients[name].keys() == data[name].keys()
        for part, derivative in gradients[name].items():
            for place in (0, 1) if name == "convection" else (None,):
                expected = slope(partial(functional, name, part, place), 1e-3)
                found = derivative if place is None else derivative[place]
                assert found == pytest.approx(expected, rel=1e-6), (name, part)


def test_the_gradient_in_a_function_is_that_in_what_is_added_to_it_on_each_pixel() -> None:
    functions: dict[str, Callable[..., np.ndarray]] = {
        "diffusion": lambda x, y: 1 + x * y,
        "velocity": lambda x, y: np.stack([1 + x * y, 3 - x]),
        "reaction": lambda x, y: np.where(x < 0.3, 0.0, 20 * y),  # less than 0 is not allowed
    }
    case, weights = drawn("poisson"), np.random.default_rng(0).standard_normal((1, SIDE, SIDE))
    gradients = disol.solve_adjoint(disol.solve_exact(case, **functions), weights)

    def functional(name: str, added: np.ndarray, size: float) -> float:
        def moved(x: np.ndarray, y: np.ndarray) -> np.ndarray:
            return functions[name](x, y) + size * added[..., (y * SIDE).astype(int), (x * SIDE).astype(int)]

        return float((weights * disol.solve_exact(case, **{**functions, name: moved}).field).sum())

    for name in functions:
        added = np.random.default_rng(1).random(gradients[name].shape)
        if name == "reaction":  # linear, and differences on one side are as good
            added[:, : SIDE // 2] = 0
        expected = slope(partial(functional, name, added), 1e-4)
        assert float((gradients[name] * added).sum()) == pytest.approx(expected, rel=1e-6), name


def test_walls_thinner_than_a_pixel_part_gradients_too(tmp_path: Path) -> None:
    outline = [[0.1, 0.1], [0.9, 0.1], [0.9, 0.9], [0.54, 0.9], [0.54, 0.3], [0.52, 0.3], [0.52, 0.9], [0.1, 0.9]]
    (tmp_path / "slit.json").write_text(json.dumps({"outer": outline}))
    case = disol.read_case(
        "poisson",
        str(tmp_path / "slit.json"),
        dirichlet="outer:0-0.2",
        source="1",
        resolution=SIDE,
        conventions="physical",
    )
    assert disol.system(case).cells.parted
    require_slopes(case, ("diffusion",), {"diffusion": SMOOTH})


@settings(max_examples=6)
@given(seed=st.integers(0, 10_000), problem=st.sampled_from(["poisson", "advection-diffusion-high"]))
def test_weights_pair_with_the_solution_as_their_adjoint_does_with_the_source(seed: int, problem: str) -> None:
    rng = np.random.default_rng(seed)
    source, weights = rng.standard_normal((SIDE, SIDE)) * PLATE, rng.standard_normal((1, SIDE, SIDE))
    solution = disol.solve_exact(problem, **plate(dirichlet={"left": 0}, source=source))
    adjoint = disol.solve_adjoint(solution, weights, of="source")["source"]
    scale = np.linalg.norm(adjoint) * np.linalg.norm(source)
    assert abs((adjoint * source).sum() - (weights * solution.field).sum()) < 1e-12 * scale


def test_factors_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = []
    factorise = direct.factorise
    monkeypatch.setattr(direct, "factorise", lambda matrix, pivot: counted.append(1) or factorise(matrix, pivot))
    solution = disol.solve_exact(drawn("poisson"), keep_factors=True)
    kept = disol.solve_adjoint(solution, solution.field)
    assert len(counted) == 1
    again = disol.solve_adjoint(disol.solve_exact(drawn("poisson")), solution.field)
    assert len(counted) == 3
    assert all(np.array_equal(kept[name], again[name]) for name in kept)
    heated = disol.solve_exact(drawn("heat"), keep_factors=True)
    disol.solve_adjoint(heated, heated.field)
    assert len(counted) == 5  # of the first step, which is taken in smaller ones, and of all others


def test_a_gradient_can_be_asked_for_by_every_name_of_a_coefficient() -> None:
    solution = disol.solve_exact(drawn("poisson"), conductivity=2.0)
    named, own = (disol.solve_adjoint(solution, solution.field, of=name) for name in ("conductivity", "diffusion"))
    assert named == {"conductivity": own["diffusion"]}


def test_what_has_no_gradient_is_refused() -> None:
    solution = disol.solve_exact(drawn("poisson"))
    with pytest.raises(
        disol.DisolError, match=r"d_field must have the shape of the field, \[1, 16, 16\], got \[16, 16\]"
    ):
        disol.solve_adjoint(solution, solution.field[0])
    with pytest.raises(disol.DisolError, match="d_field holds NaN or infinite"):
        disol.solve_adjoint(solution, np.full((1, SIDE, SIDE), np.nan))
    with pytest.raises(disol.DisolError, match=r"no gradient in 'dirichlet' here\. It has source, diffusion, velocity"):
        disol.solve_adjoint(solution, solution.field, of="dirichlet")
    with pytest.raises(disol.DisolError, match="no gradient in 3 here"):
        disol.solve_adjoint(solution, solution.field, of=[3])
    with pytest.raises(disol.DisolError, match="The gradient in diffusion overflows"):
        disol.solve_adjoint(disol.solve_exact(drawn("poisson"), diffusion=1e-200), np.full((1, SIDE, SIDE), 1e100))
    pixels = disol.draw("poisson", seed=3, resolution=SIDE, conventions="paper")
    for wrong in (disol.solve_exact(pixels), disol.solve_exact([pixels, pixels], device="cpu")):
        with pytest.raises(disol.DisolError, match="Gradients are for one case on its true boundary"):
            disol.solve_adjoint(wrong, wrong.field)
    with pytest.raises(disol.DisolError, match="Factors are kept for one case on a true boundary only"):
        disol.solve_exact(pixels, keep_factors=True)


def test_gradients_are_in_the_users_units_of_length_and_in_body_forces() -> None:
    parts: dict[str, Any] = {"dirichlet": {"left": 1.0}, "flux": {"hole1": 5.0}, "convection": {"top": (3.0, 20.0)}}
    sized = plate(**parts, source=SMOOTH, diffusion=SMOOTH, velocity=np.array([3.0, 4.0]), reaction=2.0, size=2.5)
    require_slopes("advection-diffusion-high", ("source", "diffusion", "velocity", "reaction"), sized)
    found = disol.solve_exact("advection-diffusion-high", **sized)
    weights = np.random.default_rng(0).standard_normal(found.field.shape)
    moved = disol.solve_exact("advection-diffusion-high", **{**sized, "flux": {"hole1": 6.0}})
    gradient = disol.solve_adjoint(found, weights, of="flux")["flux"]["hole1"]  # the solution is linear in fluxes
    assert gradient == pytest.approx(float((weights * (moved.field - found.field)).sum()), rel=1e-9)
    held = plate(fix_x={"left": 0}, fix_y={"left": 0}, size=2.5)
    require_slopes("elasticity", ("body_force",), {**held, "body_force": np.array([1.0, 2.0])})
    require_slopes("elasticity", ("body_force",), {**held, "body_force": np.stack([SMOOTH, SMOOTH.T])})


def test_a_copy_of_a_solution_computes_its_factors_again() -> None:
    solution = disol.solve_exact(drawn("poisson"), keep_factors=True)
    expected = disol.solve_adjoint(solution, solution.field)
    for other in (copy.deepcopy(solution), pickle.loads(pickle.dumps(solution))):
        found = disol.solve_adjoint(other, solution.field)
        assert all(np.array_equal(found[name], expected[name]) for name in expected)
