"""Conditions that a user states by parts of the boundary: values, fluxes, exchange and tractions, on a mask."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool

from disol import _checks as checks
from disol._terms import DOMAIN, FORCE, SOURCE, SUPPORT, Term
from disol.errors import DisolError, shown
from disol.fem.nitsche import BoundaryValue, Condition, Dirichlet, Neumann, Robin
from disol.fields import at_pixels, read_expression
from disol.geometry.boundary import trace_sides
from disol.geometry.parts import find_part
from disol.geometry.region import Arc, Region
from disol.problems.conventions import Conventions
from disol.problems.problem import Problem, component_of

Mask = Bool[np.ndarray, "height width"]
# What can be stated besides the terms of a problem: a flux into the domain, and exchange (h, U_out).
EXTRA = ("flux", "convection")


@dataclass(frozen=True, eq=False)
class Stated:
    """What was stated of one part: the name of the argument and of the part, and the conditions on its arcs."""

    argument: str
    part: str
    conditions: tuple[Condition, ...]

    @property
    def arcs(self) -> list[Arc]:
        """The arcs of the part."""
        return [condition.arc for condition in self.conditions]


def read_conditions(
    problem: Problem, conventions: Conventions, given: Mapping[str, Any]
) -> tuple[dict[str, Any], tuple[Stated, ...]]:
    """Take mappings from parts to values out of what was given; return all else with marker masks, and conditions."""
    kinds = {term.name: term.kind for term in problem.terms}
    mapped = {
        name: value
        for name, value in given.items()
        if name in EXTRA or (isinstance(value, Mapping) and kinds.get(name) in (SUPPORT, FORCE))
    }
    if not mapped:
        return dict(given), ()
    if not conventions.true_boundary:
        raise DisolError(f"{next(iter(mapped))} is stated by parts of a true boundary. Pass conventions='physical'.")
    if any(name in EXTRA for name in mapped) and (len(problem.fields) > 1 or problem.times):
        raise DisolError(f"flux and convection are for steady problems of one unknown, got {problem.name}.")
    domain = checks.real_numbers("domain", given.get("domain", ()))
    checks.require_pixels("domain", domain, None)
    mask = DOMAIN.check("domain", domain, domain)
    region, stated = Region.from_mask(mask), []
    for name, parts in mapped.items():
        if not isinstance(parts, Mapping) or not parts:
            raise DisolError(f"{name} must map parts of the boundary to values, as {{'left': 20}}, got {shown(parts)}.")
        components = None if name in EXTRA else _components(problem, problem.term(name))
        for part, value in parts.items():
            arcs = find_part(region, part)
            stated.append(Stated(name, part, tuple(_condition(name, kinds, arc, value, components) for arc in arcs)))
    _require_apart(mask, stated)
    read = {name: value for name, value in given.items() if name not in mapped}
    for term in problem.terms:
        own = [each for each in stated if each.argument == term.name]
        if own or (term.kind in (FORCE, SOURCE) and term.name not in read):
            read[term.name] = _marked(mask, own)
    return read, tuple(stated)


def _components(problem: Problem, term: Term) -> tuple[int, ...] | None:
    if term.component is None:
        return None
    return tuple(place for place, name in enumerate(problem.fields) if component_of(name) == term.component)


def _condition(
    name: str, kinds: Mapping[str, Any], arc: Arc, value: Any, components: tuple[int, ...] | None
) -> Condition:
    if name == "convection":
        if not checks.is_pair(value) or isinstance(value, str):
            raise DisolError(f"convection must be (h, U_out) of each part, got {shown(value)}.")
        return Robin(arc, checks.positive_number("h of convection", value[0]), _value(name, value[1]))
    if kinds.get(name) is SUPPORT:
        return Dirichlet(arc, _value(name, value), components=components)
    return Neumann(arc, _value(name, value), components=components)


def _value(name: str, value: Any) -> BoundaryValue:
    """Read a number, a formula or a function of x and y."""
    if isinstance(value, str):
        return read_expression(value)
    return value if callable(value) else checks.number(name, value)


def _sides(mask: Mask, arcs: Sequence[Arc]) -> list[Bool[np.ndarray, " side"]]:
    """Mark the outer sides of pixels that arcs cover, loop by loop."""
    covered = []
    for number, walk in enumerate(trace_sides(mask)):
        place, loop = (np.arange(len(walk)) + 0.5) / len(walk), np.full(len(walk), number)
        covered.append(np.logical_or.reduce([arc.covers(loop, place) for arc in arcs], axis=0))
    return covered


def pixels_along(mask: Mask, arcs: Sequence[Arc]) -> Mask:
    """Mark the pixels of a mask whose outer sides some arcs of its staircase cover."""
    marked = np.zeros(mask.shape, dtype=bool)
    for walk, on in zip(trace_sides(mask), _sides(mask, arcs), strict=True):
        marked[walk[on, 1], walk[on, 2]] = True
    return marked


def _require_apart(mask: Mask, stated: list[Stated]) -> None:
    """Require that nothing is both held and loaded, or held at two values."""
    for place, one in enumerate(stated):
        for other in stated[:place]:
            if _excludes(one, other) and np.concatenate(_both(mask, one, other)).any():
                raise DisolError(
                    f"{other.argument} on {other.part!r} and {one.argument} on {one.part!r} share a piece of the "
                    "boundary. Keep them apart."
                )


def _both(mask: Mask, one: Stated, other: Stated) -> list[Bool[np.ndarray, " side"]]:
    return [first & second for first, second in zip(_sides(mask, one.arcs), _sides(mask, other.arcs), strict=True)]


def _excludes(one: Stated, other: Stated) -> bool:
    """Tell whether two conditions cannot hold in one place: of one component, a value and anything, or of one kind."""
    first, second = one.conditions[0], other.conditions[0]
    held = isinstance(first, Dirichlet) or isinstance(second, Dirichlet)
    return first.components == second.components and (held or type(first) is type(second))


def _marked(mask: Mask, stated: list[Stated]) -> np.ndarray:
    """Mark the pixels along stated parts: 1 where they are held, the value of a load at their centres."""
    marked = np.zeros(mask.shape)
    for each in stated:
        here = pixels_along(mask, each.arcs)
        first = each.conditions[0]
        flux: Any = first.flux if isinstance(first, Neumann) else 1.0
        marked[here] = (at_pixels(flux, here) if callable(flux) else flux * here)[here]
    return marked
