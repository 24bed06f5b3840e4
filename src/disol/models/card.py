"""What a checkpoint says about itself, its `config.json`, and its other files as bytes; reading them needs no torch."""

import hashlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, get_args, get_origin, get_type_hints

from disol import __version__
from disol._checks import count
from disol._files import INCOMING, read_current
from disol._lazy import names_own
from disol.errors import DisolError, listed, shown
from disol.models.settings import ModelConfig
from disol.models.table import MODELS, describe_model, find_model
from disol.problems import Problem
from disol.problems.conventions import Conventions
from disol.problems.table import PROBLEMS, find_conventions, find_problem

if TYPE_CHECKING:
    import torch

    import disol.models.base

CARD = "config.json"
WEIGHTS = "model.safetensors"
METRICS = "metrics.json"
STATE = "state.pt"
FORMAT = "disol checkpoint 1"
MOST_BYTES = 2**20  # of a `config.json`
MOST_TEXT_BYTES = 2**24  # of `metrics.json`, and of what the other files hold besides numbers
DEEPEST = 50  # levels of nested lists and objects in JSON
LARGEST_SIDE = 2**14  # pixels along a side of the grids that a network was trained on


@dataclass(frozen=True, repr=False)
class Card:
    """What is needed to build a network again and to use it as it was trained.

    model               its name in the table of models; for a network of your own "package.module:Name"
    model_config        its settings
    parameters          the numbers of the equation
    normalisation       how patterns are scaled, "joint" or "component" (`disol.problems.normalisation`)
    storage             the precision its weights are stored in; they are float32 once loaded
    resolution          pixels along a side of the grids it was trained on; of several resolutions the first
    other_resolutions   the other resolutions it was trained on; not in `config.json` if there are none
    files               the files of the checkpoint, and the SHA-256 of each; for `config.json` itself, of its content
                        without this entry
    """

    model: str
    model_config: dict[str, Any]
    problem: str
    parameters: dict[str, Any]
    channels: list[str]
    fields: list[str]
    conventions: str
    resolution: int
    normalisation: Literal["joint", "component"]
    storage: str = "float32"
    other_resolutions: list[int] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    package_version: str = __version__
    format: str = FORMAT

    @classmethod
    def of(
        cls,
        network: "torch.nn.Module",
        problem: Problem,
        conventions: str | Conventions,
        resolution: int | Sequence[int] | None,
        *,
        storage: str = "float32",
        model: "str | type[torch.nn.Module] | torch.nn.Module | None" = None,
        model_settings: Mapping[str, Any] | None = None,
    ) -> "Card":
        """Describe a network for a problem; one of your own by the model and settings that built it, if given."""
        name, own = describe_model(network), cast("disol.models.base.Network", network)
        if name in MODELS:
            settings = own.config.as_dict()
            _require_channels(own, problem)
        else:
            name = name if model is None else describe_model(model)
            settings = as_json("model_settings", model_settings or {})
        rules = find_conventions(conventions, problem)
        first, *others = read_resolutions(problem, resolution)
        return cls(
            model=name,
            model_config=settings,
            problem=problem.name,
            parameters={name: getattr(problem, name) for name in problem.parameters},
            channels=list(problem.channels),
            fields=list(problem.fields),
            conventions=rules.name,
            resolution=first,
            normalisation=problem.normalisation(rules).name,
            storage=storage,
            other_resolutions=others,
        )

    @classmethod
    def read(cls, content: bytes, source: object) -> "Card":
        """Read a `config.json`; those of earlier versions do not hold their own SHA-256."""
        stored = read_json(content, source)
        found = stored.get("format") if isinstance(stored, dict) else None
        if found != FORMAT:
            raise DisolError(
                f"{source} must have the format {FORMAT!r}, got {shown(found)}. Pass a checkpoint of disol."
            )
        kinds = get_type_hints(cls)
        stored.setdefault("other_resolutions", [])
        _require_keys(source, stored, set(kinds))
        for name, kind in kinds.items():
            if not _is_of_kind(stored[name], kind):
                raise DisolError(f"{name} of {source} must not be {shown(stored[name])}. Copy the checkpoint again.")
        card = cls(**stored)
        for side in card.resolutions:
            if not 1 <= side <= LARGEST_SIDE:
                raise DisolError(
                    f"resolution of {source} must be from 1 to {LARGEST_SIDE:,}, got {shown(side)}. "
                    "Copy the checkpoint again."
                )
        if card.files.get(CARD, card.digest()) != card.digest():
            raise DisolError(f"{source} was altered after it was saved. Copy the checkpoint again.")
        return card

    def write(self) -> bytes:
        """Write a `config.json`, with the SHA-256 of its content."""
        return self._encode({**self.files, CARD: self.digest()})

    def digest(self) -> str:
        """Return the SHA-256 of its content, without this SHA-256 itself."""
        others = {name: digest for name, digest in self.files.items() if name != CARD}
        return hashlib.sha256(self._encode(others)).hexdigest()

    def _encode(self, files: Mapping[str, str]) -> bytes:
        told = {**asdict(self), "files": files}
        if not self.other_resolutions:
            del told["other_resolutions"]  # so that the digests of cards of earlier versions stay the same
        return (json.dumps(told, indent=2) + "\n").encode()

    @property
    def resolutions(self) -> tuple[int, ...]:
        """All resolutions it was trained on: pixels along a side of the grids."""
        return (self.resolution, *self.other_resolutions)

    @property
    def grids(self) -> str:
        """The grids it was trained on, in words."""
        *others, last = (f"{side} x {side}" for side in self.resolutions)
        return f"{', '.join(others)} and {last}" if others else last

    def __repr__(self) -> str:
        maps = f"{', '.join(self.channels)} -> {', '.join(self.fields)}"
        return f"Card({self.model} of {self.problem}: {maps}, {self.conventions} conventions, {self.storage})"

    def find_problem(self, source: object, asked: str | Problem | None = None) -> Problem:
        """Return the problem with the numbers it was trained with; `asked`, if given, must be the same problem."""
        if asked is None and self.problem not in PROBLEMS:
            raise DisolError(
                f"{source} was trained on {shown(self.problem)}, which is not among {', '.join(PROBLEMS)}. "
                "Pass that problem too, as in disol.load(folder, problem) or load_checkpoint(folder, problem)."
            )
        problem = find_problem(self.problem if asked is None else asked)
        if problem.name != self.problem:
            raise DisolError(
                f"{source} was trained on {shown(self.problem)}, not {problem.name!r}. "
                f"Choose the problem {self.problem}, or a checkpoint of {problem.name!r}."
            )
        find_conventions(self.conventions, problem)
        _require_names(source, "channels", self.channels, problem.channels)
        _require_names(source, "fields", self.fields, problem.fields)
        _require_keys(f"parameters of {source}", self.parameters, set(problem.parameters))
        numbers = {name: read(name, self.parameters[name]) for name, read in problem.parameters.items()}
        for name, number in numbers.items():
            if (isinstance(asked, Problem) or names_own(asked)) and getattr(asked, name) != number:
                raise DisolError(
                    f"{source} was trained with {name}={number}, but the problem asked for has {getattr(asked, name)}. "
                    "Leave the problem out, or train a model of it."
                )
        return replace(problem, **numbers)

    def find_config(self, source: object) -> ModelConfig:
        """Return the settings of a model of the table; those added after it was saved are off by default."""
        config = find_model(self.model).config.for_problem(self.problem)
        _require_keys(f"model_config of {source}", {**config.as_dict(), **self.model_config}, set(config.names()))
        return config.changed(self.model_config)


