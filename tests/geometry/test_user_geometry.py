"""A user's own geometry: loops and ranges by name, polygons from files, painted pictures."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.image import imsave
from PIL import Image

import disol
from disol.errors import DisolError
from disol.geometry import Raster, named_shape
from disol.geometry.curve import parts
from disol.geometry.drawings import area_means, read_drawing
from disol.geometry.loops import LONGEST, name_loops, pixels_between, read_ranges
from disol.geometry.outline_files import MOST_PARTS, MOST_POINTS, read_outline
from disol.geometry.region import Region
from disol.geometry.shapes import HOLES, OUTLINES
from disol.grid import Grid

SQUARE = [[0.25, 0.25], [0.75, 0.25], [0.75, 0.75], [0.25, 0.75]]
SMALL = [[0.4, 0.4], [0.5, 0.4], [0.5, 0.5]]
BESIDE = [[0.8, 0.25], [0.95, 0.25], [0.95, 0.75], [0.8, 0.75]]


def plate(side: int = 20) -> np.ndarray:
    """A square from 2 to side − 2 with two holes, the second above the first on the right."""
    mask = np.zeros((side, side), dtype=bool)
    mask[2 : side - 2, 2 : side - 2] = True
    mask[12:15, 4:7] = False
    mask[5:9, 11:15] = False
    return mask


def marked(mask: np.ndarray, text: str) -> list[tuple[int, int]]:
    loops = name_loops(mask)
    return list(zip(*(axis.tolist() for axis in np.nonzero(loops.mark(read_ranges(text)))), strict=True))


def test_the_outer_loop_starts_at_its_highest_leftmost_pixel_and_runs_clockwise():
    outer = name_loops(plate()).loops["outer"]
    assert outer[:3].tolist() == [[2, 2], [2, 3], [2, 4]]
    assert outer[-1].tolist() == [3, 2]


def test_holes_are_named_from_the_top_down_and_run_counter_clockwise():
    loops = name_loops(plate()).loops
    assert list(loops) == ["outer", "hole1", "hole2"]
    assert loops["hole1"][0].tolist() == [4, 11]
    assert loops["hole2"][0].tolist() == [11, 4]
    assert loops["hole1"][:, 1].min() == 10
    first, second = loops["hole1"][:2]
    assert second[1] < first[1] or second[0] > first[0]


def test_quarters_of_a_square_are_its_sides():
    square = np.zeros((12, 12), dtype=bool)
    square[1:10, 1:10] = True
    assert marked(square, "outer:0-0.25") == [(1, column) for column in range(1, 9)]
    assert marked(square, "outer:0.25-0.5") == [(row, 9) for row in range(1, 9)]
    assert marked(square, "outer:0.75-1") == [(row, 1) for row in range(2, 10)]


def test_a_range_passes_through_the_start_if_it_begins_later_than_it_ends():
    square = np.ones((9, 9), dtype=bool)
    assert marked(square, "outer:0.875-0.125") == sorted(
        [(0, column) for column in range(4)] + [(row, 0) for row in range(1, 5)]
    )


@given(name=st.sampled_from(list(OUTLINES)), cut=st.floats(0.01, 0.99), side=st.sampled_from([32, 64, 128]))
def test_ranges_that_follow_each_other_share_no_step_of_the_loop(name, cut, side):
    for loop in name_loops(Raster(named_shape(name, with_hole=True), Grid(side, side)).mask).loops.values():
        first, second = pixels_between(loop, 0.0, cut), pixels_between(loop, cut, 1.0)
        if cut * len(loop) < len(loop) - 2:  # a range shorter than a pixel takes the one it starts in
            assert np.concatenate([first, second]).tolist() == loop.tolist()


@given(name=st.sampled_from(list(OUTLINES)), start=st.floats(0, 0.9), length=st.floats(0.05, 0.5))
def test_resolutions_agree_on_where_a_range_lies(name, start, length):
    end = (start + length) % 1.0
    middles = []
    for side in (64, 256):
        loop = name_loops(Raster(named_shape(name), Grid(side, side)).mask).loops["outer"]
        run = pixels_between(loop, start, end)
        middles.append(np.sort((run + 0.5) / side, axis=0).mean(axis=0))
    assert np.abs(middles[0] - middles[1]).max() < 0.06


def test_values_are_given_to_ranges_and_later_ranges_win():
    loops = name_loops(plate())
    force = loops.assign(read_ranges("outer:0-0.5=-2,outer:0.25-1=3,hole1=0.5", valued=True))
    assert set(np.unique(force)) == {-2.0, 0.0, 0.5, 3.0}
    assert force[2, 2] == -2
    assert force[2 + 8, 17] == 3
    assert (force[4, 11:15] == 0.5).all()


def test_separate_parts_have_their_own_outer_loops():
    mask = plate()
    mask[6, 12] = True  # an island in the upper hole
    loops = name_loops(mask).loops
    assert list(loops) == ["outer", "outer2", "hole1", "hole2"]
    assert loops["outer2"].tolist() == [[6, 12]]
    assert marked(mask, "outer2:0.2-0.3") == [(6, 12)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "outer:",
        "outer:0.1",
        "outer:0.1-",
        "outer:0.1-1.2",
        "outer:0.3-0.3",
        "outer:-0.1-0.3",
        "outer=1",
        "0.1-0.2",
        "outer:nan-1",
    ],
)
def test_a_range_that_is_not_one_is_an_error_with_an_example(text):
    with pytest.raises(ValueError, match=r"outer:0\.1-0\.3"):
        read_ranges(text)


@pytest.mark.parametrize(
    "text", ["outer:" + 60_000 * "1", "outer:" + (LONGEST - 6) * "1", "o" * LONGEST, "o," * LONGEST]
)
def test_a_range_of_any_length_is_refused_in_one_short_line(text):
    with pytest.raises(DisolError) as raised:
        name_loops(plate()).mark(read_ranges(text))
    assert len(str(raised.value)) < 400


@given(text=st.text(alphabet="outerhl:0123456789.e-+=, ", max_size=30))
def test_any_text_is_ranges_or_one_clear_error(text):
    loops = name_loops(plate())
    try:
        values = loops.assign(read_ranges(text, valued=True))
    except DisolError:
        return
    assert values.shape == (20, 20)


def test_a_mask_of_specks_is_refused_before_its_loops_are_named():
    specks = np.indices((100, 100)).sum(axis=0) % 2 == 0
    with pytest.raises(DisolError, match=r"5000 boundary loops on this grid, at most 2000 .* Remove specks"):
        name_loops(specks)


def test_of_many_loops_some_are_listed():
    dots = np.zeros((20, 20), dtype=bool)
    dots[1::4, 1::4] = True
    loops = name_loops(dots)
    assert len(loops.loops) == 25
    assert str(loops).endswith("outer12 (1 pixels) and 13 more")
    with pytest.raises(DisolError, match=r"The loops are outer, outer2, .* outer12 and 13 more\."):
        loops.mark(read_ranges("hole1"))


@given(seed=st.integers(0, 1000), share=st.floats(0.2, 0.95))
def test_the_loops_of_a_mask_are_those_of_its_parts(seed, share):
    mask = np.random.default_rng(seed).random((9, 12)) < share
    labels, count = parts(mask)
    loops = name_loops(mask).loops
    alone = [name_loops(labels == part).loops for part in range(1, count + 1)]
    outer = [loops["outer" if part == 1 else f"outer{part}"].tolist() for part in range(1, count + 1)]
    assert outer == [own["outer"].tolist() for own in alone]
    assert len(loops) == sum(len(own) for own in alone)


def test_an_unknown_loop_is_an_error_that_lists_the_known_ones():
    with pytest.raises(ValueError, match=r"'hole3'.*outer, hole1, hole2"):
        name_loops(plate()).mark(read_ranges("hole3"))


def written(path, content) -> str:
    path.write_text(json.dumps(content))
    return str(path)


@pytest.mark.parametrize("name", OUTLINES)
def test_a_shape_written_to_a_file_is_the_shape(tmp_path, name):
    content = {"outer": OUTLINES[name].tolist(), "holes": [hole.tolist() for hole in HOLES[name]]}
    geometry, frame = read_outline(written(tmp_path / "a.json", content))
    grid = Grid(96, 96)
    assert not frame.is_fitted
    assert (geometry.mask(grid) == named_shape(name, with_hole=True).mask(grid)).all()


@pytest.mark.parametrize("wrap", [lambda polygon: polygon, lambda polygon: {"type": "Feature", "geometry": polygon}])
def test_geojson_has_y_upwards_and_repeats_its_first_point(tmp_path, wrap):
    upwards = [[[x, 1 - y] for x, y in [*OUTLINES["y"].tolist(), OUTLINES["y"][0].tolist()]]]
    geometry, frame = read_outline(written(tmp_path / "a.geojson", wrap({"type": "Polygon", "coordinates": upwards})))
    assert not frame.is_fitted
    assert len(geometry.outer.points) == len(OUTLINES["y"])
    assert (geometry.mask(Grid(64, 64)) == named_shape("y").mask(Grid(64, 64))).all()


def test_altitudes_of_geojson_do_not_count(tmp_path):
    rings = [[[x, y, 250.0] for x, y in SQUARE]]
    geometry, _ = read_outline(written(tmp_path / "a.geojson", {"type": "Polygon", "coordinates": rings}))
    assert geometry.mask(Grid(32, 32)).sum() == 16**2


@given(scale=st.floats(2, 1e6), x=st.floats(-1e6, 1e6), y=st.floats(-1e6, 1e6))
def test_an_outline_anywhere_is_fitted_into_the_square_in_its_proportions(tmp_path_factory, scale, x, y):
    moved = (OUTLINES["arrow"] * scale + [x, y]).tolist()
    hole = (HOLES["arrow"][0] * scale + [x, y]).tolist()
    path = tmp_path_factory.mktemp("outline") / "a.json"
    geometry, frame = read_outline(written(path, {"outer": moved, "holes": [hole]}))
    points = geometry.outer.points
    assert frame.is_fitted
    there = frame.to_drawing(geometry.holes[0].points)
    assert np.sort(there, axis=0) == pytest.approx(np.sort(np.array(hole), axis=0), rel=1e-9, abs=1e-9 * scale)
    assert points.min(axis=0) == pytest.approx([0.05, 0.5 - 0.45 * 0.76 / 0.89], abs=1e-6)
    assert points.max(axis=0) == pytest.approx([0.95, 0.5 + 0.45 * 0.76 / 0.89], abs=1e-6)
    assert len(geometry.holes) == 1


def star_shaped(rng):
    count = int(rng.integers(3, 12))
    angles = 2 * np.pi * (np.arange(count) + rng.uniform(-0.3, 0.3, count)) / count
    return rng.uniform(0.3, 1, count)[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)


def monotone(rng):
    """A polygon above and below a line, turned by any angle."""
    x = np.cumsum(rng.uniform(0.05, 1, int(rng.integers(2, 9))))
    above, below = (np.stack([x, sign * rng.uniform(0.05, 0.5, len(x))], axis=1) for sign in (1, -1))
    angle = rng.uniform(0, 2 * np.pi)
    return np.concatenate([above, below[::-1]]) @ [[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]


def with_points_on_sides(rng, corners):
    return np.concatenate(
        [
            start + np.append(0, np.sort(rng.random(rng.choice([0, 1, 3, 20]))))[:, None] * (end - start)
            for start, end in zip(corners, np.roll(corners, -1, axis=0), strict=True)
        ]
    )


def with_repeated_points(rng, points):
    """Repeat some points, but for their last digits."""
    again = points + rng.uniform(-1, 1, points.shape) * np.finfo(float).eps * np.abs(points).max()
    return np.stack([points, again], axis=1).reshape(-1, 2)[
        np.stack([np.ones(len(points), bool), rng.random(len(points)) < 0.2], axis=1).reshape(-1)
    ]


@settings(max_examples=200)
@given(
    seed=st.integers(0, 2**32 - 1),
    shape=st.sampled_from([star_shaped, monotone]),
    exponent=st.floats(-12, 12),
    offset=st.sampled_from([0.0, 1.0, 1e3, 1e6]),
    refine=st.booleans(),
    repeat=st.booleans(),
)
def test_polygons_that_do_not_cross_themselves_are_read_in_any_unit_and_place(
    seed, shape, exponent, offset, refine, repeat
):
    """However many of their points lie on one line, or are repeated but for the last digits."""
    rng = np.random.default_rng(seed)
    points = 10.0**exponent * (shape(rng) + offset * rng.uniform(-1, 1, 2))
    points = with_points_on_sides(rng, points) if refine else points
    points = with_repeated_points(rng, points) if repeat else points
    geometry, frame = read_outline({"outer": points[:: rng.choice([-1, 1])].tolist()})
    region = Region.from_geometry(geometry)
    x, y = points.T
    area = 0.5 * abs((x - x[0]) @ np.roll(y - y[0], -1) - (y - y[0]) @ np.roll(x - x[0], -1))
    assert frame.length**2 * region.loops[0].signed_area == pytest.approx(area, rel=1e-6)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"outer": SQUARE[:2]}, "3 to 2000 different points, got 2"),
        ({"outer": [SQUARE[0]] * 8}, "3 to 2000 different points, got 0"),
        ({"outer": [[i, i % 7] for i in range(MOST_POINTS + 1)]}, "got 2001"),
        ({"outer": [SQUARE[i] for i in (0, 2, 1, 3)]}, "crosses or touches itself near 0.5, 0.5"),
        ({"outer": [[0, 0], [1, 0], [1, 1], [0.5, 0], [0, 1]]}, "crosses or touches itself near"),
        ({"outer": [[0, 0], [0.5, 0.5], [1, 0], [1, 1], [0.5, 0.5], [0, 1]]}, "crosses or touches itself"),
        ({"type": "Polygon", "coordinates": [[[0, 0, 0, 0], [1, 0, 0, 0], [1, 1, 0, 0]]]}, "list of points"),
        ({"outer": [[0, 0], [0.5, 0.5], [1, 1]]}, "no area"),
        ({"outer": SQUARE, "holes": [[[0.5, 0.5], [0.9, 0.5], [0.9, 0.6]]]}, "Hole 1 .* reaches outside"),
        ({"outer": SQUARE[:3], "holes": [[[0.3, 0.6], [0.4, 0.6], [0.4, 0.7]]]}, "Hole 1 .* reaches outside"),
        ({"outer": SQUARE, "holes": [[[1.92, 0.92], [1.95, 0.92], [1.95, 0.95]]]}, "Hole 1 .* reaches outside"),
        ({"outer": SQUARE, "holes": [[[0.5, 0.5]]]}, "Hole 1 .* 3 to 2000"),
        ({"outer": SQUARE, "holes": 3}, "must hold"),
        ({"outer": [[0, 0], [1, "a"], [1, 1]]}, "list of points"),
        ({"outer": [[0, 0], [1, None], [1, 1]]}, "list of points"),
        ({"outer": [[0, 0, 0], [1, 0, 0], [1, 1, 0]]}, "list of points"),
        ({"outer": [[0, 0], [1e999, 0], [1, 1]]}, "not finite"),
        ({"outer": "abc"}, "list of points"),
        ({"inner": SQUARE}, "must hold"),
        ({"outer": SQUARE, "hole": []}, "must hold"),
        ({"outer": SQUARE, "unit": "mm"}, "must hold outer and holes only, got 'unit'"),
        ({"type": "MultiPolygon", "coordinates": []}, "must hold"),
        ({"type": "MultiPolygon", "coordinates": [SQUARE]}, "list of points"),
        ({"type": "MultiPolygon", "coordinates": [[SQUARE], []]}, "must hold"),
        ({"type": "MultiPolygon", "coordinates": [[SQUARE], [SQUARE[:2]]]}, "outer polygon of part 2 of .* 3 to 2000"),
        ({"type": "MultiPolygon", "coordinates": [[SQUARE]] * (MOST_PARTS + 1)}, "at most 100 parts, got 101"),
        ({"type": "MultiPolygon", "coordinates": [[SQUARE]] * 2}, "Loops 0 and 1 cross or touch .* join those"),
        ({"type": "MultiPolygon", "coordinates": [[SQUARE], [SMALL]]}, "Loop 1 is a hole outside its part, or a part"),
        (
            {"type": "MultiPolygon", "coordinates": [[BESIDE], [SQUARE, BESIDE]]},
            "Hole 1 of part 2 of .* reaches outside",
        ),
        ({"type": "Polygon", "coordinates": []}, "must hold"),
        ([SQUARE], "must hold"),
    ],
)
def test_an_outline_that_bounds_nothing_is_one_clear_error(tmp_path, content, message):
    with pytest.raises(ValueError, match=message):
        read_outline(written(tmp_path / "a.json", content))


def test_the_polygons_of_a_multipolygon_are_parts_of_one_domain(tmp_path):
    polygons = [[[*SQUARE, SQUARE[0]], SMALL], [[*BESIDE, BESIDE[0]]]]
    path = written(tmp_path / "a.geojson", {"type": "MultiPolygon", "coordinates": polygons})
    geometry, _ = read_outline(path)
    alone, _ = read_outline(written(tmp_path / "b.geojson", {"type": "MultiPolygon", "coordinates": polygons[:1]}))
    single, _ = read_outline(written(tmp_path / "c.geojson", {"type": "Polygon", "coordinates": polygons[0]}))
    assert (alone.mask(Grid(32, 32)) == single.mask(Grid(32, 32))).all()
    added = geometry.mask(Grid(32, 32)) & ~single.mask(Grid(32, 32))
    assert 0 < added.sum() == geometry.further[0].mask(Grid(32, 32)).sum()

    held: dict[str, Any] = {"dirichlet": "outer=1,outer2=2", "source": "x"}
    solved, own = (
        disol.solve_exact(disol.read_case("poisson", each, resolution=32, **held | changed))
        for each, changed in ((path, {}), (tmp_path / "c.geojson", {"dirichlet": "outer=1"}))
    )
    assert solved.field[0][own.domain] == pytest.approx(own.field[0][own.domain], rel=1e-12)
    assert solved.totals()[-1].value == pytest.approx(0, abs=1e-12)
    assert disol.read_case("poisson", path, resolution=32, conventions="paper", dirichlet="outer,outer2").domain.sum()
    with pytest.raises(DisolError, match=r"The part of the domain around .* is not held"):
        disol.solve_exact(disol.read_case("poisson", path, resolution=32, dirichlet="outer=1"))


@pytest.mark.parametrize("lower", [-0.01, -0.002, 0.0, 0.002, 0.01])
def test_pixels_and_curves_agree_on_which_hole_is_which(lower):
    def hole(x, y):
        return [[x, y], [x + 0.1, y], [x + 0.1, 0.5], [x, 0.5]]

    plate = {
        "outer": [[0.1, 0.1], [0.9, 0.1], [0.9, 0.9], [0.1, 0.9]],
        "holes": [hole(0.6, 0.3), hole(0.3, 0.3 + lower)],
    }
    for name, is_left in (("hole1", lower <= 0), ("hole2", lower > 0)):
        for conventions in ("physical", "paper"):
            case = disol.read_case("poisson", plate, conventions=conventions, dirichlet=name, resolution=64)
            columns = np.nonzero(case.terms["dirichlet"])[1]
            assert (columns < 32).all() if is_left else (columns > 32).all()


def test_loops_of_a_hole_that_the_grid_splits_are_named_by_pixels():
    upper = [[0.3, 0.3], [0.4, 0.499], [0.6, 0.499], [0.7, 0.3]]
    waist = [*upper, *([x, 1 - y] for x, y in reversed(upper))]
    plate = {"outer": [[0.1, 0.1], [0.9, 0.1], [0.9, 0.9], [0.1, 0.9]], "holes": [waist]}
    case = disol.read_case("poisson", plate, conventions="paper", dirichlet="hole1,hole2", resolution=16)
    assert {column < 8 for column in np.nonzero(case.terms["dirichlet"])[1]} == {True, False}


def test_files_as_other_programs_write_them_are_read(tmp_path):
    polygon = {"type": "Polygon", "coordinates": [[*SQUARE, SQUARE[0]]]}
    feature = {"type": "Feature", "properties": {"name": "plate"}, "geometry": polygon}
    expected, _ = read_outline(written(tmp_path / "a.json", polygon))
    collected, _ = read_outline(written(tmp_path / "b.json", {"type": "FeatureCollection", "features": [feature]}))
    assert (collected.outer.points == expected.outer.points).all()
    (tmp_path / "c.json").write_text(json.dumps(polygon), encoding="utf-8-sig")
    marked, _ = read_outline(tmp_path / "c.json")
    assert (marked.outer.points == expected.outer.points).all()
    with pytest.raises(DisolError, match="must hold one feature, got 2"):
        read_outline(written(tmp_path / "d.json", {"type": "FeatureCollection", "features": [feature, feature]}))


def test_a_file_that_is_missing_or_no_json_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="Cannot read"):
        read_outline(tmp_path / "missing.json")
    (tmp_path / "a.json").write_text("{outer")
    with pytest.raises(ValueError, match="is not JSON"):
        read_outline(tmp_path / "a.json")
    (tmp_path / "b.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="is not JSON"):
        read_outline(tmp_path / "b.json")


def painting(side: int = 64) -> np.ndarray:
    """A black square on white, its top edge red, its left edge blue, one corner magenta."""
    pixels = np.ones((side, side, 4))
    pixels[8:56, 8:56, :3] = 0
    pixels[8, 8:56, :3] = [1, 0, 0]
    pixels[9:56, 8, :3] = [0, 0, 1]
    pixels[8, 8, :3] = [1, 0, 1]
    return pixels


def drawing_of(path, pixels):
    imsave(path, np.ascontiguousarray(pixels))
    return read_drawing(path)


def test_dark_pixels_are_the_domain_and_colours_mark_it(tmp_path):
    drawing = drawing_of(tmp_path / "a.png", painting())
    expected = np.zeros((64, 64), dtype=bool)
    expected[8:56, 8:56] = True
    assert (drawing.mask(Grid(64, 64)) == expected).all()
    red, blue = (drawing.painted(colour, Grid(64, 64)) for colour in ("red", "blue"))
    assert (red.nonzero()[0] == 8).all()
    assert red.sum() == 48
    assert (blue.nonzero()[1] == 8).all()
    assert blue.sum() == 48


def test_transparent_pixels_lie_outside_whatever_their_colour(tmp_path):
    pixels = painting()
    pixels[:, 32:, 3] = 0
    drawing = drawing_of(tmp_path / "a.png", pixels)
    assert not drawing.mask(Grid(64, 64))[:, 32:].any()
    assert not drawing.painted("red", Grid(64, 64))[:, 32:].any()
    assert drawing.shows("red")


@pytest.mark.parametrize("side", [16, 32, 128])
def test_a_thin_line_marks_the_edge_at_any_resolution(tmp_path, side):
    drawing = drawing_of(tmp_path / "a.png", painting())
    mask, red = drawing.mask(Grid(side, side)), drawing.painted("red", Grid(side, side))
    assert mask.mean() == pytest.approx(48**2 / 64**2, abs=1e-9)
    rows = np.unique(red.nonzero()[0])
    assert rows.min() == side // 8
    assert len(rows) <= max(1, side // 64)
    assert set(red.nonzero()[1]) == set(range(side // 8, side * 7 // 8))


def test_a_picture_that_is_not_square_is_centred(tmp_path):
    drawing = drawing_of(tmp_path / "a.png", np.zeros((20, 40, 3)))
    mask = drawing.mask(Grid(40, 40))
    assert mask[10:30].all()
    assert mask.sum() == 20 * 40


@pytest.mark.parametrize(("dtype", "white"), [(np.uint8, 255), (np.uint16, 65535), (np.int32, 255), (np.int32, 65535)])
def test_black_is_the_domain_at_any_depth_of_colour(tmp_path, dtype, white):
    grey = np.full((32, 32), white, dtype=dtype)
    grey[8:24, 8:24] = 0
    Image.fromarray(grey).save(tmp_path / "a.tif")
    assert (read_drawing(tmp_path / "a.tif").mask(Grid(32, 32)) == (grey == 0)).all()


@given(seed=st.integers(0, 1000), fine=st.integers(3, 40), coarse=st.integers(3, 40))
def test_area_means_keep_the_mean_and_constants(seed, fine, coarse):
    image = np.random.default_rng(seed).random((fine, fine))
    grid = Grid(coarse, coarse)
    assert area_means(image, grid).mean() == pytest.approx(image.mean())
    assert area_means(np.ones_like(image), grid) == pytest.approx(1.0)


def test_a_file_that_is_no_picture_is_an_error(tmp_path):
    (tmp_path / "a.png").write_text("text")
    for path in (tmp_path / "a.png", tmp_path / "missing.png"):
        with pytest.raises(ValueError, match="Cannot read"):
            read_drawing(path)


@pytest.mark.parametrize("ending", ["jpg", "png", "webp", "tiff"])
def test_a_picture_is_turned_as_viewers_show_it(ending, tmp_path):
    upright = np.full((64, 48), 255, np.uint8)
    upright[8:40, 8:20] = 0
    turned = Image.Exif()
    turned[0x0112] = 6  # orientation: to be turned clockwise by 90 degrees
    Image.fromarray(upright).save(tmp_path / "upright.png")
    Image.fromarray(np.rot90(upright)).save(tmp_path / f"turned.{ending}", exif=turned, quality=100)
    expected, found = (read_drawing(tmp_path / name).mask(Grid(32, 32)) for name in ("upright.png", f"turned.{ending}"))
    assert (found == expected).all()
