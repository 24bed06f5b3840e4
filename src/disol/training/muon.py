"""Muon: momentum whose singular values are all set to 1, so that weak directions are learned as fast as strong ones."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

Matrix = Float[Tensor, "_ _"]  # each of its own size
# x ← a x + (b x xᵀ + c (x xᵀ)²) x takes singular values up to 1 to about 1, small ones quickly (Jordan et al. 2024).
QUINTIC = (3.4445, -4.7750, 2.0315)
ITERATIONS = 5
SMALLEST = 1e-8  # norms and sizes to divide by
# Powers of two up to which matrices count as equally high: a GPU takes as long for a small one as for one of 64 rows.
SMALLEST_HEIGHT = {"cuda": 6}
STEP_SIZE = 0.2  # of a weight on average, at a learning rate of 1: that of Adam (Liu et al. 2025)


class Muon(torch.optim.Optimizer):
    """Orthogonalised momentum for matrices and stencils, Adam for all other weights.

    A stencil is the matrix from what it reads of all channels to what it writes. Steps are as long as Adam's, so that
    both share one learning rate.
    """

    def __init__(self, weights: Iterable[Tensor], lr: float, weight_decay: float = 0.0, momentum: float = 0.95) -> None:
        super().__init__(weights, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum, "betas": (0.9, 0.95)})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Take one step; a closure is not called."""
        del closure
        for group in self.param_groups:
            moved = [weight for weight in group["params"] if weight.grad is not None]
            matrices = [weight for weight in moved if is_matrix(weight)]
            others = [weight for weight in moved if not is_matrix(weight)]
            if moved:
                torch._foreach_mul_(moved, 1 - group["lr"] * group["weight_decay"])
            if matrices:
                self.step_by_muon(matrices, group)
            if others:
                self.step_by_adam(others, group)

    def step_by_muon(self, weights: list[Tensor], group: dict[str, Any]) -> None:
        """Move matrices along their orthogonalised momentum, as Nesterov has it."""
        gradients = gradients_of(weights)
        for weight in weights:
            if not self.state[weight]:
                self.state[weight]["momentum"] = torch.zeros_like(weight)
        momenta = [self.state[weight]["momentum"] for weight in weights]
        torch._foreach_mul_(momenta, group["momentum"])
        torch._foreach_add_(momenta, gradients)
        ahead = torch._foreach_add(gradients, momenta, alpha=group["momentum"])
        directions = orthogonalise_all([each.flatten(1) for each in ahead])
        torch._foreach_mul_(directions, [STEP_SIZE * max(each.shape) ** 0.5 for each in directions])
        shaped = [each.reshape(weight.shape) for each, weight in zip(directions, weights, strict=True)]
        torch._foreach_add_(weights, shaped, alpha=-group["lr"])

    def step_by_adam(self, weights: list[Tensor], group: dict[str, Any]) -> None:
        """Move the weights that are no matrices by Adam; complex ones as pairs of numbers."""
        first, second = group["betas"]
        gradients = [pairs(gradient) for gradient in gradients_of(weights)]
        for weight in weights:
            state = self.state[weight]
            if not state:
                state.update(steps=0, mean=torch.zeros_like(pairs(weight)), square=torch.zeros_like(pairs(weight)))
            state["steps"] += 1
        states = [self.state[weight] for weight in weights]
        means, squares = ([state[name] for state in states] for name in ("mean", "square"))
        torch._foreach_lerp_(means, gradients, 1 - first)
        torch._foreach_mul_(squares, second)
        torch._foreach_addcmul_(squares, gradients, gradients, 1 - second)
        sizes = torch._foreach_sqrt(squares)
        torch._foreach_div_(sizes, [(1 - second ** state["steps"]) ** 0.5 for state in states])
        torch._foreach_add_(sizes, SMALLEST)
        rates = [-group["lr"] / (1 - first ** state["steps"]) for state in states]
        torch._foreach_addcdiv_([pairs(weight) for weight in weights], means, sizes, rates)


def is_matrix(weight: Tensor) -> bool:
    """Tell whether a weight maps several numbers to several others, by real factors."""
    return weight.ndim > 1 and not weight.is_complex() and min(weight.shape[0], weight[0].numel()) > 1


def gradients_of(weights: Sequence[Tensor]) -> list[Tensor]:
    """Return the gradients of weights that have one."""
    return [weight.grad for weight in weights if weight.grad is not None]


def pairs(weight: Tensor) -> Tensor:
    """See complex numbers as pairs."""
    return torch.view_as_real(weight) if weight.is_complex() else weight


def orthogonalise_all(matrices: Sequence[Matrix]) -> list[Matrix]:
    """Set the singular values of each matrix to about 1.

    Those of about the same height are filled up with zeros and done at once: each is too small to keep a GPU busy.
    """
    wide = [matrix if is_wide(matrix) else matrix.mT for matrix in matrices]
    found: dict[int, Matrix] = {}
    for numbers in of_same_height(wide).values():
        rows, columns = (max(wide[number].shape[axis] for number in numbers) for axis in (0, 1))
        stacked = wide[numbers[0]].new_zeros(len(numbers), rows, columns)
        torch._foreach_copy_(cut(stacked, wide, numbers), [wide[number] for number in numbers])
        found |= dict(zip(numbers, cut(orthogonalise(stacked), wide, numbers), strict=True))
    return [found[number] if is_wide(matrix) else found[number].mT for number, matrix in enumerate(matrices)]


def is_wide(matrix: Matrix) -> bool:
    """Tell whether a matrix has no more rows than columns."""
    return matrix.shape[0] <= matrix.shape[1]


def of_same_height(matrices: Sequence[Matrix]) -> dict[int, list[int]]:
    """Number the matrices that share the power of two that is just enough for their rows."""
    groups: dict[int, list[int]] = defaultdict(list)
    for number, matrix in enumerate(matrices):
        smallest = SMALLEST_HEIGHT.get(matrix.device.type, 0)
        groups[max(smallest, (matrix.shape[0] - 1).bit_length())].append(number)
    return dict(groups)


def cut(
    stacked: Float[Tensor, "matrix rows columns"], matrices: Sequence[Matrix], numbers: Sequence[int]
) -> list[Matrix]:
    """Return the part of each entry of a stack that is not filled up."""
    shapes = [matrices[number].shape for number in numbers]
    return [entry[:rows, :columns] for entry, (rows, columns) in zip(stacked, shapes, strict=True)]


def orthogonalise(matrices: Float[Tensor, "matrix rows columns"]) -> Float[Tensor, "matrix rows columns"]:
    """Set singular values to about 1, but for those that are zero; on a GPU in bfloat16, which is good enough."""
    first, third, fifth = QUINTIC
    x = matrices / torch.linalg.matrix_norm(matrices, keepdim=True).clamp(min=SMALLEST)
    x = x.bfloat16() if x.is_cuda else x
    for _ in range(ITERATIONS):
        squared = x @ x.mT
        polynomial = torch.baddbmm(squared, squared, squared, beta=third, alpha=fifth)
        x = torch.baddbmm(x, polynomial, x, beta=first)
    return x.to(matrices.dtype)
