"""Several processes with the same global batches train as one does."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from disol import PROBLEMS
from disol.models import load_checkpoint
from disol.training import RunReport, choose_settings, read_history
from disol.training.clock import Clock
from disol.training.distributed import Processes
from disol.training.epochs import Run, prepare_network
from disol.training.folder import RunFolder
from disol.training.run import read_task

SCRIPT = """
import os, sys
from disol.training import loop, train
loop.TRIAL_STEPS = 1 + 3 * int(os.environ["RANK"])  # as if clocks disagreed about how many there is time for
train("heat", sys.argv[1], sys.argv[2], overrides=["train.batch_size=8", "train.epochs=4"], device="cpu",
      model_settings={"width": 4, "depth": 2, "gated_skips": 1})
"""


def test_two_processes_train_as_one_does(
    train_small: Callable[..., RunReport], file_of: Callable[..., Path], tmp_path: Path
) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command = [*launcher, str(script), str(file_of("heat")), str(tmp_path / "two")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    train_small("one", problem="heat")
    one, two = (read_history(tmp_path / name) for name in ("one", "two"))
    for ours, theirs in zip(one, two, strict=True):
        assert ours.train_loss == pytest.approx(theirs.train_loss, abs=1e-5)
        assert ours.validation_loss == pytest.approx(theirs.validation_loss, abs=1e-5)
        assert ours.learning_rate == theirs.learning_rate
    first, second = (load_checkpoint(tmp_path / name).network.state_dict() for name in ("one", "two"))
    for name, weight in first.items():
        torch.testing.assert_close(weight, second[name], rtol=1e-3, atol=1e-4)


def test_a_batch_that_processes_cannot_share_equally_is_refused(file_of: Callable[..., Path], tmp_path: Path) -> None:
    problem = PROBLEMS["poisson"]
    settings = choose_settings("poisson", overrides=["train.batch_size=8"])
    task = read_task(problem, settings, file_of("poisson"), tmp_path / "run")
    three = Processes(torch.device("cpu"), rank=0, size=3)
    first = prepare_network(task)
    with pytest.raises(ValueError, match=r"train.batch_size must be a multiple of the 3 processes, got 8\.$"):
        Run(task, first.network, RunFolder.of(task, first), Clock(1, 4), three)
