"""Sizes of the factors of a shift: a number, or an interval that the size is drawn from; in Python and as text."""

from typing import Any

from disol._checks import is_number, is_pair, number
from disol.errors import DisolError, shown

Size = float | int | tuple[float | int, float | int]


def read_size(factor: str, size: Any) -> Size | None:
    """Read a size given in Python: None, a number, or a pair of numbers (smallest, largest)."""
    if size is None:
        return None
    if is_number(size):
        return number(f"The size of {shown(factor)}", size)
    if is_pair(size) and all(map(is_number, size)):
        return number(f"The size of {shown(factor)}", size[0]), number(f"The size of {shown(factor)}", size[1])
    raise DisolError(f"The size of {factor!r} must be a number or a pair of numbers, got {shown(size)}.")


def parse_size(factor: str, text: str) -> Size:
    """Read a size from a text: `0.3`, or `0.2..0.3`."""
    smallest, dots, largest = text.partition("..")
    try:
        return (float(smallest), float(largest)) if dots else float(smallest)
    except ValueError:
        raise DisolError(
            f"The size of {factor!r} must be a number or two, got {text!r}. Write {factor}=0.3 or {factor}=0.2..0.3."
        ) from None


def write_size(size: Size) -> str:
    """Write a size as text that `parse_size` reads back exactly."""
    pair = size if isinstance(size, tuple) else (size,)
    return "..".join(repr(float(bound)).removesuffix(".0") for bound in pair)


def interval(factor: str, size: Size, low: float, high: float) -> tuple[float, float]:
    """Return the smallest and largest value of a size, which must lie in [low, high]."""
    smallest, largest = map(float, size if isinstance(size, tuple) else (size, size))
    if not low <= smallest <= largest <= high:
        written = write_size(size)
        raise DisolError(f"The size of {factor!r} must lie in [{low:g}, {high:g}], got {written}.")
    return smallest, largest
