"""Training: settings, symmetries, losses, the loop, and whole runs that can be interrupted and resumed."""

from disol.training.config import RECIPES, RunSettings, TrainSettings, choose_settings
from disol.training.history import EpochRecord, read_history
from disol.training.run import RunReport, train
from disol.training.symmetry import SQUARE_GROUP, Symmetries, elements_of

__all__ = [
    "RECIPES",
    "SQUARE_GROUP",
    "EpochRecord",
    "RunReport",
    "RunSettings",
    "Symmetries",
    "TrainSettings",
    "choose_settings",
    "elements_of",
    "read_history",
    "train",
]
