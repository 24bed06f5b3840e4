"""What is written is what was measured, and pictures can be looked at."""

import csv
import hashlib
import json
import os
import subprocess
import sys
from io import StringIO

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from known_answers import TINY, Recalling, stored_pattern
from matplotlib.figure import Figure
from PIL import Image
from rich.console import Console

from disol.cli.models import evaluate as evaluate_by_command
from disol.data import open_store
from disol.errors import DisolError
from disol.evaluation import evaluate
from disol.evaluation.pictures import draw_frames
from disol.evaluation.report import ENDINGS, write_cases, write_evaluation, write_summary
from disol.models import create_model, save_checkpoint

METRICS = ("rel_l2", "grid_mae", "mae", "max_error")
KINDS = ["poisson", "advection-diffusion-high", "elasticity", "published", "heat"]
EXAMPLES = {
    "poisson": ["examples"],
    "advection-diffusion-high": ["examples"],
    "elasticity": ["best", "median", "worst"],
    "published": ["best", "median", "worst"],
    "heat": ["best", "median", "worst"],
}


def printed(evaluation, width: int = 140) -> str:
    console = Console(width=width, file=StringIO())
    console.print(evaluation.table())
    return console.file.getvalue()


@pytest.mark.parametrize("kind", KINDS)
def test_pictures_and_numbers_are_written_for_every_problem(kind, files, tmp_path):
    problem = open_store(files[kind]).settings.problem
    evaluation = evaluate(
        create_model("disol", problem, **TINY), files[kind], frames=[2, 50] if kind == "heat" else None
    )
    written = write_evaluation(evaluation, tmp_path)
    assert sorted(written) == sorted(tmp_path.iterdir())
    assert written[-1].name == "evaluation.json"
    assert all(file.name.endswith(ENDINGS) for file in written[:-1])  # by which the next evaluation knows them
    name = evaluation.files[0].name
    pictures = {path.name for path in written if path.suffix == ".png"}
    expected = {"errors.png", *(f"{name}-{example}.png" for example in EXAMPLES[kind])}
    assert pictures == expected | ({"errors-over-time.png"} if kind == "heat" else set())
    for picture in pictures:
        with Image.open(tmp_path / picture) as image:
            image.load()
            assert image.format == "PNG"
            assert min(image.size) > 300
            assert np.asarray(image.convert("L")).std() > 5  # not blank
    assert plt.get_fignums() == []


@pytest.fixture
def blank_pictures(monkeypatch):
    """Let pictures be blank where none is looked at: drawing takes most of the time."""

    def draw_blank(evaluation):
        yield from ((f"{file.name}-examples.png", Figure((1, 1))) for file in evaluation.files)
        yield "errors.png", Figure((1, 1))

    monkeypatch.setattr("disol.evaluation.pictures.draw_evaluation", draw_blank)


@pytest.mark.usefixtures("blank_pictures")
def test_an_evaluation_replaces_the_one_before_and_nothing_else(files, tmp_path):
    model = create_model("disol", "poisson", **TINY)
    before = write_evaluation(evaluate(model, [files["poisson"], files["shapes"]]), tmp_path)
    (tmp_path / "shapes-cases.csv").write_text("edited by hand")
    (tmp_path / "notes.txt").touch()
    (tmp_path / "other-cases.csv").touch()
    after = write_evaluation(evaluate(model, files["poisson"]), tmp_path)
    kept = {tmp_path / name for name in ("shapes-cases.csv", "notes.txt", "other-cases.csv")}
    assert set(tmp_path.iterdir()) == {*after, *kept}
    assert {path.name for path in set(before) - set(after)} == {"shapes-cases.csv", "shapes-examples.png"}


@pytest.fixture(scope="module")
def small_evaluation(files):
    """An evaluation of one file."""
    return evaluate(create_model("disol", "poisson", **TINY), files["poisson"])


@pytest.mark.usefixtures("blank_pictures")
@pytest.mark.parametrize(
    "content",
    ["{", "[]", '{"written": {"mine.csv": 1}}', '{"format": "disol evaluation 1"}', "[" * 10**5, " " * (2**24 + 1)],
    ids=lambda content: content[:40],
)
def test_a_file_that_is_no_evaluation_removes_nothing(content, small_evaluation, tmp_path):
    (tmp_path / "evaluation.json").write_text(content)
    (tmp_path / "mine.csv").touch()
    written = write_evaluation(small_evaluation, tmp_path)
    assert set(tmp_path.iterdir()) == {*written, tmp_path / "mine.csv"}


