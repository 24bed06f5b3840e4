"""Transient heat conduction: one unknown, driven by an initial field and a source."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from disol import _checks as checks
from disol._arrays import Array
from disol._terms import DOMAIN, INITIAL, SOURCE, SUPPORT, TIMES, Kind, Term
from disol.errors import DisolError
from disol.fem import Element, consistent_load, forms
from disol.fem.cut_forms import ComponentSource, Form, conducting
from disol.fields import times
from disol.problems.coefficients import Coefficient, cautions_of_tensor
from disol.problems.conventions import Conventions
from disol.problems.problem import Mask, Problem, Terms, TransientProblem


@dataclass(frozen=True)
class HeatProblem(TransientProblem):
    """ρ c U_t = s (div(κ ∇U) + g f), U(0) = U₀; U = 0 on supports, κ ∂U/∂n = 0 on every other boundary.

    time_scale        s, diffusion times per second
    source_strength   g
    steps_per_frame   time steps in each frame of 2 s: backward Euler on pixels, SDIRK2 on the true boundary

    On the true boundary there may be a conductivity κ, also as a symmetric tensor, a density ρ and a capacity c, all of
    which may vary in space. They are 1 unless given.

    With s = g = 1 on the unit square, every case would be steady after a few seconds; the defaults spread the transient
    over 50 s and give source and initial field equal weight at 20 s. If κ, ρ, c or the size of the grid is given, s and
    g are 1 unless given too.
    """

    time_scale: float = 0.01
    source_strength: float = 3.0

    terms: ClassVar = (
        Term("domain", DOMAIN),
        Term("dirichlet", SUPPORT),
        Term("source", SOURCE),
        Term("initial", INITIAL),
        Term("times", TIMES),
    )
    fields: ClassVar = ("u",)
    parameters: ClassVar = {
        "time_scale": checks.positive_number,
        "source_strength": checks.number,
        "steps_per_frame": checks.steps_per_frame,
    }
    coefficients: ClassVar = {
        "conductivity": Coefficient(((), (2, 2))),
        "density": Coefficient(),
        "capacity": Coefficient(),
    }
    is_homogeneous: ClassVar = True
    known_conventions: ClassVar = ("paper",)  # no released heat data could be checked
    has_form: ClassVar = True

    def form(self, conventions: Conventions, coefficients: Terms) -> Form:
        """ρ c U_t − s div(κ ∇U)."""
        del conventions
        law = conducting(self.time_scale * coefficients.get("conductivity", 1.0))
        return Form(law, density=coefficients.get("density", 1.0) * coefficients.get("capacity", 1.0))

    def equation_with(self, coefficients: Collection[str]) -> str:
        """ρ c ∂U/∂t = s (div(κ ∇U) + g f), without the numbers that are one."""
        stored = "".join(f"{symbol} " for name, symbol in (("density", "ρ"), ("capacity", "c")) if name in coefficients)
        flux = "div(κ ∇U)" if "conductivity" in coefficients else "ΔU"
        driven = f"{flux} + {'' if self.source_strength == 1 else 'g '}f"
        return f"{stored}∂U/∂t = {driven if self.time_scale == 1 else f's ({driven})'}"

    def in_units(self) -> "HeatProblem":
        """ρ c U_t = div(κ ∇U) + f: s = g = 1."""
        return replace(self, time_scale=1.0, source_strength=1.0)

    def on_length(self, length: float) -> tuple[Problem, dict[Kind, float]]:
        """U_t = s / L² (ΔU + L² g f)."""
        _, factors = super().on_length(length)
        return replace(self, time_scale=self.time_scale / length**2), factors

    @property
    def flux_factor(self) -> float:
        """Return s."""
        return self.time_scale

    def sources(self, terms: Terms, coefficients: Terms) -> list[ComponentSource]:
        """Return s g f."""
        del coefficients
        strength, source = self.time_scale * self.source_strength, terms["source"]
        if strength == 0 and self.source_strength != 0:
            raise DisolError("The load underflows in double precision. Use other units.")
        return [times(strength, source)]

    def cautions(self, domain: Mask, coefficients: Terms) -> Iterator[str]:
        """Warn where bilinear elements lock: in strongly anisotropic materials at an angle to the grid."""
        yield from cautions_of_tensor("conductivity", coefficients.get("conductivity", 1.0), domain)

    def element_matrix(self, element: Element, conventions: Conventions) -> Float[np.ndarray, "4 4"]:
        """∫ Nᵢ Nⱼ + δ s ∇Nᵢ · ∇Nⱼ, with δ the time step."""
        del conventions
        return forms.mass(element) + self.step * self.time_scale * forms.diffusion(element)

    def load(self, terms: Terms, conventions: Conventions, element: Element) -> Float[Array, "*batch 1 rows columns"]:
        """δ s g ∫ Nᵢ f."""
        del conventions
        load = consistent_load(element, forms.galerkin_test(element), terms["domain"], terms["source"])
        factor = self.step * self.time_scale * self.source_strength
        if factor == 0 and self.source_strength != 0:
            raise DisolError("The load underflows in double precision. Use other units.")
        return factor * load[..., None, :, :]


HEAT = HeatProblem("heat", "∂U/∂t = s (ΔU + g f)", resolution=128)
