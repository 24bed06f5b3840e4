"""What a run was begun with, as its folder says: its settings, if none are given again. It needs no torch."""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
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
DATA = "data"  # in the metrics there: where its files of cases are; a finished run, to be shared, does not tell


@dataclass(frozen=True, eq=False)
class Begun:
    """A run that was begun.

    card       of its last checkpoint
    identity   everything that it was begun with, by name
    metrics    of its last checkpoint; while the run is unfinished, they say where its files of cases are
    """

    path: Path
    card: Card
    identity: Mapping[str, Any]
    metrics: Mapping[str, Any]

    @property
    def is_finished(self) -> bool:
        """Whether nothing is left to do."""
        return self.metrics.get("finished") is True

    def find_problem(self) -> str:
        """Return the name of its problem; one of your own must be passed, because no file decides what is imported."""
        if self.card.problem not in PROBLEMS:
            raise DisolError(f"{self.path} is a run of your own problem {shown(self.card.problem)}. Pass it too.")
        return self.card.problem

    def find_data(self) -> list[Path]:
        """Return its files of cases, each where it was or, if it is not there, where it was as seen from the run."""
        if self.is_finished:
            raise DisolError(f"{self.path} is finished and no longer says where its cases were. Pass its data.")
        places = self.metrics.get(DATA)
        if not places or not isinstance(places, list) or not all(_is_place(place) for place in places):
            raise DisolError(f"{self.path} does not say where its cases are. Pass its data.")
        found = []
        for place in places:
            known = (Path(place["path"]), self.path.resolve() / place["from_run"])
            existing = next((path for path in known if os.path.exists(path)), None)
            if existing is None:
                raise DisolError(
                    f"{self.path} was begun with the cases of {listed([place['path']])}, which does not exist. "
                    "Pass its data."
                )
            found.append(existing)
        return found

    def require_cases(self, paths: Sequence[Path], cases: Mapping[str, Any]) -> None:
        """Require that the files it was begun with still hold the same cases."""
        for name, value in json.loads(json.dumps(cases)).items():
            if self.identity.get(name) != value:
                raise DisolError(
                    f"{self.path} was begun with {listed([name])}={shown(self.identity.get(name))}, but "
                    f"{listed(map(str, paths))} has {shown(value)} now. Pass its data."
                )

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
    return Begun(folder, card, begun, metrics) if isinstance(begun, dict) else None


def describe_places(data: Iterable[Path], folder: Path) -> list[dict[str, str]]:
    """Say where files of cases are, so that they are found after a run was moved alone, or together with them."""
    return [
        {"path": os.path.abspath(path), "from_run": os.path.relpath(path.resolve(), folder.resolve())} for path in data
    ]


def _is_place(place: object) -> bool:
    """Tell whether `describe_places` may have written a value."""
    if not isinstance(place, dict) or place.keys() != {"path", "from_run"}:
        return False
    return all(isinstance(text, str) and "\0" not in text for text in place.values())


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
