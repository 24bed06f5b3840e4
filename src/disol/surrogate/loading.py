"""Loading a surrogate by any handle: the name of a shipped model, the folder of a run, your own network."""

from pathlib import Path
from typing import TYPE_CHECKING

from disol.models.pretrained import find_folder

if TYPE_CHECKING:
    from torch import nn

    from disol.models.handle import Handle
    from disol.problems import Problem
    from disol.surrogate.surrogate import Surrogate

ENGINES = ("torch", "compiled", "onnx")
PRECISIONS = ("float32", "bfloat16")


def load(
    handle: "Handle",
    problem: "str | Problem | None" = None,
    *,
    model: "str | type[nn.Module] | nn.Module | None" = None,
    device: str = "auto",
    engine: str = "torch",
    precision: str = "float32",
) -> "Surrogate":
    """Load a trained network.

    handle      the name of a shipped model (`list_pretrained`), the folder of a run, your own network, or what this
                function has returned. A `Path` or a string with a separator ("./poisson") is a folder; any other string
                is a name first, and a folder only if no model has that name
    problem     must be the one it was trained on, if given; required for your own network
    model       the class or an instance of your own network, if the folder holds its weights
    device      "auto" (a GPU if there is one), "cpu", "cuda" or "cuda:NUMBER"
    engine      what runs it: "torch", ready at once, for any shape; "compiled", torch.compile, for many predictions of
                one shape; "onnx", ONNX Runtime, the fastest for single predictions of small networks on a CPU
    precision   "float32", or "bfloat16" where torch considers it safe: faster on GPUs, and on CPUs that multiply such
                numbers, such as those with AMX or AVX512-BF16; slower on others
    """
    # Errors are raised before torch is imported, which takes seconds, and those in names even before NumPy is.
    given = handle
    if isinstance(handle, str | Path):
        handle = find_folder(handle)
    from disol._devices import check_device  # noqa: PLC0415
    from disol.models.card import read_card  # noqa: PLC0415
    from disol.problems.table import find, find_problem  # noqa: PLC0415

    find("engine", engine, dict.fromkeys(ENGINES))
    find("precision", precision, dict.fromkeys(PRECISIONS))
    check_device(device)
    if problem is not None:
        find_problem(problem)
    if isinstance(handle, Path):
        read_card(handle).find_problem(given, problem)
    from disol.models.handle import resolve  # noqa: PLC0415
    from disol.surrogate.engines import build_engine  # noqa: PLC0415
    from disol.surrogate.surrogate import Surrogate  # noqa: PLC0415

    checkpoint = resolve(handle, problem=problem, model=model)
    built = build_engine(checkpoint.network, checkpoint.problem, engine=engine, device=device, precision=precision)
    return Surrogate(checkpoint, built)
