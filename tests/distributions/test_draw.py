"""Drawing is a pure function of (seed, index), and what it draws is what the settings say."""

import hashlib
import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import disol
from disol.distributions.distribution import describe_shift, shifted
from disol.geometry import Curve, parts
from disol.geometry.envelope import concave_envelope
from disol.grid import Grid, nodes_touching, pixel_means

NAMES = list(disol.PROBLEMS)
SHIFTS = [None, "topology", "boundary", "all", "shape:star", "shape:slotted-plate+hole"]
SEEDS = st.integers(0, 2**32)


def digest(case) -> str:
    return hashlib.sha256(case.inputs.tobytes()).hexdigest()


PRINT_DIGESTS = """
import hashlib, disol
for problem, index in reversed([("poisson", 3), ("elasticity", 4), ("heat", 5)]):
    case = disol.draw(problem, seed=7, index=index, shift="all")
    print(hashlib.sha256(case.inputs.tobytes()).hexdigest())
"""


def test_a_case_is_the_same_in_any_process_and_any_order():
    here = [digest(disol.draw(name, 7, index, shift="all", conventions="paper")) for name, index in
            (("poisson", 3), ("elasticity", 4), ("heat", 5))]  # fmt: skip
    elsewhere = subprocess.run([sys.executable, "-c", PRINT_DIGESTS], capture_output=True, text=True, check=True)
    assert elsewhere.stdout.split()[::-1] == here


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shift", SHIFTS)
def test_every_drawn_case_is_solvable_and_its_channels_are_named(name, shift):
    for index in range(4):
        case = disol.draw(name, seed=2, index=index, shift=shift, resolution=32, conventions="paper")
        assert case.inputs.dtype == np.float32
        assert case.inputs.shape == (len(case.channels), 32, 32)
        assert case.problem is disol.PROBLEMS[name]
        assert parts(case.terms["domain"])[1] == 1
        exact = disol.solve_exact(case)
        assert np.isfinite(exact.field).all()
        assert exact.amplitude > 0
        outside = ~exact.domain
        assert not exact.field[..., outside].any()
        assert not exact.pattern[..., outside].any()


@given(seed=SEEDS, index=st.integers(0, 10**6), shift=st.sampled_from(["topology", "boundary", "source", "all"]))
def test_every_poisson_case_vanishes_on_its_dirichlet_pixels_and_peaks_at_one(seed, index, shift):
    case = disol.draw("poisson", seed, index, shift=shift, resolution=32, conventions="paper")
    exact = disol.solve_exact(case)
    assert not exact.field[0, case.terms["dirichlet"]].any()
    assert np.abs(exact.pattern).max() == pytest.approx(1.0)
    assert exact.field == pytest.approx(exact.pattern * exact.amplitude)


@given(seed=SEEDS)
def test_elasticity_always_fixes_both_components_and_loads_some_free_node(seed):
    case = disol.draw("elasticity", seed, shift="boundary", resolution=32, conventions="paper")
    for axis in "xy":
        fixed, force = case.terms[f"fix_{axis}"], case.terms[f"force_{axis}"]
        assert fixed.any()
        assert set(np.unique(force)) in ({-1.0, 0.0}, {0.0, 1.0})
    loaded = [
        nodes_touching(case.terms[f"force_{axis}"] != 0) & ~nodes_touching(case.terms[f"fix_{axis}"]) for axis in "xy"
    ]
    assert np.any(loaded)


@given(seed=SEEDS)
def test_one_training_segment_covers_a_tenth_to_a_quarter_of_the_outer_loop(seed):
    case = disol.draw("poisson", seed, conventions="paper")
    (segment,) = case.sketch["dirichlet"].segments
    assert 0.1 <= segment.length <= 0.25
    assert segment.curve == 0


def test_fragmented_boundaries_have_one_to_three_outer_segments_and_often_one_on_the_hole():
    outer, inner = [], []
    lengths = {0: [], 1: []}
    for index in range(200):
        segments = (
            disol.draw("poisson", 3, index, shift="boundary,topology", conventions="paper").sketch["dirichlet"].segments
        )
        outer.append(sum(segment.curve == 0 for segment in segments))
        inner.append(sum(segment.curve == 1 for segment in segments))
        for segment in segments:
            lengths[segment.curve].append(segment.length)
    assert set(outer) == {1, 2, 3}
    assert set(inner) == {0, 1}
    assert 0.35 < np.mean(inner) < 0.65
    for curve, (shortest, longest) in {0: (0.05, 0.15), 1: (0.1, 0.3)}.items():
        assert shortest <= min(lengths[curve]) < 1.1 * shortest
        assert 0.95 * longest < max(lengths[curve]) <= longest


