"""Solutions as files: `.npz` with all arrays, `.vtu` and `.pvd` for ParaView, `.png`; written atomically."""

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from disol._files import as_path, folder_written_whole, require_room, written_whole
from disol.cases.case import Case
from disol.errors import DisolError
from disol.fem.cut_system import CutSolution
from disol.solutions import vtk
from disol.solutions.solution import Solution

ENDINGS = (".npz", ".vtu", ".pvd", ".png")


def save(
    path: str | Path,
    solution: Solution,
    draw: Callable[[], Any],
    exact: Solution | None = None,
    more: Mapping[str, Any] | None = None,
) -> Path:
    """Write a solution, and beside a prediction the exact one, in the format of the file extension.

    draw   function that draws the picture
    more   further arrays for an `.npz` file
    """
    target, case = check_target(path, solution.case), solution.case
    ending = target.suffix.lower()
    if ending == ".pvd":
        return _save_series(target, solution, exact)
    if ending == ".png":
        import_module("disol.viz").save_figure(draw(), target)
        return target
    with written_whole(target) as temporary:
        if ending == ".npz":
            with temporary.open("wb") as file:  # NumPy would change a path that does not end in .npz
                np.savez_compressed(file, **solution.arrays(), **(more or {}))
        else:
            mesh = _mesh(solution)
            suffixes = {number: "" if case.times is None else f" at {time:g} s" for number, time in _frames(solution)}
            points: dict[str, np.ndarray] = {}
            cells = given_data(solution, mesh)
            for number, suffix in suffixes.items():
                points |= {f"{name}{suffix}": each for name, each in point_data(solution, mesh, number, exact).items()}
                cells |= {f"{name}{suffix}": each for name, each in derived_data(solution, mesh, number).items()}
            vtk.write_vtu(temporary, mesh, points, cells)
    return target


def check_target(path: str | Path, case: Case) -> Path:
    """Require a path that the solution of a case can be written to, before it is solved."""
    target = as_path("path", path)
    ending = target.suffix.lower()
    if ending not in ENDINGS:
        raise DisolError(f"A solution is saved as .npz, .vtu, .pvd or .png, got {target.name!r}.")
    if ending in (".vtu", ".pvd") and case.is_batch:
        raise DisolError(
            f"A {ending} file holds one case, got a batch of {len(case)}. Save solution[0], or the batch as .npz."
        )
    if ending == ".pvd":
        if case.times is None:
            raise DisolError(f"A .pvd file is a series of times, {case.problem.name} has none. Save it as .vtu.")
        require_room(folder_of_series(target), ".vtu")
    return target


def folder_of_series(target: Path) -> Path:
    """Return the folder for the files of a series, beside the `.pvd` that lists them."""
    return target.with_suffix("")


def _save_series(target: Path, solution: Solution, exact: Solution | None) -> Path:
    """Write one `.vtu` for each time into a folder beside the `.pvd` that lists them."""
    mesh = _mesh(solution)
    given = given_data(solution, mesh)
    files = {time: f"{target.stem}_{number:04d}.vtu" for number, time in _frames(solution)}
    with written_whole(target) as temporary, folder_written_whole(folder_of_series(target), ".vtu") as folder:
        for number, time in _frames(solution):
            cells = given | derived_data(solution, mesh, number)
            vtk.write_vtu(folder / files[time], mesh, point_data(solution, mesh, number, exact), cells)
        vtk.write_pvd(temporary, {time: f"{target.stem}/{file}" for time, file in files.items()})
    return target


def _frames(solution: Solution) -> list[tuple[int, float]]:
    """Number the times; a steady problem has one."""
    return list(enumerate(solution.times or (0.0,)))


def _mesh(solution: Solution) -> vtk.Mesh:
    if isinstance(solution.cut, CutSolution):
        return vtk.cut_mesh(solution.case, solution.cut)
    return vtk.pixel_mesh(solution.case)


def point_data(
    solution: Solution, mesh: vtk.Mesh, number: int, exact: Solution | None = None
) -> dict[str, Float[np.ndarray, "point ..."]]:
    """Return the unknowns of one frame and, if the exact solution is given, its values and the absolute errors."""
    fields = solution.fields
    found = dict(zip(fields, mesh.at_points(solution.discrete[number]), strict=True))
    if exact is None:
        return vtk.join_vectors(found, fields)
    right = dict(zip(fields, mesh.at_points(exact.discrete[number]), strict=True))
    beside = {f"exact {name}": values for name, values in right.items()}
    errors = {f"error {name}": np.abs(found[name] - right[name]) for name in fields}
    return vtk.join_vectors(found | beside | errors, [*fields, *beside])


def derived_data(solution: Solution, mesh: vtk.Mesh, number: int) -> dict[str, Float[np.ndarray, "cell ..."]]:
    """Return flux, or stress and von Mises stress, of one frame."""
    of_frame = {
        name: mesh.at_cells(values if solution.times is None else values[number])
        for name, values in solution.derived.items()
    }
    found = {}
    if "flux" in of_frame:
        found["flux"] = vtk.upward_vector(*of_frame["flux"])
    if "stress" in of_frame:
        ratio = solution.problem.out_of_plane(solution.case.conventions, solution.case.coefficient_values())
        xx, yy, xy = of_frame["stress"]
        zz = (ratio if np.ndim(ratio) == 0 else mesh.at_cells(ratio)) * (xx + yy)
        found |= {"stress": vtk.upward_tensor(xx, yy, xy, zz), "von Mises": of_frame["von_mises"]}
    return found


def given_data(solution: Solution, mesh: vtk.Mesh) -> dict[str, Float[np.ndarray, "cell ..."]]:
    """Return the data of the case: markers, forces, sources, and coefficients that vary from pixel to pixel."""
    case = solution.case
    given = [term for term in case.problem.terms[1:] if term.kind.storage is not None]
    terms = {term.name: mesh.at_cells(case.channel(term.name).astype(float)) for term in given}
    found = vtk.join_vectors(terms, [term.name for term in given if term.kind.is_directed])
    for name, value in case.coefficient_values().items():
        if value.shape[-2:] != case.grid.pixels:
            continue
        values = mesh.at_cells(value)
        if values.ndim == 2:
            found[name] = vtk.upward_vector(*values)
        elif values.ndim == 3:
            found[name] = vtk.upward_tensor(values[0, 0], values[1, 1], values[0, 1], np.zeros(len(mesh.ends)))
        else:
            found[name] = values
    return found
