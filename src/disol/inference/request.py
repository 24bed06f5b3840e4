"""What a model is asked to solve: a drawn case, or a user's own data of one case or a batch."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float32

from disol.inference.block import Block, Channels, read_blocks
from disol.inference.parts import split_loads, whole_load
from disol.problems import Case, Posed, Problem, pose
from disol.problems.checks import CaseStack, Unchecked, as_array

SHARED_TERMS = ("times",)  # lists that belong to every case of a batch


@dataclass(frozen=True, eq=False)
class Request:
    """The checked cases to solve, in blocks.

    inputs     the channels of each case as it was given
    is_batch   an answer needs a batch axis
    """

    blocks: list[Block]
    inputs: Channels
    is_batch: bool

    @property
    def posed(self) -> Posed:
        """The first cases, whose problem, grid and times all others share."""
        return self.blocks[0].posed

    @property
    def domain(self) -> Bool[np.ndarray, "case height width"]:
        """Where the equation of each case holds."""
        return np.concatenate([block.domain for block in self.blocks])


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
        block = Block(posed, split_loads(posed) if data else whole_load())
        return Request([block], channels_of(posed)[None], is_batch=False)
    several = terms_of_batch(trained, data)
    if not several:
        block, channels = read_case(trained, conventions, data)
        return Request([block], channels[None], is_batch=False)
    num_cases = count_cases(several)
    if trained.takes_batches and not any(map(holds_functions, data.values())):
        try:
            return Request(*read_arrays(trained, conventions, data, num_cases), is_batch=True)
        except ValueError:
            pass  # the case that is wrong says better what is wrong
    cases = []
    for number in range(num_cases):
        own = {name: value[number] for name, value in several.items()}
        try:
            cases.append(read_case(trained, conventions, data | own))
        except ValueError as error:
            raise ValueError(f"Case {number}: {error}") from error
    return Request([block for block, _ in cases], np.stack([channels for _, channels in cases]), is_batch=True)


def read_case(
    trained: Problem, conventions: str, data: dict[str, Any]
) -> tuple[Block, Float32[np.ndarray, "channel height width"]]:
    """Read a single case, and its channels."""
    posed = require_trained(trained, pose(trained, conventions=conventions, **data))
    return Block(posed, split_loads(posed)), channels_of(posed)


def channels_of(posed: Posed) -> Float32[np.ndarray, "channel height width"]:
    """Stack the channels of a single case."""
    return posed.equation.encode(posed.terms, posed.rules)


def read_arrays(
    trained: Problem, conventions: str, data: dict[str, Any], num_cases: int
) -> tuple[list[Block], Channels]:
    """Read a batch of arrays at once, and its channels; what is shared is repeated."""
    stacks = {
        name: stack_cases(name, value, num_cases)
        for name, value in data.items()
        if name in trained.terms and name not in SHARED_TERMS
    }
    return read_blocks(require_trained(trained, pose(trained, conventions=conventions, **data | stacks)))


def stack_cases(name: str, value: Unchecked, num_cases: int) -> CaseStack:
    """Return a term of a batch as one array."""
    array = as_array(name, value)
    shape = array.shape if array.ndim == 3 else (num_cases, *array.shape)
    return np.broadcast_to(array, shape).view(CaseStack)


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


def terms_of_batch(trained: Problem, data: dict[str, Any]) -> dict[str, Any]:
    """Return the terms that have one entry per case: arrays [batch, height, width], lists of sources."""
    return {name: value for name, value in data.items() if name in trained.terms and holds_cases(name, value)}


def count_cases(several: dict[str, Any]) -> int:
    """Count the cases of a batch, which all its terms must have."""
    counts = {name: len(value) for name, value in several.items()}
    if len(set(counts.values())) > 1 or 0 in counts.values():
        listed = ", ".join(f"{count} of {name}" for name, count in counts.items())
        raise ValueError(
            f"The terms of a batch must have equally many cases, at least one, got {listed}. "
            "Pass arrays [batch, height, width], or leave out the batch axis of what all cases share."
        )
    return next(iter(counts.values()))


def holds_cases(name: str, value: Unchecked) -> bool:
    """Tell whether a term has one entry per case: an array of three axes, or a list with functions in it."""
    if name in SHARED_TERMS or callable(value):
        return False
    if holds_functions(value):
        return True
    try:
        return np.ndim(value) == 3
    except (ValueError, TypeError, RuntimeError):  # no array, which the checks of a single case describe
        return False


def holds_functions(value: Unchecked) -> bool:
    """Tell whether a term is a function, or a list with functions in it."""
    return callable(value) or (isinstance(value, list | tuple) and any(callable(entry) for entry in value))
