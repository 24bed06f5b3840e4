"""The size of a pattern follows from the discrete system, whatever the pattern's own error."""

import numpy as np
import pytest
import torch
from exact_engine import relative, rough, wavy

import disol
from disol.fem import ELEMENTS
from disol.inference.amplitude import minimise_residual, on_nodes, solve_from_pattern
from disol.problems.table import find_conventions
from disol.solvers import from_systems

STEADY = ("poisson", "advection-diffusion-low", "advection-diffusion-high", "elasticity")
DISCRETISATIONS = [(problem, conventions) for problem in STEADY for conventions in ("paper", "published")]


def pixels(array):
    return torch.from_numpy(np.asarray(array))


def posed_systems(problem, conventions, resolution=32, count=3):
    cases = [disol.draw(problem, 3, index, resolution=resolution, conventions=conventions) for index in range(count)]
    element, rules = ELEMENTS["q1"](1 / resolution), find_conventions(conventions)
    exact = np.stack([disol.solve_exact(case).field for case in cases])
    return *from_systems([case.equation.system(case.terms, rules, element) for case in cases]), exact


def amplitude_error(solved, exact):
    sizes = [np.abs(np.asarray(fields)).max(axis=(1, 2, 3)) for fields in (solved, exact)]
    return np.abs(sizes[0] / sizes[1] - 1).max()


@pytest.mark.parametrize(("problem", "conventions"), DISCRETISATIONS)
@pytest.mark.parametrize("error", [wavy, rough], ids=["smooth", "rough"])
def test_an_erring_pattern_gets_a_nearly_exact_amplitude(problem, conventions, error):
    operator, loads, exact = posed_systems(problem, conventions)
    pattern = exact / np.abs(exact).max(axis=(1, 2, 3), keepdims=True)
    solved = solve_from_pattern(operator, loads, pixels(error(pattern)), separate_fields=False)
    assert amplitude_error(solved, exact) < 0.02
    single_scale = np.abs(error(exact)).max(axis=(1, 2, 3)) / np.abs(exact).max(axis=(1, 2, 3)) - 1
    assert np.abs(single_scale).max() > 0.015  # what is to be beaten


@pytest.mark.parametrize(("problem", "conventions"), [("poisson", "paper"), ("advection-diffusion-high", "published")])
def test_a_direction_that_is_the_solution_gets_its_size_to_rounding(problem, conventions):
    operator, loads, _ = posed_systems(problem, conventions)
    solution = torch.from_numpy(np.stack([operator.system(case, loads[case]).solve() for case in range(len(loads))]))
    found = minimise_residual(operator, lambda residual: residual, operator.restrict(loads), [0.01 * solution]).nodes
    assert torch.allclose(found, solution, rtol=1e-9, atol=1e-12 * float(solution.abs().max()))


def test_fields_can_have_sizes_of_their_own():
    operator, loads, exact = posed_systems("elasticity", "published")
    pattern = exact / np.abs(exact).max(axis=(2, 3), keepdims=True)
    together = solve_from_pattern(operator, loads, pixels(pattern), separate_fields=False)
    separately = solve_from_pattern(operator, loads, pixels(pattern), separate_fields=True)
    assert amplitude_error(separately, exact) < 0.01
    assert amplitude_error(separately, exact) < amplitude_error(together, exact)


def test_the_solution_is_linear_in_the_load():
    operator, loads, exact = posed_systems("poisson", "paper")
    once = solve_from_pattern(operator, loads, pixels(wavy(exact)), separate_fields=False)
    assert torch.allclose(solve_from_pattern(operator, -7 * loads, pixels(wavy(exact)), False), -7 * once, rtol=1e-9)
    assert not solve_from_pattern(operator, 0 * loads, pixels(wavy(exact)), False).any()


