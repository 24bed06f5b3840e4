"""Muon: momentum whose singular values are all set to 1, so that weak directions are learned as fast as strong ones."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

# x ← a x + (b x xᵀ + c (x xᵀ)²) x takes singular values up to 1 to about 1, small ones quickly (Jordan et al. 2024).
QUINTIC = (3.4445, -4.7750, 2.0315)
ITERATIONS = 5
STEP_SIZE = 0.2  # average change of a weight at a learning rate of 1: that of Adam (Liu et al. 2025)
# log2 of the rows up to which matrices count as equally high: a GPU takes as long for a small one as for one of 64.
SMALLEST_HEIGHT = {"cuda": 6}
_MOST_AXES = 5  # of a stencil: two for channels, and at most three in space and time
_SMALLEST = 1e-8  # norms and sizes to divide by

_Layout = tuple[torch.Size, tuple[int, ...], torch.dtype, torch.device]
_Stack = Float[Tensor, "_ _ _"]  # matrix, rows, columns; each of its own size
_Places = Int[Tensor, "_ _"]  # of the numbers of a matrix


class Muon(torch.optim.Optimizer):
    """Orthogonalised momentum for matrices and stencils, Adam for all other weights; decoupled weight decay for all.

    A stencil counts as the matrix from all values it reads to the channels it writes. Steps are as long as Adam's, so
    that both share one learning rate. On a GPU a step is bound by its kernel launches, so their number does not grow
    with that of the weights: torch takes a list of tensors at once if all are dense, of one dtype and laid out alike.
    """

    def __init__(self, weights: Iterable[Tensor], lr: float, weight_decay: float = 0.0, momentum: float = 0.95) -> None:
        super().__init__(weights, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum, "betas": (0.9, 0.95)})
        self._stackings: dict[int, Stacking] = {}  # by the number of the group

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Continue from a state, laid out anew like the weights: on the device it is from, the layout may differ."""
        super().__setstate__(state)
        self._stackings = {}
        for weight, values in self.state.items():
            for name, value in values.items():
                if isinstance(value, Tensor):
                    values[name] = torch.empty_like(weight).copy_(value.reshape(weight.shape))

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Take one step; a closure is not called."""
        del closure
        for number, group in enumerate(self.param_groups):
            moved = [weight for weight in group["params"] if weight.grad is not None]
            matrices = [weight for weight in moved if is_matrix(weight)]
            others = [weight for weight in moved if not is_matrix(weight)]
            if moved:
                torch._foreach_mul_(moved, 1 - group["lr"] * group["weight_decay"])
            if matrices:
                self._step_by_muon(matrices, group, self._find_stacking(matrices, number))
            if others:
                self._step_by_adam(others, group)

    def _find_stacking(self, weights: list[Tensor], number: int) -> "Stacking":
        """Return the tables for the matrices of a group, rebuilt only if other weights have a gradient than before."""
        if number not in self._stackings or not self._stackings[number].fits(weights):
            self._stackings[number] = Stacking(weights)
        return self._stackings[number]

    def _step_by_muon(self, weights: list[Tensor], group: dict[str, Any], stacking: "Stacking") -> None:
        """Move matrices along their orthogonalised Nesterov momentum."""
        gradients = _gradients(weights)
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

    def _step_by_adam(self, weights: list[Tensor], group: dict[str, Any]) -> None:
        """Move the weights that are not matrices by Adam."""
        first, second = group["betas"]
        gradients = _gradients(weights)
        for weight in weights:
            state = self.state[weight]
            if not state:
                state.update(steps=0, mean=torch.zeros_like(weight), square=torch.zeros_like(weight))
            state["steps"] += 1
        states = [self.state[weight] for weight in weights]
        means, squares = ([state[name] for state in states] for name in ("mean", "square"))
        torch._foreach_lerp_(means, gradients, 1 - first)
        torch._foreach_mul_(squares, second)
        torch._foreach_addcmul_(squares, gradients, gradients, 1 - second)
        # Both bias corrections are applied to the divisor, since a rate divided by one may exceed float32.
        started = [1 - first ** state["steps"] for state in states]
        factors = [share / (1 - second ** state["steps"]) ** 0.5 for share, state in zip(started, states, strict=True)]
        sizes = torch._foreach_sqrt(squares)
        torch._foreach_mul_(sizes, factors)
        torch._foreach_add_(sizes, [_SMALLEST * share for share in started])
        torch._foreach_addcdiv_(weights, means, sizes, -group["lr"])


def is_matrix(weight: Tensor) -> bool:
    """Tell whether a weight maps several numbers to several others: a matrix or a stencil.

    A weight with more axes than a stencil holds many matrices, such as one for each Fourier mode, and is left to Adam:
    treated as one matrix, the few modes that matter most would set the steps of all others.
    """
    return 1 < weight.ndim <= _MOST_AXES and 1 < weight.shape[0] < weight.numel()


def orthogonalise(matrices: Float[Tensor, "matrix rows columns"]) -> Float[Tensor, "matrix rows columns"]:
    """Set all nonzero singular values to about 1; on a GPU in bfloat16, which is accurate enough."""
    first, third, fifth = QUINTIC
    x = matrices / torch.linalg.matrix_norm(matrices, keepdim=True).clamp(min=_SMALLEST)
    x = x.bfloat16() if x.is_cuda else x
    for _ in range(ITERATIONS):
        squared = torch.bmm(x, x.mT)
        polynomial = torch.baddbmm(squared, squared, squared, beta=third, alpha=fifth)
        x = torch.baddbmm(x, polynomial, x, beta=first)
    return x.to(matrices.dtype)


class Stacking:
    """Room for a tensor like each weight, and tables of where its numbers are in stacks of matrices.

    A weight is the matrix from all it reads to what it writes, transposed if that is higher than wide. Matrices of
    about the same height are padded with zeros and stacked, as each is too small to keep a GPU busy. The number of
    launches to copy there and back depends on the number of stacks, not of matrices.

    entries        one for each weight, laid out like it, so that torch takes all of them at once
    longer_sides   of the matrices
    """

    def __init__(self, weights: Sequence[Tensor]) -> None:
        self._layouts = _layouts(weights)
        total = sum(weight.numel() for weight in weights)
        self._room = weights[0].new_zeros(total + 1)  # the last number is the zero that pads the stacks
        self.entries = _views_like(weights, self._room)
        self.longer_sides = [max(len(weight), weight.numel() // len(weight)) for weight in weights]
        places = _views_like(weights, torch.arange(total, dtype=torch.int32))
        smallest = SMALLEST_HEIGHT.get(self._room.device.type, 0)
        stacks = [_stack(group, filling=total) for group in _of_same_height(places, smallest)]
        self.shapes = [each.shape for each in stacks]
        sources = torch.cat([each.flatten() for each in stacks])
        targets = torch.empty(total, dtype=torch.int32)
        targets[sources[sources < total].long()] = (sources < total).nonzero().flatten().int()
        self._sources, self._targets = (table.to(self._room.device) for table in (sources, targets))

    def fits(self, weights: Sequence[Tensor]) -> bool:
        """Tell whether these weights are laid out like those it was made for."""
        return self._layouts == _layouts(weights)

    def stacks(self) -> list[_Stack]:
        """Copy the entries to stacks."""
        numbers = self._room.index_select(0, self._sources)
        parts = numbers.split_with_sizes([shape.numel() for shape in self.shapes])
        return [part.view(shape) for part, shape in zip(parts, self.shapes, strict=True)]

    def put_back(self, stacks: Sequence[_Stack]) -> None:
        """Copy stacks to the entries."""
        numbers = torch.cat([each.flatten() for each in stacks])
        torch.index_select(numbers, 0, self._targets, out=self._room[:-1])


def _gradients(weights: Sequence[Tensor]) -> list[Tensor]:
    """Return the gradients of weights that have one."""
    return [weight.grad for weight in weights if weight.grad is not None]


def _layouts(weights: Sequence[Tensor]) -> list[_Layout]:
    """Return everything that the tables depend on."""
    return [(weight.shape, weight.stride(), weight.dtype, weight.device) for weight in weights]


def _views_like(weights: Sequence[Tensor], room: Tensor) -> list[Tensor]:
    """View a vector as tensors like the weights, but dense even where a weight has gaps."""
    starts = accumulate((weight.numel() for weight in weights), initial=0)
    strides = [torch.empty_like(weight, device="meta").stride() for weight in weights]
    layouts = zip(weights, strides, starts, strict=False)  # one start more than weights: where the last one ends
    return [room.as_strided(weight.shape, steps, start) for weight, steps, start in layouts]


def _of_same_height(places: Sequence[Int[Tensor, "..."]], smallest: int) -> list[list[_Places]]:
    """Group matrices by the smallest power of two that holds their rows, which are the shorter sides."""
    groups: dict[int, list[_Places]] = defaultdict(list)
    for each in places:
        matrix = each.flatten(1)
        wide = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.mT
        groups[max(smallest, (wide.shape[0] - 1).bit_length())].append(wide)
    return list(groups.values())


def _stack(places: Sequence[_Places], filling: int) -> Int[Tensor, "matrix rows columns"]:
    """Stack matrices, padded to the rows and columns of the largest."""
    rows, columns = (max(matrix.shape[axis] for matrix in places) for axis in (0, 1))
    return torch.stack(
        [pad(each, (0, columns - each.shape[1], 0, rows - each.shape[0]), value=filling) for each in places]
    )
