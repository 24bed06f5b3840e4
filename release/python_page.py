"""Write docs/python.md, the public names and the settings of training runs, from docstrings and dataclasses.

    python release/python_page.py

With --check nothing is written, and the exit status is 1 if the page is not what the package gives.
"""

import argparse
import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import FunctionType, ModuleType, UnionType
from typing import Any, Literal, get_args, get_origin

import disol
from disol._files import written_whole
from disol.models import PUBLISHED_CONFIGS, DiSOLConfig
from disol.training import RECIPES, TrainSettings
from disol.training.config import get_kinds
from wording import page, table, wrap

PAGE = Path(__file__).parents[1] / "docs" / "python.md"
# Classes that are listed with what they have.
SHOWN = {"disol": ("Case", "Solution", "Surrogate", "Verification", "Problem", "Ranking"), "fem": ("LinearSystem",)}
LISTED = (
    "problems",
    "distributions",
    "data",
    "models",
    "training",
    "evaluation",
    "comparison",
    "surrogate",
    "ranking",
    "viz",
    "fem",
    "solvers",
)  # subpackages that have more names than `disol` has of them
MEANT = re.compile(r"(\w+)\s{2,}(\S.*)")  # a line of a docstring about one field
STARS: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
PLAIN = (bool, int, float, str, type(None))
MEMBERS = (property, cached_property, classmethod, FunctionType)


def write_page() -> str:
    """Return the page about the public names and the settings."""
    paragraphs = [
        "# In Python",
        "This page is written by `python release/python_page.py` from the first lines of the docstrings; "
        "`help(disol.draw)` shows all of one. The [README](../README.md) shows the names at work, and "
        "[training.md](training.md) explains the settings. Names that `disol` has itself are listed once, in the first "
        "section.",
        "## disol",
        listed(disol, disol.PUBLIC_NAMES),
    ]
    for name in SHOWN["disol"]:
        paragraphs += [f"### {name}", summary(getattr(disol, name)), *members(getattr(disol, name))]
    for name in LISTED:
        module = import_module(f"disol.{name}")
        names = [each for each in module.__all__ if each not in disol.PUBLIC_NAMES]
        paragraphs += [f"## disol.{name}", summary(module), listed(module, names)]
        for kind in SHOWN.get(name, ()):
            paragraphs += [f"### {kind}", summary(getattr(module, kind)), *members(getattr(module, kind))]
    paragraphs += [
        "## Settings",
        "Settings of a training run are given by `disol train --set train.NAME=VALUE`, in the section `[train]` of a "
        'config, or in Python by `overrides=["train.NAME=VALUE"]`. The defaults are those of the recipe `fast` '
        "([the recipes compared](training.md)).",
        settings_table(TrainSettings, {"`published`": RECIPES["published"]}),
        "Settings of the network `disol` are given by `--set model.NAME=VALUE` or in the section `[model]`; `disol "
        "models` lists the other networks. The default is the size published for Poisson, which is also used for "
        "problems of your own; the columns after it give those of the other problems.",
        settings_table(DiSOLConfig, {name: config for name, config in PUBLISHED_CONFIGS.items() if name != "poisson"}),
    ]
    return page(paragraphs)


def listed(module: ModuleType, names: Mapping[str, Any] | list[str]) -> str:
    """List names with one line about each."""
    return "\n".join(line(name, getattr(module, name)) for name in sorted(names, key=str.lower))


def line(name: str, value: Any) -> str:
    """Say in one line what a name stands for."""
    call = signature(value) if inspect.isfunction(value) or inspect.ismethod(value) else ""
    return wrap(f"- `{name}{call}`: {summary(value)}", indent="  ")


