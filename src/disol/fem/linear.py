"""The assembled system of one case: its matrix and load, for direct use."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy
from jaxtyping import Float, Int

from disol.errors import DisolError
from disol.fem.assembly import assemble, free_unknowns
from disol.fem.rounding import LARGEST
from disol.fem.solve import System

Vector = Float[np.ndarray, " unknown"]


@dataclass(frozen=True, eq=False, repr=False)
class LinearSystem:
    """A u = b on the free unknowns of one case, nodes counted row by row, components of a node one after the other.

    A transient problem gives one step of backward Euler, (M + δ K) uⁿ⁺¹ = M uⁿ + δ b: its matrix and δ b.
    """

    system: System

    def __repr__(self) -> str:
        components, rows, columns = self.system.free.shape
        return (
            f"LinearSystem({len(self.unknowns)} unknowns, {self.matrix.nnz} entries, "
            f"{components} per node of {rows} x {columns})"
        )

    @cached_property
    def unknowns(self) -> Int[np.ndarray, "unknown 3"]:
        """Component, row and column of the node of each unknown."""
        rows, columns, components = np.nonzero(np.moveaxis(self.system.free, 0, -1))
        return np.stack([components, rows, columns], axis=1)

    @cached_property
    def matrix(self) -> "scipy.sparse.csr_array":
        """A."""
        return self._in_node_order(self.system.element_matrix)

    @cached_property
    def mass(self) -> "scipy.sparse.csr_array | None":
        """M of a transient problem."""
        return None if self.system.mass_matrix is None else self._in_node_order(self.system.mass_matrix)

    @property
    def load(self) -> Vector:
        """Return b."""
        return self.to_vector(self.system.load)

    def to_vector(self, nodes: Float[np.ndarray, "component rows columns"]) -> Vector:
        """Return the vector of unknowns with given nodal values."""
        return nodes[tuple(self.unknowns.T)]

    def to_nodes(self, vector: Vector) -> Float[np.ndarray, "component rows columns"]:
        """Put the unknowns at their nodes; 0 elsewhere."""
        nodes = np.zeros(self.system.free.shape)
        nodes[tuple(self.unknowns.T)] = vector
        return nodes

    def residual(self, values: Float[np.ndarray, "..."]) -> Vector:
        """Return b − A u for a vector of unknowns or for nodal values."""
        return self.load - self.matrix @ self._as_vector(values)

    def energy(self, values: Float[np.ndarray, "..."]) -> float:
        """½ uᵀ A u: the strain energy of elasticity, ½ ∫ |∇u|² of Poisson."""
        vector = self._as_vector(values)
        return float(0.5 * vector @ (self.matrix @ vector))

    def _as_vector(self, values: Float[np.ndarray, "..."]) -> Vector:
        array = np.asarray(values, dtype=float)
        if array.shape not in (self.load.shape, self.system.free.shape):
            raise DisolError(
                f"Values must be a vector of unknowns {self.load.shape} or nodal values {self.system.free.shape}, "
                f"got shape {array.shape}."
            )
        return array if array.ndim == 1 else self.to_vector(array)

    def _in_node_order(self, element_matrix: Float[np.ndarray, "local local"]) -> "scipy.sparse.csr_array":
        if np.abs(element_matrix).max() > LARGEST:
            raise DisolError("The matrix overflows in double precision. Use other units.")
        free = self.system.free
        eliminated = assemble(self.system.mask, element_matrix, free)
        # The position in elimination order of each unknown in node order.
        place = np.empty(free.size, dtype=np.intp)
        place[free_unknowns(free)] = np.arange(eliminated.shape[0])
        order = place[np.ravel_multi_index(tuple(self.unknowns.T), free.shape)]
        return scipy.sparse.csr_array(eliminated[order][:, order])
