"""A run that was damaged or altered in any way is refused in one line, or is read as it was."""

import random
import resource
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from interrupted import stopped_after
from mutants import EVALUATION, Reader, check_mutant, make_mutant

from disol import PROBLEMS
from disol.training import choose_settings
from disol.training.run import read_task, train

MUTANTS = 300
SMALLEST = {"width": 1, "depth": 1, "gated_skips": 0, "geometry_width": 1, "physics_width": 1, "film_width": 1}
SETTINGS = {
    "overrides": ["train.batch_size=8", "train.epochs=2"],
    "model_settings": SMALLEST | {"expansion": 1, "head_width": 1},
}


def make_run(data: Path, out: Path) -> tuple[Path, Reader]:
    """Make a run that was stopped halfway, with an evaluation, and what reads it."""
    with stopped_after(1):
        train("poisson", data, out, device="cpu", **SETTINGS)
    (out / "evaluation").mkdir()
    (out / "evaluation" / EVALUATION).write_text('{"format": "disol evaluation 1", "written": {"errors.png": "00"}}')
    task = read_task(PROBLEMS["poisson"], choose_settings("poisson", **SETTINGS), data, out)
    return out, Reader(task)


def test_a_mutant_is_refused_or_read_as_it_was(file_of: Callable[..., Path], tmp_path: Path) -> None:
    original, reader = make_run(file_of("poisson"), tmp_path / "run")
    expected = reader.read(shutil.copytree(original, tmp_path / "copy"))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    outcomes: Counter[str] = Counter()
    for seed in range(MUTANTS):
        name, is_signed = make_mutant(original, tmp_path / "mutant", random.Random(seed))
        try:
            outcomes[check_mutant(reader, tmp_path / "mutant", is_signed, expected)] += 1
        except Exception as error:
            pytest.fail(f"mutant {seed} of {name}{' (signed)' if is_signed else ''}: {error!r}")
    assert outcomes["refused"] > MUTANTS / 2
    assert outcomes["equal"] > 5
    assert outcomes["read"] > 5
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 10**6  # kB
