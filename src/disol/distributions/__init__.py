"""Random distributions of cases: from a seed to the terms of a case.

Names are imported on first use, so that a misspelt one is reported before NumPy and SciPy are imported.
"""

from typing import TYPE_CHECKING

from disol._lazy import lazy_names

if TYPE_CHECKING:
    from disol.distributions.distribution import FACTORS as FACTORS
    from disol.distributions.distribution import Distribution as Distribution
    from disol.distributions.distribution import describe_shift as describe_shift
    from disol.distributions.distribution import read_shift as read_shift
    from disol.distributions.distribution import shifted as shifted

_PUBLIC_NAMES = dict.fromkeys(("FACTORS", "Distribution", "describe_shift", "read_shift", "shifted"), "distribution")

__all__ = [*_PUBLIC_NAMES]  # noqa: PLE0604

__getattr__ = lazy_names(__name__, _PUBLIC_NAMES)


def __dir__() -> list[str]:
    """List the public names."""
    return sorted(_PUBLIC_NAMES)
