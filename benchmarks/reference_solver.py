"""The reference solver against SciPy's default `spsolve` on COO assembly, and the time to draw a case.

Both solve the same systems in the same run on one core, case by case and in turns. Times are processor times, so that a
busy machine does not favour either. The ratio is what counts.
"""

import argparse
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"  # before NumPy starts its threads

import numpy as np
import scipy
from scipy import sparse
from scipy.sparse.linalg import spsolve

import disol
from disol.fem import System
from disol.grid import CORNERS
from report import processor, publish, table

SETTINGS = [
    ("poisson", 64),
    ("poisson", 128),
    ("advection-diffusion-high", 64),
    ("advection-diffusion-high", 128),
    ("elasticity", 64),
    ("elasticity", 128),
]


def solve_by_triplets(system: System) -> np.ndarray:
    """Solve as most scripts do: triplets of all elements, COO to CSC, `spsolve` with its defaults."""
    components, rows, columns = system.free.shape
    pixel_rows, pixel_columns = np.nonzero(system.mask)
    corners = np.stack([(pixel_rows + r) * columns + pixel_columns + c for r, c in CORNERS], axis=1)
    unknowns = (components * corners[:, :, None] + np.arange(components)).reshape(len(corners), -1)
    local = unknowns.shape[1]
    values = np.tile(system.element_matrix.ravel(), len(corners))
    row_numbers, column_numbers = np.repeat(unknowns, local, axis=1).ravel(), np.tile(unknowns, local).ravel()
    size = components * rows * columns
    matrix = sparse.coo_array((values, (row_numbers, column_numbers)), shape=(size, size)).tocsc()
    free = np.flatnonzero(system.free.transpose(1, 2, 0).ravel())
    load = system.load.transpose(1, 2, 0).ravel()
    solution = np.zeros(size)
    solution[free] = spsolve(matrix[free][:, free], load[free])
    return solution.reshape(rows, columns, components).transpose(2, 0, 1)


def seconds(work: Callable[[], object]) -> float:
    """Return the processor time of one call."""
    start = time.process_time()
    work()
    return time.process_time() - start


def compare_solvers(problem: str, side: int, num_cases: int) -> list[str]:
    """Time both solvers on the same drawn cases and return a row of the table."""
    ours, theirs = [], []
    for index in range(num_cases):
        case = disol.draw(problem, 0, index, resolution=side, shift="all" if index % 2 else None, conventions="paper")
        system = case.system()
        difference = np.abs(system.solve()[0] - solve_by_triplets(system)).max()
        assert difference < 1e-8 * np.abs(system.solve()).max(), difference
        ours.append(min(seconds(system.solve) for _ in range(3)))
        theirs.append(min(seconds(partial(solve_by_triplets, system)) for _ in range(3)))
    fast, slow = 1e3 * np.median(ours), 1e3 * np.median(theirs)
    ratio = np.median(np.array(theirs) / ours)
    return [problem, str(side), f"{fast:.1f}", f"{slow:.1f}", f"{ratio:.1f}"]


def time_drawing(problem: str, side: int, shift: str | None, num_cases: int) -> list[str]:
    """Time drawing and return a row of the table."""
    disol.draw(problem, resolution=side, shift=shift, conventions="paper")
    times = []
    for index in range(num_cases):
        work = partial(disol.draw, problem, 1, index, resolution=side, shift=shift)
        draws = [seconds(work) for _ in range(3)]
        times.append(1e3 * min(draws))
    return [problem, str(side), shift or "none", f"{np.mean(times):.1f}", f"{np.percentile(times, 95):.1f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=20)
    parser.add_argument("--write", type=Path, help="where to write the page")
    options = parser.parse_args()
    solved = [compare_solvers(problem, side, options.cases) for problem, side in SETTINGS]
    drawn = [
        time_drawing(problem, side, shift, 5 * options.cases)
        for problem, side in (("poisson", 64), ("poisson", 128), ("elasticity", 128), ("heat", 128))
        for shift in (None, "all")
    ]
    publish(
        [
            "# Reference solver",
            "Written by `make bench`.",
            "How long does the reference solver take for one case, assembly included? Medians over "
            f"{options.cases} drawn cases, half of them shifted by `all`. The rival assembles COO triplets and calls "
            "`scipy.sparse.linalg.spsolve` with its defaults. Both run in turns on the same systems.",
            f"Machine: {processor()}, NumPy {np.__version__}, SciPy {scipy.__version__}; one core is used.",
            table(["problem", "grid", "disol, ms", "COO + spsolve, ms", "times as fast"], solved),
            "Time to draw one case, mean and 95th percentile:",
            table(["problem", "grid", "shift", "mean, ms", "p95, ms"], drawn),
        ],
        options.write,
    )


if __name__ == "__main__":
    main()
