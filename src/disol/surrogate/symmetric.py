"""A network as symmetric as its equation: the mean of its predictions for all rotated and mirrored copies of a case.

Training on such copies teaches a symmetry only roughly: transformed back, predictions for the copies of one case
differ, and each is as good as the others. Errors that differ between them cancel in their mean; those they share do
not.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from jaxtyping import Bool, Float
from torch import Tensor, nn

from disol.errors import DisolError
from disol.models import Checkpoint
from disol.models.base import Predicts, find_accepted
from disol.models.card import Card
from disol.models.handle import Handle, resolve
from disol.problems import Problem
from disol.training.augmentation import Element, field_channels, find_domain, find_symmetries, input_channels


class SymmetricNetwork(nn.Module):
    """The mean over symmetries g of g⁻¹ N(g ·), with one run of the network N for each.

    elements   the symmetries; those of a group make the mean exactly symmetric
    """

    predicts: ClassVar[Predicts] = "pattern"

    def __init__(self, checkpoint: Checkpoint, elements: Sequence[Element]) -> None:
        super().__init__()
        self.network = checkpoint.network
        self.elements = tuple(elements)
        self.normalisation = checkpoint.normalisation
        self.inputs, self.outputs = input_channels(checkpoint.problem), field_channels(checkpoint.problem)
        self.domain_position = find_domain(checkpoint.problem)

    def forward(self, inputs: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch field height width"]:
        """Return the mean pattern."""
        first, *others = self.elements
        total = self.predict_copy(inputs, first)
        for element in others:
            total = total + self.predict_copy(inputs, element)
        return total / len(self.elements)

    def predict_copy(
        self, inputs: Float[Tensor, "batch channel height width"], element: Element
    ) -> Float[Tensor, "batch field height width"]:
        """Return the pattern that is predicted for a copy, transformed back."""
        moved = element.turn(inputs, self.inputs)
        pattern = self.network(moved)
        # Signs apply to the deviation of a pattern from that of U = 0.
        deviation = self.normalisation.centred(pattern, self._domain_of(moved))
        turned = element.inverse.turn(deviation, self.outputs)
        return self.normalisation.shifted(turned, self._domain_of(inputs))

    def accepts(self, domains: Bool[Tensor, "batch height width"]) -> Bool[Tensor, " batch"] | None:
        """Tell on which domains the network can predict; None: on all."""
        return find_accepted(self.network, domains)

    def _domain_of(self, inputs: Float[Tensor, "batch channel height width"]) -> Bool[Tensor, "batch height width"]:
        return inputs[:, self.domain_position] > 0


def symmetrise(
    handle: Handle,
    problem: str | Problem | None = None,
    *,
    model: str | type[nn.Module] | nn.Module | None = None,
) -> Checkpoint:
    """Return a trained network, given by any handle, as one that averages over all symmetries of its problem.

    The arguments are those of `load`; the result is a handle, too, which `load`, `evaluate` and `export_onnx` take.
    A prediction runs the network once for each symmetry, eight times for most problems.
    """
    checkpoint = resolve(handle, problem=problem, model=model)
    if checkpoint.predicts != "pattern":
        raise DisolError(
            f"Only patterns can be averaged over symmetries, but {checkpoint.name} predicts the {checkpoint.predicts}."
        )
    elements = find_symmetries(checkpoint.problem, checkpoint.conventions)
    if len(elements) == 1:
        raise DisolError(f"{checkpoint.problem.name} must have a symmetry, but no rotation or reflection is one.")
    network = SymmetricNetwork(checkpoint, elements).eval()
    card = Card.of(network, checkpoint.problem, checkpoint.conventions, checkpoint.resolutions)
    return replace(checkpoint, path=None, network=network, state=None, card=card)
