"""Problems as people state them: domains in any unit, parts of the boundary with values, coefficients; all right."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import disol
from attempts import chance, pick, short
from solving import Affine

SCALAR = ("poisson", "advection-diffusion-low", "advection-diffusion-high")
PROBLEMS = (*SCALAR, "elasticity", "heat")
SHAPES = {"star": 0, "star+hole": 1, "arrow": 0, "triangle+hole": 1, "y": 0, "slotted-plate+hole": 2}  # and their holes


@dataclass(frozen=True)
class Plate:
    """A domain in the unit of a user: a mask whose grid is `size` high, polygons, or a named or drawn shape.

    inside    points of it, [point, 2]
    upwards   y of its coordinates points upwards
    """

    mask: np.ndarray | None = None
    outline: Any = None
    size: float = 1.0
    side: int = 16
    loops: tuple[str, ...] = ("outer",)
    inside: np.ndarray | None = None
    upwards: bool = False

    def scaled(self, factor: float) -> "Plate":
        """Measure it in another unit."""
        inside = None if self.inside is None else factor * self.inside
        if self.mask is not None or isinstance(self.outline, str):
            return replace(self, size=factor * self.size, inside=inside)
        return replace(self, outline=_scale(self.outline, factor), size=factor * self.size, inside=inside)


def _scale(outline: Any, factor: float) -> Any:
    if isinstance(outline, Mapping):
        return {name: own if isinstance(own, str) else _scale(own, factor) for name, own in outline.items()}
    return [_scale(own, factor) for own in outline] if isinstance(outline, list) else factor * outline


@dataclass(frozen=True)
class Statement:
    """A problem, its domain, and all that is given of it."""

    problem: str
    plate: Plate
    given: Mapping[str, Any]

    def pose(self) -> disol.Case:
        """Make a case of it."""
        plate = self.plate
        if plate.mask is not None:
            return disol.Case.from_arrays(self.problem, **{"domain": plate.mask, "size": plate.size, **self.given})
        unit = {"size": plate.size} if isinstance(plate.outline, str) else {"coordinates": "drawing"}
        return disol.read_case(self.problem, plate.outline, resolution=plate.side, **{**unit, **self.given})

    def solve(self) -> disol.Solution:
        """Solve it."""
        return disol.solve_exact(self.pose())

    def __str__(self) -> str:
        plate = self.plate
        domain = short(plate.outline if plate.mask is None else plate.mask, 300)
        return f"{self.problem}: {domain}, size {short(plate.size)}, {plate.side}, {short(self.given, 600)}"


@dataclass(frozen=True)
class Normal:
    """f = a + b x + c y + n · q, on a boundary whose normal is n."""

    at: Affine
    across: tuple[float, float]

    def __call__(self, x: Any, y: Any, nx: Any, ny: Any) -> Any:
        """Evaluate at arrays."""
        return self.at(x, y) + self.across[0] * nx + self.across[1] * ny


def draw_plate(rng: np.random.Generator, size: float) -> Plate:
    """Draw a connected domain of some 50 to 400 pixels that is about as large as `size`."""
    kind = pick(rng, ["mask", "mask", "polygons", "shape", "drawn"])
    side = int(rng.integers(16, 25))
    if kind == "drawn":
        seed = int(rng.integers(1000))
        geometry = disol.draw("poisson", seed, resolution=16).geometry
        holes = 0 if geometry is None else len(geometry.holes)
        return Plate(None, f"random:{seed}", size, side, ("outer", *(f"hole{number + 1}" for number in range(holes))))
    if kind == "shape":
        shape, holes = pick(rng, list(SHAPES.items()))
        return Plate(None, shape, size, side, ("outer", *(f"hole{number + 1}" for number in range(holes))))
    return _draw_mask(rng, size) if kind == "mask" else _draw_outline(rng, size, side)


def _draw_mask(rng: np.random.Generator, size: float) -> Plate:
    """Draw a rectangle, maybe without a corner, and with a hole, nowhere thinner than two pixels."""
    height, width = (int(rng.integers(6, 20)) for _ in range(2))
    plate, loops = np.ones((height, width), bool), ["outer"]
    if chance(rng, 0.4):
        plate[: height // 3, : width // 3] = False
    if chance(rng, 0.4):
        plate[height // 2 : height - 2, width // 2 : width - 2] = False
        loops.append("hole1")
    mask = np.pad(plate, tuple((int(rng.integers(3)), int(rng.integers(3))) for _ in range(2)))
    rows, columns = np.nonzero(mask)
    inside = (np.stack([columns, rows], axis=1) + 0.5) * size / mask.shape[0]
    return Plate(mask, None, size, len(mask), tuple(loops), inside)


def _draw_outline(rng: np.random.Generator, size: float, side: int) -> Plate:
    """Draw a polygon around a point, maybe with a smaller copy of itself as a hole, somewhere; GeoJSON points up."""
    count = int(rng.integers(4, 11))
    angles = 2 * np.pi * (np.arange(count) + rng.uniform(-0.3, 0.3, count)) / count
    corners = rng.uniform(0.3, 0.5, count)[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    upwards, has_hole, centre = chance(rng, 0.3), chance(rng, 0.4), rng.uniform(-20, 20, 2)
    rings = [(size * (centre + factor * corners)).tolist() for factor in ((1.0, 0.4) if has_hole else (1.0,))]
    loops = ("outer", "hole1") if has_hole else ("outer",)
    inside = size * (centre + 0.7 * corners)
    polygon = {"type": "Polygon", "coordinates": rings} if upwards else {"outer": rings[0], "holes": rings[1:]}
    return Plate(None, polygon, size, side, loops, inside, upwards)


def cut_boundary(rng: np.random.Generator, plate: Plate, whole: bool) -> list[str]:
    """Cut the boundary into parts: the whole of it, or of a mask what lies on the sides of its box."""
    if plate.mask is not None and not whole and chance(rng, 0.3):
        return [pick(rng, ["left", "Left ", f"near:{_beside(plate.mask, plate.size)}"]), "right", "top", "bottom"]
    if chance(rng, 0.2):
        return list(plate.loops)
    first, count = rng.uniform(0, 0.99), int(rng.integers(2, 5))
    steps = rng.uniform(0.5, 1.5, count)
    places = [f"{place:.4f}" for place in (first + np.cumsum(steps) / steps.sum()) % 0.9999]
    ranges = [f"outer:{one}-{other}" for one, other in zip(places, [*places[1:], places[0]], strict=True)]
    return [*ranges, *plate.loops[1:]]


def _beside(mask: np.ndarray, size: float) -> str:
    """Write a point beside the lower end of the left side of a mask."""
    rows, columns = np.nonzero(mask)
    row, column = rows.max() + 0.5, columns.min() - 0.25
    return ",".join(f"{float(size * place / len(mask))!r}" for place in (column, row))


def draw_kinds(rng: np.random.Generator, parts: list[str], kinds: tuple[str, ...]) -> dict[str, str]:
    """Choose what is known of each part; of the first a value."""
    return {part: pick(rng, kinds) if number else kinds[0] for number, part in enumerate(parts)}


def write_value(rng: np.random.Generator, value: Affine) -> Any:
    """Give a value on a part as a function or a formula, and a number as it is."""
    if value.b == value.c == 0:
        return value.a if chance(rng, 0.7) else f"{value.a!r}"
    return value if chance(rng, 0.5) else f"({value.a!r}) + ({value.b!r})*x + ({value.c!r})*y"


def write_parts(rng: np.random.Generator, values: dict[str, Any]) -> Any:
    """Give values on parts as a mapping, or as a text where all of them are texts or numbers."""
    if chance(rng, 0.7) or not all(isinstance(value, str | float) for value in values.values()):
        return values
    return ", ".join(f"{part}={value}" for part, value in values.items())


def draw_tensor(rng: np.random.Generator) -> np.ndarray:
    """Draw a symmetric, positive definite tensor."""
    angle, sizes = rng.uniform(0, np.pi), 10 ** rng.uniform(-1, 1, 2)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    tensor = turn @ np.diag(sizes) @ turn.T
    return 0.5 * (tensor + tensor.T)


@dataclass(frozen=True)
class Rough:
    """f = low + (high - low) times 0 or 1, in stripes that are `width` wide."""

    low: float
    high: float
    width: float

    def __call__(self, x: Any, y: Any) -> Any:
        """Evaluate at arrays."""
        return np.where(np.floor((x + y) / self.width) % 2 == 0, self.low, self.high)


@dataclass(frozen=True)
class Swirl:
    """v = size (cos θ, sin θ), θ = x / width + y / width."""

    size: float
    width: float

    def __call__(self, x: Any, y: Any) -> Any:
        """Evaluate at arrays."""
        angle = (np.asarray(x) + np.asarray(y)) / self.width
        return self.size * np.stack([np.cos(angle), np.sin(angle)])


def draw_velocity(rng: np.random.Generator, plate: Plate, size: float) -> Any:
    """Draw a velocity: none, a pair, a function, or on a mask an array."""
    way = rng.integers(5)
    if way == 0 and plate.mask is not None:
        return size * rng.normal(size=(2, *plate.mask.shape))
    if way <= 1:
        return Swirl(size, plate.size)
    return tuple((size * rng.normal(size=2)).tolist()) if way == 2 else (0.0, 0.0)


def draw_coefficient(rng: np.random.Generator, plate: Plate, size: float) -> Any:
    """Draw what is positive everywhere: a number, a function, or on a mask an array."""
    spread = float(10 ** rng.uniform(0, 3))
    way = rng.integers(3)
    if way == 0:
        return size
    if way == 1 and plate.mask is not None:
        return size * spread ** rng.random(plate.mask.shape)
    return Rough(size, spread * size, plate.size * float(rng.uniform(0.1, 1)))


def draw_materials(rng: np.random.Generator, problem: str, plate: Plate, unit: float = 1.0) -> dict[str, Any]:
    """Draw coefficients that may change from place to place; of heat such that its time is some seconds."""
    length = plate.size
    if problem == "elasticity":
        ratio = float(rng.uniform(-0.3, 0.45))
        plane = {"plane": pick(rng, ["strain", "stress"])} if chance(rng, 0.5) else {}
        return {"young": draw_coefficient(rng, plate, unit), "poisson_ratio": ratio, **plane}
    if problem == "heat":
        found = {"conductivity": draw_coefficient(rng, plate, 0.05 * unit * length**2)}
        return found | {name: draw_coefficient(rng, plate, 1.0) for name in ("density", "capacity") if chance(rng, 0.5)}
    found = {"diffusion": draw_coefficient(rng, plate, unit)} if chance(rng, 0.8) else {"diffusion": unit}
    if chance(rng, 0.3):
        found["diffusion"] = unit * draw_tensor(rng)
        if plate.mask is not None and chance(rng, 0.5):
            found["diffusion"] = found["diffusion"][:, :, None, None] * rng.uniform(1, 10, plate.mask.shape)
    found["velocity"] = draw_velocity(rng, plate, unit / length * float(10 ** rng.uniform(-1, 1)))
    if chance(rng, 0.4):
        found["reaction"] = draw_coefficient(rng, plate, unit / length**2)
    return found


def draw_unit(rng: np.random.Generator) -> float:
    """Draw a unit of length: 1 or thousandths mostly, else tiny or huge."""
    return pick(rng, [1.0, 1e-3, 1e3, 254.0, float(10 ** rng.uniform(-30, 30))]) * float(rng.uniform(0.5, 5))
