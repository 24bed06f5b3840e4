"""The help of the command."""

import subprocess
import sys

import pytest

from disol.cli import main


def test_help_names_solve_first_and_needs_no_torch(capsys, monkeypatch):
    program = "import sys, disol.cli; assert not {'torch', 'matplotlib', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
    monkeypatch.setattr(sys, "argv", ["disol", "--help"])
    with pytest.raises(SystemExit):
        main()
    commands = capsys.readouterr().out.split("Commands", 1)[1]
    assert commands.index("solve") == min(commands.index(name) for name in ("solve", "problems", "draw", "train"))


def test_help_shows_every_example_and_bracket(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["disol", "solve", "--help"])
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit):
        main()
    shown = capsys.readouterr().out
    assert '{"outer": [[x, y], ...], "holes": [[[x, y], ...]]}' in " ".join(shown.split())
    assert "disol solve --problem heat" in shown


def test_help_says_which_conventions_there_are_and_why_files_hold_pixels(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    shown = {}
    for command in ("draw", "generate"):
        monkeypatch.setattr(sys, "argv", ["disol", command, "--help"])
        with pytest.raises(SystemExit):
            main()
        shown[command] = " ".join(capsys.readouterr().out.split())
    assert "physical (on the true boundary), paper or published (on pixels); default: physical" in shown["draw"]
    assert "paper or published: networks learn pixels" in shown["generate"]
    assert "[default: paper]" in shown["generate"]
