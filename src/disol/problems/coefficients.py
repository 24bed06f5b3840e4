"""Spatially varying coefficients of an equation: read, checked, and put on a grid.

A coefficient is constant on a pixel. It is known on the pixels of the domain, whose centres lie in it; elements that
the true boundary cuts from other pixels take the value of the nearest of these. A function is evaluated at pixel
centres, also of the pixels next to the domain, unless it has no value there that the equation allows.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy
from jaxtyping import Bool, Float, Int

from disol import _checks as checks
from disol.errors import DisolError, shown
from disol.expressions import read_expression
from disol.geometry.named_parts import split_at_commas
from disol.grid import Grid

Mask = Bool[np.ndarray, "height width"]
# A number, an array or a function: [height, width]; for a velocity [2, height, width]; for a tensor [2, 2] or
# [2, 2, height, width].
Given = Any
STIFFEST = 300.0  # off-diagonal entry of a tensor, in its smaller principal values, above which elements lock notably
ROUNDING = 1e-12  # relative difference up to which the entries of a tensor count as symmetric


@dataclass(frozen=True)
class Coefficient:
    """The shapes and values that a coefficient may have.

    axes    axes before the pixel axes: () for a number, (2,) for a vector, (2, 2) for a tensor; the first that fits
    least   range of values: "positive" (for a tensor: positive definite), "not negative", "ratio" (Poisson's), or "any"
    """

    axes: tuple[tuple[int, ...], ...] = ((),)
    least: Literal["positive", "not negative", "ratio", "any"] = "positive"

    def check(self, name: str, value: Given, domain: Mask) -> Given:
        """Read and check the user's data for one case; functions stay functions."""
        if callable(value):
            self.on(name, value, domain)
            return value
        array = checks.doubles(name, value)
        if array.shape in self.axes:
            self._require_range(name, array)
            return array
        if not any(array.shape == (*axes, *domain.shape) for axes in self.axes):
            if self.axes == ((2,),) and array.ndim < 2:
                raise DisolError(f"{name} must be two numbers, (along x, along y), got {shown(value)}.")
            shapes = " or ".join(str([*axes, *domain.shape]) for axes in self.axes)
            raise DisolError(
                f"{name} must have one value per pixel, shape {shapes}, or be a function of x and y, "
                f"got shape {list(array.shape)}."
            )
        self._require_range(name, array[..., domain])
        return array

    def on(
        self, name: str, value: Given, domain: Mask, refinement: int = 1, finer: Mask | None = None
    ) -> Float[np.ndarray, "..."]:
        """Put a checked value on the grid of its domain, or on a finer grid, with mask `finer` for functions.

        Pixel axes come last; a constant has none.
        """
        if callable(value):
            mask = domain if finer is None else finer
            near, grid = with_neighbours(mask), Grid(*mask.shape)
            try:
                samples = self._sample(name, value, grid, near)
            except DisolError:  # a function may be wrong beside the domain, where it means nothing
                near, samples = mask, self._sample(name, value, grid, mask)
            values = np.zeros((*samples.shape[:-1], *mask.shape))
            values[..., near] = samples
            return values[(..., *nearest(near))]
        array = np.asarray(value, dtype=float)
        if array.shape in self.axes:
            return array
        filled = array[(..., *nearest(domain))]
        return filled.repeat(refinement, axis=-2).repeat(refinement, axis=-1)

    def _sample(self, name: str, function: Callable[..., Any], grid: Grid, where: Mask) -> Float[np.ndarray, "..."]:
        """Evaluate a function at the centres of some pixels; the last axis is that of the pixels."""
        x, y = (np.broadcast_to(axis, where.shape)[where] for axis in grid.pixel_centres())

        def spread(values: Any) -> np.ndarray:
            if isinstance(values, tuple | list):
                return np.stack([spread(each) for each in values])
            array = checks.real_numbers(name, values)
            return np.broadcast_to(array, x.shape) if array.ndim == 0 else array

        try:
            values = spread(function(x, y))
        except DisolError:
            raise
        except Exception as error:
            raise DisolError(
                f"{name} must be a function of two arrays x and y, but raised {type(error).__name__}: {error}. "
                "Write it with NumPy functions."
            ) from error
        if not any(values.shape == (*axes, len(x)) for axes in self.axes):
            shapes = " or ".join(str([*axes, len(x)]) for axes in self.axes)
            raise DisolError(f"{name} must return one value per point, shape {shapes}, got {list(values.shape)}.")
        values = checks.as_float(name, values)
        self._require_range(name, values)
        return values

    def _require_range(self, name: str, values: Float[np.ndarray, "..."]) -> None:
        """Require values that the equation allows; tensors must be symmetric and positive definite."""
        if values.shape[:2] == (2, 2) and (2, 2) in self.axes:
            size = np.abs(values).max(axis=(0, 1))
            if (np.abs(values[0, 1] - values[1, 0]) > ROUNDING * size).any():
                raise DisolError(f"{name} must be a symmetric tensor: entries [0, 1] and [1, 0] differ.")
            scaled = values / np.where(size > 0, size, 1.0)
            if not ((scaled[0, 0] > 0) & (scaled[0, 0] * scaled[1, 1] > scaled[0, 1] ** 2)).all():
                raise DisolError(f"{name} must be a positive definite tensor on every pixel of the domain.")
        elif self.least == "positive" and not (values > 0).all():
            raise DisolError(f"{name} must be positive on every pixel of the domain, got {shown(float(values.min()))}.")
        elif self.least == "not negative" and not (values >= 0).all():
            raise DisolError(f"{name} must not be negative, got {shown(float(values.min()))}.")
        elif self.least == "ratio" and not ((values > -1) & (values < 0.5)).all():
            wrong = float(values[(values <= -1) | (values >= 0.5)].flat[0])
            raise DisolError(f"{name} must lie in (-1, 0.5) on every pixel of the domain, got {wrong:g}.")


def with_neighbours(mask: Mask) -> Mask:
    """Mark the pixels of a mask and their neighbours; functions are evaluated at their centres, row by row."""
    return scipy.ndimage.binary_dilation(mask, np.ones((3, 3), dtype=bool))


def nearest(known: Mask) -> Int[np.ndarray, "2 height width"]:
    """Return row and column of the known pixel nearest to each pixel; for a known pixel its own."""
    return scipy.ndimage.distance_transform_edt(~known, return_distances=False, return_indices=True)


def cautions_of_tensor(name: str, tensor: Float[np.ndarray, "..."] | float, domain: Mask) -> Iterator[str]:
    """Warn of a tensor, [2, 2] or [2, 2, height, width], whose main axes need finer pixels than the grid has."""
    entries = np.asarray(tensor)
    if entries.shape[:2] != (2, 2):
        return
    entries = entries if entries.ndim == 2 else entries[..., domain]
    principal = np.linalg.eigvalsh(np.moveaxis(entries, (0, 1), (-2, -1)))
    slanted = np.abs(entries[0][1]) > STIFFEST * principal[..., 0]
    if slanted.any():
        ratio = float((principal[..., 1] / principal[..., 0])[slanted].max())
        yield (
            f"{name} is {ratio:,.0f} times larger along one of its main axes than along the other, at an angle to the "
            "grid: bilinear elements are too stiff there, and estimate_distance is too small. Raise the resolution."
        )


def depth(value: Given) -> int:
    """Count the axes of an array, or of nested lists."""
    if isinstance(value, list | tuple):
        return 1 + max((depth(each) for each in value), default=0)
    return getattr(value, "ndim", 0)


@dataclass(frozen=True)
class Components:
    """Functions of x and y, numbers, and lists of them, as one function that returns the value of each."""

    pieces: tuple[Any, ...]

    def __call__(self, x: Any, y: Any) -> tuple[Any, ...]:
        """Evaluate at points."""
        return tuple(piece(x, y) if callable(piece) else piece for piece in self.pieces)


def read_number(value: Given, may_vary: bool) -> Given:
    """Read a text as a number, or as several separated by commas; if it may vary, formulas and functions are read, too.

    Other values stay as they are.
    """
    if may_vary and isinstance(value, list | tuple) and len(value) == 2:
        read = tuple(read_number(piece, may_vary) for piece in value)
        return Components(read) if any(map(callable, read)) else read
    if not isinstance(value, str):
        return value
    pieces = split_at_commas(value)
    try:
        numbers = [float(piece) for piece in pieces]
    except ValueError:
        if not may_vary:
            return value
        return read_expression(value) if len(pieces) == 1 else Components(tuple(map(read_expression, pieces)))
    return numbers[0] if len(numbers) == 1 else tuple(numbers)


def split(
    known: Mapping[str, Coefficient], parameters: Mapping[str, Any], given: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Separate coefficients, as functions or arrays or because they are no parameters, from all other data."""
    chosen = {
        name: value
        for name, value in given.items()
        if name in known and (name not in parameters or callable(value) or depth(value) >= 2 + len(known[name].axes[0]))
    }
    return chosen, {name: value for name, value in given.items() if name not in chosen}
