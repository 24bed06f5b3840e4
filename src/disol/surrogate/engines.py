"""How a network is run: eagerly by torch, compiled for batches of one shape, or by ONNX Runtime on a CPU."""

import copy
import math
import os
import shutil
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float, Float32
from torch import Tensor, nn
from torch.nn import functional

from disol._arrays import Array, to_device, zeros
from disol._devices import find_device
from disol.errors import DisolError
from disol.problems import Problem
from disol.problems.table import find
from disol.surrogate.loading import PRECISIONS
from disol.surrogate.onnx import INPUT, require, trace_onnx

# So many pixels keep a GPU busy; on a CPU larger batches would only overflow its caches.
MOST_PIXELS = {"cpu": 2**15, "cuda": 2**22}
MOST_SHAPES = 64  # to compile in one process; torch gives up after 8 unless told otherwise
# For fewer pixels, launching the kernels takes longer than computing, so they are recorded as a CUDA graph. Graphs keep
# their memory, so large batches do without.
MOST_PIXELS_OF_A_GRAPH = 2**20
# Compiled for so many, Poisson takes 10 % less time per pixel than for a quarter of them; eager torch takes more.
MOST_PIXELS_COMPILED = 2**24
BYTES_PER_PIXEL = 2**12  # of a GPU's memory, more than the shipped networks need


