"""Finding and loading a trained model, and predicting with it."""

from pathlib import Path

import numpy as np
import pytest
import torch

import disol
from disol.inference import loading
from disol.models import create_model, save_checkpoint


def save(folder, storage="float32"):
    torch.manual_seed(0)
    model = create_model("disol", "poisson", width=4, depth=2, gated_skips=1)
    return save_checkpoint(folder, model, "poisson", conventions="published", resolution=32, storage=storage)


@pytest.fixture
def folder(tmp_path):
    return save(tmp_path / "run")


@pytest.fixture
def shipped(tmp_path, monkeypatch):
    """Two models that come with the package."""
    pretrained = tmp_path / "pretrained"
    for name in ("poisson", "another"):
        save(pretrained / name)
    (pretrained / "no-model").mkdir()
    monkeypatch.setattr(loading, "PRETRAINED", pretrained)
    return pretrained


def test_a_loaded_model_knows_what_it_was_trained_on(folder):
    model = disol.load(folder)
    assert (model.problem, model.conventions, model.resolution) == ("poisson", "published", 32)
    assert model.channels == ("domain", "dirichlet", "source")
    assert model.normalisation == "joint"


def test_predictions_are_numpy_in_and_numpy_out_and_zero_outside_the_domain(folder):
    case = disol.draw("poisson", resolution=32, conventions="published")
    pattern = disol.load(folder).predict(case.inputs[None])
    assert pattern.shape == (1, 1, 32, 32)
    assert pattern.dtype == np.float32
    assert not pattern[0, 0][~case.terms["domain"]].any()


@pytest.mark.parametrize("inputs", [np.zeros((3, 32, 32)), np.zeros((1, 2, 32, 32)), np.full((1, 3, 8, 8), "a")])
def test_inputs_of_another_shape_are_one_clear_error(folder, inputs):
    with pytest.raises(ValueError, match="domain, dirichlet, source"):
        disol.load(folder).predict(inputs)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([np.zeros((3, 32, 32)), np.zeros((3, 16, 16))], "inputs must be one array, got rows or cases of different"),
        (torch.zeros(1, 3, 32, 32, requires_grad=True), "inputs must be what NumPy reads as an array, got a Tensor"),
        (np.full((1, 3, 32, 32), -1e39), r"inputs must not exceed 3.4e\+38.*got 1.0e\+39"),
    ],
)
def test_inputs_that_are_no_float32_array_are_one_clear_error(folder, inputs, message):
    with pytest.raises(ValueError, match=message):
        disol.load(folder).predict(inputs)


def test_a_model_of_another_problem_is_one_clear_error(folder):
    with pytest.raises(ValueError, match="trained on 'poisson', not 'heat'"):
        disol.load(folder, problem="heat")


def test_float16_checkpoints_predict_nearly_the_same(folder, tmp_path):
    inputs = disol.draw("poisson", resolution=32, conventions="published").inputs[None]
    whole, half = disol.load(folder), disol.load(save(tmp_path / "half", storage="float16"))
    assert np.abs(half.predict(inputs) - whole.predict(inputs)).max() < 1e-2
    assert (half.predict(inputs) != whole.predict(inputs)).any()


def test_shipped_models_are_found_by_name(shipped):
    assert disol.list_pretrained() == ["another", "poisson"]
    assert disol.load("poisson").checkpoint.path == shipped / "poisson"


def test_a_name_beats_a_folder_of_that_name_unless_it_is_written_as_a_path(shipped, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save(tmp_path / "poisson")
    save(tmp_path / "mine")
    assert disol.load("poisson").checkpoint.path == shipped / "poisson"
    for folder in ("./poisson", Path("poisson"), "mine"):
        assert disol.load(folder).checkpoint.path == Path(folder)


def test_an_unknown_name_lists_the_known_ones(shipped):
    with pytest.raises(ValueError, match=r"Unknown model 'poison'.*another, poisson"):
        disol.load("poison")
    with pytest.raises(ValueError, match="name or a folder, got 3"):
        disol.load(3)


def test_a_path_that_does_not_exist_is_called_so(shipped):
    with pytest.raises(ValueError, match="runs/poisson does not exist"):
        disol.load("runs/poisson")


@pytest.mark.parametrize(("option", "value"), [("engine", "abacus"), ("precision", "float8"), ("device", "tpu")])
def test_options_that_do_not_exist_are_refused_when_loading(folder, option, value):
    with pytest.raises(ValueError, match=f"Unknown {option} '{value}'"):
        disol.load(folder, **{option: value})
