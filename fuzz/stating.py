"""Stated problems, right and wrong, and what is known of their solutions without solving them."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import disol
from attempts import Attempt, WrongAnswer, chance, magnitude, pick
from misstated import spoil
from stated import LINEAR, Patch, draw_constant, draw_patch, draw_statement, plainly, redraw_loads
from statements import Statement

EXACT = 1e-8  # relative error of what elements hold exactly, but for rounding that was told
CONTINUED = 1e-6  # of linear solutions where slivers are handed to neighbours, beside what is told of that
SAME = 1e-9  # relative difference of solutions in two units, but for rounding that was told
BALANCED = 1e-6  # of the largest total
STEP = 1e-5  # of central differences, relative
DIFFERENTIATED = 1e-4  # relative difference of a derivative and a central difference


def statements(rng: np.random.Generator, folder: Path) -> Attempt:
    """State a problem, right or wrong, and compare its solution with what is known of it."""
    del folder
    kind = pick(rng, ["hostile"] * 6 + ["patch", "patch", "constant", "linearity", "units", "adjoint", "batch"])
    if kind == "hostile":
        statement = spoil(rng, draw_statement(rng))
        question = pick(rng, ["balance", "balance", "derived", "boundary", "adjoint", "distance"])
        return Attempt(f"{question} of hostile {statement}", lambda: ask(statement.solve(), question))
    if kind == "patch":
        patch = draw_patch(rng)
        return Attempt(f"patch {patch.fields} of {patch.statement}", lambda: check_patch(patch))
    if kind == "constant":
        constant, values = draw_constant(rng)
        return Attempt(f"{values} all over {constant}", lambda: check_constant(constant, values))
    statement = draw_statement(rng)
    if kind == "linearity":
        factors = tuple((rng.normal(size=2) * magnitude(rng)).tolist())
        other = redraw_loads(rng, statement)
        return Attempt(f"{factors} times {statement}", lambda: check_linearity(statement, other, factors))
    if kind == "units":
        factor = float(10 ** rng.uniform(-6, 6))
        return Attempt(f"{factor:g} longer: {statement}", lambda: check_units(statement, factor))
    if kind == "adjoint":
        seed = int(rng.integers(2**32))
        return Attempt(f"derivatives {seed} of {statement}", lambda: check_adjoint(statement, seed))
    return Attempt(f"batch of {statement}", lambda: check_batch(statement))


def check_patch(patch: Patch) -> None:
    """Require the linear solution at all points inside, and its gradient, flux or stress at all pixels."""
    statement, fields = patch.statement, patch.fields
    solution = solve_surely(statement)
    points, plate = statement.plate.inside, statement.plate
    limit = (CONTINUED if plate.mask is None else EXACT) + 10 * told(solution)
    if points is not None:
        found = solution.at(points)
        right = np.stack([field(*points.T) for field in fields])
        require_close("values at points", found, np.broadcast_to(right, found.shape), limit, np.abs(right).max())
    if plate.mask is not None and points is not None:
        found = solution.field[..., plate.mask]
        require_close("values at pixels", found, np.broadcast_to(right, found.shape), limit, np.abs(right).max())
    check_balance(solution)
    if patch.law is None:
        return
    inside = solution.case.domain
    gradient = np.array([[each.b, each.c] for each in fields])
    # What differences of neighbours lose, where a field hardly changes.
    size = np.abs(solution.field).max() / solution.case.length * max(inside.shape)
    found = solution.gradient[..., inside]
    require_close("gradient", found, np.broadcast_to(gradient[..., None], found.shape), limit, size)
    if len(fields) == 1:
        found = solution.flux[..., inside]
        require_close(
            "flux", found, np.broadcast_to(-patch.law[0][:, None], found.shape), limit, patch.stiffness * size
        )
    else:
        xx, xy, _, yy = patch.law.ravel()
        found = solution.stress[..., inside]
        require_close(
            "stress", found, np.broadcast_to(np.array([[xx], [yy], [xy]]), found.shape), limit, patch.stiffness * size
        )


def require_close(what: str, found: np.ndarray, right: np.ndarray, limit: float, size: float) -> None:
    """Require equality but for a share of a size."""
    if not np.isfinite(found).all():
        raise WrongAnswer(f"{what}: not finite")
    error = float(np.abs(found - right).max(initial=0.0))
    if not error <= limit * size:
        raise WrongAnswer(f"{what}: off by {error / size if size else error:.1e}, {limit:.1e} expected")


def told(solution: disol.Solution) -> float:
    """Return the rounding error that a solution tells of itself."""
    return 0.0 if solution.rounding_error is None else float(np.max(solution.rounding_error))


def solve_surely(statement: Statement) -> disol.Solution:
    """Solve what is right: it may not be refused unless double precision does not do."""
    try:
        solution = statement.solve()
    except disol.DisolError as error:
        if "double precision" in str(error) or "ill-conditioned" in str(error):
            raise
        raise WrongAnswer(f"refused though it is right: {error}") from error
    return solution


def check_constant(statement: Statement, values: tuple[float, ...]) -> None:
    """Require that constant all over."""
    solution = solve_surely(statement)
    right = np.array(values)[:, None] * np.ones(int(solution.case.domain.sum()))
    found = solution.field[..., solution.case.domain]
    limit = EXACT + 10 * told(solution)
    require_close("constant", found, np.broadcast_to(right, found.shape), limit, np.abs(right).max())
    check_balance(solution)


def check_balance(solution: disol.Solution, sure: bool = True) -> None:
    """Require a finite solution that is 0 outside, and totals that add up to 0.

    sure   they may not be refused
    """
    if not np.isfinite(solution.field).all() or solution.field[..., ~solution.case.domain].any():
        raise WrongAnswer("a solution that is not finite, or not 0 outside the domain")
    if solution.is_batch or solution.rounding_error is None:
        return
    try:
        *rows, (_, _, balance) = solution.totals()
    except disol.DisolError as error:
        if sure:
            raise WrongAnswer(f"totals refused: {error}") from error
        return
    totals = np.stack([np.atleast_1d(value) for _, _, value in rows])
    if not np.isfinite(totals).all():
        raise WrongAnswer("totals that are not finite")
    limit = BALANCED + 10 * told(solution)
    largest = np.abs(totals).max(initial=0.0)
    if largest > 1e-290 and not np.abs(balance).max() <= limit * largest + throughput(solution):
        raise WrongAnswer(f"totals balance to {np.abs(balance).max() / largest:.1e} of {largest:.1e}")


def ask(solution: disol.Solution, question: str) -> None:
    """Require a finite answer to a question, or a refusal, of a case that may be anything."""
    check_balance(solution, sure=False)
    if solution.is_batch:
        return
    answer: dict[str, Any] = {}
    if question == "derived":
        answer = {"gradient": solution.gradient, **solution.derived}
    elif question == "boundary":
        answer = {name: value for name, value in vars(solution.boundary()).items() if np.ndim(value)}
    elif question == "adjoint":
        answer = disol.solve_adjoint(solution, np.ones_like(solution.field))
    elif question == "distance":
        answer = {"distance": solution.estimate_distance()}
    for name, value in answer.items():
        values = np.array(list(value.values())) if isinstance(value, dict) else np.asarray(value)
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            raise WrongAnswer(f"{name} is not finite")


def throughput(solution: disol.Solution) -> float:
    """Return what rounding may leave where much flows in and out again: a share of the largest entry of A times U."""
    matrix = disol.system(solution.case).matrix
    largest = float(np.max(np.abs(solution.field)))
    return 1e-10 * float(np.abs(matrix.data).max()) / solution.problem.flux_factor * largest


def check_linearity(one: Statement, other: Statement, factors: tuple[float, ...]) -> None:
    """Require a U₁ + b U₂ where a and b times what drives U₁ and U₂ drive it."""
    a, b = factors

    def joined(first: Any, second: Any) -> Any:
        if isinstance(first, Mapping):
            return {part: joined(own, second[part]) for part, own in first.items()}
        if isinstance(first, tuple):
            return tuple(joined(*pair) for pair in zip(first, second, strict=True))
        return a * first + b * second

    plain = plainly(one)
    given = dict(plain.given)
    for name in LINEAR:
        if name == "convection" and name in given:
            both = plain.given[name], other.given[name]
            given[name] = {part: (own[0], joined(own[1], both[1][part][1])) for part, own in both[0].items()}
        elif name in given:
            given[name] = joined(plain.given[name], other.given[name])
    solutions = [each.solve() for each in (one, other, replace(one, given=given))]
    first, second, both = (solution.field for solution in solutions)
    size = abs(a) * np.abs(first).max() + abs(b) * np.abs(second).max()
    limit = EXACT + 10 * max(map(told, solutions))
    require_close("linearity", both, a * first + b * second, limit, size)


def check_units(statement: Statement, factor: float) -> None:
    """Require the same solution in a unit of length that is so many times smaller."""
    powers = {"velocity": -1, "reaction": -2, "source": -2, "body_force": -2, "density": -2} | dict.fromkeys(
        ("flux", "force_x", "force_y", "convection"), -1
    )
    plain = plainly(statement)

    def changed(name: str, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {move(part, factor): changed(name, own) for part, own in value.items()}
        if name == "convection":
            return (value[0] / factor, value[1])
        scale = factor ** powers.get(name, 0)
        if callable(value):
            return lambda x, y: scale * value(np.asarray(x) / factor, np.asarray(y) / factor)
        return tuple(scale * each for each in value) if isinstance(value, tuple) else scale * value

    kept = {name: value for name, value in plain.given.items() if name in ("times", "plane")}
    given = {name: changed(name, value) for name, value in plain.given.items() if name not in kept}
    if statement.problem == "heat" and "density" not in given:
        given["density"] = factor**-2.0
    elif statement.problem == "heat":
        given["source"] = plain.given["source"] * factor**-2.0
    other = Statement(statement.problem, statement.plate.scaled(factor), {**given, **kept})
    one, another = statement.solve(), other.solve()
    limit = SAME + 10 * max(told(one), told(another))
    require_close("another unit", another.field, one.field, limit, np.abs(one.field).max())


def move(part: str, factor: float) -> str:
    """Write the point of near:X,Y in another unit."""
    kind, _, place = part.partition(":")
    if kind != "near":
        return part
    return f"near:{','.join(repr(factor * float(number)) for number in place.split(','))}"


def check_adjoint(statement: Statement, seed: int) -> None:
    """Compare derivatives of a weighted sum of the field with a central difference, in one direction."""
    rng = np.random.default_rng(seed)
    plain = plainly(statement)
    case = plain.pose()
    solution = disol.solve_exact(case, keep_factors=chance(rng, 0.5))
    weights = rng.normal(size=solution.field.shape)
    gradients = disol.solve_adjoint(solution, weights)
    name = pick(rng, [each for each in gradients if not callable(plain.given.get(each)) and each in plain.given])
    value, gradient = plain.given[name], gradients[name]
    if isinstance(value, Mapping):
        numbers = np.array([*value.values()], float)
        slopes = np.array([gradient[part] for part in value], float)
    else:
        numbers, slopes = np.array(value, float), np.asarray(gradient, float)
        if slopes.shape != numbers.shape:  # a number stands for one on each pixel
            slopes = slopes.sum(axis=(-2, -1))
    way = np.abs(numbers) * rng.normal(size=numbers.shape)
    if name in ("diffusion", "conductivity") and numbers.shape[:2] == (2, 2):
        way = 0.5 * (way + np.swapaxes(way, 0, 1))
    sums = []
    for sign in (1, -1):
        moved = numbers + sign * STEP * way
        given: Any = moved if moved.ndim else float(moved)
        if isinstance(value, Mapping):
            given = {part: own if np.ndim(own) else float(own) for part, own in zip(value, moved, strict=True)}
        elif isinstance(value, tuple):
            given = tuple(moved.tolist())
        sums.append(float((weights * replace(plain, given={**plain.given, name: given}).solve().field).sum()))
    measured, found = (sums[0] - sums[1]) / (2 * STEP), float((slopes * way).sum())
    noise = (1e-12 + told(solution)) * float(np.abs(weights * solution.field).sum()) / STEP
    if not abs(measured - found) <= DIFFERENTIATED * float(np.abs(slopes * way).sum()) + noise:
        raise WrongAnswer(f"derivative in {name} is {found:.6e}, a central difference {measured:.6e}")


def check_batch(statement: Statement) -> None:
    """Require that cases of a batch are solved as they are alone."""
    case = statement.pose()
    both = disol.solve_exact([case, case])
    alone = disol.solve_exact(case)
    for field in both.field:
        require_close("a batch", field, alone.field, 0.0, 1.0)
