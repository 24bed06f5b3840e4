"""Domain to exact solution, in NumPy and SciPy: elements, weak forms, assembly, loads, direct solution."""

from disol.fem.assembly import assemble, free_unknowns, stencil
from disol.fem.elements import ELEMENTS, Element
from disol.fem.loads import boundary_force, consistent_load, nodal_load
from disol.fem.solve import DirectSolver, System, backward_euler

__all__ = [
    "ELEMENTS",
    "DirectSolver",
    "Element",
    "System",
    "assemble",
    "backward_euler",
    "boundary_force",
    "consistent_load",
    "free_unknowns",
    "nodal_load",
    "stencil",
]
