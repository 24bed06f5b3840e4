"""A trained model, ready to predict and to solve."""

import warnings
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32

from disol.channels import ChannelLayout
from disol.inference.answer import answer
from disol.inference.engine import Engine
from disol.inference.request import read_request
from disol.inference.solution import Solution
from disol.models import Checkpoint
from disol.problems import Case
from disol.problems.checks import Unchecked, as_array, float32_array


@dataclass(frozen=True, eq=False)
class Model:
    """A trained network that knows what it was trained on, and what runs it."""

    checkpoint: Checkpoint
    engine: Engine

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

    def predict(
        self, inputs: Float32[np.ndarray, "batch channel height width"] | Unchecked
    ) -> Float32[np.ndarray, "batch ..."]:
        """Run the network on stacked channels: patterns, or ln amplitudes if that is what it predicts."""
        stacked = as_array("inputs", inputs)
        if stacked.ndim != 4 or stacked.dtype.kind not in "biuf":
            raise ValueError(
                f"inputs must be numbers [batch, {len(self.channels)}, height, width], got {stacked.dtype} "
                f"{stacked.shape}. Stack the channels {', '.join(self.channels)}."
            )
        return self.engine(float32_array("inputs", stacked))

    def solve(self, case: Case | Unchecked | None = None, **data: Unchecked) -> Solution:
        """Solve a drawn case, or a user's own data by name, as `solve_exact` takes them.

        Data of a batch are arrays [batch, height, width]; a source can be a list of functions too, and what has no
        batch axis is shared by all cases. The numbers of the equation are those the model was trained with.

        The problems are linear: a source or force of any size is scaled to that of the training cases, and one that
        changes sign is predicted in two parts, f = f⁺ − f⁻ (`disol.inference.parts`). Without a load the solution is
        zero. A heat case without a source or an elastic body without a force along one axis is solved too, but no
        training case was like that. The size of the solution and the error of the prediction come from the solution of
        the discrete system (`disol.inference.truth`).
        """
        if self.checkpoint.model.predicts != "pattern":
            raise ValueError(
                f"Solving needs a model of patterns, but {self.checkpoint.path} predicts the "
                f"{self.checkpoint.model.predicts}. Load another model."
            )
        request = read_request(self.checkpoint.problem, self.conventions, case, data)
        grid = request.posed.grid
        if grid.pixels != (self.resolution, self.resolution):
            warnings.warn(
                f"This model was trained on {self.resolution} x {self.resolution} grids, got {grid.height} x "
                f"{grid.width}. Expect larger errors, or use the trained resolution.",
                UserWarning,
                stacklevel=2,
            )
        found = answer(request, self.engine, self.engine.device, separate_fields=self.normalisation == "component")
        names = self.problem, self.conventions, self.channels, self.fields
        times = request.posed.terms.get("times")
        solutions = Solution(*names, request.inputs, request.domain, **vars(found), times=times)
        return solutions if request.is_batch else solutions[0]
