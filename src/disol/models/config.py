"""Settings of a model: a frozen dataclass with one default per setting, checked when it is built."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, ClassVar, Literal, get_args, get_origin, get_type_hints

from disol.problems.checks import Unchecked


@dataclass(frozen=True)
class ModelConfig(ABC):
    """What every architecture's settings share.

    A whole number counts something: it is at least 1, or its own smallest. Another number is finite, and at least its
    own smallest if it has one.
    """

    smallest: ClassVar[Mapping[str, int | float]] = {}

    @classmethod
    @abstractmethod
    def for_problem(cls, problem: str) -> "ModelConfig":
        """Return the default settings for a problem: the published size."""

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """List the settings."""
        return tuple(field.name for field in fields(cls))

    def __post_init__(self) -> None:
        self.check(self.as_dict())

    def changed(self, settings: Mapping[str, Unchecked]) -> "ModelConfig":
        """Return these settings with some replaced; an unknown one is an error."""
        self.check(settings)
        return replace(self, **settings)

    @classmethod
    def check(cls, settings: Mapping[str, Unchecked]) -> None:
        """Require that settings exist and are of their kind."""
        kinds = get_type_hints(cls)
        for name, value in settings.items():
            if name not in cls.names():
                raise ValueError(f"{cls.__name__} has no setting {name!r}. Its settings are {', '.join(cls.names())}.")
            check_setting(name, value, kinds[name], cls.smallest.get(name))

    def as_dict(self) -> dict[str, Any]:
        """Return the settings by name, as a checkpoint stores them."""
        return asdict(self)


def check_setting(name: str, value: Unchecked, kind: Any, smallest: int | float | None) -> None:
    """Require that a setting is of its kind, and a number not below `smallest`."""
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            choices = ", ".join(map(repr, get_args(kind)))
            raise ValueError(f"{name} must be one of {choices}, got {value!r}. Choose one of them.")
    elif kind is bool:
        if not isinstance(value, bool):
            raise ValueError(f"{name} must be true or false, got {value!r}. Pass a bool.")
    elif kind is int:
        least = 1 if smallest is None else smallest
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(f"{name} must be a whole number from {least} on, got {value!r}. Pass such an int.")
    elif kind is float:
        least = -math.inf if smallest is None else smallest
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < least:
            limits = "" if smallest is None else f" from {smallest} on"
            raise ValueError(f"{name} must be a finite number{limits}, got {value!r}. Pass such a float.")
    elif kind is str:
        if not isinstance(value, str):
            raise ValueError(f"{name} must be a text, got {value!r}. Pass a str.")
    else:
        raise TypeError(f"The setting {name} is declared as {kind}, which check_setting cannot check.")
