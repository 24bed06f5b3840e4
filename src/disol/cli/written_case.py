"""From the options of `disol solve` to the terms of a case: a geometry, its markers and its fields."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from disol.cli.ground import Ground, find_ground
from disol.expressions import NAMED_FIELDS, read_expression
from disol.geometry.loops import NamedLoops, name_loops, read_ranges
from disol.problems import Problem
from disol.problems.case import SMALLEST_RESOLUTION
from disol.problems.heat import TRAINED_UNTIL, HeatProblem

LARGEST_RESOLUTION = 1024
LATEST = 1000.0  # seconds; every step of 2 s up to the last is solved
DEFAULT_TIMES = (2.0, 8.0, 20.0)  # as far as models are trained

MARKED, FORCED, FIELDS = ("dirichlet", "fix_x", "fix_y"), ("force_x", "force_y"), ("source", "initial")
# Terms that are given together: whoever gives one of a group gives the group.
GROUPS = (MARKED, FORCED, *((name,) for name in FIELDS))
# What a geometry from a file gets where nothing is said.
DEFAULTS = {
    **dict.fromkeys(MARKED, "outer:0-0.25"),
    "force_x": "outer:0.4-0.55=1",
    "force_y": "outer:0.5-0.65=1",
    "source": "wave",
    "initial": "gaussian",
}


@dataclass(frozen=True, eq=False)
class WrittenCase:
    """The terms of a case, where each comes from, and what its author should know."""

    terms: dict[str, Any]
    rows: list[tuple[str, str]]
    notes: list[str] = field(default_factory=list)


def read_case(
    problem: Problem,
    conventions: str,
    geometry: str,
    given: Mapping[str, str | None],
    *,
    side: int,
    seed: int | None = None,
) -> WrittenCase:
    """Build the terms of a case from text; what is not given is drawn with the geometry or has a default."""
    wanted = {name: text for name, text in given.items() if text is not None}
    for name in wanted:
        if name not in problem.terms:
            known = ", ".join(map(option, problem.terms[1:]))
            raise ValueError(f"{problem.name} has no {option(name)}. It takes {known}.")
    if not SMALLEST_RESOLUTION <= side <= LARGEST_RESOLUTION:
        raise ValueError(
            f"--resolution must lie in [{SMALLEST_RESOLUTION}, {LARGEST_RESOLUTION}], got {side}. "
            f"{problem.name} is posed on {problem.resolution}."
        )
    ground = find_ground(problem, conventions, geometry, side, seed)
    domain = ground.terms["domain"]
    loops = name_loops(domain)
    names = ", ".join(f"{name} ({len(loop)} pixels)" for name, loop in loops.loops.items())
    rows = [("geometry", f"{geometry}, {domain.mean():.0%} of {side} x {side} pixels; loops {names}")]
    terms, notes = {"domain": domain}, list(ground.notes)
    supports = {*MARKED} & {*problem.terms}
    if ground.unpainted and supports and not supports & wanted.keys():
        notes.append(f"no {ground.unpainted} pixels found in {geometry}: U = 0 on {DEFAULTS['dirichlet']} instead")
    for group in GROUPS:
        members = [name for name in group if name in problem.terms]
        asked = any(name in wanted for name in members)
        for name in members:
            terms[name], origin = build_term(name, wanted.get(name), asked, ground, loops)
            rows.append((name, origin))
    if "times" in problem.terms:
        terms["times"] = read_times(wanted["times"], problem) if "times" in wanted else DEFAULT_TIMES
        rows.append(("times", ", ".join(f"{time:g}" for time in terms["times"]) + " s"))
        if terms["times"][-1] > TRAINED_UNTIL:
            notes.append(f"models are trained up to {TRAINED_UNTIL:g} s: expect larger errors after that")
    return WrittenCase(terms, rows, notes)


def build_term(name: str, text: str | None, group_asked: bool, ground: Ground, loops: NamedLoops) -> tuple[Any, str]:
    """Return a term and where it comes from: as written, as drawn or painted, or the default."""
    if text is None and not group_asked and name in ground.terms:
        return ground.terms[name], ground.origin
    if text is None and group_asked:
        return np.zeros(loops.mask.shape), "none"
    written = DEFAULTS[name] if text is None else text
    origin = written if text is not None else f"{written} (default)"
    if name not in FIELDS:
        ranges = read_ranges(written, valued=name in FORCED)
        return (loops.assign(ranges) if name in FORCED else loops.mark(ranges)), origin
    expression = read_expression(written)
    expression.require_finite(loops.mask)
    return expression, f"{origin}: {expression.text}" if written.strip() in NAMED_FIELDS else origin


def read_times(text: str, problem: Problem) -> tuple[float, ...]:
    """Read seconds separated by commas, in ascending order, that the steps of a problem meet."""
    try:
        times = sorted({float(piece) for piece in text.split(",")})
    except ValueError:
        raise ValueError(f"--time takes seconds such as 2,8,20, got {text!r}. Write numbers.") from None
    if not 0 <= times[0] <= times[-1] <= LATEST:  # NaN fails too
        raise ValueError(
            f"--time takes seconds from 0 to {LATEST:g}, got {text!r}. Models are trained up to {TRAINED_UNTIL:g} s."
        )
    if isinstance(problem, HeatProblem):
        try:
            problem.check_times(times)
        except ValueError:  # of all it asks for, only whole steps are left to be missed
            raise ValueError(f"--time takes multiples of {problem.step:g} s, got {text!r}. Round them.") from None
    return tuple(times)


def option(name: str) -> str:
    """Return the option that gives a term."""
    return "--" + name.replace("_", "-").replace("times", "time")
