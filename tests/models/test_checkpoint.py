"""Checkpoints come back as they were, survive crashes, and explain what is wrong with them."""

import dataclasses
import hashlib
import json
import os
import resource
import threading
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

from disol import _files
from disol.errors import DisolError
from disol.models import checkpoint, create_model, load_checkpoint, save_checkpoint
from disol.models.checkpoint import CARD, METRICS, STATE, WEIGHTS
from disol.problems import PROBLEMS
from disol.problems.conventions import PAPER, PUBLISHED
from disol.problems.normalisation import JOINT, NORMALISATIONS

TINY = {"width": 2, "depth": 1, "head_width": 2}


def tiny_model(value=None):
    torch.manual_seed(0)
    model = create_model("unet", "poisson", **TINY)
    if value is not None:
        for weight in model.parameters():
            torch.nn.init.constant_(weight, value)
    return model


def save_numbered(path, number):
    """A checkpoint whose files all say the same number."""
    state = {"step": number, "moments": torch.full((3,), float(number))}
    save_checkpoint(path, tiny_model(number), "poisson", metrics={"number": number}, state=state)


def number_of(path):
    """The number all files agree on."""
    found = load_checkpoint(path, state=True)
    weights = {value for weight in found.network.parameters() for value in weight.flatten().tolist()}
    assert weights == {found.metrics["number"]} == {found.state["step"]}
    return found.state["step"]


def test_a_checkpoint_knows_what_it_was_trained_on(tmp_path):
    problem = dataclasses.replace(PROBLEMS["advection-diffusion-low"], diffusion=2.0, velocity=(1.0, 0.0))
    model = create_model("disol", problem, width=8, depth=2, gated_skips=1, fusion="mixing")
    saved = save_checkpoint(tmp_path / "a" / "b", model, problem, conventions="published", resolution=32)
    found = load_checkpoint(saved)
    assert found.path == saved
    assert found.problem == problem
    assert found.network.config == model.config
    assert found.channels == problem.channels
    assert found.fields == ("u",)
    assert (found.conventions, found.resolution, found.normalisation) == (PUBLISHED, 32, JOINT)
    assert found.predicts == "pattern"
    assert not found.network.training
    assert sorted(file.name for file in saved.iterdir()) == [CARD, METRICS, WEIGHTS]


def test_published_elasticity_is_scaled_per_component(tmp_path):
    model = create_model("unet", "elasticity", **TINY)
    for conventions, normalisation in (("published", "component"), ("paper", "joint")):
        save_checkpoint(tmp_path, model, "elasticity", conventions=conventions)
        assert load_checkpoint(tmp_path).normalisation is NORMALISATIONS[normalisation]


def test_metrics_and_state_come_back(tmp_path):
    model = tiny_model()
    optimiser = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 3, 4, 4)).sum().backward()
    optimiser.step()
    state = {"optimiser": optimiser.state_dict(), "epoch": 3, "seen": [1, (2, "three")], "best": None}
    save_checkpoint(tmp_path, model, "poisson", metrics={"rel_l2": {"mean": 0.1, "worst": float("nan")}}, state=state)
    found = load_checkpoint(tmp_path, state=True)
    assert found.metrics == {"rel_l2": {"mean": 0.1, "worst": None}}
    assert found.state["seen"] == [1, (2, "three")]
    moments = found.state["optimiser"]["state"][0]["exp_avg"]
    assert torch.equal(moments, optimiser.state_dict()["state"][0]["exp_avg"])
    optimiser.load_state_dict(found.state["optimiser"])
    assert load_checkpoint(tmp_path).state is None


def test_a_finished_run_leaves_no_state_behind(tmp_path):
    save_numbered(tmp_path, 1)
    assert (tmp_path / STATE).is_file()
    save_checkpoint(tmp_path, tiny_model(), "poisson")
    assert not (tmp_path / STATE).exists()
    assert load_checkpoint(tmp_path, state=True).state is None


