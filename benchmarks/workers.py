"""Measuring in processes of their own: they prepare at the same time, and measure one after the other.

Preparing is mostly compiling, minutes of CPU time that leave a GPU idle; measuring takes seconds, but wants the machine
for itself. What a process finds is a row, kept as a line of JSON as soon as it is known.
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
CLOSING = 10.0  # seconds that a process with nothing more to say may take to end
LAST_LINES = 40  # of what a worker said that are shown if something failed
Row = dict[str, Any]


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a file, none if there is no such file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def add_row(path: Path, row: Row) -> None:
    """Keep a row at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(row) + "\n")


def listen_for_the_word() -> Callable[[], None]:
    """Return, in a worker, what says that it is ready and waits for the word to measure, a line on standard input.

    If that ends without one, nobody is waiting for the worker any more, so it ends at once.
    """
    word = threading.Event()

    def listen() -> None:
        if not os.read(0, 1):  # `sys.stdin` would be locked by this thread, which Python cannot end with
            os._exit(1)
        word.set()

    def wait() -> None:
        print(READY, flush=True)
        word.wait()

    threading.Thread(target=listen, daemon=True).start()
    return wait


@dataclass(frozen=True)
class Task:
    """What a worker is to do.

    command   prints "ready", waits for a line, and prints a line of JSON for each of the rows, in their order
    rows      what can be said of each before it is measured, and if it never is
    """

    name: str
    command: list[str]
    rows: list[Row]


class Worker:
    """A task in a process of its own, which prepares as soon as it is built, and measures when it is told to.

    limit     seconds that it may take to prepare, and then to measure
    threads   to compile with
    """

    def __init__(self, task: Task, limit: float, threads: int) -> None:
        self.task = task
        self.limit = limit
        self.too_late = ""
        self.has_failed = False
        # A file, for a pipe that nobody reads would fill up and stop the process.
        self.errors = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115  `close` closes it
        self.process = subprocess.Popen(
            task.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            process_group=0,  # of its own, to end it together with the processes that compile for it
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
        """Let it measure, and yield each row as soon as it is known; what failed is a row that says so."""
        with suppress(BrokenPipeError):  # one that has ended says nothing below
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
            if self.process.poll() is None:  # else what it started lives on, and keeps the pipe open
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
        said = [line.strip() for line in self.told() if line.strip()] if status > 0 else []  # else not the reason
        return self.too_late or (said[-1][:200] if said else f"exit status {status}")

    def told(self) -> list[str]:
        """Return the lines that it wrote to the standard error."""
        self.errors.seek(0)
        return self.errors.readlines()

    def kill(self) -> None:
        """Kill it and all that it started."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Leave nothing behind; if something failed, show what was said about it."""
        if self.errors.closed:
            return
        self.kill()
        self.process.wait()
        if self.has_failed:
            sys.stderr.writelines(self.told()[-LAST_LINES:])
        self.errors.close()


def measure_all(tasks: list[Task], keep: Callable[[Row], None], limit: float, jobs: int | None = None) -> None:
    """Hand over the rows of tasks as they come; so many tasks prepare at the same time, all unless said otherwise."""
    jobs = min(jobs or len(tasks), len(tasks))
    for first in range(0, len(tasks), max(1, jobs)):
        measure_together(tasks[first : first + jobs], keep, limit)


def measure_together(tasks: list[Task], keep: Callable[[Row], None], limit: float) -> None:
    """Prepare tasks at the same time, then measure one after the other; however that ends, no process is left."""
    threads = max(1, len(os.sched_getaffinity(0)) // len(tasks))
    # Listeners end when the workers do, which are closed before.
    with ThreadPoolExecutor(len(tasks)) as listeners, ExitStack() as started:
        workers = [started.enter_context(closing(Worker(task, limit, threads))) for task in tasks]
        list(listeners.map(Worker.prepare, workers))
        for worker in workers:
            for row in worker.measure():
                keep(row)
            worker.close()  # the next one needs its memory
