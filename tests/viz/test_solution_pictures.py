"""Pictures of solutions: they show physical values, say what they show, and draw what is compared alike."""

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from solved_cases import TIMES, drawn, legend, panel, predicted, shown, solved

import disol
from disol.cases import Case
from disol.solutions import Solution
from disol.viz import animate, plot_comparison, plot_solution


def compare(prediction: Solution, reference: Solution, **options):
    return plot_comparison(prediction, reference, managed=False, **options)


def test_a_picture_shows_physical_values_in_the_same_colours():
    exact = solved("poisson")
    prediction = predicted(exact, noise=0.01, factor=1.2)
    figure = compare(prediction, exact)
    left, right = panel(figure, "predicted U"), panel(figure, "exact U")
    assert shown(left) == pytest.approx(prediction.field[0])
    assert shown(right) == pytest.approx(exact.field[0])
    assert left.images[0].get_clim() == right.images[0].get_clim()
    assert shown(panel(figure, "|error|")) == pytest.approx(np.abs(prediction.field - exact.field)[0])
    assert shown(panel(figure, "source f")) == pytest.approx(exact.case.channel("source"))
    assert all(axes.yaxis.get_inverted() for axes in figure.axes if axes.images)


def test_the_title_names_the_problem_its_equation_and_the_error():
    case = Case.from_arrays(drawn("poisson"))
    exact = disol.solve_exact(case, device="cpu")
    figure = compare(predicted(exact, factor=1.25), exact)
    assert figure.get_suptitle() == "poisson   −ΔU = f   24 x 24 pixels   relative L2 error 25 %"
    assert plot_solution(exact, managed=False).get_suptitle() == "poisson   −ΔU = f   24 x 24 pixels"
    assert compare(exact, exact, title="mine").get_suptitle() == "mine   relative L2 error 0 %"


def test_the_title_of_a_drawn_case_says_which_one_it_is():
    written = plot_solution(solved("poisson"), managed=False).get_suptitle()
    assert written == "poisson   −ΔU = f   seed 3, index 0, shift topology   24 x 24 pixels"
    true = disol.solve_exact(disol.draw("poisson", seed=3, resolution=24))
    written = plot_solution(true, managed=False).get_suptitle()
    assert written == "poisson   −ΔU = f   seed 3, index 0   24 x 24, true boundary"


def test_a_field_that_changes_sign_has_white_at_zero():
    exact = solved("poisson")
    signed = np.where(np.arange(24) < 12, 1.0, -0.5) * exact.domain
    figure = compare(exact, replace(exact, field=signed[None]))
    image = panel(figure, "predicted U").images[0]
    assert image.get_clim() == (-1.0, 1.0)
    assert image.get_cmap().name == "RdBu_r"


def test_a_body_is_drawn_moved_by_the_factor_that_is_named():
    exact = solved("elasticity")
    shift = np.zeros_like(exact.field)
    shift[0, exact.domain], shift[1, exact.domain] = 0.003, -0.001
    moved = replace(exact, field=shift)
    for axes in (panel(compare(moved, moved), "predicted |U|"), panel(plot_solution(moved, managed=False), "|U|")):
        factor = float(axes.get_title().split("×")[1])
        assert factor * 0.003 < 0.1
        mesh = axes.collections[0].get_coordinates()
        rows, columns = np.nonzero(exact.domain)
        corner = np.asarray(mesh[rows[0], columns[0]])
        assert corner == pytest.approx([columns[0] - 0.5 + 24 * factor * 0.003, rows[0] - 0.5 - 24 * factor * 0.001])


def test_components_are_shown_with_what_is_given_along_them():
    exact = solved("elasticity")
    figure = compare(exact, exact)
    for axis in "xy":
        assert shown(panel(figure, f"exact U_{axis}")) == pytest.approx(exact.field["xy".index(axis)])
        force, support = legend(panel(figure, f"along {axis}"))
        assert force.startswith("force")
        assert support == f"U_{axis} = 0"


def test_times_are_shown_side_by_side_with_their_errors():
    exact = solved("heat")
    titles = [axes.get_title() for axes in compare(predicted(exact, factor=1.1), exact).axes]
    assert [title for title in titles if title.startswith("t =")] == [
        "t = 2 s, 10 %",
        "t = 8 s, 10 %",
        "t = 20 s, 10 %",
    ]


@pytest.mark.parametrize("times", [TIMES[:1], tuple(2.0 * step for step in range(1, 26))])
def test_one_time_is_a_picture_and_many_are_thinned_out(times):
    exact = disol.solve_exact(Case.from_arrays(drawn("heat"), times=times), device="cpu")
    for figure in (compare(exact, exact), plot_solution(exact, managed=False)):
        panels = [axes for axes in figure.axes if "t = " in axes.get_title()]
        assert len(panels) == min(len(times), 7)
        assert shown(panels[0]) == pytest.approx(exact.field[0, 0])
        assert f"t = {times[-1]:g} s" in panels[-1].get_title()


@pytest.mark.parametrize("with_exact", [True, False])
@pytest.mark.parametrize("problem", disol.PROBLEMS)
def test_titles_are_no_wider_than_their_pictures(problem, with_exact):
    exact = solved(problem)
    if exact.times is not None:
        exact = disol.solve_exact(Case.from_arrays(exact.case, times=TIMES[:1]), device="cpu")
    prediction = predicted(exact, factor=1.0123)
    figure = compare(prediction, exact) if with_exact else plot_solution(prediction, managed=False)
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
def test_a_comparison_shows_the_exact_solution_and_the_error(tmp_path, problem, with_exact):
    exact = solved(problem)
    prediction = predicted(exact, noise=0.05)
    figure = compare(prediction, exact) if with_exact else plot_solution(prediction, managed=False)
    named = {
        text.split()[0].strip(",") for axes in figure.axes for text in (axes.get_title(), axes.get_ylabel()) if text
    }
    assert "domain" in named
    compared = {"predicted", "exact", "|error|"}
    assert named & compared == (compared if with_exact else set())
    figure.savefig(tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as picture:
        assert picture.size[0] > 400


def test_a_prediction_without_numbers_can_be_looked_at(tmp_path):
    for problem in ("poisson", "elasticity", "heat"):
        exact = solved(problem)
        broken = predicted(exact, factor=np.nan)
        compare(broken, exact).savefig(tmp_path / "a.png")
        plot_solution(broken, managed=False).savefig(tmp_path / "a.png")


def test_solutions_of_different_cases_are_not_compared():
    fine = disol.solve_exact(disol.draw("poisson", 3, resolution=32, conventions="paper"), device="cpu")
    for other in (solved("elasticity"), fine):
        with pytest.raises(ValueError, match="Two solutions of one case are compared"):
            compare(solved("poisson"), other)


def test_a_batch_is_not_one_picture():
    batch = disol.solve_exact([drawn("poisson")], device="cpu")
    for draw in (lambda: plot_solution(batch), lambda: compare(batch, batch)):
        with pytest.raises(ValueError, match=r"batch of 1.*\[0\]"):
            draw()


def test_an_animation_has_a_picture_for_each_time_and_the_exact_solution_if_it_is_given(tmp_path):
    exact = solved("heat")
    prediction = predicted(exact, noise=0.02)
    widths = []
    for reference in (exact, None):
        animate(prediction, tmp_path / "a.gif", reference)
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
    with pytest.raises(ValueError, match="batch of 1"):
        animate(disol.solve_exact([drawn("heat")], device="cpu"), tmp_path / "a.gif")
