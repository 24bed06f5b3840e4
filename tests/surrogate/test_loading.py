"""Loading a surrogate by any handle, and predicting with it."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import disol
from disol.models import create_model, load_checkpoint, pretrained, save_checkpoint
from disol.surrogate import engines, loading


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
    folder = tmp_path / "pretrained"
    for name in ("poisson", "another"):
        save(folder / name)
    (folder / "no-model").mkdir()
    monkeypatch.setattr(pretrained, "PRETRAINED", folder)
    return folder


def test_a_loaded_model_knows_what_it_was_trained_on(folder):
    model = disol.load(folder)
    assert (model.problem.name, model.conventions.name, model.resolution) == ("poisson", "published", 32)
    assert model.channels == ("domain", "dirichlet", "source")
    assert model.normalisation.name == "joint"
    assert isinstance(model.network, torch.nn.Module)


def test_predictions_are_numpy_in_and_numpy_out_and_zero_outside_the_domain(folder):
    case = disol.draw("poisson", resolution=32, conventions="published")
    pattern = disol.load(folder).predict_pattern(case.inputs[None])
    assert pattern.shape == (1, 1, 32, 32)
    assert pattern.dtype == np.float32
    assert not pattern[0, 0][~case.terms["domain"]].any()


@pytest.mark.parametrize("inputs", [np.zeros((3, 32, 32)), np.zeros((1, 2, 32, 32)), np.full((1, 3, 8, 8), "a")])
def test_inputs_of_another_shape_are_one_clear_error(folder, inputs):
    with pytest.raises(ValueError, match="domain, dirichlet, source"):
        disol.load(folder).predict_pattern(inputs)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([np.zeros((3, 32, 32)), np.zeros((3, 16, 16))], "inputs must be one array, got rows or cases of different"),
        (torch.zeros(1, 3, 32, 32, requires_grad=True), "inputs must be what NumPy reads as an array, got a Tensor"),
        (np.full((1, 3, 32, 32), -1e39), r"inputs must not exceed 3.4e\+38.*got 1.0e\+39"),
        (np.full((1, 3, 32, 32), np.nan), "inputs holds NaN or infinite values"),
        (np.full((1, 3, 32, 32), np.inf, dtype=np.float32), "inputs holds NaN or infinite values"),
        (np.full((2, 3, 32, 32), [[[[1.0]], [[0.0]], [[1e-40]]]]), "channel source of case 0 must have .* 1.2e-38"),
    ],
)
def test_inputs_that_are_no_float32_array_are_one_clear_error(folder, inputs, message):
    with pytest.raises(ValueError, match=message):
        disol.load(folder).predict_pattern(inputs)


def test_a_model_of_another_problem_is_one_clear_error(folder):
    with pytest.raises(ValueError, match="trained on 'poisson', not 'heat'"):
        disol.load(folder, problem="heat")


def test_float16_checkpoints_predict_nearly_the_same(folder, tmp_path):
    inputs = disol.draw("poisson", resolution=32, conventions="published").inputs[None]
    whole, half = disol.load(folder), disol.load(save(tmp_path / "half", storage="float16"))
    assert np.abs(half.predict_pattern(inputs) - whole.predict_pattern(inputs)).max() < 1e-2
    assert (half.predict_pattern(inputs) != whole.predict_pattern(inputs)).any()


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
    with pytest.raises(ValueError, match=r"name of a shipped model, the folder of a run.*got 3"):
        disol.load(3)


def test_a_path_that_does_not_exist_is_called_so(shipped):
    with pytest.raises(ValueError, match="runs/poisson does not exist"):
        disol.load("runs/poisson")


@pytest.mark.parametrize(
    ("option", "value"),
    [("engine", "abacus"), ("engine", None), ("precision", "float8"), ("device", "tpu"), ("device", 3)],
)
def test_options_that_do_not_exist_are_refused_when_loading(folder, option, value):
    with pytest.raises(ValueError, match=f"Unknown {option} {value!r}"):
        disol.load(folder, **{option: value})


def test_engines_are_known_by_the_names_that_are_checked_before_torch_is_imported():
    assert tuple(engines.ENGINES) == loading.ENGINES


@pytest.mark.parametrize(
    "arguments",
    [
        "'poison'",
        "'runs/nowhere'",
        "'poisson', 'heat'",
        "'poisson', 'stokes'",
        "'poisson', device='tpu'",
        "'poisson', engine='abacus'",
        "'poisson', precision='float8'",
    ],
)
def test_a_wrong_argument_is_told_before_torch_is_imported(arguments):
    program = (
        "import sys, disol\n"
        f"try: disol.load({arguments})\n"
        "except disol.DisolError: assert 'torch' not in sys.modules\n"
        "else: assert False"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_every_handle_loads_the_same_network(folder):
    inputs = disol.draw("poisson", resolution=32, conventions="published").inputs[None]
    model, checkpoint = disol.load(folder), load_checkpoint(folder)
    expected = model.predict_pattern(inputs)
    for handle in (str(folder), model, checkpoint, checkpoint.network):
        assert np.array_equal(disol.load(handle).predict_pattern(inputs), expected)
    assert disol.load(model).checkpoint is model.checkpoint


class Halves(torch.nn.Module):
    """A network of one's own that knows nothing of this package."""

    def __init__(self, num_channels, num_fields):
        super().__init__()
        self.layer = torch.nn.Conv2d(num_channels, num_fields, 1)

    def forward(self, inputs):
        return self.layer(inputs) * inputs[:, :1]


def test_a_network_of_ones_own_is_loaded_with_its_problem_and_verified(tmp_path):
    network, case = Halves(3, 1), disol.draw("poisson", conventions="paper")
    with pytest.raises(ValueError, match=r"Halves does not say what it solves\. Pass its problem too"):
        disol.load(network)
    with pytest.raises(ValueError, match="Halves must map"):
        disol.load(network, "elasticity")
    model = disol.load(network, "poisson")
    assert 0 < model.verify(case).error < 1
    with pytest.raises(ValueError, match="a network of one's own"):
        disol.load(save_checkpoint(tmp_path / "own", network, "poisson"))
    again = disol.load(tmp_path / "own", model=Halves)
    assert np.array_equal(again.predict_pattern(case.inputs[None]), model.predict_pattern(case.inputs[None]))


def test_a_name_stands_for_a_problem_with_whatever_numbers_a_network_was_trained_with(tmp_path):
    steep = replace(disol.PROBLEMS["poisson"], diffusion=2.0)
    network = create_model("disol", steep, width=4, depth=2, gated_skips=1)
    folder = save_checkpoint(tmp_path / "run", network, steep, resolution=32)
    assert disol.load(folder, "poisson").problem == steep
    with pytest.raises(ValueError, match=r"trained with diffusion=2\.0, but the problem asked for has 1\.0"):
        disol.load(folder, disol.PROBLEMS["poisson"])
