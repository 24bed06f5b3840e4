"""A case: one problem on one grid, or a batch of them. The one thing that moves through the package."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import numpy as np
from jaxtyping import Bool, Float, Float32
from numpy.typing import ArrayLike

from disol import _checks as checks
from disol._arrays import Array, is_tensor, to_device
from disol._terms import FORCE, TIMES, ChannelLayout, FieldKind, Kind
from disol.errors import DisolError, shown
from disol.fem import ELEMENTS, System
from disol.fields import is_function
from disol.geometry import Geometry, Raster
from disol.geometry.region import Region
from disol.grid import Grid
from disol.problems.coefficients import split
from disol.problems.conditions import Stated, read_conditions
from disol.problems.conventions import Conventions
from disol.problems.distribution import FACTORS, Shift, describe_shift, read_shift, shifted
from disol.problems.drawing import draw_terms, random_stream
from disol.problems.problem import Markers, Problem, Terms
from disol.problems.table import find, find_conventions, find_problem

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# One value per pixel, [height, width] or [batch, height, width], as an array, a tensor or nested lists.
# Under "physical" supports and forces also map parts of the boundary to values, as {"left": 20}.
Pixels = ArrayLike | Mapping[str, Any]
# Of sources also a function f(x, y), or one for each case.
FieldLike = ArrayLike | Callable[..., Any] | Sequence[Callable[..., Any]]

# A number, one for each pixel, or a function f(x, y); of a velocity a pair of them, of a tensor two times two.
CoefficientLike = ArrayLike | Callable[..., Any]


class CaseData(TypedDict, total=False):
    """Terms and numbers of the problems of this package, as functions that take a case take them by name."""

    domain: Pixels
    dirichlet: Pixels
    source: FieldLike
    initial: FieldLike
    fix_x: Pixels
    fix_y: Pixels
    force_x: Pixels
    force_y: Pixels
    flux: Mapping[str, Any]
    convection: Mapping[str, Any]
    times: Sequence[float]
    diffusion: CoefficientLike
    velocity: CoefficientLike
    reaction: CoefficientLike
    conductivity: CoefficientLike
    density: CoefficientLike
    capacity: CoefficientLike
    young: CoefficientLike
    poisson_ratio: CoefficientLike
    time_scale: float
    source_strength: float
    steps_per_frame: int


SMALLEST_RESOLUTION = 16
LARGEST_RESOLUTION = 4096  # 17 million pixels, more than a direct solver has memory for


@dataclass(frozen=True, eq=False, repr=False)
class Case:
    """A problem with all that it is given, checked: one case, or a batch whose arrays start with a batch axis.

    Build it by `Case.draw`, `Case.from_arrays`, `Case.stack` or `read_case`.

    problem              the PDE, with the numbers of its equation
    conventions          how it is discretised
    terms                what it is given, by name: masks, forces, and sources as functions or arrays
    coefficients         of one case on its true boundary: what changes from pixel to pixel, as arrays or functions
    seed, index, shift   of a drawn case: where it comes from
    geometry             of a case that is known as curves: those that every resolution shows
    traced               of a case from a picture, on its true boundary: the edge of what is dark in it
    sketch               of a drawn case: its markers as segments of these curves, its fields as functions
    is_drawn             drawing has scaled its loads to the size that networks know; so it has those of a batch of such
    origin               where each term of a case that was read comes from, in words
    notes                what a reader of it should know, such as what its grid does not show
    stated               what was stated by parts of the boundary; the masks of its terms show where
    domain, grid         where the equation holds, and the pixels it is made of
    times                seconds at which a transient problem is asked for; None for a steady one
    is_batch             it holds several cases
    """

    problem: Problem
    conventions: Conventions
    terms: Terms
    seed: int | None = None
    index: int | None = None
    shift: str | None = None
    geometry: Geometry | None = None
    traced: Region | None = None
    sketch: Mapping[str, Any] | None = None
    is_drawn: bool = False
    origin: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    coefficients: Mapping[str, Any] = field(default_factory=dict)
    stated: tuple[Stated, ...] = ()
    _placed: Terms | None = None  # the same terms on a device, if they were checked there
    _first: int = 0  # of a piece of a batch: the number of its first case, for messages
    domain: Bool[Array, "*batch height width"] = field(init=False)
    grid: Grid = field(init=False)
    times: tuple[float, ...] | None = field(init=False)
    is_batch: bool = field(init=False)

    def __post_init__(self) -> None:
        domain = self.terms["domain"]
        known = {
            "domain": domain,
            "grid": Grid(*domain.shape[-2:]),
            "times": self.terms.get("times"),
            "is_batch": domain.ndim == 3,
        }
        for name, value in known.items():
            object.__setattr__(self, name, value)

    @classmethod
    def draw(
        cls,
        problem: str | Problem,
        seed: int = 0,
        index: int = 0,
        *,
        resolution: int | None = None,
        shift: Shift = None,
        conventions: str | Conventions = "paper",
        alpha: float = 0.8,
    ) -> "Case":
        """Draw case `index` of the sequence `seed`: a pure function of both.

        resolution    pixels along a side, the problem's own unless given; every resolution shows the same case
        shift         the way out of the training distribution: "topology", "boundary", "source", several with commas,
                      "all", or "shape:arrow" ("shape:arrow+hole" with its hole and both other factors); sizes as in
                      "topology=0.3" or {"topology": 0.3, "boundary": 5, "source": 8}, drawn between two as in
                      "topology=0.2..0.3" or {"topology": (0.2, 0.3)}; "broad", domains, supports and loads of many
                      kinds; or "released", the kind of cases that the paper's authors released
        conventions   "paper", "published", or "physical": on the true boundary
        alpha         how closely the outline hugs its random points, from 0 (convex) to 1
        """
        problem = find_problem(problem)
        conventions = find_conventions(conventions, problem)
        seed, index = checks.whole_number("seed", seed), checks.whole_number("index", index)
        streams = partial(random_stream, seed, index)
        side = problem.resolution if resolution is None else checks.whole_number("resolution", resolution)
        if not SMALLEST_RESOLUTION <= side <= LARGEST_RESOLUTION:
            raise DisolError(
                f"resolution must lie in [{SMALLEST_RESOLUTION}, {LARGEST_RESOLUTION}], got {shown(side)}. "
                f"Use {max(problem.resolution, SMALLEST_RESOLUTION)}."
            )
        mixture = shifted(shift, alpha, elastic=any(term.kind is FORCE for term in problem.terms))
        for factor in FACTORS:
            if factor in read_shift(shift) and factor not in problem.shifts:
                raise DisolError(f"{problem.name} has no {factor} to shift. Use {', '.join(problem.shifts)} or all.")
        distribution = mixture.choose(streams("mixture"))
        geometry = distribution.domain.draw(streams("outline"), streams("hole"))
        own = Raster(geometry, Grid(problem.resolution, problem.resolution))
        sketch = draw_terms(problem, streams, own, distribution, conventions)
        raster = own if side == problem.resolution else Raster(geometry, Grid(side, side))
        terms = {"domain": raster.mask}
        for name, drawn in sketch.items():
            terms[name] = drawn.on(raster) if isinstance(drawn, Markers) else drawn
        drawn = {"geometry": geometry, "sketch": sketch, "is_drawn": True}
        return cls(problem, conventions, terms, seed, index, describe_shift(shift), **drawn)

    @classmethod
    def from_arrays(
        cls,
        problem: "str | Problem | Case",
        *,
        conventions: str | Conventions | None = None,
        device: Any = None,
        **data: Any,
    ) -> "Case":
        """Read a user's own data: terms of the problem by name, and numbers of its equation.

        Arrays are [height, width], or [batch, height, width] for a batch; a source can be a function f(x, y) too, or a
        list of functions, one for each case. What has no batch axis is shared by all cases. With a device the arrays of
        a batch are taken there first, and checked there. A case in place of a problem has those of its terms replaced
        that are given.
        """
        given = {name: value for name, value in data.items() if value is not None}
        if isinstance(problem, Case):
            if problem.stated:
                raise DisolError("Conditions on parts of the boundary belong to one case. State all of it anew.")
            known, conventions = dict(problem.terms), problem.require_conventions(conventions)
            equation, held = problem.problem, problem.coefficients
        else:
            known, equation, held = {}, find_problem(problem), {}
            conventions = find_conventions("paper" if conventions is None else conventions, equation)
        varying, given = split(equation.coefficients, equation.parameters, given)
        held = {name: value for name, value in held.items() if name not in given} | varying
        numbers = {name: read(name, given.pop(name)) for name, read in equation.parameters.items() if name in given}
        equation = replace(equation, **numbers)
        given, stated = read_conditions(equation, conventions, given)
        if stated and known:
            raise DisolError("Conditions on parts of the boundary belong to one case. State all of it anew.")
        names = [term.name for term in equation.terms]
        for name in given:
            if name not in names:
                known_names = ", ".join(dict.fromkeys([*names, *equation.parameters, *equation.coefficients]))
                raise DisolError(f"{equation.name} has no {name!r}. It takes {known_names}.")
        if isinstance(problem, Case) and conventions.true_boundary and not given:  # its curves stay what they are
            read = _read_coefficients(equation, held, problem.domain, conventions)
            return replace(problem, problem=equation, coefficients=read, seed=None, index=None, shift=None)
        terms = known | given
        missing = [term.name for term in equation.terms if term.name not in terms and term.kind is not TIMES]
        if missing:
            raise DisolError(f"{equation.name} needs {', '.join(names)}; {', '.join(missing)} missing.")
        host, placed = _read_terms(equation, terms, device)
        read = _read_coefficients(equation, held, host["domain"], conventions)
        return cls(equation, conventions, host, coefficients=read, stated=stated, _placed=placed)

    @classmethod
    def stack(cls, cases: Sequence["Case"]) -> "Case":
        """Make a batch of single cases of one problem on one grid; transient ones have the same times."""
        if not cases:
            raise DisolError("A batch needs at least one case, got none.")
        first = cases[0]
        for case in cases:
            if not isinstance(case, Case):
                raise DisolError(f"A batch is made of cases, got {type(case).__name__}.")
            if case.coefficients:
                raise DisolError(
                    f"The cases of a batch share their numbers, and {' and '.join(case.coefficients)} of {case} may "
                    "change from pixel to pixel. Solve it by itself."
                )
            if case.stated:
                raise DisolError(f"Cases with conditions on parts of the boundary are solved one by one, got {case}.")
            shared = (case.problem, case.conventions, case.grid, case.times)
            if case.is_batch or shared != (first.problem, first.conventions, first.grid, first.times):
                raise DisolError(
                    f"The cases of a batch share problem, conventions, grid and times, got {first} and {case}."
                )
        terms: dict[str, Any] = {}
        for term in first.problem.terms:
            values = [case.terms[term.name] for case in cases]
            if term.kind is TIMES:
                terms[term.name] = values[0]
            else:
                terms[term.name] = tuple(values) if any(map(is_function, values)) else np.stack(values)
        return cls(first.problem, first.conventions, terms, is_drawn=all(case.is_drawn for case in cases))

    @property
    def boundary(self) -> Literal["true", "edges", "pixels"]:
        """Where its boundary is: on its curves, on the outer sides of pixels of its mask, or all over these pixels."""
        if not self.conventions.true_boundary:
            return "pixels"
        return "true" if self.sketch is not None else "edges"

    @cached_property
    def region(self) -> Region:
        """The domain as loops, of one case: its curves, or the staircase of its mask."""
        if self.is_batch:
            raise DisolError(f"A region is of one case, got a batch of {len(self)}. Pass one of them.")
        if self.sketch is None:
            return Region.from_mask(self.domain)
        if self.geometry is not None:
            return Region.from_geometry(self.geometry)
        assert self.traced is not None
        return self.traced

    @property
    def channels(self) -> ChannelLayout:
        """Names of the input channels."""
        return self.problem.channels

    @cached_property
    def inputs(self) -> Float32[Array, "*batch channel height width"]:
        """The stacked channels that a network sees; of a transient problem at the first time."""
        return self.problem.encode(self.terms, self.conventions)

    def channel(self, name: str) -> Float32[Array, "*batch height width"]:
        """Return the input channel called `name`."""
        return self.channels.select(self.inputs, name)

    @property
    def length(self) -> float:
        """The physical length of one unit of the grid."""
        return 1.0

    def to_grid(self, points: Float[np.ndarray, "point 2"]) -> Float[np.ndarray, "point 2"]:
        """Take points of its drawing to the grid, which is one unit high."""
        return points

    def to_drawing(self, points: Float[np.ndarray, "point 2"]) -> Float[np.ndarray, "point 2"]:
        """Take points of the grid to its drawing."""
        return points

    def coefficient_values(self) -> dict[str, Float[np.ndarray, "..."]]:
        """Return its coefficients as arrays whose last axes are pixels; what is the same everywhere has none."""
        kinds = self.problem.coefficients
        return {name: kinds[name].on(name, value, self.domain) for name, value in self.coefficients.items()}

    def system(self, element: str = "q1") -> System:
        """Discretise it on pixels: the matrix of a pixel, the unknowns and the load, where its terms are."""
        if self.conventions.true_boundary:
            raise DisolError(f"{self} has cut elements, each with a matrix of its own. Use disol.system.")
        return self.problem.system(self.terms, self.conventions, find("element", element, ELEMENTS)(self.grid.h))

    def __len__(self) -> int:
        if not self.is_batch:
            raise TypeError("This is one case, not a batch.")
        return len(self.domain)

    def __bool__(self) -> bool:
        """A case counts as true, as other objects do."""
        return True

    def __getitem__(self, which: int | slice) -> "Case":
        """Return one case of a batch, or some of them as a batch."""
        number = len(self)
        if not isinstance(which, slice | int | np.integer):
            raise TypeError(f"Cases are chosen by a number or a slice, got {which!r}.")
        if not isinstance(which, slice) and not -number <= which < number:
            raise IndexError(f"This batch has cases 0 to {number - 1}, got {which}.")
        terms = {name: value if name == "times" else value[which] for name, value in self.terms.items()}
        placed = None if self._placed is None else {name: value[which] for name, value in self._placed.items()}
        return Case(self.problem, self.conventions, terms, is_drawn=self.is_drawn, _placed=placed)

    def __iter__(self) -> Iterator["Case"]:
        return (self[number] for number in range(len(self)))

    def on(self, device: Any) -> "Case":
        """Return it with its arrays on a torch device, to be discretised there; functions stay with NumPy."""
        placed = self._placed
        if placed is None:
            data = {name: value for name, value in self.terms.items() if self.problem.term(name).kind is not TIMES}
            if is_tensor(self.domain) or any(map(is_function, data.values())):
                return self
            placed = {name: to_device(value, device) for name, value in data.items()}
        return replace(self, terms={**self.terms, **placed}, _placed=None)

    def pieces(self, most: int) -> Iterator["Case"]:
        """Cut a batch into pieces of at most so many cases, of nearly equal size; one case is one piece."""
        if not self.is_batch or len(self) <= most:
            yield self
            return
        count = -(-len(self) // most)
        for number in range(count):
            first, after = number * len(self) // count, (number + 1) * len(self) // count
            yield replace(self[first:after], _first=first)

    def __repr__(self) -> str:
        height, width = self.grid.pixels
        batch = f"batch of {len(self)}, " if self.is_batch else ""
        drawn = "" if self.seed is None else f", seed {self.seed}, index {self.index}"
        shift = f", shift {self.shift}" if self.shift else ""
        times = "" if self.times is None else f", {len(self.times)} times to {self.times[-1]:g} s"
        varying = f", own {', '.join(self.coefficients)}" if self.coefficients else ""
        covered = float(self.domain.sum()) / self.domain.reshape(-1).shape[0]
        return (
            f"Case({self.problem.name}, {batch}{height} x {width}, {covered:.0%} of it domain, "
            f"{self.conventions.name} conventions{varying}{drawn}{shift}{times})"
        )

    def plot(self) -> "Figure":
        """Draw what is given; the figure belongs to pyplot, so that notebooks and `plt.show()` show it."""
        return import_module("disol.viz").plot_case(self)

    def _repr_html_(self) -> str:
        return import_module("disol.viz").as_html(self)

    def require_conventions(self, asked: str | Conventions | None) -> Conventions:
        """Return its conventions, unless others are asked for."""
        if asked is not None and str(asked) != self.conventions.name:
            raise DisolError(
                f"This case was drawn with conventions {self.conventions.name!r}, not {str(asked)!r}. "
                f"Draw it with conventions={str(asked)!r}, or leave the argument out."
            )
        return self.conventions


draw = Case.draw


@contextmanager
def naming_the_case(batch: Case, step: Callable[[Case], object]) -> Iterator[None]:
    """Let an error that a step makes for one case of a batch by itself say which case it is."""
    try:
        yield
    except DisolError as error:
        for number, case in enumerate(batch if batch.is_batch else ()):
            try:
                step(case)
            except DisolError as own:
                raise DisolError(f"Case {number}: {own}") from error
        raise


def _read_coefficients(
    problem: Problem, given: Mapping[str, Any], domain: Bool[Array, "*batch height width"], conventions: Conventions
) -> dict[str, Any]:
    """Check what changes from pixel to pixel, which needs one case on its true boundary."""
    if given and not conventions.true_boundary:
        names = " and ".join(given)
        raise DisolError(
            f"{names} can be given per pixel, or at all where the equation has no such number, on the true boundary "
            f'only, got {conventions.name} conventions. Pass conventions="physical".'
        )
    if given and domain.ndim == 3:
        raise DisolError(f"{' and '.join(given)} per pixel is of one case, got a batch of {len(domain)}.")
    return {name: problem.coefficients[name].check(name, value, domain) for name, value in given.items()}


def _read_terms(problem: Problem, given: Terms, device: Any) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Check the terms of one case or of a batch, on a device if one is given; return them here and there."""
    kinds = {term.name: term.kind for term in problem.terms}
    terms = {name: _read_term(name, kinds[name], given[name]) for name in kinds if name in given}
    data = {name: value for name, value in terms.items() if kinds[name] is not TIMES}
    shared = {name: value for name, value in terms.items() if kinds[name] is TIMES}
    counts = {name: len(value) for name, value in data.items() if isinstance(value, tuple) or np.ndim(value) == 3}
    if not counts:
        return _check(problem, data, shared), None
    if len(set(counts.values())) > 1 or 0 in counts.values():
        listed = ", ".join(f"{count} of {name}" for name, count in counts.items())
        raise DisolError(
            f"The terms of a batch must have equally many cases, at least one, got {listed}. "
            "Pass arrays [batch, height, width], or leave out the batch axis of what all cases share."
        )
    num_cases = next(iter(counts.values()))
    batch = {name: _repeat(value, num_cases) for name, value in data.items()}
    try:
        if device is None or any(map(is_function, batch.values())):
            return _check(problem, batch, shared), None
        checked = _check(problem, batch, shared, device)
        # What is right there is right here, too: no need to look at it twice.
        host = {name: value.astype(kinds[name].dtype, copy=False) for name, value in batch.items()}
        return {**checked, **host}, {name: checked[name] for name in batch}
    except DisolError as error:
        for number in range(num_cases):  # the case that is wrong says better what is wrong
            try:
                _check(problem, {name: value[number] for name, value in batch.items()}, shared)
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


def _check(problem: Problem, data: Terms, shared: Terms, device: Any = None) -> dict[str, Any]:
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
    return problem.check({**data, **placed, **shared})
