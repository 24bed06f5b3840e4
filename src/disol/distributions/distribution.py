"""The distributions that cases are drawn from: the training distribution, and the shifts away from it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np

from disol._checks import is_number
from disol._mixture import Mixture
from disol.distributions import broad, released
from disol.distributions.segments import SegmentKind, SegmentSettings
from disol.distributions.sizes import Size, interval, parse_size, read_size, write_size
from disol.errors import DisolError, shown
from disol.fields import HIGH_FREQUENCY, IN_DISTRIBUTION, RandomField
from disol.geometry import Geometry, Segment, draw_geometry, named_shape
from disol.problems.problem import STORED_UNTIL, TRAINED_UNTIL

Shift = str | Mapping[str, Size | None] | None

ONE_RUN = SegmentSettings()
FRAGMENTED = SegmentSettings(count=(1, 3), length=(0.05, 0.15), hole_probability=0.5)
HOLE_SIZE = (0.2, 0.4)


@runtime_checkable
class DomainKind(Protocol):
    """A kind of random domain."""

    def draw(self, outline_rng: np.random.Generator, hole_rng: np.random.Generator, /) -> Geometry:
        """Draw a domain, its outline and its holes from separate random streams."""


@dataclass(frozen=True)
class RandomDomain:
    """A smooth random outline as in the paper, with a hole if `hole_size` is given."""

    alpha: float = 0.8
    hole_size: tuple[float, float] | None = None

    def draw(self, outline_rng: np.random.Generator, hole_rng: np.random.Generator) -> Geometry:
        """Draw a domain."""
        return draw_geometry(outline_rng, hole_rng, self.alpha, self.hole_size)


@dataclass(frozen=True)
class NamedDomain:
    """A named shape, always the same."""

    name: str
    hole: bool = False

    def draw(self, outline_rng: np.random.Generator, hole_rng: np.random.Generator) -> Geometry:
        """Return the shape."""
        del outline_rng, hole_rng
        return named_shape(self.name, self.hole)


@dataclass(frozen=True)
class Distribution:
    """The distributions of the geometry, the boundary segments and the fields of a case.

    segments   segments of supports
    loaded     segments of forces; None for those of `segments`
    clamped    probability that a body is fixed in both directions at the same places
    unequal    probability that one of two loads (force_x and force_y, source and initial field) is smaller, or absent
    last_time  latest time of a transient problem, in seconds
    """

    domain: DomainKind = RandomDomain()
    segments: SegmentKind = ONE_RUN
    loaded: SegmentKind | None = None
    fields: RandomField = IN_DISTRIBUTION
    clamped: float = 0.0
    unequal: float = 0.0
    last_time: float = TRAINED_UNTIL

    def draw_forces(self, rng: np.random.Generator, geometry: Geometry) -> tuple[Segment, ...]:
        """Draw the segments where forces act."""
        return (self.loaded or self.segments).draw(rng, geometry)

    def is_clamped(self, rng: np.random.Generator) -> bool:
        """Draw whether a body is fixed in both directions at the same places."""
        return rng.random() < self.clamped

    def draw_sizes(self, rng: np.random.Generator) -> tuple[float, float]:
        """Draw the sizes of two loads: one of them is 1, the other 1, less, or 0."""
        if rng.random() >= self.unequal:
            return 1.0, 1.0
        smaller = max(0.0, rng.uniform(-1.0, 1.0))
        return (1.0, smaller) if rng.random() < 0.5 else (smaller, 1.0)


def with_topology(distribution: Distribution, size: Size | None) -> Distribution:
    """Cut a hole; its size is the side of the box that its points are drawn in."""
    hole_size = HOLE_SIZE if size is None else interval("topology", size, 0.05, 0.6)
    domain = distribution.domain
    if isinstance(domain, NamedDomain):
        raise no_random_hole(domain.name)
    assert isinstance(domain, RandomDomain)
    return replace(distribution, domain=replace(domain, hole_size=hole_size))


def with_boundary(distribution: Distribution, size: Size | None) -> Distribution:
    """Fragment the boundary segments; the size is their number on the outer boundary."""
    if size is None:
        return replace(distribution, segments=FRAGMENTED)
    fewest, most = interval("boundary", size, 1.0, 20.0)
    if not (fewest.is_integer() and most.is_integer()):
        raise DisolError(f"The size of 'boundary' must be whole numbers of segments, got {write_size(size)}.")
    return replace(distribution, segments=replace(FRAGMENTED, count=(int(fewest), int(most))))


def with_source(distribution: Distribution, size: Size | None) -> Distribution:
    """Roughen sources and initial fields; the size is the highest frequency of their waves."""
    if size is None:
        return replace(distribution, fields=HIGH_FREQUENCY)
    lowest, highest = interval("source", size, 0.1, 64.0)
    if lowest != highest:
        raise DisolError(
            f"The size of 'source' is one number, got {write_size(size)}. Give the highest frequency only."
        )
    return replace(distribution, fields=replace(HIGH_FREQUENCY, frequency=highest))


FACTORS: dict[str, Callable[[Distribution, Size | None], Distribution]] = {
    "topology": with_topology,
    "boundary": with_boundary,
    "source": with_source,
}


def read_shift(shift: Shift) -> dict[str, Size | None]:
    """Read a shift into factors and their sizes, where None is the default size.

    A shift is `None`, `"topology"`, `"boundary,source"`, `"all"`, `"topology=0.3"`, `"topology=0.2..0.3"` for sizes
    drawn from an interval, `"shape:arrow+hole"`, `"broad"`, `"released"`, or a mapping
    `{"topology": (0.2, 0.3), "source": None}`.
    """
    if shift is None:
        return {}
    if isinstance(shift, Mapping):
        return {str(factor): read_size(str(factor), size) for factor, size in shift.items()}
    if not isinstance(shift, str):
        raise DisolError(f"A shift is a name, a mapping of names to sizes, or None, got {shown(shift)}.")
    factors: dict[str, Size | None] = {}
    for part in shift.split(","):
        name, equals, size = part.strip().partition("=")
        if name in factors:
            raise DisolError(f"The shift {shift!r} names {name!r} twice.")
        factors[name] = parse_size(name, size) if equals else None
    return factors


def describe_shift(shift: Shift) -> str | None:
    """Write a shift as the string that `read_shift` reads; None for the training distribution."""
    factors = read_shift(shift)
    if not factors:
        return None
    if isinstance(shift, str):
        return shift
    return ",".join(name if size is None else f"{name}={write_size(size)}" for name, size in factors.items())


def names_a_shape(shift: Shift) -> bool:
    """Tell whether all cases of a shift have one named shape."""
    return any(name.startswith("shape:") for name in read_shift(shift))


def shifted(shift: Shift, alpha: float = 0.8, elastic: bool = False) -> Mixture[Distribution]:
    """Return the distributions of a shift, usually one, for elastic bodies or for scalar fields."""
    if not is_number(alpha) or not 0 <= alpha <= 1:
        raise DisolError(f"alpha must lie in [0, 1], got {shown(alpha)}. The training outlines use 0.8.")
    distribution, factors = Distribution(domain=RandomDomain(float(alpha))), read_shift(shift)
    for name in sorted(factors, key=lambda name: name in FACTORS):  # factors last, so that their sizes prevail
        if name in FACTORS:
            distribution = FACTORS[name](distribution, factors[name])
        elif name not in ("all", *MIXTURES) and not name.startswith("shape:"):
            known = [*FACTORS, "all", "shape:NAME", "shape:NAME+hole", *MIXTURES]
            raise DisolError(f"Unknown shift {name!r}. The shifts are {', '.join(known)}.")
        elif factors[name] is not None:
            raise DisolError(f"Only {', '.join(FACTORS)} have sizes, but {name!r} got one.")
        elif name in MIXTURES:
            require_alone(name, shift, alpha)
            return MIXTURES[name]["elastic" if elastic else "scalar"]
        elif name == "all":
            distribution = with_all(distribution)
        else:
            distribution = with_shape(distribution, name.removeprefix("shape:"))
    return Mixture(((1.0, distribution),))


def require_alone(name: str, shift: Shift, alpha: float) -> None:
    """Refuse to combine a mixture with other shifts: its parts have their own holes, segments, sources and outlines."""
    if len(read_shift(shift)) > 1:
        raise DisolError(f"The shift {name!r} stands alone, got {describe_shift(shift)!r}. Leave out the others.")
    if alpha != RandomDomain.alpha:
        raise DisolError(f"The shift {name!r} draws its own outlines, but alpha={alpha:g} was given. Leave alpha out.")


def with_all(distribution: Distribution) -> Distribution:
    """Apply every factor at its default size."""
    for factor in FACTORS.values():
        distribution = factor(distribution, None)
    return distribution


def with_shape(distribution: Distribution, written: str) -> Distribution:
    """Take a named shape, written as `arrow` or `arrow+hole`, instead of a random outline."""
    shape, _, hole = written.partition("+")
    if hole not in ("", "hole"):
        raise DisolError(f"Unknown addition {hole!r} to shape {shape!r}. Only '+hole' can be added.")
    named_shape(shape)
    before = distribution.domain
    if isinstance(before, NamedDomain):
        raise DisolError(f"A case has one shape, got {before.name!r} and {shape!r}.")
    if isinstance(before, RandomDomain) and before.hole_size is not None:
        raise no_random_hole(shape)
    shaped = replace(distribution, domain=NamedDomain(shape, bool(hole)))
    # As in the paper's tests: sharp corners, a hole, fragments and rough sources at once.
    return with_source(with_boundary(shaped, None), None) if hole else shaped


def no_random_hole(shape: str) -> DisolError:
    """Return the error for a named shape that was asked to have a random hole."""
    return DisolError(
        f"A named shape has no random hole. Write shape:{shape}+hole for its own, and leave out topology and all."
    )


def mixed(everything: Distribution) -> Mixture[Distribution]:
    """Mix domains and loads of every kind with the paper's training distribution and its shift by all factors."""
    return Mixture(((0.6, everything), (0.25, Distribution()), (0.15, with_all(Distribution()))))


# Shifts that cannot be combined with others, for problems with a scalar field and for elasticity.
MIXTURES: dict[str, dict[str, Mixture[Distribution]]] = {
    "broad": {
        "scalar": mixed(
            Distribution(broad.DOMAINS, broad.SUPPORTS, fields=broad.FIELDS, unequal=0.5, last_time=STORED_UNTIL)
        ),
        "elastic": mixed(Distribution(broad.DOMAINS, broad.FIXED, broad.LOADED, clamped=0.5, unequal=0.5)),
    },
    "released": {
        "scalar": Mixture(((1.0, Distribution(released.CentralHole(), released.SUPPORTS, fields=HIGH_FREQUENCY)),)),
        "elastic": Mixture(((1.0, Distribution(released.SmallHoles(), released.RUNS)),)),
    },
}
