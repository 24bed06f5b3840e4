"""Exact solutions of small cases, and predictions that are wrong in a known way."""

from dataclasses import replace

import numpy as np

import disol
from disol.cases import Case
from disol.solutions import Solution

TIMES = (2.0, 8.0, 20.0)


def drawn(problem: str, **options) -> Case:
    """A case of 24 x 24; of a transient problem at three times."""
    case = disol.draw(problem, 3, resolution=24, shift="topology", **options, conventions="paper")
    return case if case.times is None else Case.from_arrays(case, times=TIMES)


def solved(problem: str, **options) -> Solution:
    return disol.solve_exact(drawn(problem, **options), device="cpu")


def predicted(exact: Solution, *, noise: float = 0.0, factor: float = 1.0) -> Solution:
    """The exact solution times a factor, with noise added."""
    size = noise * np.max(exact.amplitude)
    error = size * exact.domain * np.random.default_rng(0).standard_normal(exact.field.shape)
    return replace(exact, field=factor * exact.field + error, nodes=None)


def panel(figure, title: str):
    """The first panel whose title begins so."""
    return next(axes for axes in figure.axes if axes.get_title().startswith(title))


def shown(axes) -> np.ndarray:
    """The numbers that a panel shows, 0 outside the domain."""
    return axes.images[0].get_array().filled(0.0)


def legend(axes) -> list[str]:
    return [text.get_text() for text in axes.get_legend().get_texts()]
