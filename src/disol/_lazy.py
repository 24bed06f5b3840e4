"""Names of a package that are imported on first use, so that what needs no torch starts without it."""

import sys
from collections.abc import Callable, Collection, Mapping
from importlib import import_module


def lazy_names(package: str, modules: Mapping[str, str], others: Collection[str] = ()) -> Callable[[str], object]:
    """Return the `__getattr__` of a package: each name lives in a module of it (or, as ".module", beside it).

    others   names that are there already
    """

    def find(name: str) -> object:
        if name not in modules:
            known = dict.fromkeys([*modules, *others])
            raise AttributeError(f"{package} has no {name!r}. Its names are {', '.join(known)}.")
        value = getattr(import_module(f".{modules[name]}", package), name)
        setattr(sys.modules[package], name, value)
        return value

    return find
