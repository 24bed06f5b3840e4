"""Preconditioned iterations for a batch of cases, each of which stops when it has converged."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from disol.errors import DisolError
from disol.solvers.operator import DiscreteOperator, inner_product, length, unit_of

Nodes = Float[Tensor, "batch component rows columns"]


@dataclass(frozen=True, eq=False)
class IterativeSolution:
    """An approximate solution of each case.

    nodes               0 where values are not free
    iterations          number of iterations until the residual was small enough, or the most allowed
    relative_residual   ‖b − A u‖ / ‖b‖, as the iteration updates it
    """

    nodes: Nodes
    iterations: Int[Tensor, " batch"]
    relative_residual: Float[Tensor, " batch"]


@torch.no_grad()
def conjugate_gradients(
    operator: DiscreteOperator,
    loads: Nodes,
    precondition: Callable[[Nodes], Nodes],
    tolerance: float = 1e-10,
    most_iterations: int = 100,
) -> IterativeSolution:
    """Solve A u = b by preconditioned conjugate gradients until ‖r‖ ≤ tolerance · ‖b‖ in each case."""
    require_symmetric(operator)
    unit = unit_of(loads)
    residual = operator.restrict(loads / unit)
    nodes, iterations = torch.zeros_like(residual), torch.zeros(len(loads), dtype=torch.long, device=loads.device)
    goal = tolerance * length(residual)
    direction = torch.zeros_like(residual)
    previous = residual.new_ones(len(residual))
    for _ in range(most_iterations):
        running = length(residual) > goal
        if not running.any():
            break
        iterations += running
        correction = precondition(residual)
        product = inner_product(residual, correction)
        direction = correction + per_case(product / previous) * direction
        image = operator.apply(direction)
        step = per_case(torch.where(running, product / inner_product(direction, image), 0.0))
        nodes = nodes + step * direction
        residual = residual - step * image
        previous = torch.where(running, product, previous)
    return finished(operator, loads / unit, nodes, residual, iterations, unit)


@torch.no_grad()
def stabilised_biconjugate_gradients(
    operator: DiscreteOperator,
    loads: Nodes,
    precondition: Callable[[Nodes], Nodes],
    tolerance: float = 1e-10,
    most_iterations: int = 100,
) -> IterativeSolution:
    """Solve A u = b, symmetric or not, by preconditioned BiCGStab until ‖r‖ ≤ tolerance · ‖b‖ in each case.

    Each iteration applies A and M⁻¹ twice.
    """
    unit = unit_of(loads)
    residual = operator.restrict(loads / unit)
    shadow = residual
    nodes, iterations = torch.zeros_like(residual), torch.zeros(len(loads), dtype=torch.long, device=loads.device)
    goal = tolerance * length(residual)
    direction, image = torch.zeros_like(residual), torch.zeros_like(residual)
    previous = first_step = second_step = residual.new_ones(len(residual))
    for _ in range(most_iterations):
        running = length(residual) > goal
        if not running.any():
            break
        iterations += running
        product = inner_product(shadow, residual)
        turn = torch.where(running, quotient(product, previous) * quotient(first_step, second_step), 0.0)
        direction = residual + per_case(turn) * (direction - per_case(second_step) * image)
        first = precondition(direction)
        image = operator.apply(first)
        first_step = torch.where(running, quotient(product, inner_product(shadow, image)), 0.0)
        half_way = residual - per_case(first_step) * image
        second = precondition(half_way)
        second_image = operator.apply(second)
        # The residual is 0 where half an iteration has already solved the system.
        best = quotient(inner_product(second_image, half_way), inner_product(second_image, second_image))
        second_step = torch.where(running, best, 0.0)
        nodes = nodes + per_case(first_step) * first + per_case(second_step) * second
        residual = half_way - per_case(second_step) * second_image
        previous = product
    return finished(operator, loads / unit, nodes, residual, iterations, unit)


def finished(
    operator: DiscreteOperator,
    loads: Nodes,
    nodes: Nodes,
    residual: Nodes,
    iterations: Int[Tensor, " batch"],
    unit: Float[Tensor, "batch 1 1 1"],
) -> IterativeSolution:
    """Return what an iteration has reached, multiplied by the unit that loads were divided by."""
    norm = length(operator.restrict(loads))
    return IterativeSolution(nodes * unit, iterations, length(residual) / torch.where(norm > 0, norm, 1.0))


def quotient(dividend: Float[Tensor, " batch"], divisor: Float[Tensor, " batch"]) -> Float[Tensor, " batch"]:
    """Divide, and return 0 where the divisor is 0."""
    return torch.where(divisor == 0, 0.0, dividend / divisor)


def require_symmetric(operator: DiscreteOperator) -> None:
    """Refuse operators that conjugate gradients cannot solve."""
    if not operator.is_symmetric:
        raise DisolError(
            "Conjugate gradients need a symmetric operator, got one with advection. "
            "Use stabilised_biconjugate_gradients or the direct solver."
        )


def per_case(values: Float[Tensor, " batch"]) -> Float[Tensor, "batch 1 1 1"]:
    """Give one number per case the axes to multiply its field."""
    return values[:, None, None, None]
