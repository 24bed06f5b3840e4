"""One file per network, a plain table of them, the checkpoints they are kept in, and where trained ones are found."""

from typing import TYPE_CHECKING

from disol._lazy import lazy_names

if TYPE_CHECKING:
    from disol.models.base import Network as Network
    from disol.models.checkpoint import Checkpoint as Checkpoint
    from disol.models.checkpoint import load_checkpoint as load_checkpoint
    from disol.models.checkpoint import save_checkpoint as save_checkpoint
    from disol.models.disol import DiSOL as DiSOL
    from disol.models.handle import Handle as Handle
    from disol.models.handle import resolve as resolve
    from disol.models.pretrained import list_pretrained as list_pretrained
    from disol.models.published import import_published as import_published
    from disol.models.settings import PUBLISHED_CONFIGS as PUBLISHED_CONFIGS
    from disol.models.settings import DiSOLConfig as DiSOLConfig
    from disol.models.settings import ModelConfig as ModelConfig
    from disol.models.table import MODELS as MODELS
    from disol.models.table import Architecture as Architecture
    from disol.models.table import build_network as build_network
    from disol.models.table import count_parameters as count_parameters
    from disol.models.table import count_real_numbers as count_real_numbers
    from disol.models.table import create_model as create_model
    from disol.models.table import describe_model as describe_model
    from disol.models.table import find_settings as find_settings
    from disol.models.table import list_models as list_models

# Where each name lives. They are imported on first use: finding a model and checking its settings need no torch.
NAMES = {
    "MODELS": "table",
    "PUBLISHED_CONFIGS": "settings",
    "Architecture": "table",
    "Checkpoint": "checkpoint",
    "DiSOL": "disol",
    "DiSOLConfig": "settings",
    "Handle": "handle",
    "ModelConfig": "settings",
    "Network": "base",
    "build_network": "table",
    "count_parameters": "table",
    "count_real_numbers": "table",
    "create_model": "table",
    "describe_model": "table",
    "find_settings": "table",
    "import_published": "published",
    "list_models": "table",
    "list_pretrained": "pretrained",
    "load_checkpoint": "checkpoint",
    "resolve": "handle",
    "save_checkpoint": "checkpoint",
}

__all__ = [*NAMES]  # noqa: PLE0604

__getattr__ = lazy_names(__name__, NAMES)
