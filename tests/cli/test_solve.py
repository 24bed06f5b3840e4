"""`disol solve`: the solution, and what is told of it."""

import re
import sys
import time
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from printed import SIDE, cells, channel, folder_written, load_arrays

import disol
from disol.cli.report import duration, movie_times
from disol.expressions import read_expression
from disol.geometry import named_shape
from disol.geometry.loops import name_loops, read_ranges
from disol.grid import Grid
from disol.models import save_checkpoint
from disol.surrogate import verification
from disol.surrogate.engines import TorchEngine


def test_without_options_the_arrow_with_a_hole_is_solved_and_compared(run):
    arrays, out = run()
    assert Path("solution/solution.png").read_bytes().startswith(b"\x89PNG")
    written = ["solution.npz", "solution.png", "true-boundary.npz", "true-boundary.png"]
    assert sorted(path.name for path in Path("solution").iterdir()) == written
    assert (arrays["domain"] == named_shape("arrow", with_hole=True).mask(Grid(SIDE, SIDE))).all()
    for words in ("poisson: −ΔU = f", "arrow+hole", "hole1", "drawn, seed", "L2 error", "predicted", "exact", "cpu"):
        assert words in out
    assert "note:" not in out


@pytest.mark.usefixtures("undrawn")
def test_the_solution_is_that_of_the_written_terms(run):
    formula = "sin(6*x)*y + 1"
    arrays, _ = run(
        "--geometry", "star+hole", "--dirichlet", "outer:0-0.2", "--dirichlet", "hole1", "--source", formula
    )
    loops = name_loops(named_shape("star", with_hole=True).mask(Grid(SIDE, SIDE)))
    held = loops.mark(read_ranges("outer:0-0.2,hole1"))
    assert (channel(arrays, "dirichlet") == held).all()
    expected = disol.load("models/poisson", device="cpu").verify(
        domain=loops.mask, dirichlet=held, source=read_expression(formula)
    )
    assert arrays["field"] == pytest.approx(expected.prediction.field)


@pytest.mark.usefixtures("undrawn")
def test_the_printed_amplitude_of_the_exact_solution_is_the_exact_one(run):
    _, out = run("--geometry", "square.json", "--dirichlet", "outer", "--source", "constant")
    domain = np.zeros((SIDE, SIDE), dtype=bool)
    domain[2:22, 2:22] = True
    held = name_loops(domain).mark(read_ranges("outer"))
    exact = disol.solve_exact(
        "poisson", domain=domain, dirichlet=held, source=np.ones((SIDE, SIDE)), conventions="paper"
    )
    assert float(cells(out, "exact")[1]) == pytest.approx(exact.amplitude, rel=1e-3)


@pytest.mark.usefixtures("undrawn")
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


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    ("owner", "name", "slow", "quick"),
    [(TorchEngine, "forward", "predicted", "exact"), (verification, "solve_here", "exact", "predicted")],
)
def test_the_time_of_the_network_is_told_from_that_of_all_else(run, monkeypatch, owner, name, slow, quick):
    function, read_clock, late = getattr(owner, name), time.perf_counter, 0.0

    def delayed(*arguments):
        nonlocal late
        late += 1000.0
        return function(*arguments)

    monkeypatch.setattr(owner, name, delayed)
    monkeypatch.setattr(time, "perf_counter", lambda: read_clock() + late)
    _, out = run()
    assert seconds(cells(out, slow)[-2]) >= 1000 > seconds(cells(out, quick)[-2])


@pytest.mark.usefixtures("undrawn")
# On pixels, and on the true boundary of this grid and of a finer one, of heat for its first, smaller steps and for the
# others; heat once more for its animation.
@pytest.mark.parametrize(("problem", "times"), [("poisson", 3), ("heat", 6)])
def test_a_system_is_factorised_once(run, monkeypatch, problem, times):
    factorise, matrices = disol.fem.solve.factorise, []

    def counted(matrix, *, pivot):
        matrices.append(matrix)
        return factorise(matrix, pivot=pivot)

    monkeypatch.setattr("disol.fem.solve.factorise", counted)
    run("--geometry", "square.json", problem=problem)
    assert len(matrices) == times


