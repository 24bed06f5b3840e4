"""Inputs of functions: cases compared with the oracle, exact relations, and calls with arguments of any kind."""

import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import ndimage

import disol
import oracle
from attempts import (
    Attempt,
    WrongAnswer,
    anything,
    chance,
    hostile_array,
    hostile_number,
    hostile_text,
    magnitude,
    pick,
    short,
)
from geometries import draw_document, paint

# What docs/discretisation.md promises: an error above 1e-6 of the largest value comes with a warning, one above 1e-2 is
# refused, and none is more than ten times what `rounding_error` says, but for what the last digits of the numbers of
# the equation change.
UNWARNED, WARNED, TIMES_TOLD, LAST_DIGITS = 1e-6, 1e-2, 10, 1e-12
SURE = 1e-7  # what plain elimination in double precision gets right to this, not by chance, may not be refused
SURE_CONDITION = 1e12
PREDICTED = 0.5  # largest relative L2 error of a prediction of a case like those of training; most are below 0.02
RELATED = 1e-7  # how far two solutions may differ that are the same in exact arithmetic
NUMBERS: dict[str, dict[str, Any]] = {
    "poisson": {"diffusion": 1.0, "velocity": (0.0, 0.0)},
    "advection-diffusion-low": {"diffusion": 1.0, "velocity": (0.25, 0.5)},
    "advection-diffusion-high": {"diffusion": 0.2, "velocity": (0.5, -1.0)},
    "elasticity": {"young": 1e3, "poisson_ratio": 0.3},
    "heat": {"time_scale": 0.01, "source_strength": 3.0, "steps_per_frame": 1},
}
SUPPORTS = {name: ("fix_x", "fix_y") if name == "elasticity" else ("dirichlet",) for name in NUMBERS}
LOADS = dict.fromkeys(NUMBERS, ("source",)) | {"elasticity": ("force_x", "force_y"), "heat": ("source", "initial")}
DTYPES = ["f8", "f8", "f8", "f4", "f2", "g", ">f8", "i8", "i1", "u1", "u8", "?"]


@dataclass(frozen=True)
class Affine:
    """f = a + b x + c y."""

    a: float
    b: float
    c: float

    def __call__(self, x: Any, y: Any) -> Any:
        """Evaluate at arrays."""
        return self.a + self.b * x + self.c * y


@dataclass(frozen=True)
class Wave:
    """f = a sin(b x + c y)."""

    a: float
    b: float
    c: float

    def __call__(self, x: Any, y: Any) -> Any:
        """Evaluate at arrays."""
        return self.a * np.sin(self.b * x + self.c * y)


def draw_domain(rng: np.random.Generator) -> np.ndarray:
    """Draw a mask of at most some 150 pixels: blocks, strips, combs, chequers, specks."""
    kind = rng.integers(8)
    if kind == 0:
        shape = (1, int(rng.integers(1, 25)))
        domain = np.ones(shape if chance(rng, 0.5) else shape[::-1], bool)
    elif kind == 1:  # one-pixel serpentine
        rows, columns = 2 * int(rng.integers(1, 5)) + 1, int(rng.integers(2, 9))
        domain = np.zeros((rows, columns), bool)
        domain[::2] = True
        for turn, row in enumerate(range(1, rows, 2)):
            domain[row, -1 if turn % 2 == 0 else 0] = True
        domain = domain if chance(rng, 0.5) else domain.T
    else:
        shape = (int(rng.integers(1, 10)), int(rng.integers(1, 10))) if chance(rng, 0.9) else (13, 12)
        domain = np.ones(shape, bool)
        if kind == 2:
            domain = rng.random(shape) < rng.uniform(0.2, 1)
        elif kind == 3:
            domain = np.indices(shape).sum(axis=0) % 2 == 0
        elif kind == 4 and min(shape) > 2:
            domain[1:-1, 1:-1] = False
        elif kind == 5:
            domain = np.zeros(shape, bool)
            domain[tuple(rng.integers(side) for side in shape)] = True
    if not domain.any():
        domain[0, 0] = True
    return domain


def draw_support(rng: np.random.Generator, domain: np.ndarray) -> np.ndarray:
    """Mark a pixel on each part, and some more."""
    labels, count = ndimage.label(domain)
    marked = np.zeros(domain.shape, bool)
    for part in range(1, count + 1):
        places = np.argwhere(labels == part)
        place = places[-1] if chance(rng, 0.3) else places[rng.integers(len(places))]
        marked[tuple(place)] = True
    return marked | (domain & (rng.random(domain.shape) < rng.choice([0.0, 0.0, 0.1, 0.5])))


