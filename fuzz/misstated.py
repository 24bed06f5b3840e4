"""Statements that are seldom right: parts, values, functions, coefficients and domains of any kind."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from attempts import Odd, anything, chance, hostile_array, hostile_number, hostile_text, pick
from geometries import draw_document
from solving import draw_domain
from stated import DRIVEN
from statements import PROBLEMS, Statement


def spoil(rng: np.random.Generator, statement: Statement) -> Statement:
    """Replace one or two things that are right by others that seldom are."""
    given, plate, problem = dict(statement.given), statement.plate, statement.problem
    for _ in range(int(rng.integers(1, 3))):
        way = rng.integers(9)
        names = [*given]
        if way <= 2:
            given[pick(rng, names)] = hostile_term(rng)
        elif way == 3:
            name = pick(rng, [*DRIVEN, "convection", "flux"])
            given[name] = {hostile_part(rng): hostile_value(rng) for _ in range(int(rng.integers(0, 3)))}
        elif way == 4:
            name = pick(rng, NAMES)
            given[name] = hostile_term(rng)
        elif way == 5:
            plate = replace(plate, size=hostile_number(rng))
        elif way == 6 and plate.mask is not None:
            domain = draw_domain(rng) if chance(rng, 0.7) else hostile_array(rng)
            plate = replace(plate, mask=domain)
        elif way == 6:
            plate = replace(plate, outline=pick(rng, [draw_document(rng), {}, {"outer": hostile_array(rng)}, Odd()]))
        elif way == 7:
            name = pick(rng, names)
            if isinstance(given[name], Mapping) and given[name]:
                given[name] = {**given[name], pick(rng, list(given[name])): hostile_value(rng)}
            elif isinstance(given[name], float | np.ndarray):
                given[name] = given[name] * pick(rng, [-1.0, 0.0, 1e200, 1e-200, 1e-320, np.nan, np.inf])
        else:
            given.pop(pick(rng, names), None)
            problem = pick(rng, PROBLEMS)
    return Statement(problem, plate, given)


NAMES = (
    *("dirichlet", "dirichlet_values", "fix_x_values", "flux", "convection", "source", "initial", "times", "size"),
    *("plane", "diffusion", "conductivity", "velocity", "reaction", "density", "capacity", "young", "poisson_ratio"),
    *("body_force", "time_scale", "source_strength", "steps_per_frame", "force_x", "domain", "conventions", "element"),
)


def hostile_part(rng: np.random.Generator) -> Any:
    """Draw a name of a part: right, on the verge, or none."""
    return pick(
        rng,
        [
            *("left", "right", "TOP ", "bottom", "outer", "hole1", "hole9", "outer2", "outer:0-1", "outer:0.1-0.1"),
            *("outer:0.9-0.1", "outer:0-1e-9", "outer:1-0", "near:0,0", "near:1e300,-1e300", "near:nan,0", "near:1"),
            *("near:", "left,right", "left=3", "", None, 3, ("left",), hostile_text(rng)),
        ],
    )


def hostile_function(rng: np.random.Generator) -> Callable[..., Any]:
    """Draw a function that is seldom right."""
    result = anything(rng) if chance(rng, 0.5) else hostile_number(rng)
    functions: list[Callable[..., Any]] = [
        lambda _x, _y: result,
        lambda x, _y: result * x,
        lambda x, y: x / (y * 0),
        lambda x, _y: x[:1],
        lambda x, _y: np.where(x > x.mean(), np.nan, 1.0),
        lambda x, y: (x, y),
        lambda x, y: [[x, y], [y, x]],
        lambda x: x,
        lambda x, _y, _z: x,
        lambda x, _y, nx, _ny: x + nx,
        lambda *given: given[0] * 1e308,
        lambda: 1,
        *(max, np.hypot, np.add, len, int, dict, Odd, print),
    ]
    return pick(rng, functions)


def hostile_value(rng: np.random.Generator) -> Any:
    """Draw a value on a part: right, on the verge, or none."""
    way = rng.integers(6)
    if way == 0:
        return hostile_number(rng)
    if way == 1:
        return hostile_function(rng)
    if way == 2:
        return pick(
            rng, [hostile_text(rng), "x*y", "1/x", "sqrt(-x)", "1:2", ":", "1:2:3", "(1:2)", "-1:2", "x:y", "1e999"]
        )
    if way == 3:
        return (hostile_number(rng), hostile_number(rng))
    if way == 4:
        return (hostile_function(rng), hostile_function(rng))
    return anything(rng)


def hostile_term(rng: np.random.Generator) -> Any:
    """Draw something in place of a term, a coefficient or a condition."""
    way = rng.integers(6)
    if way == 0:
        return hostile_number(rng)
    if way == 1:
        return hostile_array(rng, pick(rng, [None, (2, 2), (2,), (16, 16), (2, 16, 16), (3, 16, 16)]))
    if way == 2:
        return hostile_function(rng)
    if way == 3:
        return pick(rng, [hostile_text(rng), "left=20,hole1", "left=1,left=2", "top=10:20", "x", "outer", "gaussian"])
    if way == 4:
        return {hostile_part(rng): hostile_value(rng) for _ in range(int(rng.integers(0, 3)))}
    return anything(rng)