def test_half_the_size_costs_half_the_digits(tmp_path):
    model = tiny_model()
    save_checkpoint(tmp_path, model, "poisson", storage="float16")
    loaded = load_checkpoint(tmp_path).network
    for saved, found in zip(model.parameters(), loaded.parameters(), strict=True):
        assert found.dtype == torch.float32
        torch.testing.assert_close(found, saved, rtol=2**-11, atol=1e-7)


class Crash(BaseException):
    """The machine stops."""


def crash_at(monkeypatch, moment):
    """Stop at one of the steps that change the disk; a file that is being written stays half written."""
    left = iter(range(moment, -1, -1))

    def tick():
        if next(left) == 0:
            raise Crash

    def guarded(step):
        def run(*arguments, **settings):
            tick()
            return step(*arguments, **settings)

        return run

    def write_half(path, content, write=_files.write_durably):
        path.write_bytes(content[: len(content) // 2])
        tick()
        write(path, content)

    monkeypatch.setattr(_files, "write_durably", write_half)
    monkeypatch.setattr(_files, "sync_folder", guarded(_files.sync_folder))
    for step in ("mkdir", "chmod", "rename", "replace", "unlink", "rmdir"):
        monkeypatch.setattr(Path, step, guarded(getattr(Path, step)))


@pytest.mark.parametrize("with_state", [True, False])
def test_a_crash_leaves_the_old_or_the_new_checkpoint(with_state, tmp_path, monkeypatch):
    found = []
    for moment in range(100):
        path = tmp_path / str(moment)
        save_numbered(path, 1)
        try:
            with monkeypatch.context() as patched:
                crash_at(patched, moment)
                if with_state:
                    save_numbered(path, 2)
                else:
                    save_checkpoint(path, tiny_model(2), "poisson", metrics={"number": 2})
        except Crash:
            kept = load_checkpoint(path, state=True)
            is_old = kept.metrics["number"] == 1
            if with_state or is_old:
                assert number_of(path) == (1 if is_old else 2)
            else:
                assert kept.state is None
            found.append(kept.metrics["number"])
            save_numbered(path, 3)
            assert number_of(path) == 3
            assert sorted(file.name for file in path.iterdir()) == [CARD, METRICS, WEIGHTS, STATE]
        else:
            break
    assert found == sorted(found)
    assert set(found) == {1, 2}


def test_a_reader_never_sees_a_mixture(tmp_path):
    save_numbered(tmp_path, 0)

    def write():
        for number in range(1, 30):
            save_numbered(tmp_path, number)

    writer = threading.Thread(target=write)
    writer.start()
    seen = []
    while writer.is_alive():
        seen.append(number_of(tmp_path))
    writer.join()
    assert seen == sorted(seen)
    assert number_of(tmp_path) == 29


def test_a_checkpoint_that_never_holds_still_is_told_to_be_in_use(tmp_path, monkeypatch):
    save_numbered(tmp_path, 0)
    (tmp_path / METRICS).write_text("half")
    card = checkpoint.read_card(tmp_path)
    cards = (dataclasses.replace(card, resolution=side) for side in range(1, 1000))
    monkeypatch.setattr(checkpoint, "read_card", lambda folder: next(cards))
    with pytest.raises(ValueError, match="is being written by another process; retry later"):
        load_checkpoint(tmp_path)


def test_a_case_that_a_network_was_not_trained_for_is_told_by_what_differs(tmp_path):
    save_checkpoint(tmp_path, tiny_model(), "poisson")
    found, poisson = load_checkpoint(tmp_path), PROBLEMS["poisson"]
    found.require_match(poisson, PAPER)
    steep = dataclasses.replace(poisson, diffusion=2.0)
    for problem, conventions, message in (
        (PROBLEMS["heat"], PAPER, "cases.h5 should have the problem 'poisson' that the model was made for, got 'heat'"),
        (steep, PAPER, "the diffusion 1.0 that the model was made for, got 2.0"),
        (poisson, PUBLISHED, "the conventions 'paper' that the model was made for, got 'published'"),
    ):
        with pytest.raises(ValueError, match=message):
            found.require_match(problem, conventions, "cases.h5")


def edit_card(path, **changes):
    """Change what a card says; like one of an earlier version, it then has no digest of itself."""
    card = json.loads((path / CARD).read_text())
    del card["files"][CARD]
    (path / CARD).write_text(json.dumps({name: value for name, value in (card | changes).items() if value != "gone"}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "other"}, "must have the format 'disol checkpoint 1', got 'other'"),
        ({"surprise": 1}, "also has surprise. Use the version of disol that wrote it"),
        ({"problem": "gone"}, "lacks problem"),
        ({"problem": "stokes"}, "trained on 'stokes', which is not among poisson, .* Pass that problem too"),
        ({"model": "fnn"}, "Unknown model 'fnn'"),
        ({"conventions": "mine"}, "Unknown conventions 'mine'"),
        ({"resolution": "64"}, "resolution of .* must not be '64'"),
        ({"other_resolutions": ["96"]}, r"other_resolutions of .* must not be \['96'\]"),
        ({"other_resolutions": [96, 0]}, "resolution of .* must be from 1 to 16,384, got 0"),
        ({"normalisation": "none"}, "normalisation of .* must not be 'none'"),
        (
            {"channels": ["domain", "source", "dirichlet"]},
            "has the channels domain, source, dirichlet, but the problem",
        ),
        ({"fields": ["v"]}, "has the fields v, but the problem has u"),
        ({"parameters": {"diffusion": 1.0}}, "parameters of .* lacks velocity"),
        ({"parameters": {"diffusion": -1.0, "velocity": [0, 0]}}, "diffusion must be positive"),
        ({"model_config": {"width": 2}}, "must hold the weights of a UNet, but: Missing key"),
        ({"model_config": TINY | {"head_layers": 2, "gates": 1}}, "also has gates"),
        ({"model_config": TINY | {"head_layers": 3}}, r"of a UNet, but: Missing key\(s\) in state_dict: \"head.4"),
        ({"model_config": TINY | {"head_layers": 1}}, "but: Unexpected key.*head.2.weight"),
        (
            {"model_config": TINY | {"head_layers": 2, "width": 4}},
            r"but: .*size mismatch for stem.0.weight: .* \(2, 3, 3, 3\) .* \(4, 3, 3, 3\)",
        ),
        ({"files": {}}, "must list model.safetensors"),
    ],
)
def test_a_card_that_does_not_fit_is_explained_in_one_line(changes, message, tmp_path):
    save_checkpoint(tmp_path, tiny_model(), "poisson")
    edit_card(tmp_path, **changes)
    with pytest.raises(ValueError, match=message) as raised:
        load_checkpoint(tmp_path)
    assert "\n" not in str(raised.value)


