"""Many small matrices as a few stacks: there and back in as many launches, however many matrices there are."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import accumulate

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

Layout = tuple[torch.Size, tuple[int, ...], torch.dtype, torch.device]
Stack = Float[Tensor, "_ _ _"]  # matrix, rows, columns; each of its own size
Places = Int[Tensor, "_ _"]  # of the numbers of a matrix
# Powers of two up to which matrices count as equally high: a GPU takes as long for a small one as for one of 64 rows.
SMALLEST_HEIGHT = {"cuda": 6}


class Stacking:
    """Room for a tensor like each weight, and tables that tell where its numbers are in stacks of matrices.

    A weight is the matrix from all it reads to what it writes, transposed if that is higher than wide. Those of about
    the same height are filled up with zeros and stacked: each is too small to keep a GPU busy.

    entries        one for each weight, laid out as it is, so that torch takes all of them at once
    longer_sides   of the matrices
    """

    def __init__(self, weights: Sequence[Tensor]) -> None:
        self.layouts = layouts_of(weights)
        total = sum(weight.numel() for weight in weights)
        self.room = weights[0].new_zeros(total + 1)  # the last number is the zero that stacks are filled up with
        self.entries = views_like(weights, self.room)
        self.longer_sides = [max(len(weight), weight.numel() // len(weight)) for weight in weights]
        places = views_like(weights, torch.arange(total, dtype=torch.int32))
        smallest = SMALLEST_HEIGHT.get(self.room.device.type, 0)
        stacks = [stack(group, filling=total) for group in of_same_height(places, smallest)]
        self.shapes = [each.shape for each in stacks]
        sources = torch.cat([each.flatten() for each in stacks])
        self.sources = sources.to(self.room.device)
        self.targets = inverse(sources, total).to(self.room.device)

    def fits(self, weights: Sequence[Tensor]) -> bool:
        """Tell whether these weights are laid out as those it was made for."""
        return self.layouts == layouts_of(weights)

    def stacks(self) -> list[Stack]:
        """Copy the entries to stacks."""
        numbers = self.room.index_select(0, self.sources)
        parts = numbers.split_with_sizes([shape.numel() for shape in self.shapes])
        return [part.view(shape) for part, shape in zip(parts, self.shapes, strict=True)]

    def put_back(self, stacks: Sequence[Stack]) -> None:
        """Copy stacks to the entries."""
        numbers = torch.cat([each.flatten() for each in stacks])
        torch.index_select(numbers, 0, self.targets, out=self.room[:-1])


def layouts_of(weights: Sequence[Tensor]) -> list[Layout]:
    """Return all that tables depend on."""
    return [(weight.shape, weight.stride(), weight.dtype, weight.device) for weight in weights]


def views_like(weights: Sequence[Tensor], room: Tensor) -> list[Tensor]:
    """See the numbers of a vector as tensors like the weights, but without gaps where a weight has some."""
    starts = accumulate((weight.numel() for weight in weights), initial=0)
    strides = [torch.empty_like(weight, device="meta").stride() for weight in weights]
    layouts = zip(weights, strides, starts, strict=False)  # a start more: where the last one ends
    return [room.as_strided(weight.shape, steps, start) for weight, steps, start in layouts]


def of_same_height(places: Sequence[Int[Tensor, "..."]], smallest: int = 0) -> list[list[Places]]:
    """Group matrices that share the power of two that is just enough for their rows, the shorter sides."""
    groups: dict[int, list[Places]] = defaultdict(list)
    for each in places:
        matrix = each.flatten(1)
        wide = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.mT
        groups[max(smallest, (wide.shape[0] - 1).bit_length())].append(wide)
    return list(groups.values())


def stack(places: Sequence[Places], filling: int) -> Int[Tensor, "matrix rows columns"]:
    """Stack matrices, filled up to the rows and columns of the largest."""
    rows, columns = (max(matrix.shape[axis] for matrix in places) for axis in (0, 1))
    return torch.stack(
        [pad(each, (0, columns - each.shape[1], 0, rows - each.shape[0]), value=filling) for each in places]
    )


def inverse(sources: Int[Tensor, " target"], total: int) -> Int[Tensor, " source"]:
    """Return where each source is found; those from `total` on are fillings."""
    targets = torch.empty(total, dtype=torch.int32)
    targets[sources[sources < total].long()] = (sources < total).nonzero().flatten().int()
    return targets
