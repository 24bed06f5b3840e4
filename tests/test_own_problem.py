"""A problem of a user's own goes all the way: drawn, solved, generated, trained, evaluated and predicted."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch

import disol
from disol import _checks as checks
from disol.data import generate, open_store
from disol.data.backends import DeviceBackend, discretise_cases
from disol.data.recipe import read_recipe
from disol.evaluation import evaluate
from disol.fem import forms
from disol.models import load_checkpoint
from disol.problems.heat import HeatProblem
from disol.training import train

TINY = {"width": 4, "depth": 2, "gated_skips": 1}


@dataclass(frozen=True)
class CarriedHeat(HeatProblem):
    """U_t + s v · ∇U = s (ΔU + g f)."""

    velocity: tuple[float, float] = (2.0, 4.0)

    parameters: ClassVar = {**HeatProblem.parameters, "velocity": checks.vector}

    def element_matrix(self, element, conventions):
        carried = forms.advection(element, self.velocity)
        return super().element_matrix(element, conventions) + self.step * self.time_scale * carried


CARRIED = CarriedHeat("carried-heat", "∂U/∂t + s v · ∇U = s (ΔU + g f)", resolution=16)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("own") / "cases.h5"
    generate(CARRIED, 10, path, workers=0, device="cpu")
    return path


@pytest.fixture(scope="module")
def run(file: Path) -> Path:
    out, overrides = file.parent / "run", ["train.batch_size=4", "train.epochs=1"]
    train(CARRIED, file, out, model_settings=TINY, overrides=overrides, device="cpu", progress=False)
    return out


def test_a_transient_problem_of_ones_own_is_solved_in_batches_as_one_by_one(file):
    recipe = read_recipe(CARRIED, 0, None, "paper", None)
    solved, fallbacks = DeviceBackend(torch.device("cpu")).finish(recipe, discretise_cases(recipe, range(4)))
    stored = open_store(file).read(slice(4))
    assert fallbacks == 0
    assert solved["amplitude"] == pytest.approx(stored["amplitude"], rel=1e-12)
    assert np.abs(solved["pattern"] - stored["pattern"]).max() < 1e-6
    still = disol.solve_exact("heat", **disol.draw(CARRIED, conventions="paper").terms, conventions="paper")
    assert (
        np.abs(still.field - disol.solve_exact(disol.draw(CARRIED, conventions="paper")).field).max()
        > 0.01 * still.amplitude
    )


def test_a_model_of_it_sizes_its_frames_by_its_own_steps(run):
    case = disol.draw(CARRIED, seed=1, conventions="paper")
    times = [0.0, 2.0, 30.0]
    with pytest.warns(UserWarning, match="trained up to 20 s"):
        found = disol.load(run, CARRIED, device="cpu").verify(case, times=times).prediction
    exact = disol.solve_exact(case, times=times)
    assert found.field.shape == exact.field.shape
    assert found.amplitude == pytest.approx(exact.amplitude, rel=1e-3)
    assert found.field[0] == pytest.approx(exact.field[0])


def test_a_model_of_it_is_loaded_and_evaluated_with_the_problem_alone(run, file):
    with pytest.raises(
        ValueError, match=r"trained on 'carried-heat', which is not among poisson.*Pass that problem too"
    ):
        evaluate(run, file)
    assert evaluate(load_checkpoint(run, CARRIED), file, frames=[2]).files[0].times == (2.0,)
