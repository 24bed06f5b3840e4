"""What a checkpoint says about itself: the contents of its `config.json`."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, get_args, get_origin, get_type_hints

from disol import __version__
from disol.models.config import ModelConfig
from disol.models.network import Network
from disol.models.table import find_model, name_of
from disol.problems import Problem
from disol.problems.checks import Unchecked
from disol.problems.table import PROBLEMS, find_conventions, find_problem

FORMAT = "disol checkpoint 1"
Normalisation = Literal["joint", "component"]


@dataclass(frozen=True)
class Card:
    """What has to be known to build a model again and to use it as it was trained.

    parameters      the numbers of the equation
    normalisation   "joint": u = U / max |U|; "component": u_c = ½ + ½ U_c / max |U_c|
    storage         the precision its weights are stored in; they are float32 once loaded
    files           the other files of the checkpoint, and the SHA-256 of each
    """

    model: str
    model_config: dict[str, Any]
    problem: str
    parameters: dict[str, Any]
    channels: list[str]
    fields: list[str]
    conventions: str
    resolution: int
    normalisation: Normalisation
    storage: str = "float32"
    files: dict[str, str] = field(default_factory=dict)
    package_version: str = __version__
    format: str = FORMAT

    @classmethod
    def of(cls, model: Network, problem: Problem, conventions: str, resolution: int, storage: str) -> "Card":
        """Describe a model of a problem."""
        if (model.channels, model.fields) != (problem.channels, problem.fields):
            raise ValueError(
                f"{problem.name} maps {', '.join(problem.channels)} to {', '.join(problem.fields)}, but the model maps "
                f"{', '.join(model.channels)} to {', '.join(model.fields)}. Pass the problem it was built for."
            )
        rules = find_conventions(conventions)
        return cls(
            model=name_of(model),
            model_config=model.config.as_dict(),
            problem=problem.name,
            parameters={name: getattr(problem, name) for name in problem.parameters},
            channels=list(problem.channels),
            fields=list(problem.fields),
            conventions=rules.name,
            resolution=resolution,
            normalisation="component" if problem.scales_fields_separately(rules) else "joint",
            storage=storage,
        )

    @classmethod
    def read(cls, content: bytes, source: object) -> "Card":
        """Read a `config.json`."""
        try:
            stored = json.loads(content)
        except ValueError:
            raise ValueError(f"{source} must hold JSON, but is damaged. Copy the checkpoint again.") from None
        found = stored.get("format") if isinstance(stored, dict) else None
        if found != FORMAT:
            raise ValueError(f"{source} must have the format {FORMAT!r}, got {found!r}. Pass a checkpoint of disol.")
        kinds = get_type_hints(cls)
        require_keys(source, stored, set(kinds))
        for name, kind in kinds.items():
            if not is_of_kind(stored[name], kind):
                raise ValueError(f"{name} of {source} must not be {stored[name]!r}. Copy the checkpoint again.")
        return cls(**stored)

    def write(self) -> bytes:
        """Write a `config.json`."""
        return (json.dumps(asdict(self), indent=2) + "\n").encode()

    def find_problem(self, source: object, asked: str | Problem | Unchecked = None) -> Problem:
        """Return the problem with the numbers it was trained with; a problem asked for must be the same one."""
        if asked is None and self.problem not in PROBLEMS:
            raise ValueError(
                f"{source} was trained on {self.problem!r}, which is not among {', '.join(PROBLEMS)}. "
                "Pass that problem too, as in disol.load(folder, problem) or load_checkpoint(folder, problem)."
            )
        problem = find_problem(self.problem if asked is None else asked)
        if problem.name != self.problem:
            raise ValueError(
                f"{source} was trained on {self.problem!r}, not {problem.name!r}. "
                f"Choose the problem {self.problem}, or a checkpoint of {problem.name!r}."
            )
        find_conventions(self.conventions)
        require_names(source, "channels", self.channels, problem.channels)
        require_names(source, "fields", self.fields, problem.fields)
        require_keys(f"parameters of {source}", self.parameters, set(problem.parameters))
        numbers = {name: read(name, self.parameters[name]) for name, read in problem.parameters.items()}
        for name, number in numbers.items():
            if isinstance(asked, Problem) and getattr(asked, name) != number:
                raise ValueError(
                    f"{source} was trained with {name}={number}, but the problem asked for has {getattr(asked, name)}. "
                    f"Leave the problem out, or train a model of it."
                )
        return replace(problem, **numbers)

    def find_config(self, source: object) -> ModelConfig:
        """Return the settings of the model; one that it lacks is younger than it, and off by default."""
        config = find_model(self.model).config.for_problem(self.problem)
        require_keys(f"model_config of {source}", {**config.as_dict(), **self.model_config}, set(config.names()))
        return config.changed(self.model_config)


def is_of_kind(value: object, kind: Any) -> bool:
    """Tell whether a value read from JSON is a text, number, list, dict or one of several texts, as declared."""
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    return type(value) is (get_origin(kind) or kind)


def require_keys(source: object, stored: Mapping[str, object], expected: set[str]) -> None:
    """Require exactly the expected keys."""
    for trouble, keys in (("lacks", expected - stored.keys()), ("also has", stored.keys() - expected)):
        if keys:
            raise ValueError(
                f"{source} must have the keys {', '.join(sorted(expected))}, but {trouble} {', '.join(sorted(keys))}. "
                "Use the version of disol that wrote it."
            )


def require_names(source: object, kind: str, stored: list[str], expected: tuple[str, ...]) -> None:
    """Require that channels or fields are those of the problem, in its order."""
    if tuple(stored) != tuple(expected):
        raise ValueError(
            f"{source} has the {kind} {', '.join(stored)}, but the problem has {', '.join(expected)}. "
            "Use the version of disol that wrote it, or train again."
        )