def test_a_checkpoint_of_several_resolutions_tells_them_in_order_and_once(tmp_path):
    save_checkpoint(tmp_path, tiny_model(), "poisson", resolution=[24, 16, 24, 32])
    found = load_checkpoint(tmp_path)
    assert (found.resolution, found.resolutions, found.card.grids) == (24, (24, 16, 32), "24 x 24, 16 x 16 and 32 x 32")
    assert "24 x 24, 16 x 16 and 32 x 32 grids" in repr(found)


def test_a_card_of_one_resolution_is_written_as_it_always_was(tmp_path):
    for resolution in (16, [16], [16, 16]):
        save_checkpoint(tmp_path, tiny_model(), "poisson", resolution=resolution)
        assert "other_resolutions" not in json.loads((tmp_path / CARD).read_text())


def test_a_setting_younger_than_a_checkpoint_has_its_default(tmp_path):
    torch.manual_seed(0)
    model = create_model("disol", "poisson", width=2, depth=2, gated_skips=0, expansion=1)
    save_checkpoint(tmp_path, model, "poisson")
    stored = json.loads((tmp_path / CARD).read_text())["model_config"]
    edit_card(tmp_path, model_config={name: value for name, value in stored.items() if name != "coarse_sweeps"})
    assert load_checkpoint(tmp_path).network.config == model.config


