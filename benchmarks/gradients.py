"""How long gradients of the exact solution take beside it, and what keeping its factors takes.

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
ENTRY = 12  # bytes of an entry of the factors: a double and an index


def measure(problem: str, name: str) -> list[str]:
    """Measure a solution, its gradient in one coefficient per pixel, and the factors."""
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
            "Written by `python benchmarks/gradients.py`. One drawn case on its true boundary, on a "
            f"{SIDE} grid, and its gradient in one coefficient per pixel by `disol.solve_adjoint`, with factors that "
            f"`keep_factors=True` kept: best of {REPEATS}, one thread. Heat takes all steps up to 20 s; backwards they "
            "are taken once more before they are transposed.",
            table(
                ["problem", "gradient in", "solution, ms", "gradient, ms", "both / solution", "factors, MB"],
                rows,
            ),
            f"Machine: {processor()}.",
        ],
        options.write,
    )


if __name__ == "__main__":
    main()
