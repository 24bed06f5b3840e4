"""Making files of cases: drawn in worker processes and solved by a back end, or given by the user."""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from disol import _checks as checks
from disol._files import as_path, written_whole
from disol._progress import ProgressBar, shown_progress
from disol._terms import TIMES
from disol.cases import Case
from disol.data.backends import Backend, choose_backend, stack_rows, stored_case
from disol.data.cluster import connect, in_order_on_cluster
from disol.data.layout import Arrays, count_case_bytes
from disol.data.packing import get_encodings
from disol.data.recipe import OWN, Recipe, read_recipe
from disol.data.store import StoreWriter, create_store, resume_store
from disol.data.workers import in_order, usable_cores
from disol.distributions.distribution import Shift
from disol.errors import DisolError
from disol.grid import Grid
from disol.problems import Problem
from disol.problems.conventions import Conventions
from disol.problems.table import find_conventions, find_problem
from disol.solutions import solve_exact

_LARGEST_PIECE = 8  # cases a worker takes at once
_OWN_CHUNK = 64  # given cases written at once


@dataclass(frozen=True, repr=False)
class GenerationReport:
    """What a generation did.

    cases       number of cases in the file, all complete
    generated   how many of them were generated now
    fallbacks   how many of these the reference solver solved, because the batched one missed its tolerance
    """

    path: Path
    cases: int
    generated: int
    fallbacks: int
    seconds: float

    @property
    def cases_per_second(self) -> float:
        """How fast cases were generated."""
        return self.generated / self.seconds if self.seconds > 0 else 0.0

    def __str__(self) -> str:
        if self.generated == 0:
            return f"{self.path} is complete: {self.cases} cases, nothing to do."
        solved_again = f", {self.fallbacks} by the reference solver" if self.fallbacks else ""
        return (
            f"{self.path}: {self.generated} of {self.cases} cases generated in {self.seconds:.1f} s "
            f"({self.cases_per_second:.1f} per second{solved_again})."
        )

    def __repr__(self) -> str:
        return f"GenerationReport({self})"


def generate(
    problem: str | Problem,
    num_cases: int,
    path: str | Path,
    *,
    seed: int = 0,
    shift: Shift = None,
    conventions: str | Conventions = "paper",
    resolution: int | None = None,
    workers: int | None = None,
    device: str = "auto",
    resume: bool = False,
    chunk: int | None = None,
    progress: bool = True,
    scheduler: str | None = None,
) -> GenerationReport:
    """Generate cases 0 … num_cases - 1 of the sequence `seed` into a file.

    None of these options changes the content of the cases:

    workers    processes that draw, one per core unless given; 0 draws in this process
    device     where cases are solved: "cpu", "cuda", or "auto"
    resume     continue an unfinished file, or start one where there is none
    chunk      cases written at once; an interruption loses at most this many
    progress   show a progress bar, in a terminal or a notebook
    scheduler  address of a Dask cluster, whose workers then draw instead of processes here

    `shift` is as for `draw`, or "shapes": the cases take the named shapes with holes in turn. Networks learn pixels, so
    `conventions` must be "paper" or "published"; a file cannot hold cases on true boundaries, the default of `draw`.
    """
    started = time.monotonic()
    num_cases, path = checks.count("num_cases", num_cases), as_path("path", path)
    workers = usable_cores() if workers is None else checks.whole_number("workers", workers)
    chunk = None if chunk is None else checks.count("chunk", chunk)
    recipe = read_recipe(problem, seed, shift, conventions, resolution)
    settings, backend = recipe.settings(num_cases), choose_backend(device)
    if chunk is None:
        chunk = choose_chunk(backend, count_case_bytes(settings, get_encodings(recipe.problem)))
    if scheduler is not None:
        connect(scheduler).close()  # a cluster that does not answer must not leave an empty file
    resumes = checks.flag("resume", resume) and os.path.exists(path)  # Path.exists fails for names that are too long
    with resume_store(path, settings) if resumes else create_store(path, settings, recipe.problem) as writer:
        done = writer.store.num_done
        chunks = _cut(range(done, num_cases), chunk)
        pieces = (piece for cases in chunks for piece in _cut(cases, _LARGEST_PIECE))
        work = partial(backend.prepare, recipe)
        spread = in_order(work, pieces, workers) if scheduler is None else in_order_on_cluster(work, pieces, scheduler)
        with (
            shown_progress(settings.problem, num_cases, wanted=progress, done=done) as bar,
            closing(spread) as prepared,
        ):
            fallbacks = _write_chunks(writer, _finish_chunks(backend, recipe, chunks, prepared), bar)
    return GenerationReport(path, num_cases, num_cases - done, fallbacks, time.monotonic() - started)


