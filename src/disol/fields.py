"""Source terms and initial fields: how they are drawn, and how any of them is sampled on a grid."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float

from disol.grid import Grid, node_means

Array = Float[np.ndarray, "..."]


@dataclass(frozen=True, eq=False)
class Field:
    """f(x, y) = (Σ ξᵢ sin(2π(aᵢ x + bᵢ y) + cᵢ) + Σ ξⱼ exp(−|(x, y) − pⱼ|² / 2 wⱼ²) − offset) / scale.

    waves    rows of (ξ, a, b, c); a cosine is a wave whose phase c is π/2 further
    bumps    rows of (ξ, p_x, p_y, w)
    """

    waves: Float[np.ndarray, "wave 4"]
    bumps: Float[np.ndarray, "bump 4"]
    offset: float = 0.0
    scale: float = 1.0

    def __call__(self, x: Array, y: Array) -> Array:
        """Evaluate at arrays of points that broadcast against each other."""
        # Waves and bumps are sums of products of a function of x and one of y: on a row and a column of
        # coordinates this costs one matrix product instead of a sine or exponential per pixel.
        across, down = self._factors(x, y)
        if x.ndim == y.ndim == 2 and x.shape[0] == y.shape[1] == 1:
            total = down[:, :, 0].T @ across[:, 0, :]
        else:
            total = np.sum(across * down, axis=0)
        return (total - self.offset) / self.scale

    def _factors(self, x: Array, y: Array) -> tuple[Array, Array]:
        axes = (slice(None), *[None] * np.ndim(x))
        weight, a, b, phase = (column[axes] for column in self.waves.T)
        along_x, along_y = 2 * np.pi * a * x + phase, 2 * np.pi * b * y
        height, p_x, p_y, width = (column[axes] for column in self.bumps.T)
        bump_x, bump_y = np.exp(-0.5 * ((x - p_x) / width) ** 2), np.exp(-0.5 * ((y - p_y) / width) ** 2)
        return (
            np.concatenate([weight * np.sin(along_x), weight * np.cos(along_x), height * bump_x]),
            np.concatenate([np.cos(along_y), np.sin(along_y), bump_y]),
        )

    def scaled_to_unit(self, samples: Array) -> "Field":
        """Return the field shifted and scaled so that these samples of it fill [0, 1]."""
        low, high = float(samples.min()), float(samples.max())
        spread = high - low
        return replace(
            self,
            offset=self.offset + low * self.scale,
            scale=self.scale * spread if spread > 0 else self.scale,
        )


@dataclass(frozen=True)
class FieldSettings:
    """What random fields are made of: numbers of terms, frequencies, phases and widths."""

    most_terms: int = 3
    frequency: float = 1.0
    phase: float = np.pi / 4
    width: tuple[float, float] = (0.5, 1.5)


IN_DISTRIBUTION = FieldSettings()
HIGH_FREQUENCY = FieldSettings(most_terms=7, frequency=4.0, phase=np.pi, width=(0.02, 0.4))


def draw_field(rng: np.random.Generator, settings: FieldSettings = IN_DISTRIBUTION) -> Field:
    """Draw a weighted mean of sines, cosines and Gaussians (unscaled)."""
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


# A function, which belongs to one case, or one value per pixel of one case or of many.
Source = Callable[[Array, Array], Array] | Float[np.ndarray, "*batch height width"]


def sample(
    source: Callable[[Array, Array], Array], x: Array, y: Array, where: Bool[np.ndarray, "rows columns"]
) -> Float[np.ndarray, "rows columns"]:
    """Evaluate a function at the marked points of a row and a column of coordinates; 0 elsewhere."""
    if isinstance(source, Field):
        return np.where(where, source(x, y), 0.0)
    points_x = np.broadcast_to(x, where.shape)[where]
    points_y = np.broadcast_to(y, where.shape)[where]
    try:
        values = np.asarray(source(points_x, points_y))
    except Exception as error:
        raise ValueError(
            f"The source function must accept two arrays x and y, but raised {type(error).__name__}: {error}. "
            "Write it with NumPy functions."
        ) from error
    if values.dtype.kind not in "biuf":
        raise ValueError(f"The source function must return real numbers, got dtype {values.dtype}. Return floats.")
    if values.shape not in ((), points_x.shape):
        raise ValueError(
            f"The source function must return one value per point, shape {points_x.shape}, got {values.shape}. "
            "Return an array of the shape of x."
        )
    if not np.isfinite(values).all():
        raise ValueError("The source function returned NaN or infinite values. Make it finite on the domain.")
    sampled = np.zeros(where.shape)
    sampled[where] = values
    return sampled


def at_pixels(
    source: Source, mask: Bool[np.ndarray, "*batch height width"], across: float = 0.5, down: float = 0.5
) -> Float[np.ndarray, "*batch height width"]:
    """Sample a source at one point of every mask pixel (its centre, unless said); an array is constant per pixel."""
    if callable(source):
        return sample(source, *Grid(*mask.shape).points(across, down), mask)
    return source * mask


def at_nodes(
    source: Source, mask: Bool[np.ndarray, "*batch height width"], active: Bool[np.ndarray, "*batch rows columns"]
) -> Float[np.ndarray, "*batch rows columns"]:
    """Sample a source at the marked nodes; an array gives each node the mean of its mask pixels."""
    if callable(source):
        return sample(source, *Grid(*mask.shape).node_positions(), active)
    return node_means(source, mask) * active
