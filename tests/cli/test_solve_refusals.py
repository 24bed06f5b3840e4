"""What `disol solve` cannot do is one line that says what to do, and leaves nothing behind."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imsave

from disol.cli.files import choose_folder, taken


def test_a_time_between_steps_is_refused_as_it_was_written(fails):
    message = "--time must be multiples of the time step, 2 s, got [3.0, 8.0]. Round them"
    assert message in fails("--time", "3,8", problem="heat")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--problem", "stokes"], "Unknown problem 'stokes'"),
        (["--problem", "heat"], "models/poisson"),
        (["--model", "nowhere"], "nowhere"),
        (["--geometry", "hexagon"], "The shapes are arrow"),
        (["--geometry", "random:x"], "random:7"),
        (["--geometry", "random:1+shape:y"], "random:7"),
        (["--geometry", "random:1+half"], "Unknown shift 'half'"),
        (["--geometry", "missing.json"], "Cannot read missing.json"),
        (["--geometry", "missing.png"], "Cannot read missing.png"),
        (["--geometry", "square.json", "--seed", "3"], "--seed draws the missing terms of a named shape"),
        (["--geometry", "random:1+source=x"], "Write source=0.3 or source=0.2..0.3."),
        (["--seed", "-3"], "error: --seed must not be negative"),
        (["--dirichlet", "outer:0.1"], "outer:0.1-0.3"),
        (["--dirichlet", "hole7"], "The loops are outer, hole1"),
        (
            ["--force-x", "outer"],
            "poisson has no --force-x. It takes --dirichlet, --source. Pass --problem elasticity, which has it.",
        ),
        (["--time", "2"], "poisson has no --time. It takes --dirichlet, --source. Pass --problem heat"),
        (["--source", "z*x"], "'z' is not allowed"),
        (["--source", "1/(x - x)"], "not finite at x ="),
        (["--source", "[link]x"], "'[link]x'"),
        (["--source", "1e39*x"], "error: --source must not exceed 3.4e+38, for networks compute in float32"),
        (["--resolution", "8"], "--resolution must lie in [16, 1024], got 8"),
        (["--resolution", "many"], "--resolution"),
        (["--device", "tpu"], "Unknown device 'tpu'"),
        (["--animate", "a.gif"], "needs a problem with time"),
        (["--animate", "a.mp4"], "must end in .gif"),
        (["--out", "square.json"], "square.json is a file, not a folder"),
        (["--colour", "red"], "--colour"),
        (["extra"], "extra"),
    ],
)
def test_a_wrong_input_is_one_line_and_writes_nothing(fails, arguments, message):
    assert message in fails(*arguments)


def test_a_support_of_another_problem_is_answered_by_those_of_this_one(fails):
    message = "elasticity has no --dirichlet. It takes --fix-x and --fix-y instead."
    assert message in fails("--dirichlet", "outer", problem="elasticity")
    assert message in fails("--dirichlet", "outer=1", problem="elasticity")


def test_a_load_on_what_is_held_is_an_error_and_not_a_solution_of_zeros(fails):
    message = "fix_x on 'left' and force_x on 'left' share a piece of the boundary. Keep them apart."
    given = ["--fix-x", "left", "--fix-y", "left", "--force-x", "left=1"]
    assert message in fails("--geometry", "square.json", *given, problem="elasticity")


@pytest.mark.parametrize("times", ["3", "-2", "soon", "nan", "1e9", ""])
def test_a_time_that_is_never_reached_is_an_error(fails, times):
    assert "time" in fails("--time", times, problem="heat")


def test_a_body_that_can_move_freely_is_an_error_before_anything_is_predicted(fails, monkeypatch):
    monkeypatch.setattr("disol.surrogate.engines.TorchEngine.forward", None)
    assert "no fix_y pixel" in fails("--fix-x", "outer:0-0.3", problem="elasticity")


def test_a_drawing_without_a_domain_is_an_error(fails, home):
    pixels = np.ones((480, 480, 3))
    imsave(home / "white.png", pixels)
    assert "none of white.png is darker than mid-grey. Paint it black." in fails("--geometry", "white.png")
    pixels[240, 240] = 0
    imsave(home / "dot.png", pixels)
    assert "No pixel of a 24 x 24 grid" in fails("--geometry", "dot.png")


def test_commands_that_start_together_write_into_folders_of_their_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first, second = choose_folder(None, overwrite=False), choose_folder(None, overwrite=False)
    assert first == second == Path("solution")
    with taken(first, is_new=True) as one, taken(second, is_new=True) as other:
        assert (one, other) == (Path("solution"), Path("solution-2"))
        (other / "solution.npz").touch()
    assert [each.name for each in tmp_path.iterdir()] == ["solution-2"]  # the other holds nothing


def test_a_model_of_another_problem_is_called_as_it_was_asked_for(command, tmp_path):
    result = command("solve", "--problem", "elasticity", "--model", "poisson")
    assert result.returncode == 2
    assert result.stderr.startswith("error: poisson was trained on 'poisson', not 'elasticity'.")
    assert not any(tmp_path.iterdir())
