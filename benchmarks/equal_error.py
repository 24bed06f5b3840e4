"""How long pixels take to be as accurate as the true boundary: errors and times of both, on finer and finer grids.

python benchmarks/equal_error.py --write docs/benchmarks/equal-error.md
python benchmarks/equal_error.py --picture docs/images/convergence.png     # only errors, and no page
"""

import argparse
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.spatial import KDTree

import disol
from convergence_chart import write_chart
from cut_references import REFERENCES, Reference
from disol.geometry import Arc
from disol.geometry.boundary import trace_boundary
from disol.solutions.true_boundary import solve_frames
from report import processor, publish, table

Points = Float[np.ndarray, " point"]

SIDE = 64
COARSER = (16, 32)
FINER = (128, 256, 512, 1024)
CHARTED = (16, 32, 64, 128, 256, 512)
SEED = 21
PLACES = 20000  # along a curve
# Cases that can also be stated on pixels: the problem, and the curve where U = 0.
ON_PIXELS = {
    "Poisson, annulus": ("poisson", "hole1"),
    "Poisson, disc": ("poisson", "outer"),
    "advection-diffusion, star": ("advection-diffusion-high", "outer"),
}


@dataclass(frozen=True)
class Subject:
    """A problem on any grid, on its true boundary and on pixels, with its exact solution."""

    name: str
    case: Callable[[int], disol.Case]
    pixels: Callable[[int], disol.Case]
    exact: Callable[[Points, Points], Points]

    def error(self, found: disol.Solution) -> float:
        """‖u_h − u‖ / ‖u‖ over the pixel centres in the domain."""
        x, y = (np.broadcast_to(axis, found.domain.shape)[found.domain] for axis in found.case.grid.pixel_centres())
        exact = self.exact(x, y)
        known = np.isfinite(exact)
        return float(np.linalg.norm((found.field[0][found.domain] - exact)[known]) / np.linalg.norm(exact[known]))


@dataclass(frozen=True)
class Measured:
    """A grid, with its error and its time in ms."""

    side: int
    error: float
    milliseconds: float


def read(reference: Reference, side: int) -> disol.Case:
    """Put a problem with a known solution on a grid."""
    problem, held = ON_PIXELS[reference.name]
    outer, *holes = (loop.points[::2] for loop in reference.region.loops)  # files have at most 2000 points a loop
    given: dict[str, Any] = {"dirichlet": held, "source": reference.source}
    return disol.read_case(problem, {"outer": outer, "holes": holes}, resolution=side, **given)


def known(reference: Reference) -> Subject:
    arcs = [each.arc for each in reference.conditions]
    return Subject(
        reference.name, partial(read, reference), lambda side: hold(read(reference, side), arcs), reference.exact
    )


def draw(index: int, side: int) -> disol.Case:
    return disol.draw("poisson", seed=SEED, index=index, resolution=side)


def hold(case: disol.Case, arcs: list[Arc]) -> disol.Case:
    """Put a case on pixels, held at the boundary pixels whose nearest place on a curve is on one of the arcs."""
    held = np.zeros(case.grid.pixels, dtype=bool)
    for number, (pixels, curve) in enumerate(zip(trace_boundary(case.domain), case.region.loops, strict=True)):
        centres = case.grid.h * (pixels[:, ::-1] + 0.5)
        place = np.asarray(KDTree(curve.resampled(PLACES)).query(centres)[1]) / PLACES
        for arc in arcs:
            chosen = pixels[arc.covers(np.full(len(pixels), number), place)]
            held[chosen[:, 0], chosen[:, 1]] = True
    terms = {"domain": case.domain, "dirichlet": held, "source": case.terms["source"]}
    return disol.Case.from_arrays(case.problem, conventions="paper", **terms)


def drawn(index: int) -> Subject:
    """Take a drawn Poisson case; its exact solution is that on the true boundary of an eight times finer grid."""
    case = draw(index, SIDE)
    assert case.sketch is not None
    arcs = [Arc.from_segment(segment) for segment in case.sketch["dirichlet"].segments]
    finer = solve_frames(case, 8)[1]
    return Subject(
        f"drawn, number {index}", partial(draw, index), lambda side: hold(draw(index, side), arcs),
        lambda x, y: finer.at(x, y)[0],
    )  # fmt: skip


def measure(subject: Subject, side: int, repeats: int, pixels: bool = False) -> Measured:
    """Solve on one grid; the time is the shortest processor time of several runs."""
    case = subject.pixels(side) if pixels else subject.case(side)
    times = []
    for _ in range(repeats):
        start = time.process_time()
        found = disol.solve_exact(case)
        times.append(time.process_time() - start)
    return Measured(side, subject.error(found), 1e3 * min(times))


def first_within(tried: Iterable[Measured], error: float) -> Measured:
    """Return the first whose error is small enough, else the last; stop measuring there."""
    for each in tried:
        if each.error <= error:
            return each
    return each


