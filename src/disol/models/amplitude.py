"""The amplitude of a solution, which its pattern leaves out: ln u_lim by the DiSOL backbone (Supplement D)."""

from typing import ClassVar

from jaxtyping import Float
from torch import Tensor

from disol.models.base import Network, Predicts
from disol.models.disol import LocalContributions, build_assembly, build_readout
from disol.models.settings import DiSOLConfig
from disol.nn import domain_mean
from disol.problems import Problem


class DiSOLAmplitude(Network):
    """Local contributions, assembled across scales, averaged over the domain to one number."""

    predicts: ClassVar[Predicts] = "log-amplitude"

    def __init__(self, config: DiSOLConfig, problem: Problem) -> None:
        super().__init__(config, problem)
        self.local_operator = LocalContributions(config, problem)
        self.assembly = build_assembly(config)
        self.readout = build_readout(config, num_outputs=1)

    def forward(self, inputs: Float[Tensor, "batch channel height width"]) -> Float[Tensor, " batch"]:
        """Return ln u_lim as the mean of S(A(J(X))) over the domain."""
        domain = self.domain_of(inputs)
        contributions = self.local_operator(inputs)
        assembled = self.assembly(contributions, domain)
        return domain_mean(self.readout(assembled), domain)[:, 0]
