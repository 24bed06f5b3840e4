"""The authors' weights give the authors' predictions."""

import json
import os

import numpy as np
import pytest
import torch
from published_forward import PublishedForward, make_weights
from safetensors.torch import save_file

from disol.errors import DisolError
from disol.models import DiSOLConfig, import_published, save_checkpoint

SPLIT = {
    "split": True,
    "in_channels": 3,
    "out_channels": 1,
    "geom_ch": 16,
    "phys_ch": 8,
    "film_hidden": 12,
    "fusion_expand": 2,
    "base_ch": 8,
    "depth": 3,
    "SA_kernel": 5,
    "mlp_hidden": 6,
    "mlp_layers": 2,
}
MIXING = SPLIT | {"split": False, "in_channels": 5, "out_channels": 2, "depth": 4, "SA_kernel": 3, "mlp_layers": 4}
HEAT = MIXING | {"out_channels": 1, "base_ch": 20}


def random_inputs(settings):
    inputs = torch.rand(2, settings["in_channels"], 16, 24, generator=torch.Generator().manual_seed(3))
    inputs[:, :2] = inputs[:, :2].round()
    return inputs


def test_released_weights_give_the_released_predictions(released_data):
    model = import_published(released_data / "published_poisson.safetensors")
    with np.load(released_data / "poisson_published.npz") as file:
        inputs = torch.from_numpy(file["inputs"])
    with np.load(released_data / "published_poisson_predictions.npz") as file:
        expected = torch.from_numpy(file["prediction"])
    assert model.config == DiSOLConfig()
    with torch.no_grad():
        assert (model(inputs.float()) - expected).abs().max() < 1e-5


@pytest.mark.parametrize("settings", [SPLIT, MIXING, HEAT])
def test_imported_weights_act_as_described(settings, tmp_path):
    weights = make_weights(settings)
    save_file(weights, tmp_path / "weights.safetensors")
    model = import_published(tmp_path / "weights.safetensors")
    inputs = random_inputs(settings)
    assert len(model.state_dict()) == len(weights)
    torch.testing.assert_close(model(inputs), PublishedForward(weights, settings)(inputs), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("settings", "problem"), [(SPLIT, "poisson"), (MIXING, "elasticity"), (HEAT, "heat")])
def test_the_problem_follows_from_the_number_of_channels(settings, problem, tmp_path):
    save_file(make_weights(settings), tmp_path / "weights.safetensors")
    model = import_published(tmp_path / "weights.safetensors")
    save_checkpoint(tmp_path / "checkpoint", model, problem)


def test_the_authors_training_files_are_read_too(tmp_path):
    weights = make_weights(SPLIT)
    torch.save({"epoch": 3, "model_state_dict": weights, "history": {"lr": [1e-4]}}, tmp_path / "best.pth")
    (tmp_path / "model_cfg.json").write_text(json.dumps({"base_ch": 8, "geom_idx": [0, 1], "norm": "gn"}))
    save_file(weights, tmp_path / "weights.safetensors")
    inputs = random_inputs(SPLIT)
    expected = import_published(tmp_path / "weights.safetensors", "advection-diffusion-low")(inputs)
    assert torch.equal(import_published(tmp_path / "best.pth")(inputs), expected)


def damaged(**changes):
    return {name: weight for name, weight in (make_weights(SPLIT) | changes).items() if weight is not None}


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (damaged(surprise=torch.ones(1)), "holds surprise, which no published DiSOL has"),
        (damaged(**{"head.0.weight": None}), "lacks 'local_operator.stem.0.weight', which every DiSOL has"),
        (
            damaged(**{"head.2.bias": None}),
            "must hold the weights of a DiSOL, but: Missing key.*local_operator.stem.2.bias",
        ),
        (
            damaged(**{"head.2.bias": torch.ones(9)}),
            r"but: size mismatch for local_operator.stem.2.bias: .*\(9\) from checkpoint.*\(8\)",
        ),
        (damaged(**{"mlp.net.2.weight": torch.ones(7, 6, 1, 1)}), "maps 3 channels to 7 fields, which no problem does"),
    ],
)
def test_weights_that_do_not_fit_are_explained(weights, message, tmp_path):
    save_file(weights, tmp_path / "weights.safetensors")
    with pytest.raises(ValueError, match=message):
        import_published(tmp_path / "weights.safetensors")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ('{"base_ch": 16}', "says base_ch = 16, but weights.safetensors has 8"),
        ('{"settings": {"geom_idx": [0, 2]}}', r"says geom_idx = \[0, 2\]"),
        ("[1]", "must hold settings by name"),
        ("{", "must hold settings by name"),
    ],
)
def test_settings_that_contradict_the_weights_are_refused(settings, message, tmp_path):
    save_file(make_weights(SPLIT), tmp_path / "weights.safetensors")
    (tmp_path / "weights.json").write_text(settings)
    with pytest.raises(ValueError, match=message):
        import_published(tmp_path / "weights.safetensors")


