"""The data that a user gives for a case by name, sorted and checked: numbers, coefficients, conditions, and terms."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict

import numpy as np
from jaxtyping import Bool
from numpy.typing import ArrayLike

from disol import _checks as checks
from disol._arrays import Array, to_device
from disol._terms import FORCE, SOURCE, SUPPORT, TIMES, FieldKind, Kind, terms_of_kind
from disol.cases.batches import require_one_count
from disol.cases.conditions import VALUES, on_grid, split_conditions
from disol.errors import DisolError
from disol.expressions import read_expression
from disol.fields import is_function
from disol.geometry.frame import Frame
from disol.problems.coefficients import read_number, split
from disol.problems.conventions import Conventions
from disol.problems.problem import Problem, Terms
from disol.problems.table import PROBLEMS

LARGEST_SIZE = 1e50  # of a grid, in the user's units; the smallest is its reciprocal

# One value per pixel, [height, width] or [batch, height, width], as an array, a tensor or nested lists.
# Under "physical" supports and forces also map parts of the boundary to values, as {"left": 20}, or as text "left=20".
Pixels = ArrayLike | Mapping[str, Any] | str
# A source can also be a number, a formula, a function f(x, y), or a list with one function for each case.
FieldLike = ArrayLike | Callable[..., Any] | Sequence[Callable[..., Any]]

# A number, one value per pixel, or a function f(x, y); a pair of them for a velocity, 2 x 2 for a tensor.
CoefficientLike = ArrayLike | Callable[..., Any]


class CaseData(TypedDict, total=False):
    """Terms and numbers of this package's problems: the keyword arguments of functions that take the data of a case."""

    domain: Pixels
    dirichlet: Pixels
    dirichlet_values: ArrayLike
    source: FieldLike
    initial: FieldLike
    fix_x: Pixels
    fix_x_values: ArrayLike
    fix_y: Pixels
    fix_y_values: ArrayLike
    force_x: Pixels
    force_y: Pixels
    flux: Mapping[str, Any] | str
    convection: Mapping[str, Any] | str
    size: float
    plane: str
    times: ArrayLike
    diffusion: CoefficientLike
    velocity: CoefficientLike
    reaction: CoefficientLike
    conductivity: CoefficientLike
    density: CoefficientLike
    capacity: CoefficientLike
    young: CoefficientLike
    poisson_ratio: CoefficientLike
    body_force: CoefficientLike
    time_scale: float
    source_strength: float
    steps_per_frame: int
    time_step: float