def test_a_pattern_that_says_nothing_does_no_harm():
    operator, loads, exact = posed_systems("poisson", "paper")
    solved = solve_from_pattern(operator, loads, torch.zeros_like(pixels(exact)), separate_fields=False)
    assert amplitude_error(solved, exact) < 0.2  # two cycles from nothing


def test_a_direction_given_twice_counts_once():
    operator, loads, exact = posed_systems("poisson", "paper")
    nodes, right = on_nodes(operator, pixels(exact)), operator.restrict(loads)
    once, twice = (
        minimise_residual(operator, lambda residual: 0.1 * residual, right, [nodes] * count).nodes for count in (1, 2)
    )
    assert torch.allclose(once, twice, rtol=1e-8, atol=1e-10 * float(once.abs().max()))


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_a_cycle_that_breaks_down_leaves_no_number(wrong):
    operator, loads, exact = posed_systems("poisson", "paper")
    found = minimise_residual(
        operator, lambda residual: residual * wrong, operator.restrict(loads), [on_nodes(operator, pixels(exact))]
    )
    assert not found.nodes.isfinite().flatten(1).all(dim=1).any()


def plate_with_slits(pixels_wide, slits):
    domain = np.zeros((64, 64), dtype=bool)
    domain[6:58, 6:58] = True
    for number in range(slits):
        row = 6 + 52 * (number + 1) // (slits + 1)
        columns = slice(6, 54) if number % 2 else slice(10, 58)
        domain[row : row + pixels_wide, columns] = False
    held = np.zeros_like(domain)
    held[6] = domain[6]
    return domain, held


def corridor():
    domain = np.zeros((33, 33), dtype=bool)
    domain[0::2] = True
    domain[1::4, -1] = domain[3::4, 0] = True
    held = np.zeros_like(domain)
    held[0, 0] = True
    return domain, held


@pytest.mark.parametrize("problem", ["poisson", "advection-diffusion-high"])
@pytest.mark.parametrize(
    "geometry",
    [plate_with_slits(1, 1), plate_with_slits(2, 1), plate_with_slits(4, 1), plate_with_slits(1, 4), corridor()],
    ids=["slit of 1 pixel", "of 2 pixels", "of 4 pixels", "four slits", "corridor"],
)
def test_what_coarse_grids_do_not_see_is_found_all_the_same(problem, geometry):
    domain, held = geometry
    terms = {"domain": domain, "dirichlet": held, "source": np.ones(domain.shape)}
    exact = disol.solve_exact(problem, **terms)
    system = disol.PROBLEMS[problem].system(terms, find_conventions("paper"), ELEMENTS["q1"](1 / len(domain)))
    filled = {**terms, "domain": np.ones_like(domain)}  # a network that does not see them either
    pattern = pixels(disol.solve_exact(problem, **filled).pattern[None] * domain)
    solved = solve_from_pattern(*from_systems([system]), pattern, separate_fields=False)
    own_error = relative(solved.numpy()[0], exact.field)
    shape = pattern.numpy()[0]
    nearest = (shape * exact.field).sum() / (shape * shape).sum() * shape
    assert own_error < 0.1 * relative(nearest, exact.field)
    assert amplitude_error(solved, exact.field[None]) < 0.05


def test_few_steps_are_enough_where_coarse_grids_see_everything(monkeypatch):
    def fail(*_):
        raise AssertionError("more steps were taken")

    monkeypatch.setattr("disol.inference.amplitude.solve_unsure", fail)
    operator, loads, exact = posed_systems("poisson", "paper")
    solve_from_pattern(operator, loads, pixels(wavy(exact)), separate_fields=False)


def test_where_multigrid_breaks_down_the_direct_solver_helps(monkeypatch):
    monkeypatch.setattr("disol.inference.amplitude.Multigrid.v_cycle", lambda self, residual: residual * np.nan)
    operator, loads, exact = posed_systems("poisson", "paper")
    solved = solve_from_pattern(operator, loads, pixels(wavy(exact)), separate_fields=False)
    assert relative(solved.numpy(), exact) < 1e-9