def list_as_written(folder, *names):
    """Write a list that claims files which are empty."""
    written = dict.fromkeys(names, hashlib.sha256(b"").hexdigest())
    (folder / "evaluation.json").write_text(json.dumps({"format": "disol evaluation 1", "written": written}))


@pytest.mark.usefixtures("blank_pictures")
def test_a_list_from_somebody_else_removes_nothing_that_no_evaluation_writes(small_evaluation, tmp_path):
    folder = tmp_path / "run" / "evaluation"
    folder.mkdir(parents=True)
    inside = [folder / name for name in ("thesis.tex", "data.csv", "photo.png", ".hidden", "old-cases.csv")]
    outside = [tmp_path / "precious-cases.csv", tmp_path / "run" / "errors.png", tmp_path / "run" / "config.json"]
    for file in (*inside, *outside):
        file.touch()
    (folder / "link-cases.csv").symlink_to(outside[0])
    os.mkfifo(folder / "pipe-cases.csv")
    (folder / "folder-cases.csv").mkdir()
    names = [str(file) for file in outside] + [os.path.relpath(file, folder) for file in outside]
    list_as_written(folder, *names, *(file.name for file in folder.iterdir()), "", ".", "..", "/", "\0", "x" * 300)
    write_evaluation(small_evaluation, folder)
    assert all(file.exists() for file in (*inside[:-1], *outside))
    assert {"link-cases.csv", "pipe-cases.csv", "folder-cases.csv"} <= {file.name for file in folder.iterdir()}
    assert not inside[-1].exists()  # which an evaluation may have written


@pytest.mark.usefixtures("blank_pictures")
def test_a_list_that_never_ends_is_not_waited_for(small_evaluation, tmp_path):
    os.mkfifo(tmp_path / "evaluation.json")
    written = write_evaluation(small_evaluation, tmp_path)
    assert json.loads(written[-1].read_text())["format"] == "disol evaluation 1"


def test_a_run_whose_evaluation_is_a_link_is_refused(files, tmp_path):
    run = save_checkpoint(tmp_path / "run", create_model("disol", "poisson", **TINY), "poisson", resolution=16)
    (tmp_path / "precious").mkdir()
    (run / "evaluation").symlink_to(tmp_path / "precious")
    with pytest.raises(DisolError, match=r"evaluation must be a folder, but is a link\. Remove it"):
        evaluate_by_command(str(run), [files["poisson"]])
    assert not list((tmp_path / "precious").iterdir())


def test_amplitude_models_get_a_scatter_plot(files, tmp_path):
    evaluation = evaluate(create_model("disol-amplitude", "poisson", **TINY), files["poisson"], out=tmp_path)
    assert {path.name for path in tmp_path.glob("*.png")} == {"errors.png", "amplitudes.png"}
    assert all(file.name.endswith((*ENDINGS, "evaluation.json")) for file in tmp_path.iterdir())
    found = json.loads((tmp_path / "evaluation.json").read_text())["files"][0]
    assert found["correlation"] == evaluation.files[0].correlations[0]
    assert f"{found['correlation']:.4f}" in printed(evaluation)