@pytest.mark.parametrize(
    ("times", "most", "frames"),
    [
        ((3.0, 8.0), 50, (2.0, 3.0, 4.0, 6.0, 8.0)),
        ((1.0,), 50, (1.0,)),
        ((20.0,), 3, (8.0, 16.0, 20.0)),
        ((2.0, 400.0), 50, (2.0, *(8.0 * frame for frame in range(1, 51)))),
    ],
)
def test_an_animation_has_a_frame_every_2_s_or_fewer_of_a_long_time(times, most, frames, monkeypatch):
    monkeypatch.setattr(sys.modules["disol.cli.report"], "MOST_FRAMES", most)
    assert (
        movie_times(
            replace(
                disol.draw("heat", resolution=16, conventions="paper"),
                terms={"domain": np.ones((16, 16), bool), "times": times},
            )
        )
        == frames
    )


@pytest.mark.parametrize(
    ("times", "step", "most", "frames"),
    [
        ((60.0,), 10.0, 50, (10.0, 20.0, 30.0, 40.0, 50.0, 60.0)),
        ((60.0, 600.0), 10.0, 3, (60.0, 200.0, 400.0, 600.0)),
        ((0.3,), 0.1, 50, (0.1, 0.2, 0.3)),
    ],
)
def test_an_animation_has_frames_at_multiples_of_a_step_of_ones_own(times, step, most, frames, monkeypatch):
    monkeypatch.setattr(sys.modules["disol.cli.report"], "MOST_FRAMES", most)
    heated = {"dirichlet": "left=1", "conductivity": 1, "resolution": 16}
    case = disol.read_case("heat", "star", **heated, times=list(times), time_step=step)
    assert movie_times(case) == pytest.approx(frames)


@pytest.mark.parametrize(("seconds", "shown"), [(0.01234, "12.3 ms"), (0.9, "900.0 ms"), (2.0, "2.0 s")])
def test_times_are_shown_in_their_unit(seconds, shown):
    assert duration(seconds) == shown


@pytest.mark.usefixtures("undrawn")
def test_the_amplitude_of_a_vector_field_is_that_of_its_components(run):
    assert "max |U_i|" in run("--geometry", "square.json", problem="elasticity")[1]


@pytest.mark.usefixtures("undrawn")
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
    expected = disol.load("models/heat", device="cpu").verify(**given, **fields, times=(2, 4, 8))
    assert arrays["field"] == pytest.approx(expected.prediction.field)
    assert (arrays["inputs"] == expected.case.inputs).all()
    assert Path("solution/solution.gif").read_bytes().startswith(b"GIF89a")
    assert "solution/solution.gif" in out


@pytest.mark.usefixtures("undrawn")
def test_times_after_the_trained_ones_and_more_than_a_picture_shows_are_named(run):
    usual = "--geometry", "y", "--no-exact"
    assert "note:" not in run(*usual, "--time", "2,4,6,8,10,12,20", problem="heat")[1]
    out = run(*usual, "--time", "2,4,6,8,10,12,14,22", problem="heat")[1]
    assert out.count("note: The network was trained up to 20 s: expect larger errors after that.") == 1
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
    widths = [picture_width(folder_written(out) / name) for name in names]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("disol.surrogate.verification.solve_here", None)
        patched.setattr("disol.surrogate.verification.solve_there", None)
        fewer, shorter = run(*options, "--no-exact", problem=problem)
    table = shorter[shorter.index("max |U|") :]
    assert "error" not in table
    assert "exact" not in table
    assert cells(shorter, "predicted")[1] == cells(out, "predicted")[1]
    assert [picture_width(folder_written(shorter) / name) for name in names] != widths
    assert {"exact", "error"} <= arrays.keys() - fewer.keys()
    assert fewer["field"] == pytest.approx(arrays["field"])


def test_the_solution_on_the_true_boundary_is_told_and_written_beside_that_on_pixels(run):
    arrays, out = run("--geometry", "square.json", "--source", "1", "--dirichlet", "outer:0-0.25")
    true = load_arrays(folder_written(out) / "true-boundary.npz")
    assert str(true["conventions"]) == "physical"
    away = np.linalg.norm(arrays["exact"] - true["field"]) / np.linalg.norm(true["field"])
    assert 0.01 < away < 0.5
    (told,) = re.findall(r"The solution on pixels is (\S+) % from that on the true boundary, which", out)
    assert float(told) == pytest.approx(100 * away, rel=0.05)
    assert cells(out, "true boundary")
    (source,), (flow,) = (
        re.findall(rf"^{name}.* (-?[0-9.]+)$", out, re.MULTILINE) for name in ("source", "dirichlet ")
    )
    assert float(source) == pytest.approx(-float(flow), rel=1e-3)
    assert re.findall(r"^balance +all of these +0$", out, re.MULTILINE)
    assert "from the PDE" not in run("--geometry", "square.json", "--no-distance")[1]


