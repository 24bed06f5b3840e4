"""The shape of the code, before and after a change: which files and classes one case passes on its way.

Only the names of the channels are fixed here. The package is the one below `--source`; its command `solve` is traced
without options on the CPU, in a process and a folder of its own.

call              a call of a named function of the package at run time. Calls while importing, and those of lambdas and
                  comprehensions, do not count. Each resumption of a generator is a call. Generated methods, as of a
                  dataclass, lie in no file
file              a file with a function that is called
hop               a call in another file than the call before it; the first call is a hop. A folder change is a hop into
                  another folder or module right below the package
call from afar    a call whose nearest caller in the package lies in another file, or in another folder
carrier           a class of the package with an instance that holds an array over the grid when the command is done,
                  in its attributes or in containers there. The array is of NumPy or torch and not a weight, and its
                  last two axes are the pixels or the nodes of the grid. The grid is that of the array `domain` in the
                  .npz file that the command writes
holder            a class that is not a carrier, with an instance that holds an instance of a carrier
lines             all lines, with blank lines and docstrings; functions are all that are written with `def`
definition        a function or class of a module, or a method or class of a class, whose name is defined only once and
                  is not a `__name__`. It is used once if its name occurs once outside of it, without imports and
                  strings
top-level name    a function, class or assigned name of a module that is not a `__name__`. It is private if it, its
                  module or a folder above begins with an underscore
problem check     an `isinstance`, `issubclass` or class pattern that names a class derived from `Problem`, outside the
                  folders that pose cases and solve them (older versions have only `problems`). A check for `Problem`
                  itself checks an argument and does not count
channel file      a file outside these folders and `_terms` with a string that is the name of a channel or its beginning
                  (`force_`), docstrings excepted. It is special if the channel is not domain, time or times
"""

import argparse
import ast
import json
import os
import runpy
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from types import FrameType, MappingProxyType
from typing import Any

import numpy as np

from report import processor, publish, table

COMMAND = "solve"
COMMON = {"domain", "time", "times"}
CHANNELS = {*COMMON, "dirichlet", "source", "initial", "fix_x", "fix_y", "force_x", "force_y"}
BEGINNINGS = {name[: name.index("_") + 1] for name in CHANNELS if "_" in name}
POSING = {"problems", "distributions", "cases", "solutions"}  # folders that pose cases and solve them
IMPORTS = 3  # runs of which the fastest counts

Trees = dict[str, ast.Module]  # by path below the package
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True)
class Trace:
    """What one run of the command passed through."""

    files: int
    hops: int
    folder_changes: int
    far_calls: int
    farther_calls: int
    carriers: list[str]
    holders: list[str]


@dataclass(frozen=True)
class Text:
    """What is counted in the source."""

    functions_per_1000_lines: float
    used_once: float
    private: float
    problem_checks: dict[str, int]
    channel_files: list[str]
    special_channel_files: list[str]
    lines: dict[str, int]


@dataclass(frozen=True)
class House:
    """All measurements; the seconds are those of imports."""

    package: str
    trace: Trace
    text: Text
    seconds: dict[str, float]


def measure(source: Path) -> House:
    """Measure the package below a source folder."""
    packages = [entry.parent for entry in sorted(source.resolve().glob("*/__init__.py"))]
    if len(packages) != 1:
        raise ValueError(f"--source must hold one package, got {[package.name for package in packages]} in {source}.")
    root = packages[0]
    texts = {path.relative_to(root).as_posix(): path.read_text() for path in sorted(root.rglob("*.py"))}
    modules = [root.name] + [f"{root.name}.training"] * (root / "training").exists()
    with tempfile.TemporaryDirectory() as folder:
        run_fresh([__file__, "--source", str(root.parent), "--trace", "trace.json"], root, folder)
        traced = Trace(**json.loads((Path(folder) / "trace.json").read_text()))
        seconds = {module: import_seconds(module, root, folder) for module in modules}
    return House(root.name, traced, read_text(texts), seconds)


