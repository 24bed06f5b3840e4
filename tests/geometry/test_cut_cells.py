"""Pixels cut at the true boundary: moments, components, slivers and unknowns."""

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from disol import DisolError
from disol.geometry import draw_geometry
from disol.geometry.cut_cells import SMALLEST, cut
from disol.geometry.pieces import WHOLE, cover, green, shifted, split_loops
from disol.geometry.region import Arc, Region
from disol.grid import Grid

GRID = Grid(6, 8)


def clip(polygon: np.ndarray, axis: int, bound: float, sign: float) -> np.ndarray:
    """Keep the part of a polygon with sign * coordinate <= sign * bound (Sutherland and Hodgman)."""
    kept = []
    for one, other in zip(polygon, np.roll(polygon, -1, axis=0), strict=True):
        inside, next_inside = sign * one[axis] <= sign * bound, sign * other[axis] <= sign * bound
        if inside:
            kept.append(one)
        if inside != next_inside:
            crossing = one + (bound - one[axis]) / (other[axis] - one[axis]) * (other - one)
            crossing[axis] = bound
            kept.append(crossing)
    return np.array(kept).reshape(-1, 2)


def clipped_moments(region: Region, grid: Grid) -> np.ndarray:
    """∫ x^a y^b over pixel ∩ domain of every pixel, by clipping every loop at every pixel."""
    moments = np.zeros((*grid.pixels, 4, 4))
    for loop in region.loops:
        for row, column in np.ndindex(grid.pixels):
            polygon = loop.points / grid.h - [column, row]
            for axis, bound, sign in ((0, 0, -1), (0, 1, 1), (1, 0, -1), (1, 1, 1)):
                polygon = clip(polygon, axis, bound, sign)
            if len(polygon):
                moments[row, column] += green(polygon, np.roll(polygon, -1, axis=0), np.zeros((len(polygon), 2))).sum(
                    axis=0
                )
    return moments


def covered_moments(region: Region, grid: Grid) -> np.ndarray:
    covered = cover(split_loops(region, grid), grid)
    moments = np.zeros((*grid.pixels, 4, 4))
    moments[covered.whole] = WHOLE
    moments[covered.cut] = covered.moments
    return moments


def made(polygons) -> Region:
    assume(all(np.min(points) >= 0 and np.max(points) <= 6 for points in polygons))
    try:
        return Region.from_polygons([np.asarray(points, dtype=float) * GRID.h for points in polygons])
    except DisolError:
        assume(False)
        raise


SLIT = np.array([(1, 1), (2.4, 1), (2.4, 4), (2.5, 4), (2.5, 1), (5, 1), (5, 5), (1, 5)])

# Coordinates on grid lines, in the middle of pixels, almost anywhere; in pixels.
steps = st.sampled_from([0.0, 0.5, 1.0, 2.0, 2.5, 3.0, 4.0, 5.5, 6.0]) | st.floats(0, 6).map(lambda x: round(x, 3))
polygons = st.lists(st.tuples(steps, steps), min_size=3, max_size=9, unique=True).map(np.array)


def ordered(points: np.ndarray) -> np.ndarray:
    """Order points around their middle, which seldom makes them cross."""
    x, y = (points - points.mean(axis=0)).T
    return points[np.argsort(np.arctan2(y, x), kind="stable")]


@given(outer=polygons.map(ordered), hole=polygons.map(ordered), size=st.sampled_from([0.01, 0.1, 0.4]))
@example(outer=np.array([(1, 1), (5, 1), (5, 4), (1, 4)]), hole=np.array([(2, 2), (3, 2), (3, 3), (2, 3)]), size=1.0)
@example(outer=np.array([(0, 0), (6, 0), (6, 6), (0, 6)]), hole=np.array([(2, 2), (4, 3), (3, 4)]), size=0.1)
@example(outer=np.array([(0, 3), (3, 0), (6, 3), (3, 6)]), hole=np.array([(1, 3), (3, 1), (5, 3), (3, 5)]), size=1.0)
@example(outer=SLIT, hole=np.array([(1, 1), (2, 1), (2, 2)]), size=0.1)
def test_moments_are_those_of_clipped_polygons(outer, hole, size):
    middle = outer.mean(axis=0)
    region = made([outer, middle + size * (hole - hole.mean(axis=0))])
    np.testing.assert_allclose(covered_moments(region, GRID), clipped_moments(region, GRID), atol=1e-13)


