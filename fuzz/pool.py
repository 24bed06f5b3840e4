"""Worker processes under limits of time and memory: whatever happens to one of them is a verdict, and work goes on."""

import json
import os
import queue
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
GENERATORS = HERE / "generators.py"
POLL = 0.02  # seconds between two looks at the memory of a process
MOST_INPUTS = 2000  # of one process, and
MOST_RESIDENT = 10**9  # bytes that it may hold between two inputs: caches would grow for ever
STARTING = 120.0  # seconds until a process must be ready: it imports torch, and trains a small network

Task = tuple[str, int]  # generator and seed
Report = dict[str, Any]


@dataclass(frozen=True)
class Limits:
    """What one input may take; seconds in which others had the processor do not count."""

    seconds: float = 20.0
    bytes: int = 2 * 10**9


class Worker:
    """A process that runs tasks, one after the other, and is replaced by another when one has gone wrong."""

    def __init__(self, module: Path, limits: Limits) -> None:
        self.module, self.limits = module, limits
        self.process: subprocess.Popen[bytes] | None = None
        self.folder = Path(tempfile.mkdtemp(prefix="disol-fuzz-"))
        self.inputs = 0

    def start(self) -> None:
        """Start the process, and wait until it is ready."""
        settings = {"OMP_NUM_THREADS": "1", "MPLBACKEND": "agg", "NO_COLOR": "1", "TMPDIR": str(self.folder)}
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "worker.py"), str(self.module), str(self.folder), str(self.limits.seconds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,  # `select` does not see lines that a buffer holds
            env={**os.environ, **settings},
            start_new_session=True,  # so that it ends together with the processes that it starts
        )
        self.inputs = 0
        if "ready" not in self._listen(STARTING):
            said = self._said()
            self.stop()
            raise RuntimeError(f"A worker did not start:\n{said}")

    def run(self, task: Task) -> Report:
        """Run one task within the limits."""
        if self.process is None:
            self.start()
        assert self.process is not None
        assert self.process.stdin is not None
        self.inputs += 1
        started = self._clock()
        with suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(task).encode() + b"\n")
            self.process.stdin.flush()
        report: Report = {"text": "", "seconds": 0.0, "peak": 0}
        while "verdict" not in report:
            report |= self._listen(self.limits.seconds, started)
        if report["peak"] > self.limits.bytes and report["verdict"] in ("ok", "refused"):
            report |= {"verdict": "memory", "error": f"held {report['peak'] / 1e9:.1f} GB"}
        if report["verdict"] in ("crash", "hang") or "resident" not in report:
            said = self._said()
            where = re.search(r"/disol/(\S+)\", line (\d+)", said)  # the innermost call comes first
            report |= {"where": ":".join(where.groups())} if where else {}
            report |= {"traceback": said, "seconds": round(self._clock() - started, 3)}
            self.stop()
        elif self.inputs >= MOST_INPUTS or report["resident"] > MOST_RESIDENT:
            self.stop()
        return report

    def _clock(self) -> float:
        """Read a clock that stands still while the process waits for others to leave the processor."""
        assert self.process is not None
        try:
            waited = int(Path(f"/proc/{self.process.pid}/schedstat").read_text().split()[1]) / 1e9
        except (OSError, IndexError):
            waited = 0.0
        return time.monotonic() - waited

    def _listen(self, seconds: float, started: float | None = None) -> Report:
        """Wait for a line of the process, and watch it meanwhile."""
        assert self.process is not None
        assert self.process.stdout is not None
        end = seconds + (self._clock() if started is None else started)
        while not select.select([self.process.stdout], [], [], POLL)[0]:
            if self._clock() > end:
                return {"verdict": "hang", "error": f"not done after {self.limits.seconds:g} s"}
            if self._resident() > self.limits.bytes:
                return {"verdict": "memory", "error": f"held more than {self.limits.bytes / 1e9:g} GB"}
        line = self.process.stdout.readline()
        if line:
            return json.loads(line)
        return {"verdict": "crash", "error": f"the process ended with status {self.process.wait()}"}

    def _resident(self) -> int:
        assert self.process is not None
        try:
            pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        except (OSError, IndexError):
            return 0
        return pages * os.sysconf("SC_PAGE_SIZE")

    def _said(self) -> str:
        """Return the end of what it printed, where a process that hangs or crashes leaves its traceback."""
        with suppress(OSError):
            return (self.folder / "log.txt").read_text(errors="replace")[-6000:]
        return ""

    def stop(self) -> None:
        """End the process and all that it started."""
        if self.process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            with suppress(OSError, AttributeError):
                stream.close()  # type: ignore[union-attr]
        self.process = None
        for left in self.folder.glob("attempt-*"):
            shutil.rmtree(left, ignore_errors=True)

    def close(self) -> None:
        """End the process and remove its files."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


def run_tasks(
    tasks: Iterator[Task], jobs: int, limits: Limits | None = None, module: Path = GENERATORS
) -> Generator[tuple[Task, Report], None, None]:
    """Run tasks in several processes and yield a report of each as it is done; close it to end early."""
    reports: queue.Queue[tuple[Task, Report] | BaseException | None] = queue.Queue()
    lock, stopped = threading.Lock(), threading.Event()
    workers = [Worker(module, limits or Limits()) for _ in range(jobs)]

    def serve(worker: Worker) -> None:
        try:
            while not stopped.is_set():
                with lock:
                    task = next(tasks, None)
                if task is None:
                    break
                reports.put((task, worker.run(task)))
        except BaseException as error:
            reports.put(error)
        finally:
            worker.close()
            reports.put(None)

    threads = [threading.Thread(target=serve, args=(worker,), daemon=True) for worker in workers]
    for thread in threads:
        thread.start()
    try:
        busy = len(threads)
        while busy:
            report = reports.get()
            if isinstance(report, BaseException):
                raise report
            if report is None:
                busy -= 1
            else:
                yield report
    finally:
        stopped.set()
        for thread in threads:  # each ends with its input, which has a limit
            thread.join()
