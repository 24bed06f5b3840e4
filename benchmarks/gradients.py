"""How long a gradient of the exact solution takes, and how much memory the factors take that are kept for it.

python benchmarks/gradients.py --write docs/benchmarks/gradients.md
"""

import argparse
import os
from pathlib import Path
from time import perf_counter
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"  # before NumPy is imported

import numpy as np

import disol
from disol.fem.cut_system import CutSolution
from report import processor, publish, table

SIDE = 128
REPEATS = 7
COEFFICIENTS = {
    "poisson": "diffusion",
    "advection-diffusion-high": "diffusion",
    "elasticity": "young",
    "heat": "conductivity",
}
ENTRY = 12  # bytes per entry of the factors: a double and an index


def measure(problem: str, name: str) -> list[str]:
    """Measure a solution, its gradient with respect to a coefficient with one value per pixel, and the factors."""
    drawn = disol.draw(problem, seed=1, resolution=SIDE, conventions="physical")
    varying: dict[str, Any] = {name: np.ones((SIDE, SIDE))}
    case = disol.Case.from_arrays(drawn, **varying)
    forwards, backwards = [], []
    for _ in range(REPEATS):
        start = perf_counter()
        solution = disol.solve_exact(case, keep_factors=True)
        solved = perf_counter()
        disol.solve_adjoint(solution, solution.field, of=[name])
        forwards.append(solved - start)
        backwards.append(perf_counter() - solved)
    forward, backward = min(forwards), min(backwards)
    assert isinstance(solution.cut, CutSolution)
    kept = solution.cut.system
    factors = [kept._factors] if case.times is None else kept._factors_of_steps.values()
    size = sum(ENTRY * each.solver.factors.nnz for each in factors) / 1e6
    ratio = (forward + backward) / forward
    return [problem, name, f"{1e3 * forward:.0f}", f"{1e3 * backward:.0f}", f"{ratio:.2f}", f"{size:.0f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, help="where to write the page")
    options = parser.parse_args()
    rows = [measure(problem, name) for problem, name in COEFFICIENTS.items()]
    publish(
        [
            "# Gradients",
            "Written by `python benchmarks/gradients.py`.",
            "How long does a gradient of the exact solution take? `disol.solve_adjoint` differentiates one drawn case "
            f"on its true boundary, on a {SIDE} grid, with respect to a coefficient with one value per pixel. "
            "`keep_factors=True` keeps the factors of the solution for it; their size is in the last column. Times are "
            f"the best of {REPEATS} runs with one thread. Heat takes all steps up to 20 s. For its gradient they are "
            "taken once more, and then transposed in reverse.",
            table(
                ["problem", "coefficient", "solution, ms", "gradient, ms", "both / solution", "factors, MB"],
                rows,
            ),
            f"Machine: {processor()}.",
        ],
        options.write,
    )


if __name__ == "__main__":
    main()
