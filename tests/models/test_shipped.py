"""The shipped models are found by name without torch, and predict what they predicted when they were made."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from disol.cases import draw
from disol.models import list_pretrained, load_checkpoint, pretrained
from disol.models.pretrained import find_folder, is_shipped

# Of cases 0 and 1 of seed 7: the mean of the last field over the grid, and its values at three pixels.
PREDICTED = {
    "advection-diffusion-high": [
        0.32405506,
        0.45941276,
        0.54081644,
        0.71009739,
        0.22019176,
        0.76226838,
        0.5885533,
        0.64570537,
    ],
    "advection-diffusion-low": [
        0.33027391,
        0.51110993,
        0.54301707,
        0.71055756,
        0.2635045,
        0.90083392,
        0.75957146,
        0.81822793,
    ],
    "advection-diffusion-high-paper": [
        0.32339723,
        0.45572186,
        0.53967186,
        0.70945690,
        0.22081826,
        0.76906344,
        0.59322724,
        0.64652791,
    ],
    "advection-diffusion-low-paper": [
        0.32977912,
        0.51021680,
        0.54229730,
        0.71067811,
        0.26397376,
        0.90079720,
        0.76088948,
        0.82259586,
    ],
    "elasticity-paper": [
        0.20341321,
        0.37715759,
        0.29115253,
        0.31690179,
        -0.08053959,
        -0.26336217,
        -0.34010346,
        -0.16568137,
    ],
    "elasticity": [0.21224784, 0.39640504, 0.30755148, 0.33617409, -0.08482983, -0.27120096, -0.3492652, -0.16915831],
    "heat": [0.16456088, 0.24667526, 0.26431165, 0.35488909, 0.19148355, 0.65037709, 0.5378473, 0.5974126],
    "heat-paper": [0.16465715, 0.24748741, 0.26582454, 0.35481484, 0.18867149, 0.64144063, 0.52967797, 0.58639494],
    "poisson-paper": [0.32510134, 0.51403992, 0.54696745, 0.71881312, 0.25445174, 0.87499131, 0.71624733, 0.78363718],
    "poisson": [0.32600834, 0.51661020, 0.54951118, 0.71984917, 0.25574239, 0.88056606, 0.72125072, 0.78771717],
    "poisson-published": [
        0.32394101,
        0.51277300,
        0.54292004,
        0.71273553,
        0.24864270,
        0.85397648,
        0.69683138,
        0.76182212,
    ],
}


def predicted_values(name):
    """In double precision, so that no machine rounds them otherwise."""
    checkpoint = load_checkpoint(find_folder(name))
    side = checkpoint.resolution
    cases = [draw(checkpoint.problem, seed=7, index=index, conventions=checkpoint.conventions) for index in range(2)]
    inputs = torch.from_numpy(np.stack([case.inputs for case in cases])).double()
    with torch.no_grad():
        fields = checkpoint.network.double()(inputs)[:, -1]
    points = [fields[:, 3 * side // 8, side // 2], fields[:, side // 2, side // 2], fields[:, side // 2, 5 * side // 8]]
    return torch.stack([fields.mean((1, 2)), *points], dim=1).flatten().tolist()


def test_every_shipped_model_is_pinned():
    assert list_pretrained() == sorted(PREDICTED)


@pytest.mark.parametrize("name", PREDICTED)
def test_a_shipped_model_predicts_what_it_always_did(name):
    assert predicted_values(name) == pytest.approx(PREDICTED[name], rel=0, abs=1e-6)


@pytest.mark.parametrize("name", PREDICTED)
def test_a_shipped_model_says_in_todays_words_how_it_was_trained(name):
    checkpoint = load_checkpoint(find_folder(name))
    run = checkpoint.metrics["run"]
    known = {"batch_size", "min_lr_ratio", "augment_symmetry", "ema_decay", "grad_clip_norm"}
    assert known <= {setting.removeprefix("train.") for setting in run}
    assert run["model"] == checkpoint.card.model
    assert checkpoint.predicts == "pattern"
    assert len(repr(checkpoint)) < 400
    assert checkpoint.card.files.keys() == {"config.json", "model.safetensors", "metrics.json"}  # with their digests


def test_finding_a_model_and_checking_its_settings_needs_no_torch():
    program = (
        "import sys\n"
        "from disol.models.pretrained import find_folder, list_pretrained\n"
        "from disol.models.card import read_card\n"
        "from disol.models.table import MODELS, check_model\n"
        "from disol.models import DiSOLConfig, list_models\n"
        "for name in list_pretrained():\n"
        "    card = read_card(find_folder(name))\n"
        "    check_model(card.model, card.problem, card.model_config)\n"
        "for mistake in (lambda: find_folder('poison'), lambda: MODELS['disol'].config(widht=3),\n"
        "                lambda: check_model('disol', 'heat', {'width': 0}), lambda: check_model('fnn', 'heat', {})):\n"
        "    try:\n"
        "        mistake()\n"
        "    except (ValueError, TypeError):\n"
        "        continue\n"
        "    raise SystemExit('not refused')\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.fixture
def shipped(tmp_path, monkeypatch):
    """Two models that come with the package."""
    for name in ("poisson", "another"):
        folder = tmp_path / "pretrained" / name
        folder.mkdir(parents=True)
        (folder / "config.json").touch()
    (tmp_path / "pretrained" / "no-model").mkdir()
    monkeypatch.setattr(pretrained, "PRETRAINED", tmp_path / "pretrained")
    return tmp_path / "pretrained"


def test_a_name_beats_a_folder_of_that_name_unless_it_is_written_as_a_path(shipped, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("poisson", "mine"):
        (tmp_path / name).mkdir()
    assert find_folder("poisson") == shipped / "poisson"
    assert is_shipped("poisson")
    for folder in ("./poisson", Path("poisson"), "mine"):
        assert find_folder(folder) == Path(folder)
        assert not is_shipped(folder)


def test_an_unknown_name_lists_the_known_ones(shipped):
    with pytest.raises(ValueError, match=r"Unknown model 'poison'.*another, poisson"):
        find_folder("poison")
    with pytest.raises(ValueError, match="name or a folder, got 3"):
        find_folder(3)
    assert find_folder("runs/poison") == Path("runs/poison")  # whoever opens it says that it is not there
