"""Solutions as `.vtu` files, the XML format of unstructured grids that ParaView reads, and `.pvd`, a series of them.

On pixels, every pixel of the domain is one square cell. On the true boundary the mesh follows it: whole pixels are
squares, and the domain's part of cut pixels is divided into triangles, since VTK integrates over a polygon as if it
were a fan around its first point, and does not interpolate linearly in it. Unknowns are point data, at points of the
domain and its boundary only; everything else is cell data.

VTK's y axis points upwards, arrays count rows downwards. A drawing whose y points upwards keeps its coordinates; any
other is mirrored, so that a pixel in row r of the grid lies at y = 1 − (r + ½) h and ParaView shows the picture as
plotted. The y components of vectors and the xy components of tensors change sign. Two arrays called `u_x` and `u_y`
become one vector `u`.
"""

import base64
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
from jaxtyping import Float, Int, Shaped

from disol.cases.case import Case
from disol.fem.cut_field import CutField
from disol.fem.cut_forms import corner_functions
from disol.fem.cut_system import CutSolution
from disol.geometry.cell_polygons import Polygons, cell_polygons
from disol.grid import CORNERS, nodes_touching
from disol.problems.coefficients import nearest
from disol.solutions.quantities import DiscreteField

TRIANGLE, QUADRILATERAL = 5, 9  # VTK's numbers for kinds of cells
TYPES = {"f8": "Float64", "i8": "Int64", "u1": "UInt8"}

Arrays = Mapping[str, Float[np.ndarray, "_ ..."]]


@dataclass(frozen=True, eq=False)
class Mesh:
    """Cells, and what is needed to evaluate fields at their points.

    points     positions in space
    corners    point numbers of all cells, counter-clockwise, one cell after the other
    ends       position in `corners` after the last point of each cell
    types      VTK types of the cells
    pixel      row and column of the pixel of each cell; for a cell outside the mask, of the nearest pixel in it
    node       row and column of the node of each point; None on the true boundary
    polygons   the polygons, on the true boundary
    """

    points: Float[np.ndarray, "point 3"]
    corners: Int[np.ndarray, " corner"]
    ends: Int[np.ndarray, " cell"]
    types: Shaped[np.ndarray, " cell"]
    pixel: Int[np.ndarray, "2 cell"]
    node: Int[np.ndarray, "2 point"] | None = None
    polygons: Polygons | None = None

    def at_points(self, field: DiscreteField) -> Float[np.ndarray, "component point"]:
        """Evaluate at the points; on the true boundary with the functions of their elements."""
        if self.polygons is None or not isinstance(field, CutField):
            assert self.node is not None
            return field.values[:, *self.node]
        element = self.polygons.element
        corners = corner_functions(self.polygons.vertices - field.cells.corner[element])[0]
        return np.einsum("pi,pic->cp", corners, field.values[field.cells.nodes[element]])

    def at_cells(self, image: Float[np.ndarray, "*component height width"]) -> Float[np.ndarray, "*component cell"]:
        """Pick the values of the pixels of the cells."""
        return image[..., *self.pixel]


def pixel_mesh(case: Case) -> Mesh:
    """Return the pixels of a mask as cells, and their nodes."""
    domain = case.domain
    active = nodes_touching(domain)
    numbers = np.cumsum(active).reshape(active.shape) - 1
    rows, columns = np.nonzero(active)
    pixel = np.stack(np.nonzero(domain))
    # Corners run clockwise with rows counted downwards, so their reverse is counter-clockwise on the screen.
    corners = np.stack([numbers[pixel[0] + row, pixel[1] + column] for row, column in reversed(CORNERS)], axis=1)
    points = _upright(case, case.grid.h * np.stack([columns, rows], axis=1))
    types = np.full(len(corners), QUADRILATERAL, dtype=np.uint8)
    ends = 4 * np.arange(1, len(corners) + 1)
    return Mesh(points, corners.reshape(-1), ends, types, pixel, np.stack([rows, columns]))


def cut_mesh(case: Case, cut: CutSolution) -> Mesh:
    """Return whole pixels, and triangles in the pixels that the true boundary cuts, as cells."""
    cells = cut.system.cells
    found = cell_polygons(cells, [condition.arc for condition in cut.system.boundary.conditions])
    size = np.diff(found.ends, prepend=0)
    types = np.where(size == 3, TRIANGLE, QUADRILATERAL).astype(np.uint8)
    # Polygons run clockwise on the screen: backwards, the last first, all of them run counter-clockwise.
    pixel = nearest(case.domain)[:, *found.pixel.T][:, ::-1]
    points = _upright(case, cells.grid.h * found.vertices)
    return Mesh(points, found.numbers[::-1], np.cumsum(size[::-1]), types[::-1], pixel, polygons=found)


