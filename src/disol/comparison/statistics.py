"""Statistics of curves and errors over runs: quartiles, epochs or time to a threshold, and whether models differ.

Two samples are compared by the two-sided Mann-Whitney U test: whether one of two models tends to be better, without
assuming a distribution of the runs. The effect is Cliff's delta, P(x < y) − P(x > y) for runs x of the first model and
y of the second: 1 if all of the first are smaller, 0 if neither tends to be, −1 if all of the second are.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import combinations

import numpy as np
from jaxtyping import Float

LAST_SHARE = 0.2  # of a curve, in which it is judged whether it still falls
STILL_FALLING = 0.02  # of the best loss before
MOST_ORDERS = 20_000  # of two samples that are tried one by one, as are all of 8 and 8 runs

Curve = Float[np.ndarray, " epoch"]


@dataclass(frozen=True)
class Quartiles:
    """The quartiles of a number over runs; it is infinite for a run that never reached a threshold."""

    count: int
    low: float
    median: float
    high: float


@dataclass(frozen=True)
class Difference:
    """Two models, compared by one number of each run, of which smaller is better.

    p_value   of the Mann-Whitney U test, two-sided
    effect    Cliff's delta, positive where the first model is better
    """

    first: Quartiles
    second: Quartiles
    p_value: float
    effect: float


def find_quartiles(values: Sequence[float] | Float[np.ndarray, " run"]) -> Quartiles:
    """Return the quartiles of a number over runs, interpolated between runs; towards an infinite one, infinity."""
    ordered = np.sort(np.asarray(values, dtype=float))
    found = []
    for place in np.array([0.25, 0.5, 0.75]) * (len(ordered) - 1):
        below, above = float(ordered[math.floor(place)]), float(ordered[math.ceil(place)])
        found.append(below if below == above else below + (place - math.floor(place)) * (above - below))
    return Quartiles(len(ordered), *map(float, found))


def find_difference(first: Sequence[float], second: Sequence[float]) -> Difference:
    """Compare two models by one number of each of their runs."""
    x, y = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    larger, smaller = (x[:, None] > y).mean(), (x[:, None] < y).mean()
    return Difference(find_quartiles(x), find_quartiles(y), _p_value(x, y), float(smaller - larger))


def least_p_value(first: int, second: int) -> float:
    """Return the p-value of samples of two sizes that do not overlap; none of them can have a smaller one."""
    return 2 / math.comb(first + second, first)


def _p_value(x: Float[np.ndarray, " first"], y: Float[np.ndarray, " second"]) -> float:
    """Return the p-value of the two-sided Mann-Whitney U test, exact for few runs.

    scipy takes the normal distribution wherever numbers are equal, as all runs that never reach a threshold are; of few
    runs that gives p-values below the least possible one.
    """
    stats = import_module("scipy.stats")
    if math.comb(len(x) + len(y), len(x)) > MOST_ORDERS:
        return float(stats.mannwhitneyu(x, y, alternative="two-sided").pvalue)
    ranks = stats.rankdata(np.concatenate([x, y]))
    middle = len(x) * (len(ranks) + 1) / 2
    sums = np.array([sum(chosen) for chosen in combinations(ranks, len(x))])  # multiples of 1/2: free of rounding
    return float((np.abs(sums - middle) >= abs(ranks[: len(x)].sum() - middle)).mean())


def first_below(losses: Curve, places: Curve, threshold: float) -> float:
    """Return the first place (an epoch, a second) at which the loss is at most a threshold; infinite if it never is."""
    below = np.flatnonzero(losses <= threshold)
    return float(places[below[0]]) if len(below) else math.inf


def area_over_epochs(losses: Curve) -> float:
    """∫ L de from the first to the last epoch, by the trapezoidal rule."""
    return float(np.trapezoid(losses))


def area_over_time(losses: Curve, seconds: Curve, start: float, end: float) -> float:
    """∫ L dt between two times; between the ends of two epochs the loss is that of the earlier one."""
    inside = (seconds > start) & (seconds < end)
    edges = np.concatenate([[start], seconds[inside], [end]])
    return float((loss_at(losses, seconds, edges[:-1]) * np.diff(edges)).sum())


def loss_at(losses: Curve, seconds: Curve, times: Float[np.ndarray, " time"]) -> Float[np.ndarray, " time"]:
    """Return the loss after the last epoch that has ended at each time; infinite before the first."""
    last = np.searchsorted(seconds, times, side="right") - 1
    return np.where(last >= 0, losses[np.maximum(last, 0)], math.inf)


def find_last_fall(losses: Curve) -> float:
    """Return the share by which the best loss fell in the last fifth of the epochs.

    Below 2 % a curve is said to have flattened. A learning rate that ends at zero flattens every curve: this then tells
    what the end of the schedule has gained, not that longer training would gain nothing.
    """
    before = losses[: max(1, int((1 - LAST_SHARE) * len(losses)))]
    return float(1 - losses.min() / before.min())


def quartile_curves(curves: Sequence[Curve]) -> Float[np.ndarray, "3 epoch"]:
    """Return the quartiles over runs after each epoch that all of them have."""
    length = min(map(len, curves))
    return np.percentile(np.stack([curve[:length] for curve in curves]), [25, 50, 75], axis=0)
