"""Names of stacked channels, so that no code counts positions."""

import numpy as np
from jaxtyping import Shaped


class ChannelLayout(tuple[str, ...]):
    """The ordered names of the channels of an array `[..., channel, height, width]`."""

    def __new__(cls, *names: str) -> "ChannelLayout":
        """Build a layout from distinct names, in the order the channels are stacked."""
        if len(set(names)) != len(names):
            raise ValueError(f"Channel names must differ, got {names}. Rename the repeated one.")
        return super().__new__(cls, names)

    def __getnewargs__(self) -> tuple[str, ...]:
        return tuple(self)

    def position(self, name: str) -> int:
        """Return where `name` is stacked."""
        try:
            return self.index(name)
        except ValueError:
            raise ValueError(f"Unknown channel {name!r}. The channels are {', '.join(self)}.") from None

    def select(
        self, stacked: Shaped[np.ndarray, "*batch channel height width"], name: str
    ) -> Shaped[np.ndarray, "*batch height width"]:
        """Return the channel called `name` of a stacked array."""
        return stacked[..., self.position(name), :, :]
