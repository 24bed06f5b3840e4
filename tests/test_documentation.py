"""What the documents show is so: examples run, numbers are those of the package, links lead somewhere."""

import json
import re
import shlex
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import typer
from matplotlib import pyplot

import disol
from disol.cli import app
from disol.models.pretrained import PRETRAINED

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "release"))  # scripts, which import each other by name

import python_page  # noqa: E402

PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *PRETRAINED.glob("*/README.md")]
NUMBERS = re.compile(r"[-−]?\d+(?:\.\d+)?")
CODE = re.compile(
    r"<!-- setup\n(?P<setup>.*?)-->|(?:<!-- not run: (?P<reason>[^>]+) -->\n)?^ *```python\n(?P<block>.*?)^ *```$",
    re.DOTALL | re.MULTILINE,
)
RUNNABLE = [
    path for path in PAGES if "```python" in path.read_text(encoding="utf-8") and PRETRAINED not in path.parents
]
# What a page takes for granted.
SETUPS = {
    "data-format.md": [(1, "import disol\ndisol.generate('poisson', 20, 'cases.h5', resolution=16, workers=0)")],
}


def section(page: str, heading: str) -> str:
    """Return the text below a heading, up to the next one of any level."""
    return (ROOT / page).read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2].partition("\n#")[0]


def row(text: str, name: str) -> str:
    """Return the row of a table that begins with a name."""
    return next(line for line in text.splitlines() if line.startswith(f"| `{name}` "))


def numbers(text: str) -> list[float]:
    return [float(each.replace("−", "-")) for each in NUMBERS.findall(text)]


README_PROBLEMS = section("README.md", "Draw and solve exactly")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(path):
    for link in re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8")):
        target, _, heading = link.partition("#")
        if "://" in link:
            continue
        page = path.parent / target if target else path
        assert page.exists(), link
        if heading:
            titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
            assert heading in {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}, link


@pytest.mark.parametrize("name", disol.PROBLEMS)
def test_the_numbers_of_the_equations_are_those_that_are_solved(name):
    problem = disol.PROBLEMS[name]
    stated = row(section("docs/discretisation.md", "Numbers of the equations"), name).partition(";")[0]
    assert re.findall(r"`(\w+)`", stated.partition("` |")[2]) == list(problem.parameters)
    expected = [number for each in problem.parameters for number in np.atleast_1d(getattr(problem, each))]
    assert numbers(stated.partition("` |")[2]) == expected
    _, equation, told, grid, inputs = (each.strip() for each in row(README_PROBLEMS, name).strip("|").split("|"))
    assert equation.replace("·", " · ").split() == problem.equation.partition(", σ")[0].split()
    assert (int(grid), inputs) == (problem.resolution, ", ".join(problem.channels))
    assert numbers(told) == ([] if name == "poisson" else expected[:2] if name == "heat" else expected)


def test_the_networks_that_are_compared_have_the_errors_that_were_found():
    found = json.loads((ROOT / "docs" / "comparisons" / "poisson" / "comparison.json").read_text())
    text = (ROOT / "README.md").read_text(encoding="utf-8").partition("### Which network?")[2]
    for network in found["columns"]["shared"]:
        told = next(line for line in text.splitlines() if line.startswith(f"| `{network['label']}`")).split("|")[2:-1]
        errors = [
            100 * network["tests"][name]["errors"]["rel_l2"]["mean"] for name in ("id", "all", "shapes", "released")
        ]
        expected = [f"{network['parameters'] / 1e6:.3f} M", *(f"{error:#.2g}".rstrip(".") + " %" for error in errors)]
        assert [each.strip() for each in told] == expected


def code_of(page: str) -> Iterator[tuple[int, str]]:
    """Yield the Python of a page with its first line: blocks, and hidden set-ups; blocks marked `not run` are left out.

    A set-up is a comment `<!-- setup ... -->`; `<!-- not run: reason -->` stands right before a block.
    """
    for found in CODE.finditer(page):
        kind = "setup" if found["setup"] is not None else "block"
        if not found["reason"]:
            yield page[: found.start(kind)].count("\n") + 1, textwrap.dedent(found[kind])


