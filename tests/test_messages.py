"""Messages are one short line, whatever they are about."""

import copy
import pickle

import pytest

from disol.errors import DisolError, one_line


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("As it was.", "As it was."),
        ("two\nlines\tand\x1b[31m red", "two lines and?[31m red"),
        ("a\0b: embedded null byte", "a?b: embedded null byte"),
        (f"Cannot read {'x' * 10**5}.png: it is long.", f"Cannot read {'x' * 333}...{'x' * 120}.png: it is long."),
        ("many words " * 10**4, f"{('many words ' * 10**4)[:1333]}...{('many words ' * 10**4).strip()[-500:]}"),
    ],
)
def test_a_message_is_one_line_with_its_end(message: str, line: str) -> None:
    error = DisolError(message)
    assert str(error) == one_line(message) == line
    assert str(copy.copy(error)) == str(pickle.loads(pickle.dumps(error))) == line


def test_what_is_shortened_stays_as_it_is_when_it_is_raised_again() -> None:
    once = str(DisolError("x" * 10**5))
    assert str(DisolError(once)) == once
