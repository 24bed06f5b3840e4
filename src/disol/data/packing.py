"""How a channel is stored in a file: markers as bits, forces of ±1 as two planes of bits, the rest as float32."""

from abc import ABC, abstractmethod
from typing import ClassVar, final

import numpy as np
from jaxtyping import Bool, Float32, Int8, Shaped, UInt8

from disol._terms import Storage
from disol.errors import DisolError
from disol.problems import Problem

Values = Shaped[np.ndarray, "*case height width"]
Stored = Shaped[np.ndarray, "case *stored"]


class Encoding(ABC):
    """One way to store a channel.

    dtype        of what is stored
    compact_as   dtype of its values in memory
    allowed      the only values it can hold, or None for every float32
    """

    name: ClassVar[Storage]
    dtype: ClassVar[str]
    compact_as: ClassVar[type[np.generic]]
    allowed: ClassVar[tuple[int, ...] | None] = None

    @abstractmethod
    def planes(self, height: int, width: int) -> tuple[int, ...]:
        """Return the shape of one stored channel."""

    @abstractmethod
    def encode(self, values: Values) -> Stored:
        """Turn compact values into what is stored."""

    @abstractmethod
    def decode(self, stored: Stored, width: int) -> Values:
        """Undo `encode`."""

    def compact(self, channel: str, values: Values) -> Values:
        """Return a channel, whose values must be allowed, in the smallest type that holds them."""
        if self.allowed is not None and values.dtype != bool and values.size:
            # Bounds are quick to find, and suffice for consecutive integers.
            fits = self.allowed[0] <= values.min() and values.max() <= self.allowed[-1]
            if not fits or (values.dtype.kind == "f" and (values != np.round(values)).any()):
                other = values[~np.isin(values, self.allowed)][0]
                known = ", ".join(map(str, self.allowed))
                raise DisolError(f"{channel} must hold only {known} to be stored as {self.name}, got {other:g}.")
        return values.astype(self.compact_as, copy=False)

    def pack(self, channel: str, values: Values) -> Stored:
        """Encode a channel, whose values must be allowed."""
        return self.encode(self.compact(channel, values))


@final
class Bits(Encoding):
    """Truth values along the width, eight pixels to a byte, the leftmost in the highest bit."""

    name = "bits"
    dtype = "|u1"
    compact_as = np.bool_
    allowed = (0, 1)

    def planes(self, height: int, width: int) -> tuple[int, ...]:
        """One row of bytes for each row of pixels."""
        return height, (width + 7) // 8

    def encode(self, values: Bool[np.ndarray, "case height width"]) -> UInt8[np.ndarray, "case height bytes"]:
        """Pack."""
        return np.packbits(values, axis=-1)

    def decode(
        self, stored: UInt8[np.ndarray, "case height bytes"], width: int
    ) -> Bool[np.ndarray, "case height width"]:
        """Unpack."""
        return np.unpackbits(stored, axis=-1, count=width).view(bool)


@final
class Signs(Encoding):
    """Two planes of bits: the pixels that hold +1, then those that hold -1."""

    name = "signs"
    dtype = "|u1"
    compact_as = np.int8
    allowed = (-1, 0, 1)

    def planes(self, height: int, width: int) -> tuple[int, ...]:
        """Two planes of the bytes of `Bits`."""
        return 2, height, (width + 7) // 8

    def encode(self, values: Int8[np.ndarray, "case height width"]) -> UInt8[np.ndarray, "case 2 height bytes"]:
        """Pack."""
        return np.packbits(np.stack([values > 0, values < 0], axis=1), axis=-1)

    def decode(
        self, stored: UInt8[np.ndarray, "case 2 height bytes"], width: int
    ) -> Int8[np.ndarray, "case height width"]:
        """Unpack."""
        positive, negative = np.unpackbits(stored, axis=-1, count=width).view(np.int8).swapaxes(0, 1)
        return positive - negative


@final
class Real(Encoding):
    """Values as they are, least significant byte first."""

    name = "float32"
    dtype = "<f4"
    compact_as = np.float32

    def planes(self, height: int, width: int) -> tuple[int, ...]:
        """One value per pixel."""
        return height, width

    def encode(self, values: Float32[np.ndarray, "case height width"]) -> Float32[np.ndarray, "case height width"]:
        """Fix the byte order."""
        return values.astype(self.dtype, copy=False)

    def decode(
        self, stored: Float32[np.ndarray, "case height width"], width: int
    ) -> Float32[np.ndarray, "case height width"]:
        """Return what is stored."""
        del width
        return stored


BITS, SIGNS, REAL = Bits(), Signs(), Real()
ENCODINGS: dict[str, Encoding] = {encoding.name: encoding for encoding in (BITS, SIGNS, REAL)}


def get_encodings(problem: Problem) -> dict[str, Encoding]:
    """Return how the channels of a problem are stored, by name; without those that are derived on reading."""
    kinds = {term.channel: term.kind for term in problem.terms}
    return {channel: ENCODINGS[kind.storage] for channel, kind in kinds.items() if kind.storage is not None}