@pytest.mark.parametrize("path", RUNNABLE, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_python_of_a_page_runs_in_order_as_pasted(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pyplot, "show", lambda: None)
    pyplot.switch_backend("agg")
    namespace: dict[str, object] = {"__name__": "page"}
    for line, code in [*SETUPS.get(path.name, []), *code_of(path.read_text(encoding="utf-8"))]:
        exec(compile("\n" * (line - 1) + code, str(path), "exec"), namespace)
    pyplot.close("all")
    if path.name == "training.md":
        assert len(disol.CaseDataset("parts.h5", "train")) == 16
        found = disol.evaluate("runs/parts", "parts.h5", device="cpu", progress=False).files[0]
        assert len(found.index) == 4
        assert found.summaries[0]["rel_l2"].mean < 0.3  # the shipped weights knew what to do with such a part


def commands_of(page: str) -> Iterator[list[str]]:
    """Yield the words of the commands in the blocks of a page that are in no language; shell variables become 1."""
    for block in re.findall(r"^ *```\n(.*?)^ *```$", page, re.DOTALL | re.MULTILINE):
        for line in block.replace("\\\n", " ").splitlines():
            words = (
                shlex.split(re.sub(r"\$\w+", "1", line), comments=True)
                if line.split()[:1] in (["disol"], ["python"])
                else []
            )
            if words and "..." not in words:
                yield words


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_of_a_page_exist_with_their_options(path):
    page = path.read_text(encoding="utf-8")
    known = typer.main.get_command(app).commands
    for program, name, *given in commands_of(page):
        if program == "python":
            assert (ROOT / name).is_file()
        else:
            known[name].make_context(name, given)  # parses, and runs nothing
    for line in re.findall(r"`disol ([^`]+)`", page):
        name, *given = line.split()
        if line == "cases":  # what the attribute `format` of a file says
            continue
        options = (
            {each for param in known[name].params for each in (*param.opts, *param.secondary_opts)} if given else {}
        )
        assert name in known or name.startswith("-"), line
        assert {each for each in given if each.startswith("--")} <= {"--help", *options}, line


def test_a_command_that_takes_no_such_option_is_noticed():
    page = "```\ndisol train poisson --data cases.h5 \\\n    --out run --epoch 3  # a comment\n```\n"
    (words,) = commands_of(page)
    assert words == ["disol", "train", "poisson", "--data", "cases.h5", "--out", "run", "--epoch", "3"]
    with pytest.raises(Exception, match="No such option"):
        typer.main.get_command(app).commands["train"].make_context("train", words[2:])


def test_pages_with_python_are_run():
    assert {"README.md", "CONTRIBUTING.md", "solving.md", "training.md"} <= {path.name for path in RUNNABLE}


def test_blocks_that_are_not_run_say_why():
    page = "<!-- setup\nx = 1\n-->\n```python\ny = x\n```\n<!-- not run: needs a GPU -->\n```python\nz\n```\n"
    assert list(code_of(page)) == [(2, "x = 1\n"), (5, "y = x\n")]


def test_the_page_of_names_and_settings_is_up_to_date():
    python_page.main(["--check"])


def test_a_page_of_names_that_is_out_of_date_is_noticed(tmp_path, capsys):
    page = tmp_path / "python.md"
    python_page.main(["--page", str(page)])
    python_page.main(["--page", str(page), "--check"])
    page.write_text(page.read_text(encoding="utf-8").replace("`solve_exact(", "`solve("), encoding="utf-8")
    with pytest.raises(SystemExit) as stopped:
        python_page.main(["--page", str(page), "--check"])
    assert stopped.value.code == 1
    assert "Run python release/python_page.py" in capsys.readouterr().err


def test_every_setting_is_told_with_its_choices():
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    assert "(`grid-l1`, `relative-l1`, `relative-l2`, `relative-h1`)" in row(page, "loss")
    assert row(page, "width").startswith("| `width` | `8` | `16` | `32` | `20` |")


def test_a_name_without_a_docstring_is_not_listed_silently():
    with pytest.raises(ValueError, match="must have a docstring"):
        python_page.summary(lambda: None)
