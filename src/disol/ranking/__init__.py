"""Many variants, solved and sorted by one number of each."""

from typing import TYPE_CHECKING

from disol._lazy import lazy_names

if TYPE_CHECKING:
    from disol.ranking.measures import MEASURES as MEASURES
    from disol.ranking.results import Ranked as Ranked
    from disol.ranking.results import Ranking as Ranking
    from disol.ranking.variants import rank as rank

_PUBLIC_NAMES = {"MEASURES": "measures", "Ranked": "results", "Ranking": "results", "rank": "variants"}

__all__ = [*_PUBLIC_NAMES]  # noqa: PLE0604

__getattr__ = lazy_names(__name__, _PUBLIC_NAMES)
