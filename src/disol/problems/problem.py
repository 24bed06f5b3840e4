"""What every problem has: channels, a way to draw, encode, check and solve a case, and how fields are normalised."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Float, Float32, Shaped

from disol.channels import ChannelLayout
from disol.fem import Element, System
from disol.geometry import Raster, Segment
from disol.problems.checks import float32_array
from disol.problems.conventions import Conventions
from disol.problems.distribution import Distribution

# The data of one case by name, as `solve_exact` takes them: masks, forces, sources. Those of a batch are arrays that
# start with a batch axis.
Terms = dict[str, Any]
# What a case is drawn as before it meets a grid: markers as segments, fields as functions.
Sketch = dict[str, Any]
Streams = Callable[[str], np.random.Generator]
# What is done to the terms of a case.
METHODS_OF_TERMS = ("check", "encode", "system", "load", "initial_nodes", "scaling_samples")


@dataclass(frozen=True)
class Markers:
    """Boundary segments of one channel; they mark pixels, or give each the same force."""

    segments: tuple[Segment, ...]
    force: float | None = None

    def on(self, raster: Raster) -> Shaped[np.ndarray, "height width"]:
        """Return the channel on a grid."""
        marked = raster.mark(self.segments)
        return marked if self.force is None else self.force * marked


@dataclass(frozen=True, eq=False)
class Exact:
    """The exact solution of a discrete problem.

    field       physical values per pixel, the mean of the pixel's four nodes; 0 outside the domain
    pattern     the field scaled by its amplitude, as networks learn it
    amplitude   max |field| (one per component where the conventions scale components separately); of a transient
                problem from 0 to 20 s, initial field included, whatever times are asked for
    nodes       nodal values, 0 where a node is pinned or not part of the domain
    times       of a transient problem, whose arrays then start with a time axis
    """

    problem: str
    domain: Bool[np.ndarray, "height width"]
    field: Float[np.ndarray, "*time field height width"]
    pattern: Float[np.ndarray, "*time field height width"]
    amplitude: float | Float[np.ndarray, " field"]
    nodes: Float[np.ndarray, "*time field rows columns"]
    times: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Problem(ABC):
    """A partial differential equation on changing domains.

    name         how it is asked for
    equation     with the sign as solved
    resolution   pixels along a side of the grid it is posed on
    num_cases    size of the paper's data set
    """

    name: str
    equation: str
    resolution: int
    num_cases: int

    channels: ClassVar[ChannelLayout]
    fields: ClassVar[tuple[str, ...]]
    terms: ClassVar[tuple[str, ...]]
    optional_terms: ClassVar[tuple[str, ...]] = ()
    shifts: ClassVar[tuple[str, ...]] = ("topology", "boundary", "source")
    # Tells whether `check`, `encode` and `system` take the arrays of a batch, too; else they get one case at a time.
    takes_batches: ClassVar[bool] = False

    # The numbers in the equation, which `solve_exact` can replace, and how each is read.
    parameters: ClassVar[dict[str, Callable[[str, Any], Any]]]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        own = vars(cls)
        if "takes_batches" not in own and any(name in own for name in METHODS_OF_TERMS):
            cls.takes_batches = False  # what the methods of another class take says nothing about one's own

    def __post_init__(self) -> None:
        for name, read in self.parameters.items():
            object.__setattr__(self, name, read(name, getattr(self, name)))

    @abstractmethod
    def draw(
        self,
        streams: Streams,
        raster: Raster,
        distribution: Distribution,
        conventions: Conventions,
    ) -> Sketch:
        """Draw markers and fields; `raster` is the geometry on the problem's own grid, where fields are scaled."""

    @abstractmethod
    def encode(self, terms: Terms, conventions: Conventions) -> Float32[np.ndarray, "*batch channel height width"]:
        """Stack the terms of a case into a network's input channels."""

    def stack(
        self, values: Sequence[Shaped[np.ndarray, "*batch height width"]]
    ) -> Float32[np.ndarray, "*batch channel height width"]:
        """Stack the values of each channel in the precision of networks, or say which is too large for it."""
        *batch, height, width = values[0].shape
        stacked = np.empty((*batch, len(self.channels), height, width), np.float32)
        for name, value in zip(self.channels, values, strict=True):
            float32_array(name, value, out=self.channels.select(stacked, name))
        return stacked

    def scales_fields_separately(self, conventions: Conventions) -> bool:
        """Tell whether each field has a pattern and an amplitude of its own."""
        return conventions.component_patterns and len(self.fields) > 1

    @abstractmethod
    def check(self, terms: Terms) -> Terms:
        """Read the terms a user gave, or say what is wrong with them."""

    @abstractmethod
    def element_matrix(self, element: Element, conventions: Conventions) -> Float[np.ndarray, "local local"]:
        """Return the matrix that every pixel of a domain adds to the system."""

    @abstractmethod
    def system(self, terms: Terms, conventions: Conventions, element: Element) -> System:
        """Discretise checked terms; a transient problem gives the system of one step."""

    @abstractmethod
    def solve(self, terms: Terms, conventions: Conventions, element: Element) -> Exact:
        """Solve the discrete problem of checked terms."""


def normalise(
    field: Float[np.ndarray, "*time field height width"],
    domain: Bool[np.ndarray, "height width"],
    amplitude: float | None = None,
) -> tuple[Float[np.ndarray, "*time field height width"], float]:
    """U = U / max|U|, one amplitude for all components; a zero field has a zero pattern."""
    size = float(np.abs(field[..., domain]).max()) if amplitude is None else amplitude
    return (field / size if size > 0 else np.zeros_like(field)), size


def normalise_components(
    field: Float[np.ndarray, "field height width"], domain: Bool[np.ndarray, "height width"]
) -> tuple[Float[np.ndarray, "field height width"], Float[np.ndarray, " field"]]:
    """u_c = ½ + ½ U_c / max|U_c|, one amplitude for each component."""
    size = np.abs(field[:, domain]).max(axis=1)
    return component_pattern(field, size[:, None, None], domain), size


def component_pattern(
    field: Float[Any, "*shape"], size: Float[Any, "..."], domain: Bool[Any, "..."]
) -> Float[Any, "*shape"]:
    """½ + ½ U_c / size on the domain, 0 outside, of arrays or tensors; a component of size 0 has a zero pattern."""
    return (0.5 + 0.5 * (field / (size + (size == 0)))) * ((size > 0) & domain)