def draw_values(rng: np.random.Generator, shape: tuple[int, ...], size: float) -> np.ndarray:
    """Draw one value per pixel, of any kind of number."""
    kind = rng.integers(5)
    if kind == 0:
        values = np.full(shape, size)
    elif kind == 1:
        values = np.zeros(shape)
        values.reshape(-1)[rng.integers(values.size)] = size
    else:
        values = size * rng.normal(size=shape)
    dtype = np.dtype(pick(rng, DTYPES))
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if dtype.kind in "iu":
            values = np.clip(np.round(values), -100 if dtype.kind == "i" else 0, 100)
        converted = values.astype(dtype)
    return converted if np.isfinite(converted.astype(float)).all() else values


def draw_numbers(rng: np.random.Generator, problem: str) -> dict[str, Any]:
    """Draw the numbers of an equation: its own mostly, else any that are allowed."""
    numbers = dict(NUMBERS[problem])
    if chance(rng, 0.6):
        return numbers
    for name, usual in NUMBERS[problem].items():
        if name == "velocity":
            numbers[name] = tuple(float(rng.normal() * magnitude(rng)) * chance(rng, 0.8) for _ in range(2))
        elif name == "poisson_ratio":
            numbers[name] = float(pick(rng, [rng.uniform(-0.99, 0.49), 0.0, 0.4999, 0.4999999, -0.9999]))
        elif name == "steps_per_frame":
            numbers[name] = int(rng.integers(1, 4))
        elif name == "source_strength":
            numbers[name] = float(rng.normal() * magnitude(rng))
        else:
            numbers[name] = magnitude(rng, 0.3) * float(usual)
    return numbers


def draw_case(rng: np.random.Generator) -> oracle.Case:
    """Draw a case that is right in all that can be seen without solving it."""
    problem = pick(rng, list(NUMBERS))
    conventions = "paper" if problem == "heat" or chance(rng, 0.5) else "published"
    element = "q1" if chance(rng, 0.7) else "p1"
    domain = draw_domain(rng)
    held = tuple(draw_support(rng, domain) for _ in SUPPORTS[problem])
    terms: dict[str, Any] = {}
    for name in LOADS[problem]:
        size = magnitude(rng)
        if name.startswith("force"):
            terms[name] = draw_values(rng, domain.shape, size) * (domain & (rng.random(domain.shape) < 0.5))
        elif chance(rng, 0.3):
            terms[name] = (Affine if element == "p1" else Wave)(size, *rng.normal(size=2))
        else:
            terms[name] = draw_values(rng, domain.shape, size)
    numbers = draw_numbers(rng, problem)
    steps = rng.integers(0, 20, size=rng.integers(1, 4)) * 2.0 / numbers.get("steps_per_frame", 1)
    times = tuple(steps.tolist()) if problem == "heat" else ()
    return oracle.Case(problem, conventions, element, domain, held, terms, numbers, times)  # type: ignore[arg-type]


def given(case: oracle.Case) -> dict[str, Any]:
    """Return the terms of a case as a user gives them."""
    supports = dict(zip(SUPPORTS[case.problem], case.held, strict=True))
    times = {"times": list(case.times)} if case.times else {}
    return {"domain": case.domain, **supports, **case.terms, **times}


def disguised(rng: np.random.Generator, data: Mapping[str, Any]) -> dict[str, Any]:
    """Give arrays in another form of the same values."""
    shown = dict(data)
    for name, value in data.items():
        if isinstance(value, np.ndarray) and chance(rng, 0.3):
            way = rng.integers(5)
            if way == 0:
                shown[name] = value.tolist() if value.dtype != np.longdouble else value
            elif way == 1:
                shown[name] = np.asfortranarray(value)
            elif way == 2 and value.dtype == bool:
                shown[name] = value.astype(pick(rng, ["u1", "f4", "i8"]))
            elif way == 3:
                shown[name] = np.repeat(value, 2, axis=0)[::2]
            elif value.dtype.isnative and value.dtype.name in ("float64", "float32", "bool", "int64"):
                import torch

                shown[name] = torch.from_numpy(value.copy())
    return shown