def run_fresh(arguments: list[str], root: Path, folder: str) -> str:
    """Run Python in a folder, on a CPU and with this version of the package."""
    environment = {**os.environ, "PYTHONPATH": str(root.parent), "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=environment, cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout


def import_seconds(module: str, root: Path, folder: str) -> float:
    """Return how long an import takes in a fresh process, without starting Python."""
    timing = f"import time; start = time.perf_counter(); import {module}; print(time.perf_counter() - start)"
    return min(float(run_fresh(["-c", timing], root, folder)) for _ in range(IMPORTS))


def trace(root: Path) -> Trace:
    """Run the command in this process and this folder, and record every call and every object."""
    calls: list[tuple[str | None, str]] = []  # the files of caller and called
    made: dict[int, object] = {}
    inside = f"{root}{os.sep}"

    def profile(frame: FrameType, event: str, value: object) -> None:
        code = frame.f_code
        if event == "return":
            new = frame.f_locals.get("self") if code.co_name == "__init__" else value
            if is_of(root.name, new):
                made[id(new)] = new
        elif event == "call" and code.co_filename.startswith(inside) and not code.co_name.startswith("<"):
            above = list(files_above(frame))
            if not any(file.startswith("<frozen importlib") for file in above):
                calls.append((next((file for file in above if file.startswith(inside)), None), code.co_filename))

    sys.argv = [root.name, COMMAND]
    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        runpy.run_module(root.name, run_name="__main__", alter_sys=True)
    except SystemExit as stop:
        if stop.code:
            raise
    finally:
        sys.setprofile(None)

    def room(file: str | None) -> str | None:
        return None if file is None else room_of(file.removeprefix(inside))

    walk = list(pairwise([None, *(file for _, file in calls)]))
    between = [(caller, file) for caller, file in calls if caller is not None]
    carriers, holders = find_carriers(root.name, list(made.values()))
    return Trace(
        files=len({file for _, file in calls}),
        hops=sum(last != file for last, file in walk),
        folder_changes=sum(room(last) != room(file) for last, file in walk),
        far_calls=sum(caller != file for caller, file in between),
        farther_calls=sum(room(caller) != room(file) for caller, file in between),
        carriers=carriers,
        holders=holders,
    )


def files_above(frame: FrameType) -> Iterator[str]:
    """Yield the files of the callers, the nearest first."""
    while frame.f_back is not None:
        frame = frame.f_back
        yield frame.f_code.co_filename


def room_of(path: str) -> str:
    """Return the folder or module right below the package that a file belongs to."""
    return path.replace(os.sep, "/").split("/")[0].removesuffix(".py")


def is_of(package: str, value: object) -> bool:
    """Return whether a value is an instance of one of the package's classes."""
    return str(type(value).__module__).split(".")[0] == package


def find_carriers(package: str, made: list[object]) -> tuple[list[str], list[str]]:
    """Name the classes that hold arrays over the grid, and those that hold such a class."""
    domains = [np.load(path)["domain"] for path in Path().rglob("*.npz")]
    if not domains:
        raise ValueError(f"`{package} {COMMAND}` wrote no .npz file, so the grid of its case is not known.")
    grids = {tuple(side + more for side in domain.shape[-2:]) for domain in domains for more in (0, 1)}

    def is_of_case(value: Any) -> bool:
        is_array = hasattr(value, "dtype") and hasattr(value, "shape") and type(value).__name__ != "Parameter"
        return is_array and tuple(value.shape[-2:]) in grids

    def carries(value: object) -> bool:
        return is_of(package, value) and any(map(is_of_case, held_by(package, value)))

    carriers = {type(value) for value in made if carries(value)}
    holders = {type(value) for value in made if any(map(carries, held_by(package, value)))} - carriers
    carrying, holding = (sorted(each.__qualname__ for each in classes) for classes in (carriers, holders))
    return carrying, holding


def held_by(package: str, value: object) -> Iterator[object]:
    """Yield the attributes of an object, and the elements of containers among them."""
    slots = [name for each in type(value).__mro__ for name in getattr(each, "__slots__", ())]
    attributes = [getattr(value, name) for name in slots if hasattr(value, name)]
    elements = list(value) if isinstance(value, tuple) else []
    waiting = [*getattr(value, "__dict__", {}).values(), *attributes, *elements]
    while waiting:
        entry = waiting.pop()
        if isinstance(entry, dict | MappingProxyType):
            waiting.extend(entry.values())
        elif isinstance(entry, list | tuple | set | frozenset) and not is_of(package, entry):
            waiting.extend(entry)
        else:
            yield entry


def read_text(texts: dict[str, str]) -> Text:
    """Count what can be counted in the source alone."""
    trees = {path: ast.parse(text) for path, text in texts.items()}
    lines: Counter[str] = Counter()
    for path, text in texts.items():
        lines[room_of(path) if "/" in path else "single modules"] += len(text.splitlines())
    nodes = [node for tree in trees.values() for node in ast.walk(tree)]
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    outside = {path: tree for path, tree in trees.items() if room_of(path) not in POSING}
    named = {path: channels_in(tree) for path, tree in outside.items() if room_of(path) != "_terms"}
    classes = problem_classes(trees)
    checks = {path: sum(checks_class(node, classes) for node in ast.walk(tree)) for path, tree in outside.items()}
    return Text(
        functions_per_1000_lines=1000 * len(functions) / lines.total(),
        used_once=share_used_once(trees),
        private=share_private(trees),
        problem_checks={path: count for path, count in checks.items() if count},
        channel_files=[path for path, names in named.items() if names],
        special_channel_files=[path for path, names in named.items() if names - COMMON],
        lines=dict(sorted(lines.items())),
    )


def share_used_once(trees: Trees) -> float:
    """Return the share of definitions that are used once."""
    found = [node for tree in trees.values() for node in definitions(tree)]
    defined = Counter(node.name for node in found)
    used = sum(map(names_in, trees.values()), Counter[str]())
    known = [node for node in found if defined[node.name] == 1 and not is_special(node.name)]
    return sum(used[node.name] - names_in(node)[node.name] == 1 for node in known) / len(known)


def definitions(body: ast.Module | ast.ClassDef) -> Iterator[Definition]:
    """Yield the functions and classes of a module and of its classes."""
    for node in body.body:
        if isinstance(node, Definition):
            yield node
        if isinstance(node, ast.ClassDef):
            yield from definitions(node)


def names_in(tree: ast.AST) -> Counter[str]:
    """Count names and attributes."""
    nodes = list(ast.walk(tree))
    names = Counter(node.id for node in nodes if isinstance(node, ast.Name))
    return names + Counter(node.attr for node in nodes if isinstance(node, ast.Attribute))


def is_special(name: str) -> bool:
    """Return whether a name is special to Python."""
    return name.startswith("__") and name.endswith("__")


def share_private(trees: Trees) -> float:
    """Return the share of top-level names that are private."""
    names = [(path, name) for path, tree in trees.items() for name in top_level_names(tree) if not is_special(name)]
    private = [
        any(part.startswith("_") and not is_special(part) for part in [*path.removesuffix(".py").split("/"), name])
        for path, name in names
    ]
    return sum(private) / len(private)


def top_level_names(tree: ast.Module) -> Iterator[str]:
    """Yield the names that a module defines."""
    for node in tree.body:
        if isinstance(node, Definition):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            stored = [each for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)]
            yield from (each.id for each in stored if isinstance(each.ctx, ast.Store))