def test_displacements_need_the_exact_solution(fails):
    options = "--geometry", "square.json", "--force-y", "outer:0.5-0.6=1", "--no-exact"
    message = "The size of elasticity is known accurately from its solution only: leave out --no-exact."
    assert message in fails(*options, problem="elasticity")


def picture_width(path: Path) -> int:
    with Image.open(path) as picture:
        return picture.width


@pytest.mark.usefixtures("undrawn")
def test_every_solution_gets_a_folder_of_its_own_unless_told_otherwise(run, fails):
    folders = [str(folder_written(run("--no-exact")[1])) for _ in range(3)]
    assert folders == ["solution", "solution-2", "solution-3"]
    assert str(folder_written(run("--no-exact", "--out", "mine")[1])) == "mine"
    written = Path("mine/solution.npz").read_bytes()
    message = "mine holds a solution already. Choose another --out, or give --overwrite."
    assert message in fails("--out", "mine")
    _, out = run("--source", "constant", "--out", "mine", "--overwrite")
    assert str(folder_written(out)) == "mine"
    assert Path("mine/solution.npz").read_bytes() != written
    Path("yours").mkdir()
    Path("yours/notes.txt").touch()
    assert str(folder_written(run("--no-exact", "--out", "yours")[1])) == "yours"


def test_an_animation_is_not_overwritten_unless_told_so(run, fails):
    Path("movie.gif").touch()
    message = "movie.gif exists already. Choose another --animate, or give --overwrite."
    assert message in fails("--time", "2", "--animate", "movie.gif", problem="heat")
    run("--time", "2", "--animate", "movie.gif", "--overwrite", problem="heat")
    assert Path("movie.gif").stat().st_size > 0


@pytest.mark.usefixtures("undrawn")
def test_a_run_of_a_network_of_ones_own_is_solved_by_it(home, command):
    Path("own_of_solve.py").write_text(OWN_NETWORK)
    sys.path.insert(0, "")
    save_checkpoint("own", import_module("own_of_solve").Mine(3, 1), "poisson", resolution=24)
    options = ["solve", "--model", "own", "--geometry", "square.json", "--device", "cpu"]
    refused = command(*options)
    assert refused.returncode == 2
    assert "own holds the weights of a network of your own. Give --model own_of_solve:Mine too." in refused.stderr
    found = command(*options, "--model", "own_of_solve:Mine")
    assert found.returncode == 0, found.stderr
    assert "own, trained on 24 x 24" in found.stdout
    exported = command("onnx", "own", "--model", "own_of_solve:Mine", "--out", "own.onnx")
    assert exported.returncode == 0, exported.stderr
    assert Path("own.onnx").stat().st_size > 0
    alone = command("solve", "--model", "own_of_solve:Mine")
    assert "own_of_solve:Mine is a network without weights. Give the folder of its run" in alone.stderr


OWN_NETWORK = """
import torch

class Mine(torch.nn.Module):
    def __init__(self, num_channels, num_fields):
        super().__init__()
        self.layer = torch.nn.Conv2d(num_channels, num_fields, 3, padding=1)

    def forward(self, inputs):
        return self.layer(inputs) * inputs[:, :1]
"""


@pytest.mark.usefixtures("undrawn")
def test_a_resolution_that_was_not_trained_is_one_note(run):
    notes = [line for line in run("--resolution", "32")[1].splitlines() if line.startswith("note:")]
    assert len(notes) == 1
    assert "24" in notes[0]


@pytest.mark.usefixtures("undrawn")
def test_a_run_is_asked_for_the_resolution_it_was_trained_on(home, command):
    result = command("solve", "--model", "models/poisson", "--device", "cpu")
    assert result.returncode == 0
    assert f"of {SIDE} x {SIDE} pixels" in result.stdout
    assert "note:" not in result.stdout
