"""Systems to solve, for the tests of this folder."""

from dataclasses import replace

import numpy as np
from scipy import sparse

from disol import draw
from disol.fem import ELEMENTS, System, forms, free_unknowns
from disol.grid import Grid, nodes_touching
from disol.solvers import from_system

STEADY = ("poisson", "advection-diffusion-low", "advection-diffusion-high", "elasticity")
DISCRETISATIONS = [(problem, conventions) for problem in STEADY for conventions in ("paper", "published")]
DISCRETISATIONS += [("heat", "paper")]


def operator_of(systems, **settings):
    """The operator of a batch, and its loads."""
    return from_system(System.stack(systems), **settings)


def drawn_systems(problem, indices=range(3), resolution=32, shift=None, conventions="paper"):
    """Steady systems A u = b; of a transient problem the one of a step."""
    cases = (draw(problem, 7, index, resolution=resolution, shift=shift, conventions=conventions) for index in indices)
    return [replace(case.system(), mass_matrix=None, initial=None) for case in cases]


def poisson_system(mask, dirichlet, source=1.0):
    """−Δu = source on any mask."""
    h = Grid(*mask.shape).h
    free = (nodes_touching(mask) & ~nodes_touching(dirichlet))[None]
    load = np.where(free, source * h * h, 0.0)
    return System(mask, forms.diffusion(ELEMENTS["q1"](h)), free, load)


def serpentine(height, width):
    """A corridor one pixel wide between walls one pixel wide, winding through the whole grid."""
    mask = np.zeros((height, width), dtype=bool)
    mask[0::2] = True
    for turn, row in enumerate(range(1, height - 1, 2)):
        mask[row, -1 if turn % 2 == 0 else 0] = True
    return mask


def advective_matrix(h):
    element = ELEMENTS["q1"](h)
    return 0.2 * forms.diffusion(element) + forms.advection(element, (0.5, -1.0))


def relative_error(nodes, reference):
    return float(np.linalg.norm(np.asarray(nodes) - reference) / np.linalg.norm(reference))


def on_unknowns(fields, free):
    """The free values of a field, in elimination order."""
    return np.asarray(fields).reshape(-1)[free_unknowns(free)]


def frobenius(matrix):
    return float(sparse.linalg.norm(matrix))
