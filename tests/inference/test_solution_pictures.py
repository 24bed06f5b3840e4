"""Pictures of solutions: they show physical values, say what they show, and draw what is compared alike."""

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

import disol
from disol.inference.pictures import animate, compare, draw_solution
from disol.inference.solution import Solution

TIMES = (2.0, 8.0, 20.0)


def solved(problem: str, *, pattern_noise: float = 0.0, amplitude_factor: float = 1.0, **options):
    """A case, a solution that is off by the given amounts, and the exact one."""
    case = disol.draw(problem, 3, resolution=24, shift="topology", **options)
    exact = disol.solve_exact(case, **({"times": TIMES} if problem == "heat" else {}))
    noise = np.random.default_rng(0).standard_normal(exact.pattern.shape)
    pattern = (exact.pattern + pattern_noise * noise) * exact.domain
    amplitude = exact.amplitude * amplitude_factor
    solution = Solution(
        case.problem,
        case.conventions,
        case.channels,
        case.equation.fields,
        case.inputs,
        exact.domain,
        pattern,
        amplitude,
        exact.field * amplitude_factor + np.max(amplitude) * (pattern - exact.pattern),
        exact.field,
        0.0,
        exact.times,
    )
    return solution, exact


def panel(figure, title: str):
    return next(axes for axes in figure.axes if axes.get_title().startswith(title))


def shown(axes) -> np.ndarray:
    return axes.images[0].get_array().filled(0.0)


@pytest.mark.parametrize("problem", disol.PROBLEMS)
def test_the_exact_solution_has_no_error(problem):
    errors = compare(*solved(problem))
    assert errors.field == errors.pattern == errors.amplitude == 0
    assert len(errors.frames) == (len(TIMES) if problem == "heat" else 1)


@pytest.mark.parametrize("problem", disol.PROBLEMS)
def test_a_wrong_amplitude_is_an_error_of_field_and_amplitude_alone(problem):
    errors = compare(*solved(problem, amplitude_factor=1.1))
    assert errors.field == pytest.approx(0.1)
    assert errors.pattern == 0
    assert errors.amplitude == pytest.approx(0.1)
    assert errors.frames == pytest.approx([0.1] * len(errors.frames))


def test_components_with_their_own_amplitude_count_by_the_worse_one():
    solution, exact = solved("elasticity", conventions="published")
    off = replace(solution, amplitude=exact.amplitude * [1.0, 0.7])
    assert compare(off, exact).amplitude == pytest.approx(0.3)


def test_a_zero_solution_is_met_by_zero_alone():
    solution, exact = solved("poisson")
    nothing = replace(exact, field=0 * exact.field, pattern=0 * exact.pattern, amplitude=0.0)
    zero = replace(solution, field=nothing.field, pattern=nothing.pattern, amplitude=0.0)
    assert compare(zero, nothing).field == compare(zero, nothing).amplitude == 0
    assert compare(solution, nothing).field == compare(solution, nothing).amplitude == 1


def test_solutions_of_different_cases_are_not_compared():
    solution, exact = solved("heat")
    with pytest.raises(ValueError, match="same times"):
        compare(replace(solution, times=(2.0, 4.0, 6.0)), exact)


def test_solutions_of_different_problems_or_domains_are_not_compared():
    solution, exact = solved("poisson")
    with pytest.raises(ValueError, match=r"its own case.*differ in 576 pixels"):
        compare(solution, replace(exact, domain=~exact.domain))
    with pytest.raises(ValueError, match="got poisson and advection-diffusion-low"):
        solution.plot(replace(exact, problem="advection-diffusion-low"))


@pytest.mark.parametrize("size", [1e-300, 1e300])
def test_errors_do_not_depend_on_the_size_of_a_solution(size):
    solution, exact = solved("poisson", amplitude_factor=1.1)
    unit = size / exact.amplitude
    tiny = compare(replace(solution, field=unit * solution.field), replace(exact, field=unit * exact.field))
    assert tiny.field == pytest.approx(0.1)
    assert tiny.frames == pytest.approx([0.1])


def test_a_picture_shows_physical_values_in_the_same_colours():
    solution, exact = solved("poisson", pattern_noise=0.01, amplitude_factor=1.2)
    figure = draw_solution(solution, exact)
    predicted, known = panel(figure, "predicted U"), panel(figure, "exact U")
    assert shown(predicted) == pytest.approx(solution.field[0])
    assert shown(known) == pytest.approx(exact.field[0])
    assert predicted.images[0].get_clim() == known.images[0].get_clim()
    assert shown(panel(figure, "|error|")) == pytest.approx(np.abs(solution.field - exact.field)[0])
    assert shown(panel(figure, "source f")) == pytest.approx(solution.inputs[2])
    assert all(axes.yaxis.get_inverted() for axes in figure.axes if axes.images)


def test_the_title_names_the_problem_its_equation_and_the_errors():
    solution, exact = solved("poisson", amplitude_factor=1.25)
    title = draw_solution(solution, exact).get_suptitle()
    assert title.startswith("poisson   −ΔU = f   24 x 24")
    assert "relative L2 error 25 % (pattern 0 %, amplitude 25 %)" in title
    own = draw_solution(replace(solution, error=0.031)).get_suptitle()
    assert own.endswith("24 x 24   relative L2 error 3.1 %")


def test_a_field_that_changes_sign_has_white_at_zero():
    solution, exact = solved("poisson")
    signed = np.where(np.arange(24) < 12, 1.0, -0.5) * exact.domain
    figure = draw_solution(replace(solution, field=signed[None]))
    image = panel(figure, "predicted U").images[0]
    assert image.get_clim() == (-1.0, 1.0)
    assert image.get_cmap().name == "RdBu_r"


