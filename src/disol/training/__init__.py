"""Training: settings, data augmentation, losses, the loop, and whole runs that can be interrupted and resumed.

Names are imported on first use, so that arguments are checked before torch is imported, which takes seconds.
"""

from typing import TYPE_CHECKING

from disol._lazy import lazy_names

if TYPE_CHECKING:
    from disol.training.augmentation import SQUARE_GROUP as SQUARE_GROUP
    from disol.training.augmentation import Symmetries as Symmetries
    from disol.training.augmentation import find_symmetries as find_symmetries
    from disol.training.augmentation import translate as translate
    from disol.training.config import RECIPES as RECIPES
    from disol.training.config import RunSettings as RunSettings
    from disol.training.config import TrainSettings as TrainSettings
    from disol.training.config import choose_settings as choose_settings
    from disol.training.history import EpochRecord as EpochRecord
    from disol.training.history import read_history as read_history
    from disol.training.losses import LOSSES as LOSSES
    from disol.training.muon import Muon as Muon
    from disol.training.optimisers import EMA as EMA
    from disol.training.optimisers import build_optimizer as build_optimizer
    from disol.training.optimisers import make_schedule as make_schedule
    from disol.training.run import RunReport as RunReport
    from disol.training.run import train as train

_PUBLIC_NAMES = {
    "EMA": "optimisers",
    "LOSSES": "losses",
    "Muon": "muon",
    "RECIPES": "config",
    "SQUARE_GROUP": "augmentation",
    "EpochRecord": "history",
    "RunReport": "run",
    "RunSettings": "config",
    "Symmetries": "augmentation",
    "TrainSettings": "config",
    "build_optimizer": "optimisers",
    "choose_settings": "config",
    "find_symmetries": "augmentation",
    "make_schedule": "optimisers",
    "read_history": "history",
    "train": "run",
    "translate": "augmentation",
}

__all__ = [*_PUBLIC_NAMES]  # noqa: PLE0604

__getattr__ = lazy_names(__name__, _PUBLIC_NAMES)


def __dir__() -> list[str]:
    """List the public names."""
    return sorted(_PUBLIC_NAMES)
