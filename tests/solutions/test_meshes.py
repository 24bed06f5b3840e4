"""Files for ParaView follow the true boundary: their cells cover the domain once, their points have its values."""

import base64
from xml.etree import ElementTree

import numpy as np
import pytest

import disol
from disol.fem import Dirichlet, Form, diffusive, discretise
from disol.geometry.cell_polygons import cell_polygons
from disol.geometry.cut_cells import cut
from disol.geometry.region import Arc, Region
from disol.grid import Grid
from disol.solutions.vtk import Mesh

DTYPES = {"Float64": "<f8", "Int64": "<i8", "UInt8": "u1"}
PHYSICAL = {"conventions": "physical"}


def read_vtu(path):
    """Read the arrays of a file, those of points, of cells and of the mesh by themselves."""
    found = {}
    for kind in ("PointData", "CellData", "Points", "Cells"):
        arrays = {}
        for element in ElementTree.parse(path).getroot().findall(f"UnstructuredGrid/Piece/{kind}/DataArray"):
            values = np.frombuffer(base64.b64decode(element.text)[8:], DTYPES[element.attrib["type"]])
            count = int(element.attrib.get("NumberOfComponents", 1))
            arrays[element.attrib["Name"]] = values.reshape(-1, count) if count > 1 else values
        found[kind] = arrays
    return found


def areas(points, corners, ends):
    """Areas of polygons, positive of those that run counter-clockwise where y points upwards."""
    found = []
    for polygon in np.split(points[corners], ends[:-1]):
        (x, y), (next_x, next_y) = polygon.T[:2], np.roll(polygon, -1, axis=0).T[:2]
        found.append(0.5 * (x @ next_y - y @ next_x))
    return np.array(found)


def comb():
    """Teeth whose gaps and tips are thinner than a pixel, so that pixels have several components."""
    tips = np.stack([np.linspace(0.15, 0.85, 29), np.tile([0.2, 0.8], 15)[:29]], axis=1)
    return Region.from_polygons([np.concatenate([tips, [[0.9, 0.9], [0.1, 0.9]]])])


def sieve():
    """Holes inside one pixel each, two of them in one, and one across a side."""
    angle = 2 * np.pi * np.arange(12) / 12
    circle = 0.01 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    holes = [circle + [0.53 + step, 0.53] for step in (0, 0.025, 0.1, 0.2)]
    return Region.from_polygons([[[0.1, 0.1], [0.9, 0.1], [0.9, 0.9], [0.1, 0.9]], *holes])


def staircase():
    mask = np.zeros((16, 16), dtype=bool)
    mask[2:10, 3:14], mask[4:6, 5:8], mask[10:12, 14] = True, False, True  # which touches at a corner
    return Region.from_mask(mask)


@pytest.mark.parametrize("region", [comb(), sieve(), staircase()])
def test_polygons_cover_a_domain_once_whatever_its_topology(region):
    cells = cut(region, Grid(16, 16))
    found = cell_polygons(cells, ())
    size = areas(found.vertices, found.numbers, found.ends)
    assert size.min() > 0
    assert size.sum() == pytest.approx(256 * sum(loop.signed_area for loop in region.loops), rel=1e-10)
    corners = np.diff(found.ends, prepend=0)
    assert set(corners) <= {3, 4}
    assert (size[corners == 4] == 1).all()


@pytest.mark.parametrize("region", [comb(), sieve()])
def test_points_have_the_values_of_the_domain_around_them(region):
    outer = [Dirichlet(Arc(number), lambda x, y: 2 * x - y) for number in range(len(region.loops))]
    field = discretise(region, Grid(16, 16), Form(diffusive(1.0)), outer).solve()
    found = cell_polygons(field.cells, [each.arc for each in outer])
    points, types = np.zeros((len(found.vertices), 3)), np.zeros(len(found.ends))
    mesh = Mesh(points, found.numbers, found.ends, types, found.pixel.T, polygons=found)
    x, y = found.vertices.T / 16
    assert mesh.at_points(field)[0] == pytest.approx(2 * x - y, abs=1e-10)


