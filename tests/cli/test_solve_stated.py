"""`disol solve` with values, fluxes, materials and sizes: on the true boundary, in the units of the drawing."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from printed import load_arrays

import disol

WALL = {"outer": [[0, 0], [300, 0], [300, 200], [0, 200]]}  # in millimetres


@pytest.fixture
def wall(home) -> str:
    (home / "wall.json").write_text(json.dumps(WALL))
    return "wall.json"


def arrays(folder: str) -> dict[str, np.ndarray]:
    return load_arrays(Path(folder) / "solution.npz")


def total(out: str, what: str, where: str) -> list[float]:
    """What the table of totals says of a part."""
    (numbers,) = re.findall(rf"^{what}\s+{where}\s+(\S.*)$", out, flags=re.MULTILINE)
    return [float(number) for number in numbers.split(", ")]


def test_a_wall_between_two_temperatures_has_those_between_and_no_prediction(solve, wall):
    done = solve("--geometry", wall, "--dirichlet", "left=20,right=80 + 0*y", "--conductivity", "45", "--out", "w")
    assert done.returncode == 0, done.stderr
    assert "not predicted: Networks and cases on pixels take supports at zero" in done.stdout
    assert "1 unit of the grid is 333.333 of the drawing" in done.stdout
    field, domain = arrays("w")["field"][0], arrays("w")["domain"]
    rows, columns = np.nonzero(domain)
    x = (columns + 0.5) / domain.shape[1] / 0.003 - 50 / 3
    assert field[rows, columns] == pytest.approx(20 + 60 * x / 300, rel=1e-9)
    # 45 · 60 / 300 flows through each of 200 mm.
    assert total(done.stdout, "dirichlet", "left") == [-1800]
    assert sorted(path.name for path in Path("w").iterdir()) == ["solution.npz", "solution.png"]


def test_what_flows_in_leaves_by_exchange(solve, wall):
    done = solve("--geometry", wall, "--flux", "left=3", "--convection", "right=0.5:10", "--out", "w")
    assert done.returncode == 0, done.stderr
    # 3 = 0.5 (U − 10) at the right, and 3 = dU/dx on the way.
    assert arrays("w")["field"].max() == pytest.approx(16 + 3 * (300 - 300 / 64), rel=0.02)
    assert total(done.stdout, "flux", "left") == [600]
    assert total(done.stdout, "convection", "right") == [-600]


def test_the_stress_beside_a_round_hole_is_three_times_the_pull_and_it_is_said_where(solve, home):
    # Kirsch's plate, a quarter of it: the hole has a tenth of the width, so 3.03 of the pull instead of 3.
    angles = np.linspace(0, np.pi / 2, 60)
    arc = np.stack([5 * np.sin(angles), 50 - 5 * np.cos(angles)], axis=1)
    quarter = {"outer": [[0, 0], [50, 0], [50, 50], *arc[::-1].tolist()]}
    (home / "quarter.json").write_text(json.dumps(quarter))
    done = solve(
        "--geometry", "quarter.json", "--fix-x", "left", "--fix-y", "bottom", "--force-x", "right=1", "--plane",
        "stress", "--resolution", "128", "--no-distance", problem="elasticity",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = re.search(
        r"largest von Mises stress +(\S+) at pixel centres\s+(\S+) on the boundary: outer, x = (\S+), y = (\S+)",
        done.stdout,
    )
    inside, around, x, y = map(float, found.groups())
    assert around == pytest.approx(3.03, rel=0.04)
    assert inside < around
    assert (x, y) == pytest.approx((0, 45), abs=0.5)


def test_the_range_on_the_boundary_is_that_of_the_values_it_is_held_at(solve, wall):
    done = solve("--geometry", wall, "--dirichlet", "left=20,right=80", "--no-distance", "--out", "w")
    found = re.search(
        r"^U +from (\S+) to (\S+) at pixel centres\s+from (\S+) to (\S+) on the boundary", done.stdout, re.M
    )
    low, high, *held = map(float, found.groups())
    assert held == [20, 80]
    assert 20 < low < high < 80


@pytest.mark.parametrize(
    ("given", "problem", "reason"),
    [
        (["--dirichlet", "left=20"], "poisson", "only: no values, fluxes or convection on parts of the boundary"),
        (["--dirichlet", "left", "--source", "1", "--reaction", "1"], "poisson", "take a case's own reaction."),
        (["--dirichlet", "left", "--source", "1", "--velocity", "1,0"], "poisson", "know only the numbers they were"),
        (["--plane", "stress"], "elasticity", "paper conventions mean plane strain."),
    ],
)
def test_a_note_says_why_there_is_no_prediction_and_does_not_ask_for_what_is_printed(
    solve, wall, given, problem, reason
):
    done = solve("--geometry", wall, *given, "--no-distance", problem=problem)
    assert done.returncode == 0, done.stderr
    (note,) = (line for line in done.stdout.splitlines() if "not predicted: " in line)
    assert reason in note
    assert "solve_exact" not in done.stdout
    refused = solve("--geometry", wall, *given, "--no-exact", problem=problem)
    assert refused.stderr.strip().endswith(". Leave out --no-exact.")


@pytest.mark.parametrize(
    ("given", "problem", "equation"),
    [
        (["--dirichlet", "left"], "poisson", "−ΔU = f"),
        (["--dirichlet", "left=20", "--conductivity", "45"], "poisson", "−κ ΔU = f"),
        (["--dirichlet", "left", "--source", "1", "--conductivity", "2"], "poisson", "−κ ΔU = f"),
        (["--dirichlet", "left=20", "--conductivity", "45 + x"], "poisson", "−div(κ ∇U) = f"),
        (["--dirichlet", "left=20", "--density", "2"], "heat", "ρ ∂U/∂t = ΔU + f"),
    ],
)
def test_the_equation_that_is_printed_is_the_one_that_is_solved(solve, wall, given, problem, equation):
    done = solve("--geometry", wall, *given, "--no-distance", problem=problem)
    assert done.returncode == 0, done.stderr
    (shown,) = re.findall(rf"^problem +{problem}: (.*\S)", done.stdout, re.MULTILINE)
    assert shown == equation


def test_other_units_and_moduli_are_predicted_where_the_equation_scales_with_them(solve, wall):
    plain = solve("--geometry", wall, "--dirichlet", "left", "--source", "1", "--conductivity", "2", "--out", "a")
    assert plain.returncode == 0, plain.stderr
    assert "predicted" in plain.stdout
    exact = disol.solve_exact(
        disol.read_case("poisson", WALL, dirichlet="left", source=1, conductivity=2, resolution=24)
    )
    assert load_arrays(Path("a/true-boundary.npz"))["field"] == pytest.approx(exact.field, rel=1e-12)
    # −2 U'' = 1 over 300 mm: 300² / 4; the pixels that networks know hold two columns of nodes.
    assert arrays("a")["exact"].max() == pytest.approx(300**2 / 4, rel=0.15)
    soft = solve(
        "--geometry", wall, "--fix-x", "left", "--fix-y", "left", "--force-x", "right=2", "--young", "10",
        "--out", "b", problem="elasticity",
    )  # fmt: skip
    assert soft.returncode == 0, soft.stderr
    assert total(soft.stdout, "force_x", "right") == [400, 0]
    assert {"von-mises.png", "true-boundary.npz"} <= {path.name for path in Path("b").iterdir()}


def test_a_bracket_in_millimetres_becomes_a_picture_of_stresses_and_a_mesh(solve, home):
    bracket = {"outer": [[0, 0], [60, 0], [60, 20], [20, 20], [20, 60], [0, 60]]}
    (home / "bracket.json").write_text(json.dumps(bracket))
    done = solve(
        "--geometry", "bracket.json", "--fix-x", "bottom", "--fix-y", "bottom", "--force-y", "right=2", "--young",
        "210e3", "--plane", "stress", "--save", "bracket.vtu", "--save", "bracket.npz", "--out", "b",
        problem="elasticity",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (home / "b" / "von-mises.png").stat().st_size > 0
    vtk = pytest.importorskip("vtk")
    reader = vtk.vtkXMLUnstructuredGridReader()
    reader.SetFileName("bracket.vtu")
    reader.Update()
    grid = reader.GetOutput()
    assert grid.GetPointData().GetArray("u").GetNumberOfComponents() == 3
    assert grid.GetBounds()[:4] == pytest.approx((0, 60, 0, 60), abs=1e-9)
    again = solve("--geometry", "bracket.json", "--save", "bracket.vtu", "--out", "c", problem="elasticity")
    assert again.returncode == 2
    assert "bracket.vtu exists already" in again.stderr
    assert not (home / "c").exists()


def test_heat_in_materials_is_animated_without_a_network(solve, wall):
    done = solve(
        "--geometry", wall, "--dirichlet", "left=100", "--initial", "20", "--conductivity", "45", "--density", "1e-3",
        "--capacity", "1", "--time", "2,8", "--out", "h", problem="heat",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert {path.name for path in Path("h").iterdir()} == {"solution.npz", "solution.png", "solution.gif"}
    assert 20 < arrays("h")["field"][0].max() <= 100.5


def test_heat_with_a_step_of_its_own_is_animated_at_its_multiples(solve, wall):
    material = ["--conductivity", "45", "--density", "1e-3", "--capacity", "1", "--initial", "20"]
    for number, (times, step) in enumerate((("60,600", "10"), ("0.3,0.5", "0.1"), ("36000", "1200"))):
        done = solve(
            "--geometry", wall, *material, "--dirichlet", "left", "--time", times, "--time-step", step,
            "--out", f"h{number}", "--no-distance", problem="heat",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert Path(f"h{number}/solution.gif").stat().st_size > 0
        assert arrays(f"h{number}")["times"].tolist() == [float(time) for time in times.split(",")]
    refused = solve("--geometry", wall, *material, "--time", "15", "--time-step", "10", problem="heat")
    assert "--time must be multiples of the time step, 10 s, got [15.0]" in refused.stderr


def test_what_is_given_on_the_boundary_is_all_that_holds_and_loads_an_outline(solve, wall):
    pushed = solve(
        "--geometry", wall, "--fix-x", "left,right=0.1", "--fix-y", "left", "--out", "p", problem="elasticity"
    )
    assert pushed.returncode == 0, pushed.stderr
    # Loads that nobody has given are not made up: what the left end takes is what the right end gives.
    assert total(pushed.stdout, "fix_x", "left")[0] == -total(pushed.stdout, "fix_x", "right")[0]
    assert "default" not in pushed.stdout
    loose = solve("--geometry", wall, "--flux", "left=3")
    assert loose.returncode == 2
    assert "x = 150, y = 100 is not held against a constant" in loose.stderr


def test_a_preview_shows_the_outline_and_solves_nothing(solve, wall, monkeypatch):
    monkeypatch.setattr("disol.solutions.solve.solve_case", None)
    done = solve("--geometry", wall, "--preview", "--out", "p")
    assert done.returncode == 0, done.stderr
    assert [path.name for path in Path("p").iterdir()] == ["preview.png"]


def test_a_preview_of_a_shape_that_ends_in_a_point_leaves_out_that_side(solve):
    done = solve("--geometry", "arrow+hole", "--preview", "--out", "p")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--dirichlet", "left=20,left=30"], "The part 'left' is given twice"),
        (["--dirichlet", "left=20", "--flux", "left=3"], "share a piece of the boundary"),
        (["--dirichlet", "left=1e308", "--flux", "right=1"], "The load overflows in double precision"),
        (["--dirichlet", "left=1/(y - y)"], "dirichlet on 'left' holds NaN or infinite values"),
        (["--dirichlet", "inside=20"], "There is no part 'inside'"),
        (["--flux", "left"], "flux on 'left' has no value"),
        (["--convection", "left=3", "--dirichlet", "right"], "as text H:OUTSIDE"),
        (["--conductivity", "-3"], "--conductivity must be positive"),
        (["--conductivity", "steel"], "There is no field 'steel'"),
        (["--young", "3"], "poisson has no --young"),
        (["--size", "3"], "Leave out --size"),
        (["--flux", "left=3", "--dirichlet", "near:5,left=2"], "near:0.2,0.7"),
        (["--dirichlet", "left=20", "--no-exact"], "Leave out --no-exact"),
        (["--save", "wall.stl"], "--save must end in .vtu"),
        (["--save", "wall.pvd"], "Save it as .vtu"),
    ],
)
def test_what_cannot_be_stated_is_one_line_and_writes_nothing(fails, wall, arguments, message):
    assert message in fails("--geometry", wall, *arguments)


def test_a_series_does_not_go_where_the_solution_goes(solve, wall):
    done = solve("--geometry", wall, "--dirichlet", "left=100", "--save", "h.pvd", "--out", "h", problem="heat")
    assert done.returncode == 2
    assert "go into h, which is --out" in done.stderr
    assert not Path("h").exists()
