"""Pictures of solutions: they show physical values, say what they show, and draw what is compared alike."""

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

import disol
from disol.inference.pictures import amplitude_error, animate, draw_solution, largest
from disol.inference.pictures.comparison import frame_errors
from disol.inference.solution import PER_CASE, Solution

TIMES = (2.0, 8.0, 20.0)


def solved(problem: str, *, noise: float = 0.0, factor: float = 1.0, **options) -> Solution:
    """The exact solution of a case times a factor, with noise added."""
    case = disol.draw(problem, 3, resolution=24, shift="topology", **options)
    exact = disol.solve_exact(case, **({"times": TIMES} if problem == "heat" else {}))
    size = noise * np.max(exact.amplitude)
    field = factor * exact.field + size * exact.domain * np.random.default_rng(0).standard_normal(exact.field.shape)
    return Solution(
        case.problem,
        case.conventions,
        case.channels,
        case.equation.fields,
        case.inputs,
        exact.domain,
        exact.pattern,
        exact.amplitude,
        field,
        exact.field,
        float(np.linalg.norm(field - exact.field) / np.linalg.norm(exact.field)),
        "cpu",
        exact.times,
    )


def panel(figure, title: str):
    return next(axes for axes in figure.axes if axes.get_title().startswith(title))


def shown(axes) -> np.ndarray:
    return axes.images[0].get_array().filled(0.0)


@pytest.mark.parametrize("problem", disol.PROBLEMS)
@pytest.mark.parametrize("factor", [1.0, 1.1, 0.8])
def test_a_multiple_of_the_exact_solution_has_an_amplitude_of_that_multiple(problem, factor):
    assert amplitude_error(solved(problem, factor=factor)) == pytest.approx(abs(factor - 1))


def test_fields_count_by_the_worse_one():
    solution = solved("elasticity")
    off = replace(solution, field=solution.exact * np.array([1.0, 0.7])[:, None, None])
    assert amplitude_error(off) == pytest.approx(0.3)


def test_a_zero_amplitude_is_met_by_zero_alone():
    solution = solved("elasticity")
    nothing = replace(solution, exact=0 * solution.exact)
    assert amplitude_error(nothing) == 1
    assert amplitude_error(replace(nothing, field=nothing.exact)) == 0


def test_the_largest_value_is_that_of_each_field_over_all_times():
    assert largest(solved("elasticity").exact) == pytest.approx([np.abs(u).max() for u in solved("elasticity").exact])
    frames = np.array([1.0, -3.0, 2.0])[:, None, None, None] * np.ones((3, 1, 4, 4))
    assert largest(frames) == [3.0]
    assert largest(frames[2:]) == [2.0]


@pytest.mark.parametrize("size", [1.0, 1e-300, 1e300])
def test_every_time_has_an_error_that_does_not_depend_on_the_size_of_a_solution(size):
    solution = solved("heat", factor=1.1)
    unit = size / solution.amplitude
    growing = solution.field * np.array([1.0, 1.1, 1.2])[:, None, None, None]
    errors = frame_errors(replace(solution, field=unit * growing, exact=unit * solution.exact))
    assert errors == pytest.approx([0.1, 0.21, 0.32])


def test_a_picture_shows_physical_values_in_the_same_colours():
    solution = solved("poisson", noise=0.01, factor=1.2)
    figure = draw_solution(solution)
    predicted, known = panel(figure, "predicted U"), panel(figure, "exact U")
    assert shown(predicted) == pytest.approx(solution.field[0])
    assert shown(known) == pytest.approx(solution.exact[0])
    assert predicted.images[0].get_clim() == known.images[0].get_clim()
    assert shown(panel(figure, "|error|")) == pytest.approx(np.abs(solution.field - solution.exact)[0])
    assert shown(panel(figure, "source f")) == pytest.approx(solution.inputs[2])
    assert all(axes.yaxis.get_inverted() for axes in figure.axes if axes.images)


def test_the_title_names_the_problem_its_equation_and_the_error():
    solution = solved("poisson", factor=1.25)
    assert draw_solution(solution).get_suptitle() == "poisson   −ΔU = f   24 x 24   relative L2 error 25 %"
    assert draw_solution(solution, with_exact=False).get_suptitle() == "poisson   −ΔU = f   24 x 24"


def test_a_field_that_changes_sign_has_white_at_zero():
    solution = solved("poisson")
    signed = np.where(np.arange(24) < 12, 1.0, -0.5) * solution.domain
    figure = draw_solution(replace(solution, exact=signed[None]))
    image = panel(figure, "predicted U").images[0]
    assert image.get_clim() == (-1.0, 1.0)
    assert image.get_cmap().name == "RdBu_r"


def test_a_body_is_drawn_moved_by_the_factor_that_is_named():
    solution = solved("elasticity")
    shift = np.zeros_like(solution.field)
    shift[0, solution.domain], shift[1, solution.domain] = 0.003, -0.001
    figure = draw_solution(replace(solution, field=shift, exact=shift))
    axes = panel(figure, "predicted |U|")
    factor = float(axes.get_title().split("×")[1])
    assert factor * 0.003 < 0.1
    mesh = axes.collections[0].get_coordinates()
    rows, columns = np.nonzero(solution.domain)
    corner = np.asarray(mesh[rows[0], columns[0]])
    assert corner == pytest.approx([columns[0] - 0.5 + 24 * factor * 0.003, rows[0] - 0.5 - 24 * factor * 0.001])


