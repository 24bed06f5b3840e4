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
    assert "not predicted: Networks know supports at zero" in done.stdout
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
        (["--dirichlet", "inside=20"], "There is no part 'inside'"),
        (["--flux", "left"], "flux on 'left' has no value"),
        (["--convection", "left=3", "--dirichlet", "right"], "as text H:OUTSIDE"),
        (["--conductivity", "-3"], "--conductivity must be positive"),
        (["--conductivity", "steel"], "'steel' is not allowed"),
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