@dataclass(frozen=True)
class Given:
    """The data of a case, sorted by what it is.

    problem        the problem, with the numbers of its equation
    conventions    the conventions, with the chosen plane
    frame          the user's coordinates
    coefficients   coefficients that vary, or exist on the true boundary only; functions are in grid coordinates
    conditions     for each argument, what it maps parts of the boundary to
    values         for each support, the values of its marked pixels
    terms          all other data
    """

    problem: Problem
    conventions: Conventions
    frame: Frame = field(default_factory=Frame)
    coefficients: Mapping[str, Any] = field(default_factory=dict)
    conditions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    terms: Mapping[str, Any] = field(default_factory=dict)

    def read(self, data: Mapping[str, Any]) -> "Given":
        """Sort the user's data by name and let it replace what is there; None counts as not given."""
        problem, conventions, frame = self.problem, self.conventions, self.frame
        given = problem.by_own_names({name: value for name, value in data.items() if value is not None})
        for name in {*problem.parameters, *problem.coefficients, "size", "time_step"} & set(given):
            given[name] = read_number(given[name], name in problem.coefficients)
        if "plane" in given:
            conventions = problem.choose_plane(conventions, given.pop("plane"))
        is_sized = "size" in given
        if is_sized:
            frame = self._read_size(given.pop("size"))
        if "time_step" in given:
            if not conventions.true_boundary:
                raise DisolError("time_step needs a case on its true boundary. Pass conventions='physical'.")
            problem = problem.with_step(given.pop("time_step"))
        chosen, given = split(problem.coefficients, problem.parameters, given)
        numbers = {name: read(name, given.pop(name)) for name, read in problem.parameters.items() if name in given}
        if chosen or is_sized:
            problem = problem.in_units()
        problem = replace(problem, **numbers)
        kept = {name: value for name, value in self.coefficients.items() if name not in numbers}
        own = {name: on_grid(value, frame) if callable(value) else value for name, value in chosen.items()}
        conditions, given = split_conditions(problem, conventions, given)
        beside = {term.name + VALUES: term.name for term in problem.terms if term.kind is SUPPORT}
        values = {beside[name]: given.pop(name) for name in beside if name in given}
        if values and not conventions.true_boundary:
            raise DisolError(f"{next(iter(values))}{VALUES} need a true boundary. Pass conventions='physical'.")
        kinds = {term.name: term.kind for term in problem.terms}
        for name, value in given.items():
            if name not in kinds:
                known = dict.fromkeys([*kinds, *problem.parameters, *problem.coefficients])
                raise DisolError(f"{problem.name} has no {name!r}. {advise(problem, name, known)}")
            if isinstance(kinds[name], FieldKind):
                text = repr(checks.number(name, value)) if checks.is_number(value) else value
                read = read_expression(text) if isinstance(text, str) else value
                given[name] = on_grid(read, frame) if callable(read) else read
        return Given(problem, conventions, frame, kept | own, conditions, values, given)

    def _read_size(self, size: Any) -> Frame:
        """Read the height of the grid in the user's units."""
        if not self.conventions.true_boundary:
            raise DisolError("size is the height of the grid on a true boundary. Pass conventions='physical'.")
        if not self.frame.is_grid:
            raise DisolError("This case already has the coordinates of its drawing. Leave out size.")
        length = checks.positive_number("size", size)
        if not 1 / LARGEST_SIZE <= length <= LARGEST_SIZE:
            raise DisolError(f"size must lie in [{1 / LARGEST_SIZE:g}, {LARGEST_SIZE:g}], got {size}. Use other units.")
        return Frame(length=length)

    @property
    def is_stated(self) -> bool:
        """Tell whether more than marked pixels may hold it: parts of the boundary, a reaction, or an initial field."""
        named = bool(self.conditions or self.values or self.coefficients or self.problem.times)
        return named and self.conventions.true_boundary

    @property
    def keeps_curves(self) -> bool:
        """Tell whether the given data leaves the domain and all marked pixels as they are."""
        masks = {term.name for term in self.problem.terms if not isinstance(term.kind, FieldKind)} - {"times"}
        return self.conventions.true_boundary and not masks & set(self.terms)

    def complete(self, known: Terms, is_stated: bool) -> dict[str, Any]:
        """Return all terms: those given, else those known, else zeros if conditions are stated in other ways."""
        terms = {**known, **self.terms}
        missing = []
        for term in self.problem.terms:
            if term.name in terms or term.kind is TIMES:
                continue
            if is_stated and term.kind in (SUPPORT, FORCE, SOURCE) and "domain" in terms:
                terms[term.name] = np.zeros(checks.as_array("domain", terms["domain"]).shape)
            else:
                missing.append(term.name)
        if missing:
            names = ", ".join(term.name for term in self.problem.terms)
            raise DisolError(f"{self.problem.name} needs {names}; {', '.join(missing)} missing.")
        return terms

    def check_coefficients(self, domain: Bool[Array, "*batch height width"]) -> dict[str, Any]:
        """Check spatially varying coefficients, which need one case on its true boundary."""
        given = self.coefficients
        if given and not self.conventions.true_boundary:
            raise DisolError(
                f"{' and '.join(given)} can vary in space, or be added to an equation without it, on the true "
                f'boundary only, got {self.conventions.name} conventions. Pass conventions="physical".'
            )
        return {name: self.problem.coefficients[name].check(name, value, domain) for name, value in given.items()}


