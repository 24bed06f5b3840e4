"""What rounding does to a system on cut elements, and what is done about it.

Constants, and rigid motions of a body, feel no force but where something holds them. Rounding the matrices of elements,
and their sums, ties every node to the ground by a spring of the size of a rounding error. Mostly nobody sees that; but
a body that is held weakly moves far, and what a flow carries away from all that holds it grows by orders of magnitude.
Then the springs hold it, too. On pixels the entries are rounded such that there are none; those of slivers are too
small for that beside others. So a second matrix has what rounding leaves out of the first, and motions feel nothing of
their sum.

What is left are errors of the strains, whose sizes are known: what they change is solved for.
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

Shares = Float[np.ndarray, "element 4 component"]  # of corners of elements, in unknowns

MOMENTS = 4.0  # errors of the matrices of cut elements, in those of whole pixels
TOP = [0, 1]  # corners of an element at the ends of its upper side


def motions(places: Int[np.ndarray, "node 2"], components: int) -> Float[np.ndarray, "motion node component"]:
    """Return translations, and of two components the rotation (−y, x), of nodes at columns and rows, in pixels."""
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
    """Return a matrix that makes forces of motions, of elements with given nodes.

    A node feels translations by its own, and a rotation about it by the upper side of one of its elements.
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
    """Return the projection that takes motions without strain out of the values of an element."""
    free = np.array(motions(np.array(CORNERS)[:, ::-1], components).reshape(2 * components - 1, -1))
    return np.eye(free.shape[1]) - np.linalg.pinv(free) @ free


@dataclass(frozen=True, eq=False)
class Noise:
    """How large the errors of the matrices of elements are, in units of the rounding error of doubles.

    Moments of a cut element are sums of numbers as large as 1, but for those of thin ones. A function that is continued
    into a sliver is not continuous along its short sides; that counts as an error of all that the sliver adds.

    sizes     of errors of a matrix that motions without strain feel nothing of
    holding   elements with terms that hold them
    held      these terms
    """

    sizes: Float[np.ndarray, " element"]
    holding: Int[np.ndarray, " some"]
    held: Float[np.ndarray, "some 4 component 4 component"]

    @classmethod
    def of(cls, cells: CutCells, form: Form, holding: Int[np.ndarray, " some"], held: Locals) -> "Noise":
        """Tell the errors of what holds some elements, and of all else."""
        sizes = np.broadcast_to(whole_sizes(cells, form), len(cells.corner)).copy()
        areas = cells.areas[: cells.num_cut]
        sizes[: cells.num_cut] *= MOMENTS * np.where(areas < THIN, areas, 1.0) + cells.handed[: cells.num_cut] / EPSILON
        return cls(sizes, holding, held)

    def forces(self, values: Shares) -> Shares:
        """Return the largest forces that errors make of values."""
        strains = values.reshape(len(values), -1) @ _strain(values.shape[2])
        forces = np.empty(values.shape)
        forces[:] = (self.sizes * np.abs(strains).max(axis=1))[:, None, None]
        forces[self.holding] += np.einsum("eicjd,ejd->eic", np.abs(self.held), np.abs(values[self.holding]))
        return forces


def seen_inside(cells: CutCells) -> Float[np.ndarray, " node"]:
    """Return how much the value at the node of each unknown counts inside the domain: 1 at corners of whole pixels.

    Of other nodes it is 4 times the mean of their function over the element where that is largest.
    """
    found, cut = np.zeros(len(cells.places)), slice(cells.num_cut)
    np.maximum.at(found, cells.nodes[cut], 4 * mean_functions(cells.moments))
    found[cells.nodes[cells.num_cut :]] = 1.0
    return np.minimum(found, 1.0)
