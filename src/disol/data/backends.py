"""Where cases are solved: in the processes that draw them, or many at a time on a GPU.

A back end works in two steps: `prepare` runs in the worker processes, on a few cases, and `finish` in the main process,
on a chunk of them, joined. It returns channels, pattern and amplitude, and how many cases the reference solver had to
solve instead. Unless told otherwise, a chunk has at most `largest_chunk` cases and `chunk_bytes` bytes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from disol._arrays import to_device, to_numpy
from disol.cases import Case
from disol.data.layout import Arrays
from disol.data.packing import get_encodings
from disol.data.recipe import Recipe
from disol.errors import DisolError
from disol.fem import System
from disol.solutions import Solution, solve_exact
from disol.solutions.solve import find_gpu, to_fields


def solve_cases(recipe: Recipe, cases: range) -> Arrays:
    """Draw cases and solve them by the reference solver."""

    def solve(index: int) -> Arrays:
        return stored_case(solve_exact(recipe.draw_to_store(index), device="cpu"))

    return _stack_cases(solve, cases)


def discretise_cases(recipe: Recipe, cases: range) -> Arrays:
    """Draw cases and discretise them: their channels, and the arrays of their systems, as `System` has them.

    free, load       the unknowns and b, by node
    element_matrix   of every pixel, the same for every case
    mass_matrix, initial_nodes   of a transient problem only
    """

    def discretise(index: int) -> Arrays:
        case = recipe.draw_to_store(index)
        system = case.system()
        arrays = {"free": system.free, "load": system.load, "element_matrix": system.element_matrix}
        if system.mass_matrix is not None and system.initial is not None:
            arrays |= {"mass_matrix": system.mass_matrix, "initial_nodes": system.initial}
        return {**_stored_channels(case), **arrays}

    return _stack_cases(discretise, cases)


def stored_case(solution: Solution) -> Arrays:
    """Return what a file stores of a solved case."""
    return {
        **_stored_channels(solution.case),
        "pattern": solution.pattern.astype(np.float32),
        "amplitude": np.asarray(solution.amplitude, dtype=np.float64),
    }


def _stored_channels(case: Case) -> Arrays:
    """Return the channels of a case that are stored, in compact types."""
    encodings = get_encodings(case.problem)
    return {name: encoding.compact(name, case.channel(name)) for name, encoding in encodings.items()}


def _stack_cases(work: Callable[[int], Arrays], cases: range) -> Arrays:
    """Do the work for each case and stack the results; an error names the case that failed."""
    done = []
    for index in cases:
        try:
            done.append(work(index))
        except DisolError as error:
            raise DisolError(f"Case {index} failed: {error}") from error
    return stack_rows(done)


def stack_rows(rows: list[Arrays]) -> Arrays:
    """Stack the arrays of cases, name by name."""
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}


class CpuBackend:
    """The reference solver, in the worker processes, which draw and solve."""

    largest_chunk = 64
    chunk_bytes = 2**26
    prepare = staticmethod(solve_cases)

    def finish(self, recipe: Recipe, prepared: Arrays) -> tuple[Arrays, int]:
        """Leave the cases as they are."""
        del recipe
        return prepared, 0


@dataclass(frozen=True)
class DeviceBackend:
    """The batched solver, on a torch device in the main process; the worker processes draw and discretise."""

    device: Any
    largest_chunk: int = 2048
    chunk_bytes: int = 2**30
    prepare = staticmethod(discretise_cases)

    def finish(self, recipe: Recipe, prepared: Arrays) -> tuple[Arrays, int]:
        """Solve the chunk and normalise the solutions."""
        # torch takes seconds to import; worker processes, which import this module, do without.
        from disol.solvers import solve_systems  # noqa: PLC0415

        problem, conventions = recipe.problem, recipe.conventions
        frames, domain = problem.frames(problem.times), to_device(prepared["domain"], self.device)
        has_mass = "mass_matrix" in prepared
        systems = System(
            domain,
            prepared["element_matrix"][0],
            prepared["free"],
            prepared["load"],
            prepared["mass_matrix"][0] if has_mass else None,
            prepared["initial_nodes"] if has_mass else None,
        )
        solved = solve_systems(systems, frames.steps, self.device)
        fields, amplitude = to_fields(problem, conventions, solved.frames, frames, domain)
        pattern = problem.normalisation(conventions).to_pattern(fields, amplitude, domain).float()
        channels = {name: prepared[name] for name in get_encodings(problem)}
        return {**channels, "pattern": to_numpy(pattern), "amplitude": to_numpy(amplitude)}, len(solved.fallbacks)


Backend = CpuBackend | DeviceBackend


def choose_backend(device: str) -> Backend:
    """Return the back end for a device: "cpu", "cuda", "cuda:1", or "auto" (a GPU if there is one)."""
    gpu = find_gpu(device)
    return CpuBackend() if gpu is None else DeviceBackend(gpu)
