"""The `disol` command, run as a person would."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from printed import load_arrays
from rich.table import Column, Table

import disol
from disol.cli import main
from disol.cli.app import as_options, find_options, print_table
from disol.models import load_checkpoint
from disol.models.known_errors import headline
from disol.models.pretrained import PRETRAINED
from disol.training import RunReport


def start(*arguments: str, **options) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own."""
    command = [sys.executable, "-m", "disol", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def test_draw_writes_arrays_that_are_the_case(tmp_path):
    result = start("draw", "poisson", "--seed", "0", "--index", "3", "--shift", "all", "--out", str(tmp_path / "a.npz"))
    assert result.returncode == 0, result.stderr
    written = load_arrays(tmp_path / "a.npz")
    case = disol.draw("poisson", seed=0, index=3, shift="all")
    assert written["conventions"] == "physical"
    assert (written["inputs"] == case.inputs).all()
    assert tuple(written["channels"]) == case.channels
    assert written["field"] == pytest.approx(disol.solve_exact(case).field)


def test_draw_takes_conventions_elements_and_the_tightness_of_outlines(command, tmp_path):
    options = ["--resolution", "16", "--conventions", "published", "--element", "p1", "--alpha", "0.2"]
    result = command("draw", "poisson", *options, "--out", str(tmp_path / "a.npz"))
    assert result.returncode == 0, result.stderr
    written = load_arrays(tmp_path / "a.npz")
    case = disol.draw("poisson", resolution=16, conventions="published", alpha=0.2)
    assert (written["inputs"] == case.inputs).all()
    assert written["field"] == pytest.approx(disol.solve_exact(case, element="p1").field)
    assert written["conventions"] == "published"


def test_draw_tells_in_a_note_where_a_solution_is_less_accurate(command, tmp_path):
    options = ["--resolution", "16", "--shift", "released", "--seed", "3"]
    result = command("draw", "elasticity", *options, "--out", str(tmp_path / "a.npz"))
    assert result.returncode == 0, result.stderr
    assert "note: 16 pixels of the domain are in walls thinner than 4 pixels" in result.stdout
    assert result.stderr == ""


@pytest.mark.parametrize("problem", disol.PROBLEMS)
def test_draw_writes_a_picture_of_every_problem(command, tmp_path, problem):
    result = command("draw", problem, "--resolution", "32", "--out", "new/folder/case.png")
    assert result.returncode == 0, result.stderr
    assert "new/folder/case.png" in result.stdout
    assert (tmp_path / "new/folder/case.png").read_bytes().startswith(b"\x89PNG")
    assert len(list((tmp_path / "new/folder").iterdir())) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["draw", "stokes"], "Unknown problem 'stokes'. Use one of poisson"),
        (["draw", "poisson", "--seed", "-1"], "error: --seed must not be negative"),
        (["draw", "poisson", "--shift", "shape:hexagon"], "The shapes are arrow"),
        (["draw", "poisson", "--out", "case.jpeg"], "--out must end in"),
        (["draw", "poisson", "--out", "file/case.png"], "Cannot write file/case.png"),
        (["draw", "heat", "--conventions", "published"], "only the conventions 'paper'"),
        (["generate", "poisson", "--cases", "0", "--out", "cases.h5"], "error: --cases must be at least 1"),
        (["info", "file"], "file is not an HDF5 file"),
        (["info", "missing.h5"], "There is no file missing.h5"),
        (["onnx", "poisson", "--out", "model.pt"], "--out must end in .onnx, got 'model.pt'"),
        (
            ["train", "poisson", "--data", "file", "--out", "run", "--minutes", "-1"],
            "error: --minutes must be positive",
        ),
        (["train", "poisson", "--data", "file", "--out", "run", "--model", "nowhere:Mine"], "no module 'nowhere'"),
        (["evaluate", "poison", "--data", "file"], "Unknown model 'poison'"),
    ],
)
def test_a_wrong_command_is_one_line_and_writes_nothing(command, tmp_path, arguments, message):
    (tmp_path / "file").touch()
    result = command(*arguments)
    assert result.returncode == 2
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_generate_info_and_export_tell_the_same_story(command, tmp_path):
    options = ["generate", "poisson", "--cases", "10", "--resolution", "16", "--device", "cpu", "--workers", "1"]
    made = command(*options, "--out", "cases.h5")
    assert made.returncode == 0, made.stderr
    assert "10 of 10 cases generated" in made.stdout
    resumed = command(*options, "--out", "cases.h5", "--resume").stdout
    assert "nothing to do" in resumed
    assert "note:" not in resumed
    mistyped = command(*options, "--out", "case.h5", "--resume")
    assert "note: nothing to resume in case.h5: starting a new file" in mistyped.stdout
    again = command(*options, "--out", "cases.h5")
    assert again.returncode == 2
    assert "exists already" in again.stderr
    listed = command("info", "cases.h5").stdout
    assert "train 8, validation 2" in listed
    exported = command("export", "cases.h5", "--out", "cases.npz", "--split", "train")
    assert exported.returncode == 0, exported.stderr
    assert load_arrays(tmp_path / "cases.npz")["pattern"].shape == (8, 1, 16, 16)


