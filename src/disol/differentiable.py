"""Exact solutions that torch can differentiate: one forward solve, and one adjoint solve with the same factors."""

from collections.abc import Iterator, Mapping
from typing import Any, Unpack

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from disol._arrays import is_tensor
from disol.cases.case import Case
from disol.cases.given import CaseData
from disol.errors import DisolError
from disol.problems.conventions import Conventions
from disol.problems.problem import Problem
from disol.solutions.gradients import differentiable_names, solve_adjoint
from disol.solutions.solution import Solution
from disol.solutions.solve import as_case, solve_case

# Where a tensor is in the data: a name, for conditions also the part, and for convection 0 (h) or 1 (U_out).
Place = tuple[Any, ...]


def solve_differentiable(
    problem: str | Problem | Case,
    *,
    conventions: str | Conventions = "physical",
    **data: Unpack[CaseData],
) -> Float[Tensor, "*time field height width"]:
    """Solve one case on its true boundary, and let torch differentiate its field with respect to tensors of the data.

    The arguments are those of `solve_exact`. Tensors may be the source, the initial field, coefficients (numbers, one
    value per pixel, or conductivity tensors), forces on a mask, and numbers stated on parts of the boundary, as in
    dirichlet={"left": t} or convection={"top": (h, outside)}. The field is in double precision, on the CPU; gradients
    are returned on the devices of their tensors.
    """
    tensors = {place: value for place, value in _leaves(data) if value.requires_grad}
    given = {name: _to_numpy(value) for name, value in data.items() if value is not None}
    case = as_case(problem, None if isinstance(problem, Case) else conventions, given)
    if not case.conventions.true_boundary or case.is_batch:
        raise DisolError(
            f'Gradients are for one case on its true boundary, got {case}. Pass one, with conventions="physical".'
        )
    known = differentiable_names(case)
    for name in dict.fromkeys(place[0] for place in tensors):
        if name not in known:
            raise DisolError(
                f"{case.problem.name} has no gradient in {name} here. It has {', '.join(known)}. "
                "Pass tensor.detach() for what is fixed."
            )
    solution = solve_case(case, keep_factors=bool(tensors) and torch.is_grad_enabled())
    return _Solve.apply(solution, list(tensors), *tensors.values())  # type: ignore[no-untyped-call]


def _leaves(value: Any, place: Place = ()) -> Iterator[tuple[Place, Tensor]]:
    """Yield the place and value of each tensor in the data, inside mappings and pairs too."""
    if is_tensor(value):
        yield place, value
    elif isinstance(value, Mapping):
        for name, each in value.items():
            yield from _leaves(each, (*place, name))
    elif isinstance(value, tuple | list):
        for number, each in enumerate(value):
            yield from _leaves(each, (*place, number))


def _to_numpy(value: Any) -> Any:
    """Replace tensors by arrays, and 0-dimensional ones by numbers."""
    if is_tensor(value):
        return value.item() if value.ndim == 0 else value.detach().cpu().numpy()
    if isinstance(value, Mapping):
        return {name: _to_numpy(each) for name, each in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(_to_numpy(each) for each in value)
    return value


class _Solve(torch.autograd.Function):
    """The field of a solution as a function of the tensors in the data of its case."""

    @staticmethod
    def forward(ctx: Any, solution: Solution, places: list[Place], *tensors: Tensor) -> Tensor:
        ctx.solution, ctx.places, ctx.kinds = solution, places, [(each.dtype, each.device) for each in tensors]
        return torch.from_numpy(np.array(solution.field))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_field: Tensor) -> tuple[Tensor | None, ...]:
        needed = ctx.needs_input_grad[2:]
        names = {place[0] for place, is_needed in zip(ctx.places, needed, strict=True) if is_needed}
        found = solve_adjoint(ctx.solution, d_field.numpy(), of=names)
        gradients: list[Tensor | None] = []
        for place, (dtype, device), is_needed in zip(ctx.places, ctx.kinds, needed, strict=True):
            value: Any = found
            for step in place if is_needed else ():
                value = value[step]
            gradients.append(torch.as_tensor(value, dtype=dtype, device=device) if is_needed else None)
        return (None, None, *gradients)
