"""A trained network in use: it predicts cases, and its predictions are verified against exact solutions."""

import warnings
from dataclasses import dataclass
from typing import Unpack

import numpy as np
import torch
from jaxtyping import Float32
from torch import nn

from disol import _checks as checks
from disol._arrays import to_device
from disol._terms import ChannelLayout
from disol.cases import Case
from disol.cases.given import CaseData
from disol.errors import DisolError
from disol.models import Checkpoint
from disol.problems import Problem
from disol.problems.conventions import Conventions
from disol.problems.normalisation import Normalisation
from disol.solutions import Solution
from disol.solutions.solve import as_case
from disol.surrogate.engines import Engine
from disol.surrogate.prediction import predict
from disol.surrogate.verification import Verification, verify


@dataclass(frozen=True, eq=False, repr=False)
class Surrogate:
    """A trained network with the record of what it was trained on, and the engine that runs it."""

    checkpoint: Checkpoint
    engine: Engine

    @property
    def network(self) -> nn.Module:
        """The network itself."""
        return self.checkpoint.network

    @property
    def problem(self) -> Problem:
        """The problem it was trained on, with the numbers of its equation."""
        return self.checkpoint.problem

    @property
    def conventions(self) -> Conventions:
        """How the cases it was trained on are discretised."""
        return self.checkpoint.conventions

    @property
    def channels(self) -> ChannelLayout:
        """Names of its input channels."""
        return self.problem.channels

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the fields it predicts."""
        return self.problem.fields

    @property
    def resolution(self) -> int:
        """Pixels along a side of the grids it was trained on; of several resolutions the first."""
        return self.checkpoint.resolution

    @property
    def resolutions(self) -> tuple[int, ...]:
        """All resolutions it was trained on."""
        return self.checkpoint.resolutions

    @property
    def normalisation(self) -> Normalisation:
        """How its patterns are scaled."""
        return self.checkpoint.normalisation

    def __repr__(self) -> str:
        name = "network" if self.checkpoint.path is None else self.checkpoint.path.name
        return (
            f"Surrogate({name}: {self.problem}, {', '.join(self.channels)} -> {', '.join(self.fields)}, "
            f"trained on {self.checkpoint.card.grids}, {self.conventions} conventions; "
            f"{self.engine.name} on {self.engine.device})"
        )

    def predict_pattern(
        self, inputs: Float32[np.ndarray, "batch channel height width"]
    ) -> Float32[np.ndarray, "batch ..."]:
        """Run the network on stacked channels: patterns, or ln amplitudes if that is what it predicts."""
        stacked = checks.as_array("inputs", inputs)
        is_stacked = stacked.ndim == 4 and stacked.shape[1] == len(self.channels) and 0 not in stacked.shape[2:]
        if not is_stacked or stacked.dtype.kind not in "biuf":
            raise DisolError(
                f"inputs must be numbers [batch, {len(self.channels)}, height, width], got {stacked.dtype} "
                f"{stacked.shape}. Stack the channels {', '.join(self.channels)}."
            )
        rounded = checks.as_float32("inputs", stacked) if stacked.dtype != np.float32 else stacked
        # By torch, on all cores: NumPy would take longer than the network.
        largest = torch.linalg.vector_norm(to_device(rounded, "cpu"), torch.inf, dim=(2, 3))
        if not largest.isfinite().all():
            checks.as_float32("inputs", stacked)
        smallest = np.finfo(np.float32).tiny
        for case, channel in np.argwhere((largest < smallest).numpy()):
            if stacked[case, channel].any():
                raise DisolError(
                    f"The channel {self.channels[channel]} of case {case} must have values of at least {smallest:.1e}, "
                    "for networks compute in float32. Use other units."
                )
        predicted = self.engine(rounded)
        if not np.isfinite(predicted).all():
            raise DisolError(
                "The network overflows float32 on these inputs. Scale sources to [0, 1] and forces to ±1, as `predict` "
                "does by itself."
            )
        return predicted

    def predict(
        self,
        case: Case | list[Case] | None = None,
        *,
        conventions: str | Conventions | None = None,
        **data: Unpack[CaseData],
    ) -> Solution:
        """Predict a case, or data given by name as for `solve_exact`, in physical units.

        It takes one case or a batch; data are on pixels, by the conventions of training, unless `conventions` are
        given. The equation must be the one that the network was trained with, or a multiple of it, as with another κ or
        Young's modulus. Since the problems are linear, sources and forces of any size are scaled to that of the
        training cases, and a source that changes sign is predicted in two components (`disol.surrogate.components`);
        without a load the solution is zero. Patterns are sized by the discrete system, without solving it
        (`disol.surrogate.prediction`); `verify` also gives the error. Networks know pixels: a case on its true boundary
        is predicted on the pixels that show it, as the case of the returned solution says; `solve_exact` is the
        accurate answer.
        """
        return predict(self.engine, self._read(case, conventions, data), self.normalisation)

    def verify(
        self,
        case: Case | list[Case] | None = None,
        *,
        conventions: str | Conventions | None = None,
        **data: Unpack[CaseData],
    ) -> Verification:
        """Predict what `predict` takes, and solve the same system on pixels exactly: return both, and the error."""
        return verify(self.engine, self._read(case, conventions, data), self.normalisation)

    def _read(self, case: Case | list[Case] | None, conventions: str | Conventions | None, data: CaseData) -> Case:
        """Read what is asked for, and warn where no training case was like it."""
        if self.checkpoint.predicts != "pattern":
            raise DisolError(
                f"Only a network of patterns can predict cases, but this one predicts the {self.checkpoint.predicts}."
            )
        if case is not None and not isinstance(case, Case | list | tuple):
            names = ", ".join(f"{term.name}=..." for term in self.problem.terms)
            raise DisolError(
                f"Expected a case, a list of cases or data by name, got {type(case).__name__}. Pass {names}."
            )
        gpu = self.engine.device if self.engine.device.type == "cuda" else None
        posed, usual = (self.problem, self.conventions) if case is None else (case, None)
        asked = as_case(posed, conventions or usual, {**data}, gpu)
        if asked.conventions.true_boundary:
            asked = asked.on_pixels(self.conventions)
        # A multiple of the operator changes only sizes, which come from the system of the case, not patterns.
        equation = self.problem if asked.problem.is_multiple_of(self.problem) else asked.problem
        self.checkpoint.require_match(equation, asked.conventions)
        self._warn(asked)
        return asked

    def _warn(self, case: Case) -> None:
        """Warn where no training case was like this one."""
        height, width = case.grid.pixels
        if height != width or height not in self.resolutions:
            warnings.warn(
                f"The network was trained on {self.checkpoint.card.grids} grids, got {height} x {width}: "
                "expect larger errors.",
                UserWarning,
                stacklevel=4,
            )
        trained_until = self.checkpoint.trained_until
        if case.times is not None and max(case.times) > trained_until:
            warnings.warn(
                f"The network was trained up to {trained_until:g} s: expect larger errors after that.",
                UserWarning,
                stacklevel=4,
            )
