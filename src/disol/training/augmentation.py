"""Data augmentation by the symmetries of an equation: rotating, mirroring and moving a case with its solution."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from disol._terms import DOMAIN
from disol.data.dataset import Batch
from disol.fem import ELEMENTS
from disol.problems.conventions import Conventions
from disol.problems.normalisation import Normalisation
from disol.problems.problem import Problem, component_of
from disol.solvers import DiscreteOperator

_ROUNDING = 1e-10  # relative
_PIXELS = ("inputs", "target", "domain")  # arrays of a batch that are moved; zero or constant outside the domain


class Channel(NamedTuple):
    """How a channel is rotated and mirrored.

    component     of the vector it belongs to, "x" or "y"; None for a scalar
    is_directed   it changes sign with that component, which markers do not
    """

    name: str
    component: str | None
    is_directed: bool

    @property
    def across(self) -> str:
        """Name of the corresponding channel of the other component."""
        return {"x": f"{self.name[:-1]}y", "y": f"{self.name[:-1]}x", None: self.name}[self.component]


class Element(NamedTuple):
    """A rotation or reflection of the square: exchange x and y if `transposed`, then multiply each by its sign."""

    transposed: bool
    sign_x: int
    sign_y: int

    def pixels(self, size: int) -> Int[Tensor, " pixel"]:
        """Return, for each pixel of the moved grid, which pixel it is taken from."""
        return self._moved(torch.arange(size * size).reshape(size, size)).flatten()

    @property
    def is_rotation(self) -> bool:
        """Tell whether it is a rotation, not a reflection."""
        return self.transposed == (self.sign_x != self.sign_y)

    @property
    def inverse(self) -> "Element":
        """The element that undoes it."""
        return Element(True, self.sign_y, self.sign_x) if self.transposed else self

    def turn(
        self, stacked: Float[Tensor, "case channel height width"], channels: Sequence[Channel]
    ) -> Float[Tensor, "case channel rows columns"]:
        """Apply it to stacked channels on a grid of any height and width."""
        turned, signs = self._moved(stacked[:, self.order(channels)]), self.signs(channels)
        return turned if min(signs) > 0 else turned * turned.new_tensor(signs)[:, None, None]

    def _moved(self, grids: Shaped[Tensor, "*stack height width"]) -> Shaped[Tensor, "*stack rows columns"]:
        """Apply it to the last two axes."""
        turned = grids.transpose(-2, -1) if self.transposed else grids
        axes = [axis for axis, sign in ((-2, self.sign_y), (-1, self.sign_x)) if sign < 0]
        return turned.flip(axes) if axes else turned  # ONNX cannot express a flip along no axis

    def order(self, channels: Sequence[Channel]) -> list[int]:
        """Return which channel each one is taken from: a transposition swaps x and y components."""
        names = [channel.name for channel in channels]
        return [names.index(channel.across if self.transposed else channel.name) for channel in channels]

    def signs(self, channels: Sequence[Channel]) -> list[float]:
        """Return the sign of each channel, in their new order."""
        sign = {"x": float(self.sign_x), "y": float(self.sign_y), None: 1.0}
        return [sign[channel.component] if channel.is_directed else 1.0 for channel in channels]


IDENTITY = Element(False, 1, 1)
SQUARE_GROUP = tuple(Element(transposed, *signs) for transposed in (False, True) for signs in product((1, -1), (1, -1)))


def find_symmetries(problem: Problem, conventions: Conventions) -> tuple[Element, ...]:
    """List the symmetries of a problem: those of its element matrix, given that its loads transform as their kinds say.

    A fixed velocity leaves only its own symmetries.
    """
    if not problem.is_homogeneous:
        return (IDENTITY,)
    return tuple(element for element in SQUARE_GROUP if _keeps(problem, conventions, element))


def _keeps(problem: Problem, conventions: Conventions, element: Element) -> bool:
    """Tell whether A (g u) = g (A u) for a symmetry g of the square, on a patch of 2×2 pixels and any u."""
    inputs, fields = input_channels(problem), field_channels(problem)
    for channels in (inputs, fields):
        if element.transposed and {each.across for each in channels} != {each.name for each in channels}:
            return False
    matrix = torch.from_numpy(problem.element_matrix(ELEMENTS["q1"](0.5), conventions))
    mask, free = torch.ones(1, 2, 2, dtype=torch.bool), torch.ones(1, len(fields), 3, 3, dtype=torch.bool)
    patch = DiscreteOperator(mask, free, matrix)
    nodes = torch.randn(1, len(fields), 3, 3, dtype=matrix.dtype, generator=torch.Generator().manual_seed(0))
    turned_before, turned_after = patch.apply(element.turn(nodes, fields)), element.turn(patch.apply(nodes), fields)
    return bool((turned_before - turned_after).abs().max() <= _ROUNDING * turned_after.abs().max())


def input_channels(problem: Problem) -> list[Channel]:
    """Describe how the input channels of a problem are rotated and mirrored."""
    return [Channel(term.channel, term.component, term.kind.is_directed) for term in problem.terms]


def field_channels(problem: Problem) -> list[Channel]:
    """Describe how the fields of a problem are rotated and mirrored."""
    components = {name: component_of(name) for name in problem.fields}
    return [Channel(name, component, component is not None) for name, component in components.items()]


def find_domain(problem: Problem) -> int:
    """Return the position of the domain among the channels of a problem."""
    return next(position for position, term in enumerate(problem.terms) if term.kind is DOMAIN)


@dataclass(frozen=True)
class Moves:
    """Tables for each element of a group: where each pixel and channel is taken from, and its sign."""

    pixels: Int[Tensor, "element pixel"]
    order: Int[Tensor, "element channel"]
    signs: Float[Tensor, "element channel"]

    @classmethod
    def of(cls, elements: Sequence[Element], channels: Sequence[Channel], size: int, device: torch.device) -> "Moves":
        """Tabulate the moves of stacked channels."""
        return cls(
            torch.stack([element.pixels(size) for element in elements]).to(device),
            torch.tensor([element.order(channels) for element in elements], device=device),
            torch.tensor([element.signs(channels) for element in elements], device=device),
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
    """Symmetries of a problem on one grid, as they act on batches."""

    elements: tuple[Element, ...]
    inputs: Moves
    target: Moves
    domain_position: int
    normalisation: Normalisation

    @classmethod
    def of(
        cls,
        problem: Problem,
        conventions: Conventions,
        size: int,
        device: str | torch.device,
        elements: Sequence[Element] | None = None,
    ) -> "Symmetries":
        """Tabulate the symmetries given, or all those of the problem, for grids of `size` pixels along a side."""
        found = find_symmetries(problem, conventions) if elements is None else tuple(elements)
        place = torch.device(device)
        return cls(
            found,
            Moves.of(found, input_channels(problem), size, place),
            Moves.of(found, field_channels(problem), size, place),
            find_domain(problem),
            problem.normalisation(conventions),
        )

    def draw(self, count: int, generator: torch.Generator) -> Int[Tensor, " case"]:
        """Draw one element for each of `count` cases."""
        return torch.randint(len(self.elements), (count,), generator=generator, device=generator.device)

    def apply(self, batch: Batch, elements: Int[Tensor, " case"]) -> Batch:
        """Move every case of a batch by its element."""
        if len(self.elements) == 1:
            return batch
        inputs = self.inputs.move(batch["inputs"], elements)
        moved = {**batch, "inputs": inputs, "domain": inputs.narrow(1, self.domain_position, 1).bool()}
        if not self.normalisation.per_component:
            return {**moved, "target": self.target.move(batch["target"], elements)}
        # Signs apply to the deviation of a pattern from that of U = 0.
        moved["amplitude"] = batch["amplitude"].gather(1, self.target.order[elements])
        deviation = batch["target"] - self._pattern_at_rest(batch)
        return {**moved, "target": self.target.move(deviation, elements) + self._pattern_at_rest(moved)}

    def _pattern_at_rest(self, batch: Batch) -> Float[Tensor, "case field height width"]:
        """Return the patterns of U = 0."""
        target, domain = batch["target"], batch["domain"][:, 0]
        return self.normalisation.to_pattern(torch.zeros_like(target), batch["amplitude"], domain).to(target.dtype)


def translate(batch: Batch, draws: Float[Tensor, "case 2"]) -> Batch:
    """Move every case to a place where its domain fits on the grid, chosen by two numbers from 0 to 1."""
    domain = batch["domain"][:, 0]
    rows = _lines_taken(domain.any(2), draws[:, 0])
    columns = _lines_taken(domain.any(1), draws[:, 1])
    pixels = (rows[:, :, None] * domain.shape[2] + columns[:, None, :]).flatten(1)

    def moved(stacked: Tensor) -> Tensor:
        taken = pixels[:, None].expand(-1, stacked.shape[1], -1)
        return stacked.flatten(2).gather(2, taken).reshape(stacked.shape)

    return {**batch, **{name: moved(batch[name]) for name in _PIXELS}}


def _lines_taken(occupied: Bool[Tensor, "case line"], draws: Float[Tensor, " case"]) -> Int[Tensor, "case line"]:
    """Return the row or column that each one of the moved grid is taken from; empty ones wrap around."""
    size = occupied.shape[1]
    first = occupied.int().argmax(1)
    last = size - 1 - occupied.flip(1).int().argmax(1)
    places = size - (last - first)
    moved_by = (draws * places).floor().long().clamp(max=places - 1) - first
    return (torch.arange(size, device=occupied.device) - moved_by[:, None]) % size