def solve(rng: np.random.Generator, folder: Path) -> Attempt:
    """Solve a case, alone or in a batch, and compare it with the oracle."""
    del folder
    case = draw_case(rng)
    way = pick(rng, ["one", "one", "one", "batch of arrays", "list of cases", "batched solver"])
    data = disguised(rng, given(case)) if way == "one" else given(case)
    others = [redrawn(rng, case) for _ in range(int(rng.integers(1, 3)))] if way != "one" else []
    text = f"{way}: {case.problem}, {case.conventions}, {case.element}, {short(data, 400)}, {case.numbers}"
    return Attempt(text, lambda: check_case(case, data) if way == "one" else check_batch([case, *others], way))


def redrawn(rng: np.random.Generator, case: oracle.Case) -> oracle.Case:
    """Draw other supports and loads on the same grid."""
    terms = {
        name: value
        if callable(value)
        else rng.normal(size=value.shape) * (case.domain & (rng.random(value.shape) < 0.7))
        for name, value in case.terms.items()
    }
    return replace(case, held=tuple(draw_support(rng, case.domain) for _ in case.held), terms=terms)


def check_case(case: oracle.Case, data: Mapping[str, Any]) -> None:
    """Require that a case is solved as the oracle solves it, or refused for a reason."""
    options = {"conventions": case.conventions, "element": case.element, "device": "cpu"}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            solution = disol.solve_exact(case.problem, **data, **case.numbers, **options)  # type: ignore[arg-type]
        except disol.DisolError as error:
            require_reason(case, str(error))
            raise
    warned = any(issubclass(each.category, UserWarning) for each in caught)
    compare(case, solution.field, solution.amplitude, warned, solution.rounding_error)


def require_reason(case: oracle.Case, message: str) -> None:
    """Require that a case is refused only if nothing is free, or double precision does not do for it."""
    if not case.free():
        return
    answer = oracle.solve(case)
    if answer is None:
        return
    plain, condition = solve_plainly(case)
    sizes = [abs(float(size)) for size in answer.amplitude]
    in_range = all(size == 0 or 1e-280 < size < 1e280 for size in sizes)
    numbers = [abs(value) for own in case.numbers.values() for value in np.ravel(own).tolist()]
    ordinary = all(value == 0 or 1e-100 < value < 1e100 for value in numbers)
    if in_range and ordinary and condition < SURE_CONDITION and answer.error_of(plain) < SURE:
        raise WrongAnswer(
            f"refused though plain elimination solves it to {answer.error_of(plain):.1e}: {message[:200]}"
        )


def solve_plainly(case: oracle.Case) -> tuple[np.ndarray, float]:
    """Solve in double precision by dense elimination; NaN where that fails and for heat. Tell the condition, too."""
    from decimal import localcontext

    frames = np.full((max(1, len(case.times)), len(case.held), *case.domain.shape), np.nan)
    if case.problem == "heat":
        return frames, np.inf
    with localcontext(prec=oracle.DIGITS):
        unknowns = case.free()
        places = {own: place for place, own in enumerate(unknowns)}
        matrix = np.zeros((len(unknowns), len(unknowns)))
        for (row, column), value in oracle.assemble(case, oracle.element_matrix(case)).items():
            if row in places and column in places:
                matrix[places[row], places[column]] = float(value)
        load = oracle.load_vector(case)
        with np.errstate(all="ignore"):
            try:
                values = np.linalg.solve(matrix, np.array([float(load.get(own, 0)) for own in unknowns]))
                condition = float(np.linalg.cond(matrix))
            except np.linalg.LinAlgError:
                return frames, np.inf
        if not np.isfinite(values).all():
            return frames, np.inf
        decimals = {own: oracle.exact(float(value)) for own, value in zip(unknowns, values, strict=True)}
        frames[0] = oracle.pixel_field(case, decimals).astype(float)
    return frames, condition


def compare(case: oracle.Case, field: Any, amplitude: Any, warned: bool, told: Any) -> None:
    """Require the field and the amplitude of the oracle, but for the rounding error that was told."""
    answer = oracle.solve(case)
    if answer is None:
        raise WrongAnswer("solved, but the system is singular")
    limit = min(WARNED if warned else UNWARNED, TIMES_TOLD * told + LAST_DIGITS)
    error = answer.error_of(field)
    said = f"where {told:.1e} was told {'with' if warned else 'without'} a warning"
    if not error <= limit:
        raise WrongAnswer(f"relative error {error:.1e} {said}, max |U| {float(max(answer.amplitude)):.3e}")
    sizes = np.atleast_1d(np.asarray(amplitude, float))
    for own, right in zip(sizes, answer.amplitude, strict=True):
        if not abs(float(own) - float(right)) <= limit * float(max(answer.amplitude)):
            raise WrongAnswer(f"amplitude {own:.6e} {said}, {float(right):.6e} expected")


