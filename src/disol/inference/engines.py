"""How a network is run: the table of engines, and building one by name."""

import copy

import torch

from disol.devices import find_device
from disol.inference.engine import Engine
from disol.inference.onnx_engine import OnnxEngine
from disol.inference.torch_engines import CompiledEngine, TorchEngine
from disol.models import Network
from disol.problems.checks import Unchecked
from disol.problems.table import find

__all__ = ["ENGINES", "PRECISIONS", "Engine", "build_engine"]

ENGINES: dict[str, type[Engine]] = {engine.name: engine for engine in (TorchEngine, CompiledEngine, OnnxEngine)}
PRECISIONS = ("float32", "bfloat16")


def build_engine(
    network: Network,
    *,
    engine: str | Unchecked = "torch",
    device: str | torch.device | Unchecked = "cpu",
    precision: str | Unchecked = "float32",
) -> Engine:
    """Make a copy of a network ready to run: `engine(inputs)` maps NumPy arrays to NumPy arrays.

    engine      "torch": at once, for any shape; "compiled": by torch.compile, for many predictions of one shape;
                "onnx": by ONNX Runtime, the fastest on a CPU
    device      "auto", "cpu", "cuda" or "cuda:NUMBER"; "auto" is "cpu" for "onnx"
    precision   "float32", or "bfloat16" where torch holds it to be safe, which is slow on most CPUs. On a GPU the
                convolutions of "float32" round their inputs to TensorFloat32, which is torch's default; setting
                `torch.backends.cudnn.allow_tf32 = False` makes them true float32.
    """
    kind = find("engine", engine, ENGINES)
    find("precision", precision, dict.fromkeys(PRECISIONS))
    place = find_device("cpu" if kind is OnnxEngine and device == "auto" else str(device))
    return kind(copy.deepcopy(network).eval(), place, precision)
