"""Workers on other machines: a Dask cluster does the same tasks, in order."""

import asyncio
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from importlib import import_module
from typing import Any, TypeVar

from disol import __version__
from disol.errors import DisolError, shown

Task = TypeVar("Task")
Result = TypeVar("Result")

_WAITING_PER_THREAD = 3  # tasks handed out ahead, so that no worker idles while a chunk is solved or written
PATIENCE = 5  # seconds to wait for the scheduler
PATIENCE_WITH_WORKERS = 20  # seconds to wait for the first worker


def in_order_on_cluster(
    work: Callable[[Task], Result], tasks: Iterable[Task], scheduler: str
) -> Generator[Result, None, None]:
    """Do tasks on the workers of a cluster and yield the results in order; a lost worker's tasks are done again."""
    with connect(scheduler) as client:
        most = _WAITING_PER_THREAD * sum(client.nthreads().values())
        waiting: deque[Any] = deque()
        try:
            for task in tasks:
                if len(waiting) >= most:
                    yield waiting.popleft().result()
                waiting.append(client.submit(work, task, pure=False))
            while waiting:
                yield waiting.popleft().result()
        except import_module("distributed").KilledWorker as error:
            raise DisolError(
                "Several workers of the cluster died over the same cases, probably out of memory. "
                "Resume with fewer threads per worker."
            ) from error


def connect(scheduler: str) -> Any:
    """Connect to a cluster whose workers have this version of disol."""
    if not isinstance(scheduler, str):
        raise DisolError(f"scheduler must be the address of a Dask scheduler, got {shown(scheduler)}.")
    try:
        distributed: Any = import_module("distributed")  # an extra that most users do without
    except ImportError:
        raise DisolError("A cluster needs Dask, which is not installed. Run pip install 'disol[cluster]'.") from None
    with ExitStack() as stack:
        try:
            with ThreadPoolExecutor(max_workers=1) as thread:  # of its own: a notebook runs an event loop already
                thread.submit(asyncio.run, _greet(distributed, scheduler)).result()
            client = distributed.Client(scheduler, timeout=PATIENCE)
            stack.callback(client.close)
            client.wait_for_workers(1, timeout=PATIENCE_WITH_WORKERS)
        except (OSError, ValueError, MemoryError) as error:  # MemoryError where a server speaks another protocol
            raise DisolError(
                f"No Dask cluster with a worker answers at {scheduler!r} ({type(error).__name__}). "
                "Start one with `dask scheduler` and `dask worker ADDRESS`, and pass its address."
            ) from error
        try:
            versions = set(client.run(_worker_version).values())
        except Exception as error:  # whatever a worker raised when it imported this function
            reason = " ".join(str(error).split()) or type(error).__name__
            raise DisolError(
                f"The cluster's workers need disol {__version__}, but do not have it ({reason}). Install it everywhere."
            ) from error
        if versions != {__version__}:
            raise DisolError(
                f"The cluster's workers have disol {', '.join(sorted(versions))}, this is {__version__}. "
                "Install the same version everywhere."
            )
        stack.pop_all()  # the caller closes the client
    return client


async def _greet(distributed: Any, scheduler: str) -> None:
    """Require an answer in time: a client would wait forever for a port that is open but silent."""
    connection = await asyncio.wait_for(distributed.core.connect(scheduler, timeout=PATIENCE), PATIENCE)
    connection.abort()


def _worker_version() -> str:
    """Return the version of disol where this runs."""
    return __version__
