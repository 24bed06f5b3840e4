"""The model under evaluation, and whether a file holds what it was trained for."""

import json
from copy import deepcopy
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from disol.data import Store
from disol.models import Checkpoint, Network, count_parameters, load_checkpoint

ASSUMED = "The model does not say what it was trained on: the problem and conventions of the files are assumed."
COMPONENT_PATTERNS = (
    "Patterns are ½ + ½ U / max |U| for each component, and errors are those of these patterns as stored: absolute "
    "ones are half of those of U / max |U|, and relative ones are measured against a pattern that is ½ where U is 0."
)


@dataclass(frozen=True, eq=False)
class Subject:
    """A model, and its checkpoint where it has one."""

    model: Network
    checkpoint: Checkpoint | None

    def on(self, device: torch.device) -> Network:
        """Return a copy for evaluation on a device."""
        return deepcopy(self.model).to(device).eval()

    def describe(self) -> dict[str, Any]:
        """Say what is known about the model."""
        size = {"num_parameters": count_parameters(self.model)}
        if self.checkpoint is not None:
            return {"checkpoint": str(self.checkpoint.path), **asdict(self.checkpoint.card), **size}
        return {
            "model": type(self.model).__name__,
            "model_config": self.model.config.as_dict(),
            "channels": list(self.model.channels),
            "fields": list(self.model.fields),
            **size,
        }

    def expectations(self) -> dict[str, Any]:
        """Return what a file must have."""
        stacked = {"channels": list(self.model.channels), "fields": list(self.model.fields)}
        if self.checkpoint is None:
            return stacked
        card = self.checkpoint.card
        return {
            "problem": card.problem,
            "parameters": json.loads(json.dumps(card.parameters)),
            **stacked,
            "conventions": card.conventions,
            "normalisation": card.normalisation,
        }

    def check(self, store: Store) -> list[str]:
        """Require that a file holds what the model was trained for; return what else its reader should know."""
        found = properties_of(store)
        for name, expected in self.expectations().items():
            if found[name] != expected:
                raise ValueError(
                    f"{store.path} should have the {name} {expected!r} that the model was made for, "
                    f"got {found[name]!r}. Pass a file with the same {name}, or another model."
                )
        notes = [] if self.checkpoint is not None else [ASSUMED]
        if self.model.predicts == "pattern" and store.settings.component_amplitudes:
            notes.append(COMPONENT_PATTERNS)
        if self.checkpoint is not None and self.checkpoint.resolution != store.settings.resolution:
            own, trained = store.settings.resolution, self.checkpoint.resolution
            notes.append(f"{store.path} has a grid of {own} x {own}, the model was trained on {trained} x {trained}.")
        return notes


def read_subject(given: str | Path | Checkpoint | Network) -> Subject:
    """Read a checkpoint from its folder; a model without one is taken as it is."""
    if isinstance(given, Network):
        return Subject(given, None)
    checkpoint = given if isinstance(given, Checkpoint) else load_checkpoint(given)
    return Subject(checkpoint.model, checkpoint)


def properties_of(store: Store) -> dict[str, Any]:
    """Return what a file has, by the names a checkpoint uses."""
    settings = store.settings
    return {
        "problem": settings.problem,
        "parameters": json.loads(settings.parameters),
        "channels": list(settings.channels),
        "fields": list(settings.fields),
        "conventions": settings.conventions,
        "normalisation": "component" if settings.component_amplitudes else "joint",
    }
