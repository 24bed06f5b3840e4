"""Rank cantilevers with a hole by their largest displacement: by a network alone, and by exact solutions.

    python benchmarks/beams.py --beams 200

Every beam is clamped at its left end and pulled downwards at the other. Beams differ in length and depth, and in the
place and size of the hole. `predict` refuses elasticity, because displacements sized without a solution are too small.
This script measures by how much, and whether they would still rank the beams correctly.
"""

import argparse
from collections.abc import Iterator

import numpy as np
import torch
from scipy.stats import spearmanr

import disol
from disol.fem import System
from disol.surrogate.prediction import predict_shapes, projected_sizes

SIDE = 128


def draw_beams(count: int, seed: int = 0) -> Iterator[disol.Case]:
    """Draw beams that are 23 to 60 pixels deep and 80 to 112 pixels long."""
    rng = np.random.default_rng(seed)
    row, column = np.mgrid[:SIDE, :SIDE]
    for _ in range(count):
        top, bottom, left, right = (int(rng.integers(*ends)) for ends in ((35, 52), (75, 95), (8, 20), (100, 120)))
        x, y = rng.uniform(left + 25, right - 25), rng.uniform(top + 10, bottom - 10)
        radius = rng.uniform(4, min(y - top, bottom - y) - 4)
        body = (row >= top) & (row < bottom) & (column >= left) & (column < right)
        body &= (column - x) ** 2 + (row - y) ** 2 >= radius**2
        clamped, pulled = body & (column == left), body & (column == right - 1)
        yield disol.Case.from_arrays(
            "elasticity",
            domain=body,
            fix_x=clamped,
            fix_y=clamped,
            force_x=0.0 * pulled,
            force_y=1.0 * pulled,
            conventions="paper",
        )


def largest_by_projection(model: disol.surrogate.Surrogate, case: disol.Case) -> float:
    """Return max |U| as `predict` would size it."""
    with torch.inference_mode():
        shapes = predict_shapes(model.engine, case, model.normalisation, None)[:, :, 0]
        sizes = projected_sizes(System.stack([case.system()]), shapes, case.problem.symmetriser(case.grid))
        return float(torch.einsum("cs,cs...->c...", sizes, shapes).abs().max())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--beams", type=int, default=200)
    parser.add_argument("--models", nargs="+", default=["elasticity", "elasticity-paper"])
    options = parser.parse_args()
    beams = list(draw_beams(options.beams))
    true = np.array([np.abs(disol.solve_exact(beam).field).max() for beam in beams])
    for name in options.models:
        model = disol.load(name)
        found = np.array([largest_by_projection(model, beam) for beam in beams])
        errors, off = np.array([float(model.verify(beam).error) for beam in beams]), found / true - 1
        print(
            f"{name}, {len(beams)} beams: rank correlation of max |U| {spearmanr(found, true).statistic:.3f}; its size "
            f"off by {np.median(off):+.1%} in the median, {np.percentile(np.abs(off), 95):.1%} at p95; pattern off by "
            f"{np.median(errors):.1%} in the median, {np.percentile(errors, 95):.1%} at p95"
        )


if __name__ == "__main__":
    main()