def summary(value: Any) -> str:
    """Return the first line of a docstring; of a table its keys."""
    if isinstance(value, dict):
        return f"the table of {', '.join(f'`{key}`' for key in value)}."
    if isinstance(value, UnionType):
        return f"any of {', '.join(f'`{kind.__name__}`' for kind in get_args(value))}."
    if isinstance(value, tuple):
        return f"{len(value)} values of `{type(value[0]).__name__}`: {summary(type(value[0]))}"
    text = (inspect.getdoc(value) or "").partition("\n")[0]
    if not text:
        raise ValueError(f"{value} must have a docstring to be listed, but has none.")
    return text if text[-1] in ".:" else f"{text}."


def signature(function: Any) -> str:
    """Write what a function takes, without types."""
    parts, starred = [], False
    for name, parameter in inspect.signature(function).parameters.items():
        if name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        prefix = STARS.get(parameter.kind, "")
        starred = starred or prefix == "*"
        parts.append(
            f"{prefix}{name}" + ("" if parameter.default is parameter.empty else f"={plain(parameter.default)}")
        )
    return f"({', '.join(parts)})"


def plain(value: Any) -> str:
    """Write a default that can be read at a glance."""
    if isinstance(value, float):
        return f"{value:g}"
    is_plain = isinstance(value, PLAIN) or (isinstance(value, tuple) and all(isinstance(each, PLAIN) for each in value))
    return repr(value).replace("'", '"') if is_plain else "..."


def members(kind: type) -> Iterator[str]:
    """List what the values of a class have: its fields as its docstring tells them, its properties and methods."""
    told = meanings(kind)
    names = [field.name for field in fields(kind) if field.name[0] != "_"] if is_dataclass(kind) else []
    lines = [wrap(f"- `{name}`: {told[name]}", indent="  ") for name in names if name in told]
    untold = [f"`{name}`" for name in names if name not in told]
    lines += [wrap(f"- {', '.join(untold)}", indent="  ")] if untold else []
    for name, value in vars(kind).items():
        if not name.startswith("_") and name not in names and isinstance(value, MEMBERS):
            lines.append(line(name, getattr(kind, name) if isinstance(value, classmethod) else value))
    yield "\n".join(lines)


def meanings(kind: type) -> dict[str, str]:
    """Read what a docstring says about fields: a name, two spaces or more, the meaning, which may go on below it."""
    found: dict[str, str] = {}
    name = ""
    for text in (inspect.getdoc(kind) or "").splitlines()[1:]:
        started = MEANT.fullmatch(text)
        if started:
            name = started[1]
            found[name] = started[2]
        elif name and text.startswith("    "):
            found[name] += f" {text.strip()}"
        else:
            name = ""
    return found


def settings_table(kind: type, others: Mapping[str, Any]) -> str:
    """Tabulate settings with their defaults, where other sets of them differ, and what they mean."""
    told, kinds, rows = meanings(kind), get_kinds(kind), []
    for field in fields(kind):
        if field.name not in told or field.default is MISSING:
            raise ValueError(f"{kind.__name__}.{field.name} must have a default and a line in the docstring.")
        values = [getattr(other, field.name) for other in others.values()]
        changed = ["" if value == field.default else f"`{as_setting(value)}`" for value in values]
        meant = told[field.name].replace("|", "\\|")
        if get_origin(kinds[field.name]) is Literal:
            meant += f" ({', '.join(f'`{choice}`' for choice in get_args(kinds[field.name]))})"
        rows.append([f"`{field.name}`", f"`{as_setting(field.default)}`", *changed, meant])
    return table(["setting", "default", *others, "meaning"], rows)


def as_setting(value: bool | int | float | str) -> str:
    """Write a value as `--set` reads it."""
    return value if isinstance(value, str) else plain(value).lower()


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing")
    parser.add_argument("--page", type=Path, default=PAGE)
    options = parser.parse_args(arguments)
    text = write_page()
    if not options.check:
        with written_whole(options.page) as temporary:
            temporary.write_text(text, encoding="utf-8")
    elif not options.page.exists() or options.page.read_text(encoding="utf-8") != text:
        parser.exit(1, f"{options.page} is not what the package gives. Run python release/python_page.py.\n")


if __name__ == "__main__":
    main()