@settings(max_examples=4)
@given(seed=st.integers(0, 2**32 - 1))
def test_moments_of_drawn_domains_are_those_of_clipped_polygons(seed):
    rng = np.random.default_rng(seed)
    region = Region.from_geometry(draw_geometry(rng, rng, hole_size=(0.2, 0.4)))
    grid = Grid(7, 7)
    np.testing.assert_allclose(covered_moments(region, grid), clipped_moments(region, grid), atol=1e-13)


@settings(max_examples=8)
@given(seed=st.integers(0, 2**32 - 1), side=st.sampled_from([8, 16, 40]))
def test_elements_add_up_to_the_domain_and_carry_its_whole_boundary(seed, side):
    rng = np.random.default_rng(seed)
    region = Region.from_geometry(draw_geometry(rng, rng, alpha=0.95, hole_size=(0.2, 0.4)))
    cells = cut(region, Grid(side, side), [Arc(0, 0.1, 0.35), Arc(1, 0.9, 1.2)])
    assert cells.areas.sum() == pytest.approx(side**2 * sum(loop.signed_area for loop in region.loops), rel=1e-10)
    assert cells.pieces.length.sum() == pytest.approx(side * sum(loop.arc_lengths[-1] for loop in region.loops))
    assert cells.areas.min() >= SMALLEST
    on_arc = Arc(0, 0.1, 0.35).covers(cells.pieces.loop, cells.pieces.place)
    assert cells.pieces.length[on_arc].sum() == pytest.approx(0.25 * side * region.loops[0].arc_lengths[-1])
    # ∮ n = 0, and ∮ x · n is twice the area.
    middle = 0.5 * (cells.pieces.start + cells.pieces.end)
    flux = cells.pieces.length[:, None] * cells.pieces.normal
    assert flux.sum(axis=0) == pytest.approx([0, 0], abs=1e-9)
    assert (flux * middle).sum() == pytest.approx(2 * cells.areas.sum())


def test_the_staircase_of_a_mask_is_made_of_whole_elements_and_its_own_nodes():
    rng = np.random.default_rng(0)
    mask = np.kron(rng.random((6, 6)) < 0.6, np.ones((2, 2), dtype=bool))
    cells = cut(Region.from_mask(mask), Grid(12, 12))
    assert cells.num_cut == 0
    assert (cells.element_at >= 0).tolist() == mask.tolist()
    # Pixels that meet at a corner only have a node each there.
    frame = np.pad(mask, 1)
    corners = [frame[:-1, :-1], frame[:-1, 1:], frame[1:, 1:], frame[1:, :-1]]
    diagonal = (corners[0] & corners[2] & ~corners[1] & ~corners[3]) | (
        corners[1] & corners[3] & ~corners[0] & ~corners[2]
    )
    active = sum(corner.astype(int) for corner in corners) > 0
    assert len(cells.places) == active.sum() + diagonal.sum()


def slit(width: float, tilt: float = 0.0) -> Region:
    """A square with a slit from its top side almost to its bottom side, open to the outside; in pixels of 16."""
    left = np.array([(8.3, 1.2), (8.3 + tilt, 13.4)])
    around = np.array([(14.7, 1.2), (14.7, 14.7), (1.2, 14.7), (1.2, 1.2)])
    return Region.from_polygons([np.concatenate([left, left[::-1] + [width, 0], around]) / 16])


@pytest.mark.parametrize("width", [0.01, 0.3, 0.9])
@pytest.mark.parametrize("tilt", [0.0, 0.7, 3.1])
def test_a_wall_thinner_than_a_pixel_parts_its_sides(width, tilt):
    cells = cut(slit(width, tilt), Grid(16, 16))
    assert cells.parts().max() == 0  # around the end of the slit
    # Left and right of the slit, above its end, no element shares an unknown with one across.
    x, y = np.array([8.1 + 0.5 * tilt, 8.5 + 0.5 * tilt + width]) / 16, np.array([7.4, 7.4]) / 16
    element, local = cells.find(x, y)
    assert (element >= 0).all()
    assert not set(cells.nodes[element[0]]) & set(cells.nodes[element[1]])
    assert np.allclose(cells.corner[element] + local, np.stack([16 * x, 16 * y], axis=1))


def test_a_wall_along_a_grid_line_parts_its_sides():
    points = np.array([(1, 1), (8, 1), (8, 13), (8.2, 13), (8.2, 1), (15, 1), (15, 15), (1, 15)]) / 16
    cells = cut(Region.from_polygons([points]), Grid(16, 16))
    element, _ = cells.find(np.array([7.9, 8.3]) / 16, np.array([7.5, 7.5]) / 16)
    assert not set(cells.nodes[element[0]]) & set(cells.nodes[element[1]])


