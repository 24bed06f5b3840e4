"""What every network is: a map from the stacked channels of a problem to its pattern or its amplitude."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Literal

from jaxtyping import Float, Shaped
from torch import Tensor, nn

from disol.channels import ChannelLayout
from disol.models.config import ModelConfig

Weights = Mapping[str, Shaped[Tensor, "..."]]


class Network(nn.Module, ABC):
    """A network that knows its settings and the names of its channels and fields.

    predicts   "pattern": a field [batch, field, height, width], zero outside the domain;
               "log-amplitude": ln max |U| of each case, [batch]
    """

    predicts: ClassVar[Literal["pattern", "log-amplitude"]] = "pattern"

    def __init__(self, config: ModelConfig, channels: ChannelLayout, fields: tuple[str, ...]) -> None:
        super().__init__()
        self.config = config
        self.channels = channels
        self.fields = fields
        self.num_channels = len(channels)
        self.domain_position = channels.position("domain")

    @abstractmethod
    def forward(self, inputs: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch ..."]:
        """Predict for a batch of cases."""

    def domain_of(self, inputs: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch 1 height width"]:
        """Return the domain of each case, once their channels are those of this network."""
        if inputs.shape[1] != self.num_channels:
            raise ValueError(
                f"Expected {self.num_channels} channels ({', '.join(self.channels)}), got {inputs.shape[1]}. "
                "Stack the channels of the problem this network was built for."
            )
        return inputs.narrow(1, self.domain_position, 1)


def fill(network: Network, weights: Weights, source: object) -> None:
    """Give a network its weights, each of which must be there and have the right shape."""
    own = network.state_dict()
    missing, extra = sorted(own.keys() - weights.keys()), sorted(weights.keys() - own.keys())
    if missing or extra:
        lacks = f"lacks {shorten(missing)}" if missing else f"has {shorten(extra)} besides"
        raise ValueError(
            f"{source} must hold the {len(own)} weights of a {type(network).__name__}, but {lacks}. "
            "Use the settings it was made with."
        )
    for name, weight in weights.items():
        if weight.shape != own[name].shape:
            raise ValueError(
                f"{name} of {source} must have shape {tuple(own[name].shape)}, got {tuple(weight.shape)}. "
                "Use the settings it was made with."
            )
    network.load_state_dict(dict(weights))


def shorten(names: list[str], shown: int = 3) -> str:
    """List the first names, and how many more there are."""
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more
