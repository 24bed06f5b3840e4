"""`disol solve`: from what a user writes to a solution, or to one line that says what is wrong."""

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.image import imsave
from PIL import Image

import disol
from disol.cli import main
from disol.cli.solving import duration
from disol.expressions import read_expression
from disol.geometry import named_shape
from disol.geometry.loops import name_loops, read_ranges
from disol.grid import Grid
from disol.inference import truth
from disol.inference.torch_engines import TorchEngine
from disol.models import create_model, save_checkpoint

SIDE = 24
SQUARE = {"outer": [[0.1, 0.1], [0.9, 0.1], [0.9, 0.9], [0.1, 0.9]]}


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
        return dict(np.load("solution/solution.npz")), out

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


def cells(out: str, row: str) -> list[str]:
    """The row of the table that is printed, cell by cell."""
    line = next(line for line in out.splitlines() if line.startswith(row))
    return [cell.strip() for cell in re.split(r"\s{2,}", line.strip())]


def channel(arrays: dict[str, np.ndarray], name: str) -> np.ndarray:
    return arrays["inputs"][list(arrays["channels"]).index(name)]


def test_without_options_the_arrow_with_a_hole_is_solved_and_compared(run):
    arrays, out = run()
    assert Path("solution/solution.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in Path("solution").iterdir()) == ["solution.npz", "solution.png"]
    assert (arrays["domain"] == named_shape("arrow", with_hole=True).mask(Grid(SIDE, SIDE))).all()
    for words in ("poisson: −ΔU = f", "arrow+hole", "hole1", "drawn, seed", "L2 error", "predicted", "exact", "cpu"):
        assert words in out
    assert "note:" not in out


def test_the_solution_is_that_of_the_written_terms(run):
    formula = "sin(6*x)*y + 1"
    arrays, _ = run(
        "--geometry", "star+hole", "--dirichlet", "outer:0-0.2", "--dirichlet", "hole1", "--source", formula
    )
    loops = name_loops(named_shape("star", with_hole=True).mask(Grid(SIDE, SIDE)))
    held = loops.mark(read_ranges("outer:0-0.2,hole1"))
    assert (channel(arrays, "dirichlet") == held).all()
    expected = disol.load("models/poisson", device="cpu").solve(
        domain=loops.mask, dirichlet=held, source=read_expression(formula)
    )
    assert arrays["field"] == pytest.approx(expected.field)


def test_the_printed_amplitude_of_the_exact_solution_is_the_exact_one(run):
    _, out = run("--geometry", "square.json", "--dirichlet", "outer", "--source", "constant")
    domain = np.zeros((SIDE, SIDE), dtype=bool)
    domain[2:22, 2:22] = True
    held = name_loops(domain).mark(read_ranges("outer"))
    exact = disol.solve_exact("poisson", domain=domain, dirichlet=held, source=np.ones((SIDE, SIDE)))
    assert float(cells(out, "exact")[1]) == pytest.approx(exact.amplitude, rel=1e-3)


@pytest.mark.parametrize("problem", ["poisson", "elasticity", "heat"])
def test_the_table_shows_the_largest_values_and_errors_of_what_is_shown(run, problem):
    arrays, out = run("--geometry", "square.json", *(["--time", "40,50"] if problem == "heat" else []), problem=problem)
    fields = {"predicted": arrays["field"], "exact": arrays["exact"]}
    sizes = {
        name: [np.abs(values[..., place, :, :]).max() for place in range(values.shape[-3])]
        for name, values in fields.items()
    }
    for name, expected in sizes.items():
        assert [float(size) for size in cells(out, name)[1].split(",")] == pytest.approx(expected, rel=1e-3)
    _, _, error, amplitude, _, _ = cells(out, "predicted")
    missed = np.linalg.norm(fields["predicted"] - fields["exact"]) / np.linalg.norm(fields["exact"])
    assert float(error.removesuffix(" %")) == pytest.approx(100 * missed, rel=0.06)
    off = max(abs(found / known - 1) for found, known in zip(*sizes.values(), strict=True))
    assert float(amplitude.removesuffix(" %")) == pytest.approx(100 * off, rel=0.06)
    assert off > 1e-3


def seconds(cell: str) -> float:
    number, unit = cell.split()
    return float(number) * {"s": 1.0, "ms": 1e-3}[unit]


@pytest.mark.parametrize(
    ("owner", "name", "slow", "quick"),
    [(TorchEngine, "on_device", "predicted", "exact"), (truth, "solve", "exact", "predicted")],
)
def test_the_time_of_the_network_is_told_from_that_of_all_else(run, monkeypatch, owner, name, slow, quick):
    delay(monkeypatch, owner, name)
    _, out = run()
    assert seconds(cells(out, slow)[-2]) >= 3 > seconds(cells(out, quick)[-2])


def delay(monkeypatch, owner: object, name: str) -> None:
    function = getattr(owner, name)

    def delayed(*arguments):
        time.sleep(3.0)
        return function(*arguments)

    monkeypatch.setattr(owner, name, delayed)


@pytest.mark.parametrize(("problem", "times"), [("poisson", 1), ("heat", 2)])  # heat once more for its animation
def test_a_system_is_factorised_once(run, monkeypatch, problem, times):
    factorise, matrices = disol.fem.solve.factorise, []

    def counted(matrix, *, pivot):
        matrices.append(matrix)
        return factorise(matrix, pivot=pivot)

    monkeypatch.setattr("disol.fem.solve.factorise", counted)
    run("--geometry", "square.json", problem=problem)
    assert len(matrices) == times


def test_a_random_geometry_is_the_case_of_its_seed(run):
    arrays, _ = run("--geometry", "random:5+topology+source")
    case = disol.draw("poisson", 5, resolution=SIDE, shift="topology,source")
    assert (arrays["inputs"] == case.inputs).all()


@pytest.mark.parametrize("seed", [0, 4])
def test_what_a_named_shape_is_not_given_is_that_of_the_seed(run, seed):
    arrays, _ = run("--geometry", "star", "--seed", str(seed))
    assert (arrays["inputs"] == disol.draw("poisson", seed, resolution=SIDE, shift="shape:star").inputs).all()


@pytest.mark.parametrize(("seconds", "shown"), [(0.01234, "12.3 ms"), (0.9, "900.0 ms"), (2.0, "2.0 s")])
def test_times_are_shown_in_their_unit(seconds, shown):
    assert duration(seconds) == shown


def test_an_outline_has_defaults_that_are_named(run):
    arrays, out = run("--geometry", "square.json")
    assert "outer:0-0.25 (default)" in out
    assert "wave (default): 0.5 + 0.5*sin" in out
    rows, columns = np.nonzero(channel(arrays, "dirichlet"))
    assert set(rows) == {2}
    assert set(columns) <= set(range(2, 22))


def test_names_with_brackets_are_printed_as_they_are(run):
    Path("square.json").rename("[red]square.json")
    _, out = run("--geometry", "[red]square.json", "--out", "solution")
    assert "[red]square.json, 69% of 24 x 24 pixels" in out


def test_an_outline_elsewhere_is_fitted_and_that_is_said(run):
    Path("far.json").write_text(json.dumps({"outer": [[100, 0], [300, 0], [300, 200]]}))
    arrays, out = run("--geometry", "far.json")
    assert "note: far.json was moved and scaled into the unit square, 5% from its edge" in out
    assert arrays["domain"].mean() == pytest.approx(0.5 * 0.81, abs=0.05)


def test_pixels_that_a_grid_cuts_off_are_named(run):
    hourglass = [[0.1, 0.1], [0.9, 0.1], [0.505, 0.4], [0.505, 0.6], [0.9, 0.9], [0.1, 0.9], [0.495, 0.6], [0.495, 0.4]]
    Path("glass.json").write_text(json.dumps({"outer": hourglass}))
    assert "pixels that no side joins" in run("--geometry", "glass.json")[1]


def test_a_time_between_steps_is_refused_as_it_was_written(home, capsys, monkeypatch):
    code, _, err = solve(capsys, monkeypatch, "--time", "3,8", problem="heat")
    assert code == 2
    assert "--time takes multiples of 2 s, got '3,8'. Round them." in err


def test_the_amplitude_of_a_vector_field_is_that_of_its_components(run):
    assert "max |U_i|" in run("--geometry", "square.json", problem="elasticity")[1]


def test_a_hole_that_a_grid_does_not_see_is_named(run):
    outer, hole = [[0.1, 0.1], [0.9, 0.1], [0.9, 0.9], [0.1, 0.9]], [[0.501, 0.501], [0.503, 0.501], [0.503, 0.503]]
    Path("pinhole.json").write_text(json.dumps({"outer": outer, "holes": [hole]}))
    assert "hole 1 of pinhole.json is too small for this grid" in " ".join(run("--geometry", "pinhole.json")[1].split())


def test_a_hole_that_a_grid_cuts_in_two_keeps_both_parts_and_is_named(run):
    upper = [[0.2, 0.2], [0.4, 0.2], [0.4, 0.499], [0.6, 0.499], [0.6, 0.2], [0.8, 0.2]]
    lower = [[x, 1 - y] for x, y in reversed(upper)]
    Path("dumbbell.json").write_text(json.dumps({**SQUARE, "holes": [upper + lower]}))
    arrays, out = run("--geometry", "dumbbell.json")
    assert "note: hole 1 of dumbbell.json is too thin for this grid: it falls into 2 parts" in out
    assert "hole2" in out
    assert (arrays["domain"] == arrays["domain"][:, ::-1]).all()


@pytest.mark.parametrize(("margin", "near"), [(0, True), (2, True), (3, False)])
def test_a_domain_along_the_edge_of_the_grid_is_named(run, home, margin, near):
    pixels = np.ones((SIDE, SIDE, 3))
    pixels[margin:12, margin : SIDE - margin] = 0
    imsave(home / "wide.png", pixels)
    out = run("--geometry", "wide.png", "--no-exact")[1]
    assert ("note: wide.png runs along the edge of the grid" in out) == near


@pytest.mark.parametrize("turns", range(4))
def test_every_side_of_the_grid_counts(run, home, turns):
    pixels = np.ones((SIDE, SIDE, 3))
    pixels[0:8, 3 : SIDE - 3] = 0
    imsave(home / "wide.png", np.ascontiguousarray(np.rot90(pixels, turns)))
    assert "note: wide.png runs along the edge of the grid" in run("--geometry", "wide.png", "--no-exact")[1]


def test_red_fixes_x_and_blue_fixes_y(run, home):
    pixels = np.ones((SIDE, SIDE, 3))
    pixels[4:20, 4:20] = 0
    pixels[4:20, 4] = [1, 0, 0]
    pixels[19, 6:20] = [0, 0, 1]
    imsave(home / "body.png", pixels)
    arrays, _ = run("--geometry", "body.png", problem="elasticity")
    assert set(np.nonzero(channel(arrays, "fix_x"))[1]) == {4}
    assert set(np.nonzero(channel(arrays, "fix_y"))[0]) == {19}


def test_red_pixels_hold_the_solution_at_zero(run):
    arrays, out = run("--geometry", "painted.png")
    assert "painted in painted.png" in out
    assert arrays["domain"].sum() == 18**2
    rows, columns = np.nonzero(channel(arrays, "dirichlet"))
    assert set(columns) == {3}
    assert len(rows) == 18


def test_a_picture_without_supports_says_where_the_default_is(run, home):
    imsave(home / "plain.png", np.pad(np.zeros((32, 32)), 8, constant_values=1), cmap="gray")
    assert "note: no red pixels found in plain.png: U = 0 on outer:0-0.25 instead" in run("--geometry", "plain.png")[1]
    assert "no red pixels" not in run("--geometry", "plain.png", "--dirichlet", "outer")[1]
    assert "no red or blue pixels found" in run("--geometry", "plain.png", problem="elasticity")[1]


def test_a_cut_that_a_grid_does_not_see_is_named_and_specks_are_not(run, home):
    pixels = np.ones((480, 480, 3))
    pixels[60:420, 60:420] = 0
    pixels[60, 60:420] = [1, 0, 0]
    pixels[10, ::7] = 0
    imsave(home / "whole.png", pixels)
    pixels[60:420, 250] = 1
    imsave(home / "cut.png", pixels)
    assert "parts of the domain" not in run("--geometry", "whole.png", "--no-exact")[1]
    message = "note: parts of the domain: 2 in cut.png, 1 on this grid"
    assert message in run("--geometry", "cut.png", "--no-exact")[1]


def test_written_ranges_replace_painted_ones(run):
    arrays, _ = run("--geometry", "painted.png", "--dirichlet", "outer:0.25-0.5")
    assert set(np.nonzero(channel(arrays, "dirichlet"))[1]) == {20}


def test_elasticity_takes_supports_and_forces(run):
    fixed = ["--fix-x", "outer:0.75-1", "--fix-y", "outer:0.75-1"]
    arrays, out = run("--geometry", "square.json", *fixed, "--force-y", "outer:0.25-0.5=-2.5", problem="elasticity")
    assert (channel(arrays, "fix_x") == channel(arrays, "fix_y")).all()
    assert not channel(arrays, "force_x").any()
    assert set(np.unique(channel(arrays, "force_y"))) == {-2.5, 0.0}
    assert arrays["field"].shape == (2, SIDE, SIDE)
    assert "outer:0.25-0.5=-2.5" in out


def test_heat_is_solved_at_the_times_asked_for_and_animated(run):
    arrays, out = run(
        "--geometry", "square.json", "--initial", "gaussian", "--time", "8", "--time", "2,4", problem="heat"
    )
    assert arrays["times"].tolist() == [2, 4, 8]
    domain = arrays["domain"]
    given = {"domain": domain, "dirichlet": channel(arrays, "dirichlet")}
    fields = {"source": read_expression("wave"), "initial": read_expression("gaussian")}
    expected = disol.load("models/heat", device="cpu").solve(**given, **fields, times=(2, 4, 8))
    assert arrays["field"] == pytest.approx(expected.field)
    assert (arrays["inputs"] == expected.inputs).all()
    assert Path("solution/solution.gif").read_bytes().startswith(b"GIF89a")
    assert "solution/solution.gif" in out


def test_times_after_the_trained_ones_and_more_than_a_picture_shows_are_named(run):
    usual = "--geometry", "y", "--no-exact"
    assert "note:" not in run(*usual, "--time", "2,4,6,8,10,12,20", problem="heat")[1]
    out = run(*usual, "--time", "2,4,6,8,10,12,14,22", problem="heat")[1]
    assert "note: models are trained up to 20 s: expect larger errors after that" in out
    assert "note: solution.png shows 7 of the 8 times" in out


def test_an_animation_is_written_where_it_is_asked_for(run):
    run("--time", "2", "--animate", "movie/heat.gif", problem="heat")
    assert Path("movie/heat.gif").exists()
    assert not Path("solution/solution.gif").exists()


@pytest.mark.parametrize("problem", ["poisson", "heat"])
def test_the_exact_solution_and_the_error_can_be_left_out(run, problem):
    options = "--geometry", "square.json", *(["--time", "8"] if problem == "heat" else [])
    names = ("solution.png", "solution.gif") if problem == "heat" else ("solution.png",)
    arrays, out = run(*options, problem=problem)
    widths = [picture_width(f"solution/{name}") for name in names]
    fewer, shorter = run(*options, "--no-exact", problem=problem)
    table = shorter[shorter.index("max |U|") :]
    assert "error" not in table
    assert "exact" not in table
    assert cells(shorter, "predicted")[1] == cells(out, "predicted")[1]
    assert [picture_width(f"solution/{name}") for name in names] != widths
    assert fewer["exact"] == pytest.approx(arrays["exact"])  # files hold all that is known


def picture_width(path: str) -> int:
    with Image.open(path) as picture:
        return picture.width


def test_a_resolution_that_was_not_trained_is_one_note(home, capsys, monkeypatch):
    code, out, _ = solve(capsys, monkeypatch, "--resolution", "32")
    assert code == 0
    notes = [line for line in out.splitlines() if line.startswith("note:")]
    assert len(notes) == 1
    assert "24" in notes[0]


def test_a_run_is_asked_for_the_resolution_it_was_trained_on(home, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["disol", "solve", "--model", "models/poisson", "--device", "cpu"])
    with pytest.raises(SystemExit) as stopped:
        main()
    out = capsys.readouterr().out
    assert not stopped.value.code
    assert f"of {SIDE} x {SIDE} pixels" in out
    assert "note:" not in out


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
        (["--geometry", "square.json", "--seed", "3"], "--seed"),
        (["--seed", "-3"], "seed must not be negative"),
        (["--dirichlet", "outer:0.1"], "outer:0.1-0.3"),
        (["--dirichlet", "hole7"], "The loops are outer, hole1"),
        (["--dirichlet", "outer,hole1=2"], "outer:0.1-0.3"),
        (["--force-x", "outer"], "poisson has no --force-x. It takes --dirichlet, --source."),
        (["--time", "2"], "poisson has no --time"),
        (["--source", "z*x"], "'z' is not allowed"),
        (["--source", "1/(x - x)"], "not finite at x ="),
        (["--source", "[link]x"], "'[link]x'"),
        (["--source", "1e39*x"], "source must not exceed 3.4e+38, for networks compute in float32"),
        (["--resolution", "8"], "--resolution must lie in [16, 1024], got 8"),
        (["--resolution", "many"], "--resolution"),
        (["--device", "tpu"], "Unknown device 'tpu'"),
        (["--animate", "a.gif"], "needs a problem with time"),
        (["--animate", "a.mp4"], "must end in .gif"),
        (["--out", "square.json"], "Cannot write square.json"),
        (["--colour", "red"], "--colour"),
        (["extra"], "extra"),
    ],
)
def test_a_wrong_input_is_one_line_and_writes_nothing(fails, arguments, message):
    assert message in fails(*arguments)


@pytest.mark.parametrize("times", ["3", "-2", "soon", "nan", "1e9", ""])
def test_a_time_that_is_never_reached_is_an_error(fails, times):
    assert "time" in fails("--time", times, problem="heat")


def test_a_body_that_can_move_freely_is_an_error_before_anything_is_predicted(fails, monkeypatch):
    monkeypatch.setattr("disol.inference.torch_engines.TorchEngine.on_device", None)
    assert "no fix_y pixel" in fails("--fix-x", "outer:0-0.3", problem="elasticity")


def test_a_drawing_without_a_domain_is_an_error(fails, home):
    pixels = np.ones((480, 480, 3))
    imsave(home / "white.png", pixels)
    assert "none of white.png is darker than mid-grey. Paint it black." in fails("--geometry", "white.png")
    pixels[240, 240] = 0
    imsave(home / "dot.png", pixels)
    assert "No pixel of a 24 x 24 grid" in fails("--geometry", "dot.png")


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
