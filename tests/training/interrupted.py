"""Runs that are interrupted, and whether they end as if nothing had happened."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from disol.models import load_checkpoint
from disol.training import read_history
from disol.training.epochs import Run


@contextmanager
def stopped_after(epochs: int) -> Iterator[None]:
    """Let Ctrl-C arrive in the epoch after `epochs`."""
    train_epoch = Run.train_epoch

    def interrupted(run, pace, tell):
        if run.epoch == epochs:
            raise KeyboardInterrupt
        return train_epoch(run, pace, tell)

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(Run, "train_epoch", interrupted)
        with pytest.raises(KeyboardInterrupt):
            yield


def losses(folder: Path) -> list[tuple[float, float, float]]:
    return [(record.train_loss, record.validation_loss, record.learning_rate) for record in read_history(folder)]


def assert_same_result(first: Path, second: Path, model=None) -> None:
    assert losses(first) == losses(second)
    ours, theirs = (load_checkpoint(folder, model=model).network.state_dict() for folder in (first, second))
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
