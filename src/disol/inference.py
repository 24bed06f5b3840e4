"""A trained model, ready to predict."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float32

from disol.channels import ChannelLayout
from disol.models import Checkpoint, load_checkpoint
from disol.problems import Problem
from disol.problems.checks import Unchecked


@dataclass(frozen=True, eq=False)
class Model:
    """A trained network that knows what it was trained on."""

    checkpoint: Checkpoint

    @property
    def problem(self) -> str:
        """Name of its problem."""
        return self.checkpoint.problem.name

    @property
    def channels(self) -> ChannelLayout:
        """Names of its input channels."""
        return self.checkpoint.channels

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the fields it predicts."""
        return self.checkpoint.fields

    @property
    def conventions(self) -> str:
        """Conventions its cases were discretised by."""
        return self.checkpoint.conventions

    @property
    def resolution(self) -> int:
        """Pixels along a side of the grids it was trained on."""
        return self.checkpoint.resolution

    @property
    def normalisation(self) -> str:
        """How its patterns are scaled: "joint" or "component"."""
        return self.checkpoint.normalisation

    @torch.inference_mode()
    def predict(
        self, inputs: Float32[np.ndarray, "batch channel height width"] | Unchecked
    ) -> Float32[np.ndarray, "batch ..."]:
        """Run the network on stacked channels: patterns, or ln amplitudes if that is what it predicts."""
        stacked = np.asarray(inputs)
        if stacked.ndim != 4 or stacked.dtype.kind not in "biuf":
            raise ValueError(
                f"inputs must be numbers [batch, {len(self.channels)}, height, width], got {stacked.dtype} "
                f"{stacked.shape}. Stack the channels {', '.join(self.channels)}."
            )
        prediction = self.checkpoint.model(torch.from_numpy(stacked.astype(np.float32)))
        return prediction.numpy()


def load(path: str | Path, problem: str | Problem | Unchecked = None) -> Model:
    """Load a trained model from the folder of its run; a problem asked for must be the one it was trained on."""
    return Model(load_checkpoint(path, problem))
