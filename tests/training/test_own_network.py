"""A network of one's own may keep running means and draw random numbers; it is kept and resumed like any other."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from interrupted import assert_same_result, stopped_after
from torch import nn

from disol.data import CaseDataset
from disol.models import MODELS, Network, load_checkpoint
from disol.models.config import ModelConfig
from disol.models.table import Architecture
from disol.nn import project
from disol.training import RunReport, read_history, train
from disol.training.devices import launch, seeded

Train = Callable[..., RunReport]
STEPS = 4  # of an epoch


@dataclass(frozen=True)
class NormalisedConfig(ModelConfig):
    """Settings of a network that normalises by the statistics of batches."""

    width: int = 4

    @classmethod
    def for_problem(cls, problem: str) -> "NormalisedConfig":
        """Return the same for all."""
        del problem
        return cls()


class Normalised(Network):
    """Two convolutions, and between them what knows of earlier batches."""

    def __init__(self, config: NormalisedConfig, channels, fields) -> None:
        super().__init__(config, channels, fields)
        self.layers = nn.Sequential(
            nn.Conv2d(len(channels), config.width, 3, padding=1),
            self.between(config),
            nn.GELU(),
            nn.Conv2d(config.width, len(fields), 3, padding=1),
        )

    def between(self, config: NormalisedConfig) -> nn.Module:
        """Normalise each channel."""
        return nn.BatchNorm2d(config.width)

    def forward(self, inputs):
        """Predict a pattern."""
        return project(self.layers(inputs), self.domain_of(inputs))


class Forgetful(Normalised):
    """The same with features that are left out at random."""

    def between(self, config: NormalisedConfig) -> nn.Module:
        """Leave out half of the features."""
        del config
        return nn.Dropout(0.5)


OWN = {
    "normalised": Architecture(NormalisedConfig, Normalised),
    "forgetful": Architecture(NormalisedConfig, Forgetful),
}


@pytest.fixture(autouse=True)
def own_models(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, architecture in OWN.items():
        monkeypatch.setitem(MODELS, name, architecture)


def running_statistics(folder: Path) -> dict[str, torch.Tensor]:
    return dict(load_checkpoint(folder).model.layers[1].named_buffers())


@pytest.mark.parametrize("averaging", [0, 0.999])
def test_running_means_are_kept_and_come_from_the_steps_of_training_alone(
    train_small: Train, tmp_path: Path, averaging: float
) -> None:
    report = train_small("run", f"train.averaging={averaging}", model="normalised", model_settings={})
    kept = running_statistics(tmp_path / "run")
    assert int(kept["num_batches_tracked"]) == STEPS * report.best_epoch
    assert (kept["running_mean"] != 0).all()
    assert (kept["running_var"] != 1).all()


@pytest.mark.parametrize("model", OWN)
def test_a_resumed_run_goes_on_with_its_running_means_and_random_numbers(
    train_small: Train, tmp_path: Path, model: str
) -> None:
    own = {"model": model, "model_settings": {}}
    train_small("straight", **own)
    with stopped_after(2):
        train_small("stopped", **own)
    train_small("stopped", resume=True, **own)
    assert_same_result(tmp_path / "straight", tmp_path / "stopped")


def test_what_a_network_draws_depends_on_the_seed_and_the_epoch_alone(train_small: Train, tmp_path: Path) -> None:
    own = {"model": "forgetful", "model_settings": {}}
    for name in ("first", "second"):
        torch.rand(3)  # as anything else before a run might draw
        train_small(name, **own)
    assert_same_result(tmp_path / "first", tmp_path / "second")
    train_small("still", "train.learning_rate=0", "train.symmetry=false", **own)
    assert len({record.train_loss for record in read_history(tmp_path / "still")}) > 1


def test_a_seeded_epoch_leaves_the_random_numbers_of_others_alone() -> None:
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    with seeded(launch("cpu"), seed=5, epoch=2):
        assert not torch.equal(torch.rand(3), expected)
    assert torch.equal(torch.rand(3), expected)


def test_the_model_kept_by_two_processes_has_the_loss_they_claim(file_of: Callable[..., Path], tmp_path: Path) -> None:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command = [*launcher, __file__, str(file_of("poisson")), str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    cases = CaseDataset(file_of("poisson"), "validation").to_device("cpu")
    batch, kept = cases.batch(torch.arange(len(cases))), load_checkpoint(tmp_path / "run")
    with torch.no_grad():
        grid_mae = float((kept.model(batch["inputs"]) - batch["target"]).abs().mean())
    assert grid_mae == pytest.approx(kept.metrics["validation_loss"], rel=1e-5)


if __name__ == "__main__":
    MODELS.update(OWN)
    train("poisson", *sys.argv[1:], model="normalised", overrides=["train.batch=8", "train.epochs=1"], device="cpu")