@pytest.mark.parametrize(
    ("model", "changes", "message"),
    [
        ("disol", {"width": 4000}, "width must be at most 1,024, got 4000"),
        ("disol", {"depth": 2**63}, "depth must be at most 10, got 9223372036854775808"),
        ("disol", {"head_layers": 10**6}, "head_layers must be at most 64"),
        ("disol", {"coarse_sweeps": 10**9}, "coarse_sweeps must be at most 256"),
        ("disol", {"width": 1024, "depth": 10, "expansion": 64, "head_layers": 64}, "size mismatch|Missing key"),
        ("disol", {"width": "8"}, "width must be a whole number from 1 on, got '8'"),
        ("disol", {"width": [8]}, r"width must be a whole number from 1 on, got \[8\]"),
        ("disol", {"width": 8.0}, r"width must be a whole number from 1 on, got 8\.0"),
        ("disol", {"attention": 1}, "attention must be true or false, got 1"),
        ("disol", {"fusion": ["film"]}, r"fusion must be one of 'film', 'mixing', 'none', got \['film'\]"),
        ("unet", {"width": 1024, "depth": 10}, "size mismatch|Missing key"),
        ("unet", {"w" * 300: 1}, "also has w"),
    ],
)
def test_what_a_card_asks_for_is_compared_with_the_weights_before_memory_is_taken(model, changes, message, tmp_path):
    save_checkpoint(
        tmp_path, create_model(model, "poisson", **TINY | {"gated_skips": 0} if model == "disol" else TINY), "poisson"
    )
    stored = json.loads((tmp_path / CARD).read_text())["model_config"]
    edit_card(tmp_path, model_config=stored | changes)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(DisolError, match=message) as raised:
        load_checkpoint(tmp_path)
    assert len(str(raised.value)) < 1500
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 10**5  # kB


@pytest.mark.parametrize(
    "changes",
    [
        {"resolution": 65},
        {"parameters": {"diffusion": 2.0, "velocity": [0.0, 0.0]}},
        {"conventions": "published"},
        {"model_config": TINY | {"head_layers": 2, "coarse": 1}},
        {"package_version": "9"},
    ],
)
def test_a_card_that_was_altered_is_refused(changes, tmp_path):
    save_checkpoint(tmp_path, tiny_model(), "poisson")
    card = json.loads((tmp_path / CARD).read_text())
    (tmp_path / CARD).write_text(json.dumps(card))  # laid out otherwise
    load_checkpoint(tmp_path)
    (tmp_path / CARD).write_text(json.dumps(card | changes))
    with pytest.raises(DisolError, match=r"config\.json was altered after it was saved"):
        load_checkpoint(tmp_path)


def test_a_card_of_an_earlier_version_without_its_digest_is_read(tmp_path):
    save_checkpoint(tmp_path, tiny_model(), "poisson", resolution=32)
    edit_card(tmp_path, resolution=16)
    assert load_checkpoint(tmp_path).resolution == 16


def rewrite(path, **contents):
    """Replace files as somebody would who knows the format: the card has the digests of what it lists."""
    card = checkpoint.read_card(path)
    for stem, content in contents.items():
        name = {"weights": WEIGHTS, "metrics": METRICS, "state": STATE}[stem]
        (path / name).write_bytes(content)
        card = dataclasses.replace(card, files=card.files | {name: hashlib.sha256(content).hexdigest()})
    (path / CARD).write_bytes(card.write())


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("storage", ["float32", "float16"])
def test_weights_that_are_not_finite_are_not_loaded(value, storage, tmp_path):
    model = tiny_model()
    save_checkpoint(tmp_path, model, "poisson", storage=storage)
    weights = {name: weight.to(getattr(torch, storage)) for name, weight in model.state_dict().items()}
    weights["stem.0.bias"][1] = value
    rewrite(tmp_path, weights=safetensors.torch.save(weights))
    with pytest.raises(DisolError, match=r"model\.safetensors holds NaN or infinite weights"):
        load_checkpoint(tmp_path)


