"""What an evaluation found: numbers for each case, their summaries, and a few cases to look at."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from jaxtyping import Bool, Float, Float32, Int, Int64

from disol.data.recipe import StoreSettings
from disol.errors import DisolError
from disol.problems import Problem
from disol.problems.problem import TRAINED_UNTIL

if TYPE_CHECKING:
    from rich.table import Table

# Columns of an evaluation that say what a case is, not how wrong its prediction is.
NOT_ERRORS = ("log_amplitude", "predicted_log_amplitude")


@dataclass(frozen=True, repr=False)
class Summary:
    """Statistics of a number over cases."""

    count: int
    mean: float
    median: float
    p95: float

    def __str__(self) -> str:
        return f"mean {self.mean:.3g}, median {self.median:.3g}, p95 {self.p95:.3g}"

    def __repr__(self) -> str:
        return f"Summary({self} of {self.count})"


def summarise(values: Float[np.ndarray, " case"] | Sequence[float]) -> Summary:
    """Return mean, median and 95th percentile (interpolated linearly) over cases."""
    numbers = np.asarray(values, dtype=float)
    if numbers.size == 0:
        raise DisolError("A summary needs one case or more, got none. Choose a split that has cases.")
    with np.errstate(invalid="ignore"):  # infinite errors have no percentiles between them
        median, p95 = np.percentile(numbers, [50, 95])
    return Summary(numbers.size, float(numbers.mean()), float(median), float(p95))


def correlate(first: Float[np.ndarray, " case"], second: Float[np.ndarray, " case"]) -> float:
    """Return Pearson's correlation; 0 where one side does not vary."""
    with np.errstate(invalid="ignore"):  # infinite predictions correlate with nothing
        first, second = first - first.mean(), second - second.mean()
        size = float(np.linalg.norm(first) * np.linalg.norm(second))
    return float(first @ second) / size if size != 0 else 0.0


@dataclass(frozen=True, eq=False, repr=False)
class Example:
    """A case with its prediction, for pictures.

    rank         "best", "median" or "worst" of its file
    inputs       its channels; of a transient problem at the first time evaluated
    reference    the pattern as stored, at each time evaluated (once for a steady problem)
    amplitude    one number, or one for each component if these are scaled separately
    errors       everything that was measured, at each time
    """

    rank: str
    index: int
    shift: str
    problem: Problem
    inputs: Float32[np.ndarray, "channel height width"]
    reference: Float32[np.ndarray, "frame field height width"]
    prediction: Float32[np.ndarray, "frame field height width"]
    amplitude: Float[np.ndarray, " scale"]
    errors: dict[str, Float[np.ndarray, " frame"]]

    def channel(self, name: str) -> Float32[np.ndarray, "height width"]:
        """Return the input channel called `name`."""
        return self.problem.channels.select(self.inputs, name)

    @property
    def domain(self) -> Bool[np.ndarray, "height width"]:
        """Where the equation holds."""
        return self.channel("domain") > 0

    def __str__(self) -> str:
        shift = f", {self.shift}" if self.shift else ""
        mean = "mean " if len(self.reference) > 1 else ""
        return f"{self.rank}: case {self.index}{shift}, {mean}rel_l2 {self.errors['rel_l2'].mean():.2%}"

    def __repr__(self) -> str:
        return f"Example({self})"


@dataclass(frozen=True, eq=False, repr=False)
class FileEvaluation:
    """The results of a model on one file.

    name       short, and unique in an evaluation
    problem    with the numbers of the file's equation
    times      seconds of the frames evaluated; None for the one frame of a steady problem
    values     of each metric, by its name
    """

    name: str
    path: Path
    settings: StoreSettings
    problem: Problem
    index: Int64[np.ndarray, " case"]
    shift: tuple[str, ...]
    outline: Int[np.ndarray, " case"]
    coverage: Float[np.ndarray, " case"]
    times: tuple[float | None, ...]
    values: dict[str, Float[np.ndarray, "frame case"]]
    examples: tuple[Example, ...]

    def __len__(self) -> int:
        return len(self.index)

    @cached_property
    def summaries(self) -> tuple[dict[str, Summary], ...]:
        """Summaries of every error, at each time."""
        errors = {name: values for name, values in self.values.items() if name not in NOT_ERRORS}
        return tuple(
            {name: summarise(values[frame]) for name, values in errors.items()} for frame in range(len(self.times))
        )

    @property
    def correlations(self) -> tuple[float, ...]:
        """Correlations of predicted and true ln u_lim, at each time; empty unless amplitudes were predicted."""
        if "log_amplitude" not in self.values:
            return ()
        predicted, true = self.values["predicted_log_amplitude"], self.values["log_amplitude"]
        return tuple(correlate(*frame) for frame in zip(predicted, true, strict=True))

    def __repr__(self) -> str:
        name = "rel_l2" if "rel_l2" in self.values else "rel_amplitude_error"
        over_time = "" if len(self.times) == 1 else f" over {len(self.times)} times"
        summary = summarise(self.values[name].mean(axis=0))
        return f"FileEvaluation({self.name}: {len(self)} of {self.settings}; {name}{over_time} {summary})"


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """The results of a model on several files.

    model    what is known about the model
    splits   which cases of each file were evaluated: "train", "validation" or "all"
    notes    what a reader of the numbers should know

    trained_until   seconds of the last frame the model was trained on, of a transient problem
    """

    model: dict[str, Any]
    predicts: Literal["pattern", "log-amplitude"]
    splits: tuple[str, ...]
    device: str
    files: tuple[FileEvaluation, ...]
    notes: tuple[str, ...]
    trained_until: float = TRAINED_UNTIL

    @property
    def headline(self) -> str:
        """Name of the main error."""
        return "rel_l2" if self.predicts == "pattern" else "rel_amplitude_error"

    def table(self) -> "Table":
        """Return mean, median and 95th percentile of the errors as a table that rich prints."""
        return import_module("disol.evaluation.report").evaluation_table(self)

    def __repr__(self) -> str:
        table = import_module("disol.evaluation.report").as_text(self.table())
        return "\n".join([f"Evaluation of {self.model['model']} on {self.device}", table, *self.notes])