def read_resolutions(problem: Problem, given: int | Sequence[int] | None) -> tuple[int, ...]:
    """Read one resolution or several, without repetitions; the problem's own unless given."""
    sides = (given if isinstance(given, list | tuple) else [given]) if given is not None else [problem.resolution]
    if not sides:
        raise DisolError("resolution must be one or several, got none.")
    return tuple(dict.fromkeys(count("resolution", side) for side in sides))


def read_card(folder: Path) -> Card:
    """Read the card of a checkpoint; a folder without a card is not a checkpoint."""
    if not is_checkpoint(folder):
        is_there = "is a file" if os.path.exists(folder) else "does not exist"
        kind = "has no config.json" if os.path.isdir(folder) else is_there
        raise DisolError(f"A checkpoint is a folder with a {CARD}, but {folder} {kind}.")
    return Card.read(read_current(folder, CARD, MOST_BYTES), folder / CARD)


def read_files(folder: Path, card: Card, most_bytes: Mapping[str, int]) -> dict[str, bytes] | None:
    """Read files of a checkpoint that its card lists; None if a training run wrote a new one meanwhile."""
    for name in (WEIGHTS, METRICS):
        if name not in card.files:
            raise DisolError(f"{folder / CARD} must list {name}, but does not. Copy the checkpoint again.")
    if not card.files.keys() <= {WEIGHTS, METRICS, STATE, CARD}:
        raise DisolError(f"{folder / CARD} lists {listed(card.files)}, which is no checkpoint. Copy it again.")
    contents = {}
    for name in most_bytes.keys() & card.files.keys():
        try:
            contents[name] = read_current(folder, name, most_bytes[name])
        except DisolError as error:
            if not isinstance(error.__cause__, FileNotFoundError):
                raise
            contents[name] = b""
        if hashlib.sha256(contents[name]).hexdigest() != card.files[name]:
            if read_card(folder) != card:
                return None
            raise DisolError(
                f"{folder / name} must be the file that was saved, but is missing, truncated or altered. "
                "Copy the checkpoint again."
            )
    return contents


