"""Where bilinear elements lock on the true boundary: thin walls in bending, and nearly incompressible materials.

python benchmarks/locking.py --write docs/benchmarks/locking.md
"""

import argparse
from pathlib import Path

import numpy as np

import disol
from cut_references import cylinder
from disol.fem.cut_system import discretise
from disol.grid import Grid
from disol.solutions.true_boundary import solve_frames
from report import processor, publish, table

RATIOS = (0.3, 0.4, 0.45, 0.47, 0.49, 0.499)
DEPTHS = (1, 2, 3, 4, 6, 8)
FINER = 8


def cylinder_error(ratio: float, side: int) -> float:
    """Return the relative L2 error of the thick-walled cylinder."""
    reference, grid = cylinder(ratio), Grid(side, side)
    found = discretise(reference.region, grid, reference.form, reference.conditions).solve().pixels()
    inside = ~np.isnan(found[0])
    exact = reference.exact(*np.broadcast_arrays(*grid.pixel_centres()))
    return float(np.linalg.norm((found - exact)[:, inside]) / np.linalg.norm(exact[:, inside]))


def bending_error(depth: int) -> float:
    """Return by how much the end of a cantilever, 32 pixels long, moves too little compared with a finer grid."""
    body, end = np.zeros((2, 64, 64))
    body[30 : 30 + depth, 8:40], end[30 : 30 + depth, 39] = 1, 1
    held = np.roll(end, -31, axis=1)
    terms = {"domain": body, "fix_x": held, "fix_y": held, "force_x": 0 * end, "force_y": end}
    case = disol.Case.from_arrays("elasticity", **terms, conventions="physical")
    rows, columns = np.nonzero(body)
    x, y = (columns + 0.5) * case.grid.h, (rows + 0.5) * case.grid.h
    found, finer = (np.abs(solve_frames(case, refinement)[1].at(x, y)).max() for refinement in (1, FINER))
    return float(1 - found / finer)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, help="where to write the page")
    options = parser.parse_args()
    cylinders = [[f"{ratio:g}", *(f"{cylinder_error(ratio, side):.2%}" for side in (64, 128))] for ratio in RATIOS]
    walls = [[str(depth), f"{bending_error(depth):.1%}"] for depth in DEPTHS]
    publish(
        [
            "# Locking",
            "Written by `python benchmarks/locking.py`.",
            "On the true boundary (`physical`), bilinear elements are too stiff in two cases. Solutions of elasticity "
            "warn of both: of Poisson's ratios above 0.45, and of walls of less than 4 pixels.",
            "**Nearly incompressible materials:** relative L2 error of the thick-walled cylinder in plane strain as "
            "Poisson's ratio approaches ½, on two grids:",
            table(["Poisson's ratio", "error at 64", "error at 128"], cylinders),
            "**Thin walls in bending:** by how much the end of a cantilever, 32 pixels long, moves too little compared "
            f"with a grid {FINER} times finer:",
            table(["pixels across", "too little by"], walls),
            f"Machine: {processor()}.",
        ],
        options.write,
    )


if __name__ == "__main__":
    main()
