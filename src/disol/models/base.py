"""What every network is: a map from the stacked channels of a problem to its pattern or its amplitude."""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn

from disol._terms import DOMAIN
from disol.errors import DisolError, listed
from disol.models.settings import ModelConfig
from disol.models.table import count_parameters, count_real_numbers
from disol.problems import Problem

Weights = Mapping[str, Shaped[Tensor, "..."]]
Predicts = Literal["pattern", "log-amplitude"]


class Network(nn.Module, ABC):
    """A network that knows its settings and its problem.

    predicts    "pattern": a field [batch, field, height, width], zero outside the domain;
                "log-amplitude": ln max |U| of each case, [batch]
    compiles    whether its work is the same for all batches of one shape; on a GPU it is then compiled and recorded as
                a CUDA graph, unless settings say otherwise
    precision   of its training on a GPU, unless settings say otherwise: "bfloat16", where torch deems that safe and
                the GPU supports it, or "float32"

    Training and evaluation look for the same attributes in networks of your own; these values are the defaults.
    """

    predicts: ClassVar[Predicts] = "pattern"
    compiles: ClassVar[bool] = True
    precision: ClassVar[Literal["bfloat16", "float32"]] = "bfloat16"

    def __init__(self, config: ModelConfig, problem: Problem) -> None:
        super().__init__()
        self.config = config
        self.problem = problem
        self.channels = problem.channels
        self.fields = problem.fields
        self.num_channels = len(problem.channels)
        domains = [place for place, term in enumerate(problem.terms) if term.kind is DOMAIN]
        if len(domains) != 1:
            raise DisolError(f"A problem has one domain, but {problem.name} has {len(domains)} among its terms.")
        self.domain_position = domains[0]

    @abstractmethod
    def forward(self, inputs: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch ..."]:
        """Predict for a batch of cases."""

    def domain_of(self, inputs: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch 1 height width"]:
        """Return the domain of each case, after checking that the channels are those of this network."""
        if inputs.shape[1] != self.num_channels:
            raise DisolError(
                f"Expected {self.num_channels} channels ({', '.join(self.channels)}), got {inputs.shape[1]}. "
                "Stack the channels of the problem this network was built for."
            )
        return inputs.narrow(1, self.domain_position, 1)

    def accepts(self, domains: Bool[Tensor, "batch height width"]) -> Bool[Tensor, " batch"] | None:
        """Tell on which domains it can predict; None means all."""
        del domains
        return None

    def __repr__(self) -> str:
        maps = f"{', '.join(self.channels)} -> {', '.join(self.fields)}"
        count, reals = count_parameters(self), count_real_numbers(self)
        size = f"{count:,} parameters" + (f", {reals:,} real numbers" if reals != count else "")
        return f"{type(self).__name__}({self.problem.name}: {maps}; {size})"

    def describe(self) -> str:
        """Return all layers as text, as torch prints a module."""
        return super().__repr__()


def find_accepted(network: nn.Module, domains: Bool[Tensor, "case height width"]) -> Bool[Tensor, " case"] | None:
    """Tell on which domains a network, maybe of your own, can predict; None means all."""
    accepts = getattr(network, "accepts", None)
    return None if accepts is None else accepts(domains)


def fill(network: nn.Module, weights: Weights, source: object) -> None:
    """Load weights into a network; each must be present, have the right shape and be finite.

    A network on the meta device takes over the given tensors, so that no memory is allocated before they fit.
    """
    is_outline = any(weight.is_meta for weight in network.parameters())
    try:
        network.load_state_dict(dict(weights), strict=True, assign=is_outline)
    except RuntimeError as error:
        _, _, troubles = str(error).partition("\n")
        told = re.sub(r"torch\.Size\(\[([\d, ]*)\]\)", r"(\1)", " ".join(troubles.split()))
        raise DisolError(
            f"{source} must hold the weights of a {type(network).__name__}, but: {listed([told], 300)} "
            "Use the settings it was made with."
        ) from None
    # A sum is finite if all its numbers are, unless they are very large.
    if not all(weight.sum().isfinite() or weight.isfinite().all() for weight in weights.values()):
        raise DisolError(f"{source} holds NaN or infinite weights. Check why training diverged.")


def require_fit(network: nn.Module, problem: Problem, side: int) -> None:
    """Require, by a trial on a grid of `side` x `side` pixels, that a network of your own maps channels to fields."""
    given = (1, len(problem.channels), side, side)
    is_pattern = getattr(network, "predicts", "pattern") == "pattern"
    expected = (1, len(problem.fields), side, side) if is_pattern else (1,)
    device = next((weight.device for weight in network.parameters()), None)
    was_training = network.training
    try:
        with torch.no_grad():
            found = network.eval()(torch.ones(given, dtype=torch.float32, device=device))
        outcome = f"gave {tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__}"
        reason: Exception | None = None
    except Exception as error:  # from code that is not ours
        first_line, _, _ = str(error).partition("\n")
        outcome, reason = f"raised {type(error).__name__}: {first_line.rstrip('.')}", error
    finally:
        network.train(was_training)
    if outcome != f"gave {expected}":
        raise DisolError(
            f"{type(network).__name__} must map {', '.join(problem.channels)} {list(given)} to "
            f"{', '.join(problem.fields)} {list(expected)}, but {outcome}."
        ) from reason