@pytest.mark.parametrize("beside", ["weights.json", "model_cfg.json"])
def test_every_setting_beside_the_weights_is_compared(beside, tmp_path):
    save_file(make_weights(SPLIT), tmp_path / "weights.safetensors")
    own = {name: value for name, value in SPLIT.items() if name != "split"}
    (tmp_path / beside).write_text(json.dumps(own))
    import_published(tmp_path / "weights.safetensors")
    for name, value in own.items():
        (tmp_path / beside).write_text(json.dumps(own | {name: 99}))
        with pytest.raises(ValueError, match=rf"{beside} says {name} = 99, but weights.safetensors has {value}\."):
            import_published(tmp_path / "weights.safetensors")


def reshaped(name: str, *shape: int):
    return damaged(**{name: torch.ones(shape)})


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (reshaped("head.0.weight"), "other shapes than a DiSOL has"),
        (reshaped("mlp.net.0.weight"), "other shapes than a DiSOL has"),
        (reshaped("mlp.net.2.weight"), "other shapes than a DiSOL has"),
        (reshaped("fusion.geom_stem.0.weight", 16), "other shapes than a DiSOL has"),
        (reshaped("spatial_attn.conv.weight", 1, 2, 4, 4), "attention_kernel must be odd, got 4"),
        (reshaped("head.0.weight", 4000, 1, 1, 1), "width must be at most 1,024, got 4000"),
        (reshaped(f"unet.downs.{'9' * 5000}.block.conv1.weight", 1), "which no published DiSOL has"),
        (reshaped("fusion.geom_stem.conv1.weight", 1), "which no published DiSOL has"),
        (reshaped("fusion.geom_stem.0.weight", 16, 0, 3, 3), "which no problem does"),
        (damaged(**{"head.2.bias": torch.full((8,), torch.nan)}), "holds NaN or infinite weights"),
        (damaged(**{"head.2.bias": torch.full((8,), torch.inf)}), "holds NaN or infinite weights"),
    ],
)
def test_weights_that_are_none_are_refused_in_one_line(weights, message, tmp_path):
    save_file(weights, tmp_path / "weights.safetensors")
    torch.save({"model_state_dict": weights}, tmp_path / "weights.pth")
    for name in ("weights.safetensors", "weights.pth"):
        with pytest.raises(DisolError, match=message) as raised:
            import_published(tmp_path / name)
        assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "stored",
    [
        {},
        {"model_state_dict": []},
        {"model_state_dict": {"head.0.weight": [1.0]}},
        {"model_state_dict": {0: torch.ones(1)}},
        {"model_state_dict": {"head.0.weight": torch.ones(1, dtype=torch.int64)}},
        torch.ones(3),
        None,
    ],
)
def test_other_containers_than_weights_by_name_are_refused(stored, tmp_path):
    torch.save(stored, tmp_path / "odd.pth")
    with pytest.raises(DisolError, match="must hold tensors under 'model_state_dict', but does not"):
        import_published(tmp_path / "odd.pth")


@pytest.mark.parametrize("name", ["a" * 300, "a\0b.pth", "pipe.pth", "zero.pth", "."])
def test_what_is_no_file_is_not_waited_for(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe.pth")
    (tmp_path / "zero.pth").symlink_to("/dev/zero")
    with pytest.raises(DisolError, match="Expected a file of weights"):
        import_published(name)


def test_deep_settings_beside_the_weights_are_refused(tmp_path):
    save_file(make_weights(SPLIT), tmp_path / "weights.safetensors")
    (tmp_path / "weights.json").write_text("[" * 10**5)
    with pytest.raises(DisolError, match="must hold settings by name"):
        import_published(tmp_path / "weights.safetensors")


def test_files_that_are_no_weights_are_refused(tmp_path):
    with pytest.raises(ValueError, match="Expected a file of weights"):
        import_published(tmp_path / "nothing.pth")
    for name in ("text.pth", "text.safetensors"):
        (tmp_path / name).write_text("no weights")
        with pytest.raises(ValueError, match="cannot be read as weights"):
            import_published(tmp_path / name)
    torch.save([1, 2], tmp_path / "list.pth")
    with pytest.raises(ValueError, match="must hold tensors under 'model_state_dict'"):
        import_published(tmp_path / "list.pth")
    torch.save({"model_state_dict": PublishedForward({}, {})}, tmp_path / "code.pth")
    with pytest.raises(ValueError, match="cannot be read as weights"):
        import_published(tmp_path / "code.pth")
