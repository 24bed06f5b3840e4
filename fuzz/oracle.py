"""Solutions in 60 digits, assembled pixel by pixel from docs/discretisation.md: an oracle without code of disol.

Integrals over a pixel are exact fractions, sums and elimination are decimal: no number overflows, and no system that
this package may be asked for is ill-conditioned. Meant for grids of a few hundred pixels.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any, Literal

import numpy as np

DIGITS = 60
MORE_DIGITS = 800  # where 60 do not tell a pivot from 0: numbers of an equation can lie 1e600 apart
NOTHING = Decimal("1e-50")  # of what cancels: it does so exactly
SAFE = 15  # digits that a pivot must keep
FRAME, TRAINED_UNTIL = 2, 20  # seconds

CORNERS = ((0, 0), (0, 1), (1, 0), (1, 1))  # (down, across)
THIRD, SIXTH, HALF = Fraction(1, 3), Fraction(1, 6), Fraction(1, 2)
# Integrals over [0, 1] of the two linear shape functions a, b of an interval, or of their slopes.
PRODUCTS = {
    (False, False): ((THIRD, SIXTH), (SIXTH, THIRD)),
    (False, True): ((-HALF, HALF), (-HALF, HALF)),
    (True, False): ((-HALF, -HALF), (HALF, HALF)),
    (True, True): ((Fraction(1), Fraction(-1)), (Fraction(-1), Fraction(1))),
}
# The two triangles of a P1 pixel: gradients (along x, along y) of the corners that each one has.
TRIANGLES = (
    {(0, 0): (-1, 0), (0, 1): (1, -1), (1, 1): (0, 1)},
    {(0, 0): (0, -1), (1, 1): (1, 0), (1, 0): (-1, 1)},
)

Axis = Literal["x", "y"] | None
Corner = tuple[int, int]
Node = tuple[int, int]
Unknown = tuple[int, int, int]  # component, row, column
Element = Literal["q1", "p1"]
Vector = dict[Unknown, Decimal]
Number = int | float | Fraction | Decimal


def exact(value: Number) -> Decimal:
    """Write a number as a decimal, rounded to the digits of the context."""
    if isinstance(value, Fraction):
        return Decimal(value.numerator) / Decimal(value.denominator)
    return +Decimal(value)


def integrate_pair(element: Element, i: Corner, j: Corner, first: Axis, second: Axis) -> Fraction:
    """∫ ∂Nᵢ ∂Nⱼ over the unit pixel, each derived along an axis or not at all."""
    if element == "q1":
        across = PRODUCTS[first == "x", second == "x"][i[1]][j[1]]
        return across * PRODUCTS[first == "y", second == "y"][i[0]][j[0]]
    total = Fraction(0)
    for slopes in TRIANGLES:
        if i in slopes and j in slopes:
            left, right = (slopes[corner] for corner in (i, j))
            if first is None and second is None:
                total += Fraction(2 if i == j else 1, 24)
            else:
                factors = [slope["xy".index(axis)] for slope, axis in ((left, first), (right, second)) if axis]
                total += Fraction(int(np.prod(factors))) * (HALF if first and second else SIXTH)
    return total


def integrate_one(element: Element, i: Corner, axis: Axis) -> Fraction:
    """∫ ∂Nᵢ over the unit pixel; the shape functions of a pixel sum to 1."""
    return sum((integrate_pair(element, i, j, axis, None) for j in CORNERS), Fraction(0))


@dataclass(frozen=True)
class Pixel:
    """The matrices of one pixel of side h."""

    element: Element
    h: Decimal

    def form(self, i: Corner, j: Corner, first: Axis, second: Axis) -> Decimal:
        """∫ ∂Nᵢ ∂Nⱼ."""
        return exact(integrate_pair(self.element, i, j, first, second)) * self.h ** (2 - bool(first) - bool(second))

    def test(self, i: Corner, axis: Axis) -> Decimal:
        """∫ ∂Nᵢ."""
        return exact(integrate_one(self.element, i, axis)) * self.h ** (2 - bool(axis))

    def diffusion(self, i: Corner, j: Corner) -> Decimal:
        """∫ ∇Nᵢ · ∇Nⱼ."""
        return self.form(i, j, "x", "x") + self.form(i, j, "y", "y")


@dataclass(frozen=True)
class Case:
    """One case as the oracle sees it: plain arrays, functions and numbers, all of them right.

    held      for each component, the pixels whose corners are zero
    terms     sources, forces and initial fields, as arrays or functions of x and y; p1 takes affine functions only
    numbers   of the equation
    times     in seconds, of heat
    """

    problem: str
    conventions: Literal["paper", "published"]
    element: Element
    domain: np.ndarray
    held: tuple[np.ndarray, ...]
    terms: Mapping[str, Any]
    numbers: Mapping[str, Any]
    times: tuple[float, ...] = ()

    @property
    def h(self) -> Decimal:
        """Side of a pixel."""
        return 1 / Decimal(len(self.domain))

    @property
    def pixels(self) -> list[tuple[int, int]]:
        """Rows and columns of the pixels of the domain."""
        return [(int(row), int(column)) for row, column in np.argwhere(self.domain)]

    def free(self) -> list[Unknown]:
        """List the unknowns, nodes along the shorter side of the grid next to each other."""
        active = {(row + down, column + across) for row, column in self.pixels for down, across in CORNERS}
        unknowns = []
        for component, pixels in enumerate(self.held):
            zero = {
                (int(row) + down, int(column) + across)
                for row, column in np.argwhere(pixels)
                for down, across in CORNERS
            }
            unknowns += [(component, *node) for node in active - zero]
        wide = self.domain.shape[1] > self.domain.shape[0]
        return sorted(unknowns, key=lambda own: (own[2], own[1], own[0]) if wide else (own[1], own[2], own[0]))


@dataclass(frozen=True)
class Answer:
    """What the oracle knows.

    field       [frame, component, row, column] of decimals, 0 outside the domain; the frames asked for
    amplitude   the largest |U| of a pixel: one, or one for each component
    """

    field: np.ndarray
    amplitude: tuple[Decimal, ...]

    def error_of(self, field: np.ndarray) -> float:
        """Return the largest difference from a field of floats, as a share of the largest value at any time."""
        flat, own = np.asarray(field, float).reshape(-1), self.field.reshape(-1)
        if flat.shape != own.shape or not np.isfinite(flat).all():
            return float("inf")
        with localcontext(prec=DIGITS):
            size = max(*map(abs, own), *self.amplitude)
            gap = max(abs(Decimal(value) - right) for value, right in zip(flat.tolist(), own, strict=True))
            return float(gap / size) if size else float("inf") if gap else 0.0


def solve(case: Case) -> Answer | None:
    """Solve a case; None if its system is singular."""
    for digits in (DIGITS, MORE_DIGITS):
        with localcontext(prec=digits, Emax=10**12, Emin=-(10**12)):
            system = Banded(case.free(), assemble(case, element_matrix(case)))
            if system.factorise(Decimal(10) ** (SAFE - digits)):
                load = load_vector(case)
                if case.problem == "heat":
                    return march(case, system, load)
                solutions = [system.solve(load)]
                return answer(case, solutions, [0], solutions)
    return None


def march(case: Case, system: "Banded", load: Vector) -> Answer:
    """Take the steps of backward Euler, (M + δ s K) uⁿ⁺¹ = M uⁿ + δ b."""
    per_frame = int(case.numbers["steps_per_frame"])
    asked = [round(time * per_frame / FRAME) for time in case.times]
    trained = TRAINED_UNTIL * per_frame // FRAME
    free = set(system.unknowns)
    values = {own: value for own, value in nodal(case, case.terms["initial"]).items() if own in free}
    pixel = Pixel(case.element, case.h)
    mass = assemble(case, {(0, i, 0, j): pixel.form(i, j, None, None) for i in CORNERS for j in CORNERS})
    steps = [values]
    for _ in range(max(*asked, trained)):
        right = dict(load)
        for (row, column), entry in mass.items():
            if row in free and column in values:
                right[row] = right.get(row, Decimal(0)) + entry * values[column]
        values = system.solve(right)
        steps.append(values)
    return answer(case, steps, asked, steps[: trained + 1])


def answer(case: Case, steps: list[Vector], asked: list[int], counted: list[Vector]) -> Answer:
    """Average nodal values over pixels."""
    fields = {number: pixel_field(case, steps[number]) for number in asked}
    largest = [[max(map(abs, layer.reshape(-1))) for layer in pixel_field(case, each)] for each in counted]
    sizes = [max(column) for column in zip(*largest, strict=True)]
    separate = case.problem == "elasticity" and case.conventions == "published"
    return Answer(np.stack([fields[number] for number in asked]), tuple(sizes) if separate else (max(sizes),))


def pixel_field(case: Case, values: Vector) -> np.ndarray:
    """Return the mean of the four nodes of every pixel of the domain."""
    field = np.full((len(case.held), *case.domain.shape), Decimal(0), dtype=object)
    for component in range(len(case.held)):
        for row, column in case.pixels:
            nodes = [values.get((component, row + down, column + across), Decimal(0)) for down, across in CORNERS]
            field[component, row, column] = sum(nodes, Decimal(0)) / 4
    return field


Local = dict[tuple[int, Corner, int, Corner], Decimal]


def element_matrix(case: Case) -> Local:
    """Return what each pixel adds: rows (component, corner) are test functions, columns trial functions."""
    pixel, numbers = Pixel(case.element, case.h), case.numbers
    pairs = [(i, j) for i in CORNERS for j in CORNERS]
    if case.problem == "heat":
        step = Decimal(FRAME) / numbers["steps_per_frame"] * exact(numbers["time_scale"])
        return {(0, i, 0, j): pixel.form(i, j, None, None) + step * pixel.diffusion(i, j) for i, j in pairs}
    if case.problem == "elasticity":
        return elastic_matrix(case, pixel)
    velocity, delay = dict(zip("xy", map(exact, numbers["velocity"]), strict=True)), upwind_delay(case)
    local = {}
    for i, j in pairs:
        total = exact(numbers["diffusion"]) * pixel.diffusion(i, j)
        for axis, speed in velocity.items():
            total += speed * pixel.form(i, j, None, axis)  # type: ignore[arg-type]
            for other, factor in velocity.items():
                total += delay * speed * factor * pixel.form(i, j, other, axis)  # type: ignore[arg-type]
        local[0, i, 0, j] = total
    return local


def elastic_matrix(case: Case, pixel: Pixel) -> Local:
    """∫ σ(Nᵢ) : ε(Nⱼ), with the Lamé numbers of plane strain, or λ of plane stress."""
    young, ratio = exact(case.numbers["young"]), exact(case.numbers["poisson_ratio"])
    shear = young / (2 * (1 + ratio))
    if case.conventions == "paper":
        first = young * ratio / ((1 + ratio) * (1 - 2 * ratio))
    else:
        first = young * ratio / (1 - ratio * ratio)
    local = {}
    for i in CORNERS:
        for j in CORNERS:
            for a, along in enumerate("xy"):
                for b, other in enumerate("xy"):
                    entry = first * pixel.form(i, j, along, other)  # type: ignore[arg-type]
                    entry += shear * pixel.form(i, j, other, along)  # type: ignore[arg-type]
                    if a == b:
                        entry += shear * pixel.diffusion(i, j)
                    local[a, i, b, j] = entry
    return local


def upwind_delay(case: Case) -> Decimal:
    """τ = (2/3) h / |v| of SUPG; 0 for Galerkin."""
    x, y = map(exact, case.numbers["velocity"])
    if case.conventions == "paper" or not (x or y):
        return Decimal(0)
    return 2 * case.h / (3 * (x * x + y * y).sqrt())


def assemble(case: Case, local: Local) -> dict[tuple[Unknown, Unknown], Decimal]:
    """Add up the matrices of all pixels."""
    entries: dict[tuple[Unknown, Unknown], Decimal] = {}
    for row, column in case.pixels:
        for (a, i, b, j), value in local.items():
            key = (a, row + i[0], column + i[1]), (b, row + j[0], column + j[1])
            entries[key] = entries.get(key, Decimal(0)) + value
    return entries


def load_vector(case: Case) -> Vector:
    """Return b, of heat δ b."""
    if case.problem == "elasticity":
        unit = case.h if case.conventions == "paper" else Decimal(1)
        return {
            (component, *node): unit * value
            for component, name in enumerate(("force_x", "force_y"))
            for node, value in node_means(case.terms[name], case.terms[name] != 0).items()
        }
    source = case.terms["source"]
    if case.problem == "heat":
        numbers = case.numbers
        factor = Decimal(FRAME) / numbers["steps_per_frame"] * exact(numbers["time_scale"])
        factor *= exact(numbers["source_strength"])
        return {own: factor * value for own, value in weighted(case, source, {}, Decimal(0)).items()}
    velocity = dict(zip("xy", map(exact, case.numbers["velocity"]), strict=True))
    if case.conventions == "published" and not any(velocity.values()):
        return nodal(case, source)
    return weighted(case, source, velocity, upwind_delay(case))


def weighted(case: Case, source: Any, velocity: Mapping[str, Decimal], delay: Decimal) -> Vector:
    """∫ (Nᵢ + τ v · ∇Nᵢ) f, of a function by 2 x 2 Gauss points or, of an affine one on triangles, exactly."""
    pixel, load = Pixel(case.element, case.h), dict[Unknown, Decimal]()
    low, high = (Decimal(3) - Decimal(3).sqrt()) / 6, (Decimal(3) + Decimal(3).sqrt()) / 6
    points = [(down, across) for down in (low, high) for across in (low, high)]
    for row, column in case.pixels:
        for i in CORNERS:
            if not callable(source):
                test = pixel.test(i, None)
                parts = [delay * speed * pixel.test(i, axis) for axis, speed in velocity.items()]  # type: ignore[arg-type]
                test, size = sum(parts, test), max(map(abs, parts), default=Decimal(0))
                test = test if abs(test) > NOTHING * size else Decimal(0)  # what is left is the rounding of a root
                total = test * exact(float(source[row, column]))
            elif case.element == "q1":
                total = Decimal(0)
                for down, across in points:
                    test = shape(i[1], across) * shape(i[0], down)
                    test += delay / case.h * velocity.get("x", Decimal(0)) * (2 * i[1] - 1) * shape(i[0], down)
                    test += delay / case.h * velocity.get("y", Decimal(0)) * (2 * i[0] - 1) * shape(i[1], across)
                    total += test * evaluate(source, row + down, column + across, case.h)
                total *= case.h**2 / 4
            else:
                total = Decimal(0)
                for j in CORNERS:
                    test = pixel.form(i, j, None, None)
                    for axis, speed in velocity.items():
                        test += delay * speed * pixel.form(i, j, axis, None)  # type: ignore[arg-type]
                    total += test * evaluate(source, Decimal(row + j[0]), Decimal(column + j[1]), case.h)
            node = (0, row + i[0], column + i[1])
            load[node] = load.get(node, Decimal(0)) + total
    return load


def shape(end: int, place: Decimal) -> Decimal:
    """Return the linear function of an interval that is 1 at one end."""
    return place if end else 1 - place


def evaluate(source: Callable[..., Any], down: Decimal, across: Decimal, h: Decimal) -> Decimal:
    """Return f at a point given in pixels."""
    return Decimal(float(source(np.float64(across * h), np.float64(down * h))))


def nodal(case: Case, source: Any) -> Vector:
    """Return f at the nodes of the domain; of values per pixel the mean of a node's pixels."""
    if not callable(source):
        return {(0, *node): value for node, value in node_means(source, case.domain).items()}
    nodes = {(row + down, column + across) for row, column in case.pixels for down, across in CORNERS}
    return {(0, *node): evaluate(source, Decimal(node[0]), Decimal(node[1]), case.h) for node in nodes}


