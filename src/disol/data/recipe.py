"""What a file records about its cases, and how they are drawn: case i is a function of a recipe and i alone."""

import json
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, get_origin

import numpy as np
from jaxtyping import Int, Shaped

from disol import __version__
from disol import _checks as checks
from disol.cases import Case
from disol.distributions.distribution import Shift, describe_shift, names_a_shape, read_shift
from disol.errors import DisolError
from disol.geometry.shapes import OUTLINES
from disol.problems import Problem
from disol.problems.conventions import Conventions
from disol.problems.normalisation import JOINT, PER_COMPONENT, Normalisation
from disol.problems.table import PROBLEMS, find_conventions, find_problem

ALL_SHAPES = "shapes"
OWN = "own:"  # begins what a file of cases that were not drawn has instead of a shift
SPLITS = ("train", "validation")
FREE_SETTINGS = ("num_cases", "resolution")  # they do not change what is drawn for a case
MOST_FRAMES = 10_000
_MOST_NAMES = 256  # of shifts, whose positions are stored as bytes, and of channels and fields
_LATEST = 1e6  # seconds


@dataclass(frozen=True, repr=False)
class StoreSettings:
    """What a file records about its cases.

    parameters              the numbers of the equation, as JSON
    shift                   as asked for; empty for the training distribution
    shifts                  one name, or several that the cases take in turn
    fixed_outlines          whether cases with the same shift share their outline, instead of each having its own
    times                   of the stored frames in seconds; empty for a steady problem
    component_amplitudes    one amplitude per field instead of one per case
    """

    problem: str
    equation: str
    parameters: str
    channels: tuple[str, ...]
    fields: tuple[str, ...]
    conventions: str
    seed: int
    shift: str
    shifts: tuple[str, ...]
    fixed_outlines: bool
    resolution: int
    num_cases: int
    times: tuple[float, ...]
    component_amplitudes: bool
    package_version: str = __version__

    def __post_init__(self) -> None:
        for field in fields(self):
            value: Any = getattr(self, field.name)
            kind: Any = get_origin(field.type) or field.type
            if not isinstance(value, kind):
                raise DisolError(f"{field.name} must be of type {kind.__name__}, got {value!r:.80}.")
            # The equation of a problem of your own may have several lines.
            lines = value.split() if field.name == "equation" else value if kind is tuple else (value,)
            if not all(line.isprintable() for line in lines if isinstance(line, str)):
                raise DisolError(f"{field.name} must be text of one line, got {value!r:.80}.")
            if field.type == tuple[str, ...] and not 0 < len(value) == len(set(value)) <= _MOST_NAMES:
                raise DisolError(f"{field.name} must be 1 to {_MOST_NAMES} different names, got {value!r:.80}.")
        if checks.whole_number("seed", self.seed) >= 2**64:
            raise DisolError(f"seed must be below 2**64 to be written to a file, got {self.seed:.3e}.")
        checks.count("resolution", self.resolution)
        checks.count("num_cases", self.num_cases)
        if "domain" not in self.channels:
            raise DisolError(f"channels must have a domain, got {', '.join(self.channels):.80}.")
        seconds = np.array((0.0, *self.times, _LATEST))
        if len(self.times) > MOST_FRAMES or not (np.diff(seconds) > 0).all():
            raise DisolError(f"times must be up to {MOST_FRAMES} seconds in ascending order, below {_LATEST:g}.")
        _ = self.numbers

    def __repr__(self) -> str:
        return f"StoreSettings({self})"

    def __str__(self) -> str:
        frames = f", {len(self.times)} frames to {self.times[-1]:g} s" if self.times else ""
        shift = f", shift {self.shift}" if self.shift else ""
        return (
            f"{self.num_cases} cases of {self.problem}, {self.resolution} x {self.resolution}{frames}, "
            f"{self.conventions} conventions, seed {self.seed}{shift}"
        )

    @property
    def normalisation(self) -> Normalisation:
        """How pattern and amplitude make up a field."""
        return PER_COMPONENT if self.component_amplitudes else JOINT

    @property
    def numbers(self) -> dict[str, Any]:
        """The numbers of the equation by name."""
        try:
            numbers = json.loads(self.parameters)
        except (ValueError, RecursionError):
            numbers = None
        if not isinstance(numbers, dict) or not all(name.isidentifier() for name in numbers):
            raise DisolError(f"parameters must be numbers by name in JSON, got {self.parameters[:80]!r}.")
        return numbers

    def find_problem(self, source: object, own: Problem | None = None) -> Problem:
        """Return the problem of the file, `own` or one of the package, with the numbers stored in the file."""
        known = PROBLEMS if own is None else {**PROBLEMS, own.name: own}
        if self.problem not in known:
            raise DisolError(
                f"{source} holds cases of {self.problem!r}, which is not among {', '.join(PROBLEMS)}. "
                "Pass that problem too."
            )
        problem, numbers = known[self.problem], self.numbers
        for kind, stored, expected in (
            ("channels", self.channels, problem.channels),
            ("fields", self.fields, problem.fields),
            ("parameters", sorted(numbers), sorted(numbers.keys() & problem.parameters.keys())),
        ):
            if tuple(stored) != tuple(expected):
                raise DisolError(
                    f"{source} has the {kind} {', '.join(stored)}, but {problem.name} has {', '.join(expected)}. "
                    "Generate it again."
                )
        return replace(problem, **{name: problem.parameters[name](name, number) for name, number in numbers.items()})

    @property
    def is_drawn(self) -> bool:
        """Whether its cases were drawn, not written by `write_cases`: these settings then say which they are."""
        return not self.shift.startswith(OWN)

    def draws_as(self, other: "StoreSettings") -> bool:
        """Tell whether case i of two files is known to be the same, perhaps at another resolution."""
        if not self.is_drawn:
            return False
        free = {name: getattr(other, name) for name in FREE_SETTINGS}
        return replace(self, **free, package_version=other.package_version) == other

    def number_cases(self, cases: Int[np.ndarray, " case"]) -> dict[str, Shaped[np.ndarray, " case"]]:
        """Return what a file stores about cases before they are drawn.

        index     their numbers
        outline   the numbers of their outlines
        shift     positions of their shifts in `shifts`
        split     positions in `SPLITS`: the first 80 % of the outlines train, rounded down
        """
        shift = cases % len(self.shifts)
        outline, outlines = cases, self.num_cases
        if self.fixed_outlines:
            outline, outlines = shift, min(self.num_cases, len(self.shifts))
        split = outline >= 4 * outlines // 5
        return {"index": cases, "outline": outline, "shift": shift.astype(np.uint8), "split": split.astype(np.uint8)}


