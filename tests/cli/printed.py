"""What the tests of `disol solve` share: the size of their models, an outline, and a look at what comes out."""

import re
from pathlib import Path

import numpy as np

SIDE = 24
SQUARE = {"outer": [[0.1, 0.1], [0.9, 0.1], [0.9, 0.9], [0.1, 0.9]]}


def cells(out: str, row: str) -> list[str]:
    """The row of the table that is printed, cell by cell."""
    line = next(line for line in out.splitlines() if line.startswith(row))
    return [cell.strip() for cell in re.split(r"\s{2,}", line.strip())]


def folder_written(out: str) -> Path:
    """The folder that a solution was written to."""
    (line,) = (line for line in out.splitlines() if line.startswith("written "))
    return Path(line.removeprefix("written ").partition("/solution.png")[0])


def channel(arrays: dict[str, np.ndarray], name: str) -> np.ndarray:
    return arrays["inputs"][list(arrays["channels"]).index(name)]


def load_arrays(path: Path) -> dict[str, np.ndarray]:
    """Read all arrays of a file, and close it."""
    with np.load(path) as file:
        return dict(file)
