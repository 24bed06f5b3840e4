"""A symmetrised network answers for a turned case with the turned pattern, and is a handle like any other."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import disol
from disol import PROBLEMS
from disol.models import create_model, list_pretrained, resolve
from disol.surrogate import symmetrise
from disol.training.augmentation import SQUARE_GROUP, field_channels, input_channels

SYMMETRIC = [("poisson", "paper"), ("heat", "paper"), ("elasticity", "paper"), ("elasticity", "published")]


@pytest.mark.parametrize(("problem", "conventions"), SYMMETRIC)
@pytest.mark.parametrize("grid", [(16, 16), (16, 24)])
def test_the_pattern_of_a_turned_case_is_the_turned_pattern(problem, conventions, grid):
    torch.manual_seed(0)
    network = create_model("unet", problem, width=4, depth=2)
    symmetric = symmetrise(resolve(network, conventions=conventions)).network
    inputs = torch.randn(2, network.num_channels, *grid)
    inputs[:, 0] = 1.0
    per_component = symmetric.normalisation.per_component
    assert per_component == (conventions == "published")

    def centred(pattern):
        return 2 * pattern - 1 if per_component else pattern

    with torch.no_grad():
        expected, plain = centred(symmetric(inputs)), centred(network(inputs))
        for element in SQUARE_GROUP:
            moved = element.turn(inputs, input_channels(PROBLEMS[problem]))
            found = element.inverse.turn(centred(symmetric(moved)), field_channels(PROBLEMS[problem]))
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert (expected - plain).abs().max() > 1e-3


@pytest.mark.parametrize("element", SQUARE_GROUP, ids=str)
def test_what_is_turned_back_is_as_it_was(element):
    stacked = torch.randn(2, 5, 3, 4)
    channels = input_channels(PROBLEMS["elasticity"])
    assert torch.equal(element.inverse.turn(element.turn(stacked, channels), channels), stacked)


def test_an_equivariant_network_is_left_as_it_is():
    class Product(nn.Module):
        def forward(self, inputs):
            return inputs[:, :1] * inputs[:, 2:3]

    inputs = torch.rand(2, 3, 8, 8)
    inputs[:, 0] = (inputs[:, 0] > 0.3).float()
    torch.testing.assert_close(symmetrise(Product(), "poisson").network(inputs), Product()(inputs))


def test_a_symmetrised_network_is_loaded_predicts_and_is_verified():
    case = disol.draw("poisson", seed=3, index=1, conventions="paper", shift="all")
    plain, model = disol.load("poisson", device="cpu"), disol.load(symmetrise("poisson"), device="cpu")
    assert model.conventions == plain.conventions
    assert model.resolution == plain.resolution
    verified = model.verify(case)
    assert verified.error < 0.05
    assert verified.prediction.field.shape == case.domain[None].shape
    turned = model.predict_pattern(case.inputs[None, :, ::-1])[0, :, ::-1]
    np.testing.assert_allclose(turned, model.predict_pattern(case.inputs[None])[0], atol=2e-5)
    with pytest.warns(UserWarning, match="64 x 64"):
        model.predict(disol.draw("poisson", seed=3, conventions="paper", resolution=48))


def test_it_is_exported_for_any_grid():
    symmetric = symmetrise(resolve(create_model("unet", "elasticity", width=4, depth=2), conventions="published"))
    inputs = np.random.default_rng(0).random((3, 5, 19, 26), np.float32)
    expected = disol.load(symmetric, device="cpu").predict_pattern(inputs)
    found = disol.load(symmetric, engine="onnx").predict_pattern(inputs)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_times_it_was_trained_on_stay_known():
    assert symmetrise("heat").trained_until == disol.load("heat", device="cpu").checkpoint.trained_until


def test_averaging_makes_broadly_trained_networks_better(tmp_path: Path):
    path = tmp_path / "cases.h5"
    disol.generate("poisson", 24, path, seed=11, shift="all", conventions="paper", workers=0, progress=False)
    plain, mean = (
        disol.evaluate(model, path, split="all", device="cpu", progress=False).files[0].values["rel_l2"].mean()
        for model in ("poisson", symmetrise("poisson"))
    )
    assert mean < 0.9 * plain


@pytest.mark.parametrize("name", ["advection-diffusion-low", "advection-diffusion-high"])
def test_what_has_no_symmetry_is_refused(name):
    assert name in list_pretrained()
    with pytest.raises(disol.DisolError, match="must have a symmetry"):
        symmetrise(name)


def test_amplitudes_are_refused():
    with pytest.raises(disol.DisolError, match="predicts the log-amplitude"):
        symmetrise(create_model("disol-amplitude", "poisson", width=4, depth=2, gated_skips=1))
