"""The options that state a case, shared by commands that solve, and their texts as `read_case` takes them."""

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, get_args

from typer.models import OptionInfo

GIVEN = "The case"  # the panel of the help that these options are in
Command = Callable[..., None]


def join_texts(given: Mapping[str, Sequence[str] | str | None]) -> dict[str, str]:
    """Join options that were given several times, and leave out those that were not given."""
    return {name: text if isinstance(text, str) else ",".join(text) for name, text in given.items() if text is not None}


def taking_what_is_given_to(other: Command, but: Collection[str]) -> Callable[[Command], Command]:
    """Give a command the options of another that state a case, except for those in `but` and its own."""

    def extend(command: Command) -> Command:
        own = inspect.signature(command)
        kept = [parameter for parameter in own.parameters.values() if parameter.kind is not parameter.VAR_KEYWORD]
        shared = [each for each in _given_options(other) if each.name not in {*own.parameters, *but}]
        command.__signature__ = own.replace(parameters=[*kept, *shared])  # type: ignore[attr-defined]
        command.__annotations__ |= {each.name: each.annotation for each in shared}
        return command

    return extend


def _given_options(command: Command) -> Iterator[inspect.Parameter]:
    for parameter in inspect.signature(command).parameters.values():
        described: Any = [each for each in get_args(parameter.annotation) if isinstance(each, OptionInfo)]
        if described and described[0].rich_help_panel == GIVEN:
            yield parameter.replace(kind=parameter.KEYWORD_ONLY)
