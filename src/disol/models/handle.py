"""One handle for a trained network: a shipped name, a folder, a checkpoint, an object with one, or an `nn.Module`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from torch import nn

from disol.errors import DisolError, shown
from disol.models.base import Network, require_fit
from disol.models.card import Card, read_resolutions
from disol.models.checkpoint import Checkpoint, load_checkpoint
from disol.models.pretrained import find_folder
from disol.problems import Problem
from disol.problems.conventions import Conventions
from disol.problems.table import find_problem


@runtime_checkable
class HasCheckpoint(Protocol):
    """An object with a checkpoint, such as a surrogate."""

    @property
    def checkpoint(self) -> Checkpoint:
        """The network with what it was trained on."""


Handle = str | Path | nn.Module | Checkpoint | HasCheckpoint


def resolve(
    handle: Handle,
    *,
    problem: str | Problem | None = None,
    model: str | type[nn.Module] | nn.Module | None = None,
    conventions: str | Conventions = "paper",
    resolution: int | Sequence[int] | None = None,
) -> Checkpoint:
    """Return the checkpoint that a handle stands for.

    handle        the name of a shipped model, the folder of a run, a `Checkpoint`, an object with one as `.checkpoint`,
                  or an `nn.Module` that maps the channels of a problem to its fields, which a trial checks
    problem       must be the one it was trained on, if given; required for a module of your own
    model         for a folder that holds a network of your own, see `load_checkpoint`
    conventions   for a module; everything else stores its own
    resolution    for a module: pixels along a side of the grids it is used on, or several; the problem's own unless
                  given
    """
    if isinstance(handle, str | Path):
        return load_checkpoint(find_folder(handle), problem, model=model)
    found = handle if isinstance(handle, Checkpoint) else getattr(handle, "checkpoint", None)
    if isinstance(found, Checkpoint):
        if problem is not None:
            found.card.find_problem(found.name, problem)
        return found
    if not isinstance(handle, nn.Module):
        raise DisolError(
            "A trained network is the name of a shipped model, the folder of a run, what disol.load returns, or an "
            f"nn.Module, got {shown(handle)}."
        )
    if problem is None:
        if not isinstance(handle, Network):
            raise DisolError(f"{type(handle).__name__} does not say what it solves. Pass its problem too.")
        problem = handle.problem
    equation = find_problem(problem)
    sides = read_resolutions(equation, resolution)
    for side in sides:
        require_fit(handle, equation, side)
    return Checkpoint(None, handle, equation, {}, None, Card.of(handle, equation, conventions, sides))
