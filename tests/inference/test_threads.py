"""Working in threads gives what working on one item after the other does, and stops at the first error."""

import threading
import time

import pytest
import torch

from disol.inference.threads import in_threads


@pytest.fixture(params=[1, 4], ids=["one-thread", "four-threads"])
def threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def test_results_come_in_the_order_of_the_items(threads):
    def wait_and_double(number):
        time.sleep(0.02 * (3 - number))  # the last is through first
        return 2 * number

    assert in_threads(wait_and_double, range(4)) == [0, 2, 4, 6]
    assert in_threads(wait_and_double, []) == []


def test_as_many_items_as_torch_uses_threads_are_worked_on_at_once(threads):
    at_work = threading.Barrier(threads, timeout=20)
    assert in_threads(lambda number: at_work.wait() >= 0, range(threads)) == [True] * threads


def test_an_error_is_raised_and_what_has_not_begun_is_not_done(threads):
    begun = []

    def fail_first(number):
        begun.append(number)
        if number == 0:
            raise ValueError("no")
        time.sleep(0.05)

    with pytest.raises(ValueError, match="no"):
        in_threads(fail_first, range(100))
    assert len(begun) < 20
