"""The shape of the code is counted as its script says."""

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "benchmarks"))  # scripts, which import each other by name

import house  # noqa: E402

FILES = {
    "__init__.py": "",
    "__main__.py": "from fake.cli.app import main\n\nmain()\n",
    "grid.py": """\
import numpy as np

SIDE, MORE = 4, 1
__all__ = ["SIDE"]

def mask():
    return np.ones((SIDE, SIDE), bool)

def read_while_importing():
    return SIDE
""",
    "_terms.py": 'NAMES = ["source"]\n',
    "cli/__init__.py": "",
    "cli/app.py": '''\
"""dirichlet"""
import numpy as np

from fake import grid
from fake.cli.paint import show
from fake.problems.heat import Heat
from fake.problems.steady import Case, Found, Network, Pair, Steady, Written, solve
from fake.problems.steady import Problem

def main():
    written = Written([Case({"domain": grid.mask()})])
    network = Network()
    solve(Steady())
    show(written)
    np.savez("case.npz", domain=grid.mask())

def ask(problem):
    match problem:
        case Heat():
            return 1
    return isinstance(problem, Heat | Steady) or isinstance(problem, Problem)
''',
    "cli/paint.py": """\
import fake.training
from fake.problems.heat import Heat

def show(written, prefix="force_"):
    return issubclass(type(written), Heat)
""",
    "problems/__init__.py": "",
    "problems/heat.py": """\
from fake import grid
from fake.problems import steady

class Heat(steady.Steady):
    pass

def step():
    return [made() for made in [grid.mask, lambda: grid.mask()]]
""",
    "problems/steady.py": """\
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

class Problem:
    pass

class Steady(Problem):
    name = "initial"

@dataclass(frozen=True)
class Case:
    terms: dict

@dataclass(frozen=True)
class Written:
    cases: list

@dataclass(slots=True)
class Found:
    nodes: Any

class Pair(NamedTuple):
    field: Any
    size: int

class Parameter(np.ndarray):
    pass

class Network:
    def __init__(self):
        self.weight = np.ones((4, 4)).view(Parameter)

def solve(problem):
    from fake.problems.heat import step
    assert isinstance(problem, Steady)
    Found([np.zeros((2, 5, 5))])
    Pair(np.zeros((4, 4)), 4)
    step()

def _again(times):
    return _again(times - 1)
""",
    "training/__init__.py": """\
from fake.grid import read_while_importing

read_while_importing()
""",
}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("src")
    for name, text in FILES.items():
        path = folder / "fake" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.fixture(scope="module")
def measured(source: Path) -> house.House:
    return house.measure(source)


def test_a_run_is_followed_from_file_to_file(measured: house.House) -> None:
    # app.main, grid.mask, Network and solve of steady, heat.step, grid.mask twice, paint.show, grid.mask
    assert measured.trace.files == 5
    assert measured.trace.hops == 7
    assert measured.trace.folder_changes == 6
    assert measured.trace.far_calls == 9
    assert measured.trace.farther_calls == 7


def test_what_holds_pixels_or_nodes_carries_the_case(measured: house.House) -> None:
    assert measured.trace.carriers == ["Case", "Found", "Pair"]
    assert measured.trace.holders == ["Written"]


def test_text_is_counted_without_running_it(measured: house.House) -> None:
    text = measured.text
    lines = {path: len(content.splitlines()) for path, content in FILES.items()}
    assert text.lines == {
        "cli": lines["cli/app.py"] + lines["cli/paint.py"],
        "problems": lines["problems/heat.py"] + lines["problems/steady.py"],
        "single modules": lines["__main__.py"] + lines["grid.py"] + lines["_terms.py"],
        "training": lines["training/__init__.py"],
    }
    assert text.functions_per_1000_lines == 1000 * 9 / sum(lines.values())
    assert text.problem_checks == {"cli/app.py": 2, "cli/paint.py": 1}
    assert text.channel_files == ["cli/app.py", "cli/paint.py"]
    assert text.special_channel_files == ["cli/paint.py"]


def test_definitions_used_once_are_told_from_others(measured: house.House) -> None:
    once = {
        "main",
        "read_while_importing",
        "show",
        "step",
        "solve",
        "Case",
        "Written",
        "Found",
        "Pair",
        "Parameter",
        "Network",
    }
    others = {"mask", "ask", "Heat", "Steady", "Problem", "_again"}
    assert measured.text.used_once == len(once) / len(once | others)
    # SIDE and MORE are names too, as is NAMES, which its module makes private; `_again` says so itself.
    assert measured.text.private == 2 / len(once | others | {"SIDE", "MORE", "NAMES"})


def test_a_page_shows_what_was_before(measured: house.House, tmp_path: Path) -> None:
    assert measured.seconds.keys() == {"fake", "fake.training"}
    saved = tmp_path / "before.json"
    saved.write_text(json.dumps(house.asdict(measured)))
    before = house.load_house(saved)
    assert before == measured
    text = "\n".join(house.page(measured, before))
    assert "| files / hops / folder changes of `fake solve` | 5 / 7 / 6 | 5 / 7 / 6 |" in text
    assert "| carriers of one case / with their holders | 3 / 4 | 3 / 4 |" in text
    assert "Problem checks: cli/app.py (2), cli/paint.py (1)." in text


def test_a_source_folder_without_a_package_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="must hold one package"):
        house.measure(tmp_path)
