"""What the shifts `broad` and `released` draw: many kinds of cases, each a function of (seed, index) alone."""

import hashlib
import subprocess
import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import disol
from disol._mixture import Mixture
from disol.distributions.distribution import Distribution, shifted, with_all
from disol.fields import HIGH_FREQUENCY, ConstantField, LocalField, SeenField
from disol.geometry import Raster, named_shape, parts
from disol.geometry.placing import PlacedOutlines, Placing, has_prongs
from disol.geometry.polygons import Slotted
from disol.geometry.shapes import OUTLINES
from disol.grid import Grid

NAMES = list(disol.PROBLEMS)
MIXED = ["broad", "released"]
SEEDS = st.integers(0, 2**32)
MANY = 300


def digest(case) -> str:
    return hashlib.sha256(case.inputs.tobytes()).hexdigest()


@pytest.fixture(scope="module")
def broad():
    return [disol.draw("poisson", 0, index, shift="broad", conventions="paper") for index in range(MANY)]


@pytest.fixture(scope="module")
def released():
    return [disol.draw("poisson", 0, index, shift="released", conventions="paper") for index in range(60)]


PRINT_DIGESTS = """
import hashlib, disol
for shift in ("released", "broad"):
    for problem, index in reversed([("poisson", 3), ("elasticity", 4), ("heat", 5)]):
        case = disol.draw(problem, seed=7, index=index, shift=shift)
        print(hashlib.sha256(case.inputs.tobytes()).hexdigest())
"""


def test_a_case_is_the_same_in_any_process_and_any_order():
    here = [digest(disol.draw(name, 7, index, shift=shift, conventions="paper")) for shift in ("broad", "released")
            for name, index in (("poisson", 3), ("elasticity", 4), ("heat", 5))]  # fmt: skip
    elsewhere = subprocess.run([sys.executable, "-c", PRINT_DIGESTS], capture_output=True, text=True, check=True)
    assert elsewhere.stdout.split()[::-1] == here


@pytest.mark.parametrize("shift", MIXED)
@pytest.mark.parametrize("name", NAMES)
def test_every_case_is_solvable_on_coarse_grids(name, shift):
    for index in range(20):
        case = disol.draw(name, 3, index, shift=shift, resolution=32 if index % 2 else 16, conventions="paper")
        exact = disol.solve_exact(case)
        assert np.isfinite(exact.field).all()
        assert exact.amplitude > 0
        assert parts(exact.domain)[1] == 1


@pytest.mark.parametrize("shift", MIXED)
@given(seed=SEEDS)
def test_every_resolution_shows_the_same_case(shift, seed):
    own, fine = (disol.draw("poisson", seed, shift=shift, resolution=side, conventions="paper") for side in (64, 192))
    assert own.sketch["dirichlet"] == fine.sketch["dirichlet"]
    x, y = np.random.default_rng(0).random((2, 20))
    assert own.terms["source"](x, y) == pytest.approx(fine.terms["source"](x, y), rel=1e-12)
    centres = 3 * np.arange(64) + 1
    disagree = own.terms["domain"] != fine.terms["domain"][np.ix_(centres, centres)]
    # Pixels with the same centre differ where a tip hangs on by less than a pixel, and nowhere else.
    assert disagree.sum() <= 0.02 * own.terms["domain"].sum() + 2


@pytest.mark.parametrize(
    ("problem", "seed", "index", "shift", "pixels", "values"),
    [
        ("poisson", 0, 0, "broad", {"domain": 2651, "dirichlet": 12}, {"source": 0.528310079}),
        ("poisson", 0, 12, "broad", {"domain": 565, "dirichlet": 106}, {"source": 0.739088662}),
        ("heat", 0, 2, "broad", {"domain": 5348, "dirichlet": 84}, {"source": 0.0, "initial": 0.181179114}),
        ("elasticity", 0, 2, "broad", {"domain": 5348, "fix_x": 22, "fix_y": 22, "force_x": 0, "force_y": 84}, {}),
        ("poisson", 1, 3, "released", {"domain": 1312, "dirichlet": 38}, {"source": 0.478758784}),
    ],
)
def test_cases_are_those_that_models_were_trained_and_measured_on(problem, seed, index, shift, pixels, values):
    case = disol.draw(problem, seed, index, shift=shift, conventions="paper")
    assert {name: int((case.terms[name] != 0).sum()) for name in pixels} == pixels
    point = np.array([0.3]), np.array([0.6])
    assert {name: case.terms[name](*point)[0] for name in values} == pytest.approx(values, abs=1e-8)


def test_domains_cover_from_a_tenth_of_the_grid_to_nearly_all_of_it(broad):
    coverage = [case.terms["domain"].mean() for case in broad]
    assert 0.05 < min(coverage) < 0.13
    assert 0.65 < max(coverage) <= 1
    assert 0.3 < np.mean(coverage) < 0.45
    edges = [case.terms["domain"][[0, -1]].any() or case.terms["domain"][:, [0, -1]].any() for case in broad]
    assert 0.2 < np.mean(edges) < 0.8


