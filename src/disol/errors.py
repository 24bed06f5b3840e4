"""The one error that a caller causes, and how its message shows what came."""

import reprlib
from collections.abc import Iterable

_LONGEST = 200  # letters of a value in a message


class DisolError(ValueError):
    """What the caller asked for cannot be done: the message says what was expected, what came, and what to do.

    The command prints it as one line. Any other exception is a bug and keeps its traceback.
    """


def shown(value: object) -> str:
    """Write a value into a message: whatever a file holds, it is short and on one line."""
    try:
        text = repr(value) if isinstance(value, str | int | float) else " ".join(reprlib.repr(value).split())
    except (ValueError, RecursionError):  # of an integer with thousands of digits
        return f"a {type(value).__name__} that is too long to show"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def listed(names: Iterable[str], longest: int = _LONGEST) -> str:
    """List names that a file holds in a message: short, and without what a terminal would obey."""
    text = "".join(letter if letter.isprintable() else "?" for letter in " ".join(", ".join(names).split()))
    return text if len(text) <= longest else f"{text[:longest]}..."
