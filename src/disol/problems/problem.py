"""Problems: their terms and fields, weak forms, and how their cases are checked, encoded and discretised."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Float, Float32

from disol import _checks as checks
from disol._arrays import Array, namespace_of
from disol._terms import FORCE, SOURCE, SUPPORT, TIMES, ChannelLayout, Kind, Term, terms_of_kind
from disol.errors import DisolError, shown
from disol.fem import Element, System, forms
from disol.fem.cut_forms import ComponentSource, Form
from disol.fem.rounding import settle
from disol.fields import Source, at_nodes, at_pixels
from disol.geometry import Raster, Segment
from disol.grid import Grid, nodes_touching
from disol.problems.coefficients import Coefficient
from disol.problems.conventions import Conventions
from disol.problems.normalisation import JOINT, PER_COMPONENT, Normalisation

# The data of one case by name: masks, forces, sources. For a batch, arrays start with a batch axis, and tuples have a
# function for each case.
Terms = Mapping[str, Any]
Mask = Bool[Array, "*batch height width"]

FRAME = 2.0  # seconds between the stored frames of a transient problem
TRAINED_UNTIL = 20.0  # seconds; amplitudes are taken up to it, and it is 1 in the time channel
STORED_UNTIL = 50.0
MOST_STEPS = 100_000


@dataclass(frozen=True)
class Frames:
    """The time steps of a solution: those to compute, those asked for, and those over which its amplitude is taken.

    steps     numbers of the time steps after which there is a frame; None for the one frame of a steady problem
    asked     indices into `steps` of the frames asked for
    counted   number of leading frames over which the amplitude is taken
    """

    steps: tuple[int, ...] | None = None
    asked: tuple[int, ...] = (0,)
    counted: int = 1

    def pick(self, values: Float[Array, "*batch frame component y x"]) -> Float[Array, "*batch_time component y x"]:
        """Return the frames asked for; a steady problem has no time axis."""
        return values[..., self.asked[0] if self.steps is None else list(self.asked), :, :, :]


@dataclass(frozen=True)
class Problem(ABC):
    """A partial differential equation on varying domains; a new one defines its terms and its weak form.

    name         the name that finds it
    equation     the PDE as text, with the signs as solved
    resolution   pixels along a side of its own grid
    """

    name: str
    equation: str
    resolution: int

    terms: ClassVar[tuple[Term, ...]]
    fields: ClassVar[tuple[str, ...]]
    # The numbers in the equation, which a case can replace, and the function that reads each.
    parameters: ClassVar[dict[str, Callable[[str, Any], Any]]] = {}
    # What may vary in space on the true boundary, some of these numbers included, and the values it may have.
    coefficients: ClassVar[dict[str, Coefficient]] = {}
    # The equation is the same everywhere, and loads rotate and mirror as their kinds say: training then moves cases
    # over the grid, and rotates and mirrors them by the symmetries of the element matrix.
    is_homogeneous: ClassVar[bool] = False
    # Conventions that a case can be discretised with on pixels, and whether a `form` allows it on the true boundary.
    known_conventions: ClassVar[tuple[str, ...]] = ("paper", "published")
    has_form: ClassVar[bool] = False
    # Other names of numbers and coefficients, and whether plane strain or plane stress can be chosen.
    aliases: ClassVar[Mapping[str, str]] = {}
    has_plane: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        changes = vars(cls)
        # An inherited form would be that of another equation, and so would its text.
        if {"element_matrix", "load"} & changes.keys() and not {"form", "has_form"} & changes.keys():
            cls.has_form = False
        if {"element_matrix", "load", "form"} & changes.keys() and "equation_with" not in changes:
            cls.equation_with = Problem.equation_with  # type: ignore[method-assign]

    def __post_init__(self) -> None:
        for name, read in self.parameters.items():
            object.__setattr__(self, name, read(name, getattr(self, name)))

    def __str__(self) -> str:
        return self.name

    @abstractmethod
    def element_matrix(self, element: Element, conventions: Conventions) -> Float[np.ndarray, "local local"]:
        """Return the matrix that every pixel of a domain adds to the system."""

    @abstractmethod
    def load(
        self, terms: Terms, conventions: Conventions, element: Element
    ) -> Float[Array, "*batch component rows columns"]:
        """Return the load vector b, by node."""

    def form(self, conventions: Conventions, coefficients: Terms) -> Form:
        """Return the equation as a form for elements cut at the true boundary; needs `has_form`.

        Varying coefficients, by name, are arrays whose last axes are pixels.
        """
        raise NotImplementedError

    def equation_with(self, coefficients: Collection[str]) -> str:
        """Return the PDE as text with the numbers it has, and with further coefficients by name."""
        del coefficients
        return self.equation

    def out_of_plane(self, conventions: Conventions, coefficients: Terms) -> Any:
        """Return σ_zz / (σ_xx + σ_yy), a number or one per pixel; None if the fields are not displacements."""
        del conventions, coefficients

    def by_own_names(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Replace other names of numbers and coefficients by those in the equation."""
        read = dict(given)
        for alias, name in self.aliases.items():
            if alias in read and name in read:
                raise DisolError(f"{alias} and {name} are the same in {self.name}. Give one of them.")
            if alias in read:
                read[name] = read.pop(alias)
        return read

    def choose_plane(self, conventions: Conventions, plane: Any) -> Conventions:
        """Return conventions with plane strain or plane stress."""
        if not self.has_plane:
            raise DisolError(f"{self.name} has no plane of strain or stress. Leave out plane.")
        is_known = isinstance(plane, str) and plane in ("strain", "stress")
        if not is_known:
            raise DisolError(f"plane must be 'strain' or 'stress', got {shown(plane)}.")
        if not conventions.true_boundary and plane != conventions.plane:
            raise DisolError(
                f"plane {conventions.plane} belongs to {conventions.name} conventions. Pass conventions='physical'."
            )
        return replace(conventions, plane="strain" if plane == "strain" else "stress")

    def in_units(self) -> "Problem":
        """Return the problem for given materials or lengths: without the numbers chosen for the unit square."""
        return self

    def with_step(self, step: Any) -> "Problem":
        """Return the problem with another time step."""
        raise DisolError(f"{self.name} has no time steps, got a time_step of {shown(step)}.")

    def on_length(self, length: float) -> "tuple[Problem, dict[Kind, float]]":
        """Return the problem in coordinates L times smaller, and the factors for the loads of each kind."""
        return self, {SOURCE: length**2, FORCE: length}

    def is_multiple_of(self, other: "Problem") -> bool:
        """Tell whether its operator is a multiple of another problem's, so that patterns are the same."""
        return self == other

    @property
    def flux_factor(self) -> float:
        """The conormal flux of the form per unit of the user's flux."""
        return 1.0

    def sources(self, terms: Terms, coefficients: Terms) -> list[ComponentSource]:
        """Return the source of each component inside the domain: a function, values per pixel, a number, or None."""
        del coefficients
        return [terms.get("source")] if len(self.fields) == 1 else [None] * len(self.fields)

    def cautions(self, domain: Mask, coefficients: Terms) -> Iterator[str]:
        """Yield warnings of what makes solutions on a true boundary less accurate than usual."""
        del domain, coefficients
        yield from ()

    @cached_property
    def channels(self) -> ChannelLayout:
        """Names of the channels that a network sees, one for each term."""
        return ChannelLayout(*(term.channel for term in self.terms))

    @property
    def times(self) -> tuple[float, ...]:
        """Seconds of the frames that a file stores; none for a steady problem."""
        return ()

    @property
    def step(self) -> float:
        """The time step δ of a transient problem, which its load is multiplied by; 1 for a steady one."""
        return 1.0

    @property
    def shifts(self) -> tuple[str, ...]:
        """Factors that shift cases out of the training distribution."""
        has_fields = any(term.kind.is_load and not term.kind.has_sign for term in self.terms)
        return ("topology", "boundary", *(("source",) if has_fields else ()))

    def normalisation(self, conventions: Conventions) -> Normalisation:
        """Return how the fields are scaled."""
        return PER_COMPONENT if conventions.component_patterns and len(self.fields) > 1 else JOINT

    def term(self, name: str) -> Term:
        """Return the term called `name`."""
        return next(term for term in self.terms if term.name == name)

    def check(self, terms: Terms, held_by_pixels: bool = True) -> dict[str, Any]:
        """Read and check the user's terms for one case or for a batch.

        held_by_pixels   marked pixels must hold it; otherwise parts of its true boundary may, which its system checks
        """
        domain = self.terms[0].kind.check("domain", terms["domain"], terms["domain"])
        checked = {"domain": domain}
        for term in self.terms[1:]:
            if term.kind is SUPPORT and not held_by_pixels:
                checked[term.name] = checks.as_mask(term.name, terms[term.name])
                checks.require_inside(term.name, checked[term.name], domain)
            else:
                checked[term.name] = term.kind.check(term.name, terms[term.name], domain)
        if held_by_pixels:
            self.free_nodes(checked)
        return checked

    def free_nodes(self, terms: Terms) -> Bool[Array, "*batch component rows columns"]:
        """Mark the unknowns: the nodes of the domain not touched by a support of their component; require some."""
        active = nodes_touching(terms["domain"])
        free = []
        for name in self.fields:
            component = component_of(name)
            held = [term for term in terms_of_kind(self.terms, SUPPORT) if term.component in (None, component)]
            own = active
            for term in held:
                own = own & ~nodes_touching(terms[term.name])
            free.append(own)
        stacked = namespace_of(active).stack(free, axis=-3)
        if not stacked.any(axis=(-3, -2, -1)).all():
            supports = " or ".join(term.name for term in terms_of_kind(self.terms, SUPPORT))
            raise DisolError(f"Every node is held, so there is nothing to solve. Mark fewer {supports} pixels.")
        return stacked

    def encode(self, terms: Terms, conventions: Conventions) -> Float32[Array, "*batch channel height width"]:
        """Stack the channels of a network; raise an error if a value is too large for float32."""
        domain = terms["domain"]
        *batch, height, width = domain.shape
        xp = namespace_of(domain)
        device = {} if xp is np else {"device": domain.device}
        stacked = xp.empty((*batch, len(self.terms), height, width), dtype=xp.float32, **device)
        for place, term in enumerate(self.terms):
            checks.as_float32(term.name, self.channel(term, terms, conventions), stacked[..., place, :, :])
        return stacked

    def channel(self, term: Term, terms: Terms, conventions: Conventions) -> Any:
        """Return what a network sees of a term."""
        del conventions
        return term.kind.encode(terms[term.name], terms["domain"])

    def scaling_samples(self, source: Source, domain: Mask, conventions: Conventions) -> Float[Array, "*batch sample"]:
        """Sample a field where it is scaled to [0, 1]; for a batch one value per pixel, 0 outside the domain."""
        del conventions
        values = at_pixels(source, domain)
        return values[domain] if domain.ndim == 2 else values.reshape(len(domain), -1)

    def system(self, terms: Terms, conventions: Conventions, element: Element) -> System:
        """Discretise checked terms: A u = b, or the steps of a transient problem."""
        with np.errstate(over="ignore", invalid="ignore"):  # whatever is not finite is refused
            matrix, load = self.element_matrix(element, conventions), self.load(terms, conventions, element)
        if not namespace_of(load).isfinite(load).all():
            raise DisolError("The load overflows in double precision. Use other units.")
        return System(terms["domain"], settle(matrix), self.free_nodes(terms), load)

    def symmetriser(self, grid: Grid) -> Float[np.ndarray, "rows columns"]:
        """Return ρ at the nodes such that ρ A is symmetric up to the discretisation error: 1 if A is symmetric."""
        return np.ones((grid.height + 1, grid.width + 1))

    def require_steps(self, times: Sequence[float]) -> None:
        """Require times that are whole numbers of time steps; only transient problems check them."""
        del times

    def frames(self, times: Sequence[float] | None) -> Frames:
        """Return the time steps needed for some times."""
        del times
        return Frames()

    def frame_inputs(
        self, inputs: Float32[Array, "batch channel height width"], times: Sequence[float] | None
    ) -> Float32[Array, "batch frame channel height width"]:
        """Return the channels of every frame asked for; a steady problem has one."""
        del times
        return inputs[:, None]


