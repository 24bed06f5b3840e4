"""The ways to discretise a case: on its true boundary, as the paper's text says, or as its released data were made."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Conventions:
    """A named set of discretisation rules.

    nodal_source          without advection, the load is f(node) instead of ∫ f N
    streamline_upwind     advection by SUPG instead of Galerkin
    plane                 plane strain or plane stress
    force_per_length      a boundary force is the channel value times h, so that it does not grow with resolution
    component_patterns    vector fields are scaled per component to [0, 1] instead of jointly to [-1, 1]
    true_boundary         elements end at the boundary itself, not at pixel edges; τ of SUPG is computed for each pixel
    """

    name: str
    nodal_source: bool
    streamline_upwind: bool
    plane: Literal["strain", "stress"]
    force_per_length: bool
    component_patterns: bool
    true_boundary: bool = False

    def __str__(self) -> str:
        return self.name


PAPER = Conventions(
    "paper",
    nodal_source=False,
    streamline_upwind=False,
    plane="strain",
    force_per_length=True,
    component_patterns=False,
)
PUBLISHED = Conventions(
    "published",
    nodal_source=True,
    streamline_upwind=True,
    plane="stress",
    force_per_length=False,
    component_patterns=True,
)
PHYSICAL = Conventions(
    "physical",
    nodal_source=False,
    streamline_upwind=True,
    plane="strain",
    force_per_length=True,
    component_patterns=False,
    true_boundary=True,
)

CONVENTIONS = {conventions.name: conventions for conventions in (PAPER, PUBLISHED, PHYSICAL)}