@pytest.mark.parametrize("kind", ["shapes", "elasticity", "heat"])
def test_the_rows_of_a_csv_are_the_cases_with_all_their_digits(kind, files, tmp_path):
    problem = open_store(files[kind]).settings.problem
    file = evaluate(create_model("disol", problem, **TINY), files[kind]).files[0]
    with write_cases(file, tmp_path / "cases.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == len(file) * len(file.times)
    for number, row in enumerate(rows):
        case, frame = divmod(number, len(file.times))
        assert (int(row["index"]), int(row["outline"])) == (file.index[case], file.outline[case])
        assert row["shift"] == file.shift[case]
        assert float(row["coverage"]) == file.coverage[case]
        assert ("time" in row) == (kind == "heat")
        assert kind != "heat" or float(row["time"]) == file.times[frame]
        for name, values in file.values.items():
            assert float(row[name]) == values[frame, case]


def test_the_json_holds_the_summaries_the_settings_and_the_model(files, tmp_path):
    run = save_checkpoint(tmp_path / "run", create_model("disol", "poisson", **TINY), "poisson", resolution=16)
    evaluation = evaluate(run, [files["poisson"], files["shapes"]])
    assert evaluation.splits == ("all", "all")
    found = json.loads(write_summary(evaluation, tmp_path / "evaluation.json").read_text())
    assert found["model"]["checkpoint"] == str(run)
    assert found["model"]["model_config"]["width"] == 4
    assert [file["settings"]["shift"] for file in found["files"]] == ["", "shapes"]
    assert [file["split"] for file in found["files"]] == ["all", "all"]
    for file, written in zip(evaluation.files, found["files"], strict=True):
        assert (written["cases"], written["coverage"]) == (len(file), file.coverage.mean())
        for name, values in file.values.items():
            summary = written["metrics"][name]
            assert summary["mean"] == values.mean()
            assert summary["p95"] == np.percentile(values, 95)
            assert summary["median"] == np.median(values)


def test_the_json_of_heat_has_an_entry_for_each_time(files, tmp_path):
    evaluation = evaluate(create_model("disol", "heat", **TINY), files["heat"], frames=[2, 50])
    frames = json.loads(write_summary(evaluation, tmp_path / "evaluation.json").read_text())["files"][0]["frames"]
    assert [frame["time"] for frame in frames] == [2, 50]
    for frame, values in zip(frames, evaluation.files[0].values["rel_l2"], strict=True):
        assert frame["metrics"]["rel_l2"]["mean"] == values.mean()


@pytest.mark.parametrize("kind", ["poisson", "elasticity", "heat"])
def test_the_table_shows_the_headline_numbers(kind, files):
    evaluation = evaluate(create_model("disol", kind, **TINY), files[kind])
    table = printed(evaluation)
    assert f"{evaluation.files[0].coverage.mean():.3f}" in table
    for summaries in evaluation.files[0].summaries:
        for name in ("rel_l2", "rel_l2_u_x", "grid_mae") if kind == "elasticity" else METRICS:
            summary = summaries[name]
            for number in (summary.mean, summary.median, summary.p95):
                assert f"{number:.2e}" in table
    assert ("rel_l2_u_x" in table) == (kind == "elasticity")
    assert ("50 s" in table) == (kind == "heat")


@pytest.mark.parametrize("kind", ["poisson", "elasticity", "heat"])
def test_a_narrow_table_keeps_names_and_labels(kind, files):
    evaluation = evaluate(create_model("disol", kind, **TINY), files[kind])
    lines = printed(evaluation, width=80).splitlines()
    assert lines[1].startswith(kind)
    for label in ("mean", "median", "p95"):
        assert sum(f" {label} " in line for line in lines) == len(evaluation.files[0].times)
    assert all(name in lines[0].split() for name in ("file", "cases", "coverage", "rel_l2", "grid_mae"))


def test_a_strip_of_many_times_stays_narrow(files):
    found = evaluate(create_model("disol", "heat", **TINY), files["heat"], frames="all").files[0]
    figure = draw_frames(found, found.examples[0])
    titles = [axes.get_title() for axes in figure.axes if axes.get_title().startswith("t = ")]
    assert len(titles) == 7
    assert titles[0].startswith("t = 2 s")
    assert titles[-1].startswith("t = 50 s")


@pytest.mark.parametrize(
    ("kind", "factor"), [("poisson", 1.0), ("poisson", torch.inf), ("elasticity", torch.nan), ("heat", torch.nan)]
)
def test_perfect_and_broken_predictions_can_be_written_too(kind, factor, files, tmp_path):
    def answer(item):
        return torch.where(item["domain"], stored_pattern(item) * factor, 0.0)

    frames = [2, 50] if kind == "heat" else None
    write_evaluation(evaluate(Recalling(kind, files[kind], answer), files[kind], frames=frames), tmp_path)
    content = json.loads((tmp_path / "evaluation.json").read_text(), parse_constant=pytest.fail)
    assert content["files"][0]["cases"] == len(open_store(files[kind]).positions())


def test_pictures_and_tables_need_no_torch():
    modules = ("evaluate", "results", "report", "pictures")
    script = "import sys\n" + "".join(f"import disol.evaluation.{module}\n" for module in modules)
    subprocess.run([sys.executable, "-c", script + "assert 'torch' not in sys.modules"], check=True)
