"""The effect of rounding on solutions, and how it is limited.

An ill-conditioned system multiplies rounding errors by up to its condition number: for instance that of an elastic body
at the end of a long corridor one pixel wide, or of a strong flow through one. A small backward error does not show it.

- Element matrices are rounded so that strain-free motions feel no force, to the last bit. Otherwise the rigid motions
  of a whole body would feel one, which changes the solution more than anything a solver does.
- Residuals are computed as if with 25 more bits, by splitting A and u into parts whose products and sums are exact.
- Solutions are refined with them, and the size that corrections shrink to gives the remaining error. In a batch,
  systems so well-conditioned that a correction would not show are not refined: that would cost a second solve.
"""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache

import numpy as np
from jaxtyping import Bool, Float

from disol._arrays import Array, exponent_of, ldexp, namespace_of, to_numpy
from disol.errors import DisolError
from disol.grid import CORNERS

EPSILON = float(np.finfo(float).eps)
SMALLEST_NORMAL = float(np.finfo(float).tiny)  # smaller numbers have fewer digits
LARGEST = float(np.finfo(float).max) / 4  # the four nodes of a pixel are added up

NOTABLE_ERROR = 1e-6  # of the largest value
LARGEST_ERROR = 1e-2

MATRIX_BITS = 50  # of element matrices: the sum over four pixels needs two more, and a double has 53
LEADING_BITS = 26  # of factors whose products are exact
RESIDUAL_NOISE = 2.0**-22  # of residuals, relative to the rounding errors of doubles
MOST_CORRECTIONS = 30
LARGEST_RATE = 0.5  # ratio of the size of a correction to that of the one before
# Where a known solution is recovered to 1e-12, others are found to 3e-11 or better, measured on drawn domains, mazes
# and corridors one pixel wide; ten times that is reported as their error.
WELL_CONDITIONED = 1e-12
UNREFINED_ERROR = 300.0  # of a solution, relative to that of the known one
GOLDEN = 0.618033988749895  # multiples of it fill an interval evenly
NOTABLE_DIFFUSION = 1e-2  # relative to advection, on one pixel
CHANGES = 4  # number of perturbations of the last places of an element matrix that are tried

Matrix = Float[np.ndarray, "local local"]


