"""Linear elasticity: two displacement components, driven by forces on the boundary."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float, Float32

from disol.channels import ChannelLayout
from disol.fem import Element, System, boundary_force, forms
from disol.geometry import Raster
from disol.grid import Grid, nodes_touching, pixel_means
from disol.problems import checks
from disol.problems.conventions import Conventions
from disol.problems.distribution import Distribution
from disol.problems.problem import (
    Exact,
    Markers,
    Problem,
    Sketch,
    Streams,
    Terms,
    normalise,
    normalise_components,
)

Mask = Bool[np.ndarray, "*batch height width"]
FIXED = ("fix_x", "fix_y")
FORCES = ("force_x", "force_y")
MOST_TRIES = 100
LEAST_LOADED = 0.25  # share of the loaded nodes that must be free to move


@dataclass(frozen=True)
class ElasticityProblem(Problem):
    """−div σ(U) = 0, σ = C : ε(U); U_x = 0 on fix_x pixels, U_y = 0 on fix_y pixels, forces on loaded pixels.

    A pixel pins nodes of two rows and two columns, so one fix_x and one fix_y pixel on each part of the domain
    rule out every rigid motion.

    young           E
    poisson_ratio   ν
    """

    young: float = 1e3
    poisson_ratio: float = 0.3

    channels: ClassVar = ChannelLayout("domain", "fix_x", "fix_y", "force_x", "force_y")
    fields: ClassVar = ("u_x", "u_y")
    terms: ClassVar = ("domain", "fix_x", "fix_y", "force_x", "force_y")
    shifts: ClassVar = ("topology", "boundary")
    takes_batches: ClassVar = True
    parameters: ClassVar = {"young": checks.positive_number, "poisson_ratio": checks.poisson_ratio}

    def draw(self, streams: Streams, raster: Raster, distribution: Distribution, conventions: Conventions) -> Sketch:
        """Draw fixed segments and loaded ones for each component, each force +1 or −1."""
        del conventions  # sketches of elasticity do not depend on them
        sketch: Sketch = {}
        for axis in ("x", "y"):
            fixed = distribution.segments.draw(streams(f"fix_{axis}"), raster.geometry)
            sketch[f"fix_{axis}"] = Markers(fixed)
            pinned = nodes_touching(raster.mark(fixed))
            rng = streams(f"force_{axis}")
            for _ in range(MOST_TRIES):
                segments = distribution.segments.draw(rng, raster.geometry)
                sketch[f"force_{axis}"] = Markers(segments, force=float(rng.choice([-1.0, 1.0])))
                loaded = nodes_touching(raster.mark(segments))
                if (loaded & ~pinned).sum() >= LEAST_LOADED * loaded.sum():
                    break
        return sketch

    def encode(self, terms: Terms, conventions: Conventions) -> Float32[np.ndarray, "*batch channel height width"]:
        """Stack domain, fixed pixels and forces."""
        del conventions  # both write the channels alike
        return self.stack([terms[name] for name in self.terms])

    def check(self, terms: Terms) -> Terms:
        """Read domain, fixed pixels and forces."""
        domain = checks.domain_array(terms["domain"])
        fixed = {name: checks.marker_array(name, terms[name], domain, on_every_part=True) for name in FIXED}
        free_components(domain, *fixed.values())
        forces = {name: checks.force_array(name, terms[name], domain) for name in FORCES}
        return {"domain": domain, **fixed, **forces}

    def element_matrix(self, element: Element, conventions: Conventions) -> Float[np.ndarray, "8 8"]:
        """∫ ε(Nᵢ) : C : ε(Nⱼ)."""
        return forms.elasticity(element, forms.hooke(self.young, self.poisson_ratio, conventions.plane))

    def system(self, terms: Terms, conventions: Conventions, element: Element) -> System:
        """Discretise a case."""
        domain = terms["domain"]
        free = free_components(domain, *(terms[name] for name in FIXED))
        unit = Grid(*domain.shape[-2:]).h if conventions.force_per_length else 1.0
        load = np.stack([boundary_force(terms[name], unit) for name in FORCES], axis=-3)
        return System(domain, self.element_matrix(element, conventions), free, load)

    def solve(self, terms: Terms, conventions: Conventions, element: Element) -> Exact:
        """Solve a case."""
        nodes = self.system(terms, conventions, element).solve()
        domain = terms["domain"]
        field = pixel_means(nodes) * domain
        if self.scales_fields_separately(conventions):
            return Exact(self.name, domain, field, *normalise_components(field, domain), nodes)
        return Exact(self.name, domain, field, *normalise(field, domain), nodes)


def free_components(domain: Mask, *fixed: Mask) -> Bool[np.ndarray, "*batch component rows columns"]:
    """Mark the nodes of the domain that can move, in each direction; there must be some."""
    active = nodes_touching(domain)
    free = np.stack([active & ~nodes_touching(pixels) for pixels in fixed], axis=-3)
    if not free.any(axis=(-3, -2, -1)).all():
        raise ValueError("Every node is fixed, so there is nothing to solve. Mark fewer fix_x or fix_y pixels.")
    return free


ELASTICITY = ElasticityProblem("elasticity", "−div σ(U) = 0, σ·n = t", resolution=128, num_cases=49_788)
