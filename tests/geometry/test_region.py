"""Domains with true boundaries: what they accept, how they are turned, and arcs of them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from disol import DisolError
from disol.geometry import Segment, draw_geometry, named_shape
from disol.geometry.loops import name_curves, name_loops
from disol.geometry.region import Arc, Region, arcs_of_pixels
from disol.geometry.shapes import OUTLINES, circle
from disol.grid import Grid

SQUARE = np.array([(0.1, 0.1), (0.9, 0.1), (0.9, 0.9), (0.1, 0.9)])


def small(points, size=0.3, centre=0.5):
    return centre + size * (np.asarray(points) - 0.5)


def test_loops_are_turned_by_how_many_others_go_around_them():
    rings = [small(circle(0.5, 0.5, 0.5), size) for size in (0.9, 0.6, 0.3)]
    region = Region.from_polygons([rings[1][::-1], rings[0], rings[2][::-1]])
    assert [loop.signed_area > 0 for loop in region.loops] == [False, True, True]
    # 0.05 and 0.4 from the centre are in the inner disc and the outer ring, 0.2 is in the gap.
    assert region.contains(0.5 + np.array([0.05, 0.2, 0.4, 0.49]), np.full(4, 0.5)).tolist() == [
        True,
        False,
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("polygons", "message"),
    [
        ([[(0, 0), (1, 1), (1, 0), (0, 1)]], "Loop 0 crosses or touches itself near"),
        ([[(0, 0), (1, 0), (1, 1), (0.5, 0), (0, 1)]], "Loop 0 crosses or touches itself near"),
        ([[(0, 0), (1, 0), (1, 1), (1, 0.5), (1, 1), (0, 1)]], "Loop 0 crosses or touches itself near"),
        ([SQUARE, SQUARE + 0.05], "Loops 0 and 1 cross or touch near"),
        ([SQUARE, small(SQUARE, 0.5, 0.5) - [0.2, 0]], "Loops 0 and 1 cross or touch near"),
        ([SQUARE, SQUARE], "Loops 0 and 1 cross or touch near"),
        ([[(0, 0), (0.5, 0.5), (1, 1)]], "Loop 0 has no area"),
        ([[(0, 0), (1, 1)]], "Loop 0 has no area"),
        ([SQUARE, [(0, 0), (np.nan, 1), (1, 1)]], "A polygon holds NaN or infinite values"),
        ([[0.0, 1.0, 2.0]], r"A polygon must be an array \[point, 2\], got shape \(3,\)"),
        ([], "at least one loop"),
    ],
)
def test_loops_that_bound_no_domain_are_refused(polygons, message):
    with pytest.raises(DisolError, match=message):
        Region.from_polygons(polygons)


def test_loops_have_the_names_that_those_of_masks_have():
    low, high = small(SQUARE, 0.2, 0.2), small(SQUARE, 0.2, 0.7)
    region = Region.from_polygons([small(SQUARE, 0.05, 0.7), high, small(SQUARE, 0.05, 0.2), low])
    places = name_curves(region.loops).places
    assert {name: number for name, (number, _) in places.items()} == {"outer": 3, "outer2": 1, "hole1": 2, "hole2": 0}
    assert set(name_loops(region.mask(Grid(64, 64))).loops) == set(places)


def test_a_drawn_segment_is_an_arc():
    assert Arc.from_segment(Segment(0.9, 0.2, curve=1)) == Arc(1, 0.9, 0.9 + 0.2)


def test_a_hole_beside_the_outer_curve_is_refused():
    from disol.geometry import Curve, Geometry

    with pytest.raises(DisolError, match="Hole 1 lies outside the outer curve"):
        Region.from_geometry(Geometry(Curve(small(SQUARE, 0.3, 0.2)), (Curve(small(SQUARE, 0.3, 0.7)),)))


@settings(max_examples=6)
@given(seed=st.integers(0, 2**32 - 1))
def test_drawn_domains_are_regions_that_agree_with_their_masks(seed):
    rng = np.random.default_rng(seed)
    geometry = draw_geometry(rng, rng, hole_size=(0.2, 0.4))
    region = Region.from_geometry(geometry)
    grid = Grid(32, 48)
    x, y = (np.broadcast_to(axis, grid.pixels).reshape(-1) for axis in grid.pixel_centres())
    assert (region.contains(x, y).reshape(grid.pixels) == region.mask(grid)).all()
    assert region.mask(Grid(256, 256)).mean() == pytest.approx(sum(loop.signed_area for loop in region.loops), abs=5e-3)


@pytest.mark.parametrize("name", OUTLINES)
def test_named_shapes_are_regions(name):
    assert len(Region.from_geometry(named_shape(name, with_hole=True)).loops) > 1


masks = st.integers(0, 2**16 - 1).map(
    lambda bits: np.array([bits >> k & 1 for k in range(16)], dtype=bool).reshape(4, 4)
)


@given(mask=masks.filter(np.any))
def test_the_staircase_of_a_mask_is_the_mask(mask):
    region = Region.from_mask(mask)
    assert (region.mask(Grid(4, 4)) == mask).all()
    assert sum(loop.signed_area for loop in region.loops) == pytest.approx(mask.mean())
    assert all(set(np.hypot(*np.diff(loop.points, axis=0).T)) <= {0.25} for loop in region.loops)


def test_a_marked_side_of_a_rectangle_ends_at_its_corners():
    mask, marked = np.zeros((2, 8, 8), dtype=bool)
    mask[1:7, 2:6], marked[1:7, 2] = True, True
    (arc,) = arcs_of_pixels(mask, marked)
    loop = Region.from_mask(mask).loops[arc.loop]
    assert np.sort([loop.at(arc.start), loop.at(arc.end)], axis=0) == pytest.approx(
        np.array([[0.25, 0.125], [0.25, 0.875]])
    )
    marked[1, 2:5] = True
    (arc,) = arcs_of_pixels(mask, marked)  # around a corner
    assert np.array([loop.at(arc.start), loop.at(arc.end)]) == pytest.approx(np.array([[0.25, 0.875], [0.625, 0.125]]))


@given(mask=masks.filter(np.any), marked=masks)
def test_arcs_of_marked_pixels_run_along_their_outer_sides(mask, marked):
    region = Region.from_mask(mask)
    marked = marked & mask
    frame = np.pad(mask, 1)
    around = [np.roll(frame, shift, axis)[1:-1, 1:-1] for axis in (0, 1) for shift in (1, -1)]
    reached = np.zeros_like(mask)
    for arc in arcs_of_pixels(mask, marked):
        loop = region.loops[arc.loop]
        step = 0.5 / len(loop.points)
        for place in np.arange(arc.start + step, arc.end, 2 * step):
            before, after = loop.at(place - step), loop.at(place + step)
            inward = 0.25 * np.array([before[1] - after[1], after[0] - before[0]]) / 0.5
            column, row = np.floor((0.5 * (before + after) + inward) * 4).astype(int)
            reached[row, column] = True
    assert (reached == marked & ~np.logical_and.reduce(around)).all()


@pytest.mark.parametrize("fractions", [(0.3, 0.3), (0.5, 0.2), (0.2, 1.3), (-0.1, 0.2), (0.0, np.nan)])
def test_arcs_without_a_length_or_beyond_a_loop_are_refused(fractions):
    with pytest.raises(DisolError, match=r"An arc goes|end of an arc must be finite"):
        Arc(0, *fractions)


def test_an_arc_that_passes_the_start_covers_both_sides_of_it():
    places = np.array([0.05, 0.15, 0.5, 0.95])
    assert Arc(0, 0.9, 1.1).covers(np.zeros(4, int), places).tolist() == [True, False, False, True]
    assert not Arc(1).covers(np.zeros(4, int), places).any()


def painted(radius: float, hole: float, side: int = 40, centre=(0.52, 0.47)) -> np.ndarray:
    """How much of each pixel a ring covers."""
    x, y = Grid(16 * side, 16 * side).pixel_centres()
    distance = np.hypot(x - centre[0], y - centre[1])
    ring = (distance < radius) & (distance > hole)
    return ring.reshape(side, 16, side, 16).mean(axis=(1, 3))


def test_a_picture_is_traced_to_a_small_part_of_its_pixels():
    region = Region.from_levels(painted(0.37, 0.12))
    assert [loop.signed_area > 0 for loop in region.loops] == [True, False]
    for loop, radius in zip(region.loops, (0.37, 0.12), strict=True):
        distance = np.hypot(*(loop.points - [0.52, 0.47]).T)
        assert np.abs(distance - radius).max() < 0.1 / 40
        assert abs(loop.signed_area) == pytest.approx(np.pi * radius**2, abs=2 * np.pi * radius * 0.05 / 40)


def test_a_picture_without_grey_keeps_its_edges_and_its_parts_apart():
    assert sum(loop.signed_area for loop in Region.from_levels(np.ones((3, 5))).loops) == pytest.approx(5 / 3, rel=0.05)
    diagonal = np.eye(4)
    assert len(Region.from_levels(diagonal, 0.6).loops) == 4
    assert len(Region.from_levels(diagonal, 0.4).loops) == 1
    with pytest.raises(DisolError, match=r"No pixel of the picture exceeds 0\.5"):
        Region.from_levels(np.zeros((3, 3)))


@given(levels=st.lists(st.floats(0, 1).map(lambda x: round(x, 2)), min_size=25, max_size=25))
def test_traced_loops_neither_cross_nor_touch_and_hold_the_bright_centres(levels):
    picture = np.array(levels).reshape(5, 5)
    picture[2, 2] = 1.0
    region = Region.from_levels(picture)
    assert (region.mask(Grid(5, 5)) == (picture > 0.5)).all()
    again = Region.from_polygons([loop.points for loop in region.loops])  # which checks and turns them
    assert [loop.signed_area for loop in again.loops] == [loop.signed_area for loop in region.loops]
