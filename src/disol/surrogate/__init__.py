"""Trained networks in use: load one, predict cases, verify predictions against exact solutions."""

from typing import TYPE_CHECKING

from disol._lazy import lazy_names
from disol.surrogate.loading import load

if TYPE_CHECKING:
    from disol.surrogate.onnx import export_onnx as export_onnx
    from disol.surrogate.surrogate import Surrogate as Surrogate
    from disol.surrogate.symmetric import symmetrise as symmetrise
    from disol.surrogate.verification import Verification as Verification

# Names that need torch, and where they live; they are imported on first use.
TORCH_NAMES = {
    "Surrogate": "surrogate",
    "Verification": "verification",
    "export_onnx": "onnx",
    "symmetrise": "symmetric",
}

__all__ = [*TORCH_NAMES, "load"]  # noqa: PLE0604

__getattr__ = lazy_names(__name__, TORCH_NAMES, ("load",))
