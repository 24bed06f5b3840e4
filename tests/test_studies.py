"""Studies measure what they say, and write a page with its pictures and numbers."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import disol

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "studies"))  # scripts, which import each other by name

import cross_resolution  # noqa: E402
import elasticity_failures  # noqa: E402
import factors  # noqa: E402
import heat_in_time  # noqa: E402
import mechanism  # noqa: E402
import probes  # noqa: E402
import study  # noqa: E402
import symmetry  # noqa: E402

SMALL = ["--cases", "2", "--device", "cpu", "--resolution", "32"]
RUNS = {
    factors: [*SMALL, "--models", "poisson-paper", "advection-diffusion-low-paper"],
    heat_in_time: [*SMALL, "--models", "heat"],
    elasticity_failures: ["--cases", "3", "--device", "cpu", "--resolution", "32", "--models", "elasticity-paper"],
    mechanism: [*SMALL, "--models", "poisson-paper", "--baseline", "poisson"],
    symmetry: [*SMALL, "--models", "poisson-paper", "heat"],
    cross_resolution: ["--cases", "1", "--device", "cpu", "--sides", "64", "96", "--models", "poisson-paper"],
}


@pytest.fixture(scope="module")
def case() -> disol.Case:
    drawn = disol.draw("poisson", seed=4, shift="all", resolution=20, conventions="paper")
    return disol.Case.from_arrays(
        "poisson",
        conventions="paper",
        domain=drawn.domain,
        dirichlet=drawn.terms["dirichlet"],
        source=drawn.channel("source").astype(float),
    )


class TakesTheSource(nn.Module):
    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs[:, 2:3]


@pytest.mark.parametrize("script", RUNS, ids=lambda script: script.__name__)
def test_a_study_writes_a_page_whose_pictures_and_numbers_exist(script, tmp_path, monkeypatch):
    page = tmp_path / "docs" / f"{script.__name__}.md"
    arguments = [script.__name__, *RUNS[script], "--out", str(tmp_path / "work"), "--write", str(page)]
    monkeypatch.setattr(sys, "argv", arguments)
    script.main()
    links = [line.partition("](")[2].rstrip(")") for line in page.read_text().splitlines() if line.startswith("![")]
    assert links
    for link in links:
        assert (page.parent / link).stat().st_size > 1000
    assert json.loads(page.with_suffix(".json").read_text())
    before = page.read_text(), (tmp_path / "work" / "rows.jsonl").read_text()
    monkeypatch.setattr(script, "measure", None)  # what is known is not measured again
    script.main()
    assert before == (page.read_text(), (tmp_path / "work" / "rows.jsonl").read_text())


def test_rows_are_measured_until_the_time_is_up_and_then_completed(tmp_path):
    wanted = [{"index": index} for index in range(3)]
    assert study.measure_rows(wanted, lambda row: {"twice": 2 * row["index"]}, tmp_path, minutes=-1.0) == []
    rows = study.measure_rows(wanted, lambda row: {"twice": 2 * row["index"]}, tmp_path)
    assert rows == [{"index": 0, "twice": 0}, {"index": 1, "twice": 2}, {"index": 2, "twice": 4}]
    assert study.measure_rows(wanted[:2], pytest.fail, tmp_path) == rows[:2]


def test_models_of_other_conventions_are_refused():
    with pytest.raises(disol.DisolError, match="Leave it out"):
        study.load_models(["poisson-published"], "cpu")


def test_the_identity_answers_to_its_own_pixel_alone(case):
    slope = probes.network_sensitivity(TakesTheSource(), case.inputs, 2, (9, 11))
    expected = np.zeros((20, 20))
    expected[9, 11] = 1.0
    assert (slope == expected).all()
    assert probes.half_radius(slope, (9, 11)) == 0.0
    rings = probes.profile(slope, np.ones((20, 20), bool), (9, 11), np.array([0.0, 0.01, 0.2, 0.5]))
    assert rings == [1.0, 0.0, 0.0]


def test_greens_function_is_the_answer_to_a_source_on_one_pixel(case):
    exact = probes.ExactSensitivity(case)
    pixels = [tuple(map(int, pixel)) for pixel in np.argwhere(case.domain)[[7, 60, -20]]]
    for here in pixels:
        for there in pixels:
            source = np.zeros((20, 20))
            source[there] = 1.0
            answer = disol.solve_exact(disol.Case.from_arrays(case, source=source)).field[0]
            assert exact.green(here)[there] == pytest.approx(answer[here], rel=1e-9)


def test_the_exact_sensitivity_is_the_slope_of_the_pattern(case):
    direction = np.random.default_rng(0).random((20, 20)) * case.domain
    source, step = np.asarray(case.terms["source"]), 1e-5
    ends = [
        disol.solve_exact(disol.Case.from_arrays(case, source=source + sign * step * direction)).pattern[0]
        for sign in (1, -1)
    ]
    pixel = tuple(map(int, np.argwhere(case.domain)[60]))
    slope = (ends[0] - ends[1])[pixel] / (2 * step)
    assert (probes.ExactSensitivity(case).pattern(pixel) * direction).sum() == pytest.approx(slope, rel=1e-5)


def test_copies_of_a_symmetric_prediction_are_not_apart():
    network = symmetry.symmetric(disol.load(disol.surrogate.symmetrise("poisson-paper"), device="cpu"))
    case = disol.draw("poisson", seed=4, shift="all", resolution=20, conventions="paper")
    copies = symmetry.predict_copies(network, case.inputs[None])
    assert copies.shape == (8, 1, 1, 20, 20)
    assert symmetry.spread_of(copies, case.domain) < 1e-5
    rough = copies + np.array([1, -1] * 4).reshape(8, 1, 1, 1, 1) * 0.1 * copies
    assert symmetry.spread_of(rough, case.domain) == pytest.approx(0.1, rel=1e-3)
    assert symmetry.mean_error(rough, copies[0], case.domain) < 1e-5
    assert symmetry.mean_error(rough[:1], copies[0], case.domain) == pytest.approx(0.1, rel=1e-3)


def test_the_copies_that_are_averaged_form_groups():
    for number, group in symmetry.GROUPS.items():
        assert len(group) == number
        assert all(element.inverse in group for element in group)


def test_a_domain_without_its_far_part_is_part_of_it_and_solvable(case):
    smaller = probes.without_far_part(case, 0.25)
    assert not (smaller.domain & ~case.domain).any()
    assert 0.6 < smaller.domain.sum() / case.domain.sum() <= 0.85
    assert (smaller.channel("source") == case.channel("source") * smaller.domain).all()
    assert disol.solve_exact(smaller).amplitude > 0


def test_a_constant_has_only_the_longest_waves_whatever_its_domain(case):
    edges = np.array([8.0, 4.0])
    sizes = probes.band_sizes(3.0 * case.domain, case.domain, edges)
    assert sizes[0] == pytest.approx(3 * np.sqrt(case.domain.sum()))
    assert sizes[1:] == pytest.approx([0, 0], abs=1e-12)


def test_waves_are_found_in_their_own_band():
    columns = np.tile(np.arange(64), (64, 1))
    everywhere, edges = np.ones((64, 64), bool), np.array([32.0, 8.0])
    for length, band in ((64.0, 0), (16.0, 1), (3.0, 2)):
        sizes = probes.band_sizes(np.cos(2 * np.pi * columns / length), everywhere, edges)
        assert sizes.argmax() == band


def test_a_silenced_scale_changes_the_prediction_and_is_heard_again_afterwards(case):
    network = disol.load("poisson-paper", device="cpu").network
    assembly = probes.find_assembly(network)
    inputs = disol.draw("poisson", seed=4, resolution=32, conventions="paper").inputs
    before = probes.run(network, inputs)
    for level in range(len(assembly.encoder)):
        with probes.silenced(assembly, level):
            assert np.abs(probes.run(network, inputs) - before).max() > 1e-3
    assert (probes.run(network, inputs) == before).all()


def test_interpolation_keeps_constants_up_to_the_boundary_and_linear_fields_inside():
    coarse, fine = (disol.draw("poisson", seed=2, resolution=side, conventions="paper").domain for side in (20, 40))
    assert (cross_resolution.interpolate(1.0 * coarse, coarse, fine) == fine).all()
    whole, twice = np.ones((20, 20), bool), np.ones((40, 40), bool)
    raised = cross_resolution.interpolate(np.tile((np.arange(20) + 0.5) / 20, (20, 1)), whole, twice)
    assert raised[5, 1:-1] == pytest.approx((np.arange(1, 39) + 0.5) / 40)


@pytest.mark.parametrize("width", [3, 5, 9])
def test_the_neck_between_two_rooms_is_as_wide_as_their_door(width):
    domain, support, load = (np.zeros((32, 60), bool) for _ in range(3))
    domain[2:30, 2:22] = domain[2:30, 38:58] = True
    domain[16 - width // 2 : 16 + width // 2 + 1, 22:38] = True
    support[10:20, 2], load[10:20, 57] = True, True
    assert elasticity_failures.neck_width(domain, support, load) == width


def test_a_rigid_motion_is_rigid_and_a_stretch_is_not():
    domain = np.zeros((16, 16), bool)
    domain[3:13, 5:12] = True
    y, x = np.indices((16, 16)) / 16
    assert elasticity_failures.rigid_share(np.stack([0.3 - 2 * y, 0.1 + 2 * x]), domain) == pytest.approx(1)
    stretched = np.stack([x - x[domain].mean(), y - y[domain].mean()])
    assert elasticity_failures.rigid_share(stretched, domain) == pytest.approx(0, abs=1e-12)
