"""How a channel is kept in a file: markers as bits, forces of +1 and -1 as two planes of bits, the rest as float32."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int8, Shaped, UInt8

Values = Shaped[np.ndarray, "case height width"]
Stored = Shaped[np.ndarray, "case *stored"]


def pack_bits(values: Values) -> UInt8[np.ndarray, "case height bytes"]:
    """Pack 0 and 1 along the width, eight pixels to a byte, the leftmost in the highest bit."""
    return np.packbits(values.astype(bool), axis=-1)


def unpack_bits(
    stored: UInt8[np.ndarray, "*batch height bytes"], width: int
) -> Bool[np.ndarray, "*batch height width"]:
    """Undo `pack_bits`."""
    return np.unpackbits(stored, axis=-1, count=width).view(bool)


def pack_signs(values: Values) -> UInt8[np.ndarray, "case 2 height bytes"]:
    """Pack the pixels that hold +1, then those that hold -1."""
    return np.packbits(np.stack([values > 0, values < 0], axis=1), axis=-1)


def unpack_signs(stored: UInt8[np.ndarray, "case 2 height bytes"], width: int) -> Int8[np.ndarray, "case height width"]:
    """Undo `pack_signs`."""
    positive, negative = unpack_bits(stored, width).view(np.int8).swapaxes(0, 1)
    return positive - negative


@dataclass(frozen=True)
class Encoding:
    """One way to keep a channel.

    planes     shape of one stored channel, from the height and the bytes or values of a row
    allowed    the only values it can hold, or None for every float32
    """

    name: str
    dtype: str
    planes: Callable[[int, int], tuple[int, ...]]
    allowed: tuple[int, ...] | None
    encode: Callable[[Values], Stored]
    decode: Callable[[Stored, int], Values]

    def pack(self, channel: str, values: Values) -> Stored:
        """Encode a channel whose values are allowed."""
        if self.allowed is not None and not holds_only(values, self.allowed):
            known = ", ".join(map(str, self.allowed))
            raise ValueError(f"{channel} must hold only {known} to be stored as {self.name}. Check how it was drawn.")
        return self.encode(values)


def holds_only(values: Values, allowed: tuple[int, ...]) -> bool:
    """Tell whether an array holds only the given consecutive whole numbers."""
    if values.dtype == bool or values.size == 0:
        return True
    # Bounds are quick to find, and for whole numbers in a row they say it all.
    within = allowed[0] <= values.min() and values.max() <= allowed[-1]
    return bool(within and (values.dtype.kind in "iu" or (values == np.round(values)).all()))


BITS = Encoding("bits", "|u1", lambda height, width: (height, (width + 7) // 8), (0, 1), pack_bits, unpack_bits)
SIGNS = Encoding(
    "signs", "|u1", lambda height, width: (2, height, (width + 7) // 8), (-1, 0, 1), pack_signs, unpack_signs
)
REAL = Encoding(
    "float32",
    "<f4",
    lambda height, width: (height, width),
    None,
    lambda values: values.astype("<f4", copy=False),
    lambda stored, _: stored,
)

DERIVED = ("time",)  # filled in when a frame is chosen, never stored
ENCODINGS = {
    "domain": BITS,
    "dirichlet": BITS,
    "fix_x": BITS,
    "fix_y": BITS,
    "force_x": SIGNS,
    "force_y": SIGNS,
}


def encoding_of(channel: str) -> Encoding:
    """Return how a channel is kept."""
    return ENCODINGS.get(channel, REAL)