def compare(subject: Subject, repeats: int) -> tuple[Measured, Measured, Measured]:
    """Return the true boundary, the first pixels as good (else the finest), and the coarsest true boundary as good."""
    true = measure(subject, SIDE, repeats)
    pixels = first_within((measure(subject, side, 1 if side > 256 else repeats, True) for side in FINER), true.error)
    coarse = (measure(subject, side, repeats) if side < SIDE else true for side in (*COARSER, SIDE))
    return true, pixels, first_within(coarse, pixels.error)


def row_of(name: str, true: Measured, pixels: Measured, coarse: Measured) -> list[str]:
    reached = "" if pixels.error <= true.error else "not reached: "
    return [
        name,
        f"{true.error:.2%}, {true.milliseconds:.0f} ms",
        f"{reached}{pixels.error:.2%} at {pixels.side}, {pixels.milliseconds:.0f} ms",
        f"{'' if not reached else 'more than '}{pixels.milliseconds / true.milliseconds:.0f}",
        f"{coarse.error:.2%} at {coarse.side}, {coarse.milliseconds:.0f} ms",
        f"{pixels.milliseconds / coarse.milliseconds:.0f}",
    ]


def as_drawn(subjects: list[Subject]) -> str:
    """Write the errors of drawn cases on pixels, with supports as drawn there and along their arcs."""
    sides = (SIDE, FINER[1])
    drawn = [[each.case(side).on_pixels() for each in subjects] for side in sides]
    along = [[each.pixels(side) for each in subjects] for side in sides]
    rows = []
    for name, by_side in (("as drawn", drawn), ("along the arc", along)):
        errors = [
            np.median([each.error(disol.solve_exact(case)) for each, case in zip(subjects, cases, strict=True)])
            for cases in by_side
        ]
        rows.append([name, *(f"{error:.1%}" for error in errors)])
    return table(["support", *(f"median error at {side}" for side in sides)], rows)


def errors_by_side() -> dict[str, dict[str, dict[int, float]]]:
    """Return errors on the true boundary, and on pixels if the problem can be stated there, by name and side."""
    subjects = [known(each) for each in REFERENCES if each.name in ON_PIXELS]
    true = {
        each.name: {side: each.error(side) for side in CHARTED[:-1]} for each in REFERENCES if "SUPG" not in each.name
    }
    pixels = {
        each.name: {side: each.error(disol.solve_exact(each.pixels(side))) for side in CHARTED} for each in subjects
    }
    return {"true boundary": true, "pixels": pixels}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--drawn", type=int, default=10, help="number of drawn cases")
    parser.add_argument("--repeats", type=int, default=5, help="runs of which the fastest counts, on grids up to 256")
    parser.add_argument("--picture", type=Path, help="draw errors against the width of a pixel, and write no page")
    parser.add_argument("--write", type=Path, help="where to write the page")
    options = parser.parse_args()
    if options.picture is not None:
        write_chart(errors_by_side(), options.picture)
        return
    subjects = [known(each) for each in REFERENCES if ON_PIXELS.get(each.name, ("",))[0] == "poisson"]
    random = [drawn(index) for index in range(options.drawn)]
    found = {subject.name: compare(subject, options.repeats) for subject in subjects + random}
    ratios = [pixels.milliseconds / coarse.milliseconds for _, pixels, coarse in found.values()]
    reached = sum(pixels.error <= true.error for true, pixels, _ in found.values())
    heading = ["case", f"true boundary at {SIDE}", f"pixels as accurate, up to {FINER[-1]}", "pixels: times as long"]
    heading += ["coarsest true boundary as accurate as those pixels", "true boundary: times as fast"]
    publish(
        [
            "# At equal error",
            "Written by `python benchmarks/equal_error.py`.",
            "How much longer do pixels take than the true boundary to be equally accurate? For Poisson's equation, in "
            "two steps:",
            f"1. Pixels (conventions `paper`) are solved on grids with sides of {', '.join(map(str, FINER))} until "
            f"they are as accurate as the true boundary at {SIDE}.\n"
            f"2. The true boundary is solved at {', '.join(map(str, (*COARSER, SIDE)))} until it is as accurate as the "
            "last of these pixel grids.",
            f"Pixels become as accurate as the true boundary at {SIDE} in {reached} of {len(found)} cases. At the "
            f"error that both reach, which is that of the last pixel grid, the true boundary is {min(ratios):.0f} to "
            f"{max(ratios):.0f} times as fast, {np.median(ratios):.0f} times in the median.",
            "- **Errors** are relative L2 errors at pixel centres. The disc and the annulus have known solutions. "
            f"Drawn cases (seed {SEED}) are compared with the true boundary at {8 * SIDE}; on pixels they are held "
            "along the same arc.\n"
            "- **Times** are those of `solve_exact` on one core, from the case to values at pixels: the fastest of "
            f"{options.repeats} runs, on pixel grids above 256 a single run.",
            table(heading, [row_of(name, *each) for name, each in found.items()]),
            "The supports of drawn cases also depend on the grid. `disol.draw` gives a support on pixels a share of "
            "the boundary pixels. On finer grids this does not converge to the same share of the length, because there "
            "are fewer pixels along a diagonal. Drawn cases on pixels, with supports as drawn and along the arc:",
            as_drawn(random),
            f"Machine: {processor()}.",
        ],
        options.write,
    )


if __name__ == "__main__":
    main()
