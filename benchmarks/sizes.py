"""How accurately `model.predict` finds the size of a pattern, and what each part of its projection is worth.

    python benchmarks/sizes.py --models poisson advection-diffusion-high --write docs/benchmarks/sizes.md

Every way takes the patterns p of one network for the same cases, drawn with seed 1, and gives each a size c. The table
lists |c / c* − 1|, where c* is the size for which c* p is nearest to the exact solution in L2. It also lists the mean
error of the field.

    least energy     (p · b) / (p · A p)
    weighted         (ρ p · b) / (ρ p · A p), with the weight ρ for which ρ A is symmetric
    smoothed         (w · b) / (w · A p), where w is p smoothed
    predict          smoothed and weighted, as the package does it
    nearest          c*, which needs the solution: no size does better
"""

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

import disol
from disol import Case, Surrogate
from disol.data.recipe import read_recipe
from disol.evaluation import summarise
from disol.fem import System
from disol.surrogate import prediction
from report import processor, publish, table

KINDS = {None: "in distribution", "all": "shifted by all", "shapes": "named shapes"}
WAYS = {"least energy": (0, False), "weighted": (0, True), "smoothed": (2, False), "predict": (2, True)}
NEAREST = "nearest"
CASES_AT_ONCE = 50


def sizes_of(model: Surrogate, cases: list[Case]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return |c / c* − 1| and the relative error of the field of each case, for every way; heat at 2 s."""
    times = None if cases[0].times is None else list(model.problem.times[:1])
    if times is not None:
        cases = [replace(case, terms={**case.terms, "times": tuple(times)}) for case in cases]
    exact = torch.from_numpy(np.stack([disol.solve_exact(case).field.reshape(-1) for case in cases]))
    system = System.stack([case.system() for case in cases])
    shapes = prediction.predict_shapes(model.engine, Case.stack(cases), model.normalisation, times)[:, :, 0].cpu()
    pattern = shapes.reshape(len(cases), -1)
    nearest = (pattern * exact).sum(1) / pattern.square().sum(1)
    rho = model.problem.symmetriser(cases[0].grid)
    found = {
        way: prediction.projected_sizes(system, shapes, rho if weighted else np.ones_like(rho), smoothings)[:, 0]
        for way, (smoothings, weighted) in WAYS.items()
    }
    return {
        way: (
            (size / nearest - 1).abs().numpy(),
            ((size[:, None] * pattern - exact).norm(dim=1) / exact.norm(dim=1)).numpy(),
        )
        for way, size in (found | {NEAREST: nearest}).items()
    }


def rows_of(name: str, options: argparse.Namespace) -> list[list[str]]:
    """Measure one model on every kind of case."""
    model = disol.load(name, device=options.device, precision=options.precision)
    rows = []
    for shift, kind in KINDS.items():
        recipe = read_recipe(model.problem.name, 1, shift, model.conventions.name, model.resolution)
        pieces = [
            sizes_of(model, [recipe.draw(index) for index in range(start, min(start + CASES_AT_ONCE, options.cases))])
            for start in range(0, options.cases, CASES_AT_ONCE)
        ]
        for way in (*WAYS, NEAREST):
            sizes, fields = (summarise(np.concatenate([piece[way][place] for piece in pieces])) for place in (0, 1))
            told = ["-"] * 2 if way == NEAREST else [f"{100 * each:.2g} %" for each in (sizes.median, sizes.p95)]
            rows.append([f"`{name}`", kind, way, *told, f"{100 * fields.mean:.2g} %"])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", required=True, help="names, or folders of runs")
    parser.add_argument("--cases", type=int, default=300, help="number of cases of each kind")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--write", type=Path, help="where to write the page")
    options = parser.parse_args()
    rows = [row for name in options.models for row in rows_of(name, options)]
    publish(
        [
            "# Sizes without a solution",
            f"Written by `python benchmarks/sizes.py --models {' '.join(options.models)} --cases {options.cases} "
            f"--precision {options.precision}`.",
            "A network predicts a pattern p. Its size c is found from the discrete system A u = b, without solving it. "
            "How accurate is the way of `model.predict` compared with simpler ones?",
            "- *off by*: |c / c* − 1|, where c* is the size for which c* p is nearest to the exact solution.\n"
            "- *error of the field*: the relative L2 error of c p.",
            "The ways:",
            "- `least energy`: c = (p · b) / (p · A p)\n"
            "- `weighted`: with the test function ρ p instead of p, where ρ is the weight for which ρ A is symmetric\n"
            "- `smoothed`: with p smoothed as the test function\n"
            "- `predict`: smoothed and weighted, as `model.predict` does it "
            "([how](../solving.md#how-a-prediction-gets-its-size))\n"
            "- `nearest`: c*, which needs the solution. No size does better.",
            "Heat is measured at 2 s.",
            f"Machine: torch {torch.__version__}; {processor()}.",
            table(["model", "cases", "size by", "off by, median", "off by, p95", "error of the field, mean"], rows),
        ],
        options.write,
    )


if __name__ == "__main__":
    main()