def test_a_wall_thinner_than_a_pixel_parts_the_points_on_its_sides():
    slit = [[0.1, 0.1], [0.51, 0.1], [0.51, 0.7], [0.52, 0.7], [0.52, 0.1], [0.9, 0.1], [0.9, 0.9], [0.1, 0.9]]
    cells = cut(Region.from_polygons([slit]), Grid(16, 16))
    found = cell_polygons(cells, ())
    above = np.isclose(found.vertices[:, 1], 4) & (np.abs(found.vertices[:, 0] - 8.24) < 0.2)
    assert len(found.vertices[above]) == 2  # one on each side of the slit, where it crosses a grid line
    assert len(set(found.element[above])) == 2


@pytest.mark.parametrize("problem", ["poisson", "elasticity"])
def test_a_file_of_a_curved_domain_has_its_area_and_values(problem, tmp_path):
    solution = disol.solve_exact(disol.draw(problem, 5, resolution=32, shift="topology", **PHYSICAL))
    stored = read_vtu(solution.save(tmp_path / "case.vtu"))
    points, cells = stored["Points"]["points"], stored["Cells"]
    size = areas(points, cells["connectivity"], cells["offsets"])
    region = sum(loop.signed_area for loop in solution.case.region.loops)
    assert size.min() > 0
    assert size.sum() == pytest.approx(region, rel=1e-10)
    assert set(cells["types"]) == {5, 9}
    inside = solution.at(np.stack([points[:, 0], 1 - points[:, 1]], axis=1))
    assert np.isfinite(inside).all()
    values = stored["PointData"]["u"]
    expected = inside[0] if problem == "poisson" else np.stack([inside[0], -inside[1], 0 * inside[0]], axis=1)
    # Where slivers were merged a point belongs to two functions, which differ a little.
    assert np.quantile(np.abs(values - expected), 0.95) < 1e-12
    assert np.abs(values - expected).max() < 0.02 * np.abs(values).max()
    derived = {
        "poisson": {"flux", "dirichlet", "source"},
        "elasticity": {"stress", "von Mises", "force", "fix_x", "fix_y"},
    }
    assert stored["CellData"].keys() == derived[problem]
    assert all(len(values) == len(size) for values in stored["CellData"].values())


def test_coefficients_that_change_are_cell_data(tmp_path):
    case = disol.draw("poisson", 5, resolution=32, **PHYSICAL)
    tensor = np.array([[2.0, 0.5], [0.5, 1.0]])[:, :, None, None] * np.ones((32, 32))
    whirl = np.stack([np.full((32, 32), 3.0), np.full((32, 32), 4.0)])
    solution = disol.solve_exact(case, diffusion=tensor, velocity=whirl, reaction=lambda x, y: 1 + x)
    stored = read_vtu(solution.save(tmp_path / "case.vtu"))["CellData"]
    assert (stored["velocity"] == [3, -4, 0]).all()
    assert (stored["diffusion"] == [2, 1, 0, -0.5, 0, 0]).all()
    assert 1 < stored["reaction"].min() < stored["reaction"].max() < 2


def test_a_series_of_a_curved_domain_has_a_file_for_each_time(tmp_path):
    solution = disol.solve_exact(disol.draw("heat", 3, resolution=32, **PHYSICAL), times=[0, 2, 20])
    listed = ElementTree.parse(solution.save(tmp_path / "heat.pvd")).getroot().findall("Collection/DataSet")
    assert [each.attrib["timestep"] for each in listed] == ["0", "2", "20"]
    frames = [read_vtu(tmp_path / each.attrib["file"]) for each in listed]
    assert all(frame["CellData"].keys() == {"flux", "dirichlet", "source", "initial"} for frame in frames)
    x, y = frames[0]["Points"]["points"][:, :2].T
    start = disol.solve_exact(solution.case, times=[2]).case.terms["initial"](x, 1 - y)
    assert np.median(np.abs(frames[0]["PointData"]["u"] - start)) < 1e-3
    assert np.abs(frames[2]["PointData"]["u"] - solution.at(np.stack([x, 1 - y], axis=1))[2, 0]).max() < 0.01


