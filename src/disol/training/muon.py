"""Muon: momentum whose singular values are all set to 1, so that weak directions are learned as fast as strong ones."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from disol.training.stacking import Stacking

# x ← a x + (b x xᵀ + c (x xᵀ)²) x takes singular values up to 1 to about 1, small ones quickly (Jordan et al. 2024).
QUINTIC = (3.4445, -4.7750, 2.0315)
ITERATIONS = 5
SMALLEST = 1e-8  # norms and sizes to divide by
STEP_SIZE = 0.2  # of a weight on average, at a learning rate of 1: that of Adam (Liu et al. 2025)


class Muon(torch.optim.Optimizer):
    """Orthogonalised momentum for matrices and stencils, Adam for all other weights.

    A stencil is the matrix from what it reads of all channels to what it writes. Steps are as long as Adam's, so that
    both share one learning rate. A GPU waits for the launches of a step, so their number does not grow with that of the
    weights: torch takes a list of tensors at once if all are without gaps, of one dtype and laid out alike.
    """

    def __init__(self, weights: Iterable[Tensor], lr: float, weight_decay: float = 0.0, momentum: float = 0.95) -> None:
        super().__init__(weights, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum, "betas": (0.9, 0.95)})
        self.stackings: dict[int, Stacking] = {}  # by the number of the group

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Continue from a state, laid out as the weights are, which may be otherwise than on the device it is from."""
        super().__setstate__(state)
        self.stackings = {}
        for weight, values in self.state.items():
            for name, value in values.items():
                if isinstance(value, Tensor):
                    values[name] = torch.empty_like(pairs(weight)).copy_(value)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Take one step; a closure is not called."""
        del closure
        for number, group in enumerate(self.param_groups):
            moved = [weight for weight in group["params"] if weight.grad is not None]
            matrices = [weight for weight in moved if is_matrix(weight)]
            others = [weight for weight in moved if not is_matrix(weight)]
            if moved:
                torch._foreach_mul_([pairs(weight) for weight in moved], 1 - group["lr"] * group["weight_decay"])
            if matrices:
                self.step_by_muon(matrices, group, self.stacking_of(matrices, number))
            if others:
                self.step_by_adam(others, group)

    def stacking_of(self, weights: list[Tensor], number: int) -> Stacking:
        """Return the tables for the matrices of a group, made anew only where others have a gradient than before."""
        if number not in self.stackings or not self.stackings[number].fits(weights):
            self.stackings[number] = Stacking(weights)
        return self.stackings[number]

    def step_by_muon(self, weights: list[Tensor], group: dict[str, Any], stacking: Stacking) -> None:
        """Move matrices along their orthogonalised momentum, as Nesterov has it."""
        gradients = gradients_of(weights)
        for weight in weights:
            if not self.state[weight]:
                self.state[weight]["momentum"] = torch.zeros_like(weight)
        momenta = [self.state[weight]["momentum"] for weight in weights]
        torch._foreach_mul_(momenta, group["momentum"])
        torch._foreach_add_(momenta, gradients)
        directions = stacking.entries
        torch._foreach_copy_(directions, gradients)
        torch._foreach_add_(directions, momenta, alpha=group["momentum"])
        stacking.put_back([orthogonalise(stack) for stack in stacking.stacks()])
        torch._foreach_mul_(directions, [STEP_SIZE * side**0.5 for side in stacking.longer_sides])
        torch._foreach_add_(weights, directions, alpha=-group["lr"])

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
        # Both corrections for a late start are of the divisor, since a rate divided by one may be beyond float32.
        started = [1 - first ** state["steps"] for state in states]
        factors = [share / (1 - second ** state["steps"]) ** 0.5 for share, state in zip(started, states, strict=True)]
        sizes = torch._foreach_sqrt(squares)
        torch._foreach_mul_(sizes, factors)
        torch._foreach_add_(sizes, [SMALLEST * share for share in started])
        torch._foreach_addcdiv_([pairs(weight) for weight in weights], means, sizes, -group["lr"])


def is_matrix(weight: Tensor) -> bool:
    """Tell whether a weight maps several numbers to several others, by real factors."""
    return weight.ndim > 1 and not weight.is_complex() and 1 < weight.shape[0] < weight.numel()


def gradients_of(weights: Sequence[Tensor]) -> list[Tensor]:
    """Return the gradients of weights that have one."""
    return [weight.grad for weight in weights if weight.grad is not None]


def pairs(weight: Tensor) -> Tensor:
    """See complex numbers as pairs."""
    return torch.view_as_real(weight) if weight.is_complex() else weight


def orthogonalise(matrices: Float[Tensor, "matrix rows columns"]) -> Float[Tensor, "matrix rows columns"]:
    """Set singular values to about 1, but for those that are zero; on a GPU in bfloat16, which is good enough."""
    first, third, fifth = QUINTIC
    x = matrices / torch.linalg.matrix_norm(matrices, keepdim=True).clamp(min=SMALLEST)
    x = x.bfloat16() if x.is_cuda else x
    for _ in range(ITERATIONS):
        squared = torch.bmm(x, x.mT)
        polynomial = torch.baddbmm(squared, squared, squared, beta=third, alpha=fifth)
        x = torch.baddbmm(x, polynomial, x, beta=first)
    return x.to(matrices.dtype)