@dataclass(frozen=True)
class TransientProblem(Problem):
    """A problem that is stepped in time: on pixels by backward Euler, (M + δ K) uⁿ⁺¹ = M uⁿ + δ b.

    `element_matrix` is that of M + δ K, and `load` returns δ b.

    steps_per_frame   time steps in each frame of 2 s
    time_step         δ in seconds, if the user has chosen it, for a case on its true boundary; there are no frames then
    """

    steps_per_frame: int = 1
    time_step: float | None = None

    parameters: ClassVar = {"steps_per_frame": checks.steps_per_frame}

    @property
    def step(self) -> float:
        """δ in seconds."""
        return FRAME / self.steps_per_frame if self.time_step is None else self.time_step

    def with_step(self, step: Any) -> "TransientProblem":
        """Return the problem with another time step."""
        return replace(self, time_step=checks.positive_number("time_step", step))

    @property
    def times(self) -> tuple[float, ...]:
        """Every 2 s up to 50 s."""
        return tuple(FRAME * frame for frame in range(1, round(STORED_UNTIL / FRAME) + 1))

    @property
    def trained_times(self) -> tuple[float, ...]:
        """Every 2 s up to 20 s."""
        return tuple(time for time in self.times if time <= TRAINED_UNTIL)

    def check(self, terms: Terms, held_by_pixels: bool = True) -> dict[str, Any]:
        """Read and check terms; by default, times are those of training."""
        checked = super().check(
            {term.name: self.trained_times for term in self.terms if term.kind is TIMES} | {**terms}, held_by_pixels
        )
        self.require_steps(checked["times"])
        return checked

    def require_steps(self, times: Sequence[float]) -> None:
        """Require times that are whole numbers of time steps, and not too many of them."""
        steps = np.asarray(times) / self.step
        if steps.max() > MOST_STEPS:
            raise DisolError(
                f"times must be at most {MOST_STEPS:,} time steps of {self.step:g} s, got {max(times):g} s. "
                "Ask for earlier ones, or take a larger time_step."
            )
        if np.abs(steps - np.round(steps)).max() > 1e-9 * max(1.0, steps.max()):
            raise DisolError(
                f"times must be multiples of the time step, {self.step:g} s, got {list(times)}. "
                "Round them, or choose another time_step."
            )

    def frames(self, times: Sequence[float] | None) -> Frames:
        """Return all steps up to 20 s, over which the amplitude is taken, and those at the times.

        With a chosen time step the amplitude is taken over the start and the times themselves.
        """
        asked = [round(time / self.step) for time in times or ()]
        counted = {*range(round(TRAINED_UNTIL / self.step) + 1)} if self.time_step is None else {0, *asked}
        places = {step: place for place, step in enumerate(sorted(counted | {*asked}))}
        return Frames(tuple(places), tuple(places[step] for step in asked), len(counted))

    def channel(self, term: Term, terms: Terms, conventions: Conventions) -> Any:
        """Return what a network sees; for the times, the first one as a share of 20 s."""
        if term.kind is not TIMES:
            return super().channel(term, terms, conventions)
        domain = terms["domain"]
        return namespace_of(domain).full_like(domain, terms["times"][0] / TRAINED_UNTIL, dtype=float)

    def frame_inputs(
        self, inputs: Float32[Array, "batch channel height width"], times: Sequence[float] | None
    ) -> Float32[Array, "batch frame channel height width"]:
        """Return the channels at each time."""
        xp, shares = namespace_of(inputs), [time / TRAINED_UNTIL for time in times or ()]
        stacked = xp.stack([inputs] * len(shares), axis=1)
        place = next(place for place, term in enumerate(self.terms) if term.kind is TIMES)
        for frame, share in enumerate(shares):
            stacked[:, frame, place] = share
        return stacked

    def system(self, terms: Terms, conventions: Conventions, element: Element) -> System:
        """Discretise checked terms: the system of one step, M, and u⁰."""
        steady = super().system(terms, conventions, element)
        return System(
            steady.mask, steady.element_matrix, steady.free, steady.load, forms.mass(element), self.initial_nodes(terms)
        )

    def initial_nodes(self, terms: Terms) -> Float[Array, "*batch 1 rows columns"]:
        """u⁰ at the nodes, 0 where they are held."""
        domain = terms["domain"]
        values = at_nodes(terms["initial"], domain, nodes_touching(domain))
        return values[..., None, :, :] * self.free_nodes(terms)


@dataclass(frozen=True)
class Markers:
    """Boundary segments of one channel: they mark pixels, or load each with the same force."""

    segments: tuple[Segment, ...]
    force: float | None = None

    def on(self, raster: Raster) -> Bool[np.ndarray, "height width"] | Float[np.ndarray, "height width"]:
        """Return the channel on a grid."""
        marked = raster.mark(self.segments)
        return marked if self.force is None else self.force * marked


def component_of(name: str) -> str | None:
    """Return the component at the end of the name of a field or channel: "x" for "u_x"."""
    base, underscore, axis = name.rpartition("_")
    return axis if underscore and base and axis in ("x", "y") else None
