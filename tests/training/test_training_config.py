"""Settings come from a recipe, a file, arguments and overrides, and a wrong one is an error that helps."""

import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from disol import PROBLEMS
from disol.training import RECIPES, TrainSettings, choose_settings
from disol.training.config import RENAMED, find_recipe

CONFIGS = Path(__file__).parents[2] / "configs"


def test_the_published_recipe_is_that_of_the_paper() -> None:
    recipe = RECIPES["published"]
    assert (recipe.optimizer, recipe.learning_rate, recipe.weight_decay, recipe.batch_size) == ("adam", 1e-4, 1e-5, 200)
    assert (recipe.schedule, recipe.plateau_factor, recipe.plateau_patience) == ("plateau", 0.5, 10)
    assert (recipe.loss, recipe.precision) == ("grid-l1", "float32")
    assert (recipe.augment_symmetry, recipe.augment_translation) == (False, False)
    assert (recipe.ema_decay, recipe.grad_clip_norm, recipe.warmup) == (0.0, 0.0, 0.0)
    epochs = [find_recipe("published", problem).epochs for problem in PROBLEMS]
    assert epochs == [500, 300, 300, 500, 500]


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.toml")), ids=lambda path: path.stem)
def test_every_config_of_the_repository_can_be_used(path: Path) -> None:
    problem = path.stem.removesuffix("-published").removesuffix("-paper").removesuffix("-resolutions")
    assert choose_settings(problem, config=path).problem == problem


def test_there_is_a_config_for_every_problem() -> None:
    assert {path.stem for path in CONFIGS.glob("*.toml")} >= set(PROBLEMS)


def test_overrides_beat_arguments_which_beat_the_file_which_beats_the_recipe(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(
        'problem = "poisson"\nrecipe = "published"\n'
        '[model]\nname = "disol"\nwidth = 12\ndepth = 3\nhead_width = 7\n'
        "[train]\nbatch_size = 16\nepochs = 7\nwarmup = 0\n"
    )
    settings = choose_settings(
        "poisson",
        config=file,
        model_settings={"width": 10, "depth": 2},
        overrides=["train.batch_size=32", "model.depth = 5", "train.augment_symmetry=true", "train.learning_rate=3e-3"],
    )
    assert (settings.recipe, settings.model) == ("published", "disol")
    assert settings.model_settings == {"width": 10, "depth": 5, "head_width": 7}
    train = settings.train
    assert (train.batch_size, train.epochs, train.augment_symmetry, train.learning_rate) == (32, 7, True, 3e-3)
    assert (train.weight_decay, train.schedule) == (1e-5, "plateau")


def test_arguments_choose_model_and_recipe_against_a_file(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('recipe = "published"\n[model]\nname = "disol"\n')
    settings = choose_settings("poisson", config=file, model="unet", recipe="fast")
    assert (settings.model, settings.train) == ("unet", TrainSettings())


def test_every_setting_survives_being_written_as_an_override() -> None:
    published = RECIPES["published"].as_dict()
    overrides = [f"train.{name}={value}" for name, value in published.items()]
    assert choose_settings("poisson", overrides=overrides).train == RECIPES["published"]
    assert set(published) == {field.name for field in fields(TrainSettings)}


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("train.epoch=3", r"train has no setting 'epoch'. Its settings are epochs, batch_size, .*compile"),
        ("epochs=3", r"train.name=value or model.name=value, got 'epochs=3'"),
        ("train.epochs", r"got 'train.epochs'"),
        ("train.epochs=many", r"train.epochs must be a whole number from 1 on, got 'many'"),
        ("train.epochs=0", r"epochs must be a whole number from 1 on, got 0"),
        ("train.warmup=soon", r"train.warmup must be a number, got 'soon'"),
        ("train.warmup=1", r"warmup must be from 0 on and below 1, got 1.0"),
        ("train.min_lr_ratio=2", r"min_lr_ratio must be from 0 on and at most 1, got 2.0"),
        ("train.weight_decay=-1", r"weight_decay must be from 0 on, got -1.0"),
        ("train.learning_rate=nan", r"learning_rate must be finite"),
        ("train.augment_symmetry=yes", r"augment_symmetry must be true or false, got 'yes'"),
        ("train.schedule=step", r"schedule must be one of 'cosine', 'linear', 'constant', 'plateau', got 'step'"),
    ],
)
def test_a_wrong_override_is_explained(override: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        choose_settings("poisson", overrides=[override])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("epochs = 3", r"has no setting 'epochs'. It can have problem, recipe, model, train"),
        ("[train]\nlr = 3", r"train has no setting 'lr'. Its settings are epochs"),
        ("[train]\nepochs = 3.5", r"epochs must be a whole number"),
        ("train = 3", r"train of .* must be a section \[train\], got 3"),
        ("problem = 3", r"problem of .* must be a text, got 3"),
        ("problem = 'heat'", r"is for the problem 'heat', not 'poisson'"),
        ("recipe = 'slow'", r"Unknown recipe 'slow'. Use one of fast, published"),
        ("[train", r"must be TOML, but"),
        ("a." * 10**5 + "b = 1", r"has a line of more than 1000 dots"),
    ],
)
def test_a_wrong_file_is_explained(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "config.toml").write_text(content)
    with pytest.raises(ValueError, match=message):
        choose_settings("poisson", config=tmp_path / "config.toml")


def test_a_missing_file_is_explained(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"Cannot read .*config.toml: No such file"):
        choose_settings("poisson", config=tmp_path / "config.toml")


@pytest.mark.parametrize(("old", "new"), RENAMED.items())
def test_an_old_name_of_a_setting_is_an_error_that_names_the_new_one(old: str, new: str, tmp_path: Path) -> None:
    message = rf"^train\.{old} is called train\.{new} now\.$"
    assert new in TrainSettings().as_dict()
    with pytest.raises(ValueError, match=message):
        choose_settings("poisson", overrides=[f"train.{old}=1"])
    (tmp_path / "config.toml").write_text(f"[train]\n{old} = 1\n")
    with pytest.raises(ValueError, match=message):
        choose_settings("poisson", config=tmp_path / "config.toml")


def test_values_are_read_as_what_they_look_like() -> None:
    texts = {"width": "16", "rate": "3e-3", "gated": "True", "sizes": "[1, 2]", "downsampling": "strided"}
    overrides = [f"model.{name} = {text}" for name, text in texts.items()]
    expected = {"width": 16, "rate": 3e-3, "gated": True, "sizes": [1, 2], "downsampling": "strided"}
    assert choose_settings("poisson", overrides=overrides).model_settings == expected


def test_settings_show_what_differs_from_the_default() -> None:
    assert repr(TrainSettings()) == "TrainSettings()"
    assert repr(TrainSettings(epochs=3, loss="grid-l1")) == "TrainSettings(epochs=3, loss='grid-l1')"


def test_settings_are_read_without_torch() -> None:
    script = (
        "import sys\nfrom disol.training import RECIPES, choose_settings\n"
        "choose_settings('poisson', overrides=['train.epochs=3', 'model.width=8'])\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
