"""The command as a user calls it, in a folder of its own; `disol solve` in one with small models."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from shutil import copytree
from subprocess import CompletedProcess

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from matplotlib.image import imsave
from printed import SIDE, SQUARE, folder_written, load_arrays

from disol.cli import main
from disol.models import create_model, save_checkpoint

Command = Callable[..., CompletedProcess[str]]


@pytest.fixture
def command(tmp_path, monkeypatch, capsys) -> Command:
    """Call the command in this process, which has imported torch already."""

    def command(*arguments: str) -> CompletedProcess[str]:
        monkeypatch.setattr(sys, "argv", ["disol", *arguments])
        with pytest.raises(SystemExit) as stopped:
            main()
        printed = capsys.readouterr()
        return CompletedProcess(arguments, stopped.value.code or 0, printed.out, printed.err)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])  # networks of one's own are imported from the working directory
    return command


@pytest.fixture(scope="session")
def small_models(tmp_path_factory) -> Path:
    """A folder with a small model of some problems."""
    folder = tmp_path_factory.mktemp("small") / "models"
    torch.manual_seed(0)
    for problem in ("poisson", "elasticity", "heat"):
        model = create_model("disol", problem, width=8, depth=2, gated_skips=1)
        save_checkpoint(folder / problem, model, problem, resolution=SIDE)
    return folder


@pytest.fixture
def home(small_models, tmp_path, monkeypatch) -> Path:
    """A working folder with small models, an outline and a picture."""
    copytree(small_models, tmp_path / "models")
    (tmp_path / "square.json").write_text(json.dumps(SQUARE))
    pixels = np.ones((48, 48, 3))
    pixels[6:42, 6:42] = 0
    pixels[6:42, 6] = [1, 0, 0]
    imsave(tmp_path / "painted.png", pixels)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys.modules["disol.cli.report"], "MOST_FRAMES", 3)
    return tmp_path


@pytest.fixture
def undrawn(monkeypatch) -> None:
    """Let pictures be empty where they are not the subject: they take most of the time."""
    for name in ("plot_comparison", "plot_solution"):
        monkeypatch.setattr(f"disol.viz.{name}", lambda *arguments, **options: Figure(figsize=(1, 1)))
    monkeypatch.setattr("disol.viz.animate", lambda *arguments: None)


@pytest.fixture
def solve(home, command) -> Command:
    def solve(*arguments: str, problem: str = "poisson") -> CompletedProcess[str]:
        options = ["--model", f"models/{problem}", "--resolution", str(SIDE), "--device", "cpu"]
        return command("solve", *options, *arguments)

    return solve


@pytest.fixture
def run(solve):
    def run(*arguments: str, problem: str = "poisson"):
        result = solve(*arguments, problem=problem)
        assert result.returncode == 0, result.stderr
        return load_arrays(folder_written(result.stdout) / "solution.npz"), result.stdout

    return run


@pytest.fixture
def fails(home, solve):
    def fails(*arguments: str, problem: str = "poisson") -> str:
        before = sorted(home.rglob("*"))
        result = solve(*arguments, problem=problem)
        assert result.returncode == 2
        assert len(result.stderr.strip().splitlines()) == 1
        assert sorted(home.rglob("*")) == before
        return result.stderr

    return fails
