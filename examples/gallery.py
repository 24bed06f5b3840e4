"""Draw the pictures of the documentation: problems under every shift, named shapes, alpha, and true boundaries."""

import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import disol
from disol import Case
from disol._files import written_whole
from disol.geometry import Raster, draw_geometry
from disol.geometry.shapes import OUTLINES
from disol.grid import Grid
from disol.problems.problem import TRAINED_UNTIL
from disol.solutions.true_boundary import solve_frames
from disol.viz.cases import find_markings, given_values, is_marker
from disol.viz.panels import BLANK, Panel, draw_panels, field_scale, mark_pixels, show_domain, show_field

SHIFTS = (None, "topology", "boundary", "source", "all")
ALPHAS = (0.1, 0.3, 0.5, 0.65, 0.8, 0.95)


def show_solution(axes: Axes, case: Case) -> None:
    """Draw the size of a solution and, over it, the marked boundary pixels."""
    exact = disol.solve_exact(case, times=None if case.times is None else [TRAINED_UNTIL])
    field = exact.field if exact.times is None else exact.field[0]
    show_field(axes, np.hypot(*field) if len(field) == 2 else field[0], exact.domain, bar=False)
    for marking in find_markings([term for term in case.problem.terms if is_marker(term)], given_values(case)):
        mark_pixels(axes, marking.pixels, marking.colour)


def solution_panel(problem: str, title: str, index: int, shift: str | None) -> Panel:
    """Draw a case, and return the panel that will show its solution."""
    case = disol.draw(problem, seed=11, index=index, shift=shift, conventions="paper")
    return Panel(title, partial(show_solution, case=case))


def problems_picture(index: int = 19) -> Figure:
    """Draw every problem in distribution and under every shift."""
    rows = [
        [
            solution_panel(name, shift or "in distribution", index, shift)
            if shift is None or shift == "all" or shift in problem.shifts
            else BLANK
            for shift in SHIFTS
        ]
        for name, problem in disol.PROBLEMS.items()
    ]
    names = [name.replace("advection-diffusion", "adv.-diff.") for name in disol.PROBLEMS]
    return draw_panels(rows, names=names)


def shapes_picture() -> Figure:
    """Draw a Poisson solution on every named shape, without and with its hole."""
    rows = [[solution_panel("poisson", name, 3, f"shape:{name}{hole}") for name in OUTLINES] for hole in ("", "+hole")]
    return draw_panels(rows, names=["shape:NAME", "shape:NAME+hole"])


def show_outline(axes: Axes, seed: int, alpha: float) -> None:
    """Draw the domain around the same random points at one tightness."""
    geometry = draw_geometry(np.random.default_rng(seed), np.random.default_rng(0), alpha)
    raster = Raster(geometry, Grid(128, 128))
    show_domain(axes, raster.mask)
    closed = np.concatenate([geometry.outer.points, geometry.outer.points[:1]])
    axes.plot(*(128 * closed - 0.5).T, color="#2b4c7e", linewidth=1)


def alpha_picture() -> Figure:
    """Draw what alpha does to outlines around the same points."""
    rows = [
        [Panel(f"α = {alpha}", partial(show_outline, seed=seed, alpha=alpha)) for alpha in ALPHAS]
        for seed in (5, 8, 10)
    ]
    return draw_panels(rows)


def boundaries_picture() -> Figure:
    """Draw one case on pixels and on its true boundary, on three grids, with the errors of both."""
    given: dict[str, Any] = {"dirichlet": "hole1", "source": "1 + 2*x"}
    rows: list[list[Panel]] = [[], []]
    for side in (32, 64, 128):
        case = disol.read_case("poisson", "star+hole", resolution=side, **given)
        pixels = disol.solve_exact(
            disol.read_case("poisson", "star+hole", resolution=side, conventions="paper", **given)
        )
        reference, shown = (at_centres(case, 512 // side, Grid(size, size)) for size in (side, 512))
        inside, scale = case.domain, field_scale(shown[~np.isnan(shown)])
        for row, field, image, mask in (
            (rows[0], pixels.field[0], pixels.field[0], pixels.domain),
            (rows[1], disol.solve_exact(case).field[0], at_centres(case, 1, Grid(512, 512)), ~np.isnan(shown)),
        ):
            error = np.linalg.norm((field - reference)[inside]) / np.linalg.norm(reference[inside])
            title = f"{side} x {side}: {error:.1%} off"
            row.append(
                Panel(title, partial(show_field, field=np.nan_to_num(image), domain=mask, scale=scale, bar=False))
            )
    return draw_panels(rows, names=["pixels", "true boundary"])


def at_centres(case: Case, refinement: int, grid: Grid) -> np.ndarray:
    """Solve a case on a finer grid, and evaluate at the pixel centres of another grid; NaN outside."""
    x, y = np.broadcast_arrays(*grid.pixel_centres())
    found = solve_frames(case, refinement)[1].at(x.ravel(), y.ravel())
    return found[0].reshape(grid.pixels)


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images")
    pictures = {
        "problems.png": problems_picture(),
        "shapes.png": shapes_picture(),
        "alpha.png": alpha_picture(),
        "boundaries.png": boundaries_picture(),
    }
    for name, figure in pictures.items():
        with written_whole(folder / name) as path:
            figure.savefig(path, dpi=110)
        print(f"written {folder / name}")


if __name__ == "__main__":
    main()
