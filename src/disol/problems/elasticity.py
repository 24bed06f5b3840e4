"""Linear elasticity: two displacement components, driven by forces on the boundary."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from disol import _checks as checks
from disol._arrays import Array, namespace_of
from disol._terms import DOMAIN, FORCE, SUPPORT, Term
from disol.fem import Element, boundary_force, forms
from disol.fem.cut_forms import ComponentSource, Form, elastic
from disol.geometry.curve import thin_pixels
from disol.problems.coefficients import Coefficient
from disol.problems.conventions import Conventions
from disol.problems.problem import Mask, Problem, Terms

LARGEST_RATIO = 0.45  # Poisson's ratio above which bilinear elements lock notably
THINNEST = 4  # pixels across a wall that bends nearly as it should


@dataclass(frozen=True)
class ElasticityProblem(Problem):
    """−div σ(U) = F, σ = C : ε(U); U_x = 0 on fix_x pixels, U_y = 0 on fix_y pixels, forces on loaded pixels.

    A pixel holds nodes in two rows and two columns, so one fix_x and one fix_y pixel on each part of the domain rule
    out every rigid motion.

    young           E
    poisson_ratio   ν

    On the true boundary both may vary in space, there may be a body force F per area (default 0), and either plane
    strain or plane stress can be chosen.
    """

    young: float = 1e3
    poisson_ratio: float = 0.3

    terms: ClassVar = (
        Term("domain", DOMAIN),
        Term("fix_x", SUPPORT, "x"),
        Term("fix_y", SUPPORT, "y"),
        Term("force_x", FORCE, "x"),
        Term("force_y", FORCE, "y"),
    )
    fields: ClassVar = ("u_x", "u_y")
    parameters: ClassVar = {"young": checks.positive_number, "poisson_ratio": checks.poisson_ratio}
    coefficients: ClassVar = {
        "young": Coefficient(),
        "poisson_ratio": Coefficient(least="ratio"),
        "body_force": Coefficient(((2,),), "any"),
    }
    is_homogeneous: ClassVar = True
    has_form: ClassVar = True
    has_plane: ClassVar = True

    def form(self, conventions: Conventions, coefficients: Terms) -> Form:
        """−div σ(U)."""
        young, ratio = (coefficients.get(name, getattr(self, name)) for name in ("young", "poisson_ratio"))
        return Form(elastic(young, ratio, conventions.plane))

    def equation_with(self, coefficients: Collection[str]) -> str:
        """−div σ(U) = F, σ·n = t."""
        return self.equation.replace("= 0", "= F") if "body_force" in coefficients else self.equation

    def is_multiple_of(self, other: Problem) -> bool:
        """Tell whether ν is the same: E only scales the operator."""
        return isinstance(other, ElasticityProblem) and self == replace(other, young=self.young)

    def sources(self, terms: Terms, coefficients: Terms) -> list[ComponentSource]:
        """Return F along x and along y."""
        del terms
        return list(coefficients["body_force"]) if "body_force" in coefficients else [None, None]

    def out_of_plane(self, conventions: Conventions, coefficients: Terms) -> Any:
        """ν in plane strain, 0 in plane stress."""
        return coefficients.get("poisson_ratio", self.poisson_ratio) if conventions.plane == "strain" else 0.0

    def cautions(self, domain: Mask, coefficients: Terms) -> Iterator[str]:
        """Warn where bilinear elements lock: in thin walls, which bend too little, and if nearly incompressible."""
        ratio = float(np.max(coefficients.get("poisson_ratio", self.poisson_ratio)))
        if ratio > LARGEST_RATIO:
            yield (
                f"Poisson's ratio is {ratio:g}: displacements are less accurate, off in a thick-walled "
                "cylinder on a 64 grid by 0.3 % at 0.45, 0.9 % at 0.49 and 6 % at 0.499."
            )
        pixels = thin_pixels(domain, THINNEST)
        if pixels:
            yield (
                f"{pixels} pixels of the domain are in walls thinner than {THINNEST} pixels, which bend too little: a "
                "cantilever 1, 2, 3 or 4 pixels thick by 36, 12, 6 or 4 %. Raise the resolution."
            )

    def element_matrix(self, element: Element, conventions: Conventions) -> Float[np.ndarray, "8 8"]:
        """∫ ε(Nᵢ) : C : ε(Nⱼ)."""
        return forms.elasticity(element, forms.hooke(self.young, self.poisson_ratio, conventions.plane))

    def load(self, terms: Terms, conventions: Conventions, element: Element) -> Float[Array, "*batch 2 rows columns"]:
        """Return the nodal forces."""
        unit = element.h if conventions.force_per_length else 1.0
        forces = [boundary_force(terms[name], unit) for name in ("force_x", "force_y")]
        return namespace_of(forces[0]).stack(forces, axis=-3)


ELASTICITY = ElasticityProblem("elasticity", "−div σ(U) = 0, σ·n = t", resolution=128)
