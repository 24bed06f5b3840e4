"""Terms of a problem, and their kinds: all that the package knows of a domain, a support, a source, ... in one place.

A kind defines how a term is checked, encoded for a network, stored, rotated and mirrored, scaled, coloured, labelled
and read from text. A problem lists its terms; nothing else lists their names.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, final

import numpy as np
from jaxtyping import Bool, Float, Shaped

from disol import _checks as checks
from disol._arrays import Array
from disol.errors import DisolError, shown
from disol.expressions import NAMED_FIELDS, read_expression
from disol.fields import Source, at_pixels
from disol.geometry.connected import count_parts
from disol.geometry.loops import NamedLoops, read_ranges

Mask = Bool[Array, "*batch height width"]
Pixels = Shaped[Array, "*batch height width"]
Storage = Literal["bits", "signs", "float32"]
Axis = Literal["x", "y"]


class ChannelLayout(tuple[str, ...]):
    """The ordered names of the channels of an array `[..., channel, height, width]`."""

    def __new__(cls, *names: str) -> "ChannelLayout":
        """Build a layout from distinct names, in the order the channels are stacked."""
        if len(set(names)) != len(names):
            raise DisolError(f"Channel names must differ, got {names}.")
        return super().__new__(cls, names)

    def __getnewargs__(self) -> tuple[str, ...]:
        return tuple(self)

    def position(self, name: str) -> int:
        """Return where `name` is stacked."""
        try:
            return self.index(name)
        except ValueError:
            raise DisolError(f"Unknown channel {name!r}. The channels are {', '.join(self)}.") from None

    def select(
        self, stacked: Shaped[Array, "*batch channel height width"], name: str
    ) -> Shaped[Array, "*batch height width"]:
        """Return the channel called `name` of a stacked array."""
        return stacked[..., self.position(name), :, :]


class Kind(ABC):
    """What terms of one kind have in common.

    dtype         of its values
    storage       how a file keeps its channel; None for a channel that is derived when it is read
    is_geometry   says where the problem is posed and held, not what drives it
    is_load       the solution is linear in all loads together
    has_sign      networks know it with both signs; any other load is split into its positive and its negative part
    is_directed   with a component, mirrored together with it, like a vector
    """

    dtype: ClassVar[type] = float
    storage: ClassVar[Storage | None] = "float32"
    is_geometry: ClassVar[bool] = False
    is_load: ClassVar[bool] = False
    has_sign: ClassVar[bool] = False
    is_directed: ClassVar[bool] = False
    # Of marked pixels in pictures, by component; empty for kinds that are shown as a field.
    colours: ClassVar[Mapping[Axis | None, str]] = {}
    # Texts that stand for a term that is not given, by component.
    defaults: ClassVar[Mapping[Axis | None, str]] = {}

    @abstractmethod
    def check(self, name: str, value: Any, domain: Mask) -> Any:
        """Read what a user gave for one case, or for every case of a batch, on its domain."""

    def encode(self, value: Any, domain: Mask) -> Pixels:
        """Return the channel that a network sees."""
        del domain
        return value

    def label(self, term: "Term", values: Shaped[np.ndarray, "height width"]) -> str:
        """Say what marked pixels mean, or what a field is."""
        del values
        return term.name

    def default(self, term: "Term") -> str:
        """Return the text that stands for a term that is not given."""
        if term.component not in self.defaults:
            raise DisolError(f"{term.name} has no default.")
        return self.defaults[term.component]

    @abstractmethod
    def read(self, term: "Term", text: str, loops: NamedLoops) -> tuple[Any, str]:
        """Read a term written as text on the boundary of a domain; return it, and the text to show for it."""


@dataclass(frozen=True)
class Term:
    """One thing that a case is given: its name, its kind, and the component of a vector that it belongs to."""

    name: str
    kind: Kind
    component: Axis | None = None

    @property
    def channel(self) -> str:
        """Name of the channel that shows it to a network."""
        return "time" if self.kind is TIMES else self.name


@final
class Domain(Kind):
    """Where the equation holds."""

    dtype = bool
    storage = "bits"
    is_geometry = True

    def check(self, name: str, value: Any, domain: Mask | None = None) -> Mask:
        """Read a mask that is not empty."""
        del domain
        mask = checks.as_mask(name, value)
        if not mask.any(axis=(-2, -1)).all():
            raise DisolError(f"{name} is empty: no pixel is 1. Mark the pixels where the equation holds with 1.")
        return mask

    def read(self, term: Term, text: str, loops: NamedLoops) -> tuple[Mask, str]:
        """Take the domain that the loops bound."""
        del term
        return loops.mask, text


@final
class Support(Kind):
    """Where a field, or one of its components, is held at zero."""

    dtype = bool
    storage = "bits"
    is_geometry = True
    colours: ClassVar = {None: "#d1495b", "x": "#d1495b", "y": "#00798c"}
    # In pictures painted by a user.
    paints: ClassVar[Mapping[Axis | None, Literal["red", "blue"]]] = {None: "red", "x": "red", "y": "blue"}
    defaults: ClassVar = dict.fromkeys((None, "x", "y"), "outer:0-0.25")

    def check(self, name: str, value: Any, domain: Mask) -> Mask:
        """Read a mask inside the domain, with a pixel on each of its parts."""
        markers = checks.as_mask(name, value)
        checks.require_inside(name, markers, domain)
        parts, missing = count_parts(domain, markers)
        if missing:
            raise DisolError(
                f"{missing} of {parts} parts of the domain (pixels joined by sides) have no {name} pixel, so the "
                f"solution is not unique. Mark a {name} pixel on each part or remove the part."
            )
        return markers

    def label(self, term: Term, values: Shaped[np.ndarray, "height width"]) -> str:
        """Say which component is zero."""
        del values
        return "U = 0" if term.component is None else f"U_{term.component} = 0"

    def read(self, term: Term, text: str, loops: NamedLoops) -> tuple[Mask, str]:
        """Read ranges of boundary loops."""
        del term
        return loops.mark(read_ranges(text)), text


@final
class Force(Kind):
    """A load on pixels of the boundary, along one component."""

    storage = "signs"
    is_load = True
    has_sign = True
    is_directed = True
    colours: ClassVar = {"x": "#edae49", "y": "#7b4fa3"}
    arrows: ClassVar[Mapping[Axis | None, tuple[str, str]]] = {"x": ("←", "→"), "y": ("↑", "↓")}
    defaults: ClassVar = {"x": "outer:0.4-0.55=1", "y": "outer:0.5-0.65=1"}  # where nothing is held by default

    def check(self, name: str, value: Any, domain: Mask) -> Float[Array, "*batch height width"]:
        """Read one value per pixel, 0 outside the domain."""
        force = checks.as_float(name, value)
        checks.require_inside(name, force != 0, domain)
        return force

    def label(self, term: Term, values: Shaped[np.ndarray, "height width"]) -> str:
        """Say where forces point, and how large they are."""
        forces = np.unique(values[values != 0])
        ways = zip(self.arrows[term.component], (forces < 0, forces > 0), strict=True)
        directions = "".join(arrow for arrow, there in ways if there.any())
        alike = len(forces) > 0 and np.ptp(np.abs(forces)) == 0
        sizes = f"{np.abs(forces).min():g}" if alike else "several sizes" if len(forces) else "0"
        return f"force {directions} {sizes}"

    def read(self, term: Term, text: str, loops: NamedLoops) -> tuple[Float[np.ndarray, "height width"], str]:
        """Read ranges of boundary loops with a force each."""
        del term
        return loops.assign(read_ranges(text, valued=True)), text


class FieldKind(Kind):
    """A field on the domain, or a component of one: a function of x and y, or one value per pixel."""

    is_load = True
    is_directed = True  # only if it has a component
    symbol: ClassVar[str]

    def check(self, name: str, value: Any, domain: Mask) -> Source:
        """Read a function, functions for each case, or values."""
        del domain
        if callable(value):
            return value
        if isinstance(value, tuple):
            return tuple(own if callable(own) else checks.as_float(name, own) for own in value)
        return checks.as_float(name, value)

    def encode(self, value: Source, domain: Mask) -> Pixels:
        """Return f at the centres of pixels."""
        return at_pixels(value, domain)

    def label(self, term: Term, values: Shaped[np.ndarray, "height width"]) -> str:
        """Name the field and its symbol."""
        del values
        return f"{term.name} {self.symbol}"

    def read(self, term: Term, text: str, loops: NamedLoops) -> tuple[Source, str]:
        """Read a formula, or the name of a field."""
        del term
        expression = read_expression(text)
        expression.require_finite(loops.mask)
        return expression, f"{text}: {expression.text}" if text.strip() in NAMED_FIELDS else text


@final
class VolumeSource(FieldKind):
    """What drives the equation everywhere in the domain."""

    symbol = "f"
    defaults: ClassVar = {None: "wave"}


@final
class InitialField(FieldKind):
    """What a transient problem starts from."""

    symbol = "U₀"
    defaults: ClassVar = {None: "gaussian"}


@final
class Times(Kind):
    """The times of a transient problem to solve for, in seconds; a network sees one of them, as a constant channel."""

    storage = None
    most: ClassVar[int] = 10_000
    latest: ClassVar[float] = 1e9  # of a time step of one's own; the number of steps is limited, too
    defaults: ClassVar = {None: "2,8,20"}

    def check(self, name: str, value: Any, domain: Mask) -> tuple[float, ...]:
        """Read times of 0 s or more, within the number and the range that can be solved."""
        del domain
        values = np.atleast_1d(checks.as_array(name, value))
        if values.ndim != 1 or values.size == 0 or values.dtype.kind not in "iuf":
            given = shown(value) if values.ndim == 1 else f"shape {values.shape}"
            raise DisolError(f"{name} must be a list of numbers, got {given}. Pass seconds, such as [2, 8, 14, 20].")
        if values.size > self.most:
            raise DisolError(f"{name} must be at most {self.most} numbers, got {values.size}.")
        if not np.isfinite(values).all() or (values < 0).any():
            raise DisolError(f"{name} must be finite and not negative, got {shown(value)}.")
        if values.max() > self.latest:
            raise DisolError(f"{name} must not exceed {self.latest:g} s, got {values.max():g} s.")
        return tuple(checks.as_float(name, values).tolist())

    def encode(self, value: Any, domain: Mask) -> Pixels:
        """Fill the grid with one time, as a share of the trained time."""
        return np.full(domain.shape, value)

    def read(self, term: Term, text: str, loops: NamedLoops) -> tuple[tuple[float, ...], str]:
        """Read seconds separated by commas, in ascending order."""
        try:
            times = sorted({float(piece) for piece in text.split(",")})
        except ValueError:
            raise DisolError(f"{term.name} are seconds such as 2,8,20, got {shown(text)}.") from None
        self.check(term.name, times, loops.mask)
        return tuple(times), ", ".join(f"{time:g}" for time in times) + " s"


DOMAIN, SUPPORT, FORCE, SOURCE, INITIAL, TIMES = (
    Domain(),
    Support(),
    Force(),
    VolumeSource(),
    InitialField(),
    Times(),
)


def terms_of_kind(terms: Sequence[Term], *kinds: Kind) -> list[Term]:
    """Return the terms of some kinds."""
    return [term for term in terms if term.kind in kinds]
