"""Comparing models: several of them trained and evaluated alike, with tables, pictures and statistics.

Names are imported on first use, so that settings are checked before torch is imported, which takes seconds.
"""

from typing import TYPE_CHECKING

from disol._lazy import lazy_names

if TYPE_CHECKING:
    from disol.comparison.comparison import Comparison as Comparison
    from disol.comparison.comparison import compare as compare
    from disol.comparison.config import ComparisonConfig as ComparisonConfig
    from disol.comparison.config import ModelEntry as ModelEntry
    from disol.comparison.config import read_comparison as read_comparison
    from disol.comparison.records import RunRecord as RunRecord
    from disol.comparison.records import read_record as read_record

_PUBLIC_NAMES = {
    "Comparison": "comparison",
    "ComparisonConfig": "config",
    "ModelEntry": "config",
    "RunRecord": "records",
    "compare": "comparison",
    "read_comparison": "config",
    "read_record": "records",
}

__all__ = [*_PUBLIC_NAMES]  # noqa: PLE0604

__getattr__ = lazy_names(__name__, _PUBLIC_NAMES)


def __dir__() -> list[str]:
    """List the public names."""
    return sorted(_PUBLIC_NAMES)
