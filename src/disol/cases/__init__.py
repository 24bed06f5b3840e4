"""A problem with all its data, drawn at random, given as arrays or read from text and files: one case, or a batch.

Names are imported on first use, so that a misspelt one is reported before NumPy and SciPy are imported.
"""

from typing import TYPE_CHECKING

from disol._lazy import lazy_names

if TYPE_CHECKING:
    from disol.cases.case import Case as Case
    from disol.cases.case import draw as draw
    from disol.cases.reading import read_case as read_case

_PUBLIC_NAMES = {
    "Case": "case",
    "draw": "case",
    "read_case": "reading",
}

__all__ = [*_PUBLIC_NAMES]  # noqa: PLE0604

__getattr__ = lazy_names(__name__, _PUBLIC_NAMES)


def __dir__() -> list[str]:
    """List the public names."""
    return sorted(_PUBLIC_NAMES)
