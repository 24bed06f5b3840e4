"""Measuring in processes of their own: they prepare at the same time, and measure one after the other.

Preparing is mostly compiling: minutes of CPU time that leave a GPU idle. Measuring takes seconds, but needs the machine
for itself. A result is a row, stored as a line of JSON as soon as it is known.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

READY = "ready"  # the line that ends the preparation
CLOSING = 10.0  # seconds that a process with no more output may take to end
LAST_LINES = 40  # of the standard error of a worker, shown if something failed
Row = dict[str, Any]


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a file, or none if there is no such file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def add_row(path: Path, row: Row) -> None:
    """Append a row to a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(row) + "\n")


def listen_for_the_word() -> Callable[[], None]:
    """Return a function for a worker that says "ready", and waits for a line on standard input.

    If standard input is closed without a line, nobody is waiting for the worker any more, so its process ends at once.
    """
    word = threading.Event()

    def listen() -> None:
        if not os.read(0, 1):  # reading `sys.stdin` would lock it, and Python could not exit
            os._exit(1)
        word.set()

    def wait() -> None:
        print(READY, flush=True)
        word.wait()

    threading.Thread(target=listen, daemon=True).start()
    return wait


@dataclass(frozen=True)
class Task:
    """The task of a worker.

    command   prints "ready", waits for a line, and prints a line of JSON for each row, in order
    rows      the entries of each row that are known before it is measured, or if that fails
    """

    name: str
    command: list[str]
    rows: list[Row]


class Worker:
    """A task in a process of its own, which starts preparing at once, and measures on request.

    limit     most seconds to prepare, and then to measure
    threads   for compiling
    """

    def __init__(self, task: Task, limit: float, threads: int) -> None:
        self.task = task
        self.limit = limit
        self.too_late = ""
        self.has_failed = False
        # A file, because a pipe that nobody reads would fill up and stop the process.
        self.errors = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115  `close` closes it
        self.process = subprocess.Popen(
            task.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            process_group=0,  # its own group, to end it with the processes that compile for it
            env={"TORCHINDUCTOR_COMPILE_THREADS": str(threads), **os.environ},
        )
        assert self.process.stdout is not None
        self.output = self.process.stdout

    def prepare(self) -> None:
        """Wait until it is ready, has failed, or has used up its time."""
        started = time.monotonic()
        with self.limited("ready"):
            is_ready = any(line.strip() == READY for line in self.output)
        found = READY if is_ready else self.failure()
        print(f"{self.task.name}: {found}, {time.monotonic() - started:.0f} s", flush=True)

    def measure(self) -> Iterator[Row]:
        """Let it measure, and yield each row as soon as it is known; if one fails, its row says so."""
        with suppress(BrokenPipeError):  # the process has ended, and is handled below
            print("measure", file=self.process.stdin, flush=True)
        found = (json.loads(line) for line in self.output if line.startswith("{"))
        with self.limited("measured"):
            for known in self.task.rows:
                row = known | (next(found, None) or {"error": self.failure()})
                self.has_failed |= "error" in row
                yield row

    @contextmanager
    def limited(self, hoped: str) -> Iterator[None]:
        """Kill it if this takes longer than its limit."""

        def give_up() -> None:
            if self.process.poll() is None:  # if it has ended, its children may still keep the pipe open
                self.too_late = f"not {hoped} after {self.limit:g} s"
            self.kill()

        timer = threading.Timer(self.limit, give_up)
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def failure(self) -> str:
        """Say why it has ended."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(CLOSING)
        status = self.process.poll() or 0
        said = [line.strip() for line in self.told() if line.strip()] if status > 0 else []  # if killed, no reason
        return self.too_late or (said[-1][:200] if said else f"exit status {status}")

    def told(self) -> list[str]:
        """Return the lines that it wrote to standard error."""
        self.errors.seek(0)
        return self.errors.readlines()

    def kill(self) -> None:
        """Kill it and all that it started."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Kill the process; if something failed, print the end of its standard error."""
        if self.errors.closed:
            return
        self.kill()
        self.process.wait()
        if self.has_failed:
            sys.stderr.writelines(self.told()[-LAST_LINES:])
        self.errors.close()


def measure_all(tasks: list[Task], keep: Callable[[Row], None], limit: float, jobs: int | None = None) -> None:
    """Pass on the rows of tasks as they come; `jobs` tasks prepare at the same time, by default all."""
    jobs = min(jobs or len(tasks), len(tasks))
    for first in range(0, len(tasks), max(1, jobs)):
        measure_together(tasks[first : first + jobs], keep, limit)


def measure_together(tasks: list[Task], keep: Callable[[Row], None], limit: float) -> None:
    """Prepare tasks at the same time, then measure one after the other; on any exit, no process is left."""
    threads = max(1, len(os.sched_getaffinity(0)) // len(tasks))
    # Listeners end with the workers, which are closed before them.
    with ThreadPoolExecutor(len(tasks)) as listeners, ExitStack() as started:
        workers = [started.enter_context(closing(Worker(task, limit, threads))) for task in tasks]
        list(listeners.map(Worker.prepare, workers))
        for worker in workers:
            for row in worker.measure():
                keep(row)
            worker.close()  # the next worker needs its memory
