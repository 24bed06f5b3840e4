"""Worker processes: tasks are done in parallel, their results come in order, and nothing outlives the main process."""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from typing import TypeVar

from disol.errors import DisolError

Task = TypeVar("Task")
Result = TypeVar("Result")

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
# These let the GNU C library keep freed memory, as `disol._devices.reused_memory` does.
_KEPT_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**30)}
_SETTINGS = {**dict.fromkeys(_THREADS, "1"), **_KEPT_MEMORY}
_changing = threading.Lock()  # the environment, which all threads share
_WAITING_PER_WORKER = 2  # tasks handed out ahead, so that no worker idles while a chunk is solved or written


def usable_cores() -> int:
    """Count the cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_order(work: Callable[[Task], Result], tasks: Iterable[Task], workers: int) -> Generator[Result, None, None]:
    """Do tasks in worker processes and yield the results in order; with no workers, do them here.

    Only a few tasks per worker are under way at a time, so that results never pile up in memory. Stopping before the
    last result, as by Ctrl-C, ends the workers at once, whatever they are doing.
    """
    if workers == 0:
        yield from map(work, tasks)
        return
    context = multiprocessing.get_context("spawn")
    wanted, unwanted = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(workers, context, follow_main_process, (wanted,))
    waiting: deque[Future[Result]] = deque()
    try:
        for task in tasks:
            if len(waiting) >= (_WAITING_PER_WORKER + 1) * workers:
                yield waiting.popleft().result()
            with _worker_environment():
                waiting.append(pool.submit(work, task))
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool as error:
        raise DisolError(
            "A worker process ended early, killed or out of memory. Use fewer workers; in a script, start "
            "under `if __name__ == '__main__':`."
        ) from error
    except BaseException:
        unwanted.close()
        # A worker that ends while it sends a result leaves half of it. The pool would wait for the other half as long
        # as this process has a writing end of that pipe, which only workers use.
        pool._result_queue._writer.close()  # type: ignore[attr-defined]
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        wanted.close()
        unwanted.close()


@contextmanager
def _worker_environment() -> Iterator[None]:
    """Let processes started meanwhile use one thread each, keep memory, and leave Ctrl-C to the main process.

    Neither Ctrl-C nor SIGTERM interrupts the start of a process, which would leave a pool that never ends.
    """
    with _changing:
        before = {name: os.environ.get(name) for name in _SETTINGS}
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        os.environ.update(_SETTINGS)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def follow_main_process(wanted: Connection | None = None) -> None:
    """End this process as soon as the main process has ended, even if it was killed, or closes its end of a pipe."""
    main = multiprocessing.parent_process()
    if main is not None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})  # by which a broken pool ends its workers
        ends: list[Connection | int] = [main.sentinel] if wanted is None else [main.sentinel, wanted]
        threading.Thread(target=lambda: (wait(ends), os._exit(1)), daemon=True).start()
