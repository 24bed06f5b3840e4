"""Pictures of fluxes and stresses show their components, and arrows where something flows."""

import numpy as np
import pytest
from solved_cases import panel, shown, solved

from disol import DisolError
from disol.viz import plot_quantity


@pytest.mark.parametrize(
    ("problem", "name", "titles"),
    [
        ("poisson", "flux", ["q_x", "q_y", "|q|"]),
        ("elasticity", "stress", ["σ_xx", "σ_yy", "σ_xy"]),
        ("elasticity", "von_mises", ["von Mises stress"]),
    ],
)
def test_every_component_has_a_panel(problem, name, titles):
    solution = solved(problem)
    figure = plot_quantity(solution, name, managed=False)
    values = getattr(solution, name).reshape(-1, *solution.domain.shape)
    for title, image in zip(titles, values, strict=False):
        assert np.array_equal(shown(panel(figure, title))[solution.domain], image[solution.domain])
    assert [axes.get_title() for axes in figure.axes if axes.get_title()] == titles


def test_arrows_point_where_the_flux_does_on_the_screen():
    solution = solved("poisson")
    (arrows,) = panel(plot_quantity(solution, "flux", managed=False), "|q|").collections
    columns, rows = arrows.XY.T.round().astype(int)
    flux = solution.flux[:, rows, columns]
    assert np.hypot(arrows.U, arrows.V) == pytest.approx(1)
    assert (arrows.U * flux[0] + arrows.V * flux[1] > 0).all()


def test_each_time_has_a_row():
    figure = plot_quantity(solved("heat"), "flux", managed=False)
    titles = [axes.get_title() for axes in figure.axes if axes.get_title()]
    assert all(", t = " in title for title in titles)
    assert len(titles) % 3 == 0


def test_what_cannot_be_drawn_is_told_in_one_line():
    with pytest.raises(DisolError, match="shows flux, strain, stress, von_mises of a solution, got 'heat'"):
        solved("poisson").plot("heat")
    with pytest.raises(DisolError, match="poisson has no stress"):
        solved("poisson").plot("stress")
