"""Random outlines and their masks, as properties of any seed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.path import Path

from disol.geometry import Curve, draw_geometry, draw_outline, parts
from disol.geometry.curve import eroded, fill
from disol.geometry.envelope import concave_envelope
from disol.grid import Grid

SEEDS = st.integers(0, 2**32)


def geometry(seed: int, hole: bool = False, alpha: float = 0.8):
    rngs = np.random.default_rng([seed, 0]), np.random.default_rng([seed, 1])
    return draw_geometry(*rngs, alpha=alpha, hole_size=(0.2, 0.4) if hole else None)


@given(seed=SEEDS, hole=st.booleans(), side=st.sampled_from([32, 64, 128]))
def test_a_drawn_domain_is_one_piece_of_some_size(seed, hole, side):
    mask = geometry(seed, hole).mask(Grid(side, side))
    assert parts(mask)[1] == 1
    assert mask.mean() > 0.04


@given(seed=SEEDS)
def test_without_a_hole_the_outside_is_one_piece_and_with_one_it_is_two(seed):
    for hole, pieces in ((False, 1), (True, 2)):
        mask = geometry(seed, hole).mask(Grid(128, 128))
        assert parts(~np.pad(mask, 1))[1] == pieces


@given(seed=SEEDS, hole=st.booleans())
def test_resolutions_agree_on_the_same_shape(seed, hole):
    drawn = geometry(seed, hole)
    fine = drawn.mask(Grid(256, 256))
    for side in (64, 96, 128):
        coarse = drawn.mask(Grid(side, side))
        centres = ((np.arange(side) + 0.5) / side * 256).astype(int)
        disagree = coarse != fine[np.ix_(centres, centres)]
        # Half a fine pixel is all the two can differ by, so only pixels along the boundary can disagree.
        boundary = (coarse & ~eroded(coarse)) | (~coarse & ~eroded(~coarse))
        assert not (disagree & ~boundary).any()
        assert disagree.sum() <= 0.25 * boundary.sum()
        assert abs(coarse.mean() - fine.mean()) < 0.02


@given(seed=SEEDS)
def test_filling_agrees_with_a_point_in_polygon_test(seed):
    curve = draw_outline(np.random.default_rng(seed))
    grid = Grid(24, 36)
    x, y = np.broadcast_arrays(*grid.pixel_centres())
    inside = Path(curve.points).contains_points(np.stack([x.ravel(), y.ravel()], axis=1))
    assert (fill(curve.points, grid).ravel() == inside).all()


@pytest.mark.parametrize("hole", [False, True])
def test_what_a_curve_keeps_cannot_be_changed_from_outside(hole):
    drawn, grid = geometry(1, hole), Grid(32, 32)
    mask = drawn.mask(grid)
    before = mask.copy()
    mask[:] = False
    assert (drawn.mask(grid) == before).all()
    with pytest.raises(ValueError, match="read-only"):
        drawn.outer.inside(grid)[:] = False


@given(seed=SEEDS, alpha=st.floats(0.0, 1.0))
def test_the_envelope_holds_every_point(seed, alpha):
    points = np.random.default_rng(seed).random((20, 2))
    vertices = concave_envelope(points, alpha)
    corner_numbers = {tuple(point) for point in vertices}
    assert len(corner_numbers) == len(vertices)
    others = np.array([point for point in points if tuple(point) not in corner_numbers]).reshape(-1, 2)
    polygon = Path(vertices)
    assert (polygon.contains_points(others, radius=1e-9) | polygon.contains_points(others, radius=-1e-9)).all()


def test_the_envelope_shrinks_from_the_convex_hull_as_alpha_grows():
    points = np.random.default_rng(5).random((20, 2))
    areas = [abs(Curve(concave_envelope(points, alpha)).signed_area) for alpha in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)]
    assert areas == sorted(areas, reverse=True)
    assert areas[-1] < 0.95 * areas[0]


@given(seed=SEEDS, alpha=st.sampled_from([0.1, 0.5, 0.8, 0.95]))
def test_outlines_are_smooth_and_do_not_cross_themselves(seed, alpha):
    curve = draw_outline(np.random.default_rng(seed), alpha=alpha)
    assert not Curve(curve.points[::4]).crosses_itself()
    steps = np.diff(np.concatenate([curve.points, curve.points[:2]]), axis=0)
    cosine = (steps[1:] * steps[:-1]).sum(axis=1) / (np.hypot(*steps[1:].T) * np.hypot(*steps[:-1].T))
    # A B-spline has no corner: what turning there is takes several of its dense samples.
    assert np.degrees(np.arccos(np.clip(cosine, -1, 1))).max() < 75


def test_most_outlines_of_the_training_kind_have_concavities():
    hulls = []
    for seed in range(60):
        curve = geometry(seed).outer
        hull = Curve(concave_envelope(curve.points[::4], 0.0))
        hulls.append(abs(curve.signed_area) / abs(hull.signed_area))
    assert np.mean(hulls) < 0.9


def test_crossing_is_noticed():
    bow_tie = Curve(np.array([(0.0, 0.0), (1.0, 1.0), (1.0, 0.0), (0.0, 1.0)]))
    square = Curve(np.array([(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0)]))
    assert bow_tie.crosses_itself()
    assert not square.crosses_itself()


def test_arc_length_wraps_around_a_square():
    square = Curve(np.array([(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0)]))
    assert square.at(0.125) == pytest.approx([0.5, 0.0])
    assert square.at(1.5) == pytest.approx([1.0, 1.0])


def test_a_hole_too_large_for_any_outline_is_an_error(monkeypatch):
    monkeypatch.setattr("disol.geometry.outline.MOST_OUTLINES", 3)
    with pytest.raises(ValueError, match="smaller"):
        draw_geometry(np.random.default_rng(0), np.random.default_rng(1), hole_size=(3.0, 3.0))
