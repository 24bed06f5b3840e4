"""Inputs of every generator, and the harness itself: what it must see, it sees."""

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import disol
from disol import DisolError

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "fuzz"))  # scripts, which import each other by name
sys.path.append(str(ROOT / "release"))

import campaign  # noqa: E402
import kills  # noqa: E402
import lock  # noqa: E402
import oracle  # noqa: E402
import page  # noqa: E402
import soak  # noqa: E402
import solving  # noqa: E402
import stated  # noqa: E402
import statements  # noqa: E402
import stating  # noqa: E402
import worker  # noqa: E402
from attempts import WrongAnswer  # noqa: E402
from generators import GENERATORS  # noqa: E402
from pool import Limits  # noqa: E402

FAULTS = """
import os
import time
from pathlib import Path
from attempts import Attempt, WrongAnswer
from disol import DisolError

class Lines(DisolError):
    def __str__(self):
        return "no\\nno"

def fail(error):
    raise error

def fill():
    held = [bytearray(10**8) for _ in range(10)]
    time.sleep(60)

def spoil(folder):
    (folder.parent / "bystander" / "empty.txt").unlink()

RUNS = {
    "fine": lambda folder: None,
    "refused": lambda folder: fail(DisolError("no")),
    "lines": lambda folder: fail(Lines("no")),
    "traceback": lambda folder: fail(KeyError("x")),
    "wrong": lambda folder: fail(WrongAnswer("2 + 2 = 5")),
    "hang": lambda folder: time.sleep(60),
    "memory": lambda folder: fill(),
    "crash": lambda folder: os.abort(),
    "outside": spoil,
    "code": lambda folder: Path("hacked").touch(),
}
GENERATORS = {name: lambda rng, folder, run=run: Attempt("text", lambda: run(folder)) for name, run in RUNS.items()}

def prepare():
    pass
"""
NUMBERS = {"diffusion": 1.0, "velocity": (0.0, 0.0)}
VERDICTS = {
    "fine": "ok",
    "refused": "refused",
    "lines": "traceback",
    "traceback": "traceback",
    "wrong": "wrong answer",
    "hang": "hang",
    "memory": "memory",
    "crash": "crash",
    "outside": "outside",
    "code": "outside",
}


def test_nothing_is_found_among_the_first_inputs_of_every_generator() -> None:
    tried, inputs = campaign.Campaign(), sum(campaign.WEIGHTS.values())
    campaign.fuzz(tried, inputs=inputs, quiet=True)
    assert set(tried.verdicts) == set(campaign.WEIGHTS) == set(page.GENERATORS)
    assert tried.inputs == inputs
    assert not tried.findings, json.dumps(tried.findings, indent=1)[:4000]


def test_every_fault_is_seen_and_the_campaign_goes_on(tmp_path: Path) -> None:
    module, kept = tmp_path / "faults.py", tmp_path / "campaign.json"
    module.write_text(FAULTS)
    tried = campaign.Campaign()
    limits = Limits(seconds=4, bytes=6 * 10**8)
    campaign.fuzz(tried, kept, weights=dict.fromkeys(VERDICTS, 1), inputs=10, limits=limits, module=module, quiet=True)
    assert {name: next(iter(counts)) for name, counts in tried.verdicts.items()} == VERDICTS
    assert tried.found == 8
    again = campaign.Campaign.read(kept)
    assert again == tried
    campaign.fuzz(again, kept, weights={"fine": 1}, inputs=12, limits=limits, module=module, quiet=True)
    assert again.verdicts["fine"] == {"ok": 3}
    text = "\n".join(page.told_campaign(again))
    assert "| 1 | hang: hang: not done after # s at elsewhere | `--only hang 0` |" in text
    assert "fixed" not in text
    mended = "\n".join(page.told_campaign(tried, [campaign.Campaign(verdicts={"solve": {"ok": 7}})]))
    assert "then run again, with as many inputs as before:\n| generator" in mended
    assert "| 7 | 0 | 0 | 0 | 0 | 0 | 0 | 0 |" in mended


