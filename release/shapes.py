"""Measure shipped models again on the named shapes, one by one, where that was not done when they were shipped.

    python release/shapes.py poisson-paper

The cases of the test are generated again, from what is stored about it, and must have the errors that are stored; card
and metrics are written anew.
"""

import argparse
from copy import deepcopy
from pathlib import Path
from tempfile import TemporaryDirectory

from disol import DisolError
from disol.data import generate
from disol.data.recipe import ALL_SHAPES
from disol.evaluation import evaluate
from disol.models import load_checkpoint
from disol.models.pretrained import PRETRAINED
from measure import summaries_by_shape
from ship import write_model

TOLERANCE = 1e-3  # relative, of the mean error: another device rounds otherwise, another case differs by more


def measure_shapes(folder: Path, device: str, workers: int | None) -> Path:
    """Measure one model."""
    shipped = load_checkpoint(folder)
    metrics = deepcopy(shipped.metrics)
    for name, test in metrics["tests"].items():
        if test["shift"] != ALL_SHAPES or "frames" in test:
            continue
        with TemporaryDirectory() as scratch:
            known = {key: test[key] for key in ("seed", "shift", "conventions", "resolution")}
            path = Path(scratch, f"{name}.h5")
            generate(shipped.problem, test["cases"], path, device=device, workers=workers, **known)
            found = evaluate(shipped, path, device=device).files[0]
        mean, stored = found.summaries[0]["rel_l2"].mean, test["metrics"]["rel_l2"]["mean"]
        if abs(mean - stored) > TOLERANCE * stored:
            raise DisolError(
                f"{folder} has a mean rel_l2 of {stored:.6g} on {name}, now found {mean:.6g}. Ship it again."
            )
        test.update(summaries_by_shape(found))
    return write_model(folder, shipped, metrics)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", help="of shipped models")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--workers", type=int, help="processes that draw and solve")
    options = parser.parse_args()
    try:
        for name in options.names:
            print(measure_shapes(PRETRAINED / name, options.device, options.workers))
    except DisolError as error:
        parser.exit(2, f"{error}\n")


if __name__ == "__main__":
    main()
