"""Domains from pictures: dark is the domain, red and blue mark its boundary, white and transparent are outside."""

import re
import warnings
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Float32, UInt8
from PIL import Image, ImageOps, UnidentifiedImageError
from PIL.JpegImagePlugin import MARKER
from PIL.TiffImagePlugin import TiffImageFile

from disol._files import read_regular
from disol.errors import DisolError
from disol.geometry.boundary import Segment
from disol.geometry.curve import eroded, next_points, parts
from disol.geometry.region import Region
from disol.geometry.tracing import trace_levels
from disol.grid import Grid

Mask = Bool[np.ndarray, "height width"]

FORMATS = ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP")
MOST_PIXELS = 4096  # along a side
MOST_BYTES = 2**25
MOST_SEGMENTS = 20_000  # of a PNG or JPEG, comments of a GIF; hundreds are usual, decoders take long for millions
MOST_EXIF = 100  # segments of EXIF in a JPEG file, which are joined one by one; one or two are usual
JPEG_SCAN = 0xFFDA
MOST_SCANS = 200  # of a JPEG file, each over all its pixels; progressive ones have about ten
MOST_CROSSINGS = 200_000  # of the edge of the ink between pixels
SPECK = 0.25  # of a pixel of the grid: smaller loops are not traced
TILE_SIDES = (322, 323)  # tags of TIFF
BMP_RUNS = (1, 2)  # codes of compression: runs of 8 or 4 bits

Colour = Literal["red", "blue"]


@dataclass(frozen=True, eq=False)
class Drawing:
    """A square picture.

    ink        how dark or colourful a pixel is: 1 belongs to the domain, 0 does not
    red        where it is red or magenta
    blue       where it is blue or magenta
    is_first   whether its file holds further pictures, as an animation does
    """

    ink: Float32[np.ndarray, "side side"]
    red: Bool[np.ndarray, "side side"]
    blue: Bool[np.ndarray, "side side"]
    is_first: bool = False

    def mask(self, grid: Grid) -> Mask:
        """Mark the pixels of a grid that are at least half covered by ink."""
        return area_means(self.ink, grid) >= 0.5

    def count_parts(self, grid: Grid) -> int:
        """Count the parts of the dark area in the picture itself, without specks smaller than a pixel of a grid."""
        dark = self.ink >= 0.5
        sizes = np.bincount(parts(dark)[0][dark])
        return int((sizes >= max(1.0, dark.size / (grid.height * grid.width))).sum())

    def painted(self, colour: Colour, grid: Grid) -> Mask:
        """Mark the pixels of the domain that a colour covers at least by half or, on the boundary, touches.

        So a line much thinner than a pixel of the grid is still seen on the boundary, where markers belong.
        """
        mask, covered = self.mask(grid), area_means(getattr(self, colour), grid)
        return mask & ((covered >= 0.5) | ((covered > 1e-9) & ~eroded(mask)))

    def region(self, grid: Grid) -> Region:
        """Trace the edge of the ink between its pixels, without specks and pinholes that this grid cannot show."""
        dark = self.ink > 0.5
        crossings = int((dark[1:] != dark[:-1]).sum() + (dark[:, 1:] != dark[:, :-1]).sum())
        if crossings > MOST_CROSSINGS:
            raise DisolError(
                f"The edge of the dark area crosses between {crossings} pairs of pixels, at most {MOST_CROSSINGS} are "
                "traced. Smooth the picture."
            )
        loops = trace_levels(self.ink.astype(float))
        kept = tuple(loop for loop in loops if abs(loop.signed_area) > SPECK * grid.h**2)
        if not kept:
            raise DisolError(
                f"The dark area is smaller than a pixel of a {grid.height} x {grid.width} grid. Enlarge it."
            )
        return Region(kept, trusted=True)

    def painted_segments(self, colour: Colour, region: Region) -> tuple[Segment, ...]:
        """Return the runs of traced loops within two pixels of the picture from a colour."""
        side = len(self.ink)
        near = self._near(colour)
        segments = []
        for number, loop in enumerate(region.loops):
            middle = 0.5 * (loop.points + next_points(loop.points))
            column, row = np.clip((side * middle).astype(int), 0, side - 1).T
            on, ends = near[row, column], loop.arc_lengths / loop.arc_lengths[-1]
            if on.all():
                segments.append(Segment(0.0, 1.0, number))
                continue
            for start in np.flatnonzero(on & ~np.roll(on, 1)).tolist():
                stop = (start + int(np.argmin(np.roll(on, -start)))) % len(on)
                segments.append(Segment(float(ends[start]), float((ends[stop] - ends[start]) % 1.0), number))
        return tuple(segments)

    def _near(self, colour: Colour) -> Mask:
        """Mark the pixels that are at most two rows and two columns away from a colour."""
        marked = getattr(self, colour)
        for axis in (0, 1):
            framed = np.pad(marked, [(2, 2) if axis == each else (0, 0) for each in (0, 1)])
            size = marked.shape[axis]
            marked = np.logical_or.reduce([np.take(framed, range(at, at + size), axis=axis) for at in range(5)])
        return marked

    def shows(self, colour: Colour) -> bool:
        """Tell whether the picture contains a colour."""
        return bool(getattr(self, colour).any())