def advise(problem: Problem, name: str, known: Iterable[str]) -> str:
    """Say what a problem takes instead of what it has not: its own terms of that kind, or else all that is known.

    If it has none of that kind, and another problem takes it, that is said, too.
    """
    taking = [
        other
        for other in PROBLEMS.values()
        if name in {*(term.name for term in other.terms), *other.parameters, *other.coefficients, *other.aliases}
    ]
    kinds = {term.kind for other in taking for term in other.terms if term.name == name and term.component is None}
    own = [term.name for term in terms_of_kind(problem.terms, *kinds)]
    if own:
        return f"It takes {' and '.join(own)} instead."
    there = f" Pass problem={taking[0].name!r}, which has it." if taking else ""
    return f"It takes {', '.join(known)}.{there}"


def check_term(name: str, kind: Kind, value: Any, domain: Bool[np.ndarray, "height width"]) -> Any:
    """Read and check one field, or the times, of one case."""
    read = _read_term(name, kind, value)
    if kind is not TIMES and not callable(read):
        checks.require_pixels(name, read, domain.shape)
    return kind.check(name, read, domain)


def read_terms(
    problem: Problem, given: Terms, device: Any, held_by_pixels: bool
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Check the terms of one case or of a batch, on a device if one is given; return them on the host and on it."""
    kinds = {term.name: term.kind for term in problem.terms}
    terms = {name: _read_term(name, kinds[name], given[name]) for name in kinds if name in given}
    data = {name: value for name, value in terms.items() if kinds[name] is not TIMES}
    shared = {name: value for name, value in terms.items() if kinds[name] is TIMES}
    counts = {name: len(value) for name, value in data.items() if isinstance(value, tuple) or np.ndim(value) == 3}
    if not counts:
        return _check(problem, data, shared, held_by_pixels=held_by_pixels), None
    num_cases = require_one_count(counts)
    batch = {name: _repeat(value, num_cases) for name, value in data.items()}
    try:
        if device is None or any(map(is_function, batch.values())):
            return _check(problem, batch, shared, held_by_pixels=held_by_pixels), None
        checked = _check(problem, batch, shared, device)
        # What passed the checks on the device need not be checked again on the host.
        host = {name: value.astype(kinds[name].dtype, copy=False) for name, value in batch.items()}
        return {**checked, **host}, {name: checked[name] for name in batch}
    except DisolError as error:
        for number in range(num_cases):  # checked alone, the faulty case gives the clearer message
            try:
                own_terms = {name: value[number] for name, value in batch.items()}
                _check(problem, own_terms, shared, held_by_pixels=held_by_pixels)
            except DisolError as own:
                raise DisolError(f"Case {number}: {own}") from error
        raise


def _read_term(name: str, kind: Kind, value: Any) -> Any:
    """Read a term as a function, a tuple with an entry for each case of a batch, or an array of real numbers."""
    if kind is TIMES or (isinstance(kind, FieldKind) and callable(value)):
        return value
    if isinstance(kind, FieldKind) and isinstance(value, list | tuple) and any(map(callable, value)):
        return tuple(own if callable(own) else checks.real_numbers(name, own) for own in value)
    return checks.real_numbers(name, value)


def _repeat(value: Any, num_cases: int) -> Any:
    """Repeat shared data for every case of a batch."""
    if callable(value):
        return (value,) * num_cases
    is_shared = isinstance(value, np.ndarray) and value.ndim < 3  # too few axes are refused by the check
    return np.broadcast_to(value, (num_cases, *value.shape)) if is_shared else value


def _check(
    problem: Problem, data: Terms, shared: Terms, device: Any = None, held_by_pixels: bool = True
) -> dict[str, Any]:
    """Require one grid for all terms, and check each by its kind, on a device if one is given."""
    domain = data["domain"]
    if domain.ndim != 3:
        checks.require_pixels("domain", domain, None)
    for name, value in data.items():
        if isinstance(value, tuple):
            for own in value:
                if not callable(own):
                    checks.require_pixels(name, own, domain.shape[1:])
        elif not callable(value):
            checks.require_pixels(name, value, domain.shape)
    placed = {} if device is None else {name: to_device(value, device) for name, value in data.items()}
    return problem.check({**data, **placed, **shared}, held_by_pixels=held_by_pixels)
