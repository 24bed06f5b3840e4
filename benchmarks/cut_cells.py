"""How accurate cut elements are, and how long they take compared with pixels.

They are compared with known solutions on curved domains, with body-fitted meshes of another package on rings, and on
drawn domains with a grid four times finer. Also: stress on the boundary, and the time of one case.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import scipy

import disol
from body_fitted import RINGS, difference
from cut_references import REFERENCES, cylinder
from disol.fem.cut_forms import Form, diffusive, elastic
from disol.fem.cut_system import CutSystem, Sources, discretise
from disol.fem.nitsche import BoundaryPoints, Condition, Dirichlet, Neumann
from disol.fem.recovery import boundary_flux
from disol.fem.solve import DirectSolver
from disol.fields import draw_field
from disol.geometry import Arc, Geometry, Region, draw_geometry, draw_segments
from disol.grid import Grid
from report import processor, publish, table

SIDES = (32, 64, 128, 256)


def scientific(values: list[float]) -> list[str]:
    return [f"{value:.1e}" for value in values]


def known_solutions() -> str:
    rows = []
    for reference in REFERENCES:
        errors = [reference.error(side) for side in SIDES]
        order = np.log2(errors[1] / errors[3]) / 2
        rows.append([reference.name, *scientific(errors), f"{order:.2f}"])
    return table(["case", *map(str, SIDES), "order, 64 to 256"], rows)


def body_fitted(around: int, across: int) -> str:
    rows = []
    for ring in RINGS:
        for is_elastic in (False, True):
            errors = difference(ring, is_elastic, SIDES[:3], around, across)
            rows.append([ring.name, "elasticity" if is_elastic else "Poisson", *scientific(errors)])
    return table(["ring", "problem", *map(str, SIDES[:3])], rows)


def drawn(index: int, is_elastic: bool, side: int) -> CutSystem:
    """Discretise a drawn case, the same on every grid: with a hole, arcs as by the shift `all`, and a random source."""
    rng = np.random.default_rng([21, index])
    region = Region.from_geometry(draw_geometry(rng, rng, hole_size=(0.2, 0.4)))
    if is_elastic:
        segments = draw_segments(rng, 1, (0.1, 0.25)) + draw_segments(rng, 1, (0.1, 0.25))
    else:
        segments = draw_segments(rng, int(rng.integers(1, 4)), (0.05, 0.15)) + draw_segments(rng, 1, (0.1, 0.3), 1)
    arcs = [Arc.from_segment(segment) for segment in segments]
    if is_elastic:
        conditions: list[Condition] = [Dirichlet(arcs[0]), Neumann(arcs[1], (1.0, -1.0))]
        return discretise(region, Grid(side, side), Form(elastic(1e3, 0.3, "strain")), conditions)
    conditions = [Dirichlet(arc) for arc in arcs]
    return discretise(region, Grid(side, side), Form(diffusive(1.0)), conditions, draw_field(rng))


def drawn_cases(count: int) -> str:
    rows = []
    for name, is_elastic, side, share in (
        ("Poisson", False, 64, 1),
        ("elasticity", True, 64, 1),
        ("elasticity", True, 128, 5),
    ):
        errors, definite = [], 0
        for index in range(count // share):
            system, finer = drawn(index, is_elastic, side), drawn(index, is_elastic, 4 * side)
            coarse = system.solve().pixels()
            inside = ~np.isnan(coarse[0])
            x, y = (np.broadcast_to(axis, inside.shape)[inside] for axis in Grid(side, side).pixel_centres())
            expected = finer.solve().at(x, y)
            errors.append(float(np.linalg.norm(coarse[:, inside] - expected) / np.linalg.norm(expected)))
            pivots = DirectSolver(scipy.sparse.csc_array(system.matrix)).factors.U.diagonal()
            definite += bool((pivots > 0).all())
        median, high, worst = (f"{100 * value:.2f} %" for value in np.quantile(errors, [0.5, 0.95, 1.0]))
        rows.append([name, str(side), median, high, worst, f"{definite} of {count // share}"])
    return table(["problem", "grid", "median", "95th percentile", "worst", "positive definite"], rows)


def boundary_stress() -> str:
    """Compare the traction on the hole of the cylinder, of the element and recovered, with the exact one."""
    reference, rows = cylinder(), []
    for side in SIDES:
        system = discretise(reference.region, Grid(side, side), reference.form, reference.conditions)
        field = system.solve()
        at = BoundaryPoints.on(system.cells, np.flatnonzero(system.cells.pieces.loop == 1))
        gradient = np.einsum("pbi,pid->pdb", at.slopes[:, 1], field.values[system.cells.nodes[at.element]])
        raw = np.einsum("cadb,pdb,pa->pc", reference.form.law, gradient, at.normal) + at.normal
        recovered = boundary_flux(system, field)
        fitted = (recovered.traction + recovered.normal)[recovered.loop == 1]
        rows.append([str(side), *(f"{100 * np.abs(each).max():.1f} %" for each in (raw, fitted))])
    return table(["grid", "from the cut element", "recovered from whole pixels"], rows)


def fastest(solve: Callable[[], object], repeats: int) -> float:
    """Return the shortest processor time of several runs, in ms."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        solve()
        times.append(time.process_time() - start)
    return 1e3 * min(times)


