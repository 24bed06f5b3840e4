"""Many cases in a file: generating, storing, reading, and exporting them."""

from typing import TYPE_CHECKING

from disol._lazy import lazy_names
from disol.data.export import describe, export_npz
from disol.data.generate import GenerationReport, generate, write_cases
from disol.data.recipe import StoreSettings
from disol.data.store import Store, StoreWriter, create_store, open_store, resume_store

if TYPE_CHECKING:
    from disol.data.dataset import CaseDataset as CaseDataset
    from disol.data.dataset import DeviceCases as DeviceCases
    from disol.data.released import read_released as read_released

# Names that need torch, and where they live; they are imported on first use.
_TORCH_NAMES = {
    "CaseDataset": "dataset",
    "DeviceCases": "dataset",
    "read_released": "released",
}

__all__ = [  # noqa: PLE0604
    *_TORCH_NAMES,
    "GenerationReport",
    "Store",
    "StoreSettings",
    "StoreWriter",
    "create_store",
    "describe",
    "export_npz",
    "generate",
    "open_store",
    "resume_store",
    "write_cases",
]

__getattr__ = lazy_names(__name__, _TORCH_NAMES, __all__)
