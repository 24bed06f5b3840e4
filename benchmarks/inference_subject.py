"""The subject of a measurement: the shipped model of a problem, or an untrained network, and cases for it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import disol
from disol.models import Checkpoint, create_model, list_pretrained, load_checkpoint, resolve
from disol.models.card import WEIGHTS
from disol.models.known_errors import headline, headline_times
from disol.models.pretrained import PRETRAINED
from disol.problems.problem import TRAINED_UNTIL
from workers import Row

CONVENTIONS = "paper"
RANDOM = "random weights"
NUM_DRAWN = 16


@dataclass(frozen=True, eq=False)
class Subject:
    """A model, and cases for it.

    name   of the shipped model, or "random weights"
    """

    name: str
    checkpoint: Checkpoint
    cases: list[disol.Case]

    @property
    def problem(self) -> str:
        """Name of its problem."""
        return self.checkpoint.problem.name

    @property
    def times(self) -> dict[str, list[float]]:
        """The frame to predict of a transient problem."""
        return {"times": [TRAINED_UNTIL]} if self.checkpoint.problem.times else {}

    def inputs(self, batch: int) -> np.ndarray:
        """Stack cases, repeating them as needed; their values do not change how long they take."""
        return np.stack([self.cases[index % len(self.cases)].inputs for index in range(batch)])

    def data(self, batch: int) -> dict[str, Any]:
        """Return the same cases as a user gives them: arrays by name."""
        stacked, problem = self.inputs(batch), self.checkpoint.problem
        given = [term.name for term in problem.terms if term.kind.storage is not None]
        return {name: problem.channels.select(stacked, name) for name in given} | self.times


def subject_of(problem: str) -> Subject:
    """Return the model and the cases that are timed for a problem."""
    name, checkpoint = model_of(problem)
    rules, side = checkpoint.conventions, checkpoint.resolution
    cases = [disol.draw(problem, 5, index, conventions=rules, resolution=side) for index in range(NUM_DRAWN)]
    return Subject(name, checkpoint, cases)


def model_of(problem: str) -> tuple[str, Checkpoint]:
    """Return the shipped model of a problem for patterns by the paper's conventions, or else an untrained one."""
    for name in list_pretrained():
        trained = load_checkpoint(PRETRAINED / name)
        if (trained.problem.name, str(trained.conventions), trained.predicts) == (problem, CONVENTIONS, "pattern"):
            return name, trained
    return RANDOM, untrained(problem)


def untrained(problem: str) -> Checkpoint:
    """Return a network of the published size with random weights, which is as fast as a trained one."""
    torch.manual_seed(0)
    return resolve(create_model("disol", problem).eval(), conventions=CONVENTIONS)


def describe(subject: Subject) -> dict[str, Any]:
    """Describe the model of a measurement with its errors: a speed without an error means nothing."""
    return {
        "problem": subject.problem,
        "model": subject.name,
        "weights": weights_of(subject.checkpoint),
        "rel_l2": errors_of(subject.checkpoint),
    }


def with_errors_of_today(problem: str, rows: dict[str, Row]) -> dict[str, Row]:
    """Replace errors by those of the model as shipped today; its network is as fast as with the weights timed."""
    name, checkpoint = model_of(problem)
    known, weights = {"rel_l2": errors_of(checkpoint), "error_times": error_times(checkpoint)}, weights_of(checkpoint)

    def refreshed(row: Row) -> Row:
        return row | known | {"earlier_weights": row["weights"] != weights} if row["model"] == name else row

    return {way: row if "error" in row else refreshed(row) for way, row in rows.items()}


def errors_of(checkpoint: Checkpoint) -> dict[str, float | None]:
    """Return the mean error of a model in each of its tests."""
    return {kind: headline(test) for kind, test in checkpoint.metrics.get("tests", {}).items()}


def error_times(checkpoint: Checkpoint) -> list[float]:
    """Return the times over which errors of a transient problem are averaged."""
    return sorted({time for test in checkpoint.metrics.get("tests", {}).values() for time in headline_times(test)})


def weights_of(checkpoint: Checkpoint) -> str:
    """Return what identifies the weights of a model."""
    return checkpoint.card.files.get(WEIGHTS, RANDOM)
