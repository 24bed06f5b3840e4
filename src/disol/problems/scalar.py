"""Poisson and advection-diffusion: one unknown, driven by a source."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float, Float32

from disol.channels import ChannelLayout
from disol.fem import ELEMENTS, Element, System, consistent_load, forms, nodal_load
from disol.fields import Source, at_nodes, at_pixels, draw_field
from disol.geometry import Raster
from disol.grid import Grid, nodes_touching, pixel_means
from disol.problems import checks
from disol.problems.conventions import Conventions
from disol.problems.distribution import Distribution
from disol.problems.problem import Exact, Markers, Problem, Sketch, Streams, Terms, normalise

Mask = Bool[np.ndarray, "*batch height width"]


@dataclass(frozen=True)
class ScalarProblem(Problem):
    """−κ ΔU + v · ∇U = f; U = 0 on Dirichlet pixels, κ ∂U/∂n = 0 on every other boundary.

    diffusion   κ
    velocity    v, along columns and along rows
    """

    diffusion: float = 1.0
    velocity: tuple[float, float] = (0.0, 0.0)

    channels: ClassVar = ChannelLayout("domain", "dirichlet", "source")
    fields: ClassVar = ("u",)
    terms: ClassVar = ("domain", "dirichlet", "source")
    takes_batches: ClassVar = True
    parameters: ClassVar = {"diffusion": checks.positive_number, "velocity": checks.vector}

    @property
    def is_advective(self) -> bool:
        """Tell whether anything is carried along."""
        return any(self.velocity)

    def is_loaded_by_node(self, conventions: Conventions) -> bool:
        """Tell whether a source counts by its values at nodes."""
        return conventions.nodal_source and not self.is_advective

    def draw(self, streams: Streams, raster: Raster, distribution: Distribution, conventions: Conventions) -> Sketch:
        """Draw Dirichlet segments and a source scaled to [0, 1]."""
        source = draw_field(streams("source"), distribution.fields)
        return {
            "dirichlet": Markers(distribution.segments.draw(streams("dirichlet"), raster.geometry)),
            "source": source.scaled_to_unit(self.scaling_samples(source, raster.mask, conventions)),
        }

    def scaling_samples(self, source: Source, domain: Mask, conventions: Conventions) -> Float[np.ndarray, " sample"]:
        """Sample a source where it is scaled to [0, 1]: at pixel centres, nodes or Gauss points."""
        if self.is_loaded_by_node(conventions):
            active = nodes_touching(domain)
            return at_nodes(source, domain, active)[active]
        if conventions.streamline_upwind and self.is_advective:
            points = ELEMENTS["q1"](Grid(*domain.shape).h).positions
            return np.concatenate([at_pixels(source, domain, *point)[domain] for point in points])
        return at_pixels(source, domain)[domain]

    def encode(self, terms: Terms, conventions: Conventions) -> Float32[np.ndarray, "*batch channel height width"]:
        """Stack domain, Dirichlet pixels and the source, at pixel centres or as the mean of unpinned nodes."""
        domain, dirichlet, source = (terms[name] for name in self.terms)
        if self.is_loaded_by_node(conventions):
            values = pixel_means(nodal_load(domain, source) * ~nodes_touching(dirichlet)) * domain
        else:
            values = at_pixels(source, domain)
        return self.stack([domain, dirichlet, values])

    def check(self, terms: Terms) -> Terms:
        """Read domain, Dirichlet pixels and source."""
        domain = checks.domain_array(terms["domain"])
        dirichlet = checks.marker_array("dirichlet", terms["dirichlet"], domain, on_every_part=True)
        free_nodes(domain, dirichlet)
        return {
            "domain": domain,
            "dirichlet": dirichlet,
            "source": checks.source_term("source", terms["source"], domain),
        }

    def element_matrix(self, element: Element, conventions: Conventions) -> Float[np.ndarray, "4 4"]:
        """∫ κ ∇Nᵢ · ∇Nⱼ + wᵢ v · ∇Nⱼ, with w = N (Galerkin) or w = N + τ v · ∇N (SUPG)."""
        matrix = self.diffusion * forms.diffusion(element)
        if self.is_advective:
            matrix += forms.advection(element, self.velocity)
            if conventions.streamline_upwind:
                matrix += forms.streamline_diffusion(element, self.velocity)
        return matrix

    def load(
        self, domain: Mask, source: Source, conventions: Conventions, element: Element
    ) -> Float[np.ndarray, "*batch 1 rows columns"]:
        """∫ wᵢ f, or f(node i) by the published Poisson convention."""
        if self.is_loaded_by_node(conventions):
            return nodal_load(domain, source)[..., None, :, :]
        upwind = conventions.streamline_upwind and self.is_advective
        test = forms.upwind_test(element, self.velocity) if upwind else forms.galerkin_test(element)
        return consistent_load(element, test, domain, source)[..., None, :, :]

    def system(self, terms: Terms, conventions: Conventions, element: Element) -> System:
        """Discretise a case."""
        domain, dirichlet, source = (terms[name] for name in self.terms)
        return System(
            domain,
            self.element_matrix(element, conventions),
            free_nodes(domain, dirichlet)[..., None, :, :],
            self.load(domain, source, conventions, element),
        )

    def solve(self, terms: Terms, conventions: Conventions, element: Element) -> Exact:
        """Solve a case."""
        nodes = self.system(terms, conventions, element).solve()
        field = pixel_means(nodes) * terms["domain"]
        pattern, amplitude = normalise(field, terms["domain"])
        return Exact(self.name, terms["domain"], field, pattern, amplitude, nodes)


def free_nodes(domain: Mask, pinned: Mask) -> Bool[np.ndarray, "*batch rows columns"]:
    """Mark the nodes of the domain that no pinned pixel touches; there must be some."""
    free = nodes_touching(domain) & ~nodes_touching(pinned)
    if not free.any(axis=(-2, -1)).all():
        raise ValueError("Every node is pinned, so there is nothing to solve. Mark fewer Dirichlet pixels.")
    return free


POISSON = ScalarProblem("poisson", "−ΔU = f", resolution=64, num_cases=46_011)
ADVECTION_DIFFUSION_LOW = ScalarProblem(
    "advection-diffusion-low",
    "−κ ΔU + v · ∇U = f",
    resolution=128,
    num_cases=49_650,
    diffusion=1.0,
    velocity=(0.25, 0.5),
)
ADVECTION_DIFFUSION_HIGH = ScalarProblem(
    "advection-diffusion-high",
    "−κ ΔU + v · ∇U = f",
    resolution=128,
    num_cases=49_400,
    diffusion=0.2,
    velocity=(0.5, -1.0),
)
