"""Measure the physical fields of shipped models again, where predicting has changed and their weights have not.

    python release/fields.py poisson heat

The first cases of each of their tests are drawn again, from what is stored about it; card and metrics are written anew.
"""

import argparse
from copy import deepcopy
from itertools import islice
from pathlib import Path

import disol
from disol import DisolError
from disol.data.recipe import read_recipe
from disol.models import load_checkpoint
from disol.models.pretrained import PRETRAINED
from measure import measure_cases
from ship import write_model


def measure_again(folder: Path, num_cases: int, device: str) -> Path:
    """Measure one model."""
    shipped = load_checkpoint(folder)
    metrics, surrogate = deepcopy(shipped.metrics), disol.load(shipped, device=device)
    for test in metrics["tests"].values():
        known = [test[key] for key in ("seed", "shift", "conventions", "resolution")]
        recipe = read_recipe(shipped.problem.name, *known)
        drawn = ((recipe.draw(index), None) for index in range(test["cases"]))
        test["solved"] = measure_cases(surrogate, islice(drawn, num_cases))
    return write_model(folder, shipped, metrics)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", help="of shipped models")
    parser.add_argument("--cases", type=int, default=300, help="of each test")
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    try:
        for name in options.names:
            print(measure_again(PRETRAINED / name, options.cases, options.device))
    except DisolError as error:
        parser.exit(2, f"{error}\n")


if __name__ == "__main__":
    main()