def test_a_body_is_drawn_moved_by_the_factor_that_is_named():
    solution, exact = solved("elasticity")
    shift = np.zeros_like(exact.field)
    shift[0, exact.domain], shift[1, exact.domain] = 0.003, -0.001
    figure = draw_solution(replace(solution, field=shift), replace(exact, field=shift))
    axes = panel(figure, "predicted |U|")
    factor = float(axes.get_title().split("×")[1])
    assert factor * 0.003 < 0.1
    mesh = axes.collections[0].get_coordinates()
    rows, columns = np.nonzero(exact.domain)
    corner = np.asarray(mesh[rows[0], columns[0]])
    assert corner == pytest.approx([columns[0] - 0.5 + 24 * factor * 0.003, rows[0] - 0.5 - 24 * factor * 0.001])


def test_forces_are_named_with_their_direction():
    solution, exact = solved("elasticity")
    inputs = solution.inputs.copy()
    inputs[3:] = 0
    inputs[3, exact.domain] = 2.0
    figure = draw_solution(replace(solution, inputs=inputs))
    labels = [text.get_text() for text in panel(figure, "domain").get_legend().get_texts()]
    assert labels == ["force → 2", "U_x = 0", "U_y = 0"]


def test_pixels_that_are_held_along_both_axes_have_a_colour_of_their_own():
    solution, exact = solved("elasticity")
    inputs = solution.inputs.copy()
    inputs[1:] = 0
    rows, columns = np.nonzero(exact.domain)
    inputs[1, rows[:5], columns[:5]] = inputs[2, rows[3:9], columns[3:9]] = 1
    axes = panel(draw_solution(replace(solution, inputs=inputs)), "domain")
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["U_x = 0", "U_y = 0", "U = 0"]
    places = [points.get_offsets().tolist() for points in axes.collections]
    pixels = np.stack([columns, rows], axis=1).astype(float).tolist()
    assert places == [pixels[:3], pixels[5:9], pixels[3:5]]
    assert len({points.get_facecolor().tobytes() for points in axes.collections}) == 3


def test_times_are_shown_side_by_side_with_their_errors():
    solution, exact = solved("heat", amplitude_factor=1.1)
    figure = draw_solution(solution, exact)
    titles = [axes.get_title() for axes in figure.axes if axes.get_title().startswith("t =")]
    assert titles == ["t = 2 s, 10 %", "t = 8 s, 10 %", "t = 20 s, 10 %"]
    assert len(draw_solution(replace(solution, times=TIMES)).axes) < len(figure.axes)


def at_one_time(solution, exact):
    first = {"field": exact.field[:1], "pattern": exact.pattern[:1], "times": TIMES[:1]}
    return replace(solution, exact=exact.field[:1], **first), replace(exact, nodes=exact.nodes[:1], **first)


def test_one_time_is_a_picture_too():
    solution, exact = solved("heat")
    figure = draw_solution(*at_one_time(solution, exact))
    assert shown(panel(figure, "t = 2 s")) == pytest.approx(exact.field[0, 0])


@pytest.mark.parametrize("with_exact", [True, False])
@pytest.mark.parametrize("problem", disol.PROBLEMS)
def test_titles_are_no_wider_than_their_pictures(problem, with_exact):
    solution, exact = solved(problem, amplitude_factor=1.0123)
    if problem == "heat":
        solution, exact = at_one_time(solution, exact)
    figure = draw_solution(solution, exact if with_exact else None)
    words = figure.get_suptitle().split()
    assert words[0] == problem
    assert "error" in words
    assert ("amplitude" in words) == with_exact
    figure.draw_without_rendering()
    title = next(text for text in figure.texts if text.get_text() == figure.get_suptitle()).get_window_extent()
    assert title.x0 >= 0
    assert title.x1 <= figure.bbox.width
    assert title.y1 <= figure.bbox.height


@pytest.mark.parametrize("with_exact", [True, False])
@pytest.mark.parametrize("problem", disol.PROBLEMS)
def test_every_problem_can_be_drawn_and_written(tmp_path, problem, with_exact):
    solution, exact = solved(problem, pattern_noise=0.05)
    draw_solution(solution, exact if with_exact else None).savefig(tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as picture:
        assert picture.size[0] > 400


@pytest.mark.parametrize("with_exact", [True, False])
def test_an_animation_has_a_picture_for_each_time(tmp_path, with_exact):
    solution, exact = solved("heat", pattern_noise=0.02)
    animate(solution, tmp_path / "a.gif", exact if with_exact else None)
    with Image.open(tmp_path / "a.gif") as movie:
        assert movie.n_frames == len(TIMES)
        assert movie.info["loop"] == 0
        frames = []
        for number in range(movie.n_frames):
            movie.seek(number)
            frames.append(np.asarray(movie.convert("RGB")))
    assert (frames[0] != frames[1]).any()
    assert [path.name for path in tmp_path.iterdir()] == ["a.gif"]


def test_what_cannot_be_animated_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="poisson has none"):
        animate(solved("poisson")[0], tmp_path / "a.gif")
    with pytest.raises(ValueError, match=r"end in \.gif"):
        animate(solved("heat")[0], tmp_path / "a.mp4")


def test_a_batch_is_not_one_picture():
    solution, _ = solved("poisson")
    arrays = {name: getattr(solution, name)[None] for name in ("inputs", "domain", "pattern", "field", "exact")}
    with pytest.raises(ValueError, match=r"batch of 1.*solution\[0\]"):
        draw_solution(replace(solution, amplitude=np.array([1.0]), **arrays))


def test_a_solution_draws_itself():
    solution, exact = solved("poisson")
    assert solution.plot(exact).get_suptitle() == draw_solution(solution, exact).get_suptitle()
