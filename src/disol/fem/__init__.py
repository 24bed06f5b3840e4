"""Domain to exact solution, in NumPy and SciPy: elements, weak forms, assembly, loads, direct solution."""

from disol.fem.assembly import assemble, free_unknowns, stencil
from disol.fem.elements import ELEMENTS, Element
from disol.fem.linear import LinearSystem
from disol.fem.loads import boundary_force, consistent_load, nodal_load
from disol.fem.solve import DirectSolver, System

__all__ = [
    "ELEMENTS",
    "DirectSolver",
    "Element",
    "LinearSystem",
    "System",
    "assemble",
    "boundary_force",
    "consistent_load",
    "free_unknowns",
    "nodal_load",
    "stencil",
]
