"""Questions to solutions: points, parts of the boundary, derivatives and files, right ones and others."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

import disol
from attempts import (
    Attempt,
    WrongAnswer,
    anything,
    chance,
    hostile_array,
    hostile_text,
    pick,
    short,
)
from parts import NAMES, draw_text

KINDS = ("heated", "bent", "warming", "drawn", "on pixels", "batch", "beam of pixels", "polygons")
OUTLINE = {"outer": [[-3, 10], [7, 9], [9, 22], [2, 17]], "holes": [[[2, 12], [3, 12], [3, 14]]]}
CLOSE = 1e-9
ENDINGS = (".npz", ".vtu", ".pvd", ".png", ".NPZ", ".Vtu", "", ".", ".txt", ".npz.gz", ".npz ", ".vtu/", ".\npz")


@lru_cache
def solved(kind: str) -> disol.Solution:
    """Solve a small problem once."""
    domain = np.zeros((16, 12))
    domain[2:14, 1:11] = 1
    domain[6:9, 4:7] = 0
    held = {"left": 20, "right": "80 + 5*y"}
    clamped: Any = {"fix_x": {"left": 0}, "fix_y": {"left": 0}, "force_y": {"right": 1}}
    if kind == "heated":
        return disol.solve_exact(
            "poisson", domain=domain, dirichlet=held, flux={"hole1": 5}, convection={"top": (10, 20)}, size=3.0
        )
    if kind == "bent":
        return disol.solve_exact("elasticity", domain=domain, **clamped, body_force=(1.0, 2.0), plane="stress")
    if kind == "warming":
        return disol.solve_exact("heat", domain=domain, dirichlet=held, initial=3.0, times=[0, 2, 6])
    if kind == "drawn":
        return disol.solve_exact(disol.draw("advection-diffusion-high", 3, resolution=20))
    if kind == "on pixels":
        return disol.solve_exact(disol.draw("poisson", 3, resolution=20, conventions="paper"), device="cpu")
    if kind == "batch":
        return disol.solve_exact([disol.draw("poisson", 3, index=index, resolution=20) for index in range(2)])
    if kind == "beam of pixels":
        return disol.solve_exact(disol.draw("elasticity", 3, resolution=20, conventions="paper"), device="cpu")
    return disol.solve_exact(disol.read_case("elasticity", OUTLINE, resolution=18, **clamped))


def answers(rng: np.random.Generator, folder: Path) -> Attempt:
    """Ask a solution something."""
    kind = pick(rng, KINDS)
    way = pick(rng, ["points", "points", "part", "quantity", "plot", "choice", "adjoint", "save", "save", "save"])
    if way == "points":
        points = hostile_points(rng)
        return Attempt(f"{kind}.at({short(points)})", lambda: check_points(solved(kind), points))
    if way == "part":
        part: Any = pick(rng, [*NAMES, draw_text(rng), anything(rng)])
        return Attempt(f"{kind}.total_flux({short(part)})", lambda: check_part(solved(kind), part))
    if way == "quantity":
        name = pick(rng, QUANTITIES)
        return Attempt(f"{kind}.{name}", lambda: check_quantity(solved(kind), name))
    if way == "plot":
        what = pick(rng, [None, "flux", "strain", "stress", "von_mises", "u", anything(rng)])
        return Attempt(f"{kind}.plot({short(what)})", lambda: draw(solved(kind), what))
    if way == "choice":
        which = pick(rng, [0, -1, 1, 2, slice(1), slice(5, 9)])
        return Attempt(f"{kind}[{which}]", lambda: choose(solved(kind), which))
    if way == "adjoint":
        seed, of = int(rng.integers(2**32)), pick(rng, [None, "source", ["diffusion"], [], ["x"], anything(rng)])
        slopes = hostile_array(rng) if chance(rng, 0.5) else None
        said = f"solve_adjoint({kind}, {short(slopes)}, of={short(of)})"
        return Attempt(said, lambda: check_slopes(solved(kind), slopes, of, seed))
    path, there = hostile_path(rng, folder)
    limit = int(10 ** rng.uniform(0, 5)) if chance(rng, 0.15) else None
    said = f"{kind}.save({short(path)}), where there is {there}, and room for {limit or 'all'}"
    return Attempt(said, lambda: check_saved(solved(kind), path, folder, limit))


QUANTITIES = (
    *("gradient", "flux", "strain", "stress", "von_mises", "max_displacement", "compliance", "energy", "derived"),
    *("pattern", "boundary", "reactions", "totals", "arrays", "estimate_distance", "_repr_html_"),
)


def hostile_points(rng: np.random.Generator) -> Any:
    """Draw points inside, outside and on the boundary, and arrays that are none."""
    way = rng.integers(5)
    if way == 0:
        return rng.uniform(-0.2, 1.2, size=(int(rng.integers(0, 50)), 2)) * 10 ** rng.uniform(-2, 2)
    if way == 1:
        return rng.integers(0, 33, size=(20, 2)) / 16  # nodes
    if way == 2:
        values = [0.0, 0.5, np.nan, np.inf, -np.inf, 1e300, -1e308, 1e-320]
        return rng.choice(values, size=(int(rng.integers(1, 5)), 2))
    if way == 3:
        return hostile_array(rng, pick(rng, [(2,), (3, 2), (2, 3), (0, 2), (1, 2, 2), ()]))
    return anything(rng)


def check_points(solution: disol.Solution, points: Any) -> None:
    """Require one value per point, NaN or within the range of the solution, and those of pixels at their centres."""
    found = solution.at(points)
    if found.shape != (*solution.field.shape[:-2], len(points)):
        raise WrongAnswer(f"values at points of shape {found.shape}")
    if np.isinf(found).any() or np.abs(np.nan_to_num(found)).max(initial=0.0) > 20 * np.abs(solution.field).max():
        raise WrongAnswer("values at points that are not those of the solution")
    if solution.is_batch or solution.cut is None:  # on pixels values are means of nodes
        return
    rows, columns = np.nonzero(solution.case.domain)
    centres = solution.case.to_drawing(np.stack([columns + 0.5, rows + 0.5], axis=1) * solution.case.grid.h)
    gap = np.abs(solution.at(centres) - solution.field[..., rows, columns])
    if solution.times is not None:
        gap = gap[1:]  # the initial field is a projection, and has jumps where it meets what is held
    if not gap.max() <= CLOSE * np.abs(solution.field).max():
        raise WrongAnswer(f"values at pixel centres differ by {gap.max():.1e}")


def check_part(solution: disol.Solution, part: Any) -> None:
    """Require a finite total; through all loops together it is what all conditions add up to."""
    total = solution.total_flux(part)
    if not np.isfinite(total).all():
        raise WrongAnswer(f"a total that is not finite: {total}")
    if solution.is_batch or solution.case.boundary == "pixels":
        return
    names = ["outer", *(f"hole{number}" for number in range(1, len(solution.case.region.loops)))]
    through: Any = sum(np.asarray(solution.total_flux(name)) for name in names)
    inside = ("source", "body force", "advection", "reaction", "storage", "balance")
    rows = np.stack([np.asarray(value) for what, _, value in solution.totals() if what not in inside])
    if not np.abs(through - rows.sum(axis=0)).max() <= CLOSE * np.abs(rows).max():
        raise WrongAnswer(f"loops carry {through}, conditions {rows.sum(axis=0)}")


def check_quantity(solution: disol.Solution, name: str) -> None:
    """Require that all that follows from a solution is finite."""
    found = getattr(solution, name)
    found = found() if callable(found) else found
    if name == "boundary":
        found = vars(found)
    rows = [row.value for row in found] if name == "totals" else [found]
    for value in found.values() if isinstance(found, dict) else rows:
        if (
            isinstance(value, np.ndarray | float)
            and np.asarray(value).dtype.kind == "f"
            and not np.isfinite(value).all()
        ):
            raise WrongAnswer(f"{name} is not finite")


def draw(solution: disol.Solution, what: Any) -> None:
    """Draw a picture, and forget it."""
    import matplotlib.pyplot as plt

    try:
        solution.plot(what)
    finally:
        plt.close("all")


def choose(solution: disol.Solution, which: Any) -> None:
    """Choose a case of a batch; others have none, as sequences say it."""
    try:
        found = solution[which]
    except (TypeError, IndexError):
        return
    if not isinstance(which, slice) and not np.array_equal(found.field, solution.field[which]):
        raise WrongAnswer("a case of a batch is another")


def check_slopes(solution: disol.Solution, slopes: Any, of: Any, seed: int) -> None:
    """Require that derivatives are linear in those of the functional."""
    if slopes is not None:
        disol.solve_adjoint(solution, slopes, of=of)
        return
    rng = np.random.default_rng(seed)
    first, second = rng.normal(size=(2, *solution.field.shape))
    found = [disol.solve_adjoint(solution, each, of=of) for each in (first, second, first - 2 * second)]
    for name, both in found[2].items():
        one, other, joined = (
            np.array(list(each.values())) if isinstance(each, dict) else np.asarray(each)
            for each in (found[0][name], found[1][name], both)
        )
        if not np.allclose(joined, one - 2 * other, rtol=1e-7, atol=1e-7 * (np.abs(one).max() + np.abs(other).max())):
            raise WrongAnswer(f"derivatives in {name} are not linear")


def hostile_path(rng: np.random.Generator, folder: Path) -> tuple[Any, str]:
    """Draw a path to save to: right ones, others, and what may be there already."""
    ending = pick(rng, ENDINGS[:4]) if chance(rng, 0.6) else pick(rng, ENDINGS)
    path: Any = (
        folder / f"{pick(rng, ['solution', 'ü n', '.hidden', '-x', 'a' * 250, 'a' * 300, '[red]', '%s'])}{ending}"
    )
    if chance(rng, 0.2):
        return pick(
            rng,
            [
                *(hostile_text(rng), hostile_text(rng) + ending, anything(rng), f"a\0{ending}", f"\udc80{ending}"),
                *(f"/dev/full{ending}", f"/proc/self/x{ending}", f"/dev/null/x{ending}", f"{folder}/no/such{ending}"),
                *(str(folder), f"{folder}/{'b/' * 2000}x{ending}", f"~{ending}", os.fsencode(path)),
            ],
        ), "anything"
    there = pick(
        rng, ["nothing", "nothing", "file", "folder", "link to nothing", "full", "fifo", "a file above", "pvd"]
    )
    if len(path.name.encode()) > 255 or path.name != Path(path).name:
        return path, "nothing"
    if there == "file":
        path.write_bytes(b"old")
    elif there == "folder":
        path.mkdir()
        (path / "kept").touch()
    elif there == "link to nothing":
        path.symlink_to(folder / "elsewhere")
    elif there == "full":
        path.symlink_to("/dev/full")
    elif there == "fifo":
        os.mkfifo(path)
    elif there == "a file above":
        path.write_bytes(b"old")
        path = path / f"below{ending}"
    elif there == "pvd":
        other = path.with_suffix("")
        if chance(rng, 0.5):
            other.mkdir(exist_ok=True)
            (other / "mine.txt").write_text("years of work")
        elif not other.exists():
            other.write_text("years of work")
    return path if chance(rng, 0.5) else str(path), there


@contextmanager
def little_room(limit: int | None) -> Iterator[None]:
    """Let no file grow beyond a number of bytes, as if the disk were full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft if limit is None else limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def check_saved(solution: disol.Solution, path: Any, folder: Path, limit: int | None) -> None:
    """Save it: what is there afterwards is whole, and what was there before is kept where it is refused."""
    before = contents(folder)
    try:
        with little_room(limit):
            saved = solution.save(path)
    except disol.DisolError:
        if contents(folder) != before:
            raise WrongAnswer(
                f"refused, but files were changed: {sorted(set(before) ^ set(contents(folder)))}"
            ) from None
        raise
    if any(name.endswith("mine.txt") and name not in contents(folder) for name in before):
        raise WrongAnswer("a file of somebody else is gone")
    if not saved.exists() or saved.is_dir():
        raise WrongAnswer(f"{saved} was not written")
    if saved.suffix.lower() == ".npz":
        with np.load(saved) as stored:
            if not np.array_equal(stored["field"], solution.field):
                raise WrongAnswer("the stored field is another")
    elif saved.suffix.lower() in (".vtu", ".pvd") and not saved.read_bytes().rstrip().endswith(b"</VTKFile>"):
        raise WrongAnswer(f"{saved} is not whole")
    left = [name for name in contents(folder) if "unfinished" in name]
    if left:
        raise WrongAnswer(f"temporary files are left: {left}")


def contents(folder: Path) -> dict[str, bytes]:
    """Read all files in a folder, by name; of links and the like their names."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        for path in sorted(folder.rglob("*"))
        if path.is_symlink() or not path.is_dir()
    }
