"""Working on many cases in threads: NumPy and SuperLU let others compute meanwhile."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_threads(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Call a function on every item, on as many cores as torch uses, and return the results in their order.

    The first error is raised; what has not begun by then is not done.
    """
    threads = min(torch.get_num_threads(), len(items))
    if threads <= 1:
        return [function(item) for item in items]
    executor = ThreadPoolExecutor(threads)
    try:
        return list(executor.map(function, items))
    finally:
        executor.shutdown(cancel_futures=True)
