"""The amplitude of a solution, which its pattern leaves out: ln u_lim by the DiSOL backbone (Supplement D)."""

from typing import ClassVar, Literal

from jaxtyping import Float
from torch import Tensor

from disol.channels import ChannelLayout
from disol.models.disol import DiSOLConfig, LocalContributions, assembly_of, readout_of
from disol.models.network import Network
from disol.nn import domain_mean


class DiSOLAmplitude(Network):
    """Local contributions, assembled across scales, averaged over the domain to one number."""

    predicts: ClassVar[Literal["pattern", "log-amplitude"]] = "log-amplitude"

    def __init__(self, config: DiSOLConfig, channels: ChannelLayout, fields: tuple[str, ...]) -> None:
        super().__init__(config, channels, fields)
        self.local_operator = LocalContributions(config, channels)
        self.assembly = assembly_of(config)
        self.readout = readout_of(config, num_outputs=1)

    def forward(self, inputs: Float[Tensor, "batch channel height width"]) -> Float[Tensor, " batch"]:
        """Return ln u_lim as the mean of S(A(J(X))) over the domain."""
        domain = self.domain_of(inputs)
        contributions = self.local_operator(inputs)
        assembled = self.assembly(contributions, domain)
        return domain_mean(self.readout(assembled), domain)[:, 0]