def test_a_series_that_cannot_be_listed_is_not_written(tmp_path):
    solution = disol.solve_exact(disol.draw("heat", 3, resolution=16, **PHYSICAL), times=[2])
    (tmp_path / "heat.pvd").mkdir()
    with pytest.raises(disol.DisolError, match=r"Cannot write .*heat\.pvd: Is a directory"):
        solution.save(tmp_path / "heat.pvd")
    assert [path.name for path in tmp_path.iterdir()] == ["heat.pvd"]


def read_by_vtk(path):
    """Read a file as ParaView does."""
    reader = pytest.importorskip("vtk").vtkXMLUnstructuredGridReader()
    reader.SetFileName(str(path))
    reader.Update()
    return reader.GetOutput()


def by_name(data):
    """Return the arrays that VTK has for points or cells."""
    support = pytest.importorskip("vtk.util.numpy_support")
    return {data.GetArrayName(at): support.vtk_to_numpy(data.GetArray(at)) for at in range(data.GetNumberOfArrays())}


def linear_solution():
    """Solve for 2x − y in a gear with a hole, on a grid where no sliver is handed to a neighbour."""
    values = {"outer": "2*x - y", "hole1": "2*x - y"}
    return disol.solve_exact(disol.read_case("poisson", "star+hole", resolution=40, dirichlet=values, source=0))


def test_vtk_finds_the_area_of_a_domain_and_all_arrays(tmp_path):
    vtk = pytest.importorskip("vtk")
    solution = disol.solve_exact(disol.draw("elasticity", 5, resolution=32, shift="topology", **PHYSICAL))
    grid = read_by_vtk(solution.save(tmp_path / "case.vtu"))
    assert by_name(grid.GetPointData())["u"].shape == (grid.GetNumberOfPoints(), 3)
    assert by_name(grid.GetCellData())["stress"].shape == (grid.GetNumberOfCells(), 6)
    sized = vtk.vtkCellSizeFilter()
    sized.SetInputData(grid)
    sized.Update()
    size = by_name(sized.GetOutput().GetCellData())["Area"]
    assert size.sum() == pytest.approx(sum(loop.signed_area for loop in solution.case.region.loops), rel=1e-10)


def test_vtk_finds_a_linear_solution_at_every_point_and_its_integral(tmp_path):
    vtk = pytest.importorskip("vtk")
    solution = linear_solution()
    grid = read_by_vtk(solution.save(tmp_path / "linear.vtu"))
    x, y = np.array([grid.GetPoint(number)[:2] for number in range(grid.GetNumberOfPoints())]).T
    assert by_name(grid.GetPointData())["u"] == pytest.approx(2 * x - (1 - y), abs=1e-9)
    assert np.ptp(by_name(grid.GetCellData())["flux"] - [-2, -1, 0]) < 1e-9
    integrated = vtk.vtkIntegrateAttributes()
    integrated.SetInputData(grid)
    integrated.Update()
    total = 0
    for loop in solution.case.region.loops:  # a linear field over triangles from the origin to the sides of a loop
        start, end = loop.points, np.roll(loop.points, -1, axis=0)
        total += (start[:, 0] * end[:, 1] - start[:, 1] * end[:, 0]) @ (start + end) @ [2, -1] / 6
    assert by_name(integrated.GetOutput().GetPointData())["u"] == pytest.approx([total], rel=1e-9)


def test_vtk_reads_every_file_of_a_series(tmp_path):
    solution = disol.solve_exact(disol.draw("heat", 3, resolution=32, **PHYSICAL), times=[2, 20])
    listed = ElementTree.parse(solution.save(tmp_path / "heat.pvd")).getroot().findall("Collection/DataSet")
    for frame, each in enumerate(listed):
        grid = read_by_vtk(tmp_path / each.attrib["file"])
        points = np.array([grid.GetPoint(number)[:2] for number in range(grid.GetNumberOfPoints())])
        inside = solution.at(points * [1, -1] + [0, 1])[frame, 0]
        difference = np.abs(by_name(grid.GetPointData())["u"] - inside)
        # Where slivers were merged a point belongs to two functions, which differ a little.
        assert np.quantile(difference, 0.95) < 1e-12
        assert difference.max() < 0.02 * np.abs(inside).max()