def test_holes_have_the_size_of_the_paper_and_some_are_concave():
    holes = [
        disol.draw("poisson", 3, index, shift="topology", resolution=16, conventions="paper").geometry.holes[0]
        for index in range(40)
    ]
    extents = [np.ptp(hole.points, axis=0).max() for hole in holes]
    assert 0.1 < min(extents) < 0.18  # of points drawn in a box with a side from 0.2 to 0.4, rounded by a spline
    assert 0.33 < max(extents) <= 0.4
    hulls = [Curve(concave_envelope(hole.points[::4], 0.0)) for hole in holes]
    shares = [abs(hole.signed_area / hull.signed_area) for hole, hull in zip(holes, hulls, strict=True)]
    assert min(shares) < 0.85


@pytest.mark.parametrize(
    ("problem", "seed", "index", "shift", "pixels", "values"),
    [
        ("poisson", 0, 0, None, {"domain": 2721, "dirichlet": 31}, {"source": 0.652044158}),
        ("poisson", 7, 3, "all", {"domain": 1999, "dirichlet": 56}, {"source": 0.693041643}),
        ("heat", 0, 5, None, {"domain": 8271, "dirichlet": 79}, {"source": 0.587939742, "initial": 0.132702994}),
        ("elasticity", 1, 2, "all", {"domain": 6127, "fix_x": 31, "fix_y": 34, "force_x": 69, "force_y": 101}, {}),
    ],
)
def test_cases_are_those_that_shipped_models_know(problem, seed, index, shift, pixels, values):
    """Whoever changes what is drawn makes another training distribution: models and results have to be made anew."""
    case = disol.draw(problem, seed, index, shift=shift, conventions="paper")
    assert {name: int((case.terms[name] != 0).sum()) for name in pixels} == pixels
    point = np.array([0.3]), np.array([0.6])
    assert {name: case.terms[name](*point)[0] for name in values} == pytest.approx(values, abs=1e-8)


def test_a_factor_changes_its_own_part_of_a_case_and_nothing_else():
    plain = disol.draw("poisson", 4, 9, conventions="paper")
    changed = {
        name: disol.draw("poisson", 4, 9, shift=name, conventions="paper")
        for name in ("topology", "boundary", "source")
    }
    unchanged = {"topology": [], "boundary": ["domain"], "source": ["domain", "dirichlet"]}
    for factor, names in unchanged.items():
        assert digest(changed[factor]) != digest(plain)
        for name in names:
            assert (changed[factor].channel(name) == plain.channel(name)).all()


def test_sizes_of_the_factors_can_be_given_as_numbers():
    drawn = disol.draw("poisson", 0, 1, shift={"topology": 0.3, "boundary": 5, "source": 8}, conventions="paper")
    assert drawn.shift == "topology=0.3,boundary=5,source=8"
    assert sum(segment.curve == 0 for segment in drawn.sketch["dirichlet"].segments) == 5
    same = disol.draw("poisson", 0, 1, shift="topology=0.3,boundary=5,source=8", conventions="paper")
    assert digest(same) == digest(drawn)
    areas = [
        disol.draw("poisson", 0, 1, shift={"topology": size}, conventions="paper").channel("domain").sum()
        for size in (0.1, 0.3, 0.5)
    ]
    assert areas[0] > areas[2]


@given(
    shift=st.fixed_dictionaries(
        {},
        optional={
            "topology": st.none() | st.floats(0.05, 0.6) | st.tuples(st.floats(0.05, 0.3), st.floats(0.3, 0.6)),
            "boundary": st.none() | st.integers(1, 20) | st.tuples(st.integers(1, 4), st.integers(4, 20)),
            "source": st.none() | st.floats(0.1, 64),
        },
    )
)
def test_a_shift_is_what_is_written_about_it(shift):
    assert shifted(describe_shift(shift)) == shifted(shift)


def test_a_size_between_two_numbers_can_be_written():
    drawn = disol.draw(
        "poisson", 0, 1, shift={"topology": (0.2, 0.3), "boundary": (2, 4)}, resolution=32, conventions="paper"
    )
    assert drawn.shift == "topology=0.2..0.3,boundary=2..4"
    assert digest(disol.draw("poisson", 0, 1, shift=drawn.shift, resolution=32, conventions="paper")) == digest(drawn)


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int64, np.uint8])
def test_sizes_can_be_numbers_of_numpy(kind):
    size = kind(5)
    assert shifted({"boundary": size}) == shifted({"boundary": (size, size)}) == shifted("boundary=5")
    assert shifted({"boundary": np.array([size, size])}) == shifted("boundary=5")
    assert describe_shift({"boundary": (size, kind(6))}) == "boundary=5..6"


