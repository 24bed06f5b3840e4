"""Results of runs that nobody made, and settings for them."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from disol.comparison.config import ComparisonConfig, read_comparison
from disol.comparison.plan import PlannedRun
from disol.comparison.records import ERRORS, RecordedTest, RunRecord, Shown
from disol.training import EpochRecord

SETTINGS = """
problem = "poisson"
conventions = "paper"
seeds = [0, 1, 2, 3]
[data]
cases = 40
resolution = 16
[tests]
id = 6
shapes = 7
[train]
epochs = 4
batch_size = 8
[report]
threshold = 0.25
[[models]]
name = "disol"
[[models]]
name = "unet"
"""


def write_settings(folder: Path, text: str = SETTINGS, name: str = "made-up") -> Path:
    path = folder / f"{name}.toml"
    path.write_text(text)
    return path


def made_up_config(folder: Path, *overrides: str) -> ComparisonConfig:
    return read_comparison(write_settings(folder), overrides)


def made_up_record(
    run: PlannedRun,
    losses: Sequence[float],
    *,
    pace: float = 1.0,
    error: float = 0.1,
    refused: int = 0,
    diverged: str = "",
    device: str = "CPU",
    side_by_side: int = 1,
) -> RunRecord:
    """Return a run whose epochs take `pace` seconds each, and whose errors are `error` on every case."""
    curve = tuple(EpochRecord(n, loss, loss, 1e-3, pace * n, 100.0) for n, loss in enumerate(losses, start=1))
    tests = {}
    for name, asked in run.config.tests.items():
        kept = asked - refused
        shift = tuple("shape:arrow+hole" if index % 2 else "shape:y+hole" for index in range(kept))
        pattern = np.zeros((1, 16, 16), np.float32)
        pattern[0, 4:12, 4:12] = np.linspace(0, 1, 8)
        tests[name] = RecordedTest(
            asked,
            tuple(range(kept)),
            shift if name == "shapes" else ("",) * kept,
            0.5,
            {each: np.full(kept, error) for each in ERRORS},
            (Shown(0, pattern),) if kept else (),
        )
    return RunRecord(
        identity=run.identity,
        model_config={"width": 8},
        parameters=1000,
        real_numbers=1500,
        cases=32 - refused,
        refused=refused,
        curve=curve,
        seconds=pace * len(losses),
        device=device,
        side_by_side=side_by_side,
        inference=1e-4,
        batch_size=64,
        tests=tests,
        diverged=diverged,
    )
