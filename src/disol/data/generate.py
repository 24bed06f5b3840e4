"""Generating a file of cases: draw in worker processes, solve in a back end, write in order."""

import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np

from disol.data.backends import Backend, choose_backend
from disol.data.cluster import connect, in_order_on_cluster
from disol.data.layout import Arrays, case_bytes
from disol.data.progress import Tally, shown_progress
from disol.data.recipe import Recipe, StoreSettings, read_recipe
from disol.data.store import StoreWriter, create_store, resume_store
from disol.data.workers import in_order, usable_cores
from disol.problems import Problem, checks
from disol.problems.checks import Unchecked
from disol.problems.distribution import Shift

LARGEST_PIECE = 8  # cases a worker takes at once


@dataclass(frozen=True)
class GenerationReport:
    """What a generation did.

    cases       in the file, all complete
    generated   of these, now
    fallbacks   of these, solved by the reference solver because the batched one missed its tolerance
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


def generate(
    problem: str | Problem | Unchecked,
    num_cases: int | Unchecked,
    path: str | Path,
    *,
    seed: int | Unchecked = 0,
    shift: Shift | Unchecked = None,
    conventions: str | Unchecked = "paper",
    resolution: int | Unchecked | None = None,
    workers: int | Unchecked | None = None,
    device: str = "auto",
    resume: bool = False,
    chunk: int | Unchecked | None = None,
    progress: bool = True,
    scheduler: str | None = None,
) -> GenerationReport:
    """Generate cases 0 … num_cases - 1 of the sequence `seed` into a file; none of what follows changes their content.

    workers    processes that draw, one per core unless given; 0 draws in this process
    device     where cases are solved: "cpu", "cuda", or "auto"
    resume     continue an unfinished file, or start one where there is none
    chunk      cases written at once; an interruption loses at most this many
    progress   show a progress bar, if standard error is a terminal
    scheduler  address of a Dask cluster, whose workers then draw instead of processes here

    `shift` is as for `draw`, or "shapes": the cases take the named shapes with holes in turn.
    """
    started = time.monotonic()
    num_cases = checks.count("num_cases", num_cases)
    path, backend = Path(path), choose_backend(device)
    workers = usable_cores() if workers is None else checks.whole_number("workers", workers)
    recipe = read_recipe(problem, seed, shift, conventions, resolution)
    settings = recipe.settings(num_cases)
    size = chunk_size(chunk, settings, backend)
    if scheduler is not None:
        connect(scheduler).close()  # a cluster that does not answer must not leave an empty file
    with resume_store(path, settings) if resume and path.exists() else create_store(path, settings) as writer:
        done = writer.store.num_done
        chunks = ranges(range(done, num_cases), size)
        pieces = (piece for cases in chunks for piece in ranges(cases, LARGEST_PIECE))
        with (
            shown_progress(progress, settings.problem, done, num_cases) as tally,
            closing(spread(partial(backend.prepare, recipe), pieces, workers, scheduler)) as prepared,
        ):
            write_chunks(writer, solved_chunks(backend, recipe, chunks, prepared), tally)
    return GenerationReport(path, num_cases, num_cases - done, tally.fallbacks, time.monotonic() - started)


def spread(
    work: Callable[[range], Arrays], pieces: Iterator[range], workers: int, scheduler: str | None
) -> Generator[Arrays, None, None]:
    """Do the pieces in worker processes, or on a cluster; the results come in order."""
    if scheduler is None:
        return in_order(work, pieces, workers)
    return in_order_on_cluster(work, pieces, scheduler)


def chunk_size(asked: int | Unchecked | None, settings: StoreSettings, backend: Backend) -> int:
    """Return how many cases to write at once: as asked, or what the back end likes and memory allows."""
    if asked is not None:
        return checks.count("chunk", asked)
    return max(1, min(backend.largest_chunk, backend.chunk_bytes // case_bytes(settings)))


def ranges(cases: range, size: int) -> list[range]:
    """Cut a range into ranges of `size`, the last one shorter."""
    return [cases[start : start + size] for start in range(0, len(cases), size)]


def solved_chunks(
    backend: Backend, recipe: Recipe, chunks: list[range], prepared: Iterator[Arrays]
) -> Iterator[tuple[range, Arrays, int]]:
    """Join the prepared pieces of each chunk and solve it."""
    for cases in chunks:
        pieces = list(islice(prepared, len(ranges(cases, LARGEST_PIECE))))
        joined = {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}
        yield cases, *backend.finish(recipe, cases, joined)


def write_chunks(writer: StoreWriter, chunks: Iterator[tuple[range, Arrays, int]], tally: Tally) -> None:
    """Write chunks in order, each while the next one is solved."""
    writing: Future[None] | None = None
    with ThreadPoolExecutor(max_workers=1) as thread:
        for cases, arrays, fallbacks in chunks:
            if writing is not None:
                writing.result()
            writing = thread.submit(writer.write_chunk, cases.start, arrays)
            tally.add(len(cases), fallbacks)
        if writing is not None:
            writing.result()
