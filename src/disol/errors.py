"""The one error that a caller causes, and how its message shows what came."""

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


def one_line(message: str) -> str:
    """Write a message on one line, without what a terminal would obey; of what is very long the middle is left out."""
    if len(message) > _LONGEST:
        message = re.sub(rf"\S{{{_LONGEST_WORD},}}", lambda word: _shorten(word[0], _LONGEST_WORD), message)
    line = _shorten(" ".join(message.split()), _LONGEST_MESSAGE)
    return line if line.isprintable() else "".join(letter if letter.isprintable() else "?" for letter in line)


def _shorten(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: 2 * most // 3]}...{text[-most // 4 :]}"


def shown(value: object) -> str:
    """Write a value into a message: whatever a file holds, it is short and on one line."""
    try:
        text = repr(value) if isinstance(value, str | int | float) else " ".join(reprlib.repr(value).split())
    except (ValueError, RecursionError):  # of an integer with thousands of digits
        return f"a {type(value).__name__} that is too long to show"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def listed(names: Iterable[str], longest: int = _LONGEST) -> str:
    """List names that a file holds in a message: short, and without what a terminal would obey."""
    text = one_line(", ".join(names))
    return text if len(text) <= longest else f"{text[:longest]}..."
