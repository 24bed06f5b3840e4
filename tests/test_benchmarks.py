"""Pages of benchmarks say what was measured, and nothing about what was not."""

import itertools
import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import disol
from disol.geometry import Arc

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "benchmarks"))  # scripts, which import each other by name

import ablations  # noqa: E402
import ablations_page  # noqa: E402
import agreement  # noqa: E402
import amplitude  # noqa: E402
import batches  # noqa: E402
import cut_references  # noqa: E402
import equal_error  # noqa: E402
import inference_page  # noqa: E402
import inference_subject  # noqa: E402
import inference_summary  # noqa: E402
import inference_ways  # noqa: E402
import memory  # noqa: E402
import scaling  # noqa: E402
import training  # noqa: E402
import training_profile  # noqa: E402
from inference_ways import CPU, EXACT, FAST, VERIFICATION  # noqa: E402
from training_variants import RIVAL, VARIANTS, Trial  # noqa: E402


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


def study(folder: Path, runs: dict[str, list[bool | None]]) -> list[dict[str, object]]:
    """Write a study, one run for each seed: alone, beside others, or of a version that does not say; and read it."""
    for variant, alone in runs.items():
        for seed, is_alone in enumerate(alone):
            error = {"mean": 1e-2 + 1e-4 * seed + 1e-3 * (variant != ablations_page.BASE)}
            result = {
                "variant": variant,
                "seed": seed,
                "minutes": 3.0,
                "set": [],
                "data": {"problem": "poisson", "conventions": "paper", "cases": 9},
                "parameters": 7,
                "epochs": 5,
                "cases_per_second": 1000.0,
                "training_seconds": None,
                "tests": {"id": {"cases": 3, "rel_l2": error, "grid_mae": error}},
                "machine": "a machine",
            }
            told = result if is_alone is None else result | {"alone": is_alone}
            (folder / f"{variant.replace(' ', '-')}-seed{seed}.json").write_text(json.dumps(told))
    return ablations_page.read_results(folder)


def test_studies_of_earlier_versions_trained_every_run_alone(tmp_path: Path) -> None:
    text = "\n".join(ablations_page.page(study(tmp_path, {"base": [None, None], "no averaging": [None, None]}), None))
    assert "beside each other" not in text
    assert "| no averaging | `train.ema_decay=0` | 2 | 7 | 1000 |" in text
    assert "2 and 2 seeds or more are told apart by chance in at most 33 %" in text
    assert "Worse than the base: no averaging (" in text


def test_the_speed_of_a_variant_that_never_trained_alone_is_unknown(tmp_path: Path) -> None:
    runs = {"base": [True, False, False], "no averaging": [False, False], "coarse sweeps": [True]}
    text = "\n".join(ablations_page.page(study(tmp_path, runs), None))
    assert "| no averaging | `train.ema_decay=0` | 2 | 7 | - |" in text
    assert "trained: base, seed 0; coarse sweeps, seed 0. The other 4 runs trained beside each other" in text
    assert "first seed of every variant" not in text
    assert "| against the base, 3 seeds |" in text
    assert "| no averaging, 2 seeds |" in text
    assert "Too few seeds for a verdict: coarse sweeps, 1 seed." in text
    assert "3 and 2 seeds or more are told apart by chance in at most 20 %" in text


def test_the_first_seeds_are_told_to_have_trained_alone_where_they_did(tmp_path: Path) -> None:
    text = "\n".join(ablations_page.page(study(tmp_path, {"base": [True, False], "no averaging": [True, False]}), None))
    assert "That is how the first seed of every variant was trained; 2 runs of other seeds trained beside" in text


@pytest.mark.parametrize("option", ["--jobs", "--together"])
def test_no_runs_at_once_are_refused(option: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys) -> None:
    monkeypatch.setattr(sys, "argv", ["ablations.py", "--out", str(tmp_path), option, "0"])
    with pytest.raises(SystemExit, match="2"):
        ablations.read_options()
    assert f"{option} must be at least 1, got 0" in capsys.readouterr().err


