"""A PDE of your own, as a value: reaction-diffusion, drawn, solved and generated like the PDEs of the package."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import disol
from disol.fem import Element, consistent_load, forms
from disol.problems import DOMAIN, SOURCE, SUPPORT, Term
from disol.problems.conventions import Conventions
from disol.problems.problem import Terms


@dataclass(frozen=True)
class ReactionDiffusion(disol.Problem):
    """−ΔU + c U = f; U = 0 on supports, ∂U/∂n = 0 on every other boundary."""

    reaction: float = 50.0

    terms: ClassVar = (Term("domain", DOMAIN), Term("dirichlet", SUPPORT), Term("source", SOURCE))
    fields: ClassVar = ("u",)
    parameters: ClassVar = {"reaction": lambda _, value: float(value)}  # numbers that a case can replace
    is_homogeneous: ClassVar = True  # the same everywhere: training may rotate, mirror and move its cases

    def element_matrix(self, element: Element, conventions: Conventions) -> np.ndarray:
        """∫ ∇Nᵢ · ∇Nⱼ + c Nᵢ Nⱼ over one pixel."""
        del conventions  # the same for both
        return forms.diffusion(element) + self.reaction * forms.mass(element)

    def load(self, terms: Terms, conventions: Conventions, element: Element) -> Any:
        """∫ Nᵢ f, for one component."""
        del conventions
        load = consistent_load(element, forms.galerkin_test(element), terms["domain"], terms["source"])
        return load[..., None, :, :]


REACTION = ReactionDiffusion("reaction-diffusion", "−ΔU + c U = f", resolution=64)

case = disol.draw(REACTION, seed=0)
damped, free = disol.solve_exact(case), disol.solve_exact(case, reaction=0.0)
poisson = disol.solve_exact("poisson", **case.terms, conventions="paper")  # without a form, a PDE is solved on pixels
assert abs(free.amplitude - poisson.amplitude) < 1e-12
with tempfile.TemporaryDirectory() as folder:
    print(
        disol.generate(REACTION, 8, Path(folder) / "reaction.h5", workers=0)
    )  # to train on: disol.train(REACTION, ...)
print(f"max |U| = {damped.amplitude:.6f}, of Poisson {free.amplitude:.6f}")
