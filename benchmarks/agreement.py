"""How closely the batched solver agrees with the reference solver, over many drawn cases of every problem."""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

import disol
from disol.fem import ELEMENTS, forms
from disol.geometry.shapes import OUTLINES
from disol.grid import Grid
from disol.problems.table import find_conventions
from disol.solvers import solve_systems, step_systems
from report import processor, publish, table

SHAPES = [f"shape:{name}+hole" for name in OUTLINES]


def compare(problem: str, shifts: Sequence[str | None], count: int, device: str) -> list[str]:
    """Solve cases both ways and return the largest relative L2 difference and backward error."""
    cases = [disol.draw(problem, 31, index, shift=shifts[index % len(shifts)]) for index in range(count)]
    grid = Grid(cases[0].resolution, cases[0].resolution)
    element = ELEMENTS["q1"](grid.h)
    systems = [case.equation.system(case.terms, find_conventions("paper"), element) for case in cases]
    if problem == "heat":
        initial = [case.equation.initial_nodes(case.terms) for case in cases]  # type: ignore[attr-defined]
        evolution = step_systems(systems, forms.mass(element), initial, [10], device)
        nodes, errors, fallbacks = evolution.frames[:, 0], evolution.backward_error, evolution.fallbacks
        expected = [disol.solve_exact(case, times=[20.0]).nodes[0] for case in cases]
    else:
        solution = solve_systems(systems, device)
        nodes, errors, fallbacks = solution.nodes, solution.backward_error, solution.fallbacks
        expected = [system.solve() for system in systems]
    gaps = [
        float(np.linalg.norm(found - exact) / np.linalg.norm(exact))
        for found, exact in zip(nodes.cpu().numpy(), expected, strict=True)
    ]
    kind = "in distribution" if shifts == [None] else "named shapes" if shifts == SHAPES else "out of distribution"
    return [problem, kind, str(count), f"{max(gaps):.1e}", f"{float(errors.max()):.1e}", str(len(fallbacks))]


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
    heading = ["problem", "cases", "number", "largest relative L2 difference", "largest backward error", "fallbacks"]
    publish(
        [
            "# Batched against reference",
            f"Written by `python benchmarks/agreement.py --device {options.device}`: nodal values of the batched "
            "solver against the reference solver, on the problem's own grid (heat at 20 s).",
            f"Machine: {name}{processor()}.",
            table(heading, rows),
        ],
        options.write,
    )


if __name__ == "__main__":
    main()