@dataclass(frozen=True)
class Recipe:
    """How the cases of one file are drawn."""

    problem: Problem
    seed: int
    shift: Shift
    conventions: Conventions
    resolution: int

    @cached_property
    def shifts(self) -> tuple[Shift, ...]:
        """The shifts that the cases take in turn."""
        return tuple(f"shape:{name}+hole" for name in OUTLINES) if self.shift == ALL_SHAPES else (self.shift,)

    def draw(self, index: int) -> Case:
        """Draw case `index`."""
        return Case.draw(
            self.problem,
            self.seed,
            index,
            resolution=self.resolution,
            shift=self.shifts[index % len(self.shifts)],
            conventions=self.conventions,
        )

    def draw_to_store(self, index: int) -> Case:
        """Draw case `index`; for a transient problem, at all times that files store instead of a random one."""
        case, times = self.draw(index), self.problem.times
        return replace(case, terms={**case.terms, "times": times}) if times else case

    def settings(self, num_cases: int) -> StoreSettings:
        """Return what a file of `num_cases` cases records about them."""
        problem = self.problem
        return StoreSettings(
            problem=problem.name,
            equation=problem.equation,
            parameters=json.dumps({name: getattr(problem, name) for name in problem.parameters}),
            channels=tuple(problem.channels),
            fields=tuple(problem.fields),
            conventions=self.conventions.name,
            seed=self.seed,
            shift=ALL_SHAPES if self.shift == ALL_SHAPES else describe_shift(self.shift) or "",
            shifts=tuple(describe_shift(shift) or "" for shift in self.shifts),
            fixed_outlines=any(map(names_a_shape, self.shifts)),
            resolution=self.resolution,
            num_cases=num_cases,
            times=problem.times,
            component_amplitudes=problem.normalisation(self.conventions).per_component,
        )


def read_recipe(
    problem: str | Problem, seed: int, shift: Shift, conventions: str | Conventions, resolution: int | None
) -> Recipe:
    """Build a recipe, and check it by drawing the first case."""
    problem = find_problem(problem)
    side = problem.resolution if resolution is None else checks.whole_number("resolution", resolution)
    if not isinstance(shift, str):
        read_shift(shift)
    recipe = Recipe(
        problem, checks.whole_number("seed", seed), shift or None, find_conventions(conventions, problem), side
    )
    if recipe.conventions.true_boundary:
        raise DisolError("Files hold cases on pixels: use the conventions paper or published.")
    recipe.draw(0)
    return recipe
