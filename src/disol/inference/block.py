"""Checked cases, as many as are discretised at once."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float32, Shaped

from disol.inference.parts import Parts, some_cases, split_loads
from disol.problems import Posed

Channels = Float32[np.ndarray, "case channel height width"]
MOST_PIXELS = 2**17  # of the cases of a block, whose arrays then stay in the cache of a processor


@dataclass(frozen=True, eq=False)
class Block:
    """Some cases of one problem on one grid: a batch of arrays, or a single case as it was given.

    posed   the cases; the terms of a batch have a batch axis
    parts   of their loads, as networks know them
    """

    posed: Posed
    parts: Parts

    def __len__(self) -> int:
        return len(self.domain)

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
        return Block(cases_between(self.posed, start, stop), self.parts.of_cases(start, stop))


def read_blocks(batch: Posed) -> tuple[list[Block], Channels]:
    """Cut a batch of arrays into blocks, and stack the channels of all cases."""
    num_cases, height, width = batch.terms["domain"].shape
    length = max(1, MOST_PIXELS // (height * width))
    channels = empty_channels(batch, num_cases)
    blocks = []
    for start in range(0, num_cases, length):
        posed = cases_between(batch, start, start + length)
        channels[start : start + length] = posed.equation.encode(posed.terms, posed.rules)
        blocks.append(Block(posed, split_loads(posed)))
    return blocks, channels


def cases_between(batch: Posed, start: int, stop: int) -> Posed:
    """Return some of the cases of a batch of arrays."""
    return replace(batch, terms=some_cases(batch.terms, slice(start, stop)))


def empty_channels(posed: Posed, count: int) -> Channels:
    """Make room for channels, which are then written block by block: joining them later would write them twice."""
    return np.empty((count, len(posed.equation.channels), *posed.grid.pixels), np.float32)


def with_batch_axis(array: Shaped[np.ndarray, "..."], axes: int) -> Shaped[np.ndarray, "..."]:
    """Give what belongs to a single case the axis that a batch has."""
    return array if array.ndim == axes else array[None]
