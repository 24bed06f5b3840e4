"""Parts of a boundary by name."""

import numpy as np
import pytest

from disol.errors import DisolError
from disol.geometry.named_parts import SIDES, find_part
from disol.geometry.region import Region

BOX = np.array([[0.1, 0.2], [0.9, 0.2], [0.9, 0.6], [0.1, 0.6]])
HOLE = np.array([[0.4, 0.3], [0.5, 0.3], [0.5, 0.4], [0.4, 0.4]])
ANGLES = 2 * np.pi * np.arange(200) / 200
DISC = 0.5 + 0.4 * np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1)


def length_of(region: Region, name: str) -> float:
    return sum(float((arc.end - arc.start) * region.loops[arc.loop].arc_lengths[-1]) for arc in find_part(region, name))


def middle_of(region: Region, name: str) -> np.ndarray:
    (arc,) = find_part(region, name)
    return region.loops[arc.loop].at(0.5 * (arc.start + arc.end))


@pytest.mark.parametrize("start", range(4))
@pytest.mark.parametrize(
    ("name", "length", "middle"),
    [
        ("left", 0.4, (0.1, 0.4)),
        ("right", 0.4, (0.9, 0.4)),
        ("top", 0.8, (0.5, 0.2)),
        ("bottom", 0.8, (0.5, 0.6)),
        ("near:0.5,0.25", 0.8, (0.5, 0.2)),
        ("near:0.44,0.32", 0.1, (0.45, 0.3)),
    ],
)
def test_sides_of_a_rectangle_are_its_edges_wherever_its_loop_starts(
    start: int, name: str, length: float, middle: tuple[float, float]
) -> None:
    region = Region.from_polygons([np.roll(BOX, start, axis=0), HOLE])
    assert length_of(region, name) == pytest.approx(length)
    assert middle_of(region, name) == pytest.approx(middle)


def test_sides_of_the_staircase_of_a_mask_are_those_of_its_polygon() -> None:
    mask = np.zeros((20, 30), dtype=bool)
    mask[4:12, 2:18] = True
    region = Region.from_mask(mask)
    for name in SIDES:
        assert length_of(region, name) == pytest.approx(0.4 if name in ("left", "right") else 0.8)
    assert middle_of(region, "near:0,0.5") == pytest.approx([0.1, 0.4])


def test_a_bracket_has_only_its_outermost_edges_on_a_side() -> None:
    bracket = np.array([[0.1, 0.1], [0.3, 0.1], [0.3, 0.7], [0.9, 0.7], [0.9, 0.9], [0.1, 0.9]])
    region = Region.from_polygons([bracket])
    assert length_of(region, "right") == pytest.approx(0.2)
    assert middle_of(region, "right") == pytest.approx([0.9, 0.8])
    assert middle_of(region, "top") == pytest.approx([0.2, 0.1])


def test_a_disc_is_parted_into_quarters() -> None:
    region = Region.from_polygons([DISC])
    quarter = region.loops[0].arc_lengths[-1] / 4
    lengths = [length_of(region, name) for name in SIDES]
    assert lengths == pytest.approx([quarter] * 4, rel=0.03)
    assert middle_of(region, "left") == pytest.approx([0.1, 0.5], abs=0.01)


def test_loops_and_ranges_of_them_are_parts() -> None:
    region = Region.from_polygons([BOX, HOLE])
    assert length_of(region, "outer") == pytest.approx(2.4)
    assert length_of(region, "hole1") == pytest.approx(0.4)
    # From the highest point, the leftmost, clockwise: a third of the loop is the top edge.
    assert middle_of(region, f"outer:0-{1 / 3:.12f}") == pytest.approx([0.5, 0.2])


def test_a_side_that_is_a_point_is_no_part() -> None:
    pointed = Region.from_polygons([np.array([[0.1, 0.4], [0.9, 0.5], [0.1, 0.6]])])
    assert length_of(pointed, "left") == pytest.approx(0.2)
    with pytest.raises(DisolError, match="Nothing of this boundary faces right"):
        find_part(pointed, "right")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("hole2", "There is no part 'hole2' of this boundary. Use left, right, top, bottom, outer, hole1, a range"),
        ("", "There is no part ''"),
        ("outer:0,1-0,3", "got 'outer:0' in 'outer:0,1-0,3'"),
        ("near:1", "is written like near:0.2,0.7, got 'near:1'"),
        ("near:nan,1", "is written like near:0.2,0.7"),
        ("outer:0.3-2", "A boundary range goes from one fraction in"),
    ],
)
def test_an_unknown_part_is_told_in_one_line(name: str, message: str) -> None:
    with pytest.raises(DisolError, match=message.replace("[", r"\[")):
        find_part(Region.from_polygons([BOX, HOLE]), name)


@pytest.mark.parametrize("unit", [1.0, 25.4, 1e-3, 39.37])
def test_rounding_of_coordinates_renames_no_loop_and_moves_no_range(unit: float) -> None:
    turn = np.arange(12) * np.pi / 6
    centres = 0.25 * np.stack([np.cos(turn[:4] * 3 + np.pi / 4), np.sin(turn[:4] * 3 + np.pi / 4)], axis=1)
    circle = 0.06 * np.stack([np.cos(turn), np.sin(turn)], axis=1)
    corners = np.array([[-0.4, -0.4], [0.4, -0.4], [0.4, 0.4], [-0.4, 0.4]])
    for noise in (0.0, 1e-13, -1e-13):
        outer = corners + [[0, noise], [0, 0], [0, 0], [0, 0]]
        loops = [0.5 + points / unit for points in (unit * outer, *(unit * (centre + circle) for centre in centres))]
        region = Region.from_polygons(loops)
        holes = [
            region.loops[find_part(region, f"hole{number}")[0].loop].points.mean(axis=0) for number in (1, 2, 3, 4)
        ]
        across, down = (np.array(holes) < 0.5).T
        assert across.tolist() == [True, False, True, False]
        assert down.tolist() == [True, True, False, False]
        (top,) = find_part(region, "outer:0-0.25")
        assert region.loops[0].at(top.start + 0.125) == pytest.approx([0.5, 0.1])
