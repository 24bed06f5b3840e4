"""Translations: a case that is moved by whole pixels has the moved solution while its domain stays on the grid."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from disol.data.dataset import Batch
from disol.problems.elasticity import ElasticityProblem
from disol.problems.heat import HeatProblem
from disol.problems.problem import Problem
from disol.problems.scalar import ScalarProblem

MOVED = ("inputs", "target", "domain")  # all that a batch holds of pixels; zero or constant outside the domain


def can_be_moved(problem: Problem) -> bool:
    """Tell whether a problem is known to be the same everywhere; one of a new kind is not."""
    return isinstance(problem, ElasticityProblem | HeatProblem | ScalarProblem)


def translate(batch: Batch, draws: Float[Tensor, "case 2"]) -> Batch:
    """Move every case to one of the places where its domain is on the grid: two numbers from 0 to 1 choose which."""
    domain = batch["domain"][:, 0]
    rows = lines_taken(domain.any(2), draws[:, 0])
    columns = lines_taken(domain.any(1), draws[:, 1])
    pixels = (rows[:, :, None] * domain.shape[2] + columns[:, None, :]).flatten(1)

    def moved(stacked: Tensor) -> Tensor:
        taken = pixels[:, None].expand(-1, stacked.shape[1], -1)
        return stacked.flatten(2).gather(2, taken).reshape(stacked.shape)

    return {**batch, **{name: moved(batch[name]) for name in MOVED}}


def lines_taken(occupied: Bool[Tensor, "case line"], draws: Float[Tensor, " case"]) -> Int[Tensor, "case line"]:
    """Return from which row or column each of the moved grid is taken; empty ones come back on the other side."""
    size = occupied.shape[1]
    first = occupied.int().argmax(1)
    last = size - 1 - occupied.flip(1).int().argmax(1)
    places = size - (last - first)
    moved_by = (draws * places).floor().long().clamp(max=places - 1) - first
    return (torch.arange(size, device=occupied.device) - moved_by[:, None]) % size
