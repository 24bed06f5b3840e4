"""What every case of a file is drawn from: case i is a function of a recipe and i alone."""

import json
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Int64, UInt8

from disol import __version__
from disol.geometry.shapes import OUTLINES
from disol.problems import Case, Problem, checks, draw
from disol.problems.checks import Unchecked
from disol.problems.distribution import Shift, describe_shift, shifted
from disol.problems.heat import FRAME
from disol.problems.table import find_conventions, find_problem

ALL_SHAPES = "shapes"
LAST_FRAME = 50.0  # seconds
STORED_TIMES = tuple(FRAME * frame for frame in range(1, round(LAST_FRAME / FRAME) + 1))
SPLITS = ("train", "validation")


@dataclass(frozen=True)
class StoreSettings:
    """What a file says about its cases.

    parameters              the numbers of the equation, as JSON
    shift                   as asked for; empty for the training distribution
    shifts                  one name, or several that the cases take in turn
    fixed_outlines          cases with the same shift share their outline, instead of each having its own
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

    @property
    def shift_codes(self) -> UInt8[np.ndarray, " case"]:
        """Position in `shifts` of each case's shift."""
        return (np.arange(self.num_cases) % len(self.shifts)).astype(np.uint8)

    @property
    def outlines(self) -> Int64[np.ndarray, " case"]:
        """Number of each case's outline."""
        return self.shift_codes.astype(np.int64) if self.fixed_outlines else np.arange(self.num_cases, dtype=np.int64)

    @property
    def split_codes(self) -> UInt8[np.ndarray, " case"]:
        """Position in `SPLITS` of each case: the first 80 % of the outlines train, rounded down."""
        outlines = self.outlines
        return (outlines >= 4 * len(np.unique(outlines)) // 5).astype(np.uint8)


@dataclass(frozen=True)
class Recipe:
    """How the cases of one file are drawn."""

    equation: Problem
    seed: int
    shift: Shift | Unchecked
    conventions: str
    resolution: int

    @cached_property
    def shifts(self) -> tuple[Shift | Unchecked, ...]:
        """The shifts that the cases take in turn."""
        return tuple(f"shape:{name}+hole" for name in OUTLINES) if self.shift == ALL_SHAPES else (self.shift,)

    @property
    def times(self) -> tuple[float, ...]:
        """Seconds at which a transient problem is stored."""
        return STORED_TIMES if "times" in self.equation.terms else ()

    def draw(self, index: int) -> Case:
        """Draw case `index`."""
        return draw(
            self.equation,
            self.seed,
            index,
            resolution=self.resolution,
            shift=self.shifts[index % len(self.shifts)],
            conventions=self.conventions,
        )

    def settings(self, num_cases: int) -> StoreSettings:
        """Write down what a file of `num_cases` cases has to say about them."""
        equation = self.equation
        return StoreSettings(
            problem=equation.name,
            equation=equation.equation,
            parameters=json.dumps({name: getattr(equation, name) for name in equation.parameters}),
            channels=tuple(equation.channels),
            fields=tuple(equation.fields),
            conventions=self.conventions,
            seed=self.seed,
            shift=ALL_SHAPES if self.shift == ALL_SHAPES else describe_shift(self.shift) or "",
            shifts=tuple(describe_shift(shift) or "" for shift in self.shifts),
            fixed_outlines=any(shifted(shift).shape is not None for shift in self.shifts),
            resolution=self.resolution,
            num_cases=num_cases,
            times=self.times,
            component_amplitudes=equation.scales_fields_separately(find_conventions(self.conventions)),
        )


def read_recipe(
    problem: str | Problem | Unchecked,
    seed: int | Unchecked,
    shift: Shift | Unchecked,
    conventions: str | Unchecked,
    resolution: int | Unchecked | None,
) -> Recipe:
    """Check what was asked for, by drawing the first case."""
    equation = find_problem(problem)
    side = equation.resolution if resolution is None else checks.whole_number("resolution", resolution)
    rules = find_conventions(conventions)
    recipe = Recipe(equation, checks.whole_number("seed", seed), shift or None, rules.name, side)
    recipe.draw(0)
    return recipe
