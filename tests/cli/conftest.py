"""`disol solve` as a user calls it, in a folder with small models."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.image import imsave
from printed import SIDE, SQUARE, folder_written

from disol.cli import main
from disol.models import create_model, save_checkpoint


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    """A working folder with a small model of every problem, an outline and a picture."""
    torch.manual_seed(0)
    for problem in ("poisson", "elasticity", "heat"):
        model = create_model("disol", problem, width=8, depth=2, gated_skips=1)
        save_checkpoint(tmp_path / "models" / problem, model, problem, resolution=SIDE)
    (tmp_path / "square.json").write_text(json.dumps(SQUARE))
    pixels = np.ones((48, 48, 3))
    pixels[6:42, 6:42] = 0
    pixels[6:42, 6] = [1, 0, 0]
    imsave(tmp_path / "painted.png", pixels)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


def solve(capsys, monkeypatch, *arguments: str, problem: str = "poisson") -> tuple[int, str, str]:
    options = ["--model", f"models/{problem}", "--resolution", str(SIDE), "--device", "cpu", *arguments]
    monkeypatch.setattr(sys, "argv", ["disol", "solve", *options])
    with pytest.raises(SystemExit) as stopped:
        main()
    printed = capsys.readouterr()
    return stopped.value.code or 0, printed.out, printed.err


@pytest.fixture
def run(home, capsys, monkeypatch):
    def run(*arguments: str, problem: str = "poisson"):
        code, out, err = solve(capsys, monkeypatch, *arguments, problem=problem)
        assert code == 0, err
        return dict(np.load(folder_written(out) / "solution.npz")), out

    return run


@pytest.fixture
def fails(home, capsys, monkeypatch):
    def fails(*arguments: str, problem: str = "poisson") -> str:
        before = sorted(home.rglob("*"))
        code, _, err = solve(capsys, monkeypatch, *arguments, problem=problem)
        assert code == 2
        assert len(err.strip().splitlines()) == 1
        assert sorted(home.rglob("*")) == before
        return err

    return fails
