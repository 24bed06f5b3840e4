"""Figures that people ask for belong to pyplot, all others to nobody; notebooks show small pictures of objects."""

import base64
import re
import subprocess
import sys
from io import BytesIO

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
from PIL import Image
from solved_cases import drawn, predicted, solved

import disol
from disol.cases import Case
from disol.viz import as_html, plot_case, plot_comparison, plot_solution


@pytest.fixture(autouse=True)
def _without_figures():
    plt.close("all")
    yield
    plt.close("all")


def test_a_figure_that_is_asked_for_belongs_to_pyplot():
    exact = solved("poisson")
    figures = [exact.case.plot(), exact.plot(), plot_comparison(predicted(exact), exact)]
    assert [plt.figure(number) for number in plt.get_fignums()] == figures


def test_a_figure_that_is_to_be_written_belongs_to_nobody():
    exact = solved("poisson")
    plot_case(exact.case, managed=False)
    plot_solution(exact, managed=False)
    plot_comparison(exact, exact, managed=False)
    assert plt.get_fignums() == []


@pytest.mark.parametrize(("backend", "left"), [("inline", []), ("widget", [1])])
def test_a_figure_that_a_notebook_shows_as_a_value_is_not_left_for_the_end_of_the_cell(monkeypatch, backend, left):
    figure = plot_case(drawn("poisson"))
    monkeypatch.setattr(matplotlib, "get_backend", lambda: backend)
    with pytest.raises(NotImplementedError):  # so IPython goes on as with any other figure
        figure._ipython_display_()
    assert plt.get_fignums() == left


def picture_in(text: str) -> Image.Image:
    data = re.search('src="data:image/png;base64,([^"]*)"', text)
    return Image.open(BytesIO(base64.b64decode(data[1])))


@pytest.mark.parametrize("problem", disol.PROBLEMS)
def test_a_case_and_a_solution_are_a_small_picture_and_two_lines_of_text(problem):
    exact = solved(problem)
    sizes = []
    for item in (exact.case, exact):
        text = item._repr_html_()
        assert text == as_html(item)
        lines = re.sub("<[^>]*>", "\n", text).split("\n")
        assert len([line for line in lines if line.strip()]) == 3  # the name in bold, the equation, and what repr says
        assert problem in lines
        with picture_in(text) as image:
            assert np.asarray(image.convert("L")).std() > 5  # not blank
            sizes.append(image.size)
        assert len(text) < 200_000
    assert sizes[0][0] < sizes[1][0] < 1500
    assert plt.get_fignums() == []


@pytest.mark.parametrize("problem", ["poisson", "elasticity", "heat"])
def test_of_a_batch_the_first_cases_are_shown(problem):
    widths = []
    for count in (1, 3, 4, 9):
        batch = disol.solve_exact([drawn(problem)] * count, device="cpu")
        with picture_in(as_html(batch)) as solutions, picture_in(as_html(batch.case)) as cases:
            assert solutions.width == cases.width
            widths.append(cases.width)
    assert widths[1] == 3 * widths[0]
    assert widths[2] == widths[3]


def test_text_in_html_is_escaped():
    case = drawn(
        "elasticity",
    )
    strange = Case(case.problem, case.conventions, case.terms, seed=1, index=1, shift="<b>")
    assert "shift &lt;b&gt;" in as_html(strange)


def test_importing_pictures_selects_no_back_end_and_needs_no_torch():
    program = (
        "import sys, matplotlib, disol.viz\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
        "assert matplotlib.rcParams._get_backend_or_none() is None\n"
        "assert 'torch' not in sys.modules\n"
    )
    environment = {"PATH": "", "HOME": "/tmp"}  # no display, no MPLBACKEND
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)


def test_a_figure_can_be_asked_for_without_a_screen():
    program = "import disol\ndisol.draw('poisson', resolution=16).plot().savefig('/dev/null', format='png')\n"
    subprocess.run([sys.executable, "-c", program], check=True, env={"PATH": "", "HOME": "/tmp"})