def test_large_finite_weights_are_loaded(tmp_path):
    save_checkpoint(tmp_path, tiny_model(3e38), "poisson")
    assert load_checkpoint(tmp_path).network.stem[0].bias[0] == np.float32(3e38)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"metrics": b"[" * 10**6}, r"metrics\.json must hold JSON, but is damaged"),
        ({"metrics": b"[1]"}, r"metrics\.json must hold values by name, got \[1\]"),
        ({"metrics": b"\xff\xfe"}, r"metrics\.json must hold JSON"),
        ({"state": b"PK"}, "must hold tensors and plain containers, but cannot be read"),
        ({"weights": b"\xff" * 8}, "must hold safetensors, but"),
        ({"weights": (10).to_bytes(8, "little") + b"{" * 10}, "must hold safetensors, but"),
    ],
)
def test_files_that_hold_something_else_are_refused_in_one_line(content, message, tmp_path):
    save_numbered(tmp_path, 1)
    rewrite(tmp_path, **content)
    with pytest.raises(DisolError, match=message) as raised:
        load_checkpoint(tmp_path, state=True)
    assert "\n" not in str(raised.value)


def test_weights_of_another_kind_are_refused(tmp_path):
    model = tiny_model()
    save_checkpoint(tmp_path, model, "poisson")
    for kind in (torch.int64, torch.float64, torch.float16):
        rewrite(tmp_path, weights=safetensors.torch.save({k: w.to(kind) for k, w in model.state_dict().items()}))
        with pytest.raises(DisolError, match=rf"must be float32, got {str(kind).removeprefix('torch.')}"):
            load_checkpoint(tmp_path)


def test_a_deep_or_long_card_is_refused_in_one_line(tmp_path):
    save_checkpoint(tmp_path, tiny_model(), "poisson")
    card = json.loads((tmp_path / CARD).read_text())
    deep = json.dumps(card | {"model_config": {"attention": json.loads("[" * 400 + "]" * 400)}})
    for content, message in (
        ("[" * 10**5, "must hold JSON"),
        (" " * 2**21, "at most 1,048,576 were expected"),
        (deep, "deep"),
    ):
        (tmp_path / CARD).write_text(content)
        with pytest.raises(DisolError, match=message):
            load_checkpoint(tmp_path)


@pytest.mark.parametrize("name", [CARD, WEIGHTS, METRICS, STATE])
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_what_is_no_regular_file_is_not_waited_for(name, kind, tmp_path):
    save_numbered(tmp_path, 1)
    (tmp_path / name).unlink()
    if kind == "pipe":
        os.mkfifo(tmp_path / name)
    else:
        (tmp_path / name).symlink_to("/dev/zero")
    with pytest.raises(DisolError, match=rf"Cannot read .*{name}: it is a {kind}, not a regular file"):
        load_checkpoint(tmp_path, state=True)


def test_weights_larger_than_the_network_are_not_read(tmp_path):
    save_checkpoint(tmp_path, tiny_model(), "poisson")
    with (tmp_path / WEIGHTS).open("r+b") as file:
        file.truncate(2**40)  # of which the disk holds nothing
    with pytest.raises(DisolError, match=r"Cannot read .*model\.safetensors: it has 1,099,511,627,776 bytes, at most"):
        load_checkpoint(tmp_path)


def test_a_link_to_another_folder_is_not_followed_by_a_save(tmp_path):
    save_numbered(tmp_path / "precious", 1)
    save_numbered(tmp_path / "run", 2)
    (tmp_path / "run" / "incoming").symlink_to(tmp_path / "precious")
    for attempt in (lambda: save_numbered(tmp_path / "run", 3), lambda: load_checkpoint(tmp_path / "run")):
        with pytest.raises(DisolError, match=r"incoming must be a folder, but is a link"):
            attempt()
    assert number_of(tmp_path / "precious") == 1


@pytest.mark.parametrize("path", ["a" * 300, "a\0b", "run/" + "a" * 300])
def test_a_path_that_cannot_be_is_refused_in_one_line(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DisolError, match=r"A checkpoint is a folder with a config\.json, but .* does not exist"):
        load_checkpoint(path)
    with pytest.raises(DisolError, match=r"Cannot write to .*: (File name too long|embedded null byte)"):
        save_checkpoint(path, tiny_model(), "poisson")


