"""The order in which unknowns are eliminated: nested dissection of the node grid."""

from functools import lru_cache

import numpy as np
from jaxtyping import Int

SMALLEST_BLOCK = 4


@lru_cache(maxsize=16)
def nested_dissection(rows: int, columns: int) -> Int[np.ndarray, " node"]:
    """Return the nodes of a grid in elimination order: two halves first, then the line that separates them.

    The order depends on the grid alone, so it is computed once and shared by every domain; a general minimum-degree
    order must be found anew for each matrix, which takes a third of its factorisation.
    """
    order: list[int] = []

    def visit(top: int, bottom: int, left: int, right: int) -> None:
        if (bottom - top) * (right - left) <= SMALLEST_BLOCK:
            order.extend(row * columns + column for row in range(top, bottom) for column in range(left, right))
        elif right - left >= bottom - top:
            middle = (left + right) // 2
            visit(top, bottom, left, middle)
            visit(top, bottom, middle + 1, right)
            visit_line(range(top, bottom), range(middle, middle + 1))
        else:
            middle = (top + bottom) // 2
            visit(top, middle, left, right)
            visit(middle + 1, bottom, left, right)
            visit_line(range(middle, middle + 1), range(left, right))

    def visit_line(line_rows: range, line_columns: range) -> None:
        order.extend(row * columns + column for row in line_rows for column in line_columns)

    visit(0, rows, 0, columns)
    nodes = np.array(order)
    nodes.flags.writeable = False
    return nodes
