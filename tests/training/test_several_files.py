"""Training on several files, which may differ in their resolution."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from interrupted import assert_same_result, stopped_after
from torch import nn

import disol
from disol.data import generate, open_store
from disol.errors import DisolError
from disol.evaluation.evaluate import find_seen_cases
from disol.models import load_checkpoint
from disol.training import RunReport, TrainSettings, choose_settings, read_history, train
from disol.training.batches import spread_evenly
from disol.training.clock import Clock
from disol.training.distributed import join_processes
from disol.training.epochs import Run, prepare_network
from disol.training.folder import RunFolder
from disol.training.loop import Objective, Training, compiling_shapes
from disol.training.run import read_task

SMALL = {"width": 4, "depth": 2, "gated_skips": 1}
Files = list[Path]
Train = Callable[..., RunReport]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """Cases of 16 x 16 pixels, 32 for training, and of 24 x 24, 16 for training."""
    folder, made = tmp_path_factory.mktemp("several"), []
    for seed, (side, cases) in enumerate([(16, 40), (24, 20)]):
        made.append(folder / f"{side}.h5")
        generate("poisson", cases, made[-1], seed=seed, resolution=side, workers=0, device="cpu")
    return made


@pytest.fixture
def train_on(tmp_path: Path) -> Train:
    def run(data, name: str = "run", *changes: str, epochs: int = 3, **options) -> RunReport:
        overrides = ["train.batch_size=8", f"train.epochs={epochs}", *changes]
        given = {"model_settings": SMALL, "device": "cpu", "progress": False, **options}
        return train("poisson", data, tmp_path / name, overrides=overrides, **given)

    return run


def run_of(files: Files, folder: Path, seed: int = 0) -> Run:
    settings = choose_settings("poisson", model_settings=SMALL, overrides=["train.batch_size=8"])
    task = read_task(disol.PROBLEMS["poisson"], settings, files, folder, seed)
    first = prepare_network(task)
    return Run(task, first.network, RunFolder.of(task, first), Clock(1, 1), join_processes("cpu"))


def cases_of(run: Run) -> Iterator[tuple[int, list[int]]]:
    for batch in run.batches():
        yield batch["inputs"].shape[-1], batch["index"].tolist()


def test_one_file_in_a_list_is_one_file(files: Files, train_on: Train, tmp_path: Path) -> None:
    train_on(files[0], "one")
    train_on([files[0]], "listed")
    assert_same_result(tmp_path / "one", tmp_path / "listed")
    one, listed = (load_checkpoint(tmp_path / name) for name in ("one", "listed"))
    assert one.metrics["run"] == listed.metrics["run"]
    assert not any(name.startswith("data2") for name in one.metrics["run"])
    assert "file_losses" not in (tmp_path / "one" / "history.jsonl").read_text()


def test_an_epoch_has_every_case_of_every_file_once_and_batches_of_one_grid(files: Files, tmp_path: Path) -> None:
    seen: dict[int, list[int]] = {16: [], 24: []}
    sizes = set()
    for side, cases in cases_of(run_of(files, tmp_path)):
        seen[side] += cases
        sizes.add((side, len(cases)))
    assert {side: sorted(cases) for side, cases in seen.items()} == {16: list(range(32)), 24: list(range(16))}
    assert sizes == {(16, 8), (24, 4)}


def test_the_batches_of_an_epoch_are_a_function_of_seed_and_epoch(files: Files, tmp_path: Path) -> None:
    first, again, other = (run_of(files, tmp_path, seed) for seed in (1, 1, 2))
    for run in (first, again, other):
        run.epoch = 5
    epoch = list(cases_of(first))
    assert epoch == list(cases_of(again))
    assert epoch != list(cases_of(other))
    again.epoch = 6
    assert epoch != list(cases_of(again))


def test_files_of_as_many_cases_are_shuffled_independently(files: Files, tmp_path: Path) -> None:
    by_file = run_of([files[0], files[0]], tmp_path).batches_by_file()
    first, second = ([batch["index"].tolist() for batch in batches] for batches in by_file)
    assert first != second


@given(st.lists(st.integers(1, 30), min_size=1, max_size=5))
def test_every_beginning_of_an_epoch_has_its_share_of_each_file(counts: list[int]) -> None:
    order = np.array(spread_evenly(counts))
    for file, count in enumerate(counts):
        found = np.cumsum(order == file)
        assert found[-1] == count
        assert np.abs(found - count * np.arange(1, len(order) + 1) / len(order)).max() < len(counts)


@given(st.integers(16, 512), st.integers(16, 512))
def test_batches_have_about_as_many_pixels_at_every_resolution(first: int, side: int) -> None:
    size = TrainSettings(batch_size=4096).batch_size_at(side, first)
    assert 2**-0.51 < size * side**2 / (4096 * first**2) < 2**0.51
    assert TrainSettings(batch_size=1).batch_size_at(4 * first, first) == 1
    assert TrainSettings(batch_size=37).batch_size_at(first, first) == 37


def test_an_interrupted_run_on_two_files_ends_as_if_nothing_had_happened(
    files: Files, train_on: Train, tmp_path: Path
) -> None:
    train_on(files, "whole")
    with stopped_after(2):
        train_on(files, "stopped")
    train_on(files, "stopped", resume=True)
    assert_same_result(tmp_path / "whole", tmp_path / "stopped")


def test_the_validation_loss_is_the_mean_over_the_files(files: Files, train_on: Train, tmp_path: Path) -> None:
    report = train_on(files)
    for record in read_history(tmp_path / "run"):
        assert len(record.file_losses) == 2
        assert record.validation_loss == pytest.approx(np.mean(record.file_losses), rel=1e-12)
    checkpoint = load_checkpoint(tmp_path / "run")
    own = [disol.evaluate(checkpoint, file, progress=False).files[0].values["grid_mae"].mean() for file in files]
    assert report.validation_loss == pytest.approx(np.mean(own), rel=1e-4)
    assert checkpoint.metrics["training_cases"] == 48


def test_a_checkpoint_tells_all_resolutions_and_predicts_on_them_without_a_warning(
    files: Files, train_on: Train, tmp_path: Path
) -> None:
    train_on(files)
    surrogate = disol.load(tmp_path / "run", device="cpu")
    assert (surrogate.resolution, surrogate.resolutions) == (16, (16, 24))
    assert "trained on 16 x 16 and 24 x 24, paper conventions" in repr(surrogate)
    for side in surrogate.resolutions:  # warnings are errors
        surrogate.predict(disol.draw("poisson", resolution=side, conventions="paper"))
    with pytest.warns(UserWarning, match="trained on 16 x 16 and 24 x 24 grids, got 20 x 20"):
        surrogate.predict(disol.draw("poisson", resolution=20, conventions="paper"))


def test_every_training_file_is_evaluated_on_its_validation_cases(
    files: Files, train_on: Train, tmp_path: Path
) -> None:
    train_on(files)
    found = disol.evaluate(tmp_path / "run", files, progress=False)
    assert found.splits == ("validation", "validation")
    assert not any("has a grid of" in note for note in found.notes)
    seen = find_seen_cases(load_checkpoint(tmp_path / "run").metrics, open_store(files[1]).settings)
    assert seen.is_training_file
    assert seen.count(np.arange(20)) == 16


def test_a_run_with_a_time_limit_tries_a_step_of_every_shape(
    files: Files, train_on: Train, fake_clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried, try_steps = [], Training.try_steps

    def watched(training, batch, read_time):
        tried.append(tuple(batch["inputs"].shape))
        return try_steps(training, batch, read_time)

    monkeypatch.setattr(Training, "try_steps", watched)
    report = train_on(files, minutes=0.2)
    assert tried == [(8, 3, 16, 16), (4, 3, 24, 24)]
    assert 0.2 * 60 - 2 < report.seconds <= 0.2 * 60


def test_files_that_disagree_are_refused_in_one_line(files: Files, train_on: Train, tmp_path: Path) -> None:
    published, other = tmp_path / "published.h5", tmp_path / "heat.h5"
    generate("poisson", 10, published, conventions="published", resolution=16, workers=0, device="cpu")
    generate("heat", 10, other, resolution=16, workers=0, device="cpu")
    for data, message in (
        ([files[0], published], f"{files[0]} has the conventions 'paper', but {published} has 'published'."),
        ([files[0], other], f"{other} holds cases of 'heat', not of 'poisson'."),
        ([], "Training needs one file of cases or more, got none."),
        ([files[0], tmp_path / "none.h5"], "none.h5"),
    ):
        with pytest.raises(DisolError, match=re.escape(message)) as raised:
            train_on(data)
        assert "\n" not in str(raised.value)


def test_a_file_with_fewer_cases_than_its_batch_is_refused_with_a_batch_size_that_does(
    files: Files, train_on: Train, tmp_path: Path
) -> None:
    few = tmp_path / "few.h5"
    generate("poisson", 5, few, seed=3, resolution=24, workers=0, device="cpu")
    with pytest.raises(DisolError, match=r"few.h5 has 4 training cases, fewer than one batch of 8. Set .*=8 or less"):
        train_on([files[0], few], "run", "train.batch_size=16")
    train_on([files[0], few], "run", "train.batch_size=8", epochs=1)
    one = tmp_path / "one.h5"
    generate("poisson", 1, one, seed=3, resolution=24, workers=0, device="cpu")
    with pytest.raises(DisolError, match=r"one.h5 has 0 training cases, fewer than one batch of 8. Generate"):
        train_on([files[0], one], "other", "train.batch_size=16")


def test_a_run_is_not_resumed_with_other_files(files: Files, train_on: Train, tmp_path: Path) -> None:
    with stopped_after(1):
        train_on(files)
    changed = tmp_path / "changed.h5"
    generate("poisson", 20, changed, seed=7, resolution=24, workers=0, device="cpu")
    for data, told in (([files[0], changed], "data2.seed=1, now asked for 7"), ([files[0]], "data2.problem='poisson'")):
        with pytest.raises(DisolError, match=re.escape(told)):
            train_on(data, resume=True)
    with pytest.raises(DisolError, match="was begun with data"):
        train_on(files[::-1], "run", resume=True)


def test_validation_cases_that_another_file_trains_on_are_told(files: Files, train_on: Train, tmp_path: Path) -> None:
    fine = tmp_path / "fine.h5"
    generate("poisson", 10, fine, seed=0, resolution=24, workers=0, device="cpu")  # 16 x 16 trains on 32 of that seed
    report = train_on([files[0], fine], epochs=1)
    assert [note for note in report.notes if note.startswith(f"2 validation cases of {fine} are training cases of")]
    assert not train_on(files, "other", epochs=1).notes


def test_batches_of_many_shapes_are_all_compiled() -> None:
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    network, validator = (Objective(nn.Conv2d(3, 1, 1), lambda found, _: found.mean((1, 2, 3))) for _ in range(2))
    sides = range(1, 8)
    with compiling_shapes(len(sides)):
        for objective in (network, validator):
            objective.compile(dynamic=False, backend=backend)
        for side in sides:
            batch = {"inputs": torch.ones(1, 3, side, side)}
            network(batch)
            with torch.no_grad():
                validator(batch)
    assert len(graphs) == 2 * len(sides)


def test_weights_trained_on_two_grids_fit_both_better_than_random_ones(
    files: Files, train_on: Train, tmp_path: Path
) -> None:
    train_on(files, epochs=25)
    first, *_, last = read_history(tmp_path / "run")
    assert all(later < 0.6 * earlier for earlier, later in zip(first.file_losses, last.file_losses, strict=True))
    assert torch.isfinite(torch.tensor(last.file_losses)).all()