@pytest.mark.parametrize("name", [WEIGHTS, METRICS, STATE])
@pytest.mark.parametrize("damage", ["truncated", "altered", "missing"])
def test_a_damaged_file_is_named(name, damage, tmp_path):
    save_numbered(tmp_path, 1)
    content = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(content[:-1] if damage == "truncated" else content[:-1] + bytes([content[-1] ^ 1]))
    if damage == "missing":
        (tmp_path / name).unlink()
    with pytest.raises(ValueError, match=rf"{name} must be the file that was saved, but is missing, truncated or"):
        load_checkpoint(tmp_path, state=True)


def test_what_is_no_checkpoint_is_explained(tmp_path):
    for path, message in (
        (tmp_path, "has no config.json"),
        (tmp_path / "nowhere", "does not exist"),
        (tmp_path / "file", "is a file"),
    ):
        (tmp_path / "file").touch()
        with pytest.raises(ValueError, match=message):
            load_checkpoint(path)
    (tmp_path / CARD).write_text('{"format": "disol che')
    with pytest.raises(ValueError, match="must hold JSON, but is damaged"):
        load_checkpoint(tmp_path)


def test_another_problem_than_the_trained_one_is_refused(tmp_path):
    save_checkpoint(tmp_path, tiny_model(), "poisson")
    assert load_checkpoint(tmp_path, "poisson").problem.name == "poisson"
    with pytest.raises(ValueError, match=r"was trained on 'poisson', not 'heat'. Choose the problem poisson"):
        load_checkpoint(tmp_path, "heat")


def test_other_numbers_than_the_trained_ones_are_refused(tmp_path):
    steep = dataclasses.replace(PROBLEMS["poisson"], diffusion=2.0)
    save_checkpoint(tmp_path, create_model("unet", steep, **TINY), steep)
    assert load_checkpoint(tmp_path).problem == load_checkpoint(tmp_path, steep).problem == steep
    with pytest.raises(ValueError, match=r"was trained with diffusion=2.0, but the problem asked for has 1.0"):
        load_checkpoint(tmp_path, PROBLEMS["poisson"])


@pytest.mark.parametrize(
    ("problem", "settings", "message"),
    [
        ("heat", {}, "heat maps domain, dirichlet, source, initial, time to u, but the network maps"),
        ("poisson", {"conventions": "mine"}, "Unknown conventions 'mine'"),
        ("poisson", {"resolution": 0}, "resolution must be at least 1"),
        ("poisson", {"resolution": [16, 0]}, "resolution must be at least 1"),
        ("poisson", {"resolution": []}, "resolution must be one or several, got none"),
        ("poisson", {"storage": "int8"}, "Unknown storage 'int8'. Use one of float32, float16"),
        ("poisson", {"state": {"a": [object()]}}, r"state\['a'\]\[0\] must be a tensor, .* got object"),
        ("poisson", {"metrics": {"a": torch.ones(1)}}, r"metrics\['a'\] must be a number, .* got Tensor"),
    ],
)
def test_what_cannot_be_saved_is_explained_and_nothing_is_written(problem, settings, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        save_checkpoint(tmp_path / "checkpoint", tiny_model(), problem, **settings)
    assert not (tmp_path / "checkpoint").exists()


def test_weights_that_are_not_finite_are_not_saved(tmp_path):
    with pytest.raises(ValueError, match="must be finite as float16"):
        save_checkpoint(tmp_path, tiny_model(1e6), "poisson", storage="float16")
    with pytest.raises(ValueError, match="must be finite as float32"):
        save_checkpoint(tmp_path, tiny_model(float("nan")), "poisson")


def test_a_file_is_not_overwritten_by_a_checkpoint(tmp_path):
    (tmp_path / "file").write_text("precious")
    with pytest.raises(ValueError, match=r"A checkpoint is a folder, but .* is a file"):
        save_checkpoint(tmp_path / "file", tiny_model(), "poisson")
    with pytest.raises(ValueError, match=r"Cannot write to .*: Not a directory"):
        save_checkpoint(tmp_path / "file" / "inside", tiny_model(), "poisson")


def test_weights_that_share_memory_are_saved(tmp_path):
    model = tiny_model()
    model.stem[2].bias = model.stem[0].bias
    save_checkpoint(tmp_path, model, "poisson")
    assert torch.equal(load_checkpoint(tmp_path).network.stem[2].bias, model.stem[0].bias)
