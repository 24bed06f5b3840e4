"""From domains to exact solutions, in NumPy and SciPy: elements, weak forms, assembly, loads, direct solution.

Names for cut elements are imported on first use.
"""

from typing import TYPE_CHECKING

from disol._lazy import lazy_names
from disol.fem.assembly import assemble, free_unknowns, stencil
from disol.fem.elements import ELEMENTS, Element
from disol.fem.linear import LinearSystem
from disol.fem.loads import boundary_force, consistent_load, nodal_load
from disol.fem.solve import DirectSolver, System

if TYPE_CHECKING:
    from disol.fem.cut_field import CutField
    from disol.fem.cut_forms import Form, anisotropic, diffusive, elastic
    from disol.fem.cut_system import CutSystem, discretise
    from disol.fem.nitsche import Condition, Dirichlet, Neumann, Robin
    from disol.fem.recovery import BoundaryFlux, boundary_flux, total_flux

_CUT_NAMES = {
    **dict.fromkeys(("Form", "anisotropic", "diffusive", "elastic"), "cut_forms"),
    **dict.fromkeys(("CutSystem", "discretise"), "cut_system"),
    "CutField": "cut_field",
    **dict.fromkeys(("Condition", "Dirichlet", "Neumann", "Robin"), "nitsche"),
    **dict.fromkeys(("BoundaryFlux", "boundary_flux", "total_flux"), "recovery"),
}

__all__ = [
    "ELEMENTS",
    "BoundaryFlux",
    "Condition",
    "CutField",
    "CutSystem",
    "DirectSolver",
    "Dirichlet",
    "Element",
    "Form",
    "LinearSystem",
    "Neumann",
    "Robin",
    "System",
    "anisotropic",
    "assemble",
    "boundary_flux",
    "boundary_force",
    "consistent_load",
    "diffusive",
    "discretise",
    "elastic",
    "free_unknowns",
    "nodal_load",
    "stencil",
    "total_flux",
]

__getattr__ = lazy_names(__name__, _CUT_NAMES, __all__)
