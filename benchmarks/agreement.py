"""How closely the batched solver agrees with the reference solver, on drawn cases of every problem."""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

import disol
from disol import Case
from disol.fem import System
from disol.geometry.shapes import OUTLINES
from disol.solvers import solve_systems
from report import processor, publish, table

SHAPES = [f"shape:{name}+hole" for name in OUTLINES]
LAST_STEP = 10  # of a transient problem: 20 s


def compare(problem: str, shifts: Sequence[str | None], count: int, device: str) -> list[str]:
    """Solve cases both ways and return the largest relative L2 difference and backward error."""
    cases = [
        Case.draw(problem, 31, index, shift=shifts[index % len(shifts)], conventions="paper") for index in range(count)
    ]
    systems = [case.system() for case in cases]
    steps = None if cases[0].times is None else [LAST_STEP]
    found = solve_systems(System.stack(systems), steps, device)
    gaps = [
        float(np.linalg.norm(nodes - exact) / np.linalg.norm(exact))
        for nodes, exact in zip(found.frames.cpu().numpy(), (system.solve(steps) for system in systems), strict=True)
    ]
    kind = "in distribution" if shifts == [None] else "named shapes" if shifts == SHAPES else "out of distribution"
    numbers = [f"{max(gaps):.1e}", f"{float(found.backward_error.max()):.1e}", str(len(found.fallbacks))]
    return [problem, kind, str(count), *numbers]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--cases", type=int, default=100, help="of each kind: in and out of distribution")
    parser.add_argument("--write", type=Path, help="where to write the page")
    options = parser.parse_args()
    rows = []
    for problem in disol.PROBLEMS:
        rows.append(compare(problem, [None], options.cases, options.device))
        rows.append(compare(problem, ["all"], options.cases, options.device))
        rows.append(compare(problem, SHAPES, len(SHAPES), options.device))
    name = f"{torch.cuda.get_device_name()}; " if options.device == "cuda" else ""
    heading = ["problem", "kind of cases", "cases"]
    heading += ["largest relative L2 difference", "largest backward error", "fallbacks"]
    publish(
        [
            "# Batched against reference",
            f"Written by `python benchmarks/agreement.py --device {options.device}`.",
            "Both solvers solve the same drawn cases on the grid of each problem. The table compares their nodal "
            "values, for heat at 20 s. Cases out of distribution are shifted by `all`. A *fallback* is a case that the "
            "reference solver solved because the batched solver missed its tolerance.",
            f"Machine: {name}{processor()}.",
            table(heading, rows),
        ],
        options.write,
    )


if __name__ == "__main__":
    main()
