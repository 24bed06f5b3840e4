"""Solving cases on their true boundary: elements cut at its curves, or at the outer sides of the pixels of a mask.

Conditions apply on arcs: for a drawn case these are its segments, as fractions of the true length of a curve; for a
mask they run along the outer sides of marked pixels. Forces are tractions, per length. Pixel values are those at pixel
centres.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float

from disol._terms import FORCE, SUPPORT, Term
from disol.cases.case import Case
from disol.cases.conditions import Stated, components_of
from disol.errors import DisolError
from disol.fem.cut_field import CutField
from disol.fem.cut_system import CutSolution, CutSystem, discretise
from disol.fem.nitsche import Condition, Dirichlet, Neumann, Robin
from disol.fem.rounding import report
from disol.fields import at_pixels, times
from disol.geometry.cut_cells import CutCells
from disol.geometry.named_parts import name_arcs
from disol.geometry.region import Arc, arcs_of_pixels
from disol.grid import Grid
from disol.problems.problem import Markers, TransientProblem
from disol.solutions.solution import Solution


def cut_system(case: Case, refinement: int = 1, cells: CutCells | None = None) -> CutSystem:
    """Discretise one case on the grid of its pixels, or on one `refinement` times as fine; reuse `cells` if given."""
    region = case.region  # refuses a batch
    grid = Grid(refinement * case.grid.height, refinement * case.grid.width)
    known, length = case.coefficient_values(refinement), case.frame.length
    sources = [times(length**2, _on_grid(source, grid)) for source in case.problem.sources(case.terms, known)]
    form = case.problem.form(case.conventions, known).on_length(length)
    return discretise(region, grid, form, conditions(case), sources, cells)


def conditions(case: Case) -> list[Condition]:
    """Return all conditions on arcs of the region of one case, with fluxes per unit of length of the grid."""
    factor = case.frame.length * case.problem.flux_factor
    return [_per_grid_length(condition, factor) for stated in state(case) for condition in stated.conditions]


def state(case: Case) -> list[Stated]:
    """Return all conditions as if stated on parts of the boundary; the parts of markers are ranges of loops."""
    found, by_part = list(case.stated), {stated.argument for stated in case.stated}
    for term in case.problem.terms:
        if term.name in by_part or term.kind not in (SUPPORT, FORCE):
            continue
        components = components_of(case.problem, term)
        arcs = _arcs(case, term)
        for (arc, force), part in zip(arcs, name_arcs(case.region, [arc for arc, _ in arcs]), strict=True):
            if term.kind is SUPPORT:
                found.append(Stated(term.name, part, (Dirichlet(arc, components=components),), 0.0))
            elif force:
                found.append(Stated(term.name, part, (Neumann(arc, force, components=components),), force))
    return found


def _per_grid_length(condition: Condition, factor: float) -> Condition:
    """Convert a flux or a Robin coefficient from the user's unit of length to that of the grid; values stay."""
    if isinstance(condition, Neumann):
        flux = times(factor, condition.flux)
        if isinstance(flux, float) and not np.isfinite(flux):
            raise DisolError("The load overflows in double precision. Use other units.")
        return replace(condition, flux=flux)
    if isinstance(condition, Robin):
        return replace(condition, coefficient=times(factor, condition.coefficient))
    return condition


def _arcs(case: Case, term: Term) -> list[tuple[Arc, float]]:
    """Return the arcs of a term and the value on each."""
    if case.boundary == "true":
        drawn = case.sketch[term.name] if case.sketch is not None else ()
        return [
            (Arc.from_segment(segment), markers.force or 0.0)
            for markers in ((drawn,) if isinstance(drawn, Markers) else drawn)
            for segment in markers.segments
        ]
    marked = case.terms[term.name]
    return [
        (arc, float(value))
        for value in np.unique(marked[marked != 0])
        for arc in arcs_of_pixels(case.domain, marked == value)
    ]


def _on_grid(source: Any, grid: Grid) -> Any:
    """Give every pixel of a finer grid the value of the pixel it is part of."""
    if not isinstance(source, np.ndarray) or source.shape in ((), grid.pixels):
        return source
    refinement = grid.height // source.shape[0]
    return source.repeat(refinement, axis=0).repeat(refinement, axis=1)


