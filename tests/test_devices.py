"""What is done with the memory of a processor, here and in worker processes."""

import os
import platform
import subprocess
import sys
import threading

import pytest

from disol.data.workers import _worker_environment, in_order

COUNT_FAULTS = """
import resource, sys
import torch
from disol._devices import reused_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        torch.ones(2**24)  # 64 MiB
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

with reused_memory(torch.device("cpu")):
    faults()
    kept = faults()
print(kept, faults())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the parameters are those of the GNU C library")
def test_memory_that_is_used_again_is_not_cleared_again_and_given_back_at_the_end() -> None:
    done = subprocess.run([sys.executable, "-c", COUNT_FAULTS], capture_output=True, text=True, check=True)
    kept, usual = map(int, done.stdout.split())
    pages = 10 * 2**26 // 4096
    assert kept < pages / 100
    assert usual > pages / 100


def test_worker_processes_use_one_thread_and_keep_what_they_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("MALLOC_MMAP_MAX_", raising=False)
    names = ["OMP_NUM_THREADS", "MALLOC_MMAP_MAX_"]
    assert list(in_order(os.getenv, names, workers=1)) == ["1", "0"]
    assert [os.environ.get(name) for name in names] == ["7", None]


def test_threads_that_start_workers_at_the_same_time_leave_the_environment_as_it_was() -> None:
    before, entered, leave = dict(os.environ), threading.Event(), threading.Event()

    def start() -> None:
        with _worker_environment():
            entered.set()
            leave.wait(60)

    thread = threading.Thread(target=start)
    with _worker_environment():
        thread.start()
        entered.wait(0.2)  # in vain, as one thread at a time changes it
    leave.set()
    thread.join()
    assert dict(os.environ) == before
