"""Rankings of cases, some of which fail, by measures of any kind."""

import csv
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

import disol
from attempts import Attempt, Odd, WrongAnswer, anything, chance, hostile_number, hostile_text, pick, short
from parts import draw_text

MEASURES = (
    "max",
    "max_temperature",
    "max_displacement",
    "von_mises",
    "compliance",
    "energy",
    "flux:outer",
    "flux:left",
)
CLOSE = 1e-12


@lru_cache
def case(kind: str, number: int) -> disol.Case:
    """Make a small case, right or not to be solved."""
    domain = np.zeros((12, 12))
    domain[2:10, 1 : 8 + number] = 1
    if kind == "scalar":
        return disol.Case.from_arrays("poisson", domain=domain, dirichlet={"left": number}, source=1.0)
    if kind == "elastic":
        held: Any = {"fix_x": {"left": 0}, "fix_y": {"left": 0}}
        return disol.Case.from_arrays("elasticity", domain=domain, **held, force_y={"right": number + 1.0})
    if kind == "transient":
        return disol.Case.from_arrays("heat", domain=domain, dirichlet={"left": number}, initial=1.0, times=[2, 4])
    if kind == "on pixels":
        return disol.draw("poisson", number, resolution=16, conventions="paper")
    if kind == "batch":
        return disol.Case.stack([case("scalar", number)] * 2)
    if kind == "overflow":
        return disol.Case.from_arrays("poisson", domain=domain, dirichlet={"left": 0}, source=1e308, size=1e20)
    return disol.Case.from_arrays("poisson", domain=domain, flux={"left": 1.0})  # that nothing holds


def rankings(rng: np.random.Generator, folder: Path) -> Attempt:
    """Rank several variants."""
    kind = pick(rng, ["scalar", "scalar", "elastic", "transient", "on pixels"])
    others = ["batch", "overflow", "loose", "raises", "makes", "thing", "scalar", "elastic"]
    drawn = [pick(rng, others) if chance(rng, 0.3) else kind for _ in range(int(rng.integers(1, 6)))]
    variants = [draw_variant(rng, own) for own in drawn]
    cases: Any = variants
    if chance(rng, 0.4):
        cases = {pick(rng, [f"variant {number}", hostile_text(rng)]): own for number, own in enumerate(variants)}
    elif chance(rng, 0.1):
        cases = pick(rng, [anything(rng), iter(variants), case("scalar", 1), case("batch", 1), {}, []])
    by: Any = pick(rng, MEASURES) if chance(rng, 0.5) else hostile_measure(rng)
    options: dict[str, Any] = {"ascending": chance(rng, 0.5)}
    if chance(rng, 0.15):
        options[pick(rng, ["ascending", "device", "progress"])] = anything(rng)
    if chance(rng, 0.1):
        options["workers"] = pick(rng, [0, 1, -1, 1.5, "2", None, True, np.int64(1), 1j, float("nan")])
    said = f"rank({drawn}, by={short(by)}, {short(options)})"
    return Attempt(said, lambda: check_ranking(cases, by, options, folder))


def draw_variant(rng: np.random.Generator, kind: str) -> Any:
    """Draw a case, a function that makes it, or something that is neither."""
    number = int(rng.integers(4))
    if kind == "thing":
        return anything(rng)
    if kind == "raises":
        error = pick(
            rng,
            [KeyError("x"), OSError(2, "no"), ZeroDivisionError(), disol.DisolError("no"), LoudError(), MemoryError()],
        )
        return raising(error)
    if kind == "makes":
        made = anything(rng)
        return lambda: made
    return case(kind, number) if chance(rng, 0.6) else lambda: case(kind, number)


class LoudError(Exception):
    """An error whose message is long and has several lines."""

    def __str__(self) -> str:
        return "a\nb\x1b[31m " * 1000


