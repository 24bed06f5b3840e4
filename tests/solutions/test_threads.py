"""Working in threads gives what working on one item after the other does, and stops at the first error."""

import os
import threading
import time

import pytest

from disol.solutions.solve import _in_threads


@pytest.fixture(params=["1", "4", "4,2"], ids=["one-thread", "four-threads", "four-threads-of-two"])
def threads(request, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", request.param)
    return int(request.param[0])


def test_results_come_in_the_order_of_the_items(threads):
    def wait_and_double(number):
        time.sleep(0.02 * (3 - number))  # the last is through first
        return 2 * number

    assert _in_threads(wait_and_double, range(4)) == [0, 2, 4, 6]
    assert _in_threads(wait_and_double, []) == []


def test_as_many_items_as_there_are_threads_are_worked_on_at_once(threads):
    at_work = threading.Barrier(threads, timeout=20)
    assert _in_threads(lambda number: at_work.wait() >= 0, range(threads)) == [True] * threads


def test_an_error_is_raised_and_what_has_not_begun_is_not_done(threads):
    begun = []

    def fail_first(number):
        begun.append(number)
        if number == 0:
            raise ValueError("no")
        time.sleep(0.05)

    with pytest.raises(ValueError, match="no"):
        _in_threads(fail_first, range(100))
    assert len(begun) < 20


def test_all_cores_work_unless_told_otherwise(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    at_work = threading.Barrier(cores, timeout=20)
    assert _in_threads(lambda number: at_work.wait() >= 0, range(cores)) == [True] * cores
