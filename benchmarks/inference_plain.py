"""The rival of compiled networks: a network of the published recipe in plain float32, as anyone would call it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

import torch
from torch.nn import functional

from disol.nn import scales
from disol.surrogate.engines import TorchEngine


def interpolate(features: torch.Tensor) -> torch.Tensor:
    """Double the size with torch's own kernel."""
    return functional.interpolate(features, scale_factor=2, mode="bilinear", align_corners=False)


@contextmanager
def torch_interpolation() -> Iterator[None]:
    """Within this context, interpolate with torch's own kernel in all networks of this process."""
    own = scales.double
    scales.double = interpolate
    try:
        yield
    finally:
        scales.double = own


class PlainEngine(TorchEngine):
    """The network as it is, on contiguous tensors, with torch's own interpolation."""

    name: ClassVar[str] = "plain"

    def prepare(self) -> None:
        """Move the network to the device."""
        self.network.to(self.device)

    def forward(self, cases: torch.Tensor) -> torch.Tensor:
        """Run the network."""
        with torch_interpolation():
            return self.network(cases)
