"""A comparison trains and evaluates its models alike, can be interrupted, and never repeats what is finished."""

import json
import os
import shutil
import signal
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from made_up import SETTINGS, made_up_config, made_up_record, write_settings

from disol import compare
from disol._devices import check_device
from disol.cli import main
from disol.comparison import report as report_module
from disol.comparison import run as run_module
from disol.comparison.comparison import Comparison, _Jobs
from disol.comparison.config import read_comparison
from disol.comparison.plan import Places, PlannedRun
from disol.comparison.records import write_record
from disol.comparison.report import write_comparison
from disol.errors import DisolError
from disol.evaluation import evaluate
from disol.evaluation.report import as_text
from disol.training.loop import Training
from processes import wait_until

SMOKE = Path(__file__).parents[2] / "configs" / "compare" / "smoke.toml"
SMALL = """
problem = "poisson"
conventions = "paper"
[data]
cases = 20
resolution = 16
[tests]
train = 4
id = 4
[train]
epochs = 2
batch_size = 8
[[models]]
name = "unet"
settings = { width = 4, depth = 2 }
[[models]]
name = "deeponet"
settings = { sensors = 16, width = 4, basis = 8, trunk_width = 8 }
training_cases = 8
"""


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """One thread is quickest for tiny networks; pictures of losses and timings are not looked at here."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    monkeypatch.setattr("disol.training.epochs.write_curve", lambda *arguments: None)
    monkeypatch.setattr(run_module, "TIMED_BATCH", 2)
    monkeypatch.setattr(run_module, "TIMED_REPEATS", 1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def no_pictures(monkeypatch):
    monkeypatch.setattr(report_module, "draw_comparison", lambda *arguments: [])


@pytest.fixture
def compare_small(tmp_path):
    def run(out="small", text=SMALL, **options):
        options = {"jobs": 0, "device": "cpu", **options}
        return compare(write_settings(tmp_path, text, "small"), tmp_path / out, **options)

    return run


def kept_files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.rglob("*.json"))}


def test_every_model_takes_part_in_the_smallest_comparison(tmp_path):
    text = SMOKE.read_text().replace("all = 16\n", "").replace("released = 16\n", "").replace("train = 16\n", "")
    told = []
    quick = [
        "data.cases=20",
        "data.resolution=16",
        "train.epochs=1",
        "train.batch_size=8",
        "tests.id=4",
        "tests.shapes=7",
    ]
    path = write_settings(tmp_path, text, "smoke")
    found = compare(path, tmp_path / "out", jobs=0, device="cpu", overrides=quick, tell=told.append)
    assert not found.unfinished
    assert not found.failures
    assert len(told) == len(found.records) == 8
    page = (tmp_path / "out" / "README.md").read_text()
    numbers = json.loads((tmp_path / "out" / "comparison.json").read_text())
    rows = {row["label"]: row for row in numbers["columns"]["shared"]}
    assert rows["fno"]["real_numbers"] > rows["fno"]["parameters"]
    assert rows["dimon"]["tests"]["shapes"]["predicted"] == 0
    assert "none of 7 predicted" in page
    assert "gno on 32 of them" in page
    pictures = {"curves.png", "rel_l1.png", "rel_l2.png", "cases-id.png", "cases-shapes.png"}
    assert {path.name for path in (tmp_path / "out").glob("*.png")} == pictures
    assert len(as_text(found.table()).splitlines()) == 9


def test_a_finished_run_is_never_repeated_and_tables_need_no_weights(compare_small, tmp_path, monkeypatch):
    first = compare_small(only=["deeponet"])
    assert list(first.records) == ["deeponet-lr0.003-seed0"]
    assert first.unfinished == ("unet-lr0.003-seed0",)
    assert "**Not finished**: unet-lr0.003-seed0." in (tmp_path / "small" / "README.md").read_text()
    record = first.records["deeponet-lr0.003-seed0"]
    assert (record.cases, len(record.curve), record.tests["train"].asked) == (8, 2, 4)
    second = compare_small()
    assert set(second.records) == {"deeponet-lr0.003-seed0", "unet-lr0.003-seed0"}
    kept = kept_files(tmp_path / "small" / "runs")
    assert kept["deeponet-lr0.003-seed0.json"] == kept_files(tmp_path / "small")["deeponet-lr0.003-seed0.json"]
    page = (tmp_path / "small" / "README.md").read_text()
    shutil.rmtree(tmp_path / "small" / "work")
    for path in tmp_path.glob("small/*.png"):
        path.unlink()
    monkeypatch.setattr(run_module, "execute", None)
    third = compare_small()
    assert not third.unfinished
    assert (tmp_path / "small" / "README.md").read_text() == page
    assert (tmp_path / "small" / "cases-id.png").exists()
    assert not (tmp_path / "small" / "work").exists()


@pytest.mark.usefixtures("no_pictures")
def test_what_is_kept_is_what_an_evaluation_finds(compare_small, tmp_path):
    record = compare_small(only=["unet"]).records["unet-lr0.003-seed0"]
    work = tmp_path / "small" / "work"
    found = evaluate(work / "unet-lr0.003-seed0", work / "data" / "id.h5", device="cpu", progress=False).files[0]
    np.testing.assert_allclose(record.tests["id"].errors["rel_l2"], found.values["rel_l2"][0], rtol=1e-3)
    assert record.tests["id"].coverage == pytest.approx(found.coverage.mean())
    shown = record.tests["id"].shown[0]
    example = next((each for each in found.examples if each.index == shown.index), None)
    if example is not None:
        np.testing.assert_allclose(shown.pattern, example.prediction[0], atol=1e-4)


@pytest.mark.usefixtures("no_pictures")
def test_an_interrupted_comparison_goes_on_where_it_stopped(compare_small, monkeypatch):
    whole = compare_small("whole").records["unet-lr0.003-seed0"]
    steps, step = [], Training.step

    def stop_in_the_second_epoch(training, *arguments):
        steps.append(1)
        if len(steps) == 4:
            raise KeyboardInterrupt
        return step(training, *arguments)

    monkeypatch.setattr(Training, "step", stop_in_the_second_epoch)
    with pytest.raises(KeyboardInterrupt):
        compare_small("stopped")
    monkeypatch.setattr(Training, "step", step)
    record = compare_small("stopped").records["unet-lr0.003-seed0"]
    assert [epoch.validation_loss for epoch in record.curve] == [epoch.validation_loss for epoch in whole.curve]
    assert record.tests["id"].errors["rel_l2"].tolist() == whole.tests["id"].errors["rel_l2"].tolist()


@pytest.mark.usefixtures("no_pictures")
def test_a_run_that_diverges_is_told_and_the_others_go_on(compare_small, tmp_path):
    text = SMALL.replace(
        "batch_size = 8", "batch_size = 8\noptimizer = 'adam'\nlearning_rate = 1e30\ngrad_clip_norm = 0"
    )
    text = text.replace("epochs = 2", "epochs = 2\nema_decay = 0")
    found = compare_small(text=text, only=["unet"])
    record = found.records["unet-lr1e+30-seed0"]
    assert "must stay finite" in record.diverged
    assert "diverged" in (tmp_path / "small" / "README.md").read_text()
    assert not record.tests


@pytest.mark.usefixtures("no_pictures")
def test_a_run_that_cannot_be_made_is_told_and_the_others_go_on(compare_small):
    found = compare_small(text=SMALL.replace("training_cases = 8", "training_cases = 7"))
    assert "fewer than one batch of 8" in found.failures["deeponet-lr0.003-seed0"]
    assert list(found.records) == ["unet-lr0.003-seed0"]


@pytest.mark.usefixtures("no_pictures")
def test_no_run_begins_when_time_is_up(compare_small):
    found = compare_small(minutes=1e-6)
    assert not found.records
    assert len(found.unfinished) == 2
    with pytest.raises(DisolError, match="minutes must be positive"):
        compare_small(minutes=0)


def work_until_told_to_end(folder: Path) -> None:
    try:
        Path(folder, "begun").touch()
        time.sleep(600)
    finally:
        Path(folder, "cleaned up").touch()


def test_jobs_run_side_by_side_and_end_at_the_deadline(monkeypatch, tmp_path):
    monkeypatch.setattr(sys.modules["disol.comparison.comparison"], "PRELOADED", [])
    jobs = _Jobs(3, "cpu")
    jobs.start("wrong", partial(check_device, "gpu"))
    jobs.start("dead", partial(os._exit, 3))
    jobs.start("long", partial(work_until_told_to_end, tmp_path))
    assert not jobs.have_room
    ended = {}
    while len(ended) < 2:
        ended |= dict(jobs.wait(None))
    assert "Unknown device 'gpu'" in ended["wrong"]
    assert ended["dead"] == "its process ended early, with exit code 3"
    assert jobs.wait(time.monotonic()) == []
    assert wait_until((tmp_path / "begun").exists)
    process = jobs.processes["long"][0]
    jobs.close()
    assert process.exitcode == 128 + signal.SIGTERM
    assert (tmp_path / "cleaned up").exists()


def test_the_page_says_what_seeds_tell_and_who_predicts_only_a_part(tmp_path):
    config = made_up_config(tmp_path)
    records = {}
    for seed in config.seeds:
        for label, error, refused in (("disol", 0.2, 0), ("unet", 0.1, 2)):
            run = PlannedRun(config, label, seed, 3e-3)
            records[run.name] = made_up_record(run, [1.0, 0.5, 0.4, 0.3], error=error + seed / 50, refused=refused)
    places = Places(tmp_path / "out", tmp_path / "work")
    write_comparison(Comparison(config, places.out, records, ()), places)
    page = (places.out / "README.md").read_text()
    assert "| disol | **23.0 ± 2.6** |" in page, "bold: the other one predicts a part alone"
    assert "| unet | 13.0 ± 2.6 (4 of 6 cases) |" in page
    assert "30 (93.8%)" in page
    assert "## Over runs" in page
    lines = page.partition("## Over runs")[2].splitlines()
    heading = next(line for line in lines if line.startswith("| model | runs | best validation loss in 4 epochs |"))
    assert "| disol | 4 | 3.00e-1 |" in page
    compared = next(line for line in lines if line.startswith("| unet | 4 | 3.00e-1 (p = 1, +0.00) |"))
    assert heading.split(" | ").index("`rel_l2`, in distribution") == compared.split(" | ").index(
        "13.0 % (p = 0.029, -1.00)"
    )
    assert "Runs as few as these have p ≥ 0.029" in " ".join(page.split())
    assert not [line for line in page.splitlines() if len(line) > 120 and line[0] not in "|!"]
    assert "25.0% | **no** |" in page, "the last epoch of four took the loss from 0.4 to 0.3"


def test_the_page_and_the_table_say_how_many_runs_diverged(tmp_path):
    config = made_up_config(tmp_path)
    records = {}
    for seed in config.seeds:
        for label in ("disol", "unet"):
            run = PlannedRun(config, label, seed, 3e-3)
            records[run.name] = made_up_record(run, [1.0, 0.5])
            if label == "disol" and seed == 1:
                records[run.name] = replace(made_up_record(run, [1.0], diverged="it diverged"), tests={})
    comparison = Comparison(config, tmp_path, records, ())
    page = report_module.write_page(comparison, {})
    assert "**Diverged**: 1 of 4 runs of disol. Errors, curves and costs are those of the other runs." in page
    told = page.partition("## Over runs")[2]
    assert "| disol | 4 | 5.00e-1 |" in told
    assert "| unet | 4 | 5.00e-1 (p = 1, -0.25) |" in told
    assert "10.0 % (p = 1, -0.25)" in told
    assert "A run that diverged counts as worse than all others." in " ".join(page.split())
    assert "Diverged: 1 of 4 runs of disol." in as_text(comparison.table())


def test_models_are_compared_with_the_first_that_has_enough_runs(tmp_path):
    config = read_comparison(write_settings(tmp_path, f'{SETTINGS}[[models]]\nname = "fno"\n'))
    runs = [PlannedRun(config, label, seed, 3e-3) for label in ("unet", "fno") for seed in config.seeds]
    runs += [PlannedRun(config, "disol", 0, 3e-3)]
    records = {run.name: made_up_record(run, [1.0, 0.5]) for run in runs}
    told = report_module.write_page(Comparison(config, tmp_path, records, ()), {}).partition("## Over runs")[2]
    assert "if every run of unet has a smaller value" in " ".join(told.split())
    assert [line.split()[1] for line in told.splitlines() if line.startswith("|")] == ["model", "---", "unet", "fno"]


def made_up_costs(folder: Path, *where: tuple[str, int], timed: bool = True) -> tuple[str, str]:
    """Return the lines of the page about costs, and the table of the command, of models trained in different places."""
    config = made_up_config(folder, f"report.timed={str(timed).lower()}")
    records = {}
    for seed in config.seeds:
        for label, (device, side_by_side) in zip(("disol", "unet"), where, strict=True):
            run = PlannedRun(config, label, seed, 3e-3)
            records[run.name] = made_up_record(run, [1.0, 0.5], device=device, side_by_side=side_by_side)
    comparison = Comparison(config, folder, records, ())
    return report_module.write_page(comparison, {}), as_text(comparison.table())


def test_costs_compare_only_on_the_same_device(tmp_path):
    page, table = made_up_costs(tmp_path, ("NVIDIA H200", 3), ("NVIDIA H200", 3))
    assert "costs on one NVIDIA H200, 3 runs side by side:" in " ".join(page.split())
    assert "| device |" not in page
    assert "best validation loss in 2 s" in page
    assert "do not compare" not in table
    page, table = made_up_costs(tmp_path, ("NVIDIA H200", 3), ("NVIDIA H200", 1))
    assert (
        "costs on different devices (NVIDIA H200, 3 runs side by side; NVIDIA H200), which do not compare:"
        in " ".join(page.split())
    )
    rows = [line for line in page.splitlines() if line.startswith(("| disol | 1,000", "| unet | 1,000"))]
    assert [row.rpartition("100 |")[2] for row in rows] == [" NVIDIA H200, 3 runs side by side |", " NVIDIA H200 |"]
    assert "best validation loss in 2 epochs" in page
    assert "best validation loss in 2 s" not in page
    assert "do not compare" in " ".join(table.split())


def test_costs_on_a_busy_machine_do_not_compare(tmp_path):
    page, table = made_up_costs(tmp_path, ("CPU", 1), ("CPU", 1), timed=False)
    assert "costs on one CPU that did other work beside the runs, which do not compare:" in " ".join(page.split())
    assert "best validation loss in 2 epochs" in page
    assert "best validation loss in 2 s" not in page
    assert "Costs on one CPU that did other work beside the runs do not compare." in " ".join(table.split())


@pytest.mark.usefixtures("no_pictures")
def test_the_command_prints_a_table_and_what_is_left(tmp_path, monkeypatch, capsys):
    config = made_up_config(tmp_path, "seeds=[0]")
    for label in ("disol", "unet"):
        run = PlannedRun(config, label, 0, 3e-3)
        write_record(made_up_record(run, [0.5, 0.2]), Places(tmp_path, tmp_path).record(run.name))
    called = ["disol", "compare", str(tmp_path / "made-up.toml"), "--out", str(tmp_path), "--set", "seeds=[0]"]
    monkeypatch.setattr(sys, "argv", called)
    with pytest.raises(SystemExit) as stopped:
        main()
    printed = capsys.readouterr().out
    assert not stopped.value.code
    assert "unet" in printed
    assert "10 %" in printed
    assert "2 runs, all finished." in " ".join(printed.split())


OWN_NETWORK = """
from torch import nn