def test_problems_are_listed(command):
    listed = command("problems").stdout
    assert all(name in listed for name in disol.PROBLEMS)


def test_the_version_is_shown(command):
    assert command("--version").stdout == f"disol {disol.__version__}\n"


def test_numbers_of_a_table_are_never_cut_off(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "40")
    numbers = [f"{number}.5 %" for number in range(10, 25)]
    table = Table(*(Column(f"test {number}", no_wrap=True) for number in range(15)), box=None)
    table.add_row(*numbers)
    print_table(table)
    assert capsys.readouterr().out.splitlines()[1].split() == " ".join(numbers).split()


def test_train_and_evaluate_go_from_a_file_to_a_table(command, tmp_path):
    made = command(
        "generate",
        "poisson",
        "--cases",
        "10",
        "--resolution",
        "16",
        "--device",
        "cpu",
        "--workers",
        "0",
        "--out",
        "a.h5",
    )
    assert made.returncode == 0, made.stderr
    small = [
        "--set",
        "model.width=4",
        "--set",
        "model.depth=2",
        "--set",
        "model.gated_skips=1",
        "--set",
        "train.batch_size=4",
    ]
    options = [
        "train",
        "poisson",
        "--data",
        "a.h5",
        "--out",
        "run",
        "--set",
        "train.epochs=2",
        "--device",
        "cpu",
        *small,
    ]
    trained = command(*options)
    assert trained.returncode == 0, trained.stderr
    assert "validation loss" in trained.stdout
    evaluated = command("evaluate", "run", "--data", "a.h5", "--split", "validation")
    assert evaluated.returncode == 0, evaluated.stderr
    assert "rel_l2" in evaluated.stdout
    assert "note:" not in evaluated.stdout
    assert (tmp_path / "run" / "evaluation" / "evaluation.json").exists()
    by_default = command("evaluate", "run", "--data", "a.h5")
    assert by_default.returncode == 0, by_default.stderr
    assert by_default.stdout.startswith(evaluated.stdout.partition("written")[0])
    assert "note: The model was trained on a.h5: its validation split is evaluated by default." in by_default.stdout
    again = command(*options)
    assert again.returncode == 2
    assert len(again.stderr.strip().splitlines()) == 1
    resumed = command(*options, "--resume")
    assert resumed.stdout == trained.stdout
    assert command("train", "--data", "a.h5", "--out", "run", "--resume").stdout == trained.stdout
    for named in (["run"], ["--out", "run"]):
        assert command("train", "--resume", *named).stdout == trained.stdout
    for given, message in (
        (["--data", "a.h5", "--out", "new"], "Name the problem to train on; only --resume knows it."),
        (["poisson", "--out", "new"], "Give --data, the cases to train on; only --resume knows them."),
        (["poisson", "--data", "a.h5"], "Give --out, the folder of the run."),
        (["--resume"], "Give --out, the folder of the run."),
        (["--resume", "new"], "There is no run to resume in new. Give its folder."),
        (["--resume", "--out", "new"], "Training needs a problem: there is no run to resume in new."),
        (["poisson", "--resume", "--out", "new"], "Training needs data: there is no run to resume in new."),
        (
            ["poisson", "--resume", "--out", "run"],
            "run is finished and no longer says where its cases were. Pass its --data.",
        ),
    ):
        refused = command("train", *given)
        assert (refused.returncode, refused.stdout, refused.stderr) == (2, "", f"error: {message}\n")
    mistyped = command(*options, "--out", "rum", "--resume")
    assert mistyped.stdout.startswith("note: nothing to resume in rum: starting a new run\nrum: validation loss")


