"""Damaged folders, odd settings, full disks, two trainings at once: told in one line, and nothing is lost."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from interrupted import assert_same_result, stopped_after

from disol.errors import DisolError
from disol.models import load_checkpoint, save_checkpoint
from disol.models.checkpoint import STATE
from disol.training import RunReport, choose_settings, history, read_history
from disol.training.folder import LOCK, RunFolder
from disol.training.loop import Training
from disol.training.run import train

Train = Callable[..., RunReport]
SMALL = {"width": 4, "depth": 2, "gated_skips": 1}


@pytest.fixture(scope="module")
def first_epoch(file_of: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was stopped after one of its two epochs."""
    out, overrides = tmp_path_factory.mktemp("stopped") / "run", ["train.batch_size=8", "train.epochs=2"]
    with stopped_after(1):
        train("poisson", file_of("poisson"), out, overrides=overrides, model_settings=SMALL, device="cpu")
    return out


@pytest.fixture
def stopped(first_epoch: Path, tmp_path: Path) -> Path:
    """A copy of it, which `train_small("run", epochs=2, resume=True)` continues."""
    return shutil.copytree(first_epoch, tmp_path / "run")


def test_a_folder_has_one_training_at_a_time(train_small: Train, stopped: Path) -> None:
    lock = stopped / "last" / LOCK
    script = (
        f"import sys\nfrom disol._files import claimed\nfrom pathlib import Path\nwith claimed(Path({str(lock)!r})):\n"
    )
    script += "    print('held', flush=True)\n    sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout.readline() == "held\n"
        before = {path: path.read_bytes() for path in stopped.rglob("*") if path.is_file()}
        with pytest.raises(DisolError, match=r"last is in use by another process\. Wait until it has finished"):
            train_small("run", epochs=2, resume=True)
        assert {path: path.read_bytes() for path in before} == before
        other.kill()
    assert lock.exists()  # left behind by the process that was killed, which holds it no longer
    assert train_small("run", epochs=2, resume=True).epochs == 2
    assert not (stopped / "last").exists()


def test_a_run_that_is_refused_leaves_no_folder(
    train_small: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(training, *given):
        raise DisolError("no")

    monkeypatch.setattr(Training, "__init__", fail)
    with pytest.raises(DisolError, match="no"):
        train_small("run", epochs=1)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["last", "last/incoming", "incoming"])
def test_a_link_in_a_run_is_not_followed(train_small: Train, stopped: Path, tmp_path: Path, name: str) -> None:
    target = tmp_path / "precious"
    (stopped / "last").rename(target) if name == "last" else target.mkdir()
    (target / "thesis.tex").touch()
    before = {path: path.read_bytes() for path in target.iterdir()}
    (stopped / name).symlink_to(target)
    with pytest.raises(DisolError, match=rf"{name} must be a folder, but is a link\. Remove it"):
        train_small("run", epochs=2, resume=True)
    assert {path: path.read_bytes() for path in target.iterdir()} == before


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"[" * 10**5, "must hold JSON, but is damaged"),
        (b"\xff", "must hold JSON, but is damaged"),
        (b"[1]", r"must hold a line for each epoch, got \[1\]"),
        (b'{"epoch": 1}', "must hold a line for each epoch, got {'epoch': 1}"),
        (json.dumps(dict.fromkeys(history.EpochRecord.__dataclass_fields__, "1")).encode(), "epoch in .* got '1'"),
    ],
)
def test_a_damaged_history_is_told_in_one_line(stopped: Path, line: bytes, message: str) -> None:
    with (stopped / "history.jsonl").open("ab") as file:
        file.write(line + b"\n")
    with pytest.raises(DisolError, match=message) as raised:
        read_history(stopped)
    assert len(str(raised.value).splitlines()) == 1


def test_a_history_that_never_ends_is_not_read(stopped: Path) -> None:
    (stopped / "history.jsonl").unlink()
    os.mkfifo(stopped / "history.jsonl")
    with pytest.raises(DisolError, match="it is a pipe, not a regular file"):
        read_history(stopped)


