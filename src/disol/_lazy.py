"""Names that are imported on first use: those of a package, and "package.module:Name" of a user's own code."""

import re
import sys
from collections.abc import Callable, Collection, Mapping
from functools import reduce
from importlib import import_module
from typing import Any, TypeGuard

from disol.errors import DisolError


def lazy_names(package: str, modules: Mapping[str, str], others: Collection[str] = ()) -> Callable[[str], object]:
    """Return the `__getattr__` of a package: each name lives in a module of it (or, as ".module", beside it).

    others   names that the package has already
    """

    def find(name: str) -> object:
        if name not in modules:
            known = dict.fromkeys([*modules, *others])
            raise AttributeError(f"{package} has no {name!r}. Its names are {', '.join(known)}.")
        value = getattr(import_module(f".{modules[name]}", package), name)
        setattr(sys.modules[package], name, value)
        return value

    return find


def names_own(given: object) -> TypeGuard[str]:
    """Tell the text "package.module:Name" apart from the names of the package, and from anything else."""
    return isinstance(given, str) and ":" in given


def import_own(kind: str, text: str) -> Any:
    """Import the object of a user, such as a model or a problem, that "package.module:Name" names.

    The text must come from the user, never from a file that somebody else may have written.
    """
    if not re.fullmatch(r"\w+(\.\w+)*:\w+(\.\w+)*", text):
        raise DisolError(f"A {kind} of one's own is written 'package.module:Name', got {text!r}.")
    module, _, name = text.partition(":")
    try:
        imported = import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):  # it exists, but lacks another module
            raise
        raise DisolError(f"Unknown {kind} {text!r}: there is no module {error.name!r}.") from None
    try:
        return reduce(getattr, name.split("."), imported)
    except AttributeError:
        raise DisolError(f"Unknown {kind} {text!r}: {module} has no {name!r}.") from None