OPTIONS = {
    "generate": {
        "seed": 4,
        "shift": "all",
        "conventions": "published",
        "resolution": 32,
        "device": "cpu",
        "workers": 2,
        "resume": True,
    },
    "train": {
        "model": "unet",
        "recipe": "published",
        "config": Path("a.toml"),
        "minutes": 1.5,
        "resume": True,
        "device": "cpu",
        "seed": 4,
    },
    "evaluate": {"split": "train", "device": "cpu", "out": Path("there")},
}
CALLED = {
    "generate": ("disol.data.generate", ["poisson", "--cases", "3", "--out", "a.h5"]),
    "train": ("disol.training.train", ["poisson", "--data", "a.h5", "--out", "run", "--set", "train.batch_size=8"]),
    "evaluate": ("disol.evaluation.evaluate", ["poisson", "--data", "a.h5", "--data", "b.h5"]),
}


class Called(BaseException):
    """A command has called what does its work."""


@pytest.mark.parametrize("command", OPTIONS)
def test_every_option_reaches_what_does_the_work(command, tmp_path, monkeypatch):
    calls = []

    def record(*arguments, **options):
        calls.append(options)
        raise Called

    name, needed = CALLED[command]
    monkeypatch.setattr(name, record)
    monkeypatch.chdir(tmp_path)
    given = [[f"--{option}"] + ([] if value is True else [str(value)]) for option, value in OPTIONS[command].items()]
    monkeypatch.setattr(sys, "argv", ["disol", command, *needed, *(word for words in given for word in words)])
    with pytest.raises(Called):
        main()
    assert OPTIONS[command].items() <= calls[0].items()


def test_training_can_start_from_a_shipped_model(tmp_path, monkeypatch):
    starts = []

    def record(*arguments, start, **options):
        starts.append(start)
        raise Called

    monkeypatch.setattr("disol.training.train", record)
    options = ["--data", "a.h5", "--out", str(tmp_path / "run"), "--start", "poisson"]
    monkeypatch.setattr(sys, "argv", ["disol", "train", "poisson", *options])
    with pytest.raises(Called):
        main()
    assert starts == ["poisson"]


@pytest.mark.parametrize(("rank", "lines"), [(None, 3), ("0", 3), ("1", 0)])
def test_of_several_processes_the_first_one_speaks(rank, lines, tmp_path, monkeypatch, capsys):
    report = RunReport(tmp_path, 1, 1, 0.5, 0.5, 1.0, notes=("This took long.",))
    monkeypatch.setattr("disol.training.train", lambda *arguments, **options: report)
    if rank is not None:
        monkeypatch.setenv("RANK", rank)
    monkeypatch.setattr(sys, "argv", ["disol", "train", "poisson", "--data", "a.h5", "--out", "none", "--resume"])
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        main()
    printed = capsys.readouterr()
    assert not stopped.value.code, printed.err
    assert len(printed.out.splitlines()) == lines


def test_models_are_listed_with_their_sizes(command):
    assert "128,823" in command("models").stdout


def test_models_are_listed_with_what_comes_trained_and_how_wrong_it_is(command):
    lines = command("models").stdout.splitlines()
    known = {name: load_checkpoint(PRETRAINED / name).metrics["tests"] for name in disol.list_pretrained()}
    kinds = list(dict.fromkeys(kind for errors in known.values() for kind in errors))
    assert {"id", "all", "shapes"} <= set(kinds)
    assert lines[0].split() == ["trained", "model", "grid", "conventions", *kinds]
    for name, errors in known.items():
        (line,) = (line.split() for line in lines if line.startswith(f"{name} "))
        told = [f"{headline(errors[kind]):.1%}" if kind in errors else "-" for kind in kinds]
        assert line[-len(kinds) :] == told
    assert "Mean rel_l2 of patterns by kind of test cases; of heat over 2, 8, 14, 20 s." in lines