def check_batch(cases: list[oracle.Case], way: str) -> None:
    """Require that every case of a batch is solved as the oracle solves it."""
    first = cases[0]
    posed = [
        disol.Case.from_arrays(case.problem, conventions=case.conventions, **given(case), **case.numbers)
        for case in cases
    ]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        errors: Any
        if way == "batched solver":
            fields, errors = solve_batched(posed, first.element)
            amplitudes = None
        elif way == "list of cases":
            solution = disol.solve_exact(posed, element=first.element, device="cpu")
            fields, amplitudes, errors = solution.field, solution.amplitude, solution.rounding_error
        else:
            solution = disol.solve_exact(
                first.problem,
                conventions=first.conventions,
                element=first.element,
                device="cpu",
                **stacked(cases),
                **first.numbers,
            )
            fields, amplitudes, errors = solution.field, solution.amplitude, solution.rounding_error
    warned = any(issubclass(each.category, UserWarning) for each in caught)
    for number, case in enumerate(cases):
        answer = oracle.solve(case)
        size = () if answer is None else [float(each) for each in answer.amplitude]
        own = size if amplitudes is None else np.asarray(amplitudes)[number]
        compare(case, fields[number], own, warned, errors[number])


def stacked(cases: list[oracle.Case]) -> dict[str, Any]:
    """Return the terms of cases as those of a batch."""
    data = [given(case) for case in cases]
    joined: dict[str, Any] = {}
    for name, value in data[0].items():
        values = [each[name] for each in data]
        shared = name in ("domain", "times")
        joined[name] = value if shared else values if any(map(callable, values)) else np.stack(values)
    return joined


def solve_batched(cases: list[disol.Case], element: str) -> tuple[np.ndarray, np.ndarray]:
    """Solve by the batched direct solver, which large batches take on a GPU; return what it tells of errors, too."""
    import torch

    from disol.fem import System
    from disol.grid import pixel_means
    from disol.solvers import solve_systems

    frames = cases[0].problem.frames(cases[0].times)
    solved = solve_systems(System.stack([case.system(element) for case in cases]), frames.steps, torch.device("cpu"))
    nodes = solved.frames.numpy()
    domains = np.stack([case.domain for case in cases])[:, None, None]
    return np.asarray(frames.pick(pixel_means(nodes) * domains)), solved.rounding_error.numpy()


def relations(rng: np.random.Generator, folder: Path) -> Attempt:
    """Solve drawn cases that must be related: mirrored, turned, added, in a batch, as a system."""
    del folder
    problem = pick(rng, list(NUMBERS))
    conventions = "paper" if problem == "heat" or chance(rng, 0.5) else "published"
    shift = pick(rng, [None, "all", "broad", "released", "shape:star+hole"])
    side, seed, index = int(rng.integers(16, 33)), int(rng.integers(10**6)), int(rng.integers(100))
    relation = pick(rng, ["linear", "symmetric", "batch", "system"])
    text = f"{relation}: draw({problem!r}, {seed}, {index}, resolution={side}, shift={shift!r}, {conventions})"

    def run() -> None:
        case = disol.draw(problem, seed, index, resolution=side, shift=shift, conventions=conventions)
        {"linear": check_linear, "symmetric": check_symmetric, "batch": check_members, "system": check_system}[
            relation
        ](case, np.random.default_rng(seed))

    return Attempt(text, run)


def arrays_of(case: disol.Case) -> dict[str, Any]:
    """Return the terms of a drawn case with fields as values per pixel, at one time."""
    y, x = (np.indices(case.domain.shape) + 0.5) / len(case.domain)
    terms = {
        name: value(x[:1], y[:, :1]) * case.domain if callable(value) else value for name, value in case.terms.items()
    }
    return terms | ({"times": [8.0]} if "times" in terms else {})


def field_of(case: disol.Case, data: Mapping[str, Any], **numbers: Any) -> np.ndarray:
    """Solve a case of the same problem."""
    return disol.solve_exact(case.problem, conventions=case.conventions, device="cpu", **data, **numbers).field


