"""Fine-tune a shipped model on cases of your own: what that gains there, and what it costs in distribution."""

import tempfile
from pathlib import Path

import numpy as np

import disol

SIDE = 64  # the grid of the model
MODEL = "poisson-paper"  # which has seen no holes
PARTS = 80
EPOCHS = 10


def plate(centre: np.ndarray, radius: float) -> dict[str, np.ndarray]:
    """A plate with a round hole, held at its outer edge; sources lie in [0, 1], as those of the drawn cases do."""
    row, column = np.mgrid[:SIDE, :SIDE] / SIDE
    margin = np.minimum.reduce([row, column, 1 - 1 / SIDE - row, 1 - 1 / SIDE - column])
    domain = (margin >= 0.1) & (np.hypot(column - centre[0], row - centre[1]) > radius)
    return {"domain": domain, "dirichlet": domain & (margin < 0.1 + 1 / SIDE), "source": column}


def mean_error(model: str | Path, path: Path) -> float:
    """Mean relative L2 error over the validation cases."""
    evaluation = disol.evaluate(model, path, split="validation", progress=False)
    return evaluation.files[0].summaries[0]["rel_l2"].mean


rng = np.random.default_rng(0)
parts = [plate(rng.uniform(0.35, 0.65, 2), rng.uniform(0.05, 0.2)) for _ in range(PARTS)]

with tempfile.TemporaryDirectory() as folder:
    own, drawn, run = Path(folder) / "own.h5", Path(folder) / "drawn.h5", Path(folder) / "run"
    disol.data.write_cases("poisson", parts, own)  # solved exactly; the first 80 % train, the others validate
    disol.generate("poisson", PARTS, drawn, seed=1, workers=0)  # the distribution that the model was trained on
    changes = [f"train.epochs={EPOCHS}", "train.batch_size=16"]
    report = disol.train("poisson", own, run, start=MODEL, overrides=changes)
    before, after = ([mean_error(model, path) for path in (own, drawn)] for model in (MODEL, run))

print(*report.notes)
print(f"in distribution: {before[1]:.4f} before, {after[1]:.4f} after")
print(f"own cases: {before[0]:.4f} before, {after[0]:.4f} after")