def test_a_full_disk_is_told_and_the_run_goes_on_later(
    train_small: Train, stopped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = history.History.add

    def add_to_full_disk(records, record):
        os.dup2(full.fileno(), records.file.fileno())
        add(records, record)

    with Path("/dev/full").open("ab", buffering=0) as full, monkeypatch.context() as patched:
        patched.setattr(history.History, "add", add_to_full_disk)
        with pytest.raises(DisolError, match=r"Cannot write .*history\.jsonl: No space left on device\. Free some"):
            train_small("run", epochs=2, resume=True)
    with monkeypatch.context() as patched:
        patched.setattr("disol._files.write_durably", lambda path, content: Path("/dev/full").write_bytes(content))
        with pytest.raises(DisolError, match=r"Cannot write to .*: No space left on device\. Free some"):
            train_small("run", epochs=2, resume=True)
    train_small("run", epochs=2, resume=True)
    train_small("straight", epochs=2)
    assert_same_result(stopped, tmp_path / "straight")


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("[enforce fail at alloc_cpu.cpp:118] . DefaultCPUAllocator: can't allocate memory: you tried ..."),
        RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 1099511627776 bytes."),
        torch.OutOfMemoryError("CUDA out of memory."),
    ],
)
def test_a_network_or_batch_too_large_for_the_memory_is_told(
    train_small: Train, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(training, *given):
        raise error

    monkeypatch.setattr(Training, "step", fail)
    with pytest.raises(DisolError, match=r"8 cases at a time, does not fit into the memory of cpu\. Use a smaller"):
        train_small("run")


def test_a_network_too_large_for_the_memory_is_told_before_it_is_built(
    train_small: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("disol.training.epochs.free_bytes_of_host", lambda: 10**4)
    monkeypatch.setattr("disol.training.epochs.build_network", pytest.fail)
    with pytest.raises(DisolError, match=r"does not fit into the memory of cpu\. Use a smaller train.batch_size, or"):
        train_small("run")
    assert not (tmp_path / "run").exists()


def test_other_errors_of_torch_keep_their_traceback(train_small: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(training, *given):
        raise RuntimeError("a bug")

    monkeypatch.setattr(Training, "step", fail)
    with pytest.raises(RuntimeError, match="a bug"):
        train_small("run")


def change(state, path: str, value):
    """Return a state with one of its values replaced, or gone."""
    name, _, rest = path.partition("/")
    key = int(name) if name.isdigit() else name
    if not rest:
        items = {**state, key: value} if isinstance(state, dict) else [*state[:key], value, *state[key + 1 :]]
        return {name: item for name, item in items.items() if item != "gone"} if isinstance(items, dict) else items
    changed = change(state[key], rest, value)
    return {**state, key: changed} if isinstance(state, dict) else [*state[:key], changed, *state[key + 1 :]]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("run", "gone"),
        ("run", [1]),
        ("training", "gone"),
        ("epoch", -1),
        ("epoch", 3),
        ("epoch", 1.5),
        ("is_done", True),
        ("is_done", "no"),
        ("best", {}),
        ("best/validation_loss", "small"),
        ("best/epoch", "gone"),
        ("seconds", None),
        ("training/averaged", "many"),
        ("training/network", {}),
        ("training/network", None),
        ("training/network/readout.head.0.bias", torch.ones(1)),
        ("training/optimizer/state/0/momentum", torch.ones(3)),
        ("training/optimizer/state/0/momentum", "gone"),
        ("training/optimizer/state/1/steps", "1"),
        ("training/optimizer/state/999", {"momentum": torch.ones(1)}),
        ("training/optimizer/param_groups/0/lr", "1"),
        ("training/optimizer/param_groups", []),
        ("training/schedule", "gone"),
    ],
)
def test_a_state_that_does_not_fit_is_refused(train_small: Train, stopped: Path, path: str, value: object) -> None:
    last = load_checkpoint(stopped / "last", state=True)
    changed = change(last.state, path, value)
    metrics = {"resolution": last.resolution, "metrics": last.metrics}
    save_checkpoint(stopped / "last", last.network, "poisson", state=changed, **metrics)
    with pytest.raises(DisolError) as raised:
        train_small("run", epochs=2, resume=True)
    assert len(str(raised.value).splitlines()) == 1


def test_settings_of_an_optimizer_come_from_the_run_and_not_from_a_file(
    train_small: Train, stopped: Path, tmp_path: Path
) -> None:
    last = load_checkpoint(stopped / "last", state=True)
    changed = change(last.state, "training/optimizer/param_groups/0/betas", "none")
    save_checkpoint(stopped / "last", last.network, "poisson", state=changed, resolution=last.resolution)
    train_small("run", epochs=2, resume=True)
    train_small("straight", epochs=2)
    assert_same_result(stopped, tmp_path / "straight")


def test_a_state_is_not_left_out(train_small: Train, stopped: Path) -> None:
    last = load_checkpoint(stopped / "last")
    save_checkpoint(stopped / "last", last.network, "poisson", resolution=last.resolution)
    assert not (stopped / "last" / STATE).exists()
    with pytest.raises(DisolError, match="does not say what it was begun with, got None"):
        train_small("run", epochs=2, resume=True)


@pytest.mark.parametrize("changes", [{"run": None}, {"epochs": "4"}, {"validation_loss": None}])
def test_a_finished_run_with_odd_numbers_is_refused(
    train_small: Train, tmp_path: Path, changes: dict[str, object]
) -> None:
    train_small("run", epochs=1)
    best = load_checkpoint(tmp_path / "run")
    save_checkpoint(best.path, best.network, "poisson", resolution=16, metrics=best.metrics | changes)
    with pytest.raises(DisolError):
        train_small("run", epochs=1, resume=True)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a = " + b"[" * 5000, "must be TOML, but"),
        (b"\xff", "must be TOML, but"),
        (b"a = " + b"9" * 5000, "must be TOML, but"),
        (b"x" * 300 + b" = 1", "has no setting 'x"),
        (b"[train]\n" + b"x" * 300 + b" = 1", "train has no setting 'x"),
        (b"[train]\nepochs = 1" + b"0" * 400, "train.epochs must be at most 1,000,000,000, got 1"),
        (b"[train]\nlearning_rate = 1" + b"0" * 400, "train.learning_rate must be finite, got 1"),
        (b"[train]\nlearning_rate = 1979-05-27", "train.learning_rate must be a number, got"),
        (b"[train]\nloss = ['grid-l1']", "train.loss must be one of"),
        (b"[train.epochs]\na = 1", "train.epochs must be a whole number"),
        (b"[[train]]", r"train of .* must be a section \[train\]"),
        (b" " * 2**21, "at most 1,048,576 were expected"),
    ],
)
def test_odd_settings_are_told_in_one_line(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "config.toml").write_bytes(content)
    with pytest.raises(DisolError, match=message) as raised:
        choose_settings("poisson", config=tmp_path / "config.toml")
    assert len(str(raised.value).splitlines()) == 1
    assert len(str(raised.value)) < 800


