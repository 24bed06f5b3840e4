"""Poisson and advection-diffusion: one unknown, driven by a source."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from disol import _checks as checks
from disol._arrays import Array
from disol._terms import DOMAIN, SOURCE, SUPPORT, Kind, Term
from disol.fem import ELEMENTS, Element, consistent_load, forms, nodal_load
from disol.fem.cut_forms import Form, conducting
from disol.fields import Source, at_nodes, at_pixels, is_function
from disol.grid import Grid, nodes_touching, pixel_means
from disol.problems.coefficients import Coefficient, cautions_of_tensor
from disol.problems.conventions import Conventions
from disol.problems.problem import Mask, Problem, Terms

STEEPEST = 30.0  # largest logarithm of the range of ρ; beyond it, most of the domain would have no weight


@dataclass(frozen=True)
class ScalarProblem(Problem):
    """−div(κ ∇U) + v · ∇U + r U = f; U = 0 on supports, κ ∂U/∂n = 0 on every other boundary.

    diffusion   κ
    velocity    v, along x and along y

    On the true boundary both may vary in space, κ may be a symmetric tensor, and there may be a reaction r ≥ 0.
    """

    diffusion: float = 1.0
    velocity: tuple[float, float] = (0.0, 0.0)

    terms: ClassVar = (Term("domain", DOMAIN), Term("dirichlet", SUPPORT), Term("source", SOURCE))
    fields: ClassVar = ("u",)
    parameters: ClassVar = {"diffusion": checks.positive_number, "velocity": checks.vector}
    coefficients: ClassVar = {
        "diffusion": Coefficient(((), (2, 2))),
        "velocity": Coefficient(((2,),), "any"),
        "reaction": Coefficient(least="not negative"),
    }
    is_homogeneous: ClassVar = True
    has_form: ClassVar = True
    aliases: ClassVar = {"conductivity": "diffusion"}

    def form(self, conventions: Conventions, coefficients: Terms) -> Form:
        """−div(κ ∇U) + v · ∇U + r U."""
        law = conducting(coefficients.get("diffusion", self.diffusion))
        velocity = self.velocity if any(self.velocity) else None
        if "velocity" in coefficients:
            velocity = np.moveaxis(coefficients["velocity"], 0, -1)
        reaction = coefficients.get("reaction", 0.0)
        return Form(law, velocity, reaction, upwind=conventions.streamline_upwind)

    def equation_with(self, coefficients: Collection[str]) -> str:
        """−div(κ ∇U) + v · ∇U + r U = f, without the terms that are zero."""
        has_number = self.diffusion != 1 or "κ" in self.equation
        flux = "−div(κ ∇U)" if "diffusion" in coefficients else "−κ ΔU" if has_number else "−ΔU"
        advection = " + v · ∇U" if any(self.velocity) or "velocity" in coefficients else ""
        return f"{flux}{advection}{' + r U' if 'reaction' in coefficients else ''} = f"

    def on_length(self, length: float) -> tuple[Problem, dict[Kind, float]]:
        """−div(κ ∇U) + L v · ∇U = L² f."""
        _, factors = super().on_length(length)
        velocity = (length * self.velocity[0], length * self.velocity[1])
        return replace(self, velocity=velocity), factors

    def is_multiple_of(self, other: Problem) -> bool:
        """Tell whether v / κ is the same."""
        if not isinstance(other, ScalarProblem) or self.name != other.name:
            return False
        own, others = (np.array(each.velocity) / each.diffusion for each in (self, other))
        return bool(np.allclose(own, others, rtol=1e-12, atol=0))

    def cautions(self, domain: Mask, coefficients: Terms) -> Iterator[str]:
        """Warn where bilinear elements lock: in strongly anisotropic materials at an angle to the grid."""
        yield from cautions_of_tensor("diffusion", coefficients.get("diffusion", self.diffusion), domain)

    def element_matrix(self, element: Element, conventions: Conventions) -> Float[np.ndarray, "4 4"]:
        """∫ κ ∇Nᵢ · ∇Nⱼ + wᵢ v · ∇Nⱼ, with w = N (Galerkin) or w = N + τ v · ∇N (SUPG)."""
        matrix = self.diffusion * forms.diffusion(element)
        if any(self.velocity):
            matrix += forms.advection(element, self.velocity)
            if conventions.streamline_upwind:
                matrix += forms.streamline_diffusion(element, self.velocity)
        return matrix

    def load(self, terms: Terms, conventions: Conventions, element: Element) -> Float[Array, "*batch 1 rows columns"]:
        """∫ wᵢ f, or f(node i) in the published convention for Poisson."""
        domain, source = terms["domain"], terms["source"]
        if self._is_loaded_by_node(conventions):
            return nodal_load(domain, source)[..., None, :, :]
        upwind = conventions.streamline_upwind and any(self.velocity)
        test = forms.upwind_test(element, self.velocity) if upwind else forms.galerkin_test(element)
        return consistent_load(element, test, domain, source)[..., None, :, :]

    def symmetriser(self, grid: Grid) -> Float[np.ndarray, "rows columns"]:
        """ρ = exp(−v · x / κ): −κ ΔU + v · ∇U = −κ ρ⁻¹ div(ρ ∇U), with the natural boundary condition of U itself."""
        x, y = grid.node_positions()
        along = (self.velocity[0] * x + self.velocity[1] * y) / self.diffusion
        exponent = along.min() - along
        return np.exp(exponent * min(1.0, STEEPEST / max(-exponent.min(), STEEPEST)))

    def _is_loaded_by_node(self, conventions: Conventions) -> bool:
        return conventions.nodal_source and not any(self.velocity)

    def channel(self, term: Term, terms: Terms, conventions: Conventions) -> Any:
        """Return what a network sees; for a nodal source, the mean of f over the nodes of a pixel, 0 at held ones."""
        if term.kind is SOURCE and self._is_loaded_by_node(conventions):
            domain = terms["domain"]
            free = ~nodes_touching(terms["dirichlet"])
            return pixel_means(nodal_load(domain, terms["source"]) * free) * domain
        return super().channel(term, terms, conventions)

    def scaling_samples(self, source: Source, domain: Mask, conventions: Conventions) -> Float[Array, "*batch sample"]:
        """Sample a source where it is scaled to [0, 1]: at pixel centres, nodes or Gauss points."""
        if self._is_loaded_by_node(conventions):
            active = nodes_touching(domain)
            values = at_nodes(source, domain, active)
            return values[active] if domain.ndim == 2 else values.reshape(len(domain), -1)
        if conventions.streamline_upwind and any(self.velocity) and is_function(source):
            points = ELEMENTS["q1"](Grid(*domain.shape[-2:]).h).positions
            sampled = [at_pixels(source, domain, *point) for point in points]
            if domain.ndim == 2:
                return np.concatenate([values[domain] for values in sampled])
            return np.concatenate([values.reshape(len(domain), -1) for values in sampled], axis=1)
        return super().scaling_samples(source, domain, conventions)


POISSON = ScalarProblem("poisson", "−ΔU = f", resolution=64)
ADVECTION_DIFFUSION_LOW = ScalarProblem(
    "advection-diffusion-low", "−κ ΔU + v · ∇U = f", resolution=128, diffusion=1.0, velocity=(0.25, 0.5)
)
ADVECTION_DIFFUSION_HIGH = ScalarProblem(
    "advection-diffusion-high", "−κ ΔU + v · ∇U = f", resolution=128, diffusion=0.2, velocity=(0.5, -1.0)
)
