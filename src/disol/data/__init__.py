"""Many cases in a file: generating, storing, reading, and exporting them."""

from importlib import import_module
from typing import TYPE_CHECKING

from disol.data.describe import describe
from disol.data.export import export_npz
from disol.data.generate import GenerationReport, generate
from disol.data.own import write_cases
from disol.data.recipe import StoreSettings
from disol.data.store import Store, StoreWriter, create_store, open_store, resume_store

if TYPE_CHECKING:
    from disol.data.dataset import CaseDataset as CaseDataset
    from disol.data.dataset import DeviceCases as DeviceCases
    from disol.data.released import read_released as read_released

# Names that need torch, and where they live; they are imported on first use.
TORCH_NAMES = {
    "CaseDataset": "disol.data.dataset",
    "DeviceCases": "disol.data.dataset",
    "read_released": "disol.data.released",
}

__all__ = [  # noqa: PLE0604
    *TORCH_NAMES,
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


def __getattr__(name: str) -> object:
    """Import a name that needs torch when it is first asked for."""
    if name not in TORCH_NAMES:
        raise AttributeError(f"disol.data has no {name!r}. Its names are {', '.join(__all__)}.")
    value = getattr(import_module(TORCH_NAMES[name]), name)
    globals()[name] = value
    return value