def choose_chunk(backend: Backend, case_bytes: int) -> int:
    """Return how many cases to write at once: as many as the back end takes and memory allows."""
    return max(1, min(backend.largest_chunk, backend.chunk_bytes // case_bytes))


def _cut(cases: range, size: int) -> list[range]:
    """Cut a range into ranges of `size`, the last one shorter."""
    return [cases[start : start + size] for start in range(0, len(cases), size)]


def _finish_chunks(
    backend: Backend, recipe: Recipe, chunks: list[range], prepared: Iterator[Arrays]
) -> Iterator[tuple[range, Arrays, int]]:
    """Join the prepared pieces of each chunk and let the back end finish it."""
    for cases in chunks:
        pieces = list(islice(prepared, len(_cut(cases, _LARGEST_PIECE))))
        joined = {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}
        yield cases, *backend.finish(recipe, joined)


def _write_chunks(writer: StoreWriter, chunks: Iterator[tuple[range, Arrays, int]], bar: ProgressBar) -> int:
    """Write chunks in order, each while the next one is solved; return how many cases were solved again."""
    writing: Future[None] | None = None
    began, generated, fallbacks = time.monotonic(), 0, 0
    with ThreadPoolExecutor(max_workers=1) as thread:
        for cases, arrays, solved_again in chunks:
            if writing is not None:
                writing.result()
            writing = thread.submit(writer.write_chunk, cases.start, arrays)
            generated, fallbacks = generated + len(cases), fallbacks + solved_again
            bar.advance(len(cases))
            bar.say(f"{generated / max(time.monotonic() - began, 1e-9):.1f} cases/s, {fallbacks} fallbacks")
        if writing is not None:
            writing.result()
    return fallbacks


def write_cases(
    problem: str | Problem,
    cases: Sequence[Case | Mapping[str, Any]],
    path: str | Path,
    *,
    conventions: str | Conventions = "paper",
    workers: int = 0,
) -> Path:
    """Solve cases of your own exactly, and write them into a file for training and evaluation.

    cases     each a `Case` on pixels, or its data by name as for `solve_exact`, all on one square grid; networks see
              sources and initial fields as they are given, while drawn ones lie in [0, 1]
    workers   processes that solve; 0 solves in this one

    The first 80 % of the cases are for training. Instead of a shift the file stores "own:" and its name; by the
    digest of its cases an evaluation knows whether a model was trained on them.
    """
    target, problem = as_path("path", path), find_problem(problem)
    conventions, workers = find_conventions(conventions, problem), checks.whole_number("workers", workers)
    if os.path.lexists(target):
        raise DisolError(f"{target} exists already. Remove it, or choose another path.")
    cases = [cases] if isinstance(cases, Mapping) else list(cases)
    if not cases:
        raise DisolError("There must be at least one case, got none.")
    for number, case in enumerate(cases):
        if not isinstance(case, Case | Mapping):
            raise DisolError(f"Case {number} must be a Case, or its data by name, got {type(case).__name__}.")
    given = [case.terms if isinstance(case, Case) else case for case in cases]
    if "domain" not in given[0]:
        raise DisolError(f"A case of {problem.name} needs a domain, got {', '.join(given[0]) or 'nothing'}.")
    first = checks.as_array("domain", given[0]["domain"])
    checks.require_pixels("domain", first, None)
    side, name = first.shape[-1], f"{OWN}{target.stem}"
    settings = replace(Recipe(problem, 0, None, conventions, side).settings(len(cases)), shift=name, shifts=(name,))
    solve = partial(_solve_own, problem, conventions, Grid(side, side))
    with written_whole(target) as temporary:
        temporary.unlink()  # a store is not laid out over a file
        try:
            with (
                create_store(temporary, settings, problem) as writer,
                closing(in_order(solve, enumerate(cases), workers)) as solved,
            ):
                for start in range(0, len(cases), _OWN_CHUNK):
                    writer.write_chunk(start, stack_rows(list(islice(solved, _OWN_CHUNK))))
        except DisolError as error:
            raise DisolError(str(error).replace(str(temporary), str(target))) from error
    return target


def _solve_own(
    problem: Problem, conventions: Conventions, grid: Grid, numbered: tuple[int, Case | Mapping[str, Any]]
) -> Arrays:
    """Check a case and solve it by the reference solver, at the times that files store; an error names the case."""
    number, given = numbered
    times = {term.name: problem.times for term in problem.terms if term.kind is TIMES}
    try:
        if isinstance(given, Case):
            if given.problem.name != problem.name:
                raise DisolError(f"All cases of a file are of one problem, here {problem}, got {given.problem}.")
            if given.problem != problem:
                raise DisolError(f"All cases of a file are of one problem, here {problem!r}, got {given.problem!r}.")
            case = Case.from_arrays(given, conventions=conventions, **times)
        else:
            wanted = [term.name for term in problem.terms if term.kind is not TIMES]
            for name, value in given.items():
                if name not in wanted:
                    raise DisolError(f"A case of a file has {', '.join(wanted)}, got {name!r}. Leave it out.")
                if isinstance(value, Mapping):
                    raise DisolError(f"A file holds marked pixels, but {name} is stated by parts. Pass a mask.")
            case = Case.from_arrays(problem, conventions=conventions, **given, **times)
        if case.is_batch:
            raise DisolError(f"Cases of a file are given one by one, got a batch of {len(case)}.")
        if case.grid != grid:
            raise DisolError(
                f"All cases of a file lie on one square grid, here {grid.height} x {grid.width}, got "
                f"{case.grid.height} x {case.grid.width}. Bring it to that grid."
            )
        return stored_case(solve_exact(case, device="cpu"))
    except DisolError as error:
        raise DisolError(f"Case {number} failed: {error}") from error
