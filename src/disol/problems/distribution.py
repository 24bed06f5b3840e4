"""What cases are drawn from: the training distribution, and the factors that lead out of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from disol.fields import HIGH_FREQUENCY, IN_DISTRIBUTION, FieldSettings
from disol.geometry import Geometry, Segment, draw_geometry, draw_segments, named_shape
from disol.problems.checks import Unchecked
from disol.problems.sizes import Size, interval, is_number, parse_size, read_size, write_size

Shift = str | Mapping[str, Size | None] | None


@dataclass(frozen=True)
class SegmentSettings:
    """How boundary markers are drawn: how many outer segments, how long, and how often one on the hole."""

    count: tuple[int, int] = (1, 1)
    length: tuple[float, float] = (0.1, 0.25)
    hole_probability: float = 0.0
    hole_length: tuple[float, float] = (0.1, 0.3)

    def draw(self, rng: np.random.Generator, geometry: Geometry) -> tuple[Segment, ...]:
        """Draw the segments of one marker."""
        count = int(rng.integers(self.count[0], self.count[1] + 1))
        # More than three fragments share the length of three, so that any number fits on a loop.
        crowding = min(1.0, 3 / count)
        segments = draw_segments(rng, count, (self.length[0] * crowding, self.length[1] * crowding))
        if geometry.holes and rng.random() < self.hole_probability:
            hole = 1 + int(rng.integers(len(geometry.holes)))
            segments += draw_segments(rng, 1, self.hole_length, curve=hole)
        return segments


FRAGMENTED = SegmentSettings(count=(1, 3), length=(0.05, 0.15), hole_probability=0.5)
HOLE_SIZE = (0.2, 0.4)


@dataclass(frozen=True)
class Distribution:
    """Where the geometry, the boundary segments and the fields of a case come from."""

    alpha: float = 0.8
    hole_size: tuple[float, float] | None = None
    shape: str | None = None
    shape_hole: bool = False
    segments: SegmentSettings = SegmentSettings()
    fields: FieldSettings = IN_DISTRIBUTION

    def draw_geometry(self, outline_rng: np.random.Generator, hole_rng: np.random.Generator) -> Geometry:
        """Draw a domain, or return the named one."""
        if self.shape is not None:
            return named_shape(self.shape, self.shape_hole)
        return draw_geometry(outline_rng, hole_rng, self.alpha, self.hole_size)


def with_topology(distribution: Distribution, size: Size | None) -> Distribution:
    """Cut a hole; its size is the side of the box its points are drawn in."""
    hole_size = HOLE_SIZE if size is None else interval("topology", size, 0.05, 0.6)
    return replace(distribution, hole_size=hole_size)


def with_boundary(distribution: Distribution, size: Size | None) -> Distribution:
    """Fragment the boundary segments; the size is their number on the outer boundary."""
    if size is None:
        return replace(distribution, segments=FRAGMENTED)
    fewest, most = interval("boundary", size, 1.0, 20.0)
    if not (fewest.is_integer() and most.is_integer()):
        raise ValueError(f"The size of 'boundary' is a number of segments, got {write_size(size)}. Give whole numbers.")
    return replace(distribution, segments=replace(FRAGMENTED, count=(int(fewest), int(most))))


def with_source(distribution: Distribution, size: Size | None) -> Distribution:
    """Roughen sources and initial fields; the size is the highest frequency of their waves."""
    if size is None:
        return replace(distribution, fields=HIGH_FREQUENCY)
    lowest, highest = interval("source", size, 0.1, 64.0)
    if lowest != highest:
        raise ValueError(
            f"The size of 'source' is one number, got {write_size(size)}. Give the highest frequency alone."
        )
    return replace(distribution, fields=replace(HIGH_FREQUENCY, frequency=highest))


FACTORS: dict[str, Callable[[Distribution, Size | None], Distribution]] = {
    "topology": with_topology,
    "boundary": with_boundary,
    "source": with_source,
}


def read_shift(shift: Shift | Unchecked) -> dict[str, Size | None]:
    """Read a shift into factors and their sizes, None meaning the usual size.

    `None`, `"topology"`, `"boundary,source"`, `"all"`, `"topology=0.3"`, `"topology=0.2..0.3"` for sizes drawn between
    two, `"shape:arrow+hole"`, or a mapping `{"topology": (0.2, 0.3), "source": None}`.
    """
    if shift is None:
        return {}
    if isinstance(shift, Mapping):
        return {str(factor): read_size(str(factor), size) for factor, size in shift.items()}
    if not isinstance(shift, str):
        raise ValueError(f"A shift is a name, a mapping of names to sizes or None, got {shift!r}. Pass one of these.")
    factors: dict[str, Size | None] = {}
    for part in shift.split(","):
        name, equals, size = part.strip().partition("=")
        if name in factors:
            raise ValueError(f"The shift {shift!r} names {name!r} twice. Name it once.")
        factors[name] = parse_size(name, size) if equals else None
    return factors


def describe_shift(shift: Shift | Unchecked) -> str | None:
    """Write a shift as the string that `read_shift` reads; None for the training distribution."""
    factors = read_shift(shift)
    if not factors:
        return None
    if isinstance(shift, str):
        return shift
    return ",".join(name if size is None else f"{name}={write_size(size)}" for name, size in factors.items())


def shifted(shift: Shift | Unchecked, alpha: float | Unchecked = 0.8) -> Distribution:
    """Return the distribution a shift leads to."""
    if not is_number(alpha) or not 0 <= alpha <= 1:
        raise ValueError(f"alpha must lie in [0, 1], got {alpha!r}. The training outlines use 0.8.")
    distribution, factors = Distribution(alpha=float(alpha)), read_shift(shift)
    for name in sorted(factors, key=lambda name: name in FACTORS):  # these last: their own sizes are to hold
        if name in FACTORS:
            distribution = FACTORS[name](distribution, factors[name])
        elif name != "all" and not name.startswith("shape:"):
            known = [*FACTORS, "all", "shape:NAME", "shape:NAME+hole"]
            raise ValueError(f"Unknown shift {name!r}. The shifts are {', '.join(known)}.")
        elif factors[name] is not None:
            raise ValueError(f"Only {', '.join(FACTORS)} have sizes, but {name!r} got one. Give it to one of these.")
        elif name == "all":
            for factor in FACTORS.values():
                distribution = factor(distribution, None)
        else:
            distribution = with_shape(distribution, name.removeprefix("shape:"))
    if distribution.shape is not None and distribution.hole_size is not None:
        raise ValueError(
            f"A named shape has no random hole, got the shift {describe_shift(shift)!r}. "
            f"Write shape:{distribution.shape}+hole for its own hole, without topology and all."
        )
    return distribution


def with_shape(distribution: Distribution, written: str) -> Distribution:
    """Take a named shape, written as `arrow` or `arrow+hole`, instead of a random outline."""
    shape, _, hole = written.partition("+")
    if hole not in ("", "hole"):
        raise ValueError(f"Unknown addition {hole!r} to shape {shape!r}. Only '+hole' can be added.")
    named_shape(shape)
    if distribution.shape is not None:
        raise ValueError(f"A case has one shape, got {distribution.shape!r} and {shape!r}. Name one of them.")
    shaped = replace(distribution, shape=shape, shape_hole=bool(hole))
    # The paper's kind of test: sharp corners, a hole, fragments and rough sources at once.
    return with_source(with_boundary(shaped, None), None) if hole else shaped