@dataclass(frozen=True, eq=False)
class Engine(ABC):
    """A way to run a network on one device.

    network      the engine's own copy, in evaluation mode
    problem      defines the channels it sees
    precision    "float32" or "bfloat16"; predictions are float32 in any case
    most_cases   number of cases found to fit into memory at once, by height and width
    """

    name: ClassVar[str]

    network: nn.Module = field(repr=False)
    problem: Problem = field(repr=False)
    device: torch.device
    precision: str
    most_cases: dict[tuple[int, int], int] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self.prepare()

    @abstractmethod
    def prepare(self) -> None:
        """Get the network ready, or raise an error that says why it cannot be run in this way."""

    @abstractmethod
    def run(self, cases: Float32[Tensor, "batch channel height width"], at_once: int) -> Float32[Tensor, "batch ..."]:
        """Predict for cases, of which there are at most `at_once`."""

    def __call__(self, inputs: Float32[Array, "batch channel height width"]) -> Float32[Array, "batch ..."]:
        """Predict for a batch of any size, in chunks that suit the device; arrays give arrays, tensors give tensors."""
        channels = self.problem.channels
        if inputs.shape[1] != len(channels):
            raise DisolError(f"Expected {len(channels)} channels ({', '.join(channels)}), got {inputs.shape[1]}.")
        is_array = isinstance(inputs, np.ndarray)
        cases = to_device(inputs, "cpu") if is_array else inputs
        if len(cases) == 0:
            return self(zeros((1, *inputs.shape[1:]), like=inputs))[:0]
        grid = (cases.shape[2], cases.shape[3])
        while True:
            at_once = self.cases_at_once(len(cases), grid)
            try:
                chunks = (self.run(chunk, at_once) for chunk in torch.split(cases, at_once))
                # Predictions for arrays leave the device chunk by chunk, as it may have no room for all of them.
                predictions = [chunk.cpu() if is_array else chunk for chunk in chunks]
            except torch.OutOfMemoryError:
                if at_once == 1:
                    raise DisolError(
                        f"One case of {grid[0]} x {grid[1]} pixels must fit into the memory of {self.device}, but does "
                        "not. Free memory, or use device='cpu'."
                    ) from None
                self.most_cases[grid] = at_once // 2
            else:
                joined = torch.cat(predictions) if len(predictions) > 1 else predictions[0]
                return np.ascontiguousarray(joined.numpy()) if is_array else joined
            torch.cuda.empty_cache()  # here, since an exception being handled keeps its tensors alive

    def cases_at_once(self, batch: int, grid: tuple[int, int]) -> int:
        """Return how many cases of a batch to run together."""
        usual = max(1, self.most_pixels() // (grid[0] * grid[1]))
        return min(batch, self.most_cases.get(grid, usual))

    def most_pixels(self) -> int:
        """Return how many pixels are best run together."""
        return MOST_PIXELS[self.device.type]


class TorchEngine(Engine):
    """Eager torch: ready at once, for any shape."""

    name: ClassVar[str] = "torch"

    def prepare(self) -> None:
        """Move the network to the device."""
        # On a CPU stencils are faster if the channels of a pixel lie together; on a GPU GroupNorm undoes it each time.
        layout = torch.channels_last if self.device.type == "cpu" else torch.contiguous_format
        _move(self.network, self.device, layout)

    @torch.inference_mode()
    def run(self, cases: Float32[Tensor, "batch channel height width"], at_once: int) -> Float32[Tensor, "batch ..."]:
        """Move cases to the device, and predict there."""
        del at_once
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.precision == "bfloat16"):
            return self.forward(cases.to(self.device)).float()

    def forward(self, cases: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch ..."]:
        """Run the network."""
        return self.network(cases)


@dataclass(frozen=True, eq=False)
class CompiledEngine(TorchEngine):
    """Compiled torch: a wait of seconds to minutes for each new shape, then the fastest for large batches on a GPU.

    Batches are padded with empty cases to a power of two, so that there are few shapes.

    compiled   the compiled network for each shape of batches, in the order of compilation
    """

    name: ClassVar[str] = "compiled"

    compiled: dict[tuple[int, ...], Callable[[Tensor], Tensor]] = field(default_factory=dict, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "compiled": {}}  # a copy compiles again

    def prepare(self) -> None:
        """Move the network to the device, if it can be compiled there."""
        _require_compiler(self.device)
        _move(self.network, self.device, torch.channels_last)

    def cases_at_once(self, batch: int, grid: tuple[int, int]) -> int:
        """Return a power of two: of those that are fast and need the least padding, the largest."""
        most = _power_of_two_within(super().cases_at_once(2 ** (batch - 1).bit_length(), grid))
        fewest = _power_of_two_within(min(most, max(1, super().most_pixels() // (grid[0] * grid[1]))))
        sizes = [2**power for power in range(fewest.bit_length() - 1, most.bit_length())]
        return min(reversed(sizes), key=lambda size: size * math.ceil(batch / size))

    def most_pixels(self) -> int:
        """Return how many pixels a large GPU computes fastest, or a small one probably has the memory for."""
        if self.device.type == "cpu":
            return super().most_pixels()
        memory = torch.cuda.get_device_properties(self.device).total_memory
        return min(MOST_PIXELS_COMPILED, max(super().most_pixels(), memory // BYTES_PER_PIXEL))

    def run(self, cases: Float32[Tensor, "batch channel height width"], at_once: int) -> Float32[Tensor, "batch ..."]:
        """Predict for a padded batch, and drop the padding."""
        missing = at_once - len(cases)
        full = functional.pad(cases, (0, 0, 0, 0, 0, 0, 0, missing)) if missing else cases
        return super().run(full, at_once)[: len(cases)]

    def forward(self, cases: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch ..."]:
        """Run what was compiled for this shape, or compile it."""
        recorded = self.device.type == "cuda" and cases[:, 0].numel() <= MOST_PIXELS_OF_A_GRAPH
        arranged = cases.to(memory_format=torch.channels_last)
        shape = tuple(cases.shape)
        if shape not in self.compiled:
            with _quiet_compilation():
                run = _compile_for_one_shape(self.network, self.device, recorded=recorded)
                run(arranged)
            self.compiled[shape] = run
        if not recorded:
            return self.compiled[shape](arranged)
        torch.compiler.cudagraph_mark_step_begin()  # type: ignore[no-untyped-call]
        return self.compiled[shape](arranged).clone()  # the next run of a graph writes to the same memory


def _power_of_two_within(number: int) -> int:
    """Return the largest power of two that is not above a number."""
    return 2 ** (number.bit_length() - 1)


def _move(network: nn.Module, device: torch.device, layout: torch.memory_format) -> None:
    """Move a network to a device, with its weights in a memory layout."""
    network.to(device, memory_format=layout)  # type: ignore[call-overload] # unknown to torch's stubs


def _compile_for_one_shape(network: nn.Module, device: torch.device, *, recorded: bool) -> Callable[[Tensor], Tensor]:
    """Ask torch to compile a network when it is first called, and to record a CUDA graph if wanted."""
    # By default torch considers so few channels not worth a layout on a GPU, and copies tensors back and forth.
    options: dict[str, Any] = {"force_layout_optimization": True, "triton.cudagraphs": recorded}
    compiled: Callable[[Tensor], Tensor] = torch.compile(
        network, dynamic=False, options=options if device.type == "cuda" else None
    )
    return compiled


@contextmanager
def _quiet_compilation() -> Iterator[None]:
    """Let torch compile further shapes, without the warnings that it has for users of the compiler."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=DeprecationWarning, module=r"torch\b")
        warnings.filterwarnings("ignore", message="TensorFloat32 tensor cores")
        with torch._dynamo.config.patch(recompile_limit=MOST_SHAPES):
            yield


def _require_compiler(device: torch.device) -> None:
    """Require what torch compiles with: Triton for a GPU, a C++ compiler for a CPU."""
    if device.type == "cuda" and find_spec("triton") is None:
        raise DisolError(f"engine='compiled' needs Triton on {device}, which is not installed. Use engine='torch'.")
    if device.type == "cpu" and not _has_cpp_compiler():
        raise DisolError(
            f"engine='compiled' needs a C++ compiler on {device}, but none is found. "
            "Install g++, or use engine='torch'."
        )


def _has_cpp_compiler() -> bool:
    """Tell whether there is a C++ compiler: the one that $CXX names, or a usual one."""
    chosen = os.environ.get("CXX")
    return any(shutil.which(name) for name in ([chosen] if chosen else ["g++", "clang++", "cl"]))


class OnnxEngine(Engine):
    """ONNX Runtime: a wait of seconds, then the fastest for single cases and small networks on a CPU, of any shape."""

    name: ClassVar[str] = "onnx"

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "session"}  # which cannot be copied

    def prepare(self) -> None:
        """Require a CPU, float32 and the packages."""
        if self.device.type != "cpu":
            raise DisolError(
                f"engine='onnx' runs on a CPU, not on {self.device}. Use device='cpu' or engine='compiled'."
            )
        if self.precision != "float32":
            raise DisolError(f"engine='onnx' computes in float32, not in {self.precision}. Use engine='compiled'.")
        for module in ("onnx", "onnxruntime"):
            require(module)

    @cached_property
    def session(self) -> Any:
        """The exported network, ready to run with as many threads as torch has."""
        runtime = require("onnxruntime")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        # Threads that wait for the next prediction in a busy loop would slow torch down threefold in between.
        options.add_session_config_entry("session.force_spinning_stop", "1")
        return runtime.InferenceSession(
            trace_onnx(self.network, self.problem), options, providers=["CPUExecutionProvider"]
        )

    def run(self, cases: Float32[Tensor, "batch channel height width"], at_once: int) -> Float32[Tensor, "batch ..."]:
        """Predict in NumPy's memory."""
        del at_once
        return torch.from_numpy(self.session.run(None, {INPUT: cases.numpy()})[0])


ENGINES: dict[str, type[Engine]] = {engine.name: engine for engine in (TorchEngine, CompiledEngine, OnnxEngine)}


def build_engine(
    network: nn.Module, problem: Problem, *, engine: str = "torch", device: str = "cpu", precision: str = "float32"
) -> Engine:
    """Make a copy of a network ready to run; the arguments are those of `load`.

    On a GPU the convolutions of "float32" round their inputs to TensorFloat32, which is torch's default; setting
    `torch.backends.cudnn.allow_tf32 = False` makes them true float32.
    """
    kind = find("engine", engine, ENGINES)
    find("precision", precision, dict.fromkeys(PRECISIONS))
    place = find_device("cpu" if kind is OnnxEngine and device == "auto" else device)
    return kind(copy.deepcopy(network).eval(), problem, place, precision)