def ways_of_poisson(cases: dict[str, int], machine_of_cpu: str) -> dict[str, dict[str, dict[str, object]]]:
    rows: dict[str, dict[str, object]] = {
        way: {"batches": [{"cases": 1}, {"cases": many}], "machine": "a machine"} for way, many in cases.items()
    }
    rows[FAST]["bandwidth"] = 1e12
    rows[CPU] = {"machine": machine_of_cpu}
    return {"poisson": {way: {"problem": "poisson", "way": way, **row} for way, row in rows.items()}}


def test_cases_at_once_are_those_of_each_way() -> None:
    differing = ways_of_poisson({FAST: 64, EXACT: 26, VERIFICATION: 32}, "a machine")
    told = f"poisson 64 predicted, 26 solved by `{EXACT}`, 32 solved by `{VERIFICATION}`;"
    assert told in inference_summary.told_batches(differing)
    alike = ways_of_poisson({FAST: 64, EXACT: 32, VERIFICATION: 32}, "a machine")
    assert "poisson 64 predicted, 32 solved;" in inference_summary.told_batches(alike)


def test_errors_are_those_of_the_model_that_is_shipped_today() -> None:
    row = {"problem": "poisson", "model": "poisson", "rel_l2": {"id": 0.5}}
    today = inference_subject.weights_of(inference_subject.model_of("poisson")[1])
    rows: dict[str, dict[str, object]] = {
        FAST: row | {"weights": today},
        EXACT: row | {"weights": "earlier"},
        VERIFICATION: row | {"model": "random weights", "weights": "random weights"},
        CPU: {"problem": "poisson", "error": "out of memory"},
    }
    found = inference_subject.with_errors_of_today("poisson", rows)
    assert found[FAST]["rel_l2"]["id"] < 0.02
    assert found[FAST]["rel_l2"] == found[EXACT]["rel_l2"]
    assert [found[way] for way in (VERIFICATION, CPU)] == [rows[way] for way in (VERIFICATION, CPU)]
    told = {way: inference_page.told_model(found[way]) for way in (FAST, EXACT, VERIFICATION)}
    assert told == {FAST: "`poisson`", EXACT: "`poisson` (timed with earlier weights)", VERIFICATION: "random weights"}


def test_errors_of_heat_name_their_times() -> None:
    row = {"problem": "heat", "model": "heat", "weights": "earlier"}
    told = inference_summary.told_errors(inference_subject.with_errors_of_today("heat", {FAST: row})[FAST])
    assert "on named shapes with holes" in told
    assert told.endswith("; over 2, 8, 14, 20 s")


def test_the_cpu_of_a_gpu_is_told_from_another_one() -> None:
    beside, elsewhere = (ways_of_poisson({FAST: 64}, machine) for machine in ("a machine", "another"))
    assert inference_summary.told_devices(beside) == "on a GPU and on its CPU"
    assert inference_summary.told_devices(elsewhere) == "on a GPU and on the CPU of another machine"


