"""Solutions as `.vtu` files, the XML format of unstructured grids that ParaView reads.

Every pixel of the domain is one square cell with its values as cell data. VTK's y axis points upwards, arrays count
rows downwards: a pixel of row r lies at y = 1 − (r + ½) h, so that ParaView shows the picture as it is plotted, and the
y components of vectors change their sign. Two arrays called `u_x` and `u_y` become one vector `u`. A transient solution
has one array for each of its times.
"""

import base64
from collections.abc import Collection, Mapping
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
from jaxtyping import Bool, Float, Shaped

from disol.grid import CORNERS, Grid, nodes_touching

QUADRILATERAL = 9  # VTK's number for a cell with four corners
TYPES = {"f8": "Float64", "i8": "Int64", "u1": "UInt8"}


def write_vtu(
    path: Path,
    domain: Bool[np.ndarray, "height width"],
    cell_data: Mapping[str, Float[np.ndarray, "height width"]],
    directed: Collection[str] = (),
) -> None:
    """Write values per pixel on the pixels of the domain; those called directed are components of vectors."""
    points, cells = mesh(domain)
    root = ElementTree.Element(
        "VTKFile", type="UnstructuredGrid", version="1.0", byte_order="LittleEndian", header_type="UInt64"
    )
    piece = ElementTree.SubElement(
        ElementTree.SubElement(root, "UnstructuredGrid"),
        "Piece",
        NumberOfPoints=str(len(points)),
        NumberOfCells=str(len(cells)),
    )
    add_array(ElementTree.SubElement(piece, "Points"), "points", points)
    topology = ElementTree.SubElement(piece, "Cells")
    add_array(topology, "connectivity", cells.reshape(-1))
    add_array(topology, "offsets", 4 * np.arange(1, len(cells) + 1))
    add_array(topology, "types", np.full(len(cells), QUADRILATERAL, dtype=np.uint8))
    data = ElementTree.SubElement(piece, "CellData")
    for name, values in join_vectors({name: values[domain] for name, values in cell_data.items()}, directed).items():
        add_array(data, name, values)
    ElementTree.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)


def mesh(
    domain: Bool[np.ndarray, "height width"],
) -> tuple[Float[np.ndarray, "point 3"], Shaped[np.ndarray, "cell 4"]]:
    """Return the positions of the nodes of a domain, and the nodes of each of its pixels counter-clockwise."""
    active = nodes_touching(domain)
    numbers = np.cumsum(active).reshape(active.shape) - 1
    rows, columns = np.nonzero(active)
    h = Grid(*domain.shape).h
    points = np.stack([h * columns, 1 - h * rows, np.zeros(len(rows))], axis=1)
    pixel_rows, pixel_columns = np.nonzero(domain)
    # Corners run clockwise with rows counted downwards, so their reverse is counter-clockwise on the screen.
    corners = [numbers[pixel_rows + row, pixel_columns + column] for row, column in reversed(CORNERS)]
    return points, np.stack(corners, axis=1)


def join_vectors(
    arrays: Mapping[str, Float[np.ndarray, " cell"]], directed: Collection[str]
) -> dict[str, Float[np.ndarray, "cell *component"]]:
    """Join directed `u_x` and `u_y` into vectors `u` of three components, y upwards."""
    joined = {}
    for name, values in arrays.items():
        base, _, axis = name.rpartition("_")
        partner = f"{base}_{'y' if axis == 'x' else 'x'}"
        if name not in directed or axis not in ("x", "y") or partner not in arrays:
            joined[name] = values
        elif axis == "x":
            joined[base] = np.stack([values, -arrays[partner], np.zeros_like(values)], axis=1)
    return joined


def add_array(parent: ElementTree.Element, name: str, values: Shaped[np.ndarray, "tuple *component"]) -> None:
    """Append a data array: base64 of its length in bytes and its numbers, least significant byte first."""
    stored = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<"))
    attributes = {"type": TYPES[stored.dtype.str[1:]], "Name": name, "format": "binary"}
    if stored.ndim > 1:
        attributes["NumberOfComponents"] = str(stored.shape[1])
    element = ElementTree.SubElement(parent, "DataArray", attributes)
    element.text = base64.b64encode(np.array(stored.nbytes, dtype="<u8").tobytes() + stored.tobytes()).decode()
