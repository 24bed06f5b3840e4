"""Settings of networks: frozen dataclasses with one default per setting, checked when built. They need no torch."""

import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, ClassVar, Literal, Self, get_args, get_origin, get_type_hints

from disol.errors import DisolError, shown

LARGEST = 10**9  # whole number of a setting that has no limit of its own
MOST_COMPONENTS = 64  # fewer than the outlines that they are computed from
# Limits for the networks of the package: far beyond useful sizes, and far below what an altered file could ask for.
LARGEST_NETWORK = {
    "width": 1024,
    "depth": 10,
    "geometry_width": 4096,
    "physics_width": 4096,
    "film_width": 4096,
    "expansion": 64,
    "gated_skips": 9,
    "level_expansion": 64,
    "coarse_sweeps": 256,
    "attention_kernel": 127,
    "head_width": 4096,
    "head_layers": 64,
    "modes": 64,
    "layers": 64,
    "sensors": 1024,
    "cnn_width": 1024,
    "branch_layers": 64,
    "basis": 4096,
    "trunk_width": 4096,
    "trunk_layers": 64,
    "latent": 1024,
    "deformation_width": 4096,
    "kernel_width": 4096,
    "rounds": 64,
    "neighbours": 4096,
    "points": 16384,
    "components": MOST_COMPONENTS,
}


