"""Finding a trained model: one that comes with the package, by its name, or the folder of a run."""

import os
from pathlib import Path

from disol.inference.engines import build_engine
from disol.inference.model import Model
from disol.models import load_checkpoint
from disol.problems import Problem
from disol.problems.checks import Unchecked

PRETRAINED = Path(__file__).parents[1] / "pretrained"


def list_pretrained() -> list[str]:
    """List the names of the trained models that come with the package."""
    return sorted(card.parent.name for card in PRETRAINED.glob("*/config.json"))


def load(
    model: str | Path | Unchecked,
    problem: str | Problem | Unchecked = None,
    *,
    device: str | Unchecked = "auto",
    engine: str | Unchecked = "torch",
    precision: str | Unchecked = "float32",
) -> Model:
    """Load a trained model.

    model       the name of one that comes with the package (`list_pretrained`), or the folder of a run. A `Path` and a
                text with a separator ("./poisson") are folders; any other text is a name first, and a folder only if no
                model has that name
    problem     must be the one it was trained on, if given
    device      "auto" (a GPU if there is one), "cpu", "cuda" or "cuda:NUMBER"
    engine      what runs it: "torch", "compiled" or "onnx"
    precision   "float32" or "bfloat16"
    """
    checkpoint = load_checkpoint(find_folder(model), problem)
    return Model(checkpoint, build_engine(checkpoint.model, engine=engine, device=device, precision=precision))


def is_shipped(model: str | Path) -> bool:
    """Tell whether a model is asked for by the name of one that comes with the package."""
    return isinstance(model, str) and model in list_pretrained()


def find_folder(model: str | Path | Unchecked) -> Path:
    """Return the folder of a model."""
    if not isinstance(model, str | Path):
        raise ValueError(f"A model is a name or a folder, got {model!r}. Pass a text or a path.")
    if is_shipped(model):
        return PRETRAINED / model
    names = list_pretrained()
    separators = {os.sep, os.altsep or os.sep}
    if isinstance(model, str) and not separators & set(model) and not Path(model).exists():
        known = f"Use one of {', '.join(names)}, or" if names else "No model comes with this package;"
        raise ValueError(f"Unknown model {model!r}: neither a name nor a folder. {known} pass the folder of a run.")
    return Path(model)
