"""Statements whose solutions are related, or known without solving them: linear ones, and constants."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from attempts import chance, magnitude, pick
from solving import Affine
from statements import (
    PROBLEMS,
    Normal,
    Plate,
    Statement,
    cut_boundary,
    draw_kinds,
    draw_materials,
    draw_plate,
    draw_tensor,
    draw_unit,
    write_parts,
    write_value,
)

FIELDS = {name: 2 if name == "elasticity" else 1 for name in PROBLEMS}
DRIVEN = ("dirichlet", "flux", "fix_x", "fix_y", "force_x", "force_y")
LINEAR = (*DRIVEN, "convection", "source", "initial", "body_force")


@dataclass(frozen=True)
class Patch:
    """A statement whose solution is known: linear in x and y, a field for each unknown.

    law         what the gradient [field, 2] becomes: κ ∇U, or the stress; None where those of a drawing point upwards
    stiffness   how large that is of a gradient of 1
    """

    statement: Statement
    fields: tuple[Affine, ...]
    law: np.ndarray | None
    stiffness: float


def state(
    rng: np.random.Generator,
    problem: str,
    plate: Plate,
    values: tuple[Any, ...],
    loads: tuple[Any, ...],
    outside: Callable[[float], Any],
    free: bool = True,
) -> dict[str, Any]:
    """State values, loads and exchange with what is outside on parts that make up the boundary.

    free   parts may be left out
    """
    parts, conditions = cut_boundary(rng, plate, whole=not free), {}
    if problem == "elasticity":
        kinds = draw_kinds(rng, parts, ("held", "loaded", "rolling", *(["free"] if free else [])))
        for place, axis in enumerate("xy"):
            held = [part for part, kind in kinds.items() if kind == "held" or (kind == "rolling" and axis == "x")]
            loaded = [part for part, kind in kinds.items() if kind == "loaded" or (kind == "rolling" and axis == "y")]
            conditions[f"fix_{axis}"] = write_parts(rng, {part: written(rng, values[place]) for part in held})
            if loaded:
                conditions[f"force_{axis}"] = write_parts(rng, {part: written(rng, loads[place]) for part in loaded})
        return conditions
    ways = (("dirichlet", "flux", "convection"), ("convection", "flux", "dirichlet"), ("convection", "flux"))
    kinds = draw_kinds(rng, parts, (*pick(rng, ways), *(["free"] if free else [])))
    exchange = float(10 ** rng.uniform(-1, 1))
    for name, value in (("dirichlet", values[0]), ("flux", loads[0]), ("convection", outside(exchange))):
        own = {part: written(rng, value) for part, kind in kinds.items() if kind == name}
        if own:
            conditions[name] = write_parts(rng, own)
    return conditions


def written(rng: np.random.Generator, value: Any) -> Any:
    """Give a value in one of the ways that there are."""
    if isinstance(value, tuple):
        return tuple(written(rng, each) for each in value)
    return write_value(rng, value) if isinstance(value, Affine) else value


def draw_affine(rng: np.random.Generator, size: float, length: float) -> Affine:
    """Draw f = a + b x + c y with values of one size, or a constant."""
    slopes = size / length * rng.normal(size=2) * chance(rng, 0.7)
    return Affine(size * float(rng.normal()), *slopes.tolist())


def draw_statement(rng: np.random.Generator) -> Statement:
    """Draw a problem that is right: materials of some contrast, and loads of one size."""
    problem, length = pick(rng, PROBLEMS), draw_unit(rng)
    plate = draw_plate(rng, length)
    given = draw_materials(rng, problem, plate)
    return Statement(problem, plate, given | draw_loads(rng, problem, plate))


def draw_loads(rng: np.random.Generator, problem: str, plate: Plate) -> dict[str, Any]:
    """Draw values, fluxes, forces, sources and initial fields; of any place, so that they are those of one unit."""
    length, number = plate.size, FIELDS[problem]
    values = tuple(Affine(float(rng.normal()), 0.0, 0.0) for _ in range(number))
    loads = tuple(Affine(float(rng.normal()) / length, 0.0, 0.0) for _ in range(number))
    room = Affine(float(rng.normal()), 0.0, 0.0)
    given = state(rng, problem, plate, values, loads, lambda h: (Affine(h / length, 0.0, 0.0), room))
    if problem == "elasticity":
        return given | {"body_force": tuple((rng.normal(size=2) / length**2).tolist())}
    given["source"] = float(rng.normal()) / length**2
    if problem == "heat":
        given |= {"initial": float(rng.normal()), "times": sorted({2.0, 2.0 * int(rng.integers(1, 6))})}
    return given


def redraw_loads(rng: np.random.Generator, statement: Statement) -> Statement:
    """Draw other numbers in place of all that a solution is linear in."""

    def other(name: str, value: Any) -> Any:
        if name in ("convection", *DRIVEN) and isinstance(value, Mapping):
            return {part: other(name, own) for part, own in value.items()}
        if name == "convection":
            return (value[0], float(rng.normal()))
        return tuple(rng.normal(size=2).tolist()) if name == "body_force" else float(rng.normal())

    plain = plainly(statement)
    given = {name: other(name, value) if name in LINEAR else value for name, value in plain.given.items()}
    return replace(statement, given=given)


def plainly(statement: Statement) -> Statement:
    """Give all that a solution is linear in as mappings of numbers."""

    def plain(value: Any) -> Any:
        if isinstance(value, str):
            return {part: plain_number(own) for part, _, own in (each.partition("=") for each in value.split(", "))}
        return {part: plain_number(own) for part, own in value.items()}

    parts = (*DRIVEN, "convection")
    given = {name: plain(value) if name in parts else value for name, value in statement.given.items()}
    return replace(statement, given=given)


def plain_number(value: Any) -> Any:
    """Read a number that may be written."""
    return tuple(map(float, value)) if isinstance(value, tuple) else float(value)


def draw_patch(rng: np.random.Generator) -> Patch:
    """Draw a problem of one material whose solution is linear."""
    problem, length = pick(rng, PROBLEMS), draw_unit(rng)
    plate = draw_plate(rng, length)
    size = float(10 ** rng.uniform(-3, 3)) * magnitude(rng, 0.9) ** 0.3
    fields = tuple(draw_affine(rng, size, length) for _ in range(FIELDS[problem]))
    gradient = np.array([[each.b, each.c] for each in fields])
    unit = float(10 ** rng.uniform(-3, 3))
    given: dict[str, Any] = {}
    if problem == "elasticity":
        ratio, plane = float(rng.uniform(-0.5, 0.45)), pick(rng, ["strain", "stress"])
        strain = 0.5 * (gradient + gradient.T)
        bulk = unit * ratio / ((1 + ratio) * (1 - 2 * ratio) if plane == "strain" else 1 - ratio**2)
        law, stiffness = unit / (1 + ratio) * strain + bulk * np.trace(strain) * np.eye(2), unit + bulk
        given = {"young": unit, "poisson_ratio": ratio, "plane": plane, "body_force": (0.0, 0.0)}
    else:
        tensor = draw_tensor(rng) if chance(rng, 0.5) and not plate.upwards else float(10 ** rng.uniform(-1, 1))
        tensor = tensor * unit * (0.05 * length**2 / unit if problem == "heat" else 1.0)
        given = {"conductivity": tensor}
        law, stiffness = gradient @ (tensor if np.ndim(tensor) else tensor * np.eye(2)), float(np.max(tensor))
    if problem == "heat":
        given |= {"initial": written(rng, fields[0]), "times": [2.0, 6.0], "density": unit, "capacity": 1 / unit}
        given["source"] = 0.0
    elif problem != "elasticity":
        given |= draw_reaction(rng, fields[0], plate, unit)
    flux = tuple(Normal(Affine(0.0, 0.0, 0.0), tuple(own)) for own in law.tolist())

    def outside(h: float) -> tuple[Any, Any]:
        exchange = h * stiffness / length
        return exchange, Normal(fields[0], tuple((law[0] / exchange).tolist()))

    if plate.upwards:
        names = ("fix_x", "fix_y") if problem == "elasticity" else ("dirichlet",)
        held = {
            name: {loop: written(rng, own) for loop in plate.loops} for name, own in zip(names, fields, strict=True)
        }
        return Patch(Statement(problem, plate, given | held), fields, None, stiffness)
    stated = state(rng, problem, plate, fields, flux, outside, free=False)
    return Patch(Statement(problem, plate, given | stated), fields, law, stiffness)


def draw_reaction(rng: np.random.Generator, field: Affine, plate: Plate, unit: float) -> dict[str, Any]:
    """Draw v and r, and f = v · ∇U + r U."""
    v = unit / plate.size * rng.normal(size=2) * 10 ** rng.uniform(-1, 2) * (chance(rng, 0.5) and not plate.upwards)
    r = unit / plate.size**2 * float(10 ** rng.uniform(-1, 2)) * chance(rng, 0.5)
    source = Affine(float(v @ [field.b, field.c]) + r * field.a, r * field.b, r * field.c)
    return {"velocity": tuple(v.tolist()), "reaction": r, "source": written(rng, source)}


def draw_constant(rng: np.random.Generator) -> tuple[Statement, tuple[float, ...]]:
    """Draw a problem of any material all of whose values are one constant, and that nothing drives."""
    problem, length = pick(rng, PROBLEMS), draw_unit(rng)
    plate = draw_plate(rng, length)
    unit = magnitude(rng, 0.8) ** 0.3
    given = draw_materials(rng, problem, plate, unit)
    if np.any(given.get("reaction", 0)) or callable(given.get("reaction")):
        del given["reaction"]
    values = tuple(float(rng.normal()) * magnitude(rng, 0.8) ** 0.3 for _ in range(FIELDS[problem]))
    constants = tuple(Affine(value, 0.0, 0.0) for value in values)
    none = (Affine(0.0, 0.0, 0.0),) * len(values)
    given |= state(rng, problem, plate, constants, none, lambda h: (Affine(h * unit / length, 0.0, 0.0), constants[0]))
    given |= {"body_force": (0.0, 0.0)} if problem == "elasticity" else {"source": 0.0}
    if problem == "heat":
        given |= {"initial": values[0], "times": [2.0, 8.0]}
    if plate.mask is not None and chance(rng, 0.3):
        given = {name: value for name, value in given.items() if name not in (*DRIVEN, "convection")}
        for name, value in zip(("fix_x", "fix_y") if len(values) > 1 else ("dirichlet",), values, strict=True):
            marked = plate.mask & (rng.random(plate.mask.shape) < 0.7)
            given |= {name: marked, f"{name}_values": np.where(marked, value, rng.normal(size=marked.shape))}
        given |= {name: np.zeros(plate.mask.shape) for name in ("force_x", "force_y") if len(values) > 1}
    return Statement(problem, plate, given), values