def problem_classes(trees: Trees) -> set[str]:
    """Name the classes that are derived from `Problem`, directly or not."""
    bases = {
        node.name: {name for base in node.bases for name in names_in(base)}
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    found: set[str] = set()
    while new := {name for name, above in bases.items() if above & {"Problem", *found}} - found:
        found |= new
    return found


def checks_class(node: ast.AST, classes: set[str]) -> bool:
    """Return whether a piece of code checks for one of some classes."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("isinstance", "issubclass"):
        return any(classes & names_in(argument).keys() for argument in node.args[1:])
    return isinstance(node, ast.MatchClass) and bool(classes & names_in(node.cls).keys())


def channels_in(tree: ast.Module) -> set[str]:
    """Return the names of channels, or their beginnings, that occur as strings."""
    nodes = list(ast.walk(tree))
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    constants = [node.value for node in nodes if isinstance(node, ast.Constant) and id(node) not in docstrings]
    return {value for value in constants if isinstance(value, str)} & (CHANNELS | BEGINNINGS)


def rows(house: House) -> dict[str, str]:
    """Return the rows of the table: labels and values."""
    trace, text = house.trace, house.text
    command = f"`{house.package} {COMMAND}`"
    counts = {
        f"files / hops / folder changes of {command}": (trace.files, trace.hops, trace.folder_changes),
        "calls from afar: another file / folder": (trace.far_calls, trace.farther_calls),
        "carriers of one case / with their holders": (len(trace.carriers), len(trace.carriers + trace.holders)),
        "problem checks / in files": (sum(text.problem_checks.values()), len(text.problem_checks)),
        "channel files / special ones": (len(text.channel_files), len(text.special_channel_files)),
    }
    return {
        **{label: " / ".join(map(str, numbers)) for label, numbers in counts.items()},
        "functions per 1,000 lines": f"{text.functions_per_1000_lines:.0f}",
        "definitions used once": f"{100 * text.used_once:.0f} %",
        "private top-level names": f"{100 * text.private:.0f} %",
        **{f"`import {module}`": f"{seconds:.2f} s" for module, seconds in house.seconds.items()},
        "lines": str(sum(text.lines.values())),
        **{f"lines of {room}": str(lines) for room, lines in text.lines.items()},
    }


def page(house: House, before: House | None) -> list[str]:
    """Write the page, with an earlier measurement beside the present one."""
    columns = {"now": rows(house)} if before is None else {"before": rows(before), "now": rows(house)}
    labels = list(dict.fromkeys(label for column in columns.values() for label in column))
    text = house.text
    common = [path for path in text.channel_files if path not in text.special_channel_files]
    return [
        "# The shape of the code",
        f"Written by `python benchmarks/house.py`. `{house.package} {COMMAND}` runs without options on a CPU. Times of "
        f"imports are the fastest of {IMPORTS}, each in a fresh process. The docstring of the script defines every "
        "term; in short:",
        "- A *hop* is a call in another file than the call before it. A *call from afar* has its caller in another "
        "file.\n"
        "- A *carrier* is a class that holds an array over the grid of the case. A *holder* holds a carrier.\n"
        "- A *problem check* asks for a class of problem outside the folders that pose and solve cases. A *channel "
        "file* names a channel there; *special* means any channel but domain, time and times.",
        table(["", *columns], [[label, *(column.get(label, "-") for column in columns.values())] for label in labels]),
        told("Carriers of one case", house.trace.carriers),
        told("Holders of a carrier", house.trace.holders),
        told("Problem checks", [f"{path} ({count})" for path, count in text.problem_checks.items()]),
        told("Special channel files", text.special_channel_files),
        told("Other channel files", common),
        f"Machine: {processor()}.",
    ]


def told(what: str, names: list[str]) -> str:
    """List names on one line."""
    return f"{what}: {', '.join(names) or 'none'}."


def load_house(path: Path) -> House:
    """Read what `--save` wrote."""
    stored = json.loads(path.read_text())
    return House(**stored | {"trace": Trace(**stored["trace"]), "text": Text(**stored["text"])})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, default=Path(__file__).parents[1] / "src", help="folder of the package")
    parser.add_argument("--before", type=Path, help="a file that --save wrote, for a second column")
    parser.add_argument("--save", type=Path, help="where to write the numbers, as JSON")
    parser.add_argument("--write", type=Path, help="where to write the page")
    parser.add_argument("--trace", type=Path, help=argparse.SUPPRESS)  # in the process that is traced
    options = parser.parse_args()
    if options.trace is not None:
        root = next(options.source.glob("*/__init__.py")).parent
        options.trace.write_text(json.dumps(asdict(trace(root))))
        return
    house = measure(options.source)
    if options.save is not None:
        options.save.write_text(json.dumps(asdict(house), indent=1) + "\n")
    publish(page(house, None if options.before is None else load_house(options.before)), options.write)


if __name__ == "__main__":
    main()