def require_close(found: np.ndarray, expected: np.ndarray, what: str) -> None:
    """Require that two fields are the same but for rounding."""
    size = np.abs(expected).max()
    error = np.abs(found - expected).max() / size if size else float(np.abs(found).max() > 0)
    if not error <= RELATED:
        raise WrongAnswer(f"{what}: relative difference {error:.1e}")


def check_linear(case: disol.Case, rng: np.random.Generator) -> None:
    """A sum of loads has the sum of the solutions."""
    data = arrays_of(case)
    names = LOADS[case.problem.name]
    other = {name: rng.normal(size=case.domain.shape) * (data[name] != 0) for name in names}
    a, b = rng.normal(size=2)
    added = data | {name: a * data[name] + b * other[name] for name in names}
    expected = a * field_of(case, data) + b * field_of(case, data | other)
    if "force_x" in names and any(((added[name] != 0) != (data[name] != 0)).any() for name in names):
        return  # what is not loaded does not count in the mean of a node
    require_close(field_of(case, added), expected, "linearity")


def check_symmetric(case: disol.Case, rng: np.random.Generator) -> None:
    """A mirrored or transposed case has the mirrored or transposed solution; velocities and components go along."""
    data, kind = arrays_of(case), pick(rng, ["left to right", "upside down", "transposed"])

    def act(image: np.ndarray) -> np.ndarray:
        if kind == "transposed":
            return np.swapaxes(image, -1, -2)
        return np.flip(image, -1 if kind == "left to right" else -2)

    turned = {name: act(value) if isinstance(value, np.ndarray) else value for name, value in data.items()}
    expected = act(field_of(case, data)).copy()
    numbers: dict[str, Any] = {}
    if "force_x" in data:
        if kind == "transposed":
            turned = {swap_axis(name): value for name, value in turned.items()}
            expected = expected[::-1]
        else:
            axis = 0 if kind == "left to right" else 1
            name = ("force_x", "force_y")[axis]
            turned[name] = -turned[name]
            expected[axis] *= -1
    elif hasattr(case.problem, "velocity"):
        x, y = case.problem.velocity
        numbers["velocity"] = {"left to right": (-x, y), "upside down": (x, -y), "transposed": (y, x)}[kind]
    require_close(field_of(case, turned, **numbers), expected, kind)


def swap_axis(name: str) -> str:
    """Return the name of the same term along the other axis."""
    return name.replace("_x", "_?").replace("_y", "_x").replace("_?", "_y")


def check_members(case: disol.Case, rng: np.random.Generator) -> None:
    """A case of a batch has the solution that it has alone, by either solver."""
    others = [
        disol.draw(
            case.problem,
            int(rng.integers(10**6)),
            resolution=len(case.domain),
            conventions=case.conventions,
            shift=case.shift,
        )
        for _ in range(2)
    ]
    times: dict[str, Any] = {"times": [8.0]} if case.times is not None else {}
    cases = [disol.Case.from_arrays(each, **times) if times else each for each in (case, *others)]
    together, batched = disol.solve_exact(cases, device="cpu").field, solve_batched(cases, "q1")[0]
    for number, own in enumerate(cases):
        alone = disol.solve_exact(own).field
        require_close(together[number], alone, "in a batch")
        require_close(batched[number], alone, "by the batched solver")


def check_system(case: disol.Case, rng: np.random.Generator) -> None:
    """The system of a case is that of its solution: no residual, and half the work of the load as energy."""
    del rng
    data = arrays_of(case)
    posed = disol.Case.from_arrays(case.problem, conventions=case.conventions, **data)
    system, nodes = disol.system(posed), disol.solve_exact(posed).nodes
    assert nodes is not None
    if posed.times is not None:
        return
    vector = system.to_vector(nodes)
    scale = abs(system.matrix).max() * np.abs(vector).max() + np.abs(system.load).max()
    if np.abs(system.residual(nodes)).max() > 1e-12 * scale:
        raise WrongAnswer(f"residual {np.abs(system.residual(nodes)).max():.1e} against {scale:.1e}")
    if abs(system.matrix - system.matrix.T).max() < 1e-12 * abs(system.matrix).max():
        work = 0.5 * float(system.load @ vector)
        if abs(system.energy(nodes) - work) > RELATED * abs(work):
            raise WrongAnswer(f"energy {system.energy(nodes):.6e}, half the work of the load {work:.6e}")


