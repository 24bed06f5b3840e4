"""Domains that a user painted: dark is the domain, red and blue mark its boundary, white and clear are outside."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float
from matplotlib.image import imread

from disol.errors import DisolError
from disol.geometry.curve import eroded, parts
from disol.grid import Grid

Image = Float[np.ndarray, "height width"]
Mask = Bool[np.ndarray, "height width"]

COLOURS = ("red", "blue")
MOST_PIXELS = 4096  # along a side


@dataclass(frozen=True, eq=False)
class Drawing:
    """A square picture as three layers with values from 0 to 1.

    ink    how dark or colourful a pixel is: 1 belongs to the domain, 0 does not
    red    1 where it is red or magenta
    blue   1 where it is blue or magenta
    """

    ink: Image
    red: Image
    blue: Image

    def mask(self, grid: Grid) -> Mask:
        """Mark the pixels of a grid that are covered by ink at least by half."""
        return area_means(self.ink, grid) >= 0.5

    def count_parts(self, grid: Grid) -> int:
        """Count the parts of what is dark in the picture itself, without specks smaller than a pixel of a grid."""
        dark = self.ink >= 0.5
        sizes = np.bincount(parts(dark)[0][dark])
        return int((sizes >= max(1.0, dark.size / (grid.height * grid.width))).sum())

    def painted(self, colour: str, grid: Grid) -> Mask:
        """Mark the pixels of the domain that a colour covers by half or, on the boundary, touches.

        A line much thinner than a pixel of the grid is thus seen on the boundary, where markers belong.
        """
        mask = self.mask(grid)
        covered = area_means((self.red if colour == "red" else self.blue) > 0.5, grid)
        return mask & ((covered >= 0.5) | ((covered > 1e-9) & ~eroded(mask)))

    def shows(self, colour: str) -> bool:
        """Tell whether a colour occurs."""
        return bool(((self.red if colour == "red" else self.blue) > 0.5).any())


def read_drawing(path: str | Path) -> Drawing:
    """Read a picture; one that is not square is centred in a square with nothing around it."""
    try:
        pixels = np.asarray(imread(path))
    except OSError as error:
        raise DisolError(f"Cannot read {path}: {error.strerror or 'not a picture'}. Give a PNG file.") from error
    except (ValueError, SyntaxError) as error:
        raise DisolError(f"Cannot read {path} as a picture: {error}. Give a PNG file.") from error
    if max(pixels.shape[:2]) > MOST_PIXELS:
        raise DisolError(f"{path} is wider or higher than {MOST_PIXELS} pixels. Make it smaller.")
    largest = np.iinfo(pixels.dtype).max if pixels.dtype.kind in "iu" else 1.0  # PNG comes as floats already
    values = pixels / largest
    if values.ndim == 2:
        values = np.repeat(values[:, :, None], 3, axis=2)
    red, green, blue = np.moveaxis(values[:, :, :3], 2, 0)
    opacity = values[:, :, 3] if values.shape[2] == 4 else np.ones_like(red)
    layers = {
        "ink": 1 - np.minimum(np.minimum(red, green), blue),
        "red": np.clip(red - green, 0, 1) * (red >= 0.6 * np.maximum(red, blue)),
        "blue": np.clip(blue - green, 0, 1) * (blue >= 0.6 * np.maximum(red, blue)),
    }
    return Drawing(**{name: squared(opacity * layer) for name, layer in layers.items()})


def squared(image: Image) -> Float[np.ndarray, "side side"]:
    """Centre an image in a square of zeros."""
    side = max(image.shape)
    top, left = (side - image.shape[0]) // 2, (side - image.shape[1]) // 2
    framed = np.zeros((side, side))
    framed[top : top + image.shape[0], left : left + image.shape[1]] = image
    return framed


def area_means(image: Image | Mask, grid: Grid) -> Float[np.ndarray, "rows columns"]:
    """Average a picture over each pixel of a grid, counting picture pixels by the area that lies in it."""
    return overlaps(image.shape[0], grid.height) @ image.astype(float) @ overlaps(image.shape[1], grid.width).T


def overlaps(fine: int, coarse: int) -> Float[np.ndarray, "coarse fine"]:
    """Share of each of `coarse` equal intervals that each of `fine` equal intervals covers."""
    edges, cuts = np.arange(fine + 1) / fine, np.arange(coarse + 1) / coarse
    low = np.maximum(cuts[:-1, None], edges[None, :-1])
    high = np.minimum(cuts[1:, None], edges[None, 1:])
    return coarse * np.maximum(high - low, 0.0)
