"""Settings of a comparison are checked before anything is trained."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from made_up import SETTINGS, made_up_config, write_settings

from disol.comparison.config import read_comparison
from disol.errors import DisolError

CONFIGS = sorted((Path(__file__).parents[2] / "configs" / "compare").glob("*.toml"))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_file_of_the_package_is_read_and_names_its_conventions(path):
    config = read_comparison(path)
    assert config.name == path.stem
    assert re.search(r"^conventions = ", path.read_text(), re.MULTILINE)
    assert len({entry.label for entry in config.models}) == len(config.models)


def test_what_is_not_said_has_one_default(tmp_path):
    config = made_up_config(tmp_path)
    assert (config.recipe, config.test_seed, config.minutes) == ("fast", 1, None)
    assert config.tests == {"id": 6, "shapes": 7}
    assert [entry.label for entry in config.models] == ["disol", "unet"]
    assert config.train_settings.epochs == 4
    assert config.probes.learning_rates == ()


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("conventions", "convention", "has no setting 'convention'"),
        ('conventions = "paper"', 'conventions = "papers"', "Unknown conventions 'papers'"),
        ('problem = "poisson"', 'problem = "poison"', "Unknown problem 'poison'"),
        ("cases = 40", "case = 40", "data has no setting 'case'"),
        ("cases = 40", "seed = 3", "must have cases to generate, or a file"),
        ("cases = 40", "cases = 40\nseed = 1", "tests.seed must differ from data.seed"),
        ("id = 6", "id = 0", "tests.id must be at least 1"),
        ("shapes = 7", "shape = 7", "shape"),
        ("epochs = 4", "epoch = 4", "train has no setting 'epoch'"),
        ("seeds = [0, 1, 2, 3]", "seeds = [0, 0]", "seeds must differ"),
        ("seeds = [0, 1, 2, 3]", "seeds = 3", "seeds must be one whole number or more in brackets"),
        ("seeds = [0, 1, 2, 3]", "minutes = 3", "has both minutes and train.epochs"),
        ('name = "unet"', 'name = "disol"', "label must differ"),
        ('name = "unet"', 'name = "unett"', "Unknown model 'unett'"),
        ('name = "unet"', 'label = "net"', "models needs a name"),
        ('name = "unet"', 'name = "unet"\nlabel = "../net"', "models.label must be of letters"),
        ('name = "unet"', 'name = "unet"\nsettings = { widths = 3 }', "UNetConfig has no setting 'widths'"),
        ("[report]", "[probes]\nlearning_rates = [0]\n[report]", "probes.learning_rates must be positive"),
        ("[report]", "[reports]", "has no setting 'reports'"),
        ("[data]", "[data", "must be TOML"),
    ],
)
def test_what_cannot_be_meant_is_refused(before, after, message, tmp_path):
    assert before in SETTINGS
    with pytest.raises(DisolError, match=re.escape(message)):
        read_comparison(write_settings(tmp_path, SETTINGS.replace(before, after)))


def test_single_settings_are_changed_by_overrides(tmp_path):
    config = made_up_config(tmp_path, "train.epochs=7", "data.cases=80", "seeds=[5]", "tests.id=3")
    assert (config.train_settings.epochs, config.data.cases, config.seeds, config.tests["id"]) == (7, 80, (5,), 3)
    for wrong in ("train.epochs", "=3", "models.name=fno", "train.=3"):
        with pytest.raises(DisolError):
            made_up_config(tmp_path, wrong)


def test_models_are_chosen_by_label_or_name(tmp_path):
    text = SETTINGS.replace('name = "unet"', 'name = "unet"\n[[models]]\nname = "unet"\nlabel = "wide"')
    config = read_comparison(write_settings(tmp_path, text))
    assert config.chosen_labels([]) == ("disol", "unet", "wide")
    assert config.chosen_labels(["unet"]) == ("unet", "wide")
    assert config.chosen_labels("wide") == ("wide",)
    with pytest.raises(DisolError, match="only must name models of the comparison, disol, unet, wide, got 'fno'"):
        config.chosen_labels(["fno"])


def test_settings_are_checked_without_torch(tmp_path):
    program = (
        "import sys; from disol.comparison import read_comparison; "
        f"read_comparison({str(write_settings(tmp_path))!r}); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
