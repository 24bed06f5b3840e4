"""Boundary loops and segments."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from disol.geometry import Raster, Segment, draw_geometry, draw_segments, named_shape, trace_boundary
from disol.geometry.boundary import run_along
from disol.geometry.curve import eroded
from disol.geometry.shapes import OUTLINES
from disol.grid import Grid

SEEDS = st.integers(0, 2**32)


def raster(seed: int, side: int = 64, hole: bool = True) -> Raster:
    rngs = np.random.default_rng([seed, 0]), np.random.default_rng([seed, 1])
    return Raster(draw_geometry(*rngs, hole_size=(0.2, 0.4) if hole else None), Grid(side, side))


@given(seed=SEEDS, side=st.sampled_from([48, 64, 128]))
def test_the_loops_are_closed_and_visit_exactly_the_boundary_pixels(seed, side):
    drawn = raster(seed, side)
    visited = np.zeros_like(drawn.mask)
    for loop in drawn.loops:
        steps = np.abs(loop - np.roll(loop, 1, axis=0)).max(axis=1)
        assert (steps == 1).all()
        visited[tuple(loop.T)] = True
    assert (visited == (drawn.mask & ~eroded(drawn.mask))).all()
    assert (drawn.mask | ~visited).all()


@given(seed=SEEDS)
def test_the_outer_loop_comes_first(seed):
    outer, *holes = raster(seed).loops
    assert len(holes) == 1
    assert (outer.min(axis=0) <= holes[0].min(axis=0)).all()
    assert (outer.max(axis=0) >= holes[0].max(axis=0)).all()


def test_a_single_pixel_and_a_thin_line_are_loops_too():
    assert trace_boundary(np.ones((1, 1), dtype=bool))[0].tolist() == [[0, 0]]
    assert sorted(map(tuple, trace_boundary(np.ones((1, 3), dtype=bool))[0].tolist())) == [
        (0, 0),
        (0, 1),
        (0, 1),
        (0, 2),
    ]


@given(seed=SEEDS, start=st.floats(0, 1), length=st.floats(0.01, 1.0), curve=st.integers(0, 1))
def test_a_segment_is_contiguous_and_of_the_asked_length(seed, start, length, curve):
    drawn = raster(seed)
    loop = drawn.loops[curve]
    run = drawn.pixels_of(Segment(start, length, curve))
    assert len(run) == max(1, round(length * len(loop)))
    assert (np.abs(np.diff(run, axis=0)).max(axis=1, initial=0) <= 1).all()
    assert drawn.mask[tuple(run.T)].all()


@settings(max_examples=40)
@given(seed=SEEDS, start=st.floats(0, 1), length=st.floats(0.05, 0.3), curve=st.integers(0, 1))
def test_resolutions_agree_on_where_a_segment_lies(seed, start, length, curve):
    segment = Segment(start, length, curve)
    ends = []
    for side in (64, 128, 256):
        run = raster(seed, side).pixels_of(segment)
        ends.append((run[[0, len(run) // 2]] + 0.5) / side)
    for end in ends[:2]:
        assert np.abs(end - ends[2]).max() < 0.08


def test_a_segment_starts_where_its_arc_length_says():
    drawn = raster(11, side=256)
    for start in np.linspace(0, 0.9, 10):
        x, y = drawn.geometry.outer.at(start)
        row, column = drawn.pixels_of(Segment(start, 0.1))[0]
        assert np.hypot((column + 0.5) / 256 - x, (row + 0.5) / 256 - y) < 1.5 / 256


def test_segments_wrap_around_the_end_of_a_loop():
    loop = np.stack([np.arange(10), np.zeros(10, dtype=int)], axis=1)
    assert run_along(loop, 8, 0.4)[:, 0].tolist() == [8, 9, 0, 1]


@given(seed=SEEDS, count=st.integers(1, 6))
def test_drawn_segments_are_disjoint(seed, count):
    segments = draw_segments(np.random.default_rng(seed), count, (0.05, 0.15))
    covered = np.zeros(10_000, dtype=int)
    for segment in segments:
        assert 0.05 <= segment.length <= 0.15
        positions = (segment.start + np.linspace(0, segment.length, 2000)) % 1.0
        covered[np.unique((positions * 10_000).astype(int))] += 1
    assert covered.max() == 1


@given(seed=SEEDS, count=st.integers(1, 6))
def test_drawn_segments_leave_a_fifth_of_the_free_rest_between_them(seed, count):
    segments = draw_segments(np.random.default_rng(seed), count, (0.05, 0.15))
    free = 1.0 - sum(segment.length for segment in segments)
    for segment, following in zip(segments, [*segments[1:], segments[0]], strict=True):
        gap = ((following.start - segment.start) % 1.0 or 1.0) - segment.length
        assert gap >= 0.2 * free / count - 1e-12


def test_more_segments_than_fit_on_a_loop_are_an_error():
    with pytest.raises(ValueError, match="fewer"):
        draw_segments(np.random.default_rng(0), 8, (0.14, 0.15))


@pytest.mark.parametrize("length", [0.0, -0.1, 1.5])
def test_a_segment_of_impossible_length_is_an_error(length):
    with pytest.raises(ValueError, match="segment"):
        Segment(0.0, length)


@pytest.mark.parametrize("name", OUTLINES)
@pytest.mark.parametrize("side", [32, 64, 128])
def test_named_shapes_are_one_piece_and_their_holes_are_inside(name, side):
    plain, pierced = (Raster(named_shape(name, hole), Grid(side, side)) for hole in (False, True))
    assert len(plain.loops) == 1
    assert len(pierced.loops) == 1 + len(pierced.geometry.holes)
    assert (plain.mask | ~pierced.mask).all()
    assert pierced.mask.sum() < plain.mask.sum()


def test_an_unknown_shape_is_an_error_that_lists_the_known_ones():
    with pytest.raises(ValueError, match="arrow, parallelogram, pentagon, star, y, triangle, slotted-plate"):
        named_shape("hexagon")
