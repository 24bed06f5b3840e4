"""Where cases are solved: in the processes that draw them, or many at a time on a device."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float32, Float64

from disol.channels import ChannelLayout
from disol.data.layout import Arrays
from disol.data.packing import DERIVED, encoding_of
from disol.data.recipe import Recipe
from disol.fem import ELEMENTS
from disol.grid import Grid
from disol.problems import Exact, solve_exact
from disol.problems.heat import HeatProblem
from disol.problems.problem import Terms
from disol.problems.table import find_conventions

Prepare = Callable[[Recipe, range], Arrays]


@runtime_checkable
class Backend(Protocol):
    """A way to solve cases, in two steps.

    `prepare` runs in worker processes, for a few cases at a time, and returns arrays whose first axis is the case.
    It is a plain function, so that it can be sent to them.
    `finish` runs in the main process, for one chunk of cases, joined; it returns channels, pattern and amplitude,
    and how many cases had to be solved by the reference solver instead.
    """

    @property
    def largest_chunk(self) -> int:
        """Number of cases `finish` likes best."""
        ...

    @property
    def chunk_bytes(self) -> int:
        """Most bytes of results to hold at once."""
        ...

    @property
    def prepare(self) -> Prepare:
        """The step for the workers."""
        ...

    def finish(self, recipe: Recipe, cases: range, prepared: Arrays) -> tuple[Arrays, int]:
        """Take the step for the main process."""
        ...


class CpuBackend:
    """The reference solver, in the worker processes."""

    largest_chunk = 64
    chunk_bytes = 2**26

    @property
    def prepare(self) -> Prepare:
        """Draw and solve."""
        return solve_cases

    def finish(self, recipe: Recipe, cases: range, prepared: Arrays) -> tuple[Arrays, int]:
        """Leave the cases as they are."""
        del recipe, cases
        return prepared, 0


@dataclass(frozen=True)
class Solved:
    """Solutions of a batch of cases, and how many of them the reference solver had to solve."""

    pattern: Float32[np.ndarray, "case *frame field height width"]
    amplitude: Float64[np.ndarray, "case *field"]
    fallbacks: int


# Solves the systems that `discretise_cases` returns, all at once, normalised as the recipe's conventions say and, if
# the recipe has times, at these.
BatchSolver = Callable[[Recipe, Arrays], Solved]


@dataclass(frozen=True)
class DeviceBackend:
    """A batched solver in the main process; the worker processes draw and discretise."""

    solve: BatchSolver
    largest_chunk: int = 2048
    chunk_bytes: int = 2**30

    @property
    def prepare(self) -> Prepare:
        """Draw and discretise."""
        return discretise_cases

    def finish(self, recipe: Recipe, cases: range, prepared: Arrays) -> tuple[Arrays, int]:
        """Solve the chunk."""
        del cases
        solved = self.solve(recipe, prepared)
        channels = {name: prepared[name] for name in recipe.equation.channels if name in prepared}
        return {**channels, "pattern": solved.pattern, "amplitude": solved.amplitude}, solved.fallbacks


def choose_backend(device: str) -> Backend:
    """Return the back end for a device: "cpu", "cuda", "cuda:1", or "auto" (a GPU if there is one)."""
    if device == "cpu":
        return CpuBackend()
    # torch takes seconds to import and only a GPU needs it; worker processes, which import this module, never do.
    from disol.data.device import solve_on  # noqa: PLC0415
    from disol.devices import find_device  # noqa: PLC0415

    found = find_device(device)
    return CpuBackend() if found.type == "cpu" else DeviceBackend(partial(solve_on, found))


def solve_cases(recipe: Recipe, cases: range) -> Arrays:
    """Draw cases and solve them by the reference solver."""
    times: Terms = {"times": recipe.times} if recipe.times else {}

    def solve(index: int) -> Arrays:
        case = recipe.draw(index)
        return solved_case(case.channels, case.inputs, solve_exact(case, **times))

    return stack_cases(solve, cases)


def discretise_cases(recipe: Recipe, cases: range) -> Arrays:
    """Draw cases and discretise them: their channels, and the systems A u = b that a batched solver needs.

    free      the unknowns, as bool [case, component, row, column]
    load      b at the nodes, float64 of the same shape; of heat, what each step adds
    initial_nodes   of heat, U₀ at the nodes
    The element matrix is the same for every case, so the solver takes it from the equation.
    """
    equation, rules = recipe.equation, find_conventions(recipe.conventions)
    element = ELEMENTS["q1"](Grid(recipe.resolution, recipe.resolution).h)

    def discretise(index: int) -> Arrays:
        case = recipe.draw(index)
        terms = case.terms  # drawn, so not to be checked as a user's would be
        system = equation.system(terms, rules, element)
        initial = {"initial_nodes": equation.initial_nodes(terms)} if isinstance(equation, HeatProblem) else {}
        return {**named_channels(case.channels, case.inputs), "free": system.free, "load": system.load, **initial}

    return stack_cases(discretise, cases)


def stack_cases(work: Callable[[int], Arrays], cases: range) -> Arrays:
    """Do something for each case and stack the results, naming the case that fails."""
    done = []
    for index in cases:
        try:
            done.append(work(index))
        except ValueError as error:
            raise ValueError(f"Case {index} failed: {error}") from error
    return stack_rows(done)


def stack_rows(rows: Sequence[Arrays]) -> Arrays:
    """Stack the arrays of cases, name by name."""
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}


def solved_case(channels: ChannelLayout, inputs: Float32[np.ndarray, "channel height width"], exact: Exact) -> Arrays:
    """Return what is stored of a case that is solved."""
    return {
        **named_channels(channels, inputs),
        "pattern": exact.pattern.astype(np.float32),
        "amplitude": np.asarray(exact.amplitude, dtype=np.float64),
    }


def named_channels(channels: ChannelLayout, inputs: Float32[np.ndarray, "channel height width"]) -> Arrays:
    """Return the channels of a case that are stored, in compact types."""
    types = {"bits": np.bool_, "signs": np.int8, "float32": np.float32}
    return {
        name: channels.select(inputs, name).astype(types[encoding_of(name).name])
        for name in channels
        if name not in DERIVED
    }
