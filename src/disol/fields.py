"""Source terms and initial fields: drawn, multiplied, and sampled on a grid."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from inspect import Signature, signature
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float

from disol import _checks as checks
from disol._arrays import Array
from disol.errors import DisolError
from disol.grid import Grid, node_means

Points = Float[np.ndarray, "..."]

MOST_TRIES = 100


@dataclass(frozen=True, eq=False)
class Field:
    """f(x, y) = (Σ ξᵢ sin(2π(aᵢ x + bᵢ y) + cᵢ) + Σ ξⱼ exp(−|(x, y) − pⱼ|² / 2 wⱼ²) − offset) / scale.

    waves    rows of (ξ, a, b, c); a cosine is a wave whose phase c is π/2 further
    bumps    rows of (ξ, p_x, p_y, w)
    floor    the smallest value after scaling; the value of a constant field
    """

    waves: Float[np.ndarray, "wave 4"]
    bumps: Float[np.ndarray, "bump 4"]
    offset: float = 0.0
    scale: float = 1.0
    floor: float = 0.0

    def __call__(self, x: Points, y: Points) -> Points:
        """Evaluate at arrays of points that broadcast against each other."""
        # Waves and bumps separate into functions of x times functions of y: on a row and a column of coordinates
        # this costs one matrix product instead of a sine or exponential per pixel.
        across, down = self._factors(x, y)
        if x.ndim == y.ndim == 2 and x.shape[0] == y.shape[1] == 1:
            total = down[:, :, 0].T @ across[:, 0, :]
        else:
            total = np.sum(across * down, axis=0)
        return (total - self.offset) / self.scale

    def _factors(self, x: Points, y: Points) -> tuple[Points, Points]:
        axes = (slice(None), *[None] * np.ndim(x))
        weight, a, b, phase = (column[axes] for column in self.waves.T)
        along_x, along_y = 2 * np.pi * a * x + phase, 2 * np.pi * b * y
        height, p_x, p_y, width = (column[axes] for column in self.bumps.T)
        bump_x, bump_y = np.exp(-0.5 * ((x - p_x) / width) ** 2), np.exp(-0.5 * ((y - p_y) / width) ** 2)
        return (
            np.concatenate([weight * np.sin(along_x), weight * np.cos(along_x), height * bump_x]),
            np.concatenate([np.cos(along_y), np.sin(along_y), bump_y]),
        )

    def scaled_to_unit(self, samples: Points) -> "Field":
        """Return the field shifted and scaled so that the given samples of it range over [floor, 1]."""
        low, high = float(samples.min()), float(samples.max())
        spread = high - low
        scale = self.scale * spread / (1 - self.floor) if spread > 0 else self.scale
        return replace(self, offset=self.offset + low * self.scale - self.floor * scale, scale=scale)

    def times(self, factor: float) -> "Field":
        """Return the field multiplied by a factor."""
        waves, bumps = self.waves.copy(), self.bumps.copy()
        waves[:, 0] *= factor
        bumps[:, 0] *= factor
        return replace(self, waves=waves, bumps=bumps, offset=factor * self.offset, floor=factor * self.floor)


@dataclass(frozen=True)
class FieldSettings:
    """Distribution of random fields: numbers of terms, frequencies, phases and widths."""

    most_terms: int = 3
    frequency: float = 1.0
    phase: float = np.pi / 4
    width: tuple[float, float] = (0.5, 1.5)

    def draw(self, rng: np.random.Generator, domain: Bool[np.ndarray, "height width"]) -> Field:
        """Draw a field, which does not depend on the domain."""
        del domain
        return draw_field(rng, self)


IN_DISTRIBUTION = FieldSettings()
HIGH_FREQUENCY = FieldSettings(most_terms=7, frequency=4.0, phase=np.pi, width=(0.02, 0.4))


def draw_field(rng: np.random.Generator, settings: FieldSettings = IN_DISTRIBUTION) -> Field:
    """Draw a weighted mean of sines, cosines and Gaussians, not yet scaled."""
    num_waves, num_bumps = 0, 0
    while num_waves + num_bumps == 0:
        num_waves, num_bumps = rng.integers(settings.most_terms + 1, size=2)
    weights = rng.random(num_waves + num_bumps)
    weights /= weights.sum()
    waves = np.empty((num_waves, 4))
    waves[:, 0] = weights[:num_waves]
    waves[:, 1:3] = settings.frequency * rng.random((num_waves, 2))
    waves[:, 3] = rng.uniform(-settings.phase, settings.phase, num_waves)
    waves[:, 3] += np.pi / 2 * rng.integers(2, size=num_waves)
    bumps = np.empty((num_bumps, 4))
    bumps[:, 0] = weights[num_waves:]
    bumps[:, 1:3] = rng.random((num_bumps, 2))
    bumps[:, 3] = rng.uniform(*settings.width, num_bumps)
    return Field(waves, bumps)


@runtime_checkable
class RandomField(Protocol):
    """A kind of random field."""

    def draw(self, rng: np.random.Generator, domain: Bool[np.ndarray, "height width"], /) -> Field:
        """Draw one for a domain, not yet scaled."""


@dataclass(frozen=True)
class ConstantField:
    """A constant field; 1 after scaling."""

    def draw(self, rng: np.random.Generator, domain: Bool[np.ndarray, "height width"]) -> Field:
        """Return it; there is only one."""
        del rng, domain
        return Field(np.empty((0, 4)), np.empty((0, 4)), floor=1.0)


@dataclass(frozen=True)
class LocalField:
    """One narrow Gaussian centred at a point of the domain."""

    width: tuple[float, float] = (0.03, 0.15)

    def draw(self, rng: np.random.Generator, domain: Bool[np.ndarray, "height width"]) -> Field:
        """Draw one."""
        rows, columns = np.nonzero(domain)
        pixel = rng.integers(len(rows))
        x, y = (np.array([columns[pixel], rows[pixel]]) + rng.random(2)) * Grid(*domain.shape).h
        return Field(np.empty((0, 4)), np.array([[1.0, x, y, rng.uniform(*self.width)]]))


@dataclass(frozen=True)
class SummedField:
    """The weighted mean of two kinds."""

    first: RandomField
    second: RandomField

    def draw(self, rng: np.random.Generator, domain: Bool[np.ndarray, "height width"]) -> Field:
        """Draw one of each, and their weights."""
        weight = rng.uniform(0.2, 0.8)
        first = self.first.draw(rng, domain).times(weight)
        second = self.second.draw(rng, domain).times(1 - weight)
        return Field(np.concatenate([first.waves, second.waves]), np.concatenate([first.bumps, second.bumps]))


@dataclass(frozen=True)
class SeenField:
    """A kind that is redrawn until it varies over the domain: scaling would turn the tail of a far bump into one pixel.

    least   smallest range over the domain; the weights of the terms add up to 1
    """

    kind: RandomField
    least: float = 0.05

    def draw(self, rng: np.random.Generator, domain: Bool[np.ndarray, "height width"]) -> Field:
        """Draw one."""
        x, y = Grid(*domain.shape).pixel_centres()
        for _ in range(MOST_TRIES):
            field = self.kind.draw(rng, domain)
            if np.ptp(field(x, y)[domain]) >= self.least:
                break
        return field


@dataclass(frozen=True)
class RaisedField:
    """A kind whose smallest value after scaling is drawn instead of 0."""

    kind: RandomField
    floor: tuple[float, float] = (0.0, 0.9)

    def draw(self, rng: np.random.Generator, domain: Bool[np.ndarray, "height width"]) -> Field:
        """Draw one, and its smallest value."""
        return replace(self.kind.draw(rng, domain), floor=rng.uniform(*self.floor))


Function = Callable[[Points, Points], Points]
# A function, a tuple with a function or an array for each case of a batch, or one value per pixel of one case or many.
Source = Function | tuple[Function | Float[Array, "_ _"], ...] | Float[Array, "*batch height width"]


def is_function(source: object) -> bool:
    """Tell whether a source is a function, or one for each case, instead of values per pixel."""
    return callable(source) or isinstance(source, tuple)


def sample(
    source: Function, x: Points, y: Points, where: Bool[np.ndarray, "rows columns"]
) -> Float[np.ndarray, "rows columns"]:
    """Evaluate a function at the marked points of a row and a column of coordinates; 0 elsewhere."""
    if isinstance(source, Field):
        return np.where(where, source(x, y), 0.0)
    points_x = np.broadcast_to(x, where.shape)[where]
    points_y = np.broadcast_to(y, where.shape)[where]
    try:
        values = np.asarray(source(points_x, points_y))
    except Exception as error:
        raise DisolError(
            f"The source function must accept two arrays x and y, but raised {type(error).__name__}: {error}. "
            "Write it with NumPy functions."
        ) from error
    if values.dtype.kind not in "biuf":
        raise DisolError(f"The source function must return real numbers, got dtype {values.dtype}. Return floats.")
    if values.shape not in ((), points_x.shape):
        raise DisolError(
            f"The source function must return one value per point, shape {points_x.shape}, got {values.shape}. "
            "Return an array of the shape of x."
        )
    sampled = np.zeros(where.shape)
    sampled[where] = checks.as_float("The result of the source function", values)
    return sampled


def at_pixels(
    source: Source, mask: Bool[Array, "*batch height width"], across: float = 0.5, down: float = 0.5
) -> Float[Array, "*batch height width"]:
    """Sample a source at one point of every mask pixel, by default its centre; an array is constant per pixel."""
    if isinstance(source, tuple):
        return np.stack([at_pixels(own, domain, across, down) for own, domain in zip(source, mask, strict=True)])
    if callable(source):
        return sample(source, *Grid(*mask.shape).points(across, down), mask)
    return source * mask


def at_nodes(
    source: Source, mask: Bool[Array, "*batch height width"], active: Bool[Array, "*batch rows columns"]
) -> Float[Array, "*batch rows columns"]:
    """Sample a source at the marked nodes; an array gives each node the mean of its mask pixels."""
    if isinstance(source, tuple):
        return np.stack([at_nodes(*own) for own in zip(source, mask, active, strict=True)])
    if callable(source):
        return sample(source, *Grid(*mask.shape).node_positions(), active)
    return node_means(source, mask) * active


@dataclass(frozen=True)
class Multiple:
    """A multiple of a function of x and y, or of x, y and the normal. Unlike a closure it can be pickled."""

    factor: float
    function: Callable[..., Any]

    @property
    def __signature__(self) -> Signature:
        return signature(self.function)

    def __call__(self, x: Any, y: Any, *normal: Any) -> Any:
        """Evaluate at points."""
        return self.factor * np.asarray(self.function(x, y, *normal))


def times(factor: float, value: Any) -> Any:
    """Multiply a number, an array or a function by a factor; None stays None."""
    if value is None or factor == 1:
        return value
    return Multiple(factor, value) if callable(value) else factor * value