def test_forces_are_named_with_their_direction():
    solution = solved("elasticity")
    inputs = solution.inputs.copy()
    inputs[3:] = 0
    inputs[3, solution.domain] = 2.0
    figure = draw_solution(replace(solution, inputs=inputs))
    labels = [text.get_text() for text in panel(figure, "domain").get_legend().get_texts()]
    assert labels == ["force → 2", "U_x = 0", "U_y = 0"]


def test_pixels_that_are_held_along_both_axes_have_a_colour_of_their_own():
    solution = solved("elasticity")
    inputs = solution.inputs.copy()
    inputs[1:] = 0
    rows, columns = np.nonzero(solution.domain)
    inputs[1, rows[:5], columns[:5]] = inputs[2, rows[3:9], columns[3:9]] = 1
    axes = panel(draw_solution(replace(solution, inputs=inputs)), "domain")
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["U_x = 0", "U_y = 0", "U = 0"]
    places = [points.get_offsets().tolist() for points in axes.collections]
    pixels = np.stack([columns, rows], axis=1).astype(float).tolist()
    assert places == [pixels[:3], pixels[5:9], pixels[3:5]]
    assert len({points.get_facecolor().tobytes() for points in axes.collections}) == 3


def test_times_are_shown_side_by_side_with_their_errors():
    solution = solved("heat", factor=1.1)
    titles = [axes.get_title() for axes in draw_solution(solution).axes]
    assert [title for title in titles if title.startswith("t =")] == [
        "t = 2 s, 10 %",
        "t = 8 s, 10 %",
        "t = 20 s, 10 %",
    ]


def at_one_time(solution):
    frames = {name: getattr(solution, name)[:1] for name in ("pattern", "field", "exact")}
    return replace(solution, times=TIMES[:1], **frames)


def test_one_time_is_a_picture_too():
    solution = at_one_time(solved("heat"))
    assert shown(panel(draw_solution(solution), "t = 2 s")) == pytest.approx(solution.field[0, 0])


@pytest.mark.parametrize("with_exact", [True, False])
@pytest.mark.parametrize("problem", disol.PROBLEMS)
def test_titles_are_no_wider_than_their_pictures(problem, with_exact):
    solution = solved(problem, factor=1.0123)
    figure = draw_solution(at_one_time(solution) if problem == "heat" else solution, with_exact)
    words = figure.get_suptitle().split()
    assert words[0] == problem
    assert ("error" in words) == with_exact
    figure.draw_without_rendering()
    title = next(text for text in figure.texts if text.get_text() == figure.get_suptitle()).get_window_extent()
    assert title.x0 >= 0
    assert title.x1 <= figure.bbox.width
    assert title.y1 <= figure.bbox.height


@pytest.mark.parametrize("with_exact", [True, False])
@pytest.mark.parametrize("problem", disol.PROBLEMS)
def test_a_picture_shows_the_exact_solution_and_the_error_unless_told_otherwise(tmp_path, problem, with_exact):
    figure = draw_solution(solved(problem, noise=0.05), with_exact)
    named = {
        text.split()[0].strip(",") for axes in figure.axes for text in (axes.get_title(), axes.get_ylabel()) if text
    }
    assert {"domain", "predicted"} <= named
    assert named & {"exact", "|error|"} == ({"exact", "|error|"} if with_exact else set())
    figure.savefig(tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as picture:
        assert picture.size[0] > 400


def test_an_animation_has_a_picture_for_each_time_and_the_exact_solution_unless_told_otherwise(tmp_path):
    solution = solved("heat", noise=0.02)
    widths = []
    for with_exact in (True, False):
        animate(solution, tmp_path / "a.gif", with_exact)
        with Image.open(tmp_path / "a.gif") as movie:
            assert movie.n_frames == len(TIMES)
            assert movie.info["loop"] == 0
            widths.append(movie.width)
            frames = []
            for number in range(movie.n_frames):
                movie.seek(number)
                frames.append(np.asarray(movie.convert("RGB")))
        assert (frames[0] != frames[1]).any()
    assert widths[0] == 3 * widths[1]
    assert [path.name for path in tmp_path.iterdir()] == ["a.gif"]


def test_what_cannot_be_animated_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="poisson has none"):
        animate(solved("poisson"), tmp_path / "a.gif")
    with pytest.raises(ValueError, match=r"end in \.gif"):
        animate(solved("heat"), tmp_path / "a.mp4")


def test_a_batch_is_not_one_picture():
    solution = solved("poisson")
    batch = replace(solution, **{name: np.asarray(getattr(solution, name))[None] for name in PER_CASE})
    with pytest.raises(ValueError, match=r"batch of 1.*solution\[0\]"):
        draw_solution(batch)


@pytest.mark.parametrize("with_exact", [True, False])
def test_a_solution_draws_itself(with_exact):
    solution = solved("poisson")
    own, drawn = solution.plot(with_exact), draw_solution(solution, with_exact)
    assert own.get_suptitle() == drawn.get_suptitle()
    assert len(own.axes) == len(drawn.axes)