@pytest.mark.parametrize(
    "name", ["solve", "calls", "draws", "outlines", "ranges", "formulas", "configs", "statements", "parts", "rankings"]
)
def test_an_input_is_a_function_of_its_generator_and_seed(name: str, tmp_path: Path) -> None:
    first, again, other = (worker.prepare(GENERATORS, name, seed, tmp_path).text for seed in (3, 3, 4))
    assert first == again != other


def test_the_oracle_knows_a_solution_in_closed_form() -> None:
    # -u'' = 1 on a strip of 4 unit pixels, u = 0 on the first, no flux at the end: u = s (3 - s / 2) at its nodes,
    # where linear elements are exact.
    domain, held = np.ones((1, 4), bool), np.array([[True, False, False, False]])
    case = oracle.Case("poisson", "paper", "q1", domain, (held,), {"source": np.ones((1, 4))}, NUMBERS)
    answer = oracle.solve(case)
    assert answer is not None
    nodes = [Decimal(s) * (3 - Decimal(s) / 2) for s in range(4)]
    expected = [Decimal(0), *((left + right) / 2 for left, right in pairwise(nodes))]
    gaps = [abs(value - right) for value, right in zip(answer.field.reshape(-1), expected, strict=True)]
    assert max(gaps) < Decimal("1e-55")


def test_the_oracle_tells_a_system_that_has_no_solution() -> None:
    domain, nowhere = np.ones((2, 2), bool), np.zeros((2, 2), bool)
    case = oracle.Case("poisson", "paper", "q1", domain, (nowhere,), {"source": np.ones((2, 2))}, NUMBERS)
    assert oracle.solve(case) is None


def test_what_rounding_does_to_small_diffusion_beside_advection_is_told_or_refused() -> None:
    domain, held = np.ones((4, 3), bool), np.zeros((4, 3), bool)
    held[0, 0] = True
    told = []
    for exponent in (-12, -9, -8, -7, -4):
        numbers = {"diffusion": 1.7 * 10.0**exponent, "velocity": (0.3, 0.0)}
        terms = {"source": np.arange(12.0).reshape(4, 3)}
        case = oracle.Case("advection-diffusion-high", "paper", "q1", domain, (held,), terms, numbers)
        for way in ("one", "batched solver"):
            try:
                solving.check_case(case, solving.given(case)) if way == "one" else solving.check_batch([case], way)
                told.append("")
            except DisolError as error:
                told.append(str(error))
    assert told[0]
    assert not told[-1]
    assert all("ill-conditioned" in message for message in told if message)


def test_a_prediction_that_is_far_off_or_unsound_is_a_wrong_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    class Model:
        resolution = 16

        def __init__(self, change: Callable[[np.ndarray], np.ndarray]) -> None:
            self.change = change

        def predict(self, asked: disol.Case | list[disol.Case] | None = None, **data: Any) -> disol.Solution:
            exact = (
                disol.solve_exact("poisson", **data, conventions="paper") if asked is None else disol.solve_exact(asked)
            )
            field = self.change(exact.field)
            return replace(exact, field=field, amplitude=np.abs(field).max() if field.ndim == 3 else exact.amplitude)

    data = {"domain": np.ones((3, 3)), "dirichlet": np.eye(3), "source": np.ones((3, 3))}
    monkeypatch.setitem(solving.LOADED, "poisson", Model(lambda field: 1.1 * field))
    solving.check_predicted("poisson", 3, "all", -1e-9)
    solving.check_any("poisson", data)
    for change, message in (
        (lambda field: 1.6 * field, "relative error 0.60"),
        (lambda field: field + 1e-12, "not 0 outside"),
        (lambda field: np.nan * field, "not finite"),
    ):
        monkeypatch.setitem(solving.LOADED, "poisson", Model(change))
        with pytest.raises(WrongAnswer, match=message):
            solving.check_predicted("poisson", 3, "all", -1e-9)


@pytest.mark.filterwarnings("ignore:.*pixels of the domain are in walls:UserWarning")
def test_a_solution_that_is_not_the_known_one_is_a_wrong_answer() -> None:
    patches = (stated.draw_patch(np.random.default_rng(seed)) for seed in range(6))
    for patch in patches:
        stating.check_patch(patch)
        moved = tuple(replace(field, a=field.a + 0.1 * (abs(field.a) + 1e-30)) for field in patch.fields)
        if patch.statement.plate.inside is not None:
            with pytest.raises(WrongAnswer, match="values at points"):
                stating.check_patch(replace(patch, fields=moved))