def test_domains_have_up_to_three_holes_of_many_sizes_with_walls_between_them(broad):
    counts = np.bincount([len(case.geometry.holes) for case in broad])
    assert len(counts) == 4
    assert (counts > 0.03 * MANY).all()
    sizes = [np.ptp(hole.points, axis=0).max() for case in broad for hole in case.geometry.holes]
    assert 0.04 < min(sizes) < 0.08
    assert 0.4 < max(sizes) <= 0.75
    for case in broad:
        mask = case.terms["domain"]
        assert parts(mask)[1] == 1
        # Walls of domain separate every hole from the outside and from the other holes.
        assert parts(~np.pad(mask, 1))[1] == 1 + len(case.geometry.holes)


def test_supports_range_from_a_pixel_to_whole_loops_and_lie_on_holes_alone_at_times(broad):
    segments = [case.sketch["dirichlet"].segments for case in broad]
    lengths = [segment.length for marker in segments for segment in marker]
    assert 0.005 <= min(lengths) < 0.02
    assert max(lengths) == 1
    assert set(map(len, segments)) >= {1, 2, 3, 4, 5, 6}
    assert max(map(len, segments)) == 6
    held = [case.terms["dirichlet"].sum() / sum(map(len, Raster(case.geometry, Grid(64, 64)).loops)) for case in broad]
    assert min(held) < 0.02
    assert max(held) > 0.95
    on_holes_alone = [bool(marker) and all(segment.curve > 0 for segment in marker) for marker in segments]
    assert 0.04 < np.mean(on_holes_alone) < 0.25


def test_sources_are_constant_smooth_rough_and_local(broad):
    values = [case.channel("source")[case.terms["domain"]] for case in broad]
    assert all(source.max() == pytest.approx(1) and source.min() >= -1e-6 for source in values)
    constant = [np.ptp(source) == 0 for source in values]
    assert 0.04 < np.mean(constant) < 0.16
    local = [np.median(source) < 0.02 for source in values]
    assert 0.02 < np.mean(local) < 0.2
    raised = [0.02 < source.min() < 0.98 for source in values]
    assert 0.04 < np.mean(raised) < 0.2


def test_no_outline_has_prongs_of_one_or_two_pixels():
    comb = np.zeros((64, 64), bool)
    comb[30:50, 10:50] = comb[10:30, 10:12] = True
    assert has_prongs(comb)
    wedge = np.tri(64, 64, dtype=bool)[:, ::-1] & (np.arange(64) > 20)
    assert not has_prongs(wedge)
    combs = PlacedOutlines(Slotted(), Placing(stretch=3.0, turning=0.5, smallest_area=0.1))
    for seed in range(60):
        assert not has_prongs(combs.draw(np.random.default_rng(seed)).inside(Grid(64, 64)))


def test_a_rough_source_is_never_the_tail_of_a_bump_far_away():
    domain = np.zeros((64, 64), bool)
    domain[4:20, 4:20] = True
    x, y = Grid(64, 64).pixel_centres()
    spreads = {
        kind: [np.ptp(kind.draw(np.random.default_rng(seed), domain)(x, y)[domain]) for seed in range(300)]
        for kind in (HIGH_FREQUENCY, SeenField(HIGH_FREQUENCY))
    }
    assert min(spreads[HIGH_FREQUENCY]) < 1e-3
    assert min(spreads[SeenField(HIGH_FREQUENCY)]) >= 0.05


def test_a_quarter_of_the_cases_is_the_training_distribution_and_some_are_all_shifts():
    seen = [disol.draw("poisson", 0, index, shift="broad", conventions="paper").inputs for index in range(80)]
    for shift, least, most in ((None, 0.12, 0.4), ("all", 0.05, 0.3)):
        same = [
            (disol.draw("poisson", 0, index, shift=shift, conventions="paper").inputs == case).all()
            for index, case in enumerate(seen)
        ]
        assert least < np.mean(same) < most


def test_the_named_shapes_are_never_drawn(broad):
    grid = Grid(64, 64)
    named = {name: named_shape(name).mask(grid) for name in OUTLINES}
    for case in broad:
        outline = case.geometry.outer.inside(grid)
        for mask in named.values():
            assert (outline & mask).sum() < 0.97 * (outline | mask).sum()


def test_a_body_is_clamped_and_loaded_in_one_direction_at_times_and_some_node_can_move():
    cases = [disol.draw("elasticity", 0, index, shift="broad", conventions="paper") for index in range(100)]
    clamped = [(case.terms["fix_x"] == case.terms["fix_y"]).all() for case in cases]
    assert 0.15 < np.mean(clamped) < 0.5
    absent = [[not case.terms[name].any() for name in ("force_x", "force_y")] for case in cases]
    assert 0.08 < np.mean(absent) < 0.3
    assert not np.all(absent, axis=1).any()
    assert all(set(np.unique(case.terms["force_x"])) <= {-1.0, 0.0, 1.0} for case in cases)


