"""Loading a trained model and predicting with it."""

import numpy as np
import pytest
import torch

import disol
from disol.models import create_model, save_checkpoint


@pytest.fixture
def folder(tmp_path):
    torch.manual_seed(0)
    model = create_model("disol", "poisson", width=4, depth=2, gated_skips=1)
    return save_checkpoint(tmp_path / "run", model, "poisson", conventions="published", resolution=32)


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


def test_a_model_of_another_problem_is_one_clear_error(folder):
    with pytest.raises(ValueError, match="trained on 'poisson', not 'heat'"):
        disol.load(folder, problem="heat")
