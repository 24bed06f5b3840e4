"""`disol solve` on shapes that a user draws, and what it says of them."""

import json
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imsave
from printed import SIDE, SQUARE, channel

import disol

pytestmark = pytest.mark.usefixtures("undrawn")


def test_a_random_geometry_is_the_case_of_its_seed(run):
    arrays, _ = run("--geometry", "random:5+topology+source")
    case = disol.draw("poisson", 5, resolution=SIDE, shift="topology,source", conventions="paper")
    assert (arrays["inputs"] == case.inputs).all()


@pytest.mark.parametrize("seed", [0, 4])
def test_what_a_named_shape_is_not_given_is_that_of_the_seed(run, seed):
    arrays, _ = run("--geometry", "star", "--seed", str(seed))
    assert (
        arrays["inputs"] == disol.draw("poisson", seed, resolution=SIDE, shift="shape:star", conventions="paper").inputs
    ).all()


def test_an_outline_has_defaults_that_are_named(run):
    arrays, out = run("--geometry", "square.json")
    assert "outer:0-0.25 (default)" in out
    assert "wave (default): 0.5 + 0.5*sin" in out
    rows, columns = np.nonzero(channel(arrays, "dirichlet"))
    assert set(rows) == {2}
    assert set(columns) <= set(range(2, 22))


def test_names_with_brackets_are_printed_as_they_are(run):
    Path("square.json").rename("[red]square.json")
    _, out = run("--geometry", "[red]square.json", "--out", "solution")
    assert "[red]square.json, 69% of 24 x 24 pixels" in out


def test_an_outline_elsewhere_is_fitted_and_that_is_said(run):
    Path("far.json").write_text(json.dumps({"outer": [[100, 0], [300, 0], [300, 200]]}))
    arrays, out = run("--geometry", "far.json")
    assert "note: far.json was moved and scaled into the unit square, 5% from its edge" in out
    assert arrays["domain"].mean() == pytest.approx(0.5 * 0.81, abs=0.05)


def test_an_outline_in_the_unit_square_stays_there_unless_told_otherwise_and_that_is_said(run):
    Path("small.json").write_text(json.dumps({"outer": [[0.1, 0.1], [0.3, 0.1], [0.3, 0.3], [0.1, 0.3]]}))
    arrays, out = run("--geometry", "small.json", "--no-distance")
    assert "give --coordinates drawing to fit it to the grid" in " ".join(out.split())
    assert arrays["domain"].mean() == pytest.approx(0.04, abs=0.01)
    arrays, out = run("--geometry", "small.json", "--coordinates", "drawing", "--no-distance", "--overwrite")
    assert "small.json was moved and scaled into the unit square" in out
    assert arrays["domain"].mean() == pytest.approx(0.81, abs=0.05)


def test_pixels_that_a_grid_cuts_off_are_named(run):
    hourglass = [[0.1, 0.1], [0.9, 0.1], [0.505, 0.4], [0.505, 0.6], [0.9, 0.9], [0.1, 0.9], [0.495, 0.6], [0.495, 0.4]]
    Path("glass.json").write_text(json.dumps({"outer": hourglass}))
    assert "pixels that no side joins" in run("--geometry", "glass.json")[1]


def test_a_hole_that_a_grid_does_not_see_is_named(run):
    outer, hole = [[0.1, 0.1], [0.9, 0.1], [0.9, 0.9], [0.1, 0.9]], [[0.501, 0.501], [0.503, 0.501], [0.503, 0.503]]
    Path("pinhole.json").write_text(json.dumps({"outer": outer, "holes": [hole]}))
    assert "hole 1 of pinhole.json is too small for this grid" in " ".join(run("--geometry", "pinhole.json")[1].split())


def test_a_hole_that_pixels_do_not_see_is_named_where_pixels_are_shown(run):
    hole = [[150.1, 150.1], [150.6, 150.1], [150.6, 150.6]]
    far = [[100, 100], [200, 100], [200, 200], [100, 200]]
    Path("far.json").write_text(json.dumps({"outer": far, "holes": [hole]}))
    message, given = "hole 1 of far.json is too small for this grid", ["--source", "1", "--no-distance"]
    predicted = run("--geometry", "far.json", "--dirichlet", "outer", "--conductivity", "2", *given)[1]
    assert "predicted" in predicted
    assert message in " ".join(predicted.split())
    alone = run("--geometry", "far.json", "--dirichlet", "outer=1", *given)[1]
    assert "not predicted" in alone
    assert message not in " ".join(alone.split())