def node_means(values: np.ndarray, marked: np.ndarray) -> dict[Node, Decimal]:
    """Average at each node the values of its marked pixels."""
    found: dict[Node, list[Decimal]] = {}
    for row, column in np.argwhere(marked):
        for down, across in CORNERS:
            found.setdefault((int(row) + down, int(column) + across), []).append(exact(float(values[row, column])))
    return {node: sum(own, Decimal(0)) / len(own) for node, own in found.items()}


class Banded:
    """A banded matrix of decimals and its elimination without pivoting, which 60 digits can afford."""

    def __init__(self, unknowns: list[Unknown], entries: Mapping[tuple[Unknown, Unknown], Decimal]) -> None:
        self.unknowns = unknowns
        self.places = {own: place for place, own in enumerate(unknowns)}
        self.rows = [[Decimal(0)] * len(unknowns) for _ in unknowns]
        self.width = 0
        for (row, column), value in entries.items():
            if row in self.places and column in self.places:
                i, j = self.places[row], self.places[column]
                self.rows[i][j] = value
                self.width = max(self.width, abs(i - j))

    def factorise(self, smallest: Decimal) -> bool:
        """Eliminate, and keep the factors in place of the rows; False if a pivot is too small beside the largest."""
        rows, size, width = self.rows, len(self.rows), self.width + 1
        largest = max((abs(value) for row in rows for value in row), default=Decimal(0))
        for k in range(size):
            pivot, end = rows[k], min(k + width, size)
            if abs(pivot[k]) <= smallest * largest:
                return False
            for i in range(k + 1, end):
                if rows[i][k]:
                    factor = rows[i][k] = rows[i][k] / pivot[k]
                    rows[i][k + 1 : end] = [
                        value - factor * above
                        for value, above in zip(rows[i][k + 1 : end], pivot[k + 1 : end], strict=True)
                    ]
        return True

    def solve(self, load: Vector) -> Vector:
        """Return the unknowns, by their names."""
        rows, size, width = self.rows, len(self.rows), self.width
        values = [load.get(own, Decimal(0)) for own in self.unknowns]
        for k in range(size):
            start = max(0, k - width)
            pairs = zip(rows[k][start:k], values[start:k], strict=True)
            values[k] -= sum((factor * value for factor, value in pairs), Decimal(0))
        for k in reversed(range(size)):
            end = min(k + width + 1, size)
            pairs = zip(rows[k][k + 1 : end], values[k + 1 : end], strict=True)
            values[k] = (values[k] - sum((factor * value for factor, value in pairs), Decimal(0))) / rows[k][k]
        return dict(zip(self.unknowns, values, strict=True))
