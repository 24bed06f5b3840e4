"""A run can be stopped at any moment, and ends as if nothing had happened."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from interrupted import assert_same_result, stopped_after

from disol import PROBLEMS
from disol.data import generate
from disol.data.store import create_store, open_store
from disol.models import load_checkpoint
from disol.training import RunReport, choose_settings, read_history, train
from disol.training.clock import FINISHING, Clock
from disol.training.epochs import Run, prepare_network
from disol.training.folder import RunFolder
from disol.training.run import read_task

Train = Callable[..., RunReport]
EPOCHS = 20
SMALL = {"width": 4, "depth": 2, "gated_skips": 1}
SCRIPT = """
import sys
from disol.training import train
from disol.training.epochs import Run
train_epoch = Run.train_epoch
Run.train_epoch = lambda run, *given: sys.stdin.read() if run.epoch == 10 else train_epoch(run, *given)  # wait here
train("poisson", sys.argv[1], sys.argv[2], overrides=["train.batch_size=8", "train.epochs=20"], device="cpu",
      model_settings={"width": 4, "depth": 2, "gated_skips": 1})
"""


@pytest.mark.parametrize(
    ("problem", "recipe", "changes"),
    [
        ("poisson", "fast", []),
        ("poisson", "fast", ["train.optimizer=adamw", "train.loss=grid-l1"]),
        ("heat", "fast", []),
        ("poisson", "published", ["train.plateau_patience=0"]),
    ],
)
def test_a_resumed_run_is_bit_for_bit_the_undisturbed_one(
    train_small: Train, tmp_path: Path, problem: str, recipe: str, changes: list[str]
) -> None:
    options = {"problem": problem, "recipe": recipe, "seed": 5}
    train_small("straight", *changes, **options)
    with stopped_after(2):
        train_small("stopped", *changes, **options)
    assert len(read_history(tmp_path / "stopped")) == 2
    report = train_small("stopped", *changes, resume=True, **options)
    assert report.epochs == 4
    assert_same_result(tmp_path / "straight", tmp_path / "stopped")


def test_a_killed_run_loses_at_most_one_epoch(train_small: Train, file_of: Callable[..., Path], tmp_path: Path) -> None:
    folder = tmp_path / "killed"
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, tmp_path / "script.py", file_of("poisson"), folder]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 600
        while len(read_history(folder)) < 3 and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
    written = len(read_history(folder))
    assert 3 <= written < EPOCHS
    assert load_checkpoint(folder / "last", state=True).state["epoch"] >= written - 1
    assert load_checkpoint(folder).metrics["epoch"] <= written + 1
    for name in (".history-unfinished-abcd_123.jsonl", ".losses-unfinished-abcd_123.png"):
        (folder / name).touch()  # as a process leaves that is killed while it writes them
    train_small("killed", epochs=EPOCHS, resume=True)
    assert not list(folder.glob(".*"))
    train_small("straight", epochs=EPOCHS)
    assert_same_result(tmp_path / "straight", folder)


def test_a_run_killed_before_its_first_state_starts_again(train_small: Train, tmp_path: Path) -> None:
    (tmp_path / "run" / "last" / ".unfinished-abc").mkdir(parents=True)
    assert train_small("run", resume=True, epochs=1).epochs == 1
    assert not (tmp_path / "run" / "last").exists()


def test_resuming_what_does_not_exist_starts_it(train_small: Train, tmp_path: Path) -> None:
    train_small("resumed", resume=True)
    train_small("started")
    assert_same_result(tmp_path / "resumed", tmp_path / "started")


def test_a_finished_run_is_left_alone(train_small: Train, tmp_path: Path) -> None:
    report = train_small("run")
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "run").iterdir()}
    assert train_small("run", resume=True) == report
    assert {path.name: path.stat().st_mtime_ns for path in (tmp_path / "run").iterdir()} == before
    with pytest.raises(ValueError, match=r"was begun with train.epochs=4, now asked for 9"):
        train_small("run", resume=True, epochs=9)


def test_a_run_killed_while_it_finished_is_tidied_up(train_small: Train, tmp_path: Path) -> None:
    report = train_small("run")
    (tmp_path / "run" / "last" / "incoming").mkdir(parents=True)
    assert train_small("run", resume=True) == report
    assert not (tmp_path / "run" / "last").exists()


def test_a_folder_is_not_overwritten(train_small: Train, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.tex").touch()
    for resume in (False, True):
        with pytest.raises(ValueError, match=r"run exists already. Resume it, remove it, or choose another out"):
            train_small("run", resume=resume)
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epochs": 9}, r"train.epochs=4, now asked for 9"),
        ({"seed": 1}, r"seed=0, now asked for 1"),
        ({"minutes": 1}, r"minutes=None, now asked for 1.0"),
        ({"model_settings": {"width": 8, "depth": 2, "gated_skips": 1}}, r"model.width=4, now asked for 8"),
        ({"model": "unet", "model_settings": {}}, r"model='disol', now asked for 'unet'"),
    ],
)
def test_a_run_is_not_continued_with_other_settings(train_small: Train, options: dict, message: str) -> None:
    with stopped_after(1):
        train_small("run")
    with pytest.raises(ValueError, match=rf"was begun with {message}. Ask for the same"):
        train_small("run", resume=True, **options)


@pytest.mark.parametrize("recipe", ["fast", "published"])
def test_a_run_resumed_without_settings_goes_on_with_its_own(
    train_small: Train, file_of: Callable[..., Path], tmp_path: Path, recipe: str
) -> None:
    options = {"recipe": recipe, "seed": 5}
    train_small("straight", **options)
    with stopped_after(2):
        train_small("stopped", **options)
    for _ in range(2):  # a finished run is left alone
        assert train(None, file_of("poisson"), tmp_path / "stopped", resume=True, device="cpu").epochs == 4
        assert_same_result(tmp_path / "straight", tmp_path / "stopped")


def test_a_time_limit_is_taken_from_the_run(
    train_small: Train, fake_clock, file_of: Callable[..., Path], tmp_path: Path
) -> None:
    with stopped_after(2):
        train_small("run", minutes=0.06)
    report = train("poisson", file_of("poisson"), tmp_path / "run", resume=True, device="cpu")
    assert 3.6 - FINISHING - 0.2 < report.seconds < 3.6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seed": 0}, r"was begun with train.epochs=4, now asked for 100"),
        ({"minutes": 1}, r"was begun with minutes=None, now asked for 1.0"),
        ({"overrides": ["train.batch_size=64"]}, r"was begun with train.epochs=4, now asked for 100"),
        ({"model": "unet"}, r"was begun with model='disol', now asked for 'unet'"),
        ({"problem": "heat"}, r"was begun with problem='poisson', now asked for 'heat'"),
    ],
)
def test_the_setting_that_differs_is_named_before_files_are_read(
    train_small: Train, tmp_path: Path, options: dict, message: str
) -> None:
    with stopped_after(1):
        train_small("run")
    options = {"problem": None, "resume": True, "device": "cpu", **options}
    with pytest.raises(ValueError, match=message):
        train(data="no such file", out=tmp_path / "run", **options)


def test_a_problem_is_needed_where_there_is_no_run(tmp_path: Path) -> None:
    for resume in (False, True):
        with pytest.raises(ValueError, match=r"Training needs a problem: there is no run to resume in .*run"):
            train(None, "no such file", tmp_path / "run", resume=resume)


def test_weights_to_start_from_are_given_again_and_the_rest_is_taken_from_the_run(
    train_small: Train, file_of: Callable[..., Path], tmp_path: Path
) -> None:
    first = train_small("first", epochs=1).path
    tuned = {"start": first, "model_settings": None}
    train_small("straight", **tuned)
    with stopped_after(2):
        train_small("stopped", **tuned)
    again = {"data": file_of("poisson"), "out": tmp_path / "stopped", "resume": True, "device": "cpu"}
    with pytest.raises(ValueError, match=r"was begun with the weights of another network. Pass its start too"):
        train("poisson", **again)
    train("poisson", start=first, **again)
    assert_same_result(tmp_path / "straight", tmp_path / "stopped")


def test_a_run_is_not_continued_with_other_cases(file_of: Callable[..., Path], tmp_path: Path) -> None:
    store = open_store(file_of("poisson"))
    settings = choose_settings("poisson", model_settings=SMALL, overrides=["train.batch_size=8"])

    def folder(amplitude: float = 1.0, last_amplitude: float = 1.0, pattern: float = 1.0) -> RunFolder:
        arrays = store.read()
        arrays["amplitude"] *= amplitude
        arrays["amplitude"][-1] *= last_amplitude
        arrays["pattern"] *= np.float32(pattern)
        data = tmp_path / "cases.h5"
        data.unlink(missing_ok=True)
        with create_store(data, store.settings) as writer:
            writer.write_chunk(0, arrays)
        task = read_task(PROBLEMS["poisson"], settings, data, tmp_path / "run")
        return RunFolder.of(task, prepare_network(task))

    begun = folder().identity
    folder().require_same(begun)
    folder(amplitude=1 + 1e-12, pattern=1 + 1e-7).require_same(begun)  # generated by a machine that rounds otherwise
    with pytest.raises(ValueError, match=r"was begun with cases='[0-9a-f]+', now asked for '[0-9a-f]+'. Ask for the"):
        folder(last_amplitude=1.01).require_same(begun)


def test_a_run_of_an_earlier_version_is_refused_in_one_line(
    train_small: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = RunFolder.of

    def as_before(task, first):
        folder = of(task, first)
        return replace(folder, identity={name.removesuffix("_size"): value for name, value in folder.identity.items()})

    monkeypatch.setattr(RunFolder, "of", as_before)
    train_small("finished", epochs=1)
    with stopped_after(1):
        train_small("stopped", epochs=2)
    monkeypatch.undo()
    for name in ("finished", "stopped"):
        with pytest.raises(
            ValueError, match=rf"{name} was begun by an earlier version of disol, .* choose another out"
        ):
            train_small(name, epochs=1, resume=True)


def test_a_time_limit_counts_all_sessions(train_small: Train, fake_clock, tmp_path: Path) -> None:
    with stopped_after(2):
        train_small("run", minutes=0.06)
    spent = load_checkpoint(tmp_path / "run" / "last", state=True).state["seconds"]
    prepared = load_checkpoint(tmp_path / "run" / "last", state=True).state["prepared"]
    assert spent == pytest.approx(prepared + 2 * (4 * fake_clock.step + fake_clock.validation))
    started = fake_clock.seconds
    report = train_small("run", minutes=0.06, resume=True)
    assert fake_clock.seconds - started < 3.6 - spent + prepared
    assert 3.6 - FINISHING - 0.2 < report.seconds < 3.6
    assert read_history(tmp_path / "run")[-1].learning_rate < 0.05 * 2e-3


def test_the_time_of_a_run_without_an_epoch_begins_anew(
    train_small: Train, fake_clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with stopped_after(0):
        train_small("run", minutes=0.06)
    starts, train_epoch = [], Run.train_epoch

    def watched(run, pace, tell):
        starts.append(pace.start)
        return train_epoch(run, pace, tell)

    monkeypatch.setattr(Run, "train_epoch", watched)
    train_small("run", minutes=0.06, resume=True)
    assert 0 <= starts[0] < 0.1 < starts[-1]


def test_preparing_again_takes_nothing_from_the_training_that_is_left() -> None:
    now = 0.0
    clock = Clock(epochs=1, num_batches=10, limit=100.0, read=lambda: now)
    now = 30.0
    clock.ready()
    assert (clock.seconds, clock.prepared) == (30.0, 30.0)
    resumed = Clock(epochs=1, num_batches=10, limit=100.0, spent=80.0, prepared=30.0, started=200.0, read=lambda: now)
    now = 215.0
    resumed.ready()
    assert (resumed.seconds, resumed.prepared, resumed.seconds_left) == (80.0, 30.0, 20.0 - FINISHING)


def begin(file: Path, place: Path) -> Path:
    """Begin a run on a copy of a file at a place, and interrupt it; return its folder."""
    place.parent.mkdir(parents=True)
    shutil.copy(file, place)
    settings = ["train.batch_size=8", "train.epochs=4"]
    out = place.parent / "runs" / "one"
    with stopped_after(2):
        train("poisson", place, out, overrides=settings, model_settings=SMALL, device="cpu")
    return out


@pytest.mark.parametrize("moved", ["nothing", "the run alone", "both", "both and linked"])
def test_a_run_finds_its_cases_by_itself_wherever_it_is_moved(
    train_small: Train, file_of: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moved: str
) -> None:
    train_small("straight")
    monkeypatch.chdir(tmp_path)
    run = begin(file_of("poisson"), Path("project") / "cases.h5").absolute()
    monkeypatch.chdir("/")  # paths do not depend on where the command is called
    if moved == "the run alone":
        run = run.rename(tmp_path / "elsewhere")
    elif moved != "nothing":
        (tmp_path / "project").rename(tmp_path / "archive")
        run = tmp_path / "archive" / "runs" / "one"
    if moved == "both and linked":
        (tmp_path / "link").symlink_to(run)
        run = tmp_path / "link"
    report = train(None, None, run, resume=True, device="cpu")
    assert report.epochs == 4
    assert_same_result(tmp_path / "straight", run)
    assert str(tmp_path) not in (run / "metrics.json").read_text(), "a finished run tells nobody where things were"
    assert train(None, None, run, resume=True) == report, "a finished run needs no cases"
    with pytest.raises(ValueError, match=r"is finished and no longer says where its cases were\. Pass its data"):
        train("poisson", None, run, resume=True)


def test_cases_that_are_gone_or_differ_are_named_and_others_can_be_passed(
    file_of: Callable[..., Path], tmp_path: Path
) -> None:
    place = tmp_path / "project" / "cases.h5"
    run = begin(file_of("poisson"), place)
    place.rename(tmp_path / "moved.h5")
    with pytest.raises(ValueError, match=rf"one was begun with the cases of {place}, which does not exist\. Pass its"):
        train(None, None, run, resume=True)
    generate("poisson", 40, place, resolution=16, conventions="paper", workers=0, device="cpu", seed=1)
    with pytest.raises(ValueError, match=rf"one was begun with data.seed=0, but {place} has 1 now\. Pass its data"):
        train(None, None, run, resume=True)
    with stopped_after(3):
        train(None, tmp_path / "moved.h5", run, resume=True, device="cpu")
    place.unlink()
    assert train(None, None, run, resume=True, device="cpu").epochs == 4, "it should know the file passed last"


@pytest.mark.parametrize("places", [None, 3, [], ["cases.h5"], [{"path": "cases.h5"}], [{"path": 1, "from_run": "x"}]])
def test_a_run_that_does_not_say_where_its_cases_are_asks_for_them(
    train_small: Train, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, places: object
) -> None:
    monkeypatch.setattr("disol.training.folder.describe_places", lambda *_: places)
    with stopped_after(1):
        train_small("run")
    with pytest.raises(ValueError, match=r"run does not say where its cases are\. Pass its data"):
        train(None, None, tmp_path / "run", resume=True)
    with pytest.raises(ValueError, match=r"Training needs data: there is no run to resume in .*none"):
        train("poisson", None, tmp_path / "none", resume=True)
