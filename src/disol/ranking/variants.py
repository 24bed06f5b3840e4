"""Solve many variants and rank them: on all cores, each case as if it were alone, or on a GPU in batches."""

import pickle
import warnings
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from disol import _checks as checks
from disol._progress import shown_progress
from disol.cases.case import Case
from disol.data.workers import in_order, usable_cores
from disol.errors import DisolError
from disol.ranking.measures import Measure, describe_measure, find_measure, measure
from disol.ranking.results import Ranked, Ranking, Variant
from disol.solutions.solution import Solution
from disol.solutions.solve import find_gpu, solve_exact

FEW = 16  # cases for each process; fewer are solved before it has started
BATCH = 256  # cases that a GPU solves at once
REMEDY = "Pass workers=1, give arrays or formulas, or put the function into a module."


@dataclass(frozen=True)
class Outcome:
    """The outcome of one variant: its value and amplitude, or an error, and the warnings that solving it gave."""

    value: float | None = None
    amplitude: float | None = None
    error: str | None = None
    notes: tuple[str, ...] = ()


def rank(
    cases: Mapping[str, Variant] | Iterable[Variant],
    by: str | Measure = "max",
    *,
    ascending: bool = True,
    workers: int | None = None,
    device: str = "auto",
    progress: bool = True,
) -> Ranking:
    """Solve many cases exactly, and sort them by one number of each.

    cases       single cases, or a mapping from names to them; a function without arguments that makes a case can stand
                for it, so that one that cannot be read is a row of the ranking, too, and none is kept in memory
    by          "max" (largest |U|; with one unknown also "max_temperature"), "max_displacement" (of vectors),
                "von_mises" (largest), "compliance", "energy", "flux:PART" (total flux in through a part of the
                boundary, or the size of the force on it), or a function of a `Solution` that returns a number; for a
                transient problem, the largest over the times asked for
    ascending   the smallest value is the best
    workers     number of processes: one per core unless given, fewer for few cases; 1 solves in this process. More need
                cases and functions that can be pickled: formulas and functions in modules can, lambdas cannot
    device      "auto", "cpu", "cuda" or "cuda:NUMBER": a GPU takes cases on pixels, in batches; those on their true
                boundary are solved on the CPU
    progress    show a bar in a terminal or a notebook

    A case that fails is a row with its error. On the CPU values are those of `solve_exact`, to the last bit.
    """
    find_measure(by)
    ascending, progress = checks.flag("ascending", ascending), checks.flag("progress", progress)
    named = _read_variants(cases)
    variants = [variant for _, variant in named]
    if workers is None:
        workers = min(usable_cores(), len(variants) // FEW)
    workers = checks.whole_number("workers", workers)
    gpu = find_gpu(device)
    outcomes: dict[int, Outcome] = {}
    with shown_progress("rank", len(variants), wanted=progress) as bar:
        if gpu is not None:
            for number, outcome in solve_in_batches(variants, by, device):
                outcomes[number] = outcome
                bar.advance(1)
        rest = [number for number in range(len(variants)) if number not in outcomes]
        with closing(solve_one_by_one([variants[number] for number in rest], by, workers)) as solved:
            for number, outcome in zip(rest, solved, strict=True):
                outcomes[number] = outcome
                bar.advance(1)
    ranking = Ranking(describe_measure(by), ascending, _put_in_order(named, outcomes, ascending))
    noted = [row for row in ranking.rows if row.notes]
    if noted:
        warnings.warn(
            f"Notes on {len(noted)} of {len(ranking)} cases, the first on {noted[0].name}: {noted[0].notes[0]}",
            UserWarning,
            stacklevel=2,
        )
    return ranking


def solve_one_by_one(variants: Sequence[Variant], by: str | Measure, workers: int) -> Generator[Outcome, None, None]:
    """Solve each variant alone, in `workers` processes of one thread each or in this one; yield outcomes in order."""
    if workers <= 1 or len(variants) <= 1:
        for variant in variants:
            yield find_outcome(variant, by)
        return
    tasks = (_pack(variant, by) for variant in variants)
    with closing(in_order(unpack_and_solve, tasks, min(workers, len(variants)))) as solved:
        yield from solved


def find_outcome(variant: Variant, by: str | Measure) -> Outcome:
    """Solve one variant on the CPU and measure it; an error becomes its outcome."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        try:
            found = _measured(solve_exact(_make(variant), device="cpu"), by)
        except DisolError as error:
            found = Outcome(error=str(error))
    return replace(found, notes=tuple(dict.fromkeys(str(warning.message) for warning in caught)))


def solve_in_batches(variants: Sequence[Variant], by: str | Measure, device: str) -> Iterator[tuple[int, Outcome]]:
    """Solve variants on pixels in batches of one problem, grid and times each; yield the number and outcome of each."""
    groups: dict[Any, list[tuple[int, Case]]] = {}
    for number, variant in enumerate(variants):
        try:
            case = _make(variant)
        except DisolError as error:
            yield number, Outcome(error=str(error))
            continue
        if not case.conventions.true_boundary:
            groups.setdefault((case.problem, case.conventions, case.grid, case.times), []).append((number, case))
    for group in groups.values():
        for start in range(0, len(group), BATCH):
            batch = group[start : start + BATCH]
            try:
                solutions: Iterable[Solution] = solve_exact([case for _, case in batch], device=device)
            except DisolError:  # one of them is refused; alone, each says why
                yield from ((number, find_outcome(case, by)) for number, case in batch)
                continue
            for (number, _), solution in zip(batch, solutions, strict=True):
                try:
                    yield number, _measured(solution, by)
                except DisolError as error:
                    yield number, Outcome(error=str(error))


def unpack_and_solve(task: bytes) -> Outcome:
    """Solve a variant that came to a worker process."""
    try:
        variant, by = pickle.loads(task)
    except (AttributeError, ImportError) as error:
        raise DisolError(f"A worker process cannot find a function: {error}. {REMEDY}") from error
    return find_outcome(variant, by)


def _pack(variant: Variant, by: str | Measure) -> bytes:
    try:
        return pickle.dumps((variant, by))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise DisolError(f"A case, or by, cannot be sent to worker processes: {error}. {REMEDY}") from error


def _read_variants(cases: Mapping[str, Variant] | Iterable[Variant]) -> list[tuple[str, Variant]]:
    """Return single cases, or functions that make them, with their names."""
    is_one = (isinstance(cases, Case) and not cases.is_batch) or getattr(cases, "ndim", 1) == 0  # an array of one thing
    if isinstance(cases, Mapping):
        named = [(str(name), variant) for name, variant in cases.items()]
    elif isinstance(cases, Iterable) and not is_one:
        named = [(str(number), variant) for number, variant in enumerate(cases)]
    else:
        raise DisolError(f"cases must be several cases, got {cases if isinstance(cases, Case) else type(cases)}.")
    if not named:
        raise DisolError("A ranking needs at least one case, got none.")
    for name, variant in named:
        if not callable(variant):
            _require_one(variant, f"case {name}")
    return named


def _make(variant: Variant) -> Case:
    """Return a case, or what a user's function makes; whatever that raises is the error of this variant alone."""
    if isinstance(variant, Case):
        return variant
    try:
        made = variant()
    except DisolError:
        raise
    except Exception as error:
        raise DisolError(f"The function that makes it raised {type(error).__name__}: {error}.") from error
    return _require_one(made, "what its function made")


def _require_one(case: object, name: str) -> Case:
    if not isinstance(case, Case):
        raise DisolError(f"Cases, or functions that make them, are ranked, but {name} is a {type(case).__name__}.")
    if case.is_batch:
        raise DisolError(f"Single cases are ranked, but {name} is a batch of {len(case)}. Rank the batch by itself.")
    return case


def _measured(solution: Solution, by: str | Measure) -> Outcome:
    return Outcome(measure(solution, by), float(np.max(solution.amplitude)))


def _put_in_order(
    named: Sequence[tuple[str, Variant]], outcomes: Mapping[int, Outcome], ascending: bool
) -> tuple[Ranked, ...]:
    """Sort variants by value; equal ones, and those that failed, stay in the order given."""
    sign = 1.0 if ascending else -1.0

    def key(number: int) -> tuple[bool, float, int]:
        value = outcomes[number].value
        return (value is None, 0.0 if value is None else sign * value, number)

    rows = []
    for place, number in enumerate(sorted(outcomes, key=key), start=1):
        (name, variant), found = named[number], outcomes[number]
        own = None if found.error is not None else place
        rows.append(Ranked(own, number, name, found.value, found.amplitude, found.error, found.notes, variant=variant))
    return tuple(rows)