def test_what_is_not_linear_or_depends_on_the_unit_is_a_wrong_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(7)
    statement = stated.draw_statement(rng)
    other = stated.redraw_loads(rng, statement)
    stating.check_linearity(statement, other, (2.0, -3.0))
    stating.check_units(statement, 1e3)

    def solve_wrongly(own: statements.Statement) -> disol.Solution:
        right = disol.solve_exact(own.pose())
        size = np.abs(right.field).max()
        return replace(right, field=right.field * (1 + 1e-4 * np.log(own.plate.size) + 1e-4 * size))

    monkeypatch.setattr(statements.Statement, "solve", solve_wrongly)
    with pytest.raises(WrongAnswer, match="linearity"):
        stating.check_linearity(statement, other, (2.0, -3.0))
    with pytest.raises(WrongAnswer, match="another unit"):
        stating.check_units(statement, 1e3)


def test_totals_and_derivatives_that_are_off_are_wrong_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    statement = stated.draw_statement(np.random.default_rng(7))
    stating.check_balance(statement.solve())
    stating.check_adjoint(statement, seed=3)
    leaking = [("source", "domain", 1.0), ("dirichlet", "left", -0.99), ("balance", "all of these", 0.01)]
    monkeypatch.setattr(disol.Solution, "totals", lambda _: leaking)
    with pytest.raises(WrongAnswer, match=r"totals balance to 1\.0e-02"):
        stating.check_balance(statement.solve())
    exact = disol.solve_adjoint
    monkeypatch.setattr(disol, "solve_adjoint", lambda solution, slopes: exact(solution, 1.001 * slopes))
    with pytest.raises(WrongAnswer, match="a central difference"):
        stating.check_adjoint(statement, seed=3)


def test_growing_memory_and_what_is_left_over_fail_a_soak() -> None:
    def samples(growth: float, files: int) -> list[dict[str, float]]:
        base = {"threads": 3, "processes": 0, "temporary": 0}
        return [
            {"seconds": second, "resident": 1e8 * (1 + growth * second / 100), "files": 5 + files * second, **base}
            for second in range(1, 101)
        ]

    assert soak.judge(samples(0.0, 0))["passed"]
    assert not soak.judge(samples(0.2, 0))["passed"]
    assert not soak.judge(samples(0.0, 1))["passed"]


def test_what_a_killed_run_leaves_is_told_on_the_page(tmp_path: Path) -> None:
    for name in ("ours", "theirs"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "cases.h5").write_text(name[0])
    assert kills.same_bytes(tmp_path / "ours", tmp_path / "theirs") == "cases.h5 differ"
    hit = {"signal": "SIGKILL", "had_files": True, "ended_before": False}
    text = "\n".join(page.told_kills({"generate": [hit | {"failures": []}, hit | {"failures": ["cases.h5 differ"]}]}))
    assert "| `generate` | SIGKILL | 2 | 2 | 1 | 1 |" in text
    assert "| 1 | cases.h5 differ |" in text


@pytest.mark.skipif(not Path("/proc").exists(), reason="needs the /proc of Linux")
def test_a_process_of_a_session_is_counted() -> None:
    process = kills.subprocess.Popen(["sleep", "60"], start_new_session=True)
    assert kills.count_members(process.pid) == 1
    process.kill()
    process.wait()
    assert kills.count_members(process.pid) == 0


def test_the_lock_has_every_dependency_and_nothing_of_this_machine() -> None:
    lines = [line for line in (ROOT / "requirements.lock").read_text().splitlines() if not line.startswith("#")]
    assert all(line.count("==") == 1 and not set("+/@ ") & set(line) for line in lines)
    names = {line.partition("==")[0].lower() for line in lines}
    assert names >= {"numpy", "scipy", "torch", "h5py", "safetensors", "matplotlib", "typer", "rich", "jaxtyping"}
    assert not names & {"disol", "triton"}
    freeze = ["numpy==2.4.6", "torch==2.13.0+cpu", "-e /here", "disol @ file:///here", "triton==3.9.0", "# no"]
    assert lock.lock(freeze) == ["numpy==2.4.6", "torch==2.13.0"]