def from_curves(geometry: Geometry, grid: Grid, form: Form, conditions: list[Condition], source: Sources) -> object:
    return discretise(Region.from_geometry(geometry), grid, form, conditions, source).solve().pixels()


def times(repeats: int) -> str:
    rng = np.random.default_rng(0)
    geometry, field = draw_geometry(rng, rng, hole_size=(0.2, 0.4)), draw_field(rng)
    rows = []
    for name, is_elastic, side in (("poisson", False, 64), ("poisson", False, 128), ("elasticity", True, 128)):
        conditions: list[Condition] = [Dirichlet(Arc(0, 0.1, 0.3))]
        if is_elastic:
            conditions.append(Neumann(Arc(0, 0.5, 0.7), (1.0, 0.0)))
        form = Form(elastic(1e3, 0.3, "strain") if is_elastic else diffusive(1.0))
        solve = partial(from_curves, geometry, Grid(side, side), form, conditions, None if is_elastic else field)
        case = disol.draw(name, seed=0, resolution=side, shift={"topology": 0.3}, conventions="paper")
        cut, pixels = fastest(solve, repeats), fastest(partial(disol.solve_exact, case), repeats)
        rows.append([name, str(side), f"{pixels:.0f} ms", f"{cut:.0f} ms", f"{cut / pixels:.1f}"])
    return table(["problem", "grid", "pixels", "cut elements", "cut elements / pixels"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--drawn", type=int, default=40, help="number of drawn cases of each problem")
    parser.add_argument("--around", type=int, default=160, help="elements around a body-fitted ring")
    parser.add_argument("--repeats", type=int, default=15, help="runs of which the fastest counts")
    parser.add_argument("--write", type=Path, help="where to write the page")
    options = parser.parse_args()
    publish(
        [
            "# Cut elements",
            "Written by `make bench`.",
            "Relative L2 errors of finite elements on pixels that are cut at the true boundary. A grid of 64 has "
            "64 x 64 pixels.",
            "## Known solutions",
            "Errors at the pixel centres in the domain. Heat is compared with the exact solution of the time-discrete "
            "problem. *Values, fluxes and exchange* are Dirichlet, Neumann and Robin conditions.",
            known_solutions(),
            "## Mixed arcs, against body-fitted meshes",
            "Dirichlet conditions on some arcs of the outer curve, natural boundaries between them. The references are "
            f"solved by scikit-fem with curved Q2 elements, {options.around} around the ring, smaller at the ends of "
            "arcs. There the solutions behave like r^½, which limits the order.",
            body_fitted(options.around, options.around // 8),
            "## Drawn domains, against a grid four times finer",
            f"{options.drawn} outlines with a hole. Poisson is held on one to three arcs of the outline and one of the "
            "hole; elasticity is held on one arc and loaded on another. The last column counts the matrices that are "
            "positive definite.",
            drawn_cases(options.drawn),
            "## Stress on the boundary",
            "Largest error of the traction on the hole of the thick-walled cylinder, relative to the pressure. The "
            "stress is taken from the cut element itself, or recovered from whole pixels nearby.",
            boundary_stress(),
            "## Time of one case",
            f"Processor time from curves to values at pixels, the fastest of {options.repeats} runs. Pixels are solved "
            "by `solve_exact` with the conventions `paper`.",
            times(options.repeats),
            f"Machine: {processor()}.",
        ],
        options.write,
    )


if __name__ == "__main__":
    main()
