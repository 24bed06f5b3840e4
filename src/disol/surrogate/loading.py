"""Loading a surrogate by any handle: a shipped name, the folder of a run, a network of one's own."""

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

    handle      the name of one that comes with the package (`list_pretrained`), the folder of a run, a network of one's
                own, or what this function has returned. A `Path` and a text with a separator ("./poisson") are folders;
                any other text is a name first, and a folder only if no model has that name
    problem     must be the one it was trained on, if given; a network of one's own needs it
    model       the class, or an object, of a network of one's own whose weights are in the folder
    device      "auto" (a GPU if there is one), "cpu", "cuda" or "cuda:NUMBER"
    engine      what runs it: "torch" at once, for any shape; "compiled" by torch.compile, for many predictions of one
                shape; "onnx" by ONNX Runtime, the fastest on a CPU
    precision   "float32", or "bfloat16" where torch holds it to be safe, which is slow on most CPUs
    """
    # What is wrong is told before torch is imported, which takes seconds, and a wrong name before NumPy is.
    if isinstance(handle, str | Path):
        handle = find_folder(handle)
    from disol._devices import check_device  # noqa: PLC0415
    from disol.models.card import CARD, read_card  # noqa: PLC0415
    from disol.problems.table import find, find_problem  # noqa: PLC0415

    find("engine", engine, dict.fromkeys(ENGINES))
    find("precision", precision, dict.fromkeys(PRECISIONS))
    check_device(device)
    if problem is not None:
        find_problem(problem)
    if isinstance(handle, Path):
        read_card(handle).find_problem(handle / CARD, problem)
    from disol.models.handle import resolve  # noqa: PLC0415
    from disol.surrogate.engines import build_engine  # noqa: PLC0415
    from disol.surrogate.surrogate import Surrogate  # noqa: PLC0415

    checkpoint = resolve(handle, problem=problem, model=model)
    built = build_engine(checkpoint.network, checkpoint.problem, engine=engine, device=device, precision=precision)
    return Surrogate(checkpoint, built)
