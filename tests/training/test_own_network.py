"""A network of one's own may keep running means and draw random numbers; it is kept and resumed like any other."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from interrupted import assert_same_result, stopped_after
from torch import nn

from disol.data import CaseDataset
from disol.models import load_checkpoint
from disol.training import RunReport, read_history, train
from disol.training.distributed import join_processes

Train = Callable[..., RunReport]
STEPS = 4  # of an epoch


class Normalised(nn.Module):
    """Two convolutions, and between them what knows of earlier batches."""

    def __init__(self, num_channels: int, num_fields: int, width: int = 4) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(num_channels, width, 3, padding=1),
            self.between(width),
            nn.GELU(),
            nn.Conv2d(width, num_fields, 3, padding=1),
        )

    def between(self, width: int) -> nn.Module:
        """Normalise each channel."""
        return nn.BatchNorm2d(width)

    def forward(self, inputs):
        """Predict a pattern; the first channel is the domain."""
        return self.layers(inputs) * inputs[:, :1]


class Forgetful(Normalised):
    """The same with features that are left out at random."""

    def between(self, width: int) -> nn.Module:
        """Leave out half of the features."""
        del width
        return nn.Dropout(0.5)


OWN = [Normalised, Forgetful]


def running_statistics(folder: Path) -> dict[str, torch.Tensor]:
    return dict(load_checkpoint(folder, model=Normalised).network.layers[1].named_buffers())


@pytest.mark.parametrize("ema_decay", [0, 0.999])
def test_running_means_are_kept_and_come_from_the_steps_of_training_alone(
    train_small: Train, tmp_path: Path, ema_decay: float
) -> None:
    report = train_small("run", f"train.ema_decay={ema_decay}", model=Normalised, model_settings={})
    kept = running_statistics(tmp_path / "run")
    assert int(kept["num_batches_tracked"]) == STEPS * report.best_epoch
    assert (kept["running_mean"] != 0).all()
    assert (kept["running_var"] != 1).all()


@pytest.mark.parametrize("model", OWN)
def test_a_resumed_run_goes_on_with_its_running_means_and_random_numbers(
    train_small: Train, tmp_path: Path, model: type[nn.Module]
) -> None:
    own = {"model": model, "model_settings": {}}
    train_small("straight", **own)
    with stopped_after(2):
        train_small("stopped", **own)
    train_small("stopped", resume=True, **own)
    assert_same_result(tmp_path / "straight", tmp_path / "stopped", model)


def test_what_a_network_draws_depends_on_the_seed_and_the_epoch_alone(train_small: Train, tmp_path: Path) -> None:
    own = {"model": Forgetful, "model_settings": {}}
    for name in ("first", "second"):
        torch.rand(3)  # as anything else before a run might draw
        train_small(name, **own)
    assert_same_result(tmp_path / "first", tmp_path / "second", Forgetful)
    train_small("still", "train.learning_rate=0", "train.augment_symmetry=false", **own)
    assert len({record.train_loss for record in read_history(tmp_path / "still")}) > 1


def test_a_seeded_epoch_leaves_the_random_numbers_of_others_alone() -> None:
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    with join_processes("cpu").seeded(seed=5, epoch=2):
        assert not torch.equal(torch.rand(3), expected)
    assert torch.equal(torch.rand(3), expected)


def test_the_model_kept_by_two_processes_has_the_loss_they_claim(file_of: Callable[..., Path], tmp_path: Path) -> None:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command = [*launcher, __file__, str(file_of("poisson")), str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    cases = CaseDataset(file_of("poisson"), "validation").to_device("cpu")
    batch, kept = cases.batch(torch.arange(len(cases))), load_checkpoint(tmp_path / "run", model=Normalised)
    with torch.no_grad():
        grid_mae = float((kept.network(batch["inputs"]) - batch["target"]).abs().mean())
    assert grid_mae == pytest.approx(kept.metrics["validation_loss"], rel=1e-5)


def test_a_class_is_called_with_its_settings_and_a_run_remembers_them(train_small: Train, tmp_path: Path) -> None:
    train_small("run", "model.width=6", model=Normalised, model_settings={}, epochs=1)
    kept = load_checkpoint(tmp_path / "run", model=Normalised)
    assert kept.card.model_config == {"width": 6}
    assert kept.network.layers[0].out_channels == 6
    again = train_small("run", "model.width=6", model=Normalised, model_settings={}, epochs=1, resume=True)
    assert again.path == tmp_path / "run"
    with pytest.raises(ValueError, match=r"was begun with model.width=6, now asked for 5"):
        train_small("run", "model.width=5", model=Normalised, model_settings={}, epochs=1, resume=True)


class OneGrid(nn.Module):
    """Has weights for every pixel of the files here, whose grid is not the problem's own."""

    def __init__(self, num_channels: int, num_fields: int, side: int = 16) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(num_fields, num_channels, side, side))

    def forward(self, inputs):
        return (self.weights * inputs[:, None]).sum(2) * inputs[:, :1]