def settle(matrix: Matrix) -> Matrix:
    """Round an element matrix so that sums over pixels are exact, and forces of strain-free motions exactly zero.

    Translations, and the rotation of a vector field, are annihilated exactly if they were annihilated up to rounding,
    and a matrix that is symmetric up to rounding becomes symmetric. Entries change in their last few places.
    """
    largest = float(np.abs(matrix).max())
    if not SMALLEST_NORMAL <= largest < np.inf and largest != 0:
        happens = "underflows" if largest < 1 else "overflows"
        raise DisolError(f"The element matrix {happens} in double precision. Use other units.")
    tolerance = 16 * EPSILON * largest
    symmetric = np.abs(matrix - matrix.T).max() <= tolerance
    exponent = exponent_of(largest) - MATRIX_BITS
    # Integers from here on: every operation is exact.
    whole = np.round(np.ldexp((matrix + matrix.T) / 2 if symmetric else matrix, -exponent))
    for motion, dual in _motions(len(matrix) // len(CORNERS)):
        force = whole @ motion
        if np.abs(force).max() <= np.ldexp(tolerance, -exponent) + len(matrix):
            whole = whole - np.outer(force, dual)
            if symmetric:
                whole = whole - np.outer(dual, force) + (motion @ force) * np.outer(dual, dual)
    return np.ldexp(whole, exponent)


def sensitivity(matrix: Matrix) -> float:
    """Bound the relative change of solutions by the last places of a settled, symmetric element matrix.

    ε σ_max / σ_min, over the strains of a pixel: large for nearly incompressible materials. Errors for strain-free
    motions would be magnified by the whole domain, but there are none. Without symmetry the bound is far too large, and
    the change itself is solved for: see `last_places`.
    """
    if not np.array_equal(matrix, matrix.T):
        return 0.0
    strains = _strains(len(matrix) // len(CORNERS))
    sizes = np.abs(np.linalg.eigvalsh(strains @ matrix @ strains.T))
    largest = sizes.max()
    return float(EPSILON * largest / sizes[sizes > 16 * EPSILON * largest].min(initial=largest))


def last_places(matrix: Matrix) -> Float[np.ndarray, "change local local"]:
    """Return some changes of the last places of a settled element matrix in which advection dominates diffusion.

    Rounding the sum of the two changes the diffusion notably, and the solution with it. There are none if the matrix is
    symmetric, or if diffusion keeps nearly all of its digits.
    """
    strains, largest = _strains(len(matrix) // len(CORNERS)), np.abs(matrix).max()
    diffusion = np.linalg.eigvalsh(strains @ (matrix + matrix.T) @ strains.T) / 2
    if np.array_equal(matrix, matrix.T) or diffusion.min() > NOTABLE_DIFFUSION * largest:
        return np.empty((0, *matrix.shape))
    mixed = np.cos(2 * np.pi * GOLDEN * np.arange(CHANGES * len(matrix) * len(strains)))
    changes = 4 * mixed.reshape(CHANGES, -1, len(strains)) @ strains
    return np.ldexp(changes, int(exponent_of(largest)) - MATRIX_BITS)  # they annihilate constants


@cache
def _strains(components: int) -> Float[np.ndarray, "strain local"]:
    """Return an orthonormal basis of the orthogonal complement of strain-free motions."""
    motions = np.stack([motion for motion, _ in _motions(components)])
    return np.linalg.svd(motions)[2][len(motions) :]


@cache
def _motions(components: int) -> list[tuple[Float[np.ndarray, " local"], Float[np.ndarray, " local"]]]:
    """Return the translations of a pixel, and its rotation if it has two components.

    Each comes with a vector whose product with it is 1, and with those before it 0.
    """
    found = []
    for component in range(components):
        motion, dual = np.zeros((2, len(CORNERS), components))
        motion[:, component], dual[0, component] = 1, 1
        found.append((motion.ravel(), dual.ravel()))
    if components == 2:
        motion, dual = np.zeros((2, len(CORNERS), components))
        for corner, (row, column) in enumerate(CORNERS):
            motion[corner] = -row, column
        dual[0, 1], dual[1, 1] = -1, 1
        found.append((motion.ravel(), dual.ravel()))
    return found


def leading_part(values: Float[Array, "*shape"], largest: Float[Array, "..."]) -> Float[Array, "*shape"]:
    """Round values to the 26 bits below the largest; sums of products of two such parts are exact.

    `largest` bounds the values of one factor, and the sums of the absolute values of the other.
    """
    exponent = exponent_of(largest) - LEADING_BITS
    return ldexp(ldexp(values, -exponent).round(), exponent)


@dataclass(eq=False)
class Refinement:
    """Iterative refinement, u ← u + A⁻¹ (b − A u), of one solution or many: which continue, and their remaining errors.

    size     largest |u| before the first correction, then the largest entry of the last correction
    rate     lower bound for the ratio of each correction to the one before it
    unit     rounding error of the factors
    enough   rate below which systems are so well-conditioned that their solutions need no correction
    error    remaining error, relative to the largest value; infinite where refinement does not converge
    active   which solutions need (further) corrections
    """

    size: Float[Array, "*batch"]
    rate: Float[Array, "*batch"]
    unit: float = EPSILON
    enough: float = 0.0
    error: Float[Array, "*batch"] = field(init=False)
    active: Bool[Array, "*batch"] = field(init=False)
    _corrections: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.active = ~(self.rate < self.enough)  # NaN is active
        self.error = namespace_of(self.size).where(self.active, np.inf, UNREFINED_ERROR * self.rate)

    def accept(self, correction: Float[Array, "*batch"], largest: Float[Array, "*batch"]) -> Bool[Array, "*batch"]:
        """Decide which corrections to add, from the largest entries of corrections and solutions; update the errors.

        At rate ρ, the error after a correction of size d is d (ρ + ρ² + …).
        """
        xp = namespace_of(largest)
        rate = xp.maximum(self.rate, _quotient(correction, self.size))
        accepted = self.active & (rate < LARGEST_RATE)  # False for NaN
        rate = xp.where(accepted, rate, 0.0)
        left = _quotient(correction, largest) * rate / (1 - rate)
        noise = rate * RESIDUAL_NOISE * EPSILON / self.unit + EPSILON
        # Corrections that no longer shrink are as large as the error that they cannot remove.
        shrank = (correction < largest) & (self._corrections > 0)
        stuck = xp.where(shrank, 2 * _quotient(correction, largest), np.inf)
        self.error = xp.where(accepted, left + noise, xp.where(self.active, stuck, self.error))
        self._corrections += 1
        self.active = accepted & (left > noise) & (correction > EPSILON * largest)
        if self._corrections == MOST_CORRECTIONS:
            self.active = self.active & False
        self.size = correction
        return accepted


def _quotient(dividend: Float[Array, "*batch"], divisor: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
    return dividend / namespace_of(divisor).where(divisor > 0, divisor, 1.0)


@contextmanager
def naming_case(case: int | None) -> Iterator[None]:
    """Name the case of a batch in errors that it raises."""
    try:
        yield
    except DisolError as error:
        raise DisolError(str(error) if case is None else f"Case {case}: {error}") from error


def require_range(sizes: Float[Array, "*batch"], exponent: Array = 0, first_case: int | None = None) -> None:
    """Refuse solutions whose largest values, times 2ᵉ, overflow or underflow; cases are counted from `first_case`."""
    before = np.atleast_1d(to_numpy(sizes))
    with np.errstate(over="ignore", under="ignore"):
        after = np.ldexp(before, to_numpy(exponent))
    for happens, which in (("overflows", after > LARGEST), ("underflows", (after < SMALLEST_NORMAL) & (before > 0))):
        if which.any():
            case = "" if first_case is None else f"Case {first_case + int(np.argmax(which))}: "
            raise DisolError(
                f"{case}The solution {happens}: values of double precision lie between {SMALLEST_NORMAL:.1e} and "
                f"{LARGEST:.1e}. Use other units."
            )


def report(errors: float | Sequence[float] | Float[np.ndarray, " case"], first_case: int | None = None) -> None:
    """Refuse solutions that rounding may have changed too much, and warn of those that it may have changed notably.

    The cases of a batch are counted from `first_case`.
    """
    found = np.atleast_1d(np.asarray(errors, dtype=float))
    worst = int(np.argmax(np.nan_to_num(found, nan=np.inf)))
    error = float(found[worst])
    case = "" if first_case is None else f"Case {first_case + worst}: "
    if not error <= LARGEST_ERROR:
        size = f"by {error:.1e} of its largest value" if error < 1 else "beyond recognition"
        raise DisolError(
            f"{case}The system is too ill-conditioned for double precision: rounding may change the solution {size}. "
            "Hold more of the domain, widen parts that are one pixel thin, or slow down advection if there is any."
        )
    if error > NOTABLE_ERROR:
        others = int((found > NOTABLE_ERROR).sum()) - 1
        also = f" ({others} other cases by more than {NOTABLE_ERROR:g})" if others else ""
        warnings.warn(
            f"{case}The system is ill-conditioned: rounding may have changed the solution by {error:.1e} of its "
            f"largest value{also}.",
            UserWarning,
            stacklevel=2,
        )