class Stencil(nn.Module):
    def __init__(self, num_channels, num_fields, width=4):
        super().__init__()
        stencil, readout = nn.Conv2d(num_channels, width, 3, padding=1), nn.Conv2d(width, num_fields, 1)
        self.layers = nn.Sequential(stencil, nn.GELU(), readout)

    def forward(self, inputs):
        return self.layers(inputs) * inputs[:, :1]

    def accepts(self, domains):
        return domains.float().mean((1, 2)) < 0.5  # of small domains alone
"""


@pytest.mark.usefixtures("no_pictures")
def test_a_network_of_ones_own_takes_part_on_the_domains_that_it_accepts(tmp_path, monkeypatch):
    (tmp_path / "own_stencil.py").write_text(OWN_NETWORK)
    text = SMALL.partition("[[models]]")[0].replace("batch_size = 8", "batch_size = 4")
    text += '[[models]]\nname = "own_stencil:Stencil"\nsettings = { width = 6 }\n'
    monkeypatch.syspath_prepend(tmp_path)
    found = compare(write_settings(tmp_path, text, "own"), tmp_path / "out", jobs=0, device="cpu")
    record = found.records["Stencil-lr0.003-seed0"]
    assert 0 < record.cases < 16
    assert record.cases + record.refused == 16
    assert record.parameters == 3 * 6 * 9 + 6 + 6 + 1
    assert record.tests["train"].coverage < 0.5
    assert "Stencil" in (tmp_path / "out" / "README.md").read_text()


@pytest.mark.usefixtures("no_pictures")
def test_the_command_fails_if_a_run_does(tmp_path, monkeypatch, capsys):
    path = write_settings(tmp_path, SMALL.replace("training_cases = 8", "training_cases = 7"), "small")
    options = ["--out", str(tmp_path / "out"), "--only", "deeponet", "--jobs", "0", "--device", "cpu"]
    monkeypatch.setattr(sys, "argv", ["disol", "compare", str(path), *options])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    assert "error: deeponet-lr0.003-seed0 failed:" in capsys.readouterr().err
