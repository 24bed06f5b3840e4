"""Verifications keep their numbers in files, and ParaView's are upright."""

import base64
from xml.etree import ElementTree

import numpy as np
import pytest
from exact_engine import exact_model, own_terms

from disol.grid import node_means, nodes_touching
from disol.solutions import vtk

DTYPES = {"Float64": "<f8", "Int64": "<i8", "UInt8": "u1"}


pytestmark = pytest.mark.filterwarnings("ignore:The network was trained up to 20 s")


def verify(tmp_path, problem):
    return exact_model(tmp_path / "model", problem, resolution=16).verify(**own_terms(problem, resolution=16))


def read_vtu(path):
    """Read every array of a file back, by name."""
    root = ElementTree.parse(path).getroot()
    assert root.attrib["type"] == "UnstructuredGrid"
    arrays = {}
    for element in root.iter("DataArray"):
        content = base64.b64decode(element.text)
        assert int.from_bytes(content[:8], "little") == len(content) - 8
        values = np.frombuffer(content[8:], DTYPES[element.attrib["type"]])
        components = int(element.attrib.get("NumberOfComponents", 1))
        arrays[element.attrib["Name"]] = values.reshape(-1, components) if components > 1 else values
    piece = root.find("UnstructuredGrid/Piece")
    assert int(piece.attrib["NumberOfPoints"]) == len(arrays["points"])
    assert int(piece.attrib["NumberOfCells"]) == len(arrays["types"]) == len(arrays["offsets"])
    return arrays


@pytest.mark.parametrize("problem", ["poisson", "elasticity", "heat"])
def test_npz_files_hold_all_of_a_solution(tmp_path, problem):
    verified = verify(tmp_path, problem)
    with np.load(verified.save(tmp_path / "out" / "case.npz")) as file:
        stored = dict(file)
    for name in ("pattern", "amplitude", "field", "domain"):
        assert np.array_equal(stored[name], getattr(verified.prediction, name))
    assert np.array_equal(stored["exact"], verified.exact.field)
    assert np.array_equal(stored["error"], verified.error)
    assert stored["solved_on"] == verified.exact.device
    assert np.array_equal(stored["inputs"], verified.case.inputs)
    assert tuple(stored["channels"]) == verified.case.channels
    assert tuple(stored["fields"]) == verified.exact.fields
    assert tuple(stored["times"]) == (verified.case.times or ())
    assert (stored["problem"], stored["conventions"]) == (problem, "paper")


def test_cells_of_a_vtu_file_are_the_pixels_of_the_domain(tmp_path):
    verified = verify(tmp_path, "poisson")
    arrays = read_vtu(verified.save(tmp_path / "case.vtu"))
    rows, columns = np.nonzero(verified.case.domain)
    corners = arrays["points"][arrays["connectivity"].reshape(-1, 4)]
    centres = np.stack([(columns + 0.5) / 16, 1 - (rows + 0.5) / 16, np.zeros(len(rows))], axis=1)
    assert np.allclose(corners.mean(axis=1), centres)
    # The cross product of two sides of a cell that runs counter-clockwise is its area.
    sides = np.diff(corners, axis=1)[..., :2]
    assert np.allclose(sides[:, 0, 0] * sides[:, 1, 1] - sides[:, 0, 1] * sides[:, 1, 0], 1 / 256)
    assert (arrays["types"] == 9).all()
    assert np.array_equal(arrays["offsets"], 4 * np.arange(1, len(rows) + 1))


def test_data_of_a_vtu_file_are_unknowns_at_points_and_markers_sources_and_fluxes_of_cells(tmp_path):
    verified = verify(tmp_path, "poisson")
    arrays = read_vtu(verified.save(tmp_path / "case.vtu"))
    predicted, exact = arrays["u"], arrays["exact u"]
    rows, columns = np.nonzero(nodes_touching(verified.case.domain))
    assert np.array_equal(exact, verified.exact.nodes[0, rows, columns])
    assert np.array_equal(predicted, node_means(verified.prediction.field[0], verified.case.domain)[rows, columns])
    assert np.array_equal(arrays["error u"], np.abs(predicted - exact))
    for position, name in ((1, "dirichlet"), (2, "source")):
        assert np.array_equal(arrays[name], verified.case.inputs[position][verified.case.domain].astype(float))
    across, down = verified.prediction.flux[:, verified.case.domain]
    assert np.array_equal(arrays["flux"], np.stack([across, -down, 0 * down], axis=1))


def test_vectors_of_a_vtu_file_point_upwards_where_arrays_count_downwards(tmp_path):
    verified = verify(tmp_path, "elasticity")
    arrays = read_vtu(verified.save(tmp_path / "case.vtu"))
    rows, columns = np.nonzero(nodes_touching(verified.case.domain))
    exact_x, exact_y = verified.exact.nodes[:, rows, columns]
    assert np.array_equal(arrays["exact u"], np.stack([exact_x, -exact_y, 0 * exact_x], axis=1))
    assert np.array_equal(arrays["error u_y"], np.abs(-arrays["u"][:, 1] - exact_y))
    force_x, force_y = verified.case.inputs[3:, verified.case.domain].astype(float)
    assert np.array_equal(arrays["force"], np.stack([force_x, -force_y, 0 * force_x], axis=1))
    assert {"fix_x", "fix_y", "von Mises"} < arrays.keys()
    xx, yy, xy = verified.prediction.stress[:, verified.case.domain]
    zz = verified.case.problem.poisson_ratio * (xx + yy)
    assert np.array_equal(arrays["stress"], np.stack([xx, yy, zz, -xy, 0 * xx, 0 * xx], axis=1))