def test_a_shipped_model_is_measured_and_exported_by_its_name(command, tmp_path):
    made = command("generate", "poisson", "--cases", "2", "--workers", "0", "--out", "a.h5")
    assert made.returncode == 0, made.stderr
    evaluated = command("evaluate", "poisson", "--data", "a.h5")
    assert evaluated.returncode == 0, evaluated.stderr
    assert (tmp_path / "evaluation" / "poisson" / "evaluation.json").exists()
    exported = command("onnx", "poisson", "--out", "poisson.onnx")
    assert exported.returncode == 0, exported.stderr
    assert (tmp_path / "poisson.onnx").stat().st_size > 100_000


@pytest.mark.parametrize("bug", [RuntimeError("a bug"), ValueError("another"), KeyError("a third")])
def test_only_what_the_caller_did_wrong_is_one_line_and_a_bug_keeps_its_traceback(bug, monkeypatch, capsys):
    def fail(*arguments, **options):
        raise bug

    monkeypatch.setattr("disol.cases.Case.draw", fail)
    monkeypatch.setattr(sys, "argv", ["disol", "draw", "poisson"])
    with pytest.raises(type(bug)) as raised:
        main()
    assert raised.value is bug
    bug = disol.DisolError("Of several\nlines [red]and brackets.")
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    assert capsys.readouterr().err == "error: Of several lines [red]and brackets.\n"