def calls(rng: np.random.Generator, folder: Path) -> Attempt:
    """Call functions with one or several arguments of any kind among right ones."""
    del folder
    case = draw_case(rng)
    data: dict[str, Any] = {**given(case), "conventions": case.conventions, "element": case.element}
    data |= case.numbers if chance(rng, 0.3) else {}
    problem: Any = case.problem
    for _ in range(int(rng.integers(1, 3))):
        name = pick(rng, [*data, "problem", "device", "unknown"])
        if name == "problem":
            problem = anything(rng)
        elif isinstance(data.get(name), np.ndarray) and chance(rng, 0.6):
            data[name] = hostile_array(rng, case.domain.shape if chance(rng, 0.6) else None)
        elif chance(rng, 0.1):
            data.pop(name, None)
        elif name == "times" and chance(rng, 0.7):
            data[name] = [hostile_number(rng) for _ in range(int(rng.integers(0, 3)))]
        else:
            data[name] = anything(rng) if name != "device" else pick(rng, ["cuda:99", "tpu", None, 3, "", "cpu "])
    what = pick(rng, ["solve_exact", "solve_exact", "from_arrays", "system", "stack", "inputs"])
    text = f"{what}({short(problem, 40)}, {short(data, 500)})"

    def run() -> None:
        known = {name: value for name, value in data.items() if name not in ("element", "device")}
        if what == "solve_exact":
            found = disol.solve_exact(problem, **data)
            if not np.isfinite(found.field).all():
                raise WrongAnswer("a solution that is not finite")
        elif what == "system":
            repr(disol.system(problem, **{name: value for name, value in data.items() if name != "device"}).matrix)
        elif what == "stack":
            built = disol.Case.from_arrays(problem, **known)
            disol.Case.stack([built, built] if not built.is_batch else [built])
        else:
            built = disol.Case.from_arrays(problem, **known)
            repr(built)
            if not np.isfinite(built.inputs).all():
                raise WrongAnswer("channels that are not finite")

    return Attempt(text, run)


def draws(rng: np.random.Generator, folder: Path) -> Attempt:
    """Draw cases with right and odd arguments."""
    del folder
    problem: Any = pick(rng, list(NUMBERS))
    arguments: dict[str, Any] = {
        "seed": int(10 ** rng.uniform(0, 30)),
        "index": int(10 ** rng.uniform(0, 12)),
        "resolution": int(rng.integers(16, 65)),
        "shift": draw_shift(rng),
        "conventions": pick(rng, ["paper", "published", "physical"]),
        "alpha": float(pick(rng, [0.8, rng.uniform(-0.1, 1.1), 0.0, 1.0])),
    }
    for _ in range(int(rng.choice([0, 0, 1, 2]))):
        name = pick(rng, list(arguments))
        value = anything(rng) if chance(rng, 0.5) else hostile_number(rng)
        # A resolution of thousands is allowed, and takes its time.
        arguments[name] = value if not (name == "resolution" and isinstance(value, int) and 512 < value <= 4096) else 15

    def run() -> None:
        case, again = (disol.draw(problem, **arguments) for _ in range(2))
        if not np.array_equal(case.inputs, again.inputs):
            raise WrongAnswer("the same seed gave two cases")
        if not np.isfinite(case.inputs).all() or not case.domain.any():
            raise WrongAnswer("a case that is empty or not finite")
        if not np.isfinite(disol.solve_exact(case).field).all():
            raise WrongAnswer("a solution that is not finite")

    return Attempt(f"draw({problem!r}, {short(arguments, 400)})", run)


def draw_shift(rng: np.random.Generator) -> Any:
    """Draw a shift: a name, a size, several, or what looks like one."""
    factors = [
        "topology",
        "boundary",
        "source",
        "all",
        "broad",
        "released",
        "shape:arrow",
        "shape:star+hole",
        "shape:y",
    ]
    kind = rng.integers(6)
    if kind == 0:
        return None
    if kind <= 2:
        return pick(rng, factors)
    low = float(rng.uniform(-0.2, 8))
    size = pick(
        rng, [f"{low:.2g}", f"{low / 8:.2g}..{low / 4 + 0.1:.2g}", "0.3", "3", "1e9", "-1", "nan", "", "1..2..3"]
    )
    if kind == 3:
        return ",".join(f"{pick(rng, factors)}={size}" for _ in range(int(rng.integers(1, 3))))
    if kind == 4:
        value = pick(rng, [low, (low, low + 1), [1], "x", None, hostile_number(rng)])
        return {pick(rng, factors): value, pick(rng, factors): 0.3}
    return hostile_text(rng)


