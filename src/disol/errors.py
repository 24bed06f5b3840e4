"""The one error that callers cause, and how its messages show values."""

import re
import reprlib
from collections.abc import Iterable

_LONGEST = 200  # letters of a value in a message
_LONGEST_MESSAGE = 2000  # letters
_LONGEST_WORD = 500  # letters of a path or name in a message


class DisolError(ValueError):
    """What the caller asked for cannot be done: the message says what was expected, what came, and what to do.

    It is one line, which the command prints. Any other exception is a bug and keeps its traceback.
    """

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


class PlacedError(DisolError):
    """An error at a point, whose message is a template with places for x and y.

    These are coordinates of the grid, unless `Frame.in_drawing` has turned them into those of a drawing.
    """

    def __init__(self, template: str, x: float, y: float) -> None:
        super().__init__(template.format(x=x, y=y))
        self.template, self.x, self.y = template, x, y

    def __reduce__(self) -> tuple[type["PlacedError"], tuple[str, float, float]]:
        return type(self), (self.template, self.x, self.y)


def one_line(message: str) -> str:
    """Write a message on one line, without control characters; the middle of what is very long is left out."""
    if len(message) > _LONGEST:
        message = re.sub(rf"\S{{{_LONGEST_WORD},}}", lambda word: _shorten(word[0], _LONGEST_WORD), message)
    line = _shorten(" ".join(message.split()), _LONGEST_MESSAGE)
    return line if line.isprintable() else "".join(letter if letter.isprintable() else "?" for letter in line)


def _shorten(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: 2 * most // 3]}...{text[-most // 4 :]}"


def shown(value: object) -> str:
    """Write a value for a message: short and on one line, whatever a file holds."""
    try:
        text = repr(value) if isinstance(value, str | int | float) else " ".join(reprlib.repr(value).split())
    except (ValueError, RecursionError):  # of an integer with thousands of digits
        return f"a {type(value).__name__} that is too long to show"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def listed(names: Iterable[str], longest: int = _LONGEST) -> str:
    """List names from a file in a message: short, and without control characters."""
    text = one_line(", ".join(names))
    return text if len(text) <= longest else f"{text[:longest]}..."