def test_the_traceback_of_a_bug_is_printed(tmp_path):
    program = (
        "import sys, disol.cases, disol.cli\n"
        "def broken(*arguments, **options): raise RuntimeError('a bug')\n"
        "disol.cases.Case.draw = broken\n"
        "sys.argv = ['disol', 'draw', 'poisson']\n"
        "disol.cli.main()"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert result.returncode == 1
    assert "Traceback (most recent call last)" in result.stderr
    assert result.stderr.endswith("RuntimeError: a bug\n")


@pytest.mark.parametrize(
    ("arguments", "work", "told"),
    [
        (["draw", "poisson"], "disol.cases.Case.draw", "interrupted"),
        (
            ["generate", "poisson", "--cases", "3", "--out", "my cases.h5"],
            "disol.data.generate",
            "interrupted; continue with: disol generate poisson --cases 3 --out 'my cases.h5' --resume",
        ),
        (
            ["train", "--data", "a.h5", "--resume", "--out", "run"],
            "disol.training.train",
            "interrupted; continue with: disol train --data a.h5 --resume --out run",
        ),
    ],
)
def test_a_command_that_is_interrupted_says_how_to_go_on(command, monkeypatch, arguments, work, told):
    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(work, interrupt)
    stopped = command(*arguments)
    assert stopped.returncode == 130
    assert stopped.stderr == f"{told}\n"


@pytest.mark.parametrize(
    ("command", "message", "written"),
    [
        ("export", "Use split='train', or leave it out.", "Use --split train, or leave it out."),
        ("generate", "num_cases must be at least 1, got 0.", "--cases must be at least 1, got 0."),
        ("generate", "a.h5 was begun with seed=3, now asked for 4.", "a.h5 was begun with --seed 3, now asked for 4."),
        ("generate", "Write source=0.3 or topology=0.2..0.3.", "Write source=0.3 or topology=0.2..0.3."),
        ("train", "minutes must be positive, got 0.", "--minutes must be positive, got 0."),
        ("train", "run exists already, choose another out.", "run exists already, choose another --out."),
        ("train", "Leave model out.", "Leave --model out."),
        ("train", "Leave model.width out.", "Leave model.width out."),
        ("train", "Set train.batch_size=8 or less.", "Set train.batch_size=8 or less."),
        ("train", "out and model are words, too.", "out and model are words, too."),
        ("solve", "times must be multiples of 2 s.", "--time must be multiples of 2 s."),
        (
            "solve",
            "poisson has no force_x. It takes source, times.",
            "poisson has no --force-x. It takes --source, --time.",
        ),
        ("solve", "2 of 2 parts have no fix_y pixel.", "2 of 2 parts have no fix_y pixel."),
        ("solve", "Enlarge it, or raise resolution.", "Enlarge it, or raise --resolution."),
        ("solve", "Use device='cuda:1' or engine='onnx'.", "Use --device cuda:1 or engine='onnx'."),
        ("draw", "alpha=0.8 was given. Leave alpha out.", "--alpha 0.8 was given. Leave --alpha out."),
    ],
)
def test_arguments_of_the_library_are_told_as_options_of_the_command(command, message, written):
    assert as_options(message, find_options([command, "--out", "train"])) == written


@pytest.mark.parametrize(
    "arguments",
    [
        ["solve", "--problem", "possion"],
        ["solve", "--model", "poison"],
        ["solve", "--geometry", "hexagon"],
        ["solve", "--source", "z"],
        ["solve", "--device", "tpu"],
        ["solve", "--problem", "elasticity", "--dirichlet", "outer"],
        ["draw", "possion"],
        ["generate", "possion", "--cases", "2", "--out", "a.h5"],
        ["train", "possion", "--data", "a.h5", "--out", "run"],
        ["train", "poisson", "--data", "a.h5", "--out", "run", "--set", "train.epoch=2"],
        ["train", "poisson", "--data", "a.h5", "--out", "run", "--model", "dosol"],
        ["train", "poisson", "--data", "a.h5", "--out", "run", "--start", "poison"],
        ["evaluate", "poison", "--data", "a.h5"],
        ["evaluate", "poisson", "--data", "missing.h5"],
        ["onnx", "poison", "--out", "a.onnx"],
    ],
    ids=" ".join,
)
def test_a_typo_is_told_before_torch_is_imported(arguments, tmp_path):
    program = (
        "import sys, disol.cli\n"
        "try: disol.cli.main()\n"
        "except SystemExit as stopped: assert stopped.code == 2\n"
        "assert not {'torch', 'matplotlib'} & set(sys.modules)\n"
        "if {'possion', 'poison', 'dosol', 'tpu'} & set(sys.argv): assert not {'numpy', 'rich'} & set(sys.modules)\n"
        "if 'z' in sys.argv: assert 'scipy.ndimage' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program, *arguments], check=True)
    assert not list(tmp_path.iterdir())


OWN_NETWORK = """
import torch

class Mine(torch.nn.Module):
    def __init__(self, num_channels, num_fields):
        super().__init__()
        self.layer = torch.nn.Conv2d(num_channels, num_fields, 3, padding=1)

    def forward(self, inputs):
        return self.layer(inputs) * inputs[:, :1]
"""


def test_a_network_of_ones_own_is_trained_and_evaluated(command, tmp_path):
    (tmp_path / "own_of_cli.py").write_text(OWN_NETWORK)
    disol.generate("poisson", 10, tmp_path / "a.h5", resolution=16, workers=0, device="cpu")
    train = ["train", "poisson", "--data", "a.h5", "--out", "run", "--model", "own_of_cli:Mine", "--device", "cpu"]
    trained = command(*train, "--set", "train.epochs=1", "--set", "train.batch_size=4")
    assert trained.returncode == 0, trained.stderr
    refused = command("evaluate", "run", "--data", "a.h5")
    assert refused.returncode == 2
    assert "run holds the weights of a network of your own. Give --model own_of_cli:Mine too." in refused.stderr
    evaluated = command("evaluate", "run", "--data", "a.h5", "--model", "own_of_cli:Mine", "--device", "cpu")
    assert evaluated.returncode == 0, evaluated.stderr
    assert (tmp_path / "run" / "evaluation" / "evaluation.json").exists()


@pytest.mark.parametrize("encoding", ["latin-1", "ascii", "cp1252"])
def test_a_terminal_without_greek_letters_gets_question_marks(encoding):
    result = subprocess.run(
        [sys.executable, "-m", "disol", "problems"],
        env={**os.environ, "PYTHONIOENCODING": encoding},
        capture_output=True,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, b"")
    assert b"poisson" in result.stdout
    assert b"?U" in result.stdout