def read_drawing(path: str | Path) -> Drawing:
    """Read a picture; one that is not square is centred in an otherwise empty square."""
    content = read_regular(path, MOST_BYTES)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd metadata, and of sizes that are refused here
            _require_few_segments(content)
            with Image.open(BytesIO(content), formats=FORMATS) as picture:
                if max(picture.size) > MOST_PIXELS:  # as the header says: nothing has been decoded yet
                    raise Image.DecompressionBombError
                _require_plain(picture)
                layers = _read_layers(ImageOps.exif_transpose(picture))  # as viewers show it
                is_first = bool(getattr(picture, "is_animated", False))
    except Image.DecompressionBombError:
        raise DisolError(f"{path} is wider or higher than {MOST_PIXELS} pixels. Make it smaller.") from None
    except UnidentifiedImageError:
        raise DisolError(f"Cannot read {path}: it is no picture, or damaged. Save it again as PNG.") from None
    except Exception as error:  # decoders raise whatever a damaged file leads them to
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DisolError(f"Cannot read {path} as a picture: {reason}. Save it again as PNG.") from error
    height, width = layers["ink"].shape
    side = max(height, width)
    top, left = (side - height) // 2, (side - width) // 2
    around = (top, side - height - top), (left, side - width - left)
    return Drawing(**{name: np.pad(layer, around) for name, layer in layers.items()}, is_first=is_first)


def _require_few_segments(content: bytes) -> None:
    """Refuse files that would take minutes to decode: a JPEG with many scans, or a file with very many segments."""
    segments = 0
    if content.startswith(b"\xff\xd8"):
        if content.count(b"\xff\xda") > MOST_SCANS:
            raise ValueError(f"it has more than {MOST_SCANS} scans")
        if content.count(b"Exif\0\0") > MOST_EXIF:
            raise ValueError(f"it has more than {MOST_EXIF} segments of EXIF")
        segments = sum(1 for _ in re.finditer(rb"\xff[^\x00\xd0-\xd7\xff]", content))  # other than in pixels
        segments = max(segments, _count_steps(content))
    elif content.startswith(b"\x89PNG"):
        place = 8
        while place + 4 <= len(content) and segments <= MOST_SEGMENTS:
            place += 12 + int.from_bytes(content[place : place + 4], "big")
            segments += 1
    elif content.startswith(b"GIF8"):
        segments = content.count(b"!\xfe")  # comments, and a few pixels that look like them
    if segments > MOST_SEGMENTS:
        raise ValueError(f"it has more than {MOST_SEGMENTS} segments")


def _count_steps(content: bytes) -> int:
    """Count the segments before the first scan of a JPEG file, and stray bytes between them, up to a few too many."""
    place, steps = 2, 0
    while steps <= MOST_SEGMENTS and place + 4 <= len(content):
        code = int.from_bytes(content[place : place + 2], "big")
        if code == JPEG_SCAN:
            break
        if code in MARKER and MARKER[code][2] is not None:  # with a length
            place += int.from_bytes(content[place + 2 : place + 4], "big")
        place += 2 if code in MARKER else 1
        steps += 1
    return steps


def _require_plain(picture: Image.Image) -> None:
    """Refuse TIFF tiles larger than a picture may be, and run-length encoded BMP files, which are slow to decode."""
    if isinstance(picture, TiffImageFile) and max(picture.tag_v2.get(tag, 0) for tag in TILE_SIDES) > MOST_PIXELS:
        raise Image.DecompressionBombError
    if picture.format == "BMP" and picture.info.get("compression") in BMP_RUNS:
        raise ValueError("run-length encoded BMP files are not read")


def _read_layers(picture: Image.Image) -> dict[str, Float32[np.ndarray, "height width"] | Mask]:
    """Decode a picture into its ink and its colours."""
    if picture.mode.startswith(("I", "F")):  # shades of grey in more than 8 bits
        shades = np.asarray(picture, np.float32)
        # White has no number of its own in 32 bits: programs write what was read from 8 or 16 bits.
        is_of_8_bits = picture.mode == "I" and shades.max() <= 255
        largest = 1.0 if picture.mode == "F" else 255.0 if is_of_8_bits else 65535.0
        grey = shades / np.float32(largest)
        if not ((grey >= 0) & (grey <= 1)).all():
            raise ValueError(f"its shades of grey must lie in [0, {largest:g}]")
        return {"ink": 1 - grey, "red": np.zeros(grey.shape, bool), "blue": np.zeros(grey.shape, bool)}
    red, green, blue, opacity = np.moveaxis(np.asarray(picture.convert("RGBA")), 2, 0)
    opaque = opacity / np.float32(255**2)

    def marked(colour: UInt8[np.ndarray, "height width"], other: UInt8[np.ndarray, "height width"]) -> Mask:
        stands_out = np.where(colour > green, colour - green, 0) * opaque > 0.5
        return stands_out & (5 * colour.astype(np.uint16) >= 3 * other.astype(np.uint16))

    ink = (255 - np.minimum(np.minimum(red, green), blue)) * opaque
    return {"ink": ink, "red": marked(red, blue), "blue": marked(blue, red)}


def area_means(image: Float[np.ndarray, "height width"] | Mask, grid: Grid) -> Float[np.ndarray, "rows columns"]:
    """Average a picture over each pixel of a grid, weighting picture pixels by the area that lies in it."""
    return overlaps(image.shape[0], grid.height) @ image.astype(float) @ overlaps(image.shape[1], grid.width).T


def overlaps(fine: int, coarse: int) -> Float[np.ndarray, "coarse fine"]:
    """Share of each of `coarse` equal intervals that each of `fine` equal intervals covers."""
    edges, cuts = np.arange(fine + 1) / fine, np.arange(coarse + 1) / coarse
    low = np.maximum(cuts[:-1, None], edges[None, :-1])
    high = np.minimum(cuts[1:, None], edges[None, 1:])
    return coarse * np.maximum(high - low, 0.0)
