"""A V-cycle is a symmetric approximate inverse, good enough for few iterations and for error estimates."""

import numpy as np
import pytest
import torch
from solver_cases import drawn_systems, operator_of, poisson_system, relative_error

from disol.solvers import (
    Multigrid,
    conjugate_gradients,
    multigrid,
    solve_batch,
    stabilised_biconjugate_gradients,
)
from disol.solvers.operator import inner_product


def random_like(operator, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return operator.restrict(torch.randn(operator.free.shape, generator=generator, dtype=torch.float64))


@pytest.mark.parametrize(("problem", "most"), [("poisson", 12), ("heat", 12), ("elasticity", 25)])
@pytest.mark.parametrize("resolution", [24, 37])
def test_conjugate_gradients_converge_in_few_iterations(problem, most, resolution):
    operator, loads = operator_of(drawn_systems(problem, resolution=resolution, shift="all"))
    solution = conjugate_gradients(operator, loads, Multigrid.of(operator).v_cycle)
    assert solution.iterations.max() <= most
    assert solution.relative_residual.max() <= 1e-10
    assert relative_error(solution.nodes, solve_batch(operator, loads).nodes.numpy()) < 1e-9


def test_iterations_do_not_grow_with_resolution():
    counts = []
    for resolution in (32, 64):
        operator, loads = operator_of(drawn_systems("poisson", resolution=resolution))
        counts.append(int(conjugate_gradients(operator, loads, Multigrid.of(operator).v_cycle).iterations.max()))
    assert counts[1] <= counts[0] + 2


@pytest.mark.parametrize("problem", ["poisson", "elasticity"])
def test_v_cycle_is_linear_symmetric_and_positive(problem):
    operator, _ = operator_of(drawn_systems(problem))
    cycle = Multigrid.of(operator).v_cycle
    left, right = random_like(operator, 1), random_like(operator, 2)
    assert torch.allclose(cycle(2 * left - right), 2 * cycle(left) - cycle(right), atol=1e-10)
    assert torch.allclose(inner_product(left, cycle(right)), inner_product(right, cycle(left)), rtol=1e-9)
    assert (inner_product(left, cycle(left)) > 0).all()


def test_v_cycle_keeps_what_is_not_free_at_zero():
    operator, _ = operator_of(drawn_systems("elasticity"))
    correction = Multigrid.of(operator).v_cycle(random_like(operator))
    assert not correction[~operator.free].any()


@pytest.mark.parametrize("roughness", [0.0, 0.01])
def test_energy_estimate_is_close_to_the_energy_error(roughness):
    operator, loads = operator_of(drawn_systems("poisson", range(6), resolution=64))
    exact = solve_batch(operator, loads).nodes
    smooth = 0.97 * exact + 0.05 * exact.abs().amax(dim=(2, 3), keepdim=True) * exact.square()
    guess = smooth + roughness * exact * random_like(operator)
    truth = operator.energy(guess - exact, guess - exact).sqrt()
    estimate = Multigrid.of(operator).energy_error_estimate(operator.residual(guess, loads))
    assert (estimate / truth).min() > 0.8
    assert (estimate / truth).max() < 1.1


def test_float32_cycles_precondition_float64_iterations():
    operator, loads = operator_of(drawn_systems("poisson"))
    cycle = Multigrid.of(operator.to(dtype=torch.float32)).v_cycle
    solution = conjugate_gradients(operator, loads, cycle)
    assert solution.iterations.max() <= 12
    assert solution.relative_residual.max() <= 1e-10


def test_long_grids_and_zero_loads_are_no_exception():
    mask, dirichlet = np.ones((16, 50), dtype=bool), np.zeros((16, 50), dtype=bool)
    dirichlet[:, 0] = True
    system = poisson_system(mask, dirichlet)
    operator, loads = operator_of([system, system])
    loads[1] = 0
    solution = conjugate_gradients(operator, loads, Multigrid.of(operator).v_cycle)
    assert relative_error(solution.nodes[0], system.solve()[0]) < 1e-9
    assert solution.iterations[1] == 0
    assert not solution.nodes[1].any()


def test_v_cycle_is_differentiable_in_the_residual():
    operator, _ = operator_of(drawn_systems("poisson", [0]))
    multigrid = Multigrid.of(operator)
    residual = random_like(operator, 3).requires_grad_()
    probe = random_like(operator, 4)
    # The scale of the residual is a constant factor in and out, so the gradient is that of a linear map.
    (gradient,) = torch.autograd.grad(inner_product(probe, multigrid.v_cycle(residual)).sum(), residual)
    assert torch.allclose(gradient, multigrid.v_cycle(probe), atol=1e-10)


@pytest.mark.parametrize("conventions", ["paper", "published"])
@pytest.mark.parametrize("problem", ["advection-diffusion-low", "advection-diffusion-high"])
def test_v_cycles_precondition_advection_too(problem, conventions):
    operator, loads = operator_of(drawn_systems(problem, shift="all", conventions=conventions))
    loads[1] = 0
    solution = stabilised_biconjugate_gradients(operator, loads, Multigrid.of(operator).v_cycle)
    assert solution.iterations.max() <= 10
    assert solution.relative_residual.max() <= 1e-10
    assert relative_error(solution.nodes, solve_batch(operator, loads).nodes.numpy()) < 1e-9


def test_conjugate_gradients_refuse_advection():
    operator, loads = operator_of(drawn_systems("advection-diffusion-low", [0]))
    with pytest.raises(ValueError, match="symmetric"):
        conjugate_gradients(operator, loads, lambda residual: residual)


def test_gradients_pass_through_a_cycle_whose_weights_were_first_used_without_any():
    multigrid.interpolation_kernel.cache_clear()
    operator, loads = operator_of(drawn_systems("poisson", resolution=16))
    with torch.inference_mode():
        Multigrid.of(operator).v_cycle(loads)
    cycle = Multigrid.of(operator).v_cycle
    residual = operator.restrict(loads).requires_grad_()
    other = random_like(operator)
    (slope,) = torch.autograd.grad(inner_product(cycle(residual), other).sum(), residual)
    assert torch.allclose(inner_product(slope, residual), inner_product(cycle(other), residual), rtol=1e-6)


@pytest.mark.parametrize("iterate", [conjugate_gradients, stabilised_biconjugate_gradients])
@pytest.mark.parametrize("size", [1e-170, 1e170])
def test_iterations_do_not_depend_on_the_size_of_the_load(iterate, size):
    operator, loads = operator_of(drawn_systems("poisson"))
    cycle = Multigrid.of(operator).v_cycle
    usual, found = (iterate(operator, scale * loads, cycle) for scale in (1.0, size))
    torch.testing.assert_close(found.nodes / size, usual.nodes, rtol=1e-9, atol=1e-12 * float(usual.nodes.abs().max()))
    assert torch.equal(found.iterations, usual.iterations)


def test_a_system_that_half_a_turn_solves_is_solved():
    mask, dirichlet = np.ones((2, 2), dtype=bool), np.zeros((2, 2), dtype=bool)
    dirichlet[0] = True
    dirichlet[1, 0] = True
    system = poisson_system(mask, dirichlet)
    assert system.free.sum() == 1
    operator, loads = operator_of([system])
    found = stabilised_biconjugate_gradients(operator, loads, Multigrid.of(operator).v_cycle)
    assert relative_error(found.nodes[0], system.solve()[0]) < 1e-9