def solve_case(case: Case, keep_factors: bool = False) -> Solution:
    """Solve one case; if transient, with every step up to 20 s, over which its amplitude is taken.

    The check of the rounding error is left to the caller.
    """
    system, frames = cut_system(case), case.problem.frames(case.times)
    found = solve_frames(case, system=system)
    fields = np.stack([np.nan_to_num(frame.pixels()) * case.domain for frame in found.values()])
    if frames.steps is not None and frames.steps[0] == 0:
        start = at_pixels(case.terms["initial"], case.domain) * case.domain
        fields = np.concatenate([start[None, None], fields])
    amplitude = case.problem.normalisation(case.conventions).amplitude(fields[: frames.counted], case.domain)
    size = float(amplitude) if np.ndim(amplitude) == 0 else amplitude
    error = float(np.max([frame.rounding_error for frame in found.values()]))
    asked = [1] if frames.steps is None else [frames.steps[place] for place in frames.asked]
    if 0 in asked:
        found[0] = system.project(case.terms["initial"])
    # Matrices and factors are recomputed if needed: keeping those of many solutions would fill the memory.
    kept = CutSolution(system if keep_factors else replace(system), tuple(found[step] for step in asked))
    return Solution(case, frames.pick(fields), size, None, "cpu", error, kept)


@np.errstate(over="ignore", invalid="ignore")  # whatever is not finite is refused
def solve_frames(case: Case, refinement: int = 1, system: CutSystem | None = None) -> dict[int, CutField]:
    """Return the solution after each step but the 0th, or that of a steady problem; steps are refined like the grid.

    system   the system of the case on that grid, if it is known
    """
    steps = case.problem.frames(case.times).steps
    system = cut_system(case, refinement) if system is None else system
    if steps is None:
        with case.frame.in_drawing():
            return {1: system.solve_and_estimate()}
    assert isinstance(case.problem, TransientProblem)
    step = case.problem.step / refinement
    marched = system.march_and_estimate(
        _on_grid(case.terms["initial"], system.cells.grid), step, refinement * steps[-1]
    )
    wanted = {refinement * number: number for number in steps}
    return {wanted[number]: frame for number, frame in enumerate(marched, start=1) if number in wanted}


def solve_finer(case: Case, refinement: int) -> dict[int, Float[np.ndarray, "field height width"]]:
    """Solve on a finer grid; return values at the pixel centres of a case, by the index of each time asked for.

    Times at 0 s are left out, since the initial field is known.
    """
    frames, found = case.problem.frames(case.times), solve_frames(case, refinement)
    report([field.rounding_error for field in found.values()])
    rows, columns = np.nonzero(case.domain)
    x, y = case.grid.h * (columns + 0.5), case.grid.h * (rows + 0.5)
    fields = {}
    for place, step in enumerate(frames.asked):
        number = 1 if frames.steps is None else frames.steps[step]
        if number > 0:
            fields[place] = np.zeros((len(case.problem.fields), *case.grid.pixels))
            fields[place][:, rows, columns] = np.nan_to_num(found[number].at(x, y))
    return fields


def estimate_distance(solution: Solution) -> float:
    """Estimate ‖u_h − u‖ / ‖u‖ at pixel centres, u the solution of the PDE: 2 ‖u_h − u_h/2‖ / ‖u_h/2‖, for vectors 3.

    u_h/2 is the solution on a grid twice as fine, with half the time step. With errors of order h² the difference is ¾
    of the distance; where ends of supports reduce the order to h it is half of it; and displacements, which rotate
    about these ends, converge more slowly still. The domain of a mask is its staircase.
    """
    case = solution.case
    if solution.is_batch:
        raise DisolError(
            f"The distance to the PDE is estimated for one case, got a batch of {len(case)}. Use one of its cases."
        )
    if case.boundary == "pixels":
        raise DisolError(
            "The distance to the PDE is estimated for one case on its true boundary. Solve it with "
            'conventions="physical".'
        )
    coarse = solution.field if case.times is not None else solution.field[None]
    unit = float(np.abs(solution.field).max()) or 1.0  # squares of very small or large values would under- or overflow
    differences, sizes = 0.0, 0.0
    for place, there in solve_finer(case, refinement=2).items():
        differences += float((((coarse[place] - there) / unit) ** 2).sum())
        sizes += float(((there / unit) ** 2).sum())
    factor = 2.0 if len(case.problem.fields) == 1 else 3.0
    return factor * float(np.sqrt(differences / sizes)) if sizes else 0.0
