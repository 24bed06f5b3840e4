"""An evaluation does not pass off cases of the training as tests."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from known_answers import TINY

from disol.data import generate, open_store
from disol.errors import DisolError
from disol.evaluation import evaluate
from disol.evaluation.evaluate import find_seen_cases
from disol.models import create_model, load_checkpoint, save_checkpoint
from disol.training import train


@pytest.fixture(scope="module")
def run(files: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model trained on the first five of seven cases."""
    out = tmp_path_factory.mktemp("trained") / "run"
    overrides = ["train.batch_size=4", "train.epochs=1"]
    train("poisson", files["poisson"], out, model_settings=TINY, overrides=overrides, device="cpu", progress=False)
    return out


def test_the_file_of_the_training_is_evaluated_on_its_validation_cases_and_said_so(run, files, tmp_path):
    found = evaluate(run, [files["poisson"], files["shapes"]], out=tmp_path)
    assert found.splits == ("validation", "all")
    assert found.files[0].index.tolist() == [5, 6]
    assert len(found.files[1]) == 8
    [note] = found.notes
    assert note == f"The model was trained on {files['poisson']}: its validation split is evaluated by default."
    written = json.loads((tmp_path / "evaluation.json").read_text())
    assert written["notes"] == [note]
    assert [file["split"] for file in written["files"]] == ["validation", "all"]


@pytest.mark.parametrize(("split", "cases", "seen"), [("all", 7, 5), ("train", 5, 5), ("validation", 2, 0)])
def test_a_split_that_is_asked_for_is_obeyed(run, files, split, cases, seen):
    found = evaluate(run, files["poisson"], split=split)
    assert found.splits == (split,)
    assert len(found.files[0]) == cases
    told = [f"The model was trained on {seen} of these {cases} cases of {files['poisson']}."] if seen else []
    assert [note.split(" Generate")[0] for note in found.notes] == told


def test_cases_that_another_file_repeats_are_counted(run, files, tmp_path):
    for cases, seen in ((3, 3), (10, 5)):
        path = tmp_path / f"{cases}.h5"
        generate("poisson", cases, path, seed=3, resolution=16, workers=0, device="cpu")
        found = evaluate(run, path)
        assert found.splits == ("all",)
        assert f"trained on {seen} of these {cases} cases" in found.notes[0]
        known, own = open_store(files["poisson"]).read(slice(seen)), open_store(path).read(slice(seen))
        assert (known["source"] == own["source"]).all()


def test_cases_that_are_repeated_at_another_resolution_are_counted(run, files):
    found = evaluate(run, files["fine"])
    assert (found.splits, len(found.files[0])) == (("all",), 2)
    assert any("trained on 2 of these 2 cases" in note for note in found.notes)
    assert not any("validation split" in note for note in found.notes)


def test_another_seed_or_shift_repeats_nothing(run, tmp_path):
    for number, settings in enumerate(({"seed": 4}, {"seed": 3, "shift": "all"})):
        path = tmp_path / f"{number}.h5"
        generate("poisson", 3, path, resolution=16, workers=0, device="cpu", **settings)
        assert evaluate(run, path).notes == ()


@pytest.mark.parametrize("metrics", [{}, {"run": None}, {"run": {"seed": 3}}, {"run": {"data.num_cases": 7}}])
def test_a_model_that_does_not_tell_its_file_is_evaluated_on_all_cases(files, tmp_path, metrics):
    network = create_model("disol", "poisson", **TINY)
    checkpoint = save_checkpoint(tmp_path / "run", network, "poisson", resolution=16, metrics=metrics)
    found = evaluate(checkpoint, files["poisson"])
    assert (found.splits, len(found.files[0]), found.notes) == (("all",), 7, ())
    assert evaluate(network, files["poisson"]).splits == ("all",)


def test_a_training_file_is_recognised_whatever_the_version_that_wrote_it(run, files):
    metrics = json.loads((run / "metrics.json").read_text())
    settings = replace(open_store(files["poisson"]).settings, package_version="another")
    assert find_seen_cases(metrics, settings).is_training_file


@pytest.mark.parametrize("num_cases", [10**12, 10**30])
def test_a_model_that_claims_to_know_very_many_cases_takes_no_memory(run, files, num_cases):
    metrics = load_checkpoint(run).metrics
    metrics["run"]["data.num_cases"] = num_cases
    settings = open_store(files["poisson"]).settings
    assert find_seen_cases(metrics, settings).count(np.arange(7)) == 7


@pytest.mark.parametrize("num_cases", [0, -1, True])
def test_a_model_that_claims_to_know_odd_numbers_of_cases_is_refused(run, files, num_cases):
    metrics = load_checkpoint(run).metrics
    metrics["run"]["data.num_cases"] = num_cases
    with pytest.raises(DisolError, match="num_cases must"):
        find_seen_cases(metrics, open_store(files["poisson"]).settings)
