"""Pages of benchmarks say what was measured, and nothing about what was not."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "benchmarks"))  # scripts, which import each other by name

import scaling  # noqa: E402
import training  # noqa: E402
from training_variants import RIVAL  # noqa: E402


def failed(problem: str) -> dict[tuple[str, str], dict[str, str]]:
    return {(problem, RIVAL): {"problem": problem, "variant": RIVAL, "error": "too few cases"}}


def test_a_page_without_a_measured_variant_has_no_chart(tmp_path: Path) -> None:
    text = "\n".join(training.page(failed("poisson"), tmp_path / "docs" / "page.md"))
    assert "failed: too few cases" in text
    assert str(training.PICTURE) not in text
    assert not list(tmp_path.rglob("*.png"))


def test_a_chart_leaves_out_problems_without_a_measured_variant(tmp_path: Path) -> None:
    row = {"problem": "heat", "variant": RIVAL, "cases_per_second": 9.0, "bandwidth": 1e12, "bytes_per_case": 1e6}
    measured = {**row, "gibibytes": 0.0, "ready_after": 1.0, "machine": "a machine"}
    rows = failed("poisson") | {("heat", RIVAL): measured}
    text = "\n".join(training.page(rows, tmp_path / "docs" / "page.md"))
    assert str(training.PICTURE) in text
    assert (tmp_path / "images" / training.PICTURE.name).exists()


@pytest.mark.parametrize(
    ("sides", "memory", "expected"),
    [
        ([64, 128, 256], 1.0, "Time grows as side^3.0, memory as side^2.0 (fitted"),
        ([64, 128, 256], 0.0, "Time grows as side^3.0 (fitted"),
        ([64, 128], 1.0, None),
        ([64], 0.0, None),
    ],
)
def test_growth_is_told_as_far_as_it_was_measured(sides: list[int], memory: float, expected: str | None) -> None:
    told = scaling.growth(sides, [float(side**3) for side in sides], [memory * side**2 for side in sides])
    assert told == [] if expected is None else told[0].startswith(expected)
