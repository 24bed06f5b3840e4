"""The paper's figures, and whether ours are as good."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from disol.models.card import Card

FIGURES: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Target:
    """What the paper's DiSOL has, and the best of its rivals, in `grid_mae` of patterns scaled as ours."""

    disol: float
    rival: float
    rival_name: str


def find_target(card: Card, shift: str) -> Target | None:
    """Return the paper's figures for a test of a steady problem, where it has any."""
    errors = FIGURES.get(card.problem, {}).get("ood" if shift else "id")
    if errors is None:
        return None
    name, best = min(((name, error) for name, error in errors.items() if name != "DiSOL"), key=lambda item: item[1])
    factor = find_scale(card)
    return Target(factor * errors["DiSOL"], factor * best, name)


def find_scale(card: Card) -> float:
    """Return how many times larger than in the paper the same errors are in the scale of a model's patterns."""
    is_joint = len(card.fields) > 1 and card.normalisation == "joint"
    return FIGURES.get(card.problem, {}).get("scale", 1.0) if is_joint else 1.0


def find_range(card: Card, shift: str, time: float) -> tuple[float, float] | None:
    """Return the smallest and largest masked `mae` in the paper's figures at a time of a transient problem."""
    found = FIGURES.get(card.problem, {}).get("frames", {}).get("ood" if shift else "id", {}).get(f"{time:g}")
    return None if found is None else (found[0], found[1])


def note_on(problem: str) -> list[str]:
    """Return what a reader of the paper's figures should know, if there is something."""
    note = FIGURES.get(problem, {}).get("note")
    return [] if note is None else [note]


def verdict(ours: float | None, target: float | None) -> str:
    """Say whether a target is met."""
    if target is None:
        return "none"
    return "met" if ours is not None and ours <= target else "missed"
