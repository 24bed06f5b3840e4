"""Errors are what their equations say, and pictures of them show every case."""

from itertools import combinations

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from solved_cases import predicted, solved

from disol.viz.errors import (
    COLOURS,
    percent,
    plot_agreement,
    plot_boxes,
    plot_curves,
    plot_over_time,
    plot_spread,
    relative_error,
)
from disol.viz.panels import Scale, draw_panels, name_strips, strip
from disol.viz.solutions import frame_errors


@pytest.mark.parametrize("size", [1.0, 1e-300, 1e300])
def test_an_error_does_not_depend_on_the_size_of_a_solution(size):
    reference = size * np.random.default_rng(0).uniform(-1, 1, (1, 8, 8))
    assert relative_error(1.1 * reference, reference) == pytest.approx(0.1)


def test_a_zero_solution_is_met_by_zero_alone():
    zero = np.zeros((1, 8, 8))
    assert relative_error(zero, zero) == 0
    assert relative_error(zero + 1e-30, zero) == 1


def test_nan_propagates():
    assert np.isnan(relative_error(np.full(3, np.nan), np.ones(3)))
    assert np.isnan(relative_error(np.full(3, np.nan), np.zeros(3)))


def test_every_time_has_an_error_of_its_own():
    exact = solved("heat")
    growing = predicted(exact).field * np.array([1.1, 1.21, 1.32])[:, None, None, None]
    prediction = type(exact)(exact.case, growing, exact.amplitude)
    assert frame_errors(prediction, exact) == pytest.approx([0.1, 0.21, 0.32])


def test_percentages_have_two_digits_that_count():
    assert [percent(error) for error in (1e150, 0.5, 0.1234, 0.0567, 0.00123, 0.0)] == [
        "1.0e+152 %", "50 %", "12 %", "5.7 %", "0.12 %", "0 %",
    ]  # fmt: skip


def test_the_bars_of_a_histogram_add_up_to_one():
    rng = np.random.default_rng(0)
    errors = {"many": rng.lognormal(size=300), "few": np.array([0.5]), "broken": np.array([np.nan])}
    figure = plot_spread(errors, "rel_l2", "title")
    axes = figure.axes[0]
    assert [float(line.get_xdata()[0]) for line in axes.lines if line.get_linestyle() == "--"] == pytest.approx(
        [np.median(errors["many"]), 0.5]
    )
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert any(label.startswith("few: mean 0.5, median 0.5") for label in labels)
    assert "broken: no finite error" in labels


def test_errors_over_time_are_shown_in_their_order():
    times, errors = np.array([20.0, 2.0]), np.array([[0.2, 0.4], [0.02, 0.04]])
    figure = plot_over_time({"file": (times, errors)}, "rel_l2", "title")
    line = figure.axes[0].lines[0]
    assert line.get_xdata().tolist() == [2, 20]
    assert line.get_ydata() == pytest.approx([0.03, 0.3])


def test_agreement_shows_predicted_over_true_values():
    figure = plot_agreement({"file": (np.array([1.0, 3.0]), np.array([1.0, 2.0]))}, "ln u", "title")
    assert figure.axes[0].collections[0].get_offsets().tolist() == [[1, 1], [2, 3]]
    assert figure.axes[0].get_xlabel() == "true ln u"


def test_boxes_hold_the_middle_half_of_the_cases():
    values = np.arange(1.0, 102.0)
    figure = plot_boxes({"id": {"a": values, "b": 2 * values}, "all": {"a": values, "b": np.zeros(0)}}, "e", "t")
    axes = figure.axes[0]
    assert len(axes.patches) == 3, "what has no case has no box"
    heights = axes.patches[0].get_path().vertices[:, 1]
    assert (heights.min(), heights.max()) == (26, 76)
    assert axes.get_yscale() == "log"
    assert [label.get_text() for label in axes.get_xticklabels()] == ["id", "all"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "b"]


def test_curves_of_runs_are_shown_by_their_median_over_epochs_and_over_time():
    runs = [(pace * np.arange(1.0, 4.0), losses * np.ones(3)) for pace, losses in ((1, 1.0), (2, 2.0), (3, 5.0))]
    figure = plot_curves({"a": runs, "b": [(np.array([4.0]), np.array([0.5]))]}, "loss", "t", 0.7)
    over_epochs, over_time = figure.axes
    np.testing.assert_array_equal(over_epochs.lines[0].get_xydata(), [[1, 2], [2, 2], [3, 2]])
    np.testing.assert_array_equal(over_time.lines[0].get_xdata(), [2, 4, 6])
    band = over_epochs.collections[0].get_paths()[0].vertices[:, 1]
    assert (band.min(), band.max()) == (1.5, 3.5)
    assert over_epochs.lines[1].get_marker() == "o", "one epoch alone would not be seen"


def test_a_long_title_is_no_wider_than_its_picture():
    title = "what every box of this picture is of, " * 2 + "and how far"
    runs = [(np.array([1.0, 2.0]), np.array([0.5, 0.4]))]
    for figure in (
        plot_boxes({"id": {"a": np.array([0.1, 0.2])}}, "rel_l2", title),
        plot_curves({"a": runs}, "loss", title),
        plot_spread({"a": np.array([0.1, 0.2])}, "rel_l2", title),
    ):
        assert figure._suptitle.get_window_extent().width <= figure.bbox.width


def seen_by(kind: str, colour: str) -> np.ndarray:
    """Return a colour in CIELAB as people with a kind of colour blindness see it (Machado et al. 2009, severity 1)."""
    matrix = {
        "normal": np.eye(3),
        "deuteranopia": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
        "protanopia": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    }[kind]
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    linear = ((np.array(to_rgb(colour)) + 0.055) / 1.055) ** 2.4
    x, y, z = np.cbrt(to_xyz @ np.clip(np.array(matrix) @ linear, 0, 1) / to_xyz.sum(axis=1))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("kind", ["normal", "deuteranopia", "protanopia"])
def test_any_two_models_have_colours_that_can_be_told_apart(kind):
    seen = [seen_by(kind, colour) for colour in COLOURS]
    assert min(np.linalg.norm(one - other) for one, other in combinations(seen, 2)) > 15


@pytest.mark.parametrize("place", [0, 1])
def test_the_colour_bar_of_a_strip_points_beyond_it_for_any_of_its_panels(place):
    images = np.full((2, 4, 4), 0.5)
    images[place, 0, 0] = 2.0
    figure = draw_panels([strip(list(images), np.ones((4, 4), bool), Scale(0.0, 1.0, "magma"))])
    name_strips(figure, ["|error|"], columns=2, first=0)
    assert figure.axes[-1]._colorbar.extend == "max"


def test_dollars_in_names_begin_no_formula():
    name = "a$x_{$.h5"  # not even a valid one
    figure = plot_spread({name: np.array([0.1, 0.2])}, "error", f"{name}   {name}")
    figure.canvas.draw()
    assert name in figure.get_suptitle()