def test_source_and_initial_field_of_heat_are_not_always_equally_large():
    cases = [disol.draw("heat", 0, index, shift="broad", resolution=32, conventions="paper") for index in range(60)]
    largest = np.array([[case.channel(name).max() for name in ("source", "initial")] for case in cases])
    assert (largest.max(axis=1) > 0.9).all()
    assert (largest.min(axis=1) == 0).any()
    assert ((largest.min(axis=1) > 0) & (largest.min(axis=1) < 0.8)).any()
    times = {case.terms["times"][0] for case in cases}
    assert times <= set(np.arange(2.0, 51.0, 2.0))
    assert max(times) > 40


def test_released_cases_have_the_coverage_the_hole_and_the_boundary_data_of_the_authors(released):
    assert len({round(case.geometry.outer.signed_area, 6) for case in released}) == 4
    coverage = [case.terms["domain"].mean() for case in released]
    assert 0.16 <= min(coverage) < 0.19
    assert 0.28 < max(coverage) <= 0.34
    shares = [abs(case.geometry.holes[0].signed_area) / case.geometry.outer.signed_area for case in released]
    assert 0.11 <= min(shares) < 0.14
    assert 0.22 < max(shares) <= 0.26
    kinds = {"long": 0, "tiny": 0, "hole": 0}
    for case in released:
        assert len(case.geometry.holes) == 1
        segments = case.sketch["dirichlet"].segments
        held = sum(segment.length for segment in segments)
        if all(segment.curve == 1 for segment in segments):
            kinds["hole"] += 1
            assert len(segments) == 2
        elif len(segments) == 5:
            kinds["tiny"] += 1
            assert all(0.01 <= segment.length <= 0.02 for segment in segments)
        else:
            kinds["long"] += 1
            assert 0.5 <= held <= 0.85
    assert min(kinds.values()) > 10


def test_released_bodies_have_small_holes_and_one_run_for_each_marker():
    for index in range(30):
        case = disol.draw("elasticity", 0, index, shift="released", conventions="paper")
        assert 1 <= len(case.geometry.holes) <= 3
        assert 0.18 <= case.terms["domain"].mean() <= 0.45
        for name in ("fix_x", "fix_y", "force_x", "force_y"):
            (segment,) = case.sketch[name].segments
            assert segment.curve == 0
            assert 0.11 <= segment.length <= 0.3


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"shift": "broad=0.3"}, "Only topology, boundary, source have sizes, but 'broad' got one"),
        ({"shift": {"released": 2}}, "but 'released' got one"),
        ({"shift": "broad,topology"}, "'broad' stands alone, got 'broad,topology'. Leave out the others"),
        ({"shift": "released,shape:arrow"}, "stands alone"),
        ({"shift": "broad,released"}, "'broad' stands alone"),
        ({"shift": "all,broad"}, "'broad' stands alone"),
        ({"shift": "broad", "alpha": 0.5}, "draws its own outlines, but alpha=0.5 was given. Leave alpha out"),
    ],
)
def test_a_mixture_has_no_size_and_stands_alone(asked, message):
    with pytest.raises(ValueError, match=message):
        disol.draw("poisson", **asked, conventions="paper")


def test_a_mixture_draws_its_kinds_as_often_as_their_weights_say():
    mixture, rng = Mixture(((1.0, "a"), (3.0, "b"), (0.0, "c"))), np.random.default_rng(0)
    drawn = [mixture.choose(rng) for _ in range(1000)]
    assert drawn.count("b") == pytest.approx(750, abs=50)
    assert "c" not in drawn


def test_the_broad_distribution_holds_the_papers():
    for elastic in (False, True):
        kinds = [kind for _, kind in shifted("broad", elastic=elastic).weighted]
        assert Distribution() in kinds
        assert with_all(Distribution()) in kinds


def test_a_constant_field_is_one_and_a_local_one_peaks_in_the_domain():
    rng, domain = np.random.default_rng(0), np.zeros((32, 32), dtype=bool)
    domain[20:30, 3:9] = True
    x, y = Grid(32, 32).pixel_centres()
    constant = ConstantField().draw(rng, domain)
    assert (constant.scaled_to_unit(constant(x, y))(x, y) == 1).all()
    for _ in range(20):
        peak = np.unravel_index(np.argmax(LocalField().draw(rng, domain)(x, y)), domain.shape)
        assert domain[peak]


def test_a_body_without_one_of_its_forces_can_be_shown():
    case = disol.draw("elasticity", 0, 2, shift="broad", resolution=32, conventions="paper")
    assert not case.terms["force_x"].any()
    plt.close(case.plot())