def test_batches_are_timed_and_written_down(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, page = tmp_path / "batches.json", tmp_path / "docs" / "batches.md"
    sizes = ["--cases", "4", "--resolution", "32", "--device", "cpu", "--seconds", "0", "--engines", "torch"]
    asked = [*sizes, "--problems", "poisson", "heat", "--out", str(out), "--write", str(page)]
    batches.main(asked)
    (rows,) = json.loads(out.read_text()).values()
    assert [row["problem"] for row in rows] == ["poisson"] * 6 + ["heat at 20 s"] * 6 + ["heat at 2, 8, 14, 20 s"] * 6
    assert {row["way"] for row in rows} >= {batches.SOLVER, batches.EXACT}
    assert all(0 < row["seconds"] < row["first"] * 100 for row in rows)
    assert "verify, torch" in capsys.readouterr().out
    before = page.read_text()
    assert "| poisson | 4 | " in before
    batches.main([*asked, "--seconds", "9"])
    assert page.read_text() == before  # nothing was measured again


def test_a_profile_lists_what_takes_the_time_of_a_step(tmp_path: Path) -> None:
    page = tmp_path / "profile.md"
    small = ["--cases", "20", "--resolution", "16", "--batch-size", "8", "--steps", "1", "--rows", "3"]
    training_profile.main([*small, "--models", "unet", "--device", "cpu", "--write", str(page)])
    rows = [line for line in page.read_text().splitlines() if line.startswith("| `")]
    assert len(rows) == 3
    assert "convolution" in page.read_text()


@pytest.mark.parametrize("problem", batches.CASES)
def test_the_cases_of_a_batch_differ_and_can_be_solved(problem: str) -> None:
    arrays = batches.draw_arrays(problem, 16, 32)
    case = disol.Case.from_arrays(problem, **arrays, conventions="paper")
    assert len(case) == 16
    assert len({domain.tobytes() for domain in case.domain}) == 16
    assert (disol.solve_exact(case, device="cpu").amplitude > 0).all()


def test_the_batched_solver_agrees_with_the_reference_solver() -> None:
    for problem in ("elasticity", "heat"):
        kind, count, gap, error, fallbacks = agreement.compare(problem, [None], 2, "cpu")[1:]
        assert (kind, count, fallbacks) == ("in distribution", "2", "0")
        assert float(gap) < 1e-9
        assert float(error) < 1e-13


def test_the_energy_finds_the_amplitude_of_a_pattern() -> None:
    model = disol.load("poisson", device="cpu")
    cases = [disol.draw("poisson", 1, index, conventions="paper") for index in range(2)]
    found = amplitude.energy_amplitudes(model, cases)
    exact = [disol.solve_exact(case).amplitude for case in cases]
    assert found[amplitude.ENERGY] == pytest.approx(exact, rel=0.1)
    assert found[amplitude.CYCLE] == pytest.approx(exact, rel=0.02)


@pytest.mark.parametrize("way", [inference_ways.RIVAL, inference_ways.EAGER, EXACT])
def test_ways_are_prepared_and_measured(way: str) -> None:
    subject = inference_subject.subject_of("poisson")
    setting = inference_ways.Setting(subject, torch.device("cpu"), budget=0.0, most_cases=2)
    found = inference_ways.WAYS[way].prepare(setting)()
    assert [batch["cases"] for batch in found["batches"]] == [1, 2]
    assert all(batch["seconds"] > 0 for batch in found["batches"])


@pytest.mark.parametrize("name", [RIVAL, "own loop, eager float32"])
def test_training_is_timed(name: str, tmp_path: Path) -> None:
    disol.generate("poisson", 8, tmp_path / "cases.h5", resolution=16, workers=0, device="cpu")
    trial = Trial(replace(VARIANTS[name], batch=4), tmp_path / "cases.h5", "cpu")
    assert trial.time_of(2) > 0


@pytest.mark.parametrize("task", memory.TASKS)
def test_steps_are_timed_with_memory_that_is_used_again_and_without(task: str) -> None:
    assert all(memory.time_steps("poisson", task, 1, is_reused) > 0 for is_reused in (False, True))


def test_pixels_of_a_known_solution_are_first_order() -> None:
    disc = equal_error.known(cut_references.poisson_disc())
    errors = [disc.error(disol.solve_exact(disc.pixels(side))) for side in (32, 64, 128)]
    assert all(1.7 < coarse / fine < 2.3 for coarse, fine in itertools.pairwise(errors)), errors


@pytest.mark.parametrize("side", [64, 128])
def test_pixels_held_along_an_arc_lie_beside_it_and_pass_its_ends(side: int) -> None:
    case = equal_error.draw(2, side)
    arc = Arc(0, 0.9, 1.2)
    held = np.argwhere(equal_error.hold(case, [arc]).terms["dirichlet"])[:, ::-1] + 0.5
    along = np.stack([case.region.loops[0].at(place) for place in np.linspace(arc.start, arc.end, 400)]) * side
    apart = np.linalg.norm(held[:, None] - along, axis=2)
    assert apart.min(axis=1).max() < 1.5  # every pixel is beside the arc
    assert apart.min(axis=0).max() < 1.5  # and every place of the arc has its pixel


def test_no_more_grids_are_measured_than_an_error_takes() -> None:
    grids = iter([equal_error.Measured(side, 1 / side, 1.0) for side in (16, 32, 64)])
    assert equal_error.first_within(grids, 0.05).side == 32
    assert next(grids).side == 64
    assert equal_error.first_within(iter([equal_error.Measured(16, 0.1, 1.0)]), 0.05).side == 16
