"""Every script in examples/ runs as it is pasted, and ends in the number that is pinned here."""

import re
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
NUMBER = re.compile(r"\d+\.\d+")
# Sizes that take seconds, and the numbers of the last line with their relative tolerance. Training rounds differently
# from machine to machine, so that its numbers are pinned less closely.
EXPECTED: dict[str, tuple[dict[str, Any], list[float], float]] = {
    "own_mask": ({}, [0.0113], 0.01),
    "own_polygon": ({"RESOLUTION": 64}, [0.03599, 0.034], 0.01),
    "batch_on_device": ({"CASES": 8, "SIDE": 32}, [0.04801], 1e-3),
    "own_pde": ({}, [0.017192, 0.209481], 1e-4),
    "own_network": ({"CASES": 40, "RESOLUTION": 16, "EPOCHS": 8}, [0.4356], 0.1),
    "fine_tune": ({"PARTS": 20, "EPOCHS": 3}, [0.0881, 0.0815], 0.05),
    "convergence": ({"SIDES": (16, 32, 64)}, [2.05, 2.09], 0.01),
    "darcy": ({}, [0.3419, 0.0653], 1e-3),
    "inverse": ({"STEPS": 25}, [2.865, 1.011, 0.089], 0.02),
    "training_loop": ({"CASES": 40, "RESOLUTION": 16, "STEPS": 40}, [0.558], 0.1),
}


def run(name: str, sizes: dict[str, Any]) -> None:
    """Run a script with other constants."""
    path = EXAMPLES / f"{name}.py"
    source = path.read_text(encoding="utf-8")
    for constant, value in sizes.items():
        source, count = re.subn(rf"^{constant} = .*$", f"{constant} = {value!r}", source, flags=re.MULTILINE)
        assert count == 1, f"{path.name} has no constant {constant}"
    exec(compile(source, str(path), "exec"), {"__name__": name})


def test_every_example_is_pinned() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {*EXPECTED, "gallery"}


@pytest.mark.parametrize("name", EXPECTED)
def test_an_example_ends_in_its_number(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    sizes, expected, tolerance = EXPECTED[name]
    run(name, sizes)
    last = capsys.readouterr().out.splitlines()[-1]
    assert [float(number) for number in NUMBER.findall(last)] == pytest.approx(expected, rel=tolerance), last


@pytest.mark.parametrize("name", EXPECTED)
def test_an_example_is_short_and_says_what_it_shows(name: str) -> None:
    lines = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8").splitlines()
    assert re.fullmatch(r'""".*\."""', lines[0])
    assert 20 <= len(lines) <= 55