@pytest.mark.parametrize("shift", ["all", "shape:arrow+hole"])
def test_the_size_of_a_factor_holds_whatever_it_stands_beside(shift):
    assert shifted(f"boundary=5,{shift}") == shifted(f"{shift},boundary=5") != shifted(shift)


def test_a_named_shape_is_the_same_domain_whatever_the_seed():
    first, second = (disol.draw("poisson", seed, shift="shape:Arrow+hole", conventions="paper") for seed in (0, 1))
    assert (first.channel("domain") == second.channel("domain")).all()
    assert (first.channel("dirichlet") != second.channel("dirichlet")).any()


@pytest.mark.parametrize("name", ["poisson", "advection-diffusion-high", "heat"])
def test_sources_fill_the_unit_interval_on_the_problems_own_grid(name):
    for index in range(5):
        case = disol.draw(name, 1, index, conventions="paper")
        for channel in ("source", "initial"):
            if channel in case.channels:
                values = case.channel(channel)[case.terms["domain"]]
                assert values.min() == pytest.approx(0.0, abs=1e-6)
                assert values.max() == pytest.approx(1.0, abs=1e-6)


def test_published_sources_are_scaled_over_nodes_or_gauss_points():
    case = disol.draw("poisson", 1, 2, conventions="published")
    domain, dirichlet, source = (case.terms[name] for name in case.channels)
    x, y = np.broadcast_arrays(np.arange(65)[None] / 64, np.arange(65)[:, None] / 64)
    values = source(x, y)
    assert values[nodes_touching(domain)].min() == pytest.approx(0.0, abs=1e-12)
    assert values[nodes_touching(domain)].max() == pytest.approx(1.0)
    expected = pixel_means(np.where(nodes_touching(domain) & ~nodes_touching(dirichlet), values, 0.0)) * domain
    assert case.channel("source") == pytest.approx(expected, abs=1e-6)


def test_every_resolution_shows_the_same_source():
    coarse, fine = (disol.draw("poisson", 5, 6, resolution=side, conventions="paper") for side in (64, 256))
    x, y = np.random.default_rng(0).random((2, 50))
    assert coarse.terms["source"](x, y) == pytest.approx(fine.terms["source"](x, y), rel=1e-14)


def test_solutions_at_two_resolutions_are_close():
    errors = []
    for index in range(6):
        coarse, fine = (
            disol.solve_exact(disol.draw("poisson", 8, index, resolution=side, conventions="paper"))
            for side in (64, 128)
        )
        averaged = fine.pattern.reshape(1, 64, 2, 64, 2).mean(axis=(2, 4))
        both = coarse.domain & fine.domain.reshape(64, 2, 64, 2).all(axis=(1, 3))
        errors.append(np.linalg.norm((averaged - coarse.pattern)[0, both]) / np.linalg.norm(coarse.pattern[0, both]))
    assert np.median(errors) < 0.06


@pytest.mark.parametrize("shift", [None, "topology", "shape:arrow"])
def test_a_changed_domain_leaves_the_geometry_of_its_case_as_it_was(shift):
    case = disol.draw("poisson", 0, 1, shift=shift, conventions="paper")
    before = case.terms["domain"].copy()
    case.terms["domain"][:] = False
    assert (case.geometry.mask(Grid(64, 64)) == before).all()


def test_a_case_can_be_sent_to_another_process():
    case = disol.draw("elasticity", 1, 1, resolution=32, conventions="paper")
    copy = pickle.loads(pickle.dumps(case))
    assert digest(copy) == digest(case)
    assert copy.channels == case.channels
    assert disol.solve_exact(copy).field == pytest.approx(disol.solve_exact(case).field)


def test_heat_asks_for_a_training_frame_and_its_channel_holds_it():
    times = {disol.draw("heat", 0, index, resolution=16, conventions="paper").terms["times"][0] for index in range(60)}
    assert times == set(np.arange(2.0, 21.0, 2.0))
    case = disol.draw("heat", 0, 3, conventions="paper")
    assert case.channel("time") == pytest.approx(case.terms["times"][0] / 20)