@pytest.mark.parametrize("overrides", [[3], [None], ["train.epochs=" + "[" * 10**5], ["train.epochs=" + "9" * 5000]])
def test_odd_overrides_are_told_in_one_line(overrides: list) -> None:
    with pytest.raises(DisolError) as raised:
        choose_settings("poisson", overrides=overrides)
    assert len(str(raised.value)) < 800


@pytest.mark.parametrize("name", ["pipe", "a" * 300, "a\0b", "."])
def test_settings_that_are_no_file_are_not_waited_for(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DisolError, match="Cannot read"):
        choose_settings("poisson", config=tmp_path / name)


@pytest.mark.parametrize(
    "options",
    [
        {"out": "a" * 300},
        {"out": "a\0b"},
        {"start": "a" * 300},
        {"seed": 2**64},
        {"seed": 10**5000},
        {"model_settings": [1]},
        {"model_settings": {"width": 10**5000}},
        {"model_settings": {"x" * 300: 1}},
        {"model": "x" * 300},
        {"model": "x:" + "y" * 300},
        {"recipe": ["fast"]},
    ],
)
def test_odd_arguments_are_told_in_one_line(file_of: Callable[..., Path], tmp_path: Path, options: dict) -> None:
    given = {"overrides": ["train.batch_size=8", "train.epochs=1"], "device": "cpu", **options}
    with pytest.raises(DisolError) as raised:
        train("poisson", file_of("poisson"), tmp_path / given.pop("out", "run"), **given)
    assert len(str(raised.value).splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_a_claim_is_of_the_run(train_small: Train, tmp_path: Path) -> None:
    seen, claimed = [], RunFolder.claimed
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(RunFolder, "claimed", lambda folder: seen.append(folder.path) or claimed(folder))
        train_small("run", epochs=1)
    assert seen == [tmp_path / "run"]
