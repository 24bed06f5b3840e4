"""One file per architecture, a plain table of them, and the checkpoints they are kept in."""

from disol.models.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from disol.models.config import ModelConfig
from disol.models.disol import PUBLISHED_CONFIGS, DiSOL, DiSOLConfig
from disol.models.network import Network
from disol.models.published import import_published
from disol.models.table import MODELS, count_parameters, create_model, list_models

__all__ = [
    "MODELS",
    "PUBLISHED_CONFIGS",
    "Checkpoint",
    "DiSOL",
    "DiSOLConfig",
    "ModelConfig",
    "Network",
    "count_parameters",
    "create_model",
    "import_published",
    "list_models",
    "load_checkpoint",
    "save_checkpoint",
]
