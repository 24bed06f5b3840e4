"""What a run was begun with, as its folder says: its settings, if none are given again. It needs no torch."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from disol.errors import DisolError, listed, shown
from disol.models.card import METRICS, MOST_TEXT_BYTES, Card, is_checkpoint, read_card, read_files, read_json
from disol.models.table import MODELS, describe_model
from disol.problems import PROBLEMS
from disol.training.config import RENAMED, RunSettings, find_recipe

if TYPE_CHECKING:
    from disol.models.handle import Handle
    from disol.training.config import Model

LAST = "last"  # in the folder of a run, while it is unfinished


@dataclass(frozen=True, eq=False)
class Begun:
    """A run that was begun.

    card       of its last checkpoint
    identity   everything that it was begun with, by name
    """

    path: Path
    card: Card
    identity: Mapping[str, Any]

    def find_problem(self) -> str:
        """Return the name of its problem; one of your own must be passed, because no file decides what is imported."""
        if self.card.problem not in PROBLEMS:
            raise DisolError(f"{self.path} is a run of your own problem {shown(self.card.problem)}. Pass it too.")
        return self.card.problem

    def choose_settings(self, problem: str, model: "Model | None", start: "Handle | None") -> RunSettings:
        """Return its settings; code of your own and weights to start from are not in its folder, but passed again."""
        name = str(self.identity.get("model"))
        if model is None and start is None:
            if name not in MODELS:
                raise DisolError(f"{self.path} is a run of your own network {listed([name])}. Pass its model too.")
            if self.identity.get("start") is not None:
                raise DisolError(f"{self.path} was begun with the weights of another network. Pass its start too.")
        if model is not None:
            require_same(self.path, self.identity, {**self.identity, "model": describe_model(model)})
        recipe = str(self.identity.get("recipe"))
        train = find_recipe(recipe, problem).changed(self._section("train."))
        brings_its_own = start is not None or not (model is None or isinstance(model, str | type))
        settings = {} if brings_its_own else self._section("model.")
        chosen = frozenset([*(f"train.{each}" for each in train.as_dict()), *([] if model is None else ["model"])])
        own = model if model is not None else name if start is None else "disol"
        return RunSettings(problem, own, recipe, train, settings, chosen)

    def _section(self, prefix: str) -> dict[str, Any]:
        found = self.identity.items()
        return {name.removeprefix(prefix): value for name, value in found if name.startswith(prefix)}


def read_begun(folder: Path) -> Begun | None:
    """Read what the run in a folder was begun with; None if there is no run, or if it does not say."""
    saved = next((path for path in (folder / LAST, folder) if is_checkpoint(path)), None)
    if saved is None:
        return None
    card = read_card(saved)
    contents = read_files(saved, card, {METRICS: MOST_TEXT_BYTES})
    if contents is None:
        raise DisolError(f"{saved} is being written by another process; retry later.")
    metrics = read_json(contents[METRICS], saved / METRICS)
    begun = metrics.get("run") if isinstance(metrics, dict) else None
    return Begun(folder, card, begun) if isinstance(begun, dict) else None


def describe_training(settings: RunSettings, seed: int, minutes: float | None) -> dict[str, Any]:
    """Name all settings of the training of a run."""
    train = {f"train.{name}": value for name, value in settings.train.as_dict().items()}
    return {"recipe": settings.recipe, "seed": seed, "minutes": minutes, **train}


def require_same(path: Path, begun: object, asked: Mapping[str, Any]) -> None:
    """Refuse to continue a run with other settings or other cases than it was begun with."""
    if not isinstance(begun, dict):
        raise DisolError(f"{path} does not say what it was begun with, got {shown(begun)}. Choose another out.")
    if any(f"train.{name}" in begun for name in RENAMED):
        raise DisolError(
            f"{path} was begun by an earlier version of disol, whose settings had other names. "
            "Finish it with that version, or choose another out."
        )
    for name in [*begun, *asked]:
        if begun.get(name) != asked.get(name):
            raise DisolError(
                f"{path} was begun with {listed([str(name)])}={shown(begun.get(name))}, now asked for "
                f"{shown(asked.get(name))}. Ask for the same, or choose another out."
            )
