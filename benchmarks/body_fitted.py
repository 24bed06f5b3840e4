"""Independent references: rings with body-fitted meshes, solved by scikit-fem with biquadratic elements."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import skfem
from jaxtyping import Float
from skfem.helpers import ddot, dot, grad, sym_grad, trace

from disol.fem.cut_forms import Form, diffusive, elastic
from disol.fem.cut_system import discretise
from disol.fem.nitsche import Condition, Dirichlet, Neumann
from disol.geometry.region import Arc, Region
from disol.grid import Grid

YOUNG, RATIO = 1000.0, 0.3
FIRST, SHEAR = YOUNG * RATIO / ((1 + RATIO) * (1 - 2 * RATIO)), YOUNG / (2 * (1 + RATIO))
GRADING = 12.0  # how many times shorter sides are at the ends of arcs, where solutions are singular


@dataclass(frozen=True)
class Ring:
    """The ring between two star-shaped curves r(t) = radius (1 + Σ a cos k t + b sin k t).

    held   arcs of the outer curve, as fractions of its length, counted from angle 0
    """

    name: str
    outer: tuple[float, Sequence[tuple[int, float, float]]]
    inner: tuple[float, Sequence[tuple[int, float, float]]]
    held: tuple[tuple[float, float], ...]
    centre: tuple[float, float] = (0.507, 0.489)
    inner_centre: tuple[float, float] = (0.53, 0.47)

    def curve(self, hole: bool, t: Float[np.ndarray, " angle"]) -> Float[np.ndarray, "angle 2"]:
        """Return points of a curve at angles."""
        radius, waves = self.inner if hole else self.outer
        r = radius * (1 + sum(a * np.cos(k * t) + b * np.sin(k * t) for k, a, b in waves))
        x, y = self.inner_centre if hole else self.centre
        return np.stack([x + r * np.cos(t), y + r * np.sin(t)], axis=1)

    def angles(self, fractions: Float[np.ndarray, " place"]) -> Float[np.ndarray, " place"]:
        """Return the angles at fractions of the length of the outer curve."""
        t = np.linspace(0, 2 * np.pi, 20_001)
        lengths = np.concatenate([[0], np.cumsum(np.hypot(*np.diff(self.curve(False, t), axis=0).T))])
        return np.interp(fractions, lengths / lengths[-1], t)

    @property
    def region(self) -> Region:
        """The domain, its outer loop starting at angle 0."""
        t = 2 * np.pi * np.arange(4000) / 4000
        return Region.from_polygons([self.curve(False, t), self.curve(True, t)])

    def mesh(self, around: int, across: int) -> tuple[skfem.MeshQuad2, Float[np.ndarray, " angle"]]:
        """Mesh the ring with curved elements, with vertices at the ends of arcs and shorter sides near them.

        Vertices are numbered around the ring, row by row from the outer curve to the inner one. Also return the
        angles of a row.
        """
        ends = np.sort(np.array([end % 1.0 for arc in self.held for end in arc]))
        gaps = np.diff(np.append(ends, ends[0] + 1))
        counts = np.maximum(4, np.round(around * gaps)).astype(int)
        places = [start + gap * _graded(count) for start, gap, count in zip(ends, gaps, counts, strict=True)]
        t = self.angles(np.concatenate(places) % 1.0)
        s = (np.arange(across + 1) / across) ** 1.7  # 0 on the outer curve, where rows are closer
        columns = len(t)
        here = np.arange(across * columns)
        after = here // columns * columns + (here + 1) % columns
        cells = np.stack([here, after, after + columns, here + columns])
        vertex_t, vertex_s = np.tile(t, across + 1), np.repeat(s, columns)
        mesh = skfem.MeshQuad2.from_mesh(skfem.MeshQuad(self._at(vertex_s, vertex_t).T.copy(), cells))
        points = mesh.doflocs.copy()
        for corners, numbers in ((mesh.facets, mesh.dofs.facet_dofs[0]), (mesh.t, mesh.dofs.interior_dofs[0])):
            turn = (vertex_t[corners] - vertex_t[corners[0]] + np.pi) % (2 * np.pi) - np.pi
            points[:, numbers] = self._at(vertex_s[corners].mean(axis=0), vertex_t[corners[0]] + turn.mean(axis=0)).T
        return skfem.MeshQuad2(points, mesh.t), t

    def _at(self, s: Float[np.ndarray, " point"], t: Float[np.ndarray, " point"]) -> Float[np.ndarray, "point 2"]:
        return (1 - s)[:, None] * self.curve(False, t) + s[:, None] * self.curve(True, t)


def _graded(count: int) -> Float[np.ndarray, " place"]:
    """Return count places in [0, 1) that lie closer together at both ends."""
    u = np.arange(count) / count
    return u - (1 - 1 / GRADING) * np.sin(2 * np.pi * u) / (2 * np.pi)


RINGS = [
    Ring("egg with a round hole", (0.37, [(2, 0.12, 0.05)]), (0.12, []), ((0.05, 0.3), (0.55, 0.7))),
    Ring("clover", (0.33, [(3, 0.16, 0.0)]), (0.09, [(2, 0.2, 0.0)]), ((0.1, 0.2), (0.4, 0.5), (0.7, 0.85))),
    Ring("gear", (0.36, [(8, 0.05, 0.02)]), (0.15, [(4, 0.05, 0.0)]), ((0.9, 1.15),)),
    Ring("bean", (0.34, [(1, 0.18, 0.0), (2, 0.1, -0.06)]), (0.1, [(3, 0.1, 0.1)]), ((0.2, 0.45), (0.8, 0.95))),
    Ring("thin ring", (0.4, [(2, 0.04, 0.0)]), (0.3, [(2, 0.03, 0.02)]), ((0.0, 0.2),), (0.5, 0.5), (0.503, 0.497)),
]


def source(x: Float[np.ndarray, "..."], y: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """The source of scalar problems."""
    return 1 + np.sin(5 * x) * np.cos(4 * y)


def difference(ring: Ring, elastic_body: bool, sides: Sequence[int], around: int, across: int) -> list[float]:
    """Return the relative L2 differences between solutions on several grids and the body-fitted one.

    Scalar: −Δu = f with u = 0 on the arcs. Elastic: held on the arcs, traction (1, −0.5) on the hole.
    """
    mesh, angles = ring.mesh(around, across)
    element = skfem.ElementVector(skfem.ElementQuad2()) if elastic_body else skfem.ElementQuad2()
    basis = skfem.Basis(mesh, element, intorder=5)
    if elastic_body:
        matrix = skfem.BilinearForm(
            lambda u, w, _: FIRST * trace(grad(u)) * trace(grad(w)) + 2 * SHEAR * ddot(sym_grad(u), sym_grad(w))
        ).assemble(basis)
    else:
        matrix = skfem.BilinearForm(lambda u, w, _: dot(grad(u), grad(w))).assemble(basis)
    low, high = np.sort(mesh.facets, axis=0)
    hole = np.flatnonzero(low >= across * len(angles))
    outside = np.flatnonzero(high < len(angles))
    held = np.zeros(len(outside), dtype=bool)
    first_angle, last_angle = angles[low[outside]], angles[high[outside]]
    middle = first_angle + 0.5 * ((last_angle - first_angle + np.pi) % (2 * np.pi) - np.pi)
    for start, end in ring.held:
        first, last = ring.angles(np.array([start % 1.0, end % 1.0]))
        held |= (middle - first) % (2 * np.pi) < (last - first) % (2 * np.pi)
    if elastic_body:
        load = skfem.LinearForm(lambda w, _: w[0] - 0.5 * w[1]).assemble(skfem.FacetBasis(mesh, element, facets=hole))
    else:
        load = skfem.LinearForm(lambda w, at: source(at.x[0], at.x[1]) * w).assemble(basis)
    solution = skfem.solve(*skfem.condense(matrix, load, D=basis.get_dofs(outside[held])))

    conditions: list[Condition] = [Dirichlet(Arc(0, start, end)) for start, end in ring.held]
    if elastic_body:
        conditions.append(Neumann(Arc(1), (1.0, -0.5)))
    form = Form(elastic(YOUNG, RATIO, "strain") if elastic_body else diffusive(1.0))
    expected = np.atleast_3d(np.asarray(basis.interpolate(solution)).T).T.reshape(-1, basis.dx.size)
    x, y = np.asarray(basis.global_coordinates()).reshape(2, -1)
    found = []
    for side in sides:
        field = discretise(ring.region, Grid(side, side), form, conditions, None if elastic_body else source).solve()
        values = field.at(x, y)
        inside = ~np.isnan(values[0])  # around the hole the mesh reaches beyond the curve
        weight = basis.dx.reshape(-1)[inside]
        error, size = (weight * each[:, inside] ** 2 for each in (values - expected, expected))
        found.append(float(np.sqrt(error.sum() / size.sum())))
    return found
