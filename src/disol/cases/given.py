"""What a user gives of a case by name, sorted and checked: numbers, coefficients, conditions, and terms."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict

import numpy as np
from jaxtyping import Bool
from numpy.typing import ArrayLike

from disol import _checks as checks
from disol._arrays import Array, to_device
from disol._terms import FORCE, SOURCE, SUPPORT, TIMES, FieldKind, Kind
from disol.cases.batches import require_one_count
from disol.cases.conditions import VALUES, split_conditions
from disol.errors import DisolError
from disol.fields import is_function, read_expression
from disol.geometry.frame import Frame
from disol.problems.coefficients import read_number, split
from disol.problems.conventions import Conventions
from disol.problems.problem import Problem, Terms

LARGEST_SIZE = 1e50  # of a grid, in units of a user; the smallest is one over it

# One value per pixel, [height, width] or [batch, height, width], as an array, a tensor or nested lists.
# Under "physical" supports and forces also map parts of the boundary to values, as {"left": 20}, or as text "left=20".
Pixels = ArrayLike | Mapping[str, Any] | str
# Of sources also a number, a formula, a function f(x, y), or one for each case.
FieldLike = ArrayLike | Callable[..., Any] | Sequence[Callable[..., Any]]

# A number, one for each pixel, or a function f(x, y); of a velocity a pair of them, of a tensor two times two.
CoefficientLike = ArrayLike | Callable[..., Any]


class CaseData(TypedDict, total=False):
    """Terms and numbers of the problems of this package, as functions that take a case take them by name."""

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
    times: Sequence[float]
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
    """What is given, by what it is.

    problem        with the numbers of its equation
    conventions    with the plane that was chosen
    frame          coordinates of the user
    coefficients   what changes from pixel to pixel, or is known on the true boundary only; functions of the grid
    conditions     by argument, what parts of the boundary are mapped to
    values         by support, values beside its marked pixels
    terms          all else
    """

    problem: Problem
    conventions: Conventions
    frame: Frame = field(default_factory=Frame)
    coefficients: Mapping[str, Any] = field(default_factory=dict)
    conditions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    terms: Mapping[str, Any] = field(default_factory=dict)

    def read(self, data: Mapping[str, Any]) -> "Given":
        """Sort what a user gave by name, in place of what there is; None is as good as not given."""
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
                raise DisolError("time_step is of cases on a true boundary. Pass conventions='physical'.")
            problem = problem.with_step(given.pop("time_step"))
        chosen, given = split(problem.coefficients, problem.parameters, given)
        numbers = {name: read(name, given.pop(name)) for name, read in problem.parameters.items() if name in given}
        if chosen or is_sized:
            problem = problem.in_units()
        problem = replace(problem, **numbers)
        kept = {name: value for name, value in self.coefficients.items() if name not in numbers}
        own = {name: frame.on_grid(value) if callable(value) else value for name, value in chosen.items()}
        conditions, given = split_conditions(problem, conventions, given)
        beside = {term.name + VALUES: term.name for term in problem.terms if term.kind is SUPPORT}
        values = {beside[name]: given.pop(name) for name in beside if name in given}
        if values and not conventions.true_boundary:
            raise DisolError(f"{next(iter(values))}{VALUES} need a true boundary. Pass conventions='physical'.")
        kinds = {term.name: term.kind for term in problem.terms}
        for name, value in given.items():
            if name not in kinds:
                known = ", ".join(dict.fromkeys([*kinds, *problem.parameters, *problem.coefficients]))
                raise DisolError(f"{problem.name} has no {name!r}. It takes {known}.")
            if isinstance(kinds[name], FieldKind):
                text = repr(checks.number(name, value)) if checks.is_number(value) else value
                read = read_expression(text) if isinstance(text, str) else value
                given[name] = frame.on_grid(read) if callable(read) else read
        return Given(problem, conventions, frame, kept | own, conditions, values, given)

    def _read_size(self, size: Any) -> Frame:
        """Read the height of the grid in units of the user."""
        if not self.conventions.true_boundary:
            raise DisolError("size is the height of the grid on a true boundary. Pass conventions='physical'.")
        if not self.frame.is_grid:
            raise DisolError("This case has the coordinates of its drawing. Leave out size.")
        length = checks.positive_number("size", size)
        if not 1 / LARGEST_SIZE <= length <= LARGEST_SIZE:
            raise DisolError(f"size must lie in [{1 / LARGEST_SIZE:g}, {LARGEST_SIZE:g}], got {size}. Use other units.")
        return Frame(length=length)

    @property
    def is_stated(self) -> bool:
        """Tell whether more than marked pixels may hold it: parts of the boundary, a reaction, or its initial field."""
        named = bool(self.conditions or self.values or self.coefficients or self.problem.times)
        return named and self.conventions.true_boundary

    @property
    def keeps_curves(self) -> bool:
        """Tell whether all that is given leaves the domain, and marked pixels, as they are."""
        masks = {term.name for term in self.problem.terms if not isinstance(term.kind, FieldKind)} - {"times"}
        return self.conventions.true_boundary and not masks & set(self.terms)

    def complete(self, known: Terms, is_stated: bool) -> dict[str, Any]:
        """Return all terms: those given, those known, and where parts of the boundary say more, none at all."""
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
        """Check what changes from pixel to pixel, which needs one case on its true boundary."""
        given = self.coefficients
        if given and not self.conventions.true_boundary:
            raise DisolError(
                f"{' and '.join(given)} can be given per pixel, or at all where the equation has no such number, on "
                f'the true boundary only, got {self.conventions.name} conventions. Pass conventions="physical".'
            )
        return {name: self.problem.coefficients[name].check(name, value, domain) for name, value in given.items()}


def check_term(name: str, kind: Kind, value: Any, domain: Bool[np.ndarray, "height width"]) -> Any:
    """Read one field, or the times, of one case."""
    read = _read_term(name, kind, value)
    if kind is not TIMES and not callable(read):
        checks.require_pixels(name, read, domain.shape)
    return kind.check(name, read, domain)


def read_terms(
    problem: Problem, given: Terms, device: Any, held_by_pixels: bool
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Check the terms of one case or of a batch, on a device if one is given; return them here and there."""
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
        # What is right there is right here, too: no need to look at it twice.
        host = {name: value.astype(kinds[name].dtype, copy=False) for name, value in batch.items()}
        return {**checked, **host}, {name: checked[name] for name in batch}
    except DisolError as error:
        for number in range(num_cases):  # the case that is wrong says better what is wrong
            try:
                own_terms = {name: value[number] for name, value in batch.items()}
                _check(problem, own_terms, shared, held_by_pixels=held_by_pixels)
            except DisolError as own:
                raise DisolError(f"Case {number}: {own}") from error
        raise


def _read_term(name: str, kind: Kind, value: Any) -> Any:
    """See a term as a function, a tuple with an entry for each case of a batch, or an array of real numbers."""
    if kind is TIMES or (isinstance(kind, FieldKind) and callable(value)):
        return value
    if isinstance(kind, FieldKind) and isinstance(value, list | tuple) and any(map(callable, value)):
        return tuple(own if callable(own) else checks.real_numbers(name, own) for own in value)
    return checks.real_numbers(name, value)


def _repeat(value: Any, num_cases: int) -> Any:
    """Give every case of a batch what all of them share."""
    if callable(value):
        return (value,) * num_cases
    is_shared = isinstance(value, np.ndarray) and value.ndim < 3  # what has too few axes, its check refuses
    return np.broadcast_to(value, (num_cases, *value.shape)) if is_shared else value


def _check(
    problem: Problem, data: Terms, shared: Terms, device: Any = None, held_by_pixels: bool = True
) -> dict[str, Any]:
    """Require one grid for all terms, and let their kinds check them, on a device if one is given."""
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
