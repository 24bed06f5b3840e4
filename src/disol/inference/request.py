"""What a model is asked to solve: a drawn case, or a user's own data of one case or a batch."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float32

from disol.fem import ELEMENTS
from disol.inference.parts import Part, split_load
from disol.problems import Case, Posed, Problem, pose
from disol.problems.checks import Unchecked

SHARED_TERMS = ("times",)  # lists that belong to every case of a batch


@dataclass(frozen=True, eq=False)
class Request:
    """The checked cases to solve.

    parts      of the load of each case, as networks know them
    inputs     the channels of each case as it was given
    is_batch   an answer needs a batch axis
    """

    cases: list[Posed]
    parts: list[list[Part]]
    inputs: list[Float32[np.ndarray, "channel height width"]]
    is_batch: bool

    def __getitem__(self, which: slice) -> "Request":
        """Return some of the cases."""
        return replace(self, cases=self.cases[which], parts=self.parts[which], inputs=self.inputs[which])


def read_request(trained: Problem, conventions: str, case: Case | Unchecked | None, data: dict[str, Any]) -> Request:
    """Read a drawn case, or data by name, for a model of a problem; the checks are those of `solve_exact`."""
    if case is not None and not isinstance(case, Case):
        raise ValueError(
            f"A model solves a case drawn by disol.draw or data by name, got {type(case).__name__}. "
            f"Pass {', '.join(f'{name}=...' for name in trained.terms)}."
        )
    if case is not None:
        require_same(trained, conventions, case)
        posed = require_trained(trained, pose(case, **data))
        # Drawing has scaled the load already, on the one sampling that all resolutions of a case share.
        parts = parts_of(posed) if data else [Part(1.0, posed.terms)]
        return Request([posed], [parts], [channels_of(posed)], is_batch=False)
    rows, is_batch = spread(trained, data)
    request = Request([], [], [], is_batch)
    for number, row in enumerate(rows):
        try:
            posed = require_trained(trained, pose(trained, conventions=conventions, **row))
            request.cases.append(posed)
            request.parts.append(parts_of(posed))
            request.inputs.append(channels_of(posed))
        except ValueError as error:
            raise ValueError(f"Case {number}: {error}" if is_batch else str(error)) from error
    return request


def channels_of(posed: Posed) -> Float32[np.ndarray, "channel height width"]:
    """Stack the channels of a case."""
    return posed.equation.encode(posed.terms, posed.rules)


def parts_of(posed: Posed) -> list[Part]:
    """Cut a load into parts; where there is none, discretise all the same, which says if every node is pinned."""
    parts = split_load(posed)
    if not parts:
        posed.equation.system(posed.terms, posed.rules, ELEMENTS["q1"](posed.grid.h))
    return parts


def require_same(trained: Problem, conventions: str, case: Case) -> None:
    """Require a case of the problem and the conventions a model was trained on."""
    if case.problem != trained.name:
        raise ValueError(
            f"The model was trained on {trained.name!r}, but the case is of {case.problem!r}. "
            f"Load a model of {case.problem!r}."
        )
    if case.conventions != conventions:
        raise ValueError(
            f"The model was trained with conventions {conventions!r}, but the case was drawn with "
            f"{case.conventions!r}. Draw it with conventions={conventions!r}."
        )


def require_trained(trained: Problem, posed: Posed) -> Posed:
    """Require the numbers of the equation that a model was trained with."""
    for name in trained.parameters:
        own, asked = getattr(trained, name), getattr(posed.equation, name)
        if own != asked:
            raise ValueError(
                f"The model was trained with {name} {own}, got {asked}. Leave {name} out, or train a model with it."
            )
    return posed


def spread(trained: Problem, data: dict[str, Any]) -> tuple[list[dict[str, Any]], bool]:
    """Give each case of a batch its own data: of arrays [batch, height, width] and lists of sources one entry each."""
    several = {name: value for name, value in data.items() if name in trained.terms and holds_cases(name, value)}
    if not several:
        return [data], False
    counts = {name: len(value) for name, value in several.items()}
    if len(set(counts.values())) > 1 or 0 in counts.values():
        listed = ", ".join(f"{count} of {name}" for name, count in counts.items())
        raise ValueError(
            f"The terms of a batch must have equally many cases, at least one, got {listed}. "
            "Pass arrays [batch, height, width], or leave out the batch axis of what all cases share."
        )
    num_cases = next(iter(counts.values()))
    return [data | {name: value[number] for name, value in several.items()} for number in range(num_cases)], True


def holds_cases(name: str, value: Unchecked) -> bool:
    """Tell whether a term has one entry per case: an array of three axes, or a list with functions in it."""
    if name in SHARED_TERMS or callable(value):
        return False
    if isinstance(value, list | tuple) and any(callable(entry) for entry in value):
        return True
    try:
        return np.ndim(value) == 3
    except (ValueError, TypeError, RuntimeError):  # no array, which the checks of a single case describe
        return False