def raising(error: Exception) -> Callable[..., Any]:
    """Return a function that raises."""

    def fail(*_given: Any) -> Any:
        raise error

    return fail


def hostile_measure(rng: np.random.Generator) -> Any:
    """Draw what to rank by: functions and names that are seldom right."""
    result = anything(rng) if chance(rng, 0.5) else hostile_number(rng)
    return pick(
        rng,
        [
            lambda _solution: result,
            lambda solution: float(solution.field.mean()),
            lambda solution: solution.field.max(),
            lambda solution: solution.field,
            lambda solution: solution.no_such_thing,
            lambda: 1.0,
            raising(pick(rng, [ValueError("x"), LoudError(), disol.DisolError("no"), StopIteration()])),
            *(len, float, str, np.max, Odd, print),
            *(hostile_text(rng), anything(rng), f"flux:{draw_text(rng)}", "flux:", "FLUX:left", "max "),
        ],
    )


def check_ranking(cases: Any, by: Any, options: dict[str, Any], folder: Path) -> None:
    """Require a row for every variant, in the order of what is measured anew, and the same in a file."""
    count = len(cases) if isinstance(cases, list | dict) else None
    ranking = disol.rank(cases, by, **{"progress": False, **options})
    if count is not None and len(ranking) != count:
        raise WrongAnswer(f"{len(ranking)} rows of {count} variants")
    if sorted(row.number for row in ranking) != list(range(len(ranking))):
        raise WrongAnswer("a variant is missing, or there twice")
    for row in ranking:
        is_failed = row.error is not None
        if is_failed != (row.value is None) or is_failed != (row.rank is None):
            raise WrongAnswer(f"a row with {row.value}, {row.rank}, {row.error}")
        said = row.error or ""
        if not said.isprintable() or len(said) > 2000:
            raise WrongAnswer(f"an error that is no line: {said[:200]!r}")
    check_order(ranking, by)
    path = ranking.save(folder / "ranking.csv")
    csv.field_size_limit(10**6)  # names and measures may be long
    with path.open(encoding="utf-8", newline="") as file:
        stored = list(csv.DictReader(file))
    if [row["number"] for row in stored] != [str(row.number) for row in ranking]:
        raise WrongAnswer("the file has other rows")
    repr(ranking), ranking._repr_html_()
    show(ranking)


def check_order(ranking: disol.Ranking, by: Any) -> None:
    """Require that values go up or down, that those that failed come last, and that two of them are right."""
    kept = [row for row in ranking if row.error is None]
    if [row.error is not None for row in ranking] != [False] * len(kept) + [True] * (len(ranking) - len(kept)):
        raise WrongAnswer("a variant that failed stands before one that did not")
    values = np.array([row.value for row in kept], float)
    steps = np.diff(values) * (1 if ranking.ascending else -1)
    if not (steps >= 0).all():
        raise WrongAnswer(f"values out of order: {values}")
    known: dict[str, Callable[[disol.Solution], float]] = {
        "max": lambda solution: np.abs(solution.field).max(),
        "max_displacement": lambda solution: np.hypot(*solution.field).max(),
        "von_mises": lambda solution: solution.von_mises.max(),
    }
    measure = known.get(by) if isinstance(by, str) else None
    for row in kept[:2] if measure else []:
        again = measure(row.solution) if measure else 0.0
        if row.value is None or not abs(again - row.value) <= CLOSE * abs(again):
            raise WrongAnswer(f"{row.name} has {row.value}, {again} expected")


def show(ranking: disol.Ranking) -> None:
    """Print the table of a ranking, and draw its ends."""
    from io import StringIO

    import matplotlib.pyplot as plt
    from rich.console import Console

    Console(file=StringIO()).print(ranking.table(most=3))
    try:
        ranking.plot()
    except disol.DisolError:
        if ranking.rows[0].error is None and len({row.case.problem.name for row in ranking.ranked}) == 1:
            raise
    finally:
        plt.close("all")
