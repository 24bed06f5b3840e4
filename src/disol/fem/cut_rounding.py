"""The effect of rounding on systems on cut elements, and its correction.

Constants and rigid motions of a body feel no force except where a condition holds them. Rounding the element matrices
and their sums ties every node to the ground by a spurious spring of the size of a rounding error. This rarely matters;
but a weakly held body moves far, and a field that a flow carries away from all supports grows by orders of magnitude,
and then the springs hold it, too. On pixels the entries are rounded so that there are no such springs; entries of
slivers are too small beside others for that. So a second matrix keeps what rounding leaves out of the first, and these
motions feel no force from their sum.

The remaining errors, of the strains, have known sizes; their effect on the solution is found by a solve.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
import scipy
from jaxtyping import Float, Int

from disol.fem.cut_forms import Form, Locals, mean_functions, whole_sizes
from disol.fem.rounding import EPSILON
from disol.geometry.cut_cells import THIN, CutCells
from disol.grid import CORNERS

Shares = Float[np.ndarray, "element 4 component"]  # contributions of the corners of elements to unknowns

MOMENTS = 4.0  # errors of the matrices of cut elements, relative to those of whole pixels
TOP = [0, 1]  # corners of an element at the ends of its upper side


def motions(places: Int[np.ndarray, "node 2"], components: int) -> Float[np.ndarray, "motion node component"]:
    """Return the translations, and for two components the rotation (−y, x), of nodes at (column, row) in pixels."""
    found = np.zeros((2 * components - 1, len(places), components))
    found[np.arange(components), :, np.arange(components)] = 1
    if components == 2:
        found[2] = places[:, ::-1] * [-1, 1]
    return found


def springs(
    nodes: Int[np.ndarray, "element 4"],
    moved: Float[np.ndarray, "motion node component"],
    forces: Float[np.ndarray, "motion node component"],
) -> "scipy.sparse.csr_array":
    """Return a sparse matrix that maps the given motions to the given forces, for elements with the given nodes.

    The entries of a node act on its own translation, and on rotation about it by the upper side of one of its elements.
    """
    _, size, count = forces.shape
    unknowns = np.arange(size * count, dtype=np.int32).reshape(size, 1, count)
    columns, entries = unknowns, np.moveaxis(forces[:count], 0, -1)
    if count == 2:
        about = forces[2][:, :, None] - entries @ moved[2][:, :, None]
        side = np.empty((size, 2), dtype=int)
        side[nodes] = nodes[:, None, TOP]
        columns = np.concatenate([columns, unknowns[side, 0, 1][:, None]], axis=2)
        entries = np.concatenate([entries, -about, about], axis=2)
    ends = np.arange(0, entries.size + 1, entries.shape[2], dtype=np.int32)
    where = np.broadcast_to(columns, entries.shape).reshape(-1)
    return scipy.sparse.csr_array((entries.reshape(-1), where, ends), shape=2 * (size * count,))


@cache
def _strain(components: int) -> Float[np.ndarray, "local local"]:
    """Return the projection that removes strain-free motions from the values of an element."""
    free = np.array(motions(np.array(CORNERS)[:, ::-1], components).reshape(2 * components - 1, -1))
    return np.eye(free.shape[1]) - np.linalg.pinv(free) @ free


@dataclass(frozen=True, eq=False)
class Noise:
    """The sizes of errors in element matrices, in units of the rounding error of doubles.

    Moments of a cut element are sums of numbers as large as 1, except for thin elements. A function continued into a
    sliver is discontinuous across its short sides; this counts as an error of everything that the sliver adds.

    sizes     errors of the part of each matrix that strain-free motions do not feel
    holding   numbers of the elements with terms that hold such motions
    held      these terms
    """

    sizes: Float[np.ndarray, " element"]
    holding: Int[np.ndarray, " some"]
    held: Float[np.ndarray, "some 4 component 4 component"]

    @classmethod
    def of(cls, cells: CutCells, form: Form, holding: Int[np.ndarray, " some"], held: Locals) -> "Noise":
        """Estimate the errors of all matrices, given the terms that hold some elements."""
        sizes = np.broadcast_to(whole_sizes(cells, form), len(cells.corner)).copy()
        areas = cells.areas[: cells.num_cut]
        sizes[: cells.num_cut] *= MOMENTS * np.where(areas < THIN, areas, 1.0) + cells.handed[: cells.num_cut] / EPSILON
        return cls(sizes, holding, held)

    def forces(self, values: Shares) -> Shares:
        """Bound the forces that the errors produce from given values."""
        strains = values.reshape(len(values), -1) @ _strain(values.shape[2])
        forces = np.empty(values.shape)
        forces[:] = (self.sizes * np.abs(strains).max(axis=1))[:, None, None]
        forces[self.holding] += np.einsum("eicjd,ejd->eic", np.abs(self.held), np.abs(values[self.holding]))
        return forces


def seen_inside(cells: CutCells) -> Float[np.ndarray, " node"]:
    """Return how much of each unknown's nodal value shows inside the domain: all of it (1) at corners of whole pixels.

    At other nodes it is 4 times the mean of the node's function over the element where that is largest.
    """
    found, cut = np.zeros(len(cells.places)), slice(cells.num_cut)
    np.maximum.at(found, cells.nodes[cut], 4 * mean_functions(cells.moments))
    found[cells.nodes[cells.num_cut :]] = 1.0
    return np.minimum(found, 1.0)