def surrogates(rng: np.random.Generator, folder: Path) -> Attempt:
    """Verify and predict by shipped models, on right and odd inputs."""
    del folder
    problem = pick(rng, list(NUMBERS))
    case = draw_case(rng)
    while case.problem != problem:
        case = draw_case(rng)
    times = (2.0, 8.0) if problem == "heat" else ()
    case = replace(case, conventions="paper", element="q1", numbers=NUMBERS[problem], times=times)
    if chance(rng, 0.4):
        inputs = hostile_array(rng, (1, len(given(case)), 16, 16)) if chance(rng, 0.7) else anything(rng)
        return Attempt(f"load({problem!r}).predict_pattern({short(inputs)})", lambda: check_prediction(problem, inputs))
    data = disguised(rng, given(case))
    if chance(rng, 0.3):
        data[pick(rng, list(data))] = anything(rng)
        return Attempt(f"load({problem!r}).verify({short(data, 400)})", lambda: check_prediction(problem, None, data))
    return Attempt(f"load({problem!r}).verify({short(data, 400)}), checked", lambda: check_verified(case, data))


def check_prediction(problem: str, inputs: Any, data: Mapping[str, Any] | None = None) -> None:
    """Require that what is not refused is finite."""
    surrogate = loaded(problem)
    if data is None:
        found = [surrogate.predict_pattern(inputs)]
    else:
        verified = surrogate.verify(**data)
        found = [verified.prediction.field, verified.exact.field]
    if not all(np.isfinite(each).all() for each in found):
        raise WrongAnswer("a prediction that is not finite")


