"""Conditions that a user states on parts of the boundary: values, fluxes, convection and tractions."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy
from jaxtyping import Bool, Float

from disol import _checks as checks
from disol._terms import FORCE, SUPPORT, Term
from disol.errors import DisolError, shown
from disol.expressions import Expression, read_expression
from disol.fem.nitsche import BoundaryValue, Condition, Dirichlet, Neumann, Robin, takes_normal
from disol.fields import at_pixels
from disol.geometry.curve import eroded, next_points
from disol.geometry.frame import Frame
from disol.geometry.loops import NUMBER
from disol.geometry.named_parts import find_part, split_parts
from disol.geometry.region import Arc, Region, arcs_of_pixels
from disol.grid import Grid
from disol.problems.coefficients import nearest
from disol.problems.conventions import Conventions
from disol.problems.problem import Problem, component_of

Mask = Bool[np.ndarray, "height width"]
# What can be stated besides the terms of a problem: a flux into the domain, and convection (h, U_out).
EXTRA = ("flux", "convection")
VALUES = "_values"  # suffix of the argument with the values of a support's marked pixels
MARKED = "marked pixels"  # the name of the part that these values are stated on
SIGNED = re.compile(rf"[-+]?{NUMBER}")


@dataclass(frozen=True, eq=False)
class Stated:
    """What was stated on one part of the boundary.

    argument     the argument that stated it: a support, a force, "flux" or "convection"
    part         name of the part
    conditions   the conditions on its arcs, in coordinates of the grid and units of the user
    value        the value as given: a number, a formula, a function, or (h, U_out)
    """

    argument: str
    part: str
    conditions: tuple[Condition, ...]
    value: Any = None

    @property
    def arcs(self) -> list[Arc]:
        """The arcs of the part."""
        return [condition.arc for condition in self.conditions]

    @property
    def is_plain(self) -> bool:
        """Tell whether marked pixels can express it: a support at zero, or a constant force."""
        if self.argument in EXTRA:
            return False
        values = (each.value if isinstance(each, Dirichlet) else 0.0 for each in self.conditions)
        fluxes = (each.flux if isinstance(each, Neumann) else 0.0 for each in self.conditions)
        return all(isinstance(value, float) and value == 0 for value in values) and not any(map(callable, fluxes))

    def __str__(self) -> str:
        told = getattr(self.value, "__name__", "a function") if callable(self.value) else shown(self.value)
        return f"{self.argument} on {self.part} = {told}"


def split_conditions(
    problem: Problem, conventions: Conventions, given: Mapping[str, Any]
) -> tuple[dict[str, Mapping[str, Any]], dict[str, Any]]:
    """Separate what is stated on parts of the boundary, as mappings or texts, from all other data."""
    kinds = {term.name: term.kind for term in problem.terms}
    stated: dict[str, Mapping[str, Any]] = {}
    for name, parts in given.items():
        if name in EXTRA or (kinds.get(name) in (SUPPORT, FORCE) and isinstance(parts, Mapping | str)):
            read = split_parts(parts) if isinstance(parts, str) else parts
            if not isinstance(read, Mapping) or not read:
                example = "{'left': (10, 20)}" if name == "convection" else "{'left': 20}"
                raise DisolError(f"{name} must map parts of the boundary to values, as {example}, got {shown(parts)}.")
            stated[name] = read
    if stated and not conventions.true_boundary:
        raise DisolError(f"{next(iter(stated))} on parts needs the true boundary. Pass conventions='physical'.")
    if any(name in EXTRA for name in stated) and len(problem.fields) > 1:
        forces = " and ".join(term.name for term in problem.terms if term.kind is FORCE)
        raise DisolError(f"flux and convection are for problems with one unknown, got {problem.name}. Use {forces}.")
    return stated, {name: value for name, value in given.items() if name not in stated}


def read_conditions(
    problem: Problem, stated: Mapping[str, Mapping[str, Any]], region: Region, frame: Frame
) -> list[Stated]:
    """Find the parts on the boundary of a region, and read their values, by default 1 for forces and 0 for supports."""
    found = []
    for name, parts in stated.items():
        term = next((term for term in problem.terms if term.name == name), None)
        for part, given in parts.items():
            value = _unless_given(name, term, part, given)
            read = _condition(name, term, value, frame)
            components = None if term is None else components_of(problem, term)
            arcs = find_part(region, part, frame)
            named = replace(read, components=components, name=f"{name} on {str(part)!r}")
            on = tuple(replace(named, arc=arc) for arc in arcs)
            found.append(Stated(name, str(part), on, value))
    return found


def components_of(problem: Problem, term: Term) -> tuple[int, ...] | None:
    """Return the indices of the fields that a term applies to; None for all of them."""
    if term.component is None:
        return None
    return tuple(place for place, name in enumerate(problem.fields) if component_of(name) == term.component)


def _unless_given(name: str, term: Term | None, part: str, value: Any) -> Any:
    if value is not None:
        return value
    if term is None:
        raise DisolError(f"{name} on {shown(part)} has no value. Write it like {part}=5.")
    return 0.0 if term.kind is SUPPORT else 1.0


def _condition(name: str, term: Term | None, value: Any, frame: Frame) -> Condition:
    if name == "convection":
        pair = value.split(":") if isinstance(value, str) else value
        if not checks.is_pair(pair):
            raise DisolError(f"convection must be (h, U_out) for each part, as text H:OUTSIDE, got {shown(value)}.")
        exchange = _value("h of convection", pair[0], frame)
        if not callable(exchange):
            checks.positive_number("h of convection", exchange)
        return Robin(Arc(), exchange, _value(name, pair[1], frame))
    if term is not None and term.kind is SUPPORT:
        return Dirichlet(Arc(), _value(name, value, frame))
    return Neumann(Arc(), _value(name, value, frame))


def _value(name: str, value: Any, frame: Frame) -> BoundaryValue:
    """Read a number, a formula or a function of x and y."""
    if isinstance(value, str):
        text = value.strip()
        return checks.number(name, float(text)) if SIGNED.fullmatch(text) else on_grid(read_expression(text), frame)
    return on_grid(value, frame) if callable(value) else checks.number(name, value)


def on_grid(function: Callable[..., Any], frame: Frame) -> Callable[..., Any]:
    """Turn a function in a user's coordinates into one in those of the grid, in which named fields are defined."""
    return function if isinstance(function, Expression) and function.is_named else frame.on_grid(function)


