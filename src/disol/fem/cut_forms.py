"""Weak forms on cut elements: all integrals of bilinear functions are linear in the 16 moments of an element.

    −div(C ∇u) + v · ∇u + r u = f,   σ_ca = C_cadb ∂_b u_d

Lengths inside an element are in pixels, so that ∇N carries 1/h and areas h². Coefficients are constant on a pixel.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from disol import _checks as checks
from disol.errors import DisolError
from disol.fields import Function, sample
from disol.geometry.cut_cells import CutCells
from disol.geometry.pieces import DEGREE, WHOLE
from disol.grid import CORNERS, Grid

ComponentSource = Function | Float[np.ndarray, "height width"] | float | None
Coefficient = float | Float[np.ndarray, "..."]  # one value, or one per pixel
Law = Float[np.ndarray, "*pixels component 2 component 2"]
Locals = Float[np.ndarray, "element 4 component 4 component"]
SMALLEST_PECLET = 1e-3  # below it coth Pe − 1/Pe is Pe/3 to seven digits


def _products(one: Float[np.ndarray, "i k l"], other: Float[np.ndarray, "j m n"]) -> Float[np.ndarray, "i j 16"]:
    """Multiply polynomials, given by their coefficients of x^k y^l, up to the degree of the moments."""
    product = np.zeros((len(one), len(other), DEGREE, DEGREE))
    for k, m in np.ndindex(one.shape[1:]):
        for a, b in np.ndindex(other.shape[1:]):
            if k + a < DEGREE and m + b < DEGREE:
                product[:, :, k + a, m + b] += np.outer(one[:, k, m], other[:, a, b])
    return product.reshape(len(one), len(other), -1)


def _tensor(lines: Float[np.ndarray, "i k"], across: Sequence[int], down: Sequence[int]) -> Float[np.ndarray, "j k k"]:
    """Multiply polynomials in x with polynomials in y."""
    return np.einsum("ik,il->ikl", lines[list(across)], lines[list(down)])


# Corner functions N_i, their slopes ∂_a N_i, and biquadratic functions of the 3 x 3 points where sources are sampled.
_ROWS, _COLUMNS = zip(*CORNERS, strict=True)
SHAPES = _tensor(np.array([[1.0, -1.0], [0.0, 1.0]]), _COLUMNS, _ROWS)
SLOPES = np.zeros((2, 4, 2, 2))
SLOPES[0, :, 0], SLOPES[1, :, :, 0] = SHAPES[:, 1], SHAPES[:, :, 1]
SAMPLES = _tensor(np.array([[1.0, -3, 2], [0, 4, -4], [0, -1, 2]]), [0, 1, 2] * 3, [0, 0, 0, 1, 1, 1, 2, 2, 2])

N_N = _products(SHAPES, SHAPES)
N_SLOPE = np.stack([_products(SHAPES, slope) for slope in SLOPES])  # [b, i, j]: N_i ∂_b N_j
SLOPE_SLOPE = np.stack([[_products(one, other) for other in SLOPES] for one in SLOPES])  # [a, b, i, j]
N_SAMPLE = _products(SHAPES, SAMPLES)
SLOPE_SAMPLE = np.stack([_products(slope, SAMPLES) for slope in SLOPES])


def corner_functions(
    local: Float[np.ndarray, "*points 2"],
) -> tuple[Float[np.ndarray, "*points 4"], Float[np.ndarray, "*points 2 4"]]:
    """Return N_i and ∂_a N_i at points given in pixels from the top left corner of their element."""
    x, y = local[..., 0, None], local[..., 1, None]
    across, down = np.concatenate([1 - x, x], axis=-1), np.concatenate([1 - y, y], axis=-1)
    signs, columns, rows = np.array([-1.0, 1.0]), list(_COLUMNS), list(_ROWS)
    slopes = np.stack([signs[columns] * down[..., rows], signs[rows] * across[..., columns]], axis=-2)
    return across[..., columns] * down[..., rows], slopes


def diffusive(conductivity: Coefficient) -> Law:
    """C_ab = κ δ_ab, for one number or one per pixel."""
    return anisotropic(np.asarray(conductivity, dtype=float)[..., None, None] * np.eye(2))


def anisotropic(conductivity: Float[np.ndarray, "*pixels 2 2"]) -> Law:
    """C_ab = K_ab, for a symmetric tensor or one per pixel."""
    return np.asarray(conductivity, dtype=float)[..., None, :, None, :]


def conducting(conductivity: float | Float[np.ndarray, "..."]) -> Law:
    """Return the law of a conductivity: a number or a tensor [2, 2], or one of these per pixel with pixel axes last."""
    array = np.asarray(conductivity, dtype=float)
    is_tensor = array.ndim == 4 or array.shape == (2, 2)
    return anisotropic(np.moveaxis(array, (0, 1), (-2, -1))) if is_tensor else diffusive(array)


def elastic(young: Coefficient, poisson_ratio: Coefficient, plane: Literal["strain", "stress"]) -> Law:
    """C_cadb = λ δ_ca δ_db + μ (δ_cd δ_ab + δ_cb δ_ad); in plane stress λ is 2 λ μ / (λ + 2 μ)."""
    young, ratio = np.broadcast_arrays(np.asarray(young, dtype=float), np.asarray(poisson_ratio, dtype=float))
    if not ((ratio > -1) & (ratio < 0.5)).all():
        raise DisolError("poisson_ratio must lie in (-1, 0.5) everywhere.")
    shear = young / (2 * (1 + ratio))
    first = young * ratio / ((1 + ratio) * (1 - 2 * ratio) if plane == "strain" else 1 - ratio**2)
    delta = np.eye(2)
    volume = np.einsum("ca,db->cadb", delta, delta)
    shape = np.einsum("cd,ab->cadb", delta, delta) + np.einsum("cb,ad->cadb", delta, delta)
    return np.multiply.outer(first, volume) + np.multiply.outer(shear, shape)


@dataclass(frozen=True, eq=False)
class Form:
    """The equation: −div(C ∇u) + v · ∇u + r u = f, and ρ u_t in front if it is transient.

    law        C_cadb, by `diffusive`, `anisotropic` or `elastic`; one for all pixels, or one per pixel
    velocity   v along x and y, or an array [height, width, 2]; for one component only
    reaction   r, a number or an array [height, width]
    density    ρ, likewise
    upwind     SUPG: N + τ v · ∇N tests all but diffusion, τ = h/(2|v|) (coth Pe − 1/Pe), Pe = h|v|/(2κ)
    """

    law: Law
    velocity: tuple[float, float] | Float[np.ndarray, "... 2"] | None = None
    reaction: Coefficient = 0.0
    density: Coefficient = 1.0
    upwind: bool = False

    def __post_init__(self) -> None:
        for name in ("law", "velocity", "reaction", "density"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, checks.doubles(name, value))
        if self.velocity is not None and self.components > 1:
            raise DisolError("A velocity carries one component, but u has several. Leave it out.")

    @property
    def components(self) -> int:
        """Number of components of u."""
        return self.law.shape[-2]

    def on_length(self, length: float) -> "Form":
        """Return the form multiplied by L², in coordinates L times smaller: sources are to scale by L², fluxes by L."""
        if length == 1:
            return self
        velocity = None if self.velocity is None else length * np.asarray(self.velocity)
        reaction, density = (length**2 * value for value in (self.reaction, self.density))
        return Form(self.law, velocity, reaction, density, self.upwind)


@dataclass(frozen=True, eq=False)
class Elements:
    """The moments and coefficients of some elements; values that all of them share have a leading axis of 1."""

    moments: Float[np.ndarray, "_ 16"]
    law: Float[np.ndarray, "_ component 2 component 2"]
    velocity: Float[np.ndarray, "_ 2"] | None
    reaction: Float[np.ndarray, " _"]
    density: Float[np.ndarray, " _"]
    tau: Float[np.ndarray, " _"]
    h: float

    @classmethod
    def of(cls, cells: CutCells, form: Form, which: Int[np.ndarray, " element"] | slice) -> "Elements":
        """Gather the data of some elements; whole ones share their moments."""
        law = on_elements(cells, "law", form.law, which, axes=4)
        velocity = None if form.velocity is None else on_elements(cells, "velocity", form.velocity, which, axes=1)
        are_whole = isinstance(which, slice) and which.start == cells.num_cut
        moments = WHOLE[None] if are_whole else moments_of(cells, which)
        return cls(
            moments.reshape(len(moments), -1),
            law,
            velocity,
            on_elements(cells, "reaction", form.reaction, which),
            on_elements(cells, "density", form.density, which),
            upwind_time(law[:, 0, :, 0], velocity, cells.grid.h)
            if form.upwind and velocity is not None
            else np.zeros(1),
            cells.grid.h,
        )

    def gradients(self) -> Float[np.ndarray, "_ 2 2 4 4"]:
        """∫ ∂_a N_i ∂_b N_j, [a, b, i, j]."""
        return np.tensordot(self.moments, SLOPE_SLOPE, (1, -1))

    def energy(self) -> Locals:
        """∫ C ∇N_i : ∇N_j."""
        return np.einsum("...cadb,...abij->...icjd", self.law, self.gradients(), optimize=True)

    def mass(self) -> Locals:
        """∫ ρ N_i N_j."""
        return self._on_diagonal(self.density, self.h**2 * np.tensordot(self.moments, N_N, (1, -1)))

    def stiffness(self) -> Locals:
        """∫ C ∇N_i : ∇N_j + w_i v · ∇N_j + w_i r N_j, w = N + τ v · ∇N."""
        return self.transport() + self.reactive() if self.reaction.any() else self.transport()

    def transport(self) -> Locals:
        """∫ C ∇N_i : ∇N_j + w_i v · ∇N_j, which is zero for constants and for rigid motions of a body."""
        matrix = self.energy()
        if self.velocity is None:
            return matrix
        along = np.einsum("...a,...b,...abij->...ij", self.velocity, self.velocity, self.gradients(), optimize=True)
        added = self.h * self._advected(self.velocity) + self.tau[:, None, None] * along
        return matrix + added[:, :, None, :, None]

    def reactive(self) -> Locals:
        """∫ w_i r N_j."""
        matrix = self._on_diagonal(self.reaction, self.h**2 * np.tensordot(self.moments, N_N, (1, -1)))
        if self.velocity is None:
            return matrix
        added = self.h * (self.tau * self.reaction)[:, None, None] * np.swapaxes(self._advected(self.velocity), -1, -2)
        return matrix + added[:, :, None, :, None]

    def _advected(self, velocity: Float[np.ndarray, "_ 2"]) -> Float[np.ndarray, "_ 4 4"]:
        """∫ N_i v · ∇N_j, in pixels."""
        return np.einsum("...b,...bij->...ij", velocity, np.tensordot(self.moments, N_SLOPE, (1, -1)))

    def test(self) -> Float[np.ndarray, "_ 4 9"]:
        """∫ w_i φ_p, w = N + τ v · ∇N, with φ the biquadratic functions of 3 x 3 points."""
        test = self.h**2 * np.tensordot(self.moments, N_SAMPLE, (1, -1))
        if self.velocity is None or not self.tau.any():
            return test
        upwind = np.einsum("...a,...aip->...ip", self.velocity, np.tensordot(self.moments, SLOPE_SAMPLE, (1, -1)))
        return test + self.h * self.tau[:, None, None] * upwind

    def _on_diagonal(self, weight: Float[np.ndarray, " _"], matrix: Float[np.ndarray, "_ 4 4"]) -> Locals:
        return np.einsum("...,...ij,cd->...icjd", weight, matrix, np.eye(self.law.shape[1]))


def on_elements(
    cells: CutCells, name: str, value: object, which: Int[np.ndarray, " element"] | slice, axes: int = 0
) -> Float[np.ndarray, "some *axes"]:
    """Return a coefficient on some elements; a constant one gets a leading axis of 1."""
    array = np.asarray(value, dtype=float)
    if array.ndim == axes:
        return array[None]
    if array.shape[:2] != cells.grid.pixels or array.ndim != axes + 2:
        raise DisolError(
            f"{name} must be one value, or one for each pixel of {cells.grid.pixels}, got shape {array.shape}."
        )
    column, row = cells.corner[which].T
    return array[row, column]


def moments_of(cells: CutCells, which: Int[np.ndarray, " element"] | slice) -> Float[np.ndarray, "some 4 4"]:
    """Return the moments of some elements, including whole ones."""
    numbers = np.arange(len(cells.corner))[which]
    moments = np.empty((len(numbers), DEGREE, DEGREE))
    moments[:] = WHOLE
    is_cut = numbers < cells.num_cut
    moments[is_cut] = cells.moments[numbers[is_cut]]
    return moments


def upwind_time(
    conductivity: Float[np.ndarray, "_ 2 2"], velocity: Float[np.ndarray, "_ 2"], h: float
) -> Float[np.ndarray, " _"]:
    """τ = h/(2|v|) (coth Pe − 1/Pe), Pe = h|v|/(2κ), κ the conductivity along v; 0 where nothing flows."""
    speed = np.hypot(*velocity.T)
    along = velocity / np.where(speed > 0, speed, 1.0)[:, None]
    peclet = 0.5 * h * speed / np.einsum("...a,...ab,...b->...", along, conductivity, along)
    large = np.maximum(peclet, SMALLEST_PECLET)
    ratio = np.where(peclet > SMALLEST_PECLET, 1 / np.tanh(large) - 1 / large, peclet / 3)
    return 0.5 * h * ratio / np.where(speed > 0, speed, 1.0)


def groups(cells: CutCells, form: Form) -> Iterator[tuple[slice, Elements]]:
    """Yield the elements that are cut, and those that are whole."""
    for which in (slice(0, cells.num_cut), slice(cells.num_cut, None)):
        yield which, Elements.of(cells, form, which)


def element_matrices(
    cells: CutCells, form: Form, kind: Literal["stiffness", "transport", "reactive", "mass"]
) -> Locals:
    """Return the matrices of all elements; for whole pixels of one material a single one is computed."""
    count = form.components
    matrices = np.empty((len(cells.corner), 4, count, 4, count))
    for which, elements in groups(cells, form):
        matrices[which] = getattr(elements, kind)()
    return matrices


def whole_sizes(cells: CutCells, form: Form) -> Float[np.ndarray, " _"]:
    """Return the largest matrix entry, without reaction, that each element would have as a whole pixel."""
    whole = replace(Elements.of(cells, form, slice(None)), moments=WHOLE.reshape(1, -1))
    return np.abs(whole.transport()).max(axis=(1, 2, 3, 4))


def mean_functions(moments: Float[np.ndarray, "element 4 4"]) -> Float[np.ndarray, "element 4"]:
    """∫ N_i over each element, divided by its area."""
    return np.tensordot(moments[:, :2, :2], SHAPES, ([1, 2], [1, 2])) / moments[:, :1, 0]


def source_samples(cells: CutCells, source: ComponentSource) -> Float[np.ndarray, "element 9"]:
    """Sample a source at 3 x 3 points of every element."""
    column, row = cells.corner.T
    if source is None:
        return np.zeros((len(cells.corner), 9))
    if not callable(source):
        checked = checks.doubles("source", source)
        values = on_elements(cells, "source", checked, slice(None))
        return np.broadcast_to(values[:, None], (len(cells.corner), 9))
    fine = Grid(2 * cells.grid.height + 1, 2 * cells.grid.width + 1)
    rows, columns = 2 * row[:, None] + np.repeat([0, 1, 2], 3), 2 * column[:, None] + np.tile([0, 1, 2], 3)
    wanted = np.zeros(fine.pixels, dtype=bool)
    wanted[rows, columns] = True
    x, y = (0.5 * cells.grid.h * np.arange(size) for size in (fine.width, fine.height))
    return sample(source, x[None, :], y[:, None], wanted)[rows, columns]


def source_load(
    cells: CutCells, form: Form, sources: Sequence[ComponentSource]
) -> Float[np.ndarray, "element 4 component"]:
    """∫ w_i f of every element, with one source per component: a function, one value per pixel, a number or None.

    A function is sampled at 3 x 3 points of every pixel that the domain meets, so slightly outside the domain, too.
    """
    if len(sources) != form.components:
        raise DisolError(f"There must be one source for each of {form.components} components, got {len(sources)}.")
    load = np.zeros((len(cells.corner), 4, form.components))
    tests = [(which, elements.test()) for which, elements in groups(cells, form)]
    for component, source in enumerate(sources):
        if source is None:
            continue
        samples = source_samples(cells, source)
        for which, test in tests:
            load[which, :, component] = (test @ samples[which][:, :, None])[..., 0]
    return load
