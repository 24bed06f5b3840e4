"""Where trained models are found: those that come with the package by their names, others by their folders."""

import os
from pathlib import Path

from disol.errors import DisolError, shown

PRETRAINED = Path(__file__).parents[1] / "pretrained"


def list_pretrained() -> list[str]:
    """List the names of the trained models that come with the package."""
    return sorted(card.parent.name for card in PRETRAINED.glob("*/config.json"))


def is_shipped(model: object) -> bool:
    """Tell whether a model is given by the name of one that comes with the package."""
    return isinstance(model, str) and model in list_pretrained()


def find_folder(model: str | Path) -> Path:
    """Return the folder of a model.

    A `Path` and a text with a separator ("./poisson") are folders; any other text is a name first, and a folder only if
    no model has that name.
    """
    if not isinstance(model, str | Path):
        raise DisolError(f"A model is a name or a folder, got {shown(model)}.")
    if isinstance(model, str) and is_shipped(model):
        return PRETRAINED / model
    separators = {os.sep, os.altsep or os.sep}
    if isinstance(model, str) and not separators & set(model) and not os.path.exists(model):
        names = list_pretrained()
        known = f"Use one of {', '.join(names)}, or" if names else "No model comes with this package;"
        raise DisolError(
            f"Unknown model {model!r:.300}: neither a name nor a folder. {known} pass the folder of a run."
        )
    return Path(model)