def _upright(case: Case, points: Float[np.ndarray, "point 2"]) -> Float[np.ndarray, "point 3"]:
    """Map points from the grid to space, with y upwards."""
    x, y = case.to_drawing(points).T
    top, bottom = case.to_drawing(np.array([[0.0, 0.0], [0.0, 1.0]]))[:, 1]
    return np.stack([x, y if bottom < top else top + bottom - y, np.zeros(len(x))], axis=1)


def upward_vector(x: Float[np.ndarray, " _"], y: Float[np.ndarray, " _"]) -> Float[np.ndarray, "_ 3"]:
    """Return vectors in space from components along x and downwards."""
    return np.stack([x, -y, np.zeros_like(x)], axis=1)


def upward_tensor(
    xx: Float[np.ndarray, " _"], yy: Float[np.ndarray, " _"], xy: Float[np.ndarray, " _"], zz: Float[np.ndarray, " _"]
) -> Float[np.ndarray, "_ 6"]:
    """Return symmetric tensors in the order of VTK: xx, yy, zz, xy, yz, xz."""
    none = np.zeros_like(xx)
    return np.stack([xx, yy, zz, -xy, none, none], axis=1)


def join_vectors(
    arrays: Mapping[str, Float[np.ndarray, " _"]], directed: Collection[str]
) -> dict[str, Float[np.ndarray, "_ ..."]]:
    """Join directed `u_x` and `u_y` into vectors `u` of three components, y upwards."""
    joined: dict[str, np.ndarray] = {}
    for name, values in arrays.items():
        base, _, axis = name.rpartition("_")
        partner = f"{base}_{'y' if axis == 'x' else 'x'}"
        if name not in directed or axis not in ("x", "y") or partner not in arrays:
            joined[name] = values
        elif axis == "x":
            joined[base] = upward_vector(values, arrays[partner])
    return joined


def write_vtu(path: Path, mesh: Mesh, point_data: Arrays, cell_data: Arrays) -> None:
    """Write values at points and cells of a mesh."""
    root = ElementTree.Element(
        "VTKFile", type="UnstructuredGrid", version="1.0", byte_order="LittleEndian", header_type="UInt64"
    )
    piece = ElementTree.SubElement(
        ElementTree.SubElement(root, "UnstructuredGrid"),
        "Piece",
        NumberOfPoints=str(len(mesh.points)),
        NumberOfCells=str(len(mesh.ends)),
    )
    for kind, arrays in (("PointData", point_data), ("CellData", cell_data)):
        data = ElementTree.SubElement(piece, kind)
        for name, values in arrays.items():
            add_array(data, name, values)
    add_array(ElementTree.SubElement(piece, "Points"), "points", mesh.points)
    topology = ElementTree.SubElement(piece, "Cells")
    add_array(topology, "connectivity", mesh.corners)
    add_array(topology, "offsets", mesh.ends)
    add_array(topology, "types", mesh.types)
    ElementTree.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)


def write_pvd(path: Path, files: Mapping[float, str]) -> None:
    """Write the list of files of a series, by time."""
    root = ElementTree.Element("VTKFile", type="Collection", version="1.0", byte_order="LittleEndian")
    series = ElementTree.SubElement(root, "Collection")
    for time, file in files.items():
        ElementTree.SubElement(series, "DataSet", timestep=f"{time:.17g}", group="", part="0", file=file)
    ElementTree.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)


def add_array(parent: ElementTree.Element, name: str, values: Shaped[np.ndarray, "tuple *component"]) -> None:
    """Append a data array: base64 of its length in bytes and its numbers, least significant byte first."""
    stored = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<"))
    attributes = {"type": TYPES[stored.dtype.str[1:]], "Name": name, "format": "binary"}
    if stored.ndim > 1:
        attributes["NumberOfComponents"] = str(stored.shape[1])
    element = ElementTree.SubElement(parent, "DataArray", attributes)
    element.text = base64.b64encode(np.array(stored.nbytes, dtype="<u8").tobytes() + stored.tobytes()).decode()
