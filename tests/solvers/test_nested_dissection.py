"""The batched direct solver is exact on every domain."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from solver_cases import (
    DISCRETISATIONS,
    advective_matrix,
    drawn_systems,
    operator_of,
    poisson_system,
    relative_error,
    serpentine,
)

from disol.fem import System
from disol.geometry.shapes import HOLES
from disol.solvers import CheckedSolver, Elimination, factorise
from disol.solvers.nested_dissection import DEFAULT
from disol.solvers.partition import padded_side, partition
from disol.solvers.pivots import inverse_factors

VARIANTS = {
    "library pivots": Elimination(base=10_000),
    "pivots by products": Elimination(base=1),
    "nothing shared": Elimination(shared=0.0),
    "everything shared": Elimination(shared=1.0),
    "nothing compact": Elimination(compact=10_000),
    "everything compact": Elimination(compact=0),
    "one group": Elimination(groups=1),
    "many groups": Elimination(compact=0, groups=100),
}


def solve(operator, loads, settings=DEFAULT):
    return factorise(operator, settings).solve(loads)


def solved_by_reference(systems):
    return np.concatenate([system.solve() for system in systems])


@pytest.mark.parametrize("shift", [None, "all"])
@pytest.mark.parametrize(("problem", "conventions"), DISCRETISATIONS)
def test_solution_is_that_of_the_reference(problem, conventions, shift):
    systems = drawn_systems(problem, range(3), resolution=40, shift=shift, conventions=conventions)
    operator, loads = operator_of(systems)
    nodes = solve(operator, loads)
    assert relative_error(nodes, solved_by_reference(systems)) < 1e-9
    assert operator.backward_error(nodes, loads).max() < 1e-15


@pytest.mark.parametrize("problem", ["poisson", "advection-diffusion-high", "elasticity"])
def test_solution_is_that_of_the_reference_on_the_problems_own_grid(problem):
    systems = drawn_systems(problem, [11, 12], resolution=None, shift="all")
    assert relative_error(solve(*operator_of(systems)), solved_by_reference(systems)) < 1e-9


@pytest.mark.parametrize("problem", ["poisson", "elasticity"])
def test_solution_is_that_of_the_reference_on_named_shapes_with_holes(problem):
    systems = [drawn_systems(problem, [0], shift=f"shape:{name}+hole")[0] for name in HOLES]
    assert relative_error(solve(*operator_of(systems)), solved_by_reference(systems)) < 1e-9


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS.keys())
@pytest.mark.parametrize("problem", ["poisson", "advection-diffusion-low", "elasticity"])
def test_every_variant_gives_the_same_solution(problem, variant):
    operator, loads = operator_of(drawn_systems(problem, range(2), resolution=40, shift="all"))
    assert relative_error(solve(operator, loads, variant), solve(operator, loads).numpy()) < 1e-10


@pytest.mark.parametrize("shape", [(1, 1), (2, 5), (7, 3), (17, 40), (33, 12), (50, 50)])
@pytest.mark.parametrize("advective", [False, True])
def test_any_height_and_width_will_do(shape, advective):
    rng = np.random.default_rng(3)
    mask = np.ones(shape, dtype=bool)
    dirichlet = np.zeros(shape, dtype=bool)
    dirichlet[0, 0] = shape != (1, 1)
    system = poisson_system(mask, dirichlet)
    free = system.free.copy()
    free[0, 0, 0] = False
    matrix = advective_matrix(1 / shape[0]) if advective else system.element_matrix
    system = System(mask, matrix, free, rng.standard_normal(free.shape))
    operator, loads = operator_of([system])
    assert relative_error(solve(operator, loads), system.solve()) < 1e-9


@pytest.mark.parametrize("advective", [False, True])
@pytest.mark.parametrize("walls", [serpentine(32, 32), serpentine(48, 31).T], ids=["rows", "columns"])
def test_corridors_one_pixel_wide_are_solved_to_rounding(walls, advective):
    dirichlet = np.zeros_like(walls)
    dirichlet[0, 0] = True
    system = poisson_system(np.ascontiguousarray(walls), dirichlet)
    if advective:
        system = System(system.mask, advective_matrix(1 / walls.shape[0]), system.free, system.load)
    operator, loads = operator_of([system])
    nodes, error, _ = CheckedSolver.of(operator).solve(loads)
    assert error[0] <= 1e-14
    assert operator.backward_error(solve(operator, loads), loads)[0] <= 1e-14
    assert nodes.abs().max() > 0


def test_one_dirichlet_pixel_is_enough():
    mask, dirichlet = np.ones((64, 64), dtype=bool), np.zeros((64, 64), dtype=bool)
    dirichlet[20, 31] = True
    system = poisson_system(mask, dirichlet)
    assert relative_error(solve(*operator_of([system])), system.solve()) < 1e-9


@pytest.mark.parametrize("problem", ["poisson", "advection-diffusion-high", "elasticity"])
def test_cases_of_a_batch_do_not_interact(problem):
    systems = drawn_systems(problem, range(4), shift="all")
    operator, loads = operator_of(systems)
    together = solve(operator, loads)
    for case in range(4):
        alone = solve(operator[case : case + 1], loads[case : case + 1])
        assert relative_error(together[case], alone[0].numpy()) < 1e-10


@pytest.mark.parametrize("problem", ["poisson", "advection-diffusion-high", "elasticity"])
def test_many_loads_share_one_factorisation(problem):
    operator, loads = operator_of(drawn_systems(problem))
    factors = factorise(operator)
    several = torch.stack([loads, 2 * loads, loads.flip(-1) * operator.free], dim=-1)
    solutions = factors.solve(several)
    assert solutions.shape == several.shape
    for column in range(3):
        assert relative_error(solutions[..., column], factors.solve(several[..., column]).numpy()) < 1e-10
    assert relative_error(solutions[..., 1], 2 * solutions[..., 0].numpy()) < 1e-12


def test_equal_geometries_are_factorised_once():
    system = drawn_systems("poisson", [0])[0]
    operator, loads = operator_of([system] * 5)
    factors = factorise(operator)
    assert max(len(step.left) for step in factors.steps if step.level == len(factors.partition.merges)) == 1
    assert relative_error(factors.solve(loads), np.concatenate([system.solve()] * 5)) < 1e-9


@pytest.mark.parametrize("problem", ["poisson", "advection-diffusion-high"])
def test_factors_of_their_own_give_every_box_the_same_solution(problem):
    operator, loads = operator_of(drawn_systems(problem))
    factors = factorise(operator)
    assert relative_error(factors.unshared().solve(loads), factors.solve(loads).numpy()) < 1e-14


def test_loads_on_values_that_are_not_free_do_nothing():
    operator, loads = operator_of(drawn_systems("elasticity"))
    assert torch.equal(solve(operator, loads), solve(operator, loads + ~operator.free))


def test_float32_solution_is_as_good_as_its_precision():
    operator, loads = operator_of(drawn_systems("poisson"), dtype=torch.float32)
    nodes = solve(operator, loads)
    assert nodes.dtype == torch.float32
    assert operator.backward_error(nodes, loads).max() < 1e-7


@given(pixels=st.integers(1, 300), fewest=st.sampled_from([1, 2]))
def test_padding_is_at_most_a_third(pixels, fewest):
    side, leaf = padded_side(pixels, fewest)
    assert side >= pixels
    assert side % leaf == 0
    assert pixels < 3 * fewest or side < 4 / 3 * pixels + 1


@settings(deadline=None, max_examples=10)
@given(height=st.integers(1, 40), width=st.integers(1, 40), components=st.sampled_from([1, 2]))
def test_every_unknown_is_eliminated_exactly_once(height, width, components):
    plan = partition(height, width, components, torch.device("cpu"))
    eliminated = [plan.leaves[:, : plan.inside]] + [merge.unknowns[:, : merge.eliminated] for merge in plan.merges]
    numbers = torch.cat([part.flatten() for part in eliminated])
    rows, columns = plan.shape
    assert torch.equal(numbers.sort().values, torch.arange((rows + 1) * (columns + 1) * components))


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("base", [1, 3, 8, 64])
@pytest.mark.parametrize("size", [1, 2, 9, 31])
def test_inverse_factors_multiply_to_the_inverse(size, base, symmetric):
    rng = np.random.default_rng(size)
    matrix = torch.from_numpy(rng.standard_normal((4, size, size)))
    matrix = (
        matrix @ matrix.mT + size * torch.eye(size, dtype=torch.float64)
        if symmetric
        else matrix.tril() + (matrix.triu() + 2 * size * torch.eye(size, dtype=torch.float64))
    )
    left, right = inverse_factors(matrix, symmetric, base)
    assert torch.allclose(matrix @ right @ left, torch.eye(size, dtype=torch.float64).expand_as(matrix), atol=1e-10)


def test_loads_are_solved_in_the_precision_of_the_factors():
    operator, loads = operator_of(drawn_systems("poisson"), dtype=torch.float32)
    factors = factorise(operator)
    torch.testing.assert_close(factors.solve(loads.double()), factors.solve(loads), rtol=0, atol=0)