def test_a_network_for_one_grid_is_trained_on_cases_of_that_grid(train_small: Train, tmp_path: Path) -> None:
    train_small("run", model=OneGrid, model_settings={}, epochs=1)
    assert load_checkpoint(tmp_path / "run", model=OneGrid).network.weights.any()
    with pytest.raises(ValueError, match=r"OneGrid must map .* \[1, 3, 16, 16\] to u .*, but raised RuntimeError"):
        train_small("other", model=OneGrid, model_settings={"side": 12}, epochs=1)


def test_a_run_resumed_without_settings_needs_its_network_alone(
    train_small: Train, file_of: Callable[..., Path], tmp_path: Path
) -> None:
    own = {"model": Normalised, "model_settings": {}}
    train_small("straight", "model.width=6", **own)
    with stopped_after(2):
        train_small("stopped", "model.width=6", **own)
    again = {"data": file_of("poisson"), "out": tmp_path / "stopped", "resume": True, "device": "cpu"}
    with pytest.raises(ValueError, match=r"is a run of your own network .*:Normalised\. Pass its model too"):
        train("poisson", **again)
    train("poisson", model=Normalised, **again)
    assert_same_result(tmp_path / "straight", tmp_path / "stopped", Normalised)


def test_training_begins_with_the_weights_of_an_object_and_leaves_it_alone(train_small: Train, tmp_path: Path) -> None:
    own = Normalised(3, 1)
    before = {name: value.clone() for name, value in own.state_dict().items()}
    still = ("train.learning_rate=0", "train.ema_decay=0")
    train_small("still", *still, model=own, model_settings={}, epochs=1)
    kept = load_checkpoint(tmp_path / "still", model=Normalised).network.state_dict()
    assert torch.equal(kept["layers.0.weight"], before["layers.0.weight"])
    train_small("moved", model=own, model_settings={}, epochs=2)
    assert all(torch.equal(value, before[name]) for name, value in own.state_dict().items())
    with stopped_after(1):
        train_small("stopped", model=own, model_settings={}, epochs=2)
    with pytest.raises(ValueError, match=r"was begun with start='[0-9a-f]+', now asked for '[0-9a-f]+'"):
        train_small("stopped", model=Normalised(3, 1), model_settings={}, epochs=2, resume=True)
    train_small("stopped", model=own, model_settings={}, epochs=2, resume=True)
    assert_same_result(tmp_path / "moved", tmp_path / "stopped", Normalised)


def test_a_network_of_ones_own_can_be_trained_further(train_small: Train, tmp_path: Path) -> None:
    train_small("first", "model.width=6", model=Normalised, model_settings={}, epochs=1)
    further = {"model_settings": {}, "epochs": 1}
    report = train_small("further", start=tmp_path / "first", model=Normalised, **further)
    assert load_checkpoint(report.path, model=Normalised).network.layers[0].out_channels == 6
    with pytest.raises(ValueError, match=r"network of one's own.*Normalised. Pass it too"):
        train_small("unknown", start=tmp_path / "first", **further)


class Complex(Normalised):
    """Has weights that are complex."""

    def between(self, width: int) -> nn.Module:
        """Shift each channel."""
        shift = nn.Module()
        shift.value = nn.Parameter(torch.zeros(width, 1, 1, dtype=torch.complex64))
        shift.forward = lambda features: features + shift.value.abs()
        return shift


def test_complex_weights_are_trained_by_adamw_and_refused_by_muon(file_of: Callable[..., Path], tmp_path: Path) -> None:
    changes = ["train.batch_size=8", "train.epochs=1"]
    with pytest.raises(ValueError, match=r"muon needs real weights, .* Use train.optimizer=adamw"):
        train("poisson", file_of("poisson"), tmp_path / "muon", model=Complex, overrides=changes, device="cpu")


if __name__ == "__main__":
    changes = ["train.batch_size=8", "train.epochs=1"]
    train("poisson", *sys.argv[1:], model=Normalised, overrides=changes, device="cpu")
