"""A PDE of one's own goes through every command by its name, "package.module:NAME", and no file names it instead."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from printed import load_arrays

import disol
from disol.data import generate, open_store
from disol.data.store import create_store
from disol.problems.scalar import ScalarProblem

MODULE = '''
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

import disol
from disol.fem import consistent_load, forms
from disol.problems import DOMAIN, SOURCE, SUPPORT, Term


@dataclass(frozen=True)
class Reaction(disol.Problem):
    """−ΔU + c U = f."""

    reaction: float = 50.0

    terms: ClassVar = (Term("domain", DOMAIN), Term("dirichlet", SUPPORT), Term("source", SOURCE))
    fields: ClassVar = ("u",)
    parameters: ClassVar = {"reaction": lambda _, value: float(value)}

    def element_matrix(self, element, conventions):
        return forms.diffusion(element) + self.reaction * forms.mass(element)

    def load(self, terms, conventions, element):
        return consistent_load(element, forms.galerkin_test(element), terms["domain"], terms["source"])[..., None, :, :]


REACTION = Reaction("reaction-diffusion", "−ΔU + c U = f", resolution=16)
STRONGER = Reaction("reaction-diffusion", "−ΔU + c U = f", resolution=16, reaction=70.0)
number = 3
'''
SMALL = ["--set", "model.width=4", "--set", "model.depth=2", "--set", "model.gated_skips=1"]
COMPARISON = """
problem = "own_pde:REACTION"
conventions = "paper"
[data]
cases = 20
[tests]
id = 4
[train]
epochs = 1
batch_size = 8
[[models]]
name = "unet"
settings = { width = 4, depth = 2 }
"""


@pytest.fixture(autouse=True)
def own(command, tmp_path: Path) -> Iterator[None]:
    """A module in the working directory."""
    (tmp_path / "own_pde.py").write_text(MODULE, encoding="utf-8")
    yield
    sys.modules.pop("own_pde", None)


def make_file(command, name: str = "a.h5", problem: str = "own_pde:REACTION") -> None:
    made = command("generate", problem, "--cases", "10", "--workers", "0", "--device", "cpu", "--out", name)
    assert made.returncode == 0, made.stderr


def test_it_is_drawn_by_the_command_as_in_python(command, tmp_path):
    result = command("draw", "own_pde:REACTION", "--seed", "3", "--out", "case.npz")
    assert result.returncode == 0, result.stderr
    written = load_arrays(tmp_path / "case.npz")
    case = disol.draw("own_pde:REACTION", seed=3)
    assert case.problem is sys.modules["own_pde"].REACTION
    assert written["field"] == pytest.approx(disol.solve_exact(case).field)
    assert written["conventions"] == "paper"  # it has no form


def test_it_is_generated_trained_evaluated_and_exported_by_its_name(command, tmp_path):
    make_file(command)
    assert "reaction-diffusion: −ΔU + c U = f" in command("info", "a.h5").stdout
    train = ["train", "own_pde:REACTION", "--data", "a.h5", "--out", "run", "--device", "cpu", *SMALL]
    trained = command(*train, "--set", "train.epochs=1", "--set", "train.batch_size=4")
    assert trained.returncode == 0, trained.stderr
    named = ["--problem", "own_pde:REACTION"]
    for arguments in (["evaluate", "run", "--data", "a.h5", "--device", "cpu"], ["onnx", "run", "--out", "a.onnx"]):
        refused = command(*arguments)
        assert refused.returncode == 2
        assert "PDE of your own, 'reaction-diffusion'. Give --problem package.module:NAME too." in refused.stderr
        done = command(*arguments, *named)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "evaluation" / "evaluation.json").exists()


def test_a_run_of_it_is_refused_for_other_numbers_in_its_equation(command):
    make_file(command)
    train = ["train", "own_pde:STRONGER", "--data", "a.h5", "--out", "run", "--device", "cpu"]
    refused = command(*train)
    assert refused.returncode == 2
    assert "was generated with reaction=50.0, but reaction-diffusion has reaction=70.0" in refused.stderr
    small = [*SMALL, "--set", "train.epochs=1", "--set", "train.batch_size=4", "--device", "cpu"]
    assert command("train", "own_pde:REACTION", "--data", "a.h5", "--out", "run", *small).returncode == 0
    refused = command("evaluate", "run", "--data", "a.h5", "--problem", "own_pde:STRONGER")
    assert refused.returncode == 2
    assert "was trained with reaction=50.0, but the problem asked for has 70.0" in refused.stderr


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        ("no_such_module:PDE", "Unknown problem 'no_such_module:PDE': there is no module 'no_such_module'."),
        ("own_pde:NOTHING", "Unknown problem 'own_pde:NOTHING': own_pde has no 'NOTHING'."),
        ("own_pde:number", "own_pde:number must be a value of a class derived from disol.Problem, got 3."),
        ("own_pde:Reaction", "own_pde:Reaction must be a value of a class derived from disol.Problem, got <class"),
        ("own pde:REACTION", "A problem of one's own is written 'package.module:Name', got 'own pde:REACTION'."),
    ],
)
def test_what_is_no_problem_is_told_in_one_line(command, problem, message):
    for arguments in (["draw", problem], ["generate", problem, "--cases", "4", "--out", "a.h5"]):
        refused = command(*arguments)
        assert refused.returncode == 2
        assert refused.stderr.startswith(f"error: {message}")
        assert len(refused.stderr.splitlines()) == 1


def test_models_are_compared_on_it_and_results_for_other_numbers_are_refused(command, tmp_path):
    (tmp_path / "own.toml").write_text(COMPARISON, encoding="utf-8")
    options = ["compare", "own.toml", "--jobs", "0", "--device", "cpu"]
    compared = command(*options)
    assert compared.returncode == 0, compared.stderr
    page = (tmp_path / "comparisons" / "own" / "README.md").read_text(encoding="utf-8")
    assert "20 cases of `reaction-diffusion`" in page
    refused = command(*options, "--set", "problem=own_pde:STRONGER")
    assert refused.returncode == 2
    assert "was made with numbers.reaction=50.0, now asked for 70.0" in refused.stderr
    missing = command(*options, "--set", "problem=own_pde:NOTHING")
    assert "Unknown problem 'own_pde:NOTHING': own_pde has no 'NOTHING'." in missing.stderr


def test_no_file_decides_what_is_imported(command, tmp_path):
    (tmp_path / "trap.py").write_text("raise SystemExit('imported')")
    named = ScalarProblem("trap:PDE", "−ΔU = f", resolution=16)
    generate(named, 10, tmp_path / "a.h5", workers=0, device="cpu")
    small = {"width": 4, "depth": 2, "gated_skips": 1}
    overrides = ["train.batch_size=4", "train.epochs=1"]
    disol.train(named, "a.h5", "run", model_settings=small, overrides=overrides, device="cpu", progress=False)
    assert command("info", "a.h5").returncode == command("export", "a.h5", "--out", "a.npz").returncode == 0
    for arguments in (
        ["evaluate", "run", "--data", "a.h5"],
        ["evaluate", "poisson", "--data", "a.h5"],
        ["onnx", "run", "--out", "run.onnx"],
        ["train", "--data", "a.h5", "--out", "run", "--resume"],
        ["train", "poisson", "--data", "a.h5", "--out", "new"],
    ):
        refused = command(*arguments)
        assert refused.returncode == 2
        assert "trap:PDE" in refused.stderr
    with pytest.raises(disol.DisolError, match="Unknown problem 'trap:PDE'"):
        create_store(tmp_path / "copy.h5", open_store("a.h5").settings)
    assert "trap" not in sys.modules
