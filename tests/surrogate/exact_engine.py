"""A stand-in for a trained network: it solves exactly what its channels show, and errs as it is told to."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

import disol
from disol.models import Checkpoint, create_model, load_checkpoint, save_checkpoint
from disol.problems.problem import TRAINED_UNTIL
from disol.surrogate.engines import Engine


@dataclass(frozen=True, eq=False)
class ExactEngine(Engine):
    """Sources and forces reach it by channel, so it is exact for those that are constant on each pixel."""

    name: ClassVar[str] = "exact"

    checkpoint: Checkpoint = None
    error: Callable[[np.ndarray], np.ndarray] | None = None

    def prepare(self):
        pass

    def run(self, cases, at_once):
        del at_once
        return torch.from_numpy(np.stack([self.pattern(channels) for channels in cases.numpy()]).astype(np.float32))

    def pattern(self, channels):
        terms = dict(zip(self.checkpoint.channels, channels.astype(float), strict=True))
        if "time" in terms:
            terms["times"] = [round(TRAINED_UNTIL * terms.pop("time")[0, 0], 3)]
        exact = disol.solve_exact(self.checkpoint.problem, conventions=self.checkpoint.conventions, **terms)
        pattern = exact.pattern if exact.times is None else exact.pattern[0]
        return pattern if self.error is None else np.where(exact.domain, self.error(pattern), 0.0)


def exact_model(folder, problem, conventions="paper", resolution=32, error=None):
    """A surrogate of a problem whose network is replaced by the exact solver."""
    network = create_model("disol", problem, width=4, depth=2, gated_skips=1)
    checkpoint = load_checkpoint(
        save_checkpoint(folder, network, problem, conventions=conventions, resolution=resolution)
    )
    engine = ExactEngine(
        checkpoint.network, checkpoint.problem, torch.device("cpu"), "float32", checkpoint=checkpoint, error=error
    )
    return disol.Surrogate(checkpoint, engine)


def own_terms(problem, index=0, resolution=32, sign=1.0):
    """Terms of a drawn case as a user would give them: every source one value per pixel, of any size and sign."""
    case = disol.draw(problem, 5, index, resolution=resolution, conventions="paper")
    x, y = np.meshgrid(np.arange(resolution) + 0.5, np.arange(resolution) + 0.5)
    terms = dict(case.terms)
    if "source" in terms:
        terms["source"] = sign * 40 * np.sin(x / 5) * np.cos(y / 7)
    if "initial" in terms:
        terms["initial"] = sign * 15 * np.cos(x / 6 - 1)
    for name in ("force_x", "force_y"):
        if name in terms:
            terms[name] = 12 * sign * terms[name]
    if "times" in terms:
        terms["times"] = [0, 2, 14, 26]
    return terms


def wavy(pattern):
    """Err smoothly by 5 %."""
    rows, columns = np.indices(pattern.shape[-2:])
    return pattern * (1 + 0.05 * np.sin(rows / 4) * np.cos(columns / 5))


def rough(pattern):
    """Err by 2 % from pixel to pixel."""
    rows, columns = np.indices(pattern.shape[-2:])
    return pattern * (1 + 0.02 * (-1.0) ** (rows + columns))


def relative(values, reference):
    return float(np.linalg.norm(values - reference) / np.linalg.norm(reference))