def test_a_hole_that_a_grid_cuts_in_two_keeps_both_parts_and_is_named(run):
    upper = [[0.2, 0.2], [0.4, 0.2], [0.4, 0.499], [0.6, 0.499], [0.6, 0.2], [0.8, 0.2]]
    lower = [[x, 1 - y] for x, y in reversed(upper)]
    Path("dumbbell.json").write_text(json.dumps({**SQUARE, "holes": [upper + lower]}))
    arrays, out = run("--geometry", "dumbbell.json")
    assert "note: hole 1 of dumbbell.json is too thin for this grid: it falls into 2 parts" in out
    assert "hole2" in out
    assert (arrays["domain"] == arrays["domain"][:, ::-1]).all()


@pytest.mark.parametrize(("margin", "near"), [(0, True), (2, True), (3, False)])
def test_a_domain_along_the_edge_of_the_grid_is_named(run, home, margin, near):
    pixels = np.ones((SIDE, SIDE, 3))
    pixels[margin:12, margin : SIDE - margin] = 0
    imsave(home / "wide.png", pixels)
    out = run("--geometry", "wide.png", "--no-exact")[1]
    assert ("note: wide.png runs along the edge of the grid" in out) == near


@pytest.mark.parametrize("turns", range(4))
def test_every_side_of_the_grid_counts(run, home, turns):
    pixels = np.ones((SIDE, SIDE, 3))
    pixels[0:8, 3 : SIDE - 3] = 0
    imsave(home / "wide.png", np.ascontiguousarray(np.rot90(pixels, turns)))
    assert "note: wide.png runs along the edge of the grid" in run("--geometry", "wide.png", "--no-exact")[1]


def test_red_fixes_x_and_blue_fixes_y(run, home):
    pixels = np.ones((SIDE, SIDE, 3))
    pixels[4:20, 4:20] = 0
    pixels[4:20, 4] = [1, 0, 0]
    pixels[19, 6:20] = [0, 0, 1]
    imsave(home / "body.png", pixels)
    arrays, _ = run("--geometry", "body.png", problem="elasticity")
    assert set(np.nonzero(channel(arrays, "fix_x"))[1]) == {4}
    assert set(np.nonzero(channel(arrays, "fix_y"))[0]) == {19}


def test_red_pixels_hold_the_solution_at_zero(run):
    arrays, out = run("--geometry", "painted.png")
    assert "painted in painted.png" in out
    assert arrays["domain"].sum() == 18**2
    rows, columns = np.nonzero(channel(arrays, "dirichlet"))
    assert set(columns) == {3}
    assert len(rows) == 18


def test_a_picture_without_supports_says_where_the_default_is(run, home):
    imsave(home / "plain.png", np.pad(np.zeros((32, 32)), 8, constant_values=1), cmap="gray")
    assert "note: no red pixels found in plain.png: U = 0 on outer:0-0.25 instead" in run("--geometry", "plain.png")[1]
    assert "no red pixels" not in run("--geometry", "plain.png", "--dirichlet", "outer")[1]
    assert "no red or blue pixels found" in run("--geometry", "plain.png", problem="elasticity")[1]


def test_a_cut_that_a_grid_does_not_see_is_named_and_specks_are_not(run, home):
    pixels = np.ones((480, 480, 3))
    pixels[60:420, 60:420] = 0
    pixels[60, 60:420] = [1, 0, 0]
    pixels[10, ::7] = 0
    imsave(home / "whole.png", pixels)
    pixels[60:420, 250] = 1
    imsave(home / "cut.png", pixels)
    assert "parts of the domain" not in run("--geometry", "whole.png", "--no-exact")[1]
    message = "note: parts of the domain: 2 in cut.png, 1 on this grid"
    assert message in run("--geometry", "cut.png", "--no-exact")[1]


def test_written_ranges_replace_painted_ones(run):
    arrays, _ = run("--geometry", "painted.png", "--dirichlet", "outer:0.25-0.5")
    assert set(np.nonzero(channel(arrays, "dirichlet"))[1]) == {20}
