"""A case: one problem on one grid, or a batch of them. The only thing that is passed through the package."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from jaxtyping import Bool, Float, Float32

from disol import _checks as checks
from disol._arrays import Array, is_tensor, to_device
from disol._terms import FORCE, TIMES, ChannelLayout
from disol.cases.batches import split_cases
from disol.cases.conditions import VALUES, Stated, mark_pixels, read_conditions, read_values, require_apart
from disol.cases.given import Given, check_term, read_terms
from disol.distributions.distribution import FACTORS, Shift, describe_shift, read_shift, shifted
from disol.distributions.drawing import draw_terms, random_stream
from disol.errors import DisolError, shown
from disol.fem import ELEMENTS, System
from disol.fem.rounding import naming_case
from disol.fields import is_function, times
from disol.geometry import Geometry, Raster
from disol.geometry.frame import Frame
from disol.geometry.region import Region
from disol.grid import Grid
from disol.problems.conventions import PHYSICAL, Conventions
from disol.problems.problem import Markers, Problem, Terms
from disol.problems.table import find, find_conventions, find_problem

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SMALLEST_RESOLUTION = 16
LARGEST_RESOLUTION = 4096  # 17 million pixels, more than a direct solver has memory for


@dataclass(frozen=True, eq=False, repr=False)
class Case:
    """A problem with all its data, checked: one case, or a batch whose arrays start with a batch axis.

    Build it with `Case.draw`, `Case.from_arrays`, `Case.stack` or `read_case`.

    problem              the PDE, with the numbers of its equation
    conventions          how it is discretised
    terms                its data by name: masks, forces, and sources as functions or arrays
    coefficients         spatially varying coefficients, as arrays or functions (single cases on the true boundary only)
    seed, index, shift   what a drawn case was drawn from
    geometry             the curves of the domain, if they are known; they are the same at every resolution
    traced               the edge of the dark area, for a case read from a picture on its true boundary
    sketch               markers as segments of the curves, and the fields of a drawn case as functions
    is_drawn             the loads were drawn and scaled to the size that networks know; in a batch, those of all cases
    origin               where each term of a case that was read comes from, in words
    notes                what the user should know, such as what the grid does not show
    stated               conditions on parts of the boundary; the masks of their terms show where
    frame                the user's coordinates: where the grid lies in the drawing, and how long its side is there
    members              the cases of a batch stacked on their true boundaries, with their curves
    domain, grid         where the equation holds, and the pixels it is made of
    times                times in seconds at which a transient problem is solved; None for a steady one
    is_batch             whether it holds several cases
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
    frame: Frame = field(default_factory=Frame)
    members: tuple["Case", ...] = ()
    _placed: Terms | None = None  # the same terms on a device, if they were checked there
    _first: int = 0  # number of the first case of a piece of a batch, for messages
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
        conventions: str | Conventions | None = None,
        alpha: float = 0.8,
    ) -> "Case":
        """Draw case `index` of the sequence `seed`: a pure function of both.

        resolution    pixels along a side, by default the problem's own; every resolution shows the same case
        shift         how to leave the training distribution: "topology", "boundary", "source", several with commas,
                      "all", or "shape:arrow" ("shape:arrow+hole" with its hole and both other factors); with sizes as
                      in "topology=0.3" or {"topology": 0.3, "boundary": 5, "source": 8}, or drawn from an interval as
                      in "topology=0.2..0.3" or {"topology": (0.2, 0.3)}; "broad", domains, supports and loads of many
                      kinds; or "released", the kind of cases that the paper's authors released
        conventions   "physical" (default), on the true boundary; "paper" and "published" are on pixels, "paper" being
                      the default for a problem without a form
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
        """Build a case from the user's own data: terms of the problem by name, and numbers of its equation.

        Arrays are [height, width], or [batch, height, width] for a batch; a source can also be a function f(x, y), or a
        list of functions, one for each case. Data without a batch axis is shared by all cases. With a device, the
        arrays of a batch are moved to it first and checked there. If a case is passed in place of a problem, the given
        terms replace its own; on its true boundary it keeps its curves, unless a mask or a force is among them: its
        boundary then follows the outer sides of pixels.

        Conventions are "physical" by default, or "paper" for a problem that has no form. Coefficients of a batch may
        also have a batch axis in front; conditions on parts of the boundary apply to all of its cases.
        """
        if each := cls._read_each(problem, conventions, data):
            return cls.stack(each)
        posed = problem if isinstance(problem, Case) else None
        if isinstance(problem, Case):
            conventions = problem.require_conventions(conventions)
            given = Given(problem.problem, conventions, problem.frame, problem.coefficients).read(data)
        else:
            equation = find_problem(problem)
            conventions = find_conventions(conventions, equation)
            given = Given(equation, conventions).read(data)
        if posed is not None and given.keeps_curves:
            return posed._replaced(given)
        stated = () if posed is None else tuple(each for each in posed.stated if each.argument not in given.terms)
        if stated and "domain" in given.terms:
            raise DisolError("Conditions on parts of a boundary do not carry over to another domain. Give them again.")
        is_stated = bool(stated) or given.is_stated
        terms = given.complete({} if posed is None else posed.terms, is_stated)
        host, placed = read_terms(given.problem, terms, device, held_by_pixels=not is_stated)
        case = cls(given.problem, given.conventions, host, stated=stated, frame=given.frame, _placed=placed)
        return case._replaced(replace(given, terms={})) if is_stated or given.coefficients else case

    def _replaced(self, given: Given) -> "Case":
        """Return a case on the same boundary with other numbers, fields, coefficients, and conditions on its parts."""
        problem, frame = given.problem, given.frame
        kinds, terms = {term.name: term.kind for term in problem.terms}, {**self.terms}
        coefficients = given.check_coefficients(self.domain)
        for name, value in given.terms.items():
            terms[name] = check_term(name, kinds[name], value, self.domain)
        if self.times is not None:
            problem.require_steps(terms["times"])
        stated = [each for each in self.stated if each.argument not in (*given.conditions, *given.values)]
        if given.conditions:
            stated += read_conditions(problem, given.conditions, self.region, frame)
        for name, values in given.values.items():
            if self.sketch is not None:
                raise DisolError(f"{name}{VALUES} are for masks, but this case has curves. Use {name}={{'left': 20}}.")
            stated.append(read_values(problem, problem.term(name), terms[name], values, self.domain))
        require_apart(stated)
        for name in given.conditions:
            if name in kinds:
                own = [each for each in stated if each.argument == name]
                terms[name] = mark_pixels(own, self.region, self.domain).astype(kinds[name].dtype)
        return replace(
            self,
            problem=problem,
            conventions=given.conventions,
            frame=frame,
            terms=terms,
            stated=tuple(stated),
            coefficients=coefficients,
            origin={name: told for name, told in self.origin.items() if name not in (*given.terms, *given.conditions)},
            is_drawn=self.is_drawn and not (given.terms or given.conditions or given.values),
            seed=None,
            index=None,
            shift=None,
        )

    @classmethod
    def _read_each(
        cls, problem: "str | Problem | Case", conventions: str | Conventions | None, given: Mapping[str, Any]
    ) -> "list[Case]":
        """Read the cases of a batch on true boundaries one by one if they consist of more than masks and fields."""
        given = {name: value for name, value in given.items() if value is not None}
        if isinstance(problem, Case):
            equation, rules, number = problem.problem, problem.conventions, len(problem) if problem.is_batch else None
            is_more = True  # it may have curves
        else:
            equation, number = find_problem(problem), None
            rules = find_conventions(conventions, equation)
            given = equation.by_own_names(given)
            fields = {term.name for term in equation.terms}
            is_more = any(name not in fields or isinstance(given[name], Mapping | str) for name in given)
        if not rules.true_boundary or not is_more:
            return []
        read = []
        for place, own in enumerate(split_cases(equation, given, number)):
            posed = problem[place] if isinstance(problem, Case) and problem.is_batch else problem
            with naming_case(place):
                read.append(cls.from_arrays(posed, conventions=conventions, **own))
        return read

    @classmethod
    def stack(cls, cases: Sequence["Case"]) -> "Case":
        """Make a batch of single cases of one problem on one grid; transient cases must have the same times."""
        if not cases:
            raise DisolError("A batch needs at least one case, got none.")
        first = cases[0]
        for case in cases:
            if not isinstance(case, Case):
                raise DisolError(f"A batch is made of cases, got {type(case).__name__}.")
            shared = (case.problem, case.conventions, case.grid)
            is_alike = not case.is_batch and shared == (first.problem, first.conventions, first.grid)
            if not is_alike or case.times != first.times:
                times = shown(list(first.times or ()))
                remedy = f" Give each the same times, as in Case.from_arrays(case, times={times})." if is_alike else ""
                raise DisolError(
                    "The cases of a batch must share problem, conventions, grid and times, "
                    f"got {first} and {case}.{remedy}"
                )
        terms: dict[str, Any] = {}
        for term in first.problem.terms:
            values = [case.terms[term.name] for case in cases]
            if term.kind is TIMES:
                terms[term.name] = values[0]
            else:
                terms[term.name] = tuple(values) if any(map(is_function, values)) else np.stack(values)
        members = tuple(cases) if first.conventions.true_boundary else ()
        return cls(
            first.problem, first.conventions, terms, is_drawn=all(case.is_drawn for case in cases), members=members
        )

    @property
    def boundary(self) -> Literal["true", "edges", "pixels"]:
        """Where conditions hold: on the true curves, on the outer sides of marked pixels, or at all nodes of these.

        For a batch it is "true" if it is so for every case.
        """
        if not self.conventions.true_boundary:
            return "pixels"
        return "true" if all(case.sketch is not None for case in self.members or (self,)) else "edges"

    @cached_property
    def region(self) -> Region:
        """The domain of one case as loops: its curves, or the staircase of its mask."""
        if self.is_batch:
            raise DisolError(f"A region is for one case, got a batch of {len(self)}. Pass one of them.")
        if self.sketch is None:
            return Region.from_mask(self.domain)
        if self.geometry is not None:
            with self.frame.in_drawing():
                return Region.from_geometry(self.geometry)
        assert self.traced is not None
        return self.traced

    @property
    def equation(self) -> str:
        """The PDE as text, with the numbers and coefficients of the case."""
        return self.problem.equation_with({name for case in self.members or (self,) for name in case.coefficients})

    @property
    def channels(self) -> ChannelLayout:
        """Names of the input channels."""
        return self.problem.channels

    @cached_property
    def inputs(self) -> Float32[Array, "*batch channel height width"]:
        """The stacked channels that a network sees; for a transient problem at the first time."""
        return self.problem.encode(self.terms, self.conventions)

    def channel(self, name: str) -> Float32[Array, "*batch height width"]:
        """Return the input channel called `name`."""
        return self.channels.select(self.inputs, name)

    @property
    def length(self) -> float:
        """Length of one unit of the grid, in units of the drawing."""
        return self.frame.length

    def to_grid(self, points: Float[np.ndarray, "point 2"]) -> Float[np.ndarray, "point 2"]:
        """Map points from the coordinates of the drawing to those of the grid, which is one unit high."""
        return self.frame.to_grid(points)

    def to_drawing(self, points: Float[np.ndarray, "point 2"]) -> Float[np.ndarray, "point 2"]:
        """Map points from the coordinates of the grid to those of the drawing."""
        return self.frame.to_drawing(points)

    def coefficient_values(self, refinement: int = 1) -> dict[str, Float[np.ndarray, "..."]]:
        """Return its coefficients as arrays whose last axes are pixels; constant coefficients have no pixel axes.

        refinement   of the grid: pixels along a side of each pixel of the case
        """
        if self.members:
            each = [case.coefficient_values(refinement) for case in self.members]
            names = dict.fromkeys(name for own in each for name in own)
            for name in names:
                if len({own[name].shape if name in own else None for own in each}) > 1:
                    raise DisolError(f"Not all cases of this batch have {name} of one shape. Take them one by one.")
            return {name: np.stack([own[name] for own in each]) for name in names}
        finer = None
        if refinement > 1 and any(map(callable, self.coefficients.values())):
            finer = self.region.mask(Grid(refinement * self.grid.height, refinement * self.grid.width))
        kinds = self.problem.coefficients
        return {
            name: kinds[name].on(name, value, self.domain, refinement, finer)
            for name, value in self.coefficients.items()
        }

    def on_pixels(self, conventions: str | Conventions = "paper") -> "Case":
        """Return the case with the same masks and fields on pixels, which is how networks know it.

        A case with a size is converted to units of the grid; its solution is unchanged.
        """
        rules = find_conventions(conventions, self.problem)
        if rules.true_boundary:
            raise DisolError(f"Conventions on pixels are paper and published, got {rules.name!r}.")
        if self.is_batch and self.members:
            return Case.stack([case.on_pixels(rules) for case in self.members])
        if self.coefficients:
            names = " or ".join(self.coefficients)
            raise DisolError(f"Neither networks nor pixels take a case's own {names}. Use disol.solve_exact.")
        if not all(each.is_plain for each in self.stated):
            raise DisolError(
                "Networks and cases on pixels take supports at zero and constant forces only: no values, fluxes or "
                "convection on parts of the boundary. Use disol.solve_exact."
            )
        if self.problem.has_plane and self.conventions.plane not in (PHYSICAL.plane, rules.plane):
            raise DisolError(f"On pixels, {rules.name} conventions mean plane {rules.plane}. Use disol.solve_exact.")
        problem, factors = self.problem.on_length(self.frame.length)
        terms = {name: times(factors.get(problem.term(name).kind, 1.0), value) for name, value in self.terms.items()}
        return replace(self, problem=problem, conventions=rules, terms=terms, stated=(), frame=Frame(), members=())

    def system(self, element: str = "q1") -> System:
        """Discretise the case on pixels, on the device of its terms: the element matrix, the unknowns and the load."""
        if self.conventions.true_boundary:
            raise DisolError(f"{self} has cut elements, each with its own matrix. Use disol.system.")
        return self.problem.system(self.terms, self.conventions, find("element", element, ELEMENTS)(self.grid.h))

    def __len__(self) -> int:
        if not self.is_batch:
            raise TypeError("This is one case, not a batch.")
        return len(self.domain)

    def __bool__(self) -> bool:
        """Return True: a case is never falsy, whatever `len` says."""
        return True

    def __getitem__(self, which: int | slice) -> "Case":
        """Return one case of a batch, or some of them as a batch."""
        number = len(self)
        if not isinstance(which, slice | int | np.integer):
            raise TypeError(f"Cases are chosen by a number or a slice, got {which!r}.")
        if not isinstance(which, slice) and not -number <= which < number:
            raise IndexError(f"This batch has cases 0 to {number - 1}, got {which}.")
        if isinstance(which, slice) and not range(*which.indices(number)):
            raise DisolError(f"A batch needs at least one case, but {which} chooses none of {number}.")
        if self.members and not isinstance(which, slice):
            return self.members[which]
        terms = {name: value if name == "times" else value[which] for name, value in self.terms.items()}
        placed = None if self._placed is None else {name: value[which] for name, value in self._placed.items()}
        kept = self.members[which] if isinstance(which, slice) else ()
        return Case(self.problem, self.conventions, terms, is_drawn=self.is_drawn, members=kept, _placed=placed)

    def __iter__(self) -> Iterator["Case"]:
        return (self[number] for number in range(len(self)))

    def on(self, device: Any) -> "Case":
        """Return the case with its arrays on a torch device, to be discretised there; functions stay on the host."""
        placed = self._placed
        if placed is None:
            data = {name: value for name, value in self.terms.items() if self.problem.term(name).kind is not TIMES}
            if is_tensor(self.domain) or any(map(is_function, data.values())):
                return self
            placed = {name: to_device(value, device) for name, value in data.items()}
        return replace(self, terms={**self.terms, **placed}, _placed=None)

    def pieces(self, most: int) -> Iterator["Case"]:
        """Split a batch into pieces of nearly equal size with at most `most` cases each; one case is one piece."""
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
        names = dict.fromkeys(name for case in self.members or (self,) for name in case.coefficients)
        varying = f", own {', '.join(names)}" if names else ""
        covered = float(self.domain.sum()) / self.domain.reshape(-1).shape[0]
        return (
            f"Case({self.problem.name}, {batch}{height} x {width}, {covered:.0%} of it domain, "
            f"{self.conventions.name} conventions{varying}{drawn}{shift}{times})"
        )

    def plot(self) -> "Figure":
        """Plot the data of the case; the figure belongs to pyplot, so that notebooks and `plt.show()` show it."""
        return import_module("disol.viz").plot_case(self)

    def _repr_html_(self) -> str:
        return import_module("disol.viz").as_html(self)

    def require_conventions(self, asked: str | Conventions | None) -> Conventions:
        """Return the conventions of the case; raise an error if others are asked for."""
        if asked is not None and str(asked) != self.conventions.name:
            raise DisolError(
                f"This case was drawn with conventions {self.conventions.name!r}, not {str(asked)!r}. "
                f"Draw it with conventions={str(asked)!r}, or leave the argument out."
            )
        return self.conventions


draw = Case.draw


@contextmanager
def naming_the_case(batch: Case, step: Callable[[Case], object]) -> Iterator[None]:
    """Name the case in the error if a step on a batch fails because of one of its cases."""
    try:
        yield
    except DisolError as error:
        for number, case in enumerate(batch if batch.is_batch else ()):
            try:
                step(case)
            except DisolError as own:
                raise DisolError(f"Case {number}: {own}") from error
        raise