def is_checkpoint(folder: Path) -> bool:
    """Tell whether a folder holds a checkpoint, even one whose last change was interrupted."""
    return os.path.exists(folder / INCOMING / CARD) or os.path.exists(folder / CARD)


def read_json(content: bytes, source: object) -> Any:
    """Read JSON, or raise an error that names its source."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        raise DisolError(f"{source} must hold JSON, but is damaged. Copy it again.") from None
    level = [value]
    for _ in range(DEEPEST):
        nested = (each.values() if isinstance(each, dict) else each for each in level if isinstance(each, dict | list))
        level = [item for items in nested for item in items]
    if level:
        raise DisolError(f"{source} must not be nested more than {DEEPEST} deep. Copy it again.")
    return value


def as_json(where: str, value: Any) -> Any:
    """Copy containers, numbers and texts as JSON can hold them; a number that is not finite becomes None."""
    if isinstance(value, Mapping):
        return {str(key): as_json(f"{where}[{key!r}]", item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(f"{where}[{place}]", item) for place, item in enumerate(value)]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise DisolError(f"{where} must be a number, text or a container of them, got {type(value).__name__}.")


def _require_channels(network: "disol.models.base.Network", problem: Problem) -> None:
    """Require that a model of the table was built for the channels and fields of a problem."""
    if (network.channels, network.fields) != (problem.channels, problem.fields):
        raise DisolError(
            f"{problem.name} maps {', '.join(problem.channels)} to {', '.join(problem.fields)}, but the network maps "
            f"{', '.join(network.channels)} to {', '.join(network.fields)}. Pass the problem it was built for."
        )


def _is_of_kind(value: object, kind: Any) -> bool:
    """Tell whether a value read from JSON is a text, number, list, dict or one of several texts, as declared."""
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if get_origin(kind) is list:
        return isinstance(value, list) and all(type(item) is get_args(kind)[0] for item in value)
    return type(value) is (get_origin(kind) or kind)


def _require_keys(source: object, stored: Mapping[str, object], expected: set[str]) -> None:
    """Require exactly the expected keys."""
    for trouble, keys in (("lacks", expected - stored.keys()), ("also has", stored.keys() - expected)):
        if keys:
            raise DisolError(
                f"{source} must have the keys {', '.join(sorted(expected))}, but {trouble} {listed(sorted(keys))}. "
                "Use the version of disol that wrote it."
            )


def _require_names(source: object, kind: str, stored: list[str], expected: tuple[str, ...]) -> None:
    """Require that channels or fields are those of the problem, in its order."""
    if tuple(stored) != tuple(expected):
        raise DisolError(
            f"{source} has the {kind} {listed(stored)}, but the problem has {', '.join(expected)}. "
            "Use the version of disol that wrote it, or train again."
        )
