"""Running a network by torch: as it is, or compiled for batches of one shape."""

import math
import os
import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float, Float32
from torch import Tensor, nn
from torch.nn import functional

from disol.inference.engine import Engine

MOST_SHAPES = 64  # to compile in one process; torch gives up after 8 unless told otherwise
# Launching the kernels of a network takes longer than computing fewer pixels, so they are recorded as a CUDA graph.
# Graphs keep their memory, so large batches do without.
MOST_PIXELS_OF_A_GRAPH = 2**20
# Compiled for as many, Poisson takes 10 % less per pixel than for a quarter; eager torch takes more.
MOST_PIXELS_COMPILED = 2**24
BYTES_PER_PIXEL = 2**12  # of a GPU's memory, more than the shipped networks need


class TorchEngine(Engine):
    """Eager torch: ready at once, for any shape."""

    name: ClassVar[str] = "torch"

    def prepare(self) -> None:
        """Take the network to the device."""
        # Stencils are faster on a CPU if the channels of a pixel lie together; on a GPU GroupNorm undoes it each time.
        layout = torch.channels_last if self.device.type == "cpu" else torch.contiguous_format
        move(self.network, self.device, layout)

    def run(
        self, cases: Float32[Tensor, "batch channel height width"], at_once: int
    ) -> Float32[np.ndarray, "batch ..."]:
        """Take cases to the device and their predictions back."""
        del at_once
        return np.ascontiguousarray(self.on_device(cases.to(self.device)).cpu().numpy())

    @torch.inference_mode()
    def on_device(self, cases: Float[Tensor, "batch channel height width"]) -> Float32[Tensor, "batch ..."]:
        """Predict for one batch that is on the device, and leave the predictions there."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.precision == "bfloat16"):
            return self.forward(cases).float()

    def forward(self, cases: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch ..."]:
        """Run the network."""
        return self.network(cases)


@dataclass(frozen=True, eq=False)
class CompiledEngine(TorchEngine):
    """Compiled torch: a wait of seconds to minutes for each new shape, then the fastest for large batches on a GPU.

    Batches are filled up with empty cases to a power of two, so that there are few shapes.

    compiled   what runs batches of each shape, in the order of compilation
    """

    name: ClassVar[str] = "compiled"

    compiled: dict[tuple[int, ...], Callable[[Tensor], Tensor]] = field(default_factory=dict, repr=False)

    def prepare(self) -> None:
        """Take the network to the device, if it can be compiled there."""
        require_compiler(self.device)
        move(self.network, self.device, torch.channels_last)

    def cases_at_once(self, batch: int, grid: tuple[int, int]) -> int:
        """Return a power of two: of those that are fast and leave the fewest cases to fill up with, the largest."""
        most = power_of_two_within(super().cases_at_once(2 ** (batch - 1).bit_length(), grid))
        fewest = power_of_two_within(min(most, max(1, super().most_pixels() // (grid[0] * grid[1]))))
        sizes = [2**power for power in range(fewest.bit_length() - 1, most.bit_length())]
        return min(reversed(sizes), key=lambda size: size * math.ceil(batch / size))

    def most_pixels(self) -> int:
        """Return how many pixels a large GPU computes fastest, or a small one may have the memory for."""
        if self.device.type == "cpu":
            return super().most_pixels()
        memory = torch.cuda.get_device_properties(self.device).total_memory
        return min(MOST_PIXELS_COMPILED, max(super().most_pixels(), memory // BYTES_PER_PIXEL))

    def run(
        self, cases: Float32[Tensor, "batch channel height width"], at_once: int
    ) -> Float32[np.ndarray, "batch ..."]:
        """Predict for a full batch, and forget the cases that fill it up."""
        missing = at_once - len(cases)
        full = functional.pad(cases, (0, 0, 0, 0, 0, 0, 0, missing)) if missing else cases
        return super().run(full, at_once)[: len(cases)]

    def forward(self, cases: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch ..."]:
        """Run what was compiled for this shape, or compile it."""
        recorded = self.device.type == "cuda" and cases[:, 0].numel() <= MOST_PIXELS_OF_A_GRAPH
        arranged = cases.to(memory_format=torch.channels_last)
        shape = tuple(cases.shape)
        if shape not in self.compiled:
            with quiet_compilation():
                run = compile_for_one_shape(self.network, self.device, recorded=recorded)
                run(arranged)
            self.compiled[shape] = run
        if not recorded:
            return self.compiled[shape](arranged)
        torch.compiler.cudagraph_mark_step_begin()  # type: ignore[no-untyped-call]
        return self.compiled[shape](arranged).clone()  # the next run of a graph writes to the same memory


def power_of_two_within(number: int) -> int:
    """Return the largest power of two that is not above a number."""
    return 2 ** (number.bit_length() - 1)


def move(network: nn.Module, device: torch.device, layout: torch.memory_format) -> None:
    """Take a network to a device, with its weights in a layout of memory."""
    network.to(device, memory_format=layout)  # type: ignore[call-overload] # unknown to torch's stubs


def compile_for_one_shape(network: nn.Module, device: torch.device, *, recorded: bool) -> Callable[[Tensor], Tensor]:
    """Ask torch to compile a network when it is first called, and to record a CUDA graph if wanted."""
    # Left to itself, torch thinks so few channels not worth a layout on a GPU, and copies tensors to and fro.
    options: dict[str, Any] = {"force_layout_optimization": True, "triton.cudagraphs": recorded}
    compiled: Callable[[Tensor], Tensor] = torch.compile(
        network, dynamic=False, options=options if device.type == "cuda" else None
    )
    return compiled


@contextmanager
def quiet_compilation() -> Iterator[None]:
    """Let torch compile yet another shape, without its advice to users of the compiler."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=DeprecationWarning, module=r"torch\b")
        warnings.filterwarnings("ignore", message="TensorFloat32 tensor cores")
        with torch._dynamo.config.patch(recompile_limit=MOST_SHAPES):
            yield


def require_compiler(device: torch.device) -> None:
    """Require what torch compiles with: Triton for a GPU, a C++ compiler for a CPU."""
    if device.type == "cuda" and find_spec("triton") is None:
        raise ValueError(f"engine='compiled' needs Triton on {device}, which is not installed. Use engine='torch'.")
    if device.type == "cpu" and not has_cpp_compiler():
        raise ValueError(
            f"engine='compiled' needs a C++ compiler on {device}, but none is found. "
            "Install g++, or use engine='torch'."
        )


def has_cpp_compiler() -> bool:
    """Tell whether there is a C++ compiler: the one that $CXX names, or a usual one."""
    chosen = os.environ.get("CXX")
    return any(shutil.which(name) for name in ([chosen] if chosen else ["g++", "clang++", "cl"]))