def test_an_island_in_a_hole_inside_one_pixel_is_a_component_of_its_own():
    def box(low, high):
        return np.array([(low, low), (high, low), (high, high), (low, high)]) / 4

    region = Region.from_polygons([box(0, 4), box(1.2, 1.8), box(1.4, 1.6)])
    # An island alone is a domain inside one pixel, and refused; its surroundings are not.
    with pytest.raises(DisolError, match="Loop 2 lies inside one pixel of a grid of 4 x 4"):
        cut(region, Grid(4, 4))
    cells = cut(Region.from_polygons([box(0, 4), box(1.2, 1.8)]), Grid(4, 4))
    assert len(cells.corner) == 16
    assert cells.areas.min() == pytest.approx(1 - 0.36)


def test_slivers_are_merged_and_nothing_is_lost(monkeypatch):
    monkeypatch.setattr("disol.geometry.cut_cells.SMALLEST", 1e-3)
    low = 2 - 1e-4
    points = np.array([(low, low), (6.5, low), (6.5, 6.5), (low, 6.5)]) / 8
    cells = cut(Region.from_polygons([points]), Grid(8, 8))
    assert cells.corner.min() == 2
    assert cells.areas.sum() == pytest.approx((6.5 - low) ** 2, rel=1e-14)
    assert cells.pieces.length.sum() == pytest.approx(4 * (6.5 - low))
    assert cells.areas[cells.element_at[1, 1]] == pytest.approx((1 + 1e-4) ** 2)
    # ∫ x over the corner element, slivers included, from its own corner on.
    moment = cells.moments[cells.element_at[2, 2], 1, 0]
    assert moment == pytest.approx((1 - 1e-8) / 2 * (1 + 1e-4), rel=1e-12)
    assert cells.handed[cells.element_at[2, 2]] == pytest.approx(2e-4 + 1e-8)
    assert cells.handed.sum() == pytest.approx(cells.areas.sum() - 4.5**2)


@pytest.mark.parametrize("leg", [1e-1, 1e-2, 1e-3])
def test_moments_of_a_sliver_are_known_to_as_many_digits_as_others(leg):
    """About its own corner (1, 1) a triangle has ∫ x^a y^b = l^(a + b + 2) a! b! / (a + b + 2)!."""
    low, leg = 3 - leg, 3 - (3 - leg)
    points = np.array([(low, 3.0), (3.0, low), (6.5, 3.0), (6.5, 6.5), (3.0, 6.5)]) / 8
    cells = cut(Region.from_polygons([points]), Grid(8, 8))
    moments = shifted(cells.moments[cells.element_at[2, 2]], np.array([-1.0, -1.0]))
    exact = [leg**2 / 2, -(leg**3) / 6, leg**4 / 24, leg**4 / 12]
    found = [moments[0, 0], moments[1, 0], moments[1, 1], moments[2, 0]]
    # Of moments about another corner an error of the area is one of all others.
    assert np.array(found) == pytest.approx(np.array(exact), rel=1e-12, abs=1e-13 * leg**2)


def test_points_are_found_in_their_own_component():
    rng = np.random.default_rng(1)
    region = slit(0.2, 1.0)
    cells = cut(region, Grid(16, 16))
    x, y = rng.uniform(0, 1, (2, 2000))
    element, local = cells.find(x, y)
    assert ((element >= 0) == region.contains(x, y)).all()
    inside = element >= 0
    assert np.allclose((cells.corner[element] + local)[inside] / 16, np.stack([x, y], axis=1)[inside])
    left = 16 * x < 8.3 + 1.0 * (16 * y - 1.2) / 12.2
    high = inside & (16 * y < 12)
    assert not set(cells.nodes[element[high & left]].flat) & set(cells.nodes[element[high & ~left]].flat)


@pytest.mark.parametrize(
    ("polygon", "arcs", "message"),
    [
        ([(0.5, 0.5), (1.2, 0.5), (1.2, 0.9)], [], r"Loop 0 leaves the grid, which covers \[0, 1\] x \[0, 1\]"),
        ([(-0.1, 0.5), (0.5, 0.5), (0.5, 0.9)], [], "Loop 0 leaves the grid"),
        ([(0.51, 0.51), (0.6, 0.51), (0.6, 0.6)], [], "Loop 0 lies inside one pixel of a grid of 8 x 8"),
        ([(0.1, 0.1), (0.9, 0.1), (0.9, 0.9)], [Arc(1)], "loops 0 to 0, got an arc of loop 1"),
    ],
)
def test_domains_that_do_not_fit_the_grid_are_refused(polygon, arcs, message):
    with pytest.raises(DisolError, match=message):
        cut(Region.from_polygons([polygon]), Grid(8, 8), arcs)