@dataclass(frozen=True, eq=False)
class PixelValues:
    """Pixel values as a function on the outer sides of pixels: a side takes the value of the pixel behind it."""

    values: Float[np.ndarray, "height width"]

    def __call__(self, x: Any, y: Any, nx: Any, ny: Any) -> Float[np.ndarray, "..."]:
        """Look up the pixel half a pixel inside."""
        height, width = self.values.shape
        h = Grid(height, width).h
        row = np.clip(np.floor(y / h - 0.5 * ny).astype(int), 0, height - 1)
        column = np.clip(np.floor(x / h - 0.5 * nx).astype(int), 0, width - 1)
        return self.values[row, column]


def read_values(problem: Problem, term: Term, marked: Mask, values: Any, domain: Mask) -> Stated:
    """Read the pixel values at which the outer sides of a support's marked pixels are held."""
    name = term.name + VALUES
    array = checks.doubles(name, values)
    checks.require_pixels(name, array, domain.shape)
    known = array[(..., *nearest(marked))]
    components = components_of(problem, term)
    arcs = arcs_of_pixels(domain, marked)
    held = tuple(Dirichlet(arc, PixelValues(known), components=components) for arc in arcs)
    return Stated(term.name, MARKED, held, array)


class SharedPieceError(DisolError):
    """Two conditions that exclude each other hold on one piece of the boundary."""


def require_apart(stated: Sequence[Stated]) -> None:
    """Require that no place is both held and loaded, or given two values."""
    for place, one in enumerate(stated):
        for other in stated[:place]:
            if _excludes(one, other) and any(
                first.arc.overlaps(second.arc) for first in one.conditions for second in other.conditions
            ):
                raise SharedPieceError(
                    f"{other.argument} on {other.part!r} and {one.argument} on {one.part!r} share a piece of the "
                    "boundary. Keep them apart."
                )


def _excludes(one: Stated, other: Stated) -> bool:
    """Tell whether two conditions on the same components exclude each other: one is Dirichlet, or both of one kind."""
    if not one.conditions or not other.conditions:
        return False
    first, second = one.conditions[0], other.conditions[0]
    held = isinstance(first, Dirichlet) or isinstance(second, Dirichlet)
    return first.components == second.components and (held or type(first) is type(second))


def mark_pixels(stated: Sequence[Stated], region: Region, domain: Mask) -> Float[np.ndarray, "height width"]:
    """Mark the pixels of a domain next to stated parts.

    Held pixels get 1, loaded ones the value of the load at their centres; 1 if it depends on the normal, since pixels
    have none.
    """
    marked = np.zeros(domain.shape)
    for each in stated:
        here = pixels_along(region, each.arcs, domain)
        first = each.conditions[0]
        flux: Any = first.flux if isinstance(first, Neumann) else 1.0
        if callable(flux):
            marked[here] = 1.0 if takes_normal(flux) else at_pixels(flux, here)[here]
        else:
            marked[here] = flux
    return marked


def pixels_along(region: Region, arcs: Sequence[Arc], domain: Mask) -> Mask:
    """Mark the boundary pixels of the domain that are nearest to the points of some arcs, moved half a pixel inside."""
    grid, marked = Grid(*domain.shape), np.zeros(domain.shape, dtype=bool)
    rows, columns = np.nonzero(domain & ~eroded(domain))
    pixels = scipy.spatial.cKDTree(np.stack([columns, rows], axis=1))
    for arc in arcs:
        loop = region.loops[arc.loop]
        count = max(4, int(np.ceil(4 * (arc.end - arc.start) * loop.arc_lengths[-1] / grid.h)))
        along = (arc.start + (np.arange(count) + 0.5) / count * (arc.end - arc.start)) % 1.0 * loop.arc_lengths[-1]
        edge = np.clip(np.searchsorted(loop.arc_lengths, along, side="right") - 1, 0, len(loop.points) - 1)
        step = (next_points(loop.points) - loop.points)[edge]
        way = step / np.hypot(*step.T)[:, None]
        points = loop.points[edge] + (along - loop.arc_lengths[edge])[:, None] * way
        inward = np.stack([-way[:, 1], way[:, 0]], axis=1)  # the domain is on the right
        _, found = pixels.query(points / grid.h + 0.5 * inward - 0.5)
        marked[rows[found], columns[found]] = True
    return marked