@dataclass(frozen=True, repr=False)
class ModelConfig(ABC):
    """What the settings of every network share.

    A setting is a bool, a number, a text, one of several texts, or a tuple of numbers. Whole numbers are counts: from
    1, or what `smallest` gives, to a billion, or what `largest` gives. Other numbers are finite, and not below what
    `smallest` gives, if anything.
    """

    smallest: ClassVar[Mapping[str, int | float]] = {}
    largest: ClassVar[Mapping[str, int]] = {}

    @classmethod
    @abstractmethod
    def for_problem(cls, problem: str) -> "ModelConfig":
        """Return the default settings for a problem: the published size."""

    @property
    def size_settings(self) -> tuple[str, ...]:
        """Settings that determine the size of a network: the one to change first, then those for finer steps."""
        return ("width",) if "width" in self.names() else ()

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """List the settings."""
        return tuple(field.name for field in fields(cls))

    def __post_init__(self) -> None:
        for name, value in self.check(self.as_dict()).items():
            object.__setattr__(self, name, value)

    def changed(self, settings: Mapping[str, Any]) -> Self:
        """Return these settings with some replaced; an unknown one is an error."""
        return replace(self, **self.check(settings))

    @classmethod
    def check(cls, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Require that settings exist and are of their kind; return them, lists as tuples."""
        kinds = get_type_hints(cls)
        for name in settings:
            if name not in cls.names():
                raise DisolError(
                    f"{cls.__name__} has no setting {shown(name)}. Its settings are {', '.join(cls.names())}."
                )
        return {
            name: check_setting(name, value, kinds[name], cls.smallest.get(name), cls.largest.get(name, LARGEST))
            for name, value in settings.items()
        }

    def as_dict(self) -> dict[str, Any]:
        """Return the settings by name, as a checkpoint stores them."""
        return asdict(self)

    def __repr__(self) -> str:
        own = [field for field in fields(self) if getattr(self, field.name) != field.default]
        return f"{type(self).__name__}({', '.join(f'{field.name}={getattr(self, field.name)!r}' for field in own)})"


def check_setting(name: str, value: Any, kind: Any, smallest: int | float | None = None, largest: int = LARGEST) -> Any:
    """Require that a setting is of its kind, and a number not below `smallest`; return it, a list as a tuple.

    largest   limit of whole numbers
    """
    if get_origin(kind) is tuple:
        if not isinstance(value, list | tuple):
            raise DisolError(f"{name} must be several numbers, got {shown(value)}.")
        kind = get_args(kind)[0]
        return tuple(check_setting(f"{name}[{i}]", item, kind, smallest, largest) for i, item in enumerate(value))
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if get_origin(kind) is Literal:
        fits, wanted = value in get_args(kind), f"one of {', '.join(map(repr, get_args(kind)))}"
    elif kind is bool:
        fits, wanted = isinstance(value, bool), "true or false"
    elif kind is int:
        least = 1 if smallest is None else smallest
        fits, wanted = is_number and isinstance(value, int) and value >= least, f"a whole number from {least} on"
        if fits and value > largest:
            fits, wanted = False, f"at most {largest:,}"
    elif kind is float:
        limits = "" if smallest is None else f" from {smallest} on"
        fits = is_number and abs(value) <= sys.float_info.max and (smallest is None or value >= smallest)
        wanted = f"a finite number{limits}"
    elif kind is str:
        fits, wanted = isinstance(value, str), "a text"
    else:
        raise TypeError(f"The setting {name} is declared as {kind}, which check_setting cannot check.")
    if not fits:
        raise DisolError(f"{name} must be {wanted}, got {shown(value)}.")
    return value


@dataclass(frozen=True, repr=False)
class DiSOLConfig(ModelConfig):
    """Settings of DiSOL; the defaults are the published Poisson network.

    width               channels of the finest scale; they double from scale to scale
    depth               number of scales
    fusion              "film": geometry channels modulate the physics channels, then mixing;
                        "mixing": gated channel mixing of the raw channels; "none": neither
    geometry_width      channels of the geometry branch
    physics_width       channels of the physics branch
    film_width          hidden units between geometry features and modulation
    expansion           of the channel mixing before the stem
    gated_skips         number of skips with a gate, counted from the deepest
    mask_skip_routing   multiply each skip by the domain at its scale
    downsampling        "pool" or "strided"
    level_mixing        gated channel mixing at every encoder level
    level_expansion     of that mixing
    coarse_sweeps       how often the second stencil of the coarsest scale is applied, with the same weights
    attention           whether to weigh the pixels before the head
    attention_kernel    pixels along a side of the attention stencil
    head_width          hidden channels of the pointwise head
    head_layers         layers of the pointwise head, the output included
    """

    width: int = 8
    depth: int = 4
    fusion: Literal["film", "mixing", "none"] = "film"
    geometry_width: int = 16
    physics_width: int = 16
    film_width: int = 32
    expansion: int = 4
    gated_skips: int = 2
    mask_skip_routing: bool = False
    downsampling: Literal["pool", "strided"] = "pool"
    level_mixing: bool = False
    level_expansion: int = 1
    coarse_sweeps: int = 1
    attention: bool = True
    attention_kernel: int = 5
    head_width: int = 32
    head_layers: int = 2

    smallest: ClassVar[Mapping[str, int]] = {"gated_skips": 0}
    largest: ClassVar[Mapping[str, int]] = LARGEST_NETWORK

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.gated_skips > self.depth - 1:
            raise DisolError(
                f"gated_skips must be at most depth - 1 = {self.depth - 1}, got {self.gated_skips}. Set both."
            )
        if self.attention_kernel % 2 == 0:
            raise DisolError(f"attention_kernel must be odd, got {self.attention_kernel}.")

    @classmethod
    def for_problem(cls, problem: str) -> "DiSOLConfig":
        """Return the published settings for a problem; those of Poisson for a problem of your own."""
        return PUBLISHED_CONFIGS.get(_family(problem), DiSOLConfig())

    @property
    def size_settings(self) -> tuple[str, ...]:
        """Channels of the scales, then hidden channels of the head."""
        return ("width", "head_width")


def _family(problem: str) -> str:
    """Return the name under which a problem has published settings: one network serves both Péclet numbers."""
    return problem.removesuffix("-low").removesuffix("-high")


PUBLISHED_CONFIGS = {
    "poisson": DiSOLConfig(),
    "advection-diffusion": DiSOLConfig(width=16),
    "elasticity": DiSOLConfig(width=32, depth=5, fusion="mixing", expansion=8, head_width=64, head_layers=4),
    "heat": DiSOLConfig(width=20, fusion="mixing", expansion=2, head_width=64, head_layers=4),
}


@dataclass(frozen=True, repr=False)
class UNetConfig(ModelConfig):
    """Settings of the U-Net, with the same meaning as for DiSOL."""

    width: int = 8
    depth: int = 4
    head_width: int = 32
    head_layers: int = 2

    largest: ClassVar[Mapping[str, int]] = LARGEST_NETWORK

    @classmethod
    def for_problem(cls, problem: str) -> "UNetConfig":
        """Return the width, depth and head of the published DiSOL for a problem."""
        disol = DiSOLConfig.for_problem(problem)
        return UNetConfig(disol.width, disol.depth, disol.head_width, disol.head_layers)

    @property
    def size_settings(self) -> tuple[str, ...]:
        """Channels of the scales, then hidden channels of the head."""
        return ("width", "head_width")


@dataclass(frozen=True, repr=False)
class FNOConfig(ModelConfig):
    """Settings of the FNO; the defaults are those of Poisson.

    width        channels
    modes        Fourier modes along each axis, of either sign along the rows
    layers       Fourier layers
    head_width   hidden channels of the pointwise head
    """

    width: int = 16
    modes: int = 8
    layers: int = 4
    head_width: int = 128

    largest: ClassVar[Mapping[str, int]] = LARGEST_NETWORK

    @classmethod
    def for_problem(cls, problem: str) -> "FNOConfig":
        """Return settings with the parameter count of the paper's FNO; for heat, with that of its DiSOL."""
        sizes = {"advection-diffusion": (32, 8), "elasticity": (64, 16), "heat": (38, 8)}
        width, modes = sizes.get(_family(problem), (16, 8))
        return FNOConfig(width, modes)

    @property
    def size_settings(self) -> tuple[str, ...]:
        """Channels, then hidden channels of the head."""
        return ("width", "head_width")


@dataclass(frozen=True, repr=False)
class DeepONetConfig(ModelConfig):
    """Settings of the DeepONet; the defaults are those of Poisson.

    branch          "flat": a perceptron of all pixels of all channels, as in the paper; "cnn": strided convolutions
    sensors         pixels along a side of the grid that the flat branch reads; other grids are resampled
    width           hidden units of the flat branch
    branch_layers   layers of the flat branch, the output included
    cnn_width       channels of the first convolution of the cnn branch
    basis           basis functions
    trunk_width     hidden units of the trunk
    trunk_layers    layers of the trunk, the output included
    """

    branch: Literal["flat", "cnn"] = "flat"
    sensors: int = 64
    width: int = 11
    branch_layers: int = 3
    cnn_width: int = 16
    basis: int = 64
    trunk_width: int = 64
    trunk_layers: int = 3

    largest: ClassVar[Mapping[str, int]] = LARGEST_NETWORK

    @classmethod
    def for_problem(cls, problem: str) -> "DeepONetConfig":
        """Return settings with the parameter count of the paper's DeepONet; for heat, with that of its DiSOL."""
        sizes = {"advection-diffusion": (13, 44), "elasticity": (91, 170), "heat": (9, 48)}
        if _family(problem) not in sizes:
            return DeepONetConfig()
        width, cnn_width = sizes[_family(problem)]
        return DeepONetConfig(sensors=128, width=width, cnn_width=cnn_width)

    @property
    def size_settings(self) -> tuple[str, ...]:
        """Units of the branch, then basis functions."""
        return ("width" if self.branch == "flat" else "cnn_width", "basis")


@dataclass(frozen=True, repr=False)
class GeoFNOConfig(ModelConfig):
    """Settings of the Geo-FNO; the defaults are those of Poisson.

    width               channels
    modes               Fourier modes along each axis, of either sign along the rows
    layers              spectral layers: to the latent grid, on it, and back
    latent              points along a side of the latent grid
    deformation_width   hidden units of the network that deforms the domain
    head_width          hidden channels of the pointwise head
    """

    width: int = 16
    modes: int = 8
    layers: int = 5
    latent: int = 64
    deformation_width: int = 64
    head_width: int = 128

    smallest: ClassVar[Mapping[str, int]] = {"layers": 2}
    largest: ClassVar[Mapping[str, int]] = LARGEST_NETWORK

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.latent < 2 * self.modes:
            raise DisolError(f"latent must be at least 2 modes = {2 * self.modes}, got {self.latent}.")

    @classmethod
    def for_problem(cls, problem: str) -> "GeoFNOConfig":
        """Return settings with the parameter count of the paper's Geo-FNO, else with that of its DiSOL."""
        sizes = {"advection-diffusion": (28, 8), "elasticity": (54, 16), "heat": (34, 8)}
        width, modes = sizes.get(_family(problem), (16, 8))
        return GeoFNOConfig(width, modes)

    @property
    def size_settings(self) -> tuple[str, ...]:
        """Channels, then hidden channels of the head."""
        return ("width", "head_width")


@dataclass(frozen=True, repr=False)
class GNOConfig(ModelConfig):
    """Settings of the GNO; the defaults are those of Poisson.

    width          features of a pixel
    kernel_width   units of the last hidden layer of the kernel; the one before has half as many
    rounds         rounds of messages between neighbours, with the same weights
    radius         largest distance of a neighbour, in sides of the square
    neighbours     most neighbours of a pixel; if more are within the radius, this many, evenly spread
    head_width     hidden units of the pointwise head
    """

    width: int = 48
    kernel_width: int = 51
    rounds: int = 5
    radius: float = 0.125
    neighbours: int = 48
    head_width: int = 128

    smallest: ClassVar[Mapping[str, int]] = {"radius": 0}
    largest: ClassVar[Mapping[str, int]] = LARGEST_NETWORK

    @classmethod
    def for_problem(cls, problem: str) -> "GNOConfig":
        """Return settings with the parameter count of the paper's GNO, else with that of its DiSOL."""
        sizes = {"advection-diffusion": (96, 54), "elasticity": (256, 112), "heat": (96, 77)}
        width, kernel_width = sizes.get(_family(problem), (48, 51))
        return GNOConfig(width, kernel_width)

    @property
    def size_settings(self) -> tuple[str, ...]:
        """Units of the kernel, then features."""
        return ("kernel_width", "width")


@dataclass(frozen=True, repr=False)
class DIMONConfig(ModelConfig):
    """Settings of DIMON; the defaults are those of Poisson.

    width           hidden units of both branches
    branch_layers   layers of each branch, the output included
    points          points of the disc at which data and displacements are sampled
    components      principal components of a displacement, along x and along y
    basis           basis functions
    trunk_width     hidden units of the trunk
    trunk_layers    layers of the trunk, the output included
    """

    width: int = 154
    branch_layers: int = 3
    points: int = 256
    components: int = 16
    basis: int = 64
    trunk_width: int = 64
    trunk_layers: int = 3

    largest: ClassVar[Mapping[str, int]] = {**LARGEST_NETWORK, "width": 4096}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.components > min(self.points, MOST_COMPONENTS):
            most = min(self.points, MOST_COMPONENTS)
            raise DisolError(f"components must be at most {most}, got {self.components}.")

    @classmethod
    def for_problem(cls, problem: str) -> "DIMONConfig":
        """Return settings with the parameter count of the paper's DIMON, else with that of its DiSOL."""
        widths = {"advection-diffusion": 418, "elasticity": 1637, "heat": 379}
        return DIMONConfig(widths.get(_family(problem), 154))

    @property
    def size_settings(self) -> tuple[str, ...]:
        """Units of the branches, then basis functions."""
        return ("width", "basis")