def test_a_vtu_file_of_heat_has_an_array_for_each_time_and_a_series_a_file(tmp_path):
    verified = verify(tmp_path, "heat")
    arrays = read_vtu(verified.save(tmp_path / "case.vtu"))
    rows, columns = np.nonzero(nodes_touching(verified.case.domain))
    verified.save(tmp_path / "case.pvd")
    listed = ElementTree.parse(verified.save(tmp_path / "case.pvd")).getroot().findall("Collection/DataSet")  # again
    assert [float(each.attrib["timestep"]) for each in listed] == [0, 2, 14, 26]
    for each, frame, time in zip(listed, verified.exact.nodes, (0, 2, 14, 26), strict=True):
        assert np.array_equal(arrays[f"exact u at {time} s"], frame[0, rows, columns])
        alone = read_vtu(tmp_path / each.attrib["file"])
        assert np.array_equal(alone["exact u"], frame[0, rows, columns])
        assert np.array_equal(alone["flux"], arrays[f"flux at {time} s"])
    assert "time" not in arrays
    assert sorted(path.name for path in tmp_path.iterdir()) == ["case", "case.pvd", "case.vtu", "model"]


def test_of_a_series_that_cannot_be_written_nothing_stays(tmp_path, monkeypatch):
    verified = verify(tmp_path, "heat")
    written, count = vtk.write_vtu, []

    def fail_at_the_third(*given):
        count.append(1)
        if len(count) == 3:
            raise OSError(28, "No space left on device")
        written(*given)

    monkeypatch.setattr(vtk, "write_vtu", fail_at_the_third)
    with pytest.raises(ValueError, match=r"Cannot write .*: No space left on device"):
        verified.save(tmp_path / "case.pvd")
    (tmp_path / "case").mkdir()
    (tmp_path / "case" / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"case exists and holds more than \.vtu files"):
        verified.save(tmp_path / "case.pvd")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["case", "model"]
    with pytest.raises(ValueError, match=r"series of times, poisson has none\. Save it as \.vtu"):
        verify(tmp_path / "steady", "poisson").save(tmp_path / "case.pvd")


def test_a_picture_is_that_of_plot(tmp_path):
    verified = verify(tmp_path, "poisson")
    for saved, name in ((verified, "both.png"), (verified.exact, "exact.PNG")):
        assert saved.save(tmp_path / name).read_bytes().startswith(b"\x89PNG")
    points = [[0.5, 0.5], [0.4, 0.5]]
    assert np.array_equal(verified.at(points), verified.prediction.at(points), equal_nan=True)


def test_other_endings_and_batches_as_vtu_are_one_clear_error(tmp_path):
    verified = verify(tmp_path, "poisson")
    terms = own_terms("poisson", resolution=16)
    batch = exact_model(tmp_path / "model", "poisson", resolution=16).verify(
        **terms | {"source": np.stack([terms["source"]] * 2)}
    )
    with pytest.raises(ValueError, match=r"saved as .npz, .vtu, .pvd or .png, got 'case.csv'"):
        verified.save(tmp_path / "case.csv")
    with pytest.raises(ValueError, match=r"holds one case, got a batch of 2. Save solution\[0\]"):
        batch.save(tmp_path / "case.vtu")
    assert not list(tmp_path.glob("case*"))
    with np.load(batch.save(tmp_path / "cases.npz")) as file:
        assert file["field"].shape == (2, 1, 16, 16)


def test_a_batch_is_indexed_by_case(tmp_path):
    verified = verify(tmp_path, "poisson")
    with pytest.raises(TypeError, match="one case, not a batch"):
        verified[0]
    terms = own_terms("poisson", resolution=16)
    model = exact_model(tmp_path / "model", "poisson", resolution=16)
    batch = model.verify(**terms | {"source": np.stack([terms["source"], 2 * terms["source"]])})
    assert batch[-1].prediction.amplitude == pytest.approx(2 * batch[0].prediction.amplitude)
    assert len(batch[1:]) == 1
    assert batch[1:][0].prediction.amplitude == batch[1].prediction.amplitude
    assert np.array_equal(batch[1:].prediction.field[0], batch[1].prediction.field)
    with pytest.raises(IndexError, match="cases 0 to 1, got 2"):
        batch[2]
    with pytest.raises(TypeError, match=r"by a number or a slice, got \[0, 1\]"):
        batch.case[[0, 1]]
    with pytest.raises(TypeError, match="one case, not a batch"):
        verified[1:]


@pytest.mark.parametrize("name", ["solution.npz", "solution.vtu"])
def test_an_exact_solution_is_saved_by_itself(tmp_path, name):
    solution = verify(tmp_path, "poisson").exact
    written = solution.save(tmp_path / name)
    if name == "solution.npz":
        with np.load(written) as file:
            stored = dict(file)
        assert np.array_equal(stored["nodes"], solution.nodes)
        assert np.array_equal(stored["field"], solution.field)
    else:
        rows, columns = np.nonzero(nodes_touching(solution.domain))
        assert np.array_equal(read_vtu(written)["u"], solution.nodes[0, rows, columns])


def test_a_verification_counts_as_true(tmp_path):
    assert verify(tmp_path, "poisson")


@pytest.mark.parametrize("name", ["CASE.NPZ", "case.Vtu"])
def test_endings_may_be_written_large(tmp_path, name):
    verified = verify(tmp_path, "poisson")
    written = verified.save(tmp_path / "out" / name)
    assert list((tmp_path / "out").iterdir()) == [written]
    if name == "CASE.NPZ":
        with np.load(written) as file:
            assert np.array_equal(file["field"], verified.prediction.field)
    else:
        assert "u" in read_vtu(written)
