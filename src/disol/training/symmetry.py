"""Exact symmetries of problems: a turned or mirrored case has the turned or mirrored solution."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from disol.data.dataset import Batch
from disol.data.recipe import StoreSettings
from disol.fem import ELEMENTS
from disol.problems.elasticity import ElasticityProblem
from disol.problems.heat import HeatProblem
from disol.problems.problem import Problem
from disol.problems.scalar import ScalarProblem
from disol.problems.table import find_conventions
from disol.solvers import DiscreteOperator

ROUNDING = 1e-10  # relative
DIRECTED = ("u_", "force_")  # how the names of vector components begin; a marker of a component has no sign


class Element(NamedTuple):
    """A rotation or reflection of the square: exchange x and y if `transposed`, then multiply each by its sign."""

    transposed: bool
    sign_x: int
    sign_y: int

    def pixels(self, size: int) -> Int[Tensor, " pixel"]:
        """Return from where each pixel of the moved grid is taken."""
        numbers = torch.arange(size * size).reshape(size, size)
        moved = numbers.T if self.transposed else numbers
        axes = [axis for axis, sign in ((0, self.sign_y), (1, self.sign_x)) if sign < 0]
        return moved.flip(axes).flatten()

    def order(self, names: Sequence[str]) -> list[int]:
        """Return from where each of the named channels is taken: x and y components exchange places."""
        swapped = {"_x": "_y", "_y": "_x"} if self.transposed else {}
        return [names.index(name[:-2] + swapped.get(name[-2:], name[-2:])) for name in names]

    def signs(self, names: Sequence[str]) -> list[float]:
        """Return the sign of each of the named channels once it has its place."""
        sign = {"_x": float(self.sign_x), "_y": float(self.sign_y)}
        return [sign.get(name[-2:], 1.0) if name.startswith(DIRECTED) else 1.0 for name in names]


IDENTITY = Element(False, 1, 1)
SQUARE_GROUP = tuple(Element(transposed, *signs) for transposed in (False, True) for signs in product((1, -1), (1, -1)))


def elements_of(problem: Problem) -> tuple[Element, ...]:
    """List the symmetries of a problem: those that its matrix has, if its loads are known to have them all.

    None but the identity where a fixed velocity singles out a direction, or where a problem is of a new kind.
    """
    has_known_loads = isinstance(problem, ElasticityProblem | HeatProblem) or (
        isinstance(problem, ScalarProblem) and not problem.is_advective
    )
    return tuple(element for element in SQUARE_GROUP if keeps(problem, element)) if has_known_loads else (IDENTITY,)


def keeps(problem: Problem, element: Element) -> bool:
    """Tell whether A (g u) = g (A u) for a symmetry g of the square, on a patch of 2×2 pixels and any u."""
    matrix = torch.from_numpy(problem.element_matrix(ELEMENTS["q1"](0.5), find_conventions("paper")))
    mask, free = torch.ones(1, 2, 2, dtype=torch.bool), torch.ones(1, len(problem.fields), 3, 3, dtype=torch.bool)
    patch = DiscreteOperator(mask, free, matrix)
    nodes = torch.randn(1, len(problem.fields), 3, 3, dtype=matrix.dtype, generator=torch.Generator().manual_seed(0))
    move = Moves.of([element], problem.fields, 3, nodes.device)
    first = torch.zeros(1, dtype=torch.int64)
    turned_before, turned_after = patch.apply(move.move(nodes, first)), move.move(patch.apply(nodes), first)
    return bool((turned_before - turned_after).abs().max() <= ROUNDING * turned_after.abs().max())


@dataclass(frozen=True)
class Moves:
    """From where pixels and channels are taken, and their signs, for each element of a group."""

    pixels: Int[Tensor, "element pixel"]
    order: Int[Tensor, "element channel"]
    signs: Float[Tensor, "element channel"]

    @classmethod
    def of(cls, elements: Sequence[Element], names: Sequence[str], size: int, device: torch.device) -> "Moves":
        """Tabulate the moves of stacked arrays with named channels."""
        return cls(
            torch.stack([element.pixels(size) for element in elements]).to(device),
            torch.tensor([element.order(names) for element in elements], device=device),
            torch.tensor([element.signs(names) for element in elements], device=device),
        )

    def move(
        self, stacked: Float[Tensor, "case channel height width"], elements: Int[Tensor, " case"]
    ) -> Float[Tensor, "case channel height width"]:
        """Move each case by its own element, all in one gather."""
        case = torch.arange(len(stacked), device=stacked.device)[:, None, None]
        taken = stacked.flatten(2)[case, self.order[elements][:, :, None], self.pixels[elements][:, None, :]]
        return (taken * self.signs[elements][:, :, None]).reshape(stacked.shape)


@dataclass(frozen=True)
class Symmetries:
    """The symmetries of a problem on one grid, as they act on batches."""

    elements: tuple[Element, ...]
    inputs: Moves
    target: Moves
    domain_position: int

    @classmethod
    def of(cls, elements: Sequence[Element], settings: StoreSettings, device: str | torch.device) -> "Symmetries":
        """Tabulate symmetries for the cases of a file."""
        channels, size = settings.channels, settings.resolution
        return cls(
            tuple(elements),
            Moves.of(elements, channels, size, torch.device(device)),
            Moves.of(elements, settings.fields, size, torch.device(device)),
            channels.index("domain"),
        )

    def draw(self, count: int, generator: torch.Generator) -> Int[Tensor, " case"]:
        """Draw one element for each of `count` cases."""
        return torch.randint(len(self.elements), (count,), generator=generator, device=generator.device)

    def apply(self, batch: Batch, elements: Int[Tensor, " case"]) -> Batch:
        """Move every case of a batch by its element."""
        if len(self.elements) == 1:
            return batch
        inputs = self.inputs.move(batch["inputs"], elements)
        domain = inputs.narrow(1, self.domain_position, 1).bool()
        amplitude = batch["amplitude"]
        if amplitude.ndim > 1:
            amplitude = amplitude.gather(1, self.target.order[elements])
        deviation = batch["target"] - pattern_at_rest(batch["domain"], batch["amplitude"])
        target = self.target.move(deviation, elements) + pattern_at_rest(domain, amplitude)
        return {**batch, "inputs": inputs, "target": target, "domain": domain, "amplitude": amplitude}


def pattern_at_rest(
    domain: Bool[Tensor, "case 1 height width"], amplitude: Float[Tensor, "case *field"]
) -> Float[Tensor, "..."]:
    """Return the pattern of U = 0: ½ on the domain where components are scaled one by one, else 0."""
    if amplitude.ndim == 1:
        return torch.zeros((), device=domain.device)
    return 0.5 * (domain & (amplitude > 0)[..., None, None])
