"""Checked cases, as many as are discretised at once."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float32, Shaped

from disol.inference.parts import Parts, some_cases, split_loads
from disol.problems import Posed

MOST_PIXELS = 2**17  # of the cases of a block, whose arrays then stay in the cache of a processor


@dataclass(frozen=True, eq=False)
class Block:
    """Some cases of one problem on one grid: a batch of arrays, or a single case as it was given.

    posed    the cases; the terms of a batch have a batch axis
    inputs   their channels
    parts    of their loads, as networks know them
    """

    posed: Posed
    inputs: Float32[np.ndarray, "case channel height width"]
    parts: Parts

    @staticmethod
    def of(posed: Posed, parts: Parts | None = None) -> "Block":
        """Read channels and, unless they are known, parts."""
        channels = posed.equation.encode(posed.terms, posed.rules)
        return Block(posed, with_batch_axis(channels, 4), split_loads(posed) if parts is None else parts)

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def domain(self) -> Bool[np.ndarray, "case height width"]:
        """Where the equation of each case holds."""
        return with_batch_axis(self.posed.terms["domain"], 3)

    def pieces(self, most_parts: int) -> Iterator["Block"]:
        """Cut the cases until no piece has more parts than asked for, or it is a single case."""
        if len(self) == 1 or len(self.parts) <= most_parts:
            yield self
        else:
            middle = len(self) // 2
            yield from self.between(0, middle).pieces(most_parts)
            yield from self.between(middle, len(self)).pieces(most_parts)

    def between(self, start: int, stop: int) -> "Block":
        """Return some of the cases of a batch."""
        posed = replace(self.posed, terms=some_cases(self.posed.terms, slice(start, stop)))
        return Block(posed, self.inputs[start:stop], self.parts.of_cases(start, stop))


def blocks_of(batch: Posed) -> list[Block]:
    """Cut a batch of arrays into blocks."""
    num_cases, height, width = batch.terms["domain"].shape
    length = max(1, MOST_PIXELS // (height * width))
    starts = range(0, num_cases, length)
    return [Block.of(replace(batch, terms=some_cases(batch.terms, slice(s, s + length)))) for s in starts]


def with_batch_axis(array: Shaped[np.ndarray, "..."], axes: int) -> Shaped[np.ndarray, "..."]:
    """Give what belongs to a single case the axis that a batch has."""
    return array if array.ndim == axes else array[None]
