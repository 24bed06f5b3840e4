"""The matrix-free operator is the assembled matrix."""

import numpy as np
import pytest
import torch
from solver_cases import DISCRETISATIONS, drawn_systems, frobenius, on_unknowns, operator_of, relative_error

from disol.fem import assemble
from disol.solvers import DiscreteOperator


def random_fields(operator, *trailing):
    generator = torch.Generator().manual_seed(1)
    return torch.randn(*operator.free.shape, *trailing, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize(("problem", "conventions"), DISCRETISATIONS)
def test_operator_equals_the_assembled_matrix(problem, conventions):
    systems = drawn_systems(problem, conventions=conventions, shift="all")
    operator, loads = operator_of(systems)
    fields = random_fields(operator)
    products, diagonals, norms = operator.apply(fields), operator.diagonal(), operator.frobenius_norm()
    for case, system in enumerate(systems):
        matrix = assemble(system.mask, system.element_matrix, system.free)
        expected = matrix @ on_unknowns(fields[case], system.free)
        assert relative_error(on_unknowns(products[case], system.free), expected) < 1e-12
        assert relative_error(on_unknowns(diagonals[case], system.free), matrix.diagonal()) < 1e-12
        assert norms[case] == pytest.approx(frobenius(matrix), rel=1e-12)
        assert np.array_equal(loads[case], system.load)


@pytest.mark.parametrize("problem", ["poisson", "elasticity"])
def test_nothing_enters_or_leaves_through_values_that_are_not_free(problem):
    operator, _ = operator_of(drawn_systems(problem))
    fields = random_fields(operator)
    product = operator.apply(fields)
    assert torch.equal(product, operator.apply(fields + ~operator.free))
    assert not product[~operator.free].any()


def test_several_fields_along_the_last_axis_are_applied_one_by_one():
    operator, _ = operator_of(drawn_systems("elasticity"))
    fields = random_fields(operator, 3)
    together = operator.apply(fields)
    for column in range(3):
        assert torch.allclose(together[..., column], operator.apply(fields[..., column]), rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize(("problem", "symmetric"), [("elasticity", True), ("advection-diffusion-high", False)])
def test_energy_is_symmetric_exactly_where_the_operator_is(problem, symmetric):
    operator, _ = operator_of(drawn_systems(problem))
    left, right = random_fields(operator), random_fields(operator).flip(-1)
    assert operator.is_symmetric == symmetric
    assert torch.allclose(operator.energy(left, right), operator.energy(right, left)) == symmetric


def test_gradient_of_the_energy_is_twice_the_operator():
    operator, _ = operator_of(drawn_systems("poisson"))
    fields = random_fields(operator).requires_grad_()
    (gradient,) = torch.autograd.grad(operator.energy(fields, fields).sum(), fields)
    assert torch.allclose(gradient, 2 * operator.apply(fields))


def test_float32_operator_agrees_to_its_precision():
    operator, _ = operator_of(drawn_systems("elasticity"))
    fields = random_fields(operator)
    single = operator.to(dtype=torch.float32).apply(fields.float())
    assert single.dtype == torch.float32
    assert relative_error(single, operator.apply(fields).numpy()) < 1e-6


def test_stencil_agrees_with_the_operator_where_only_one_unknown_is_not_zero():
    operator, _ = operator_of(drawn_systems("advection-diffusion-high", indices=[0]))
    row, column = operator.free[0, 0].nonzero()[40].tolist()
    unit = torch.zeros(operator.free.shape, dtype=torch.float64)
    unit[0, 0, row, column] = 1
    image = operator.apply(unit)
    for (down, across), part in zip([(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1)], operator.stencil(), strict=True):
        assert part[0, 0, 0, row - down, column - across] == pytest.approx(image[0, 0, row - down, column - across])


def test_systems_of_different_problems_are_refused():
    poisson, advective = (drawn_systems(name, indices=[0])[0] for name in ("poisson", "advection-diffusion-low"))
    with pytest.raises(ValueError, match=r"must share grid and element matrix.*batches of their own"):
        operator_of([poisson, advective])
    with pytest.raises(ValueError, match="at least one system"):
        operator_of([])


def test_part_of_a_batch_is_the_operator_of_those_cases():
    operator, _ = operator_of(drawn_systems("poisson"))
    fields = random_fields(operator)
    part = operator[1:]
    assert isinstance(part, DiscreteOperator)
    assert len(part) == 2
    assert torch.equal(part.apply(fields[1:]), operator.apply(fields)[1:])