def check_verified(case: oracle.Case, data: Mapping[str, Any]) -> None:
    """Require the exact solution beside a prediction, and an error that is the distance of the two."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        verified = loaded(case.problem).verify(**data)
    warned = any("trained" not in str(each.message) for each in caught)
    compare(case, verified.exact.field, verified.exact.amplitude, warned, verified.exact.rounding_error)
    exact, prediction = verified.exact.field, verified.prediction.field
    size = np.linalg.norm(exact / (np.abs(exact).max() or 1))
    gap = np.linalg.norm((prediction - exact) / (np.abs(exact).max() or 1))
    if not np.isfinite(prediction).all() or (
        size and abs(gap / size - float(verified.error)) > 1e-4 * (1 + gap / size)
    ):
        raise WrongAnswer(f"error {float(verified.error):.6e}, measured {gap / size if size else gap:.6e}")


SOLVING = ("ill-conditioned", "singular", "flows")  # in messages about solutions, which a prediction does without


def predictions(rng: np.random.Generator, folder: Path) -> Attempt:
    """Predict in physical units by shipped models: cases like those of training, any others, and odd data."""
    del folder
    kind = pick(rng, ["like training", "like training", "any", "odd"])
    if kind == "like training":
        problem = pick(rng, ["poisson", "advection-diffusion-low", "advection-diffusion-high", "heat"])
        shift = None if problem == "heat" else pick(rng, [None, "all", "broad"])
        seed, size = int(rng.integers(10**9)), float(pick(rng, [1.0, 1.0, -1.0, 1e-9, 1e9]))
        return Attempt(
            f"load({problem!r}).predict(draw({problem!r}, {seed}, shift={shift!r}) times {size:g})",
            lambda: check_predicted(problem, seed, shift, size),
        )
    case = replace(draw_case(rng), conventions="paper", element="q1")
    case = replace(case, numbers=NUMBERS[case.problem], times=(2.0, 8.0) if case.problem == "heat" else ())
    data = disguised(rng, given(case))
    if kind == "odd":
        data[pick(rng, [*data, "unknown"])] = anything(rng)
    return Attempt(f"load({case.problem!r}).predict({short(data, 400)})", lambda: check_any(case.problem, data))


def check_predicted(problem: str, seed: int, shift: str | None, size: float) -> None:
    """Require a prediction near the exact solution, alone and in a batch, of a load of any size."""
    surrogate = loaded(problem)
    case = disol.draw(problem, seed, resolution=surrogate.resolution, shift=shift, conventions="paper")
    data = arrays_of(case)
    data |= {name: size * data[name] for name in LOADS[problem]}
    scaled = disol.Case.from_arrays(case.problem, conventions=case.conventions, **data)
    predicted, exact = surrogate.predict(scaled), disol.solve_exact(scaled).field
    require_sound(predicted)
    error = np.linalg.norm(predicted.field - exact) / np.linalg.norm(exact)
    if not error <= PREDICTED:
        raise WrongAnswer(f"a prediction with the relative error {error:.2f}")
    together = surrogate.predict([scaled, scaled]).field[1]
    if np.abs(together - predicted.field).max() > 1e-3 * np.abs(exact).max():
        raise WrongAnswer("a prediction in a batch is another than alone")


def check_any(problem: str, data: Mapping[str, Any]) -> None:
    """Require a prediction that is sound, and none where an exact solution is refused but for how it is solved."""
    predicted = loaded(problem).predict(**data)
    require_sound(predicted)
    try:
        disol.solve_exact(problem, **data, conventions="paper")
    except disol.DisolError as error:
        if not any(word in str(error) for word in SOLVING):
            raise WrongAnswer(f"predicted, but not solved: {error}") from None


def require_sound(predicted: disol.Solution) -> None:
    """Require what is finite, 0 outside of the domain, and as large as it says."""
    field, domain = predicted.field, predicted.case.domain
    if not np.isfinite(field).all():
        raise WrongAnswer("a prediction that is not finite")
    if field[..., ~domain].any():
        raise WrongAnswer("a prediction that is not 0 outside of the domain")
    if predicted.case.times is None and abs(np.abs(field).max() - predicted.amplitude) > 1e-6 * predicted.amplitude:
        raise WrongAnswer(f"amplitude {predicted.amplitude:.6e}, largest value {np.abs(field).max():.6e}")


LOADED: dict[str, Any] = {}


def loaded(problem: str) -> Any:
    """Load a shipped model once."""
    if problem not in LOADED:
        LOADED[problem] = disol.load(problem, device="cpu")
    return LOADED[problem]


def boundaries(rng: np.random.Generator, folder: Path) -> Attempt:
    """Solve on the true boundary: masks of any kind, drawn cases, polygons and pictures, right and odd."""
    way = pick(rng, ["mask", "drawn", "polygons", "picture"])
    physical: dict[str, Any] = {"conventions": "physical"}
    if way == "mask":
        case = replace(draw_case(rng), element="q1")
        text = f"{case.problem}, {short(given(case), 400)}, {case.numbers}"
        data = {**given(case), **case.numbers, **physical}
        return Attempt(text, lambda: _solve_there(disol.Case.from_arrays(case.problem, **data)))
    problem = pick(rng, list(disol.PROBLEMS))
    if way == "drawn":
        seed, side = int(rng.integers(10_000)), int(rng.integers(16, 33))
        shift = pick(rng, [None, "all", "broad", "released", "shape:star+hole", "shape:slotted-plate+hole"])
        text = f"draw({problem!r}, {seed}, resolution={side}, shift={shift!r})"
        return Attempt(text, lambda: _solve_there(disol.draw(problem, seed, resolution=side, shift=shift, **physical)))
    path = folder / ("outline.json" if way == "polygons" else "part.png")
    content = json.dumps(draw_document(rng)).encode() if way == "polygons" else paint(rng, "PNG")
    path.write_bytes(content)
    side = int(rng.integers(16, 41))
    held = pick(rng, ["outer", "outer:0.9-0.2", "hole1", "outer:0-0.25,hole1:0.5-0.6", "outer:0.1-0.1000001"])
    texts: dict[str, Any] = {name: held for name in SUPPORTS[problem] if chance(rng, 0.5)}
    text = f"{problem}: {side}, {texts}, {len(content)} bytes, {content[:150]!r}"
    return Attempt(text, lambda: _solve_there(disol.read_case(problem, path, resolution=side, **texts, **physical)))


def _solve_there(case: disol.Case) -> None:
    found = disol.solve_exact(case)
    if not np.isfinite(found.field).all():
        raise WrongAnswer("a solution that is not finite")
    if found.field[..., ~case.domain].any():
        raise WrongAnswer("values outside the domain")
    if not np.isfinite(found.estimate_distance()):
        raise WrongAnswer("a distance that is not finite")
