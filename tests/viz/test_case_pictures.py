"""Pictures of cases show what is given, each kind of term in its colours and words."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
from solved_cases import drawn, legend, panel, shown

import disol
from disol._terms import DOMAIN, FORCE, SOURCE, SUPPORT, Term
from disol.cases import Case
from disol.problems.elasticity import ElasticityProblem
from disol.viz import plot_case


def picture(case: Case):
    return plot_case(case, managed=False)


def with_channels(case: Case, **channels: np.ndarray) -> Case:
    """A case with other markers and forces, which need not make sense."""
    return replace(case, terms={**case.terms, **channels})


@pytest.mark.parametrize("problem", disol.PROBLEMS)
def test_a_case_shows_its_domain_and_its_fields(problem):
    case = drawn(problem)
    figure = picture(case)
    assert np.array_equal(shown(panel(figure, "domain")), case.domain)
    for name, title in (("source", "source f"), ("initial", "initial U₀")):
        if name in case.terms:
            assert shown(panel(figure, title)) == pytest.approx(case.channel(name))
    assert len([axes for axes in figure.axes if axes.get_title()]) == {"elasticity": 1, "heat": 3}.get(problem, 2)


def test_marked_pixels_lie_where_the_case_has_them():
    case = drawn("poisson")
    axes = panel(picture(case), "domain")
    rows, columns = np.nonzero(case.terms["dirichlet"])
    assert axes.collections[0].get_offsets().tolist() == np.stack([columns, rows], axis=1).astype(float).tolist()
    assert legend(axes) == ["U = 0"]


def test_forces_are_named_with_their_direction():
    case = drawn("elasticity")
    pulled = with_channels(case, force_x=2.0 * case.domain, force_y=0.0 * case.domain)
    assert legend(panel(picture(pulled), "domain")) == ["force → 2", "U_x = 0", "U_y = 0"]


def test_pixels_that_are_held_along_both_axes_have_a_colour_of_their_own():
    case = drawn("elasticity")
    rows, columns = np.nonzero(case.domain)
    fix_x, fix_y, none = (np.zeros_like(case.domain) for _ in range(3))
    fix_x[rows[:5], columns[:5]] = fix_y[rows[3:9], columns[3:9]] = True
    held = with_channels(case, fix_x=fix_x, fix_y=fix_y, force_x=0.0 * none, force_y=0.0 * none)
    axes = panel(picture(held), "domain")
    assert legend(axes) == ["U_x = 0", "U_y = 0", "U = 0"]
    places = [points.get_offsets().tolist() for points in axes.collections]
    pixels = np.stack([columns, rows], axis=1).astype(float).tolist()
    assert places == [pixels[:3], pixels[5:9], pixels[3:5]]
    assert len({points.get_facecolor().tobytes() for points in axes.collections}) == 3


def test_values_that_no_network_could_see_can_be_shown():
    case = drawn("poisson")
    huge = with_channels(case, source=np.where(case.domain, 1e200, 0.0))
    assert shown(panel(picture(huge), "source f")).max() == 1e200


def test_a_problem_of_ones_own_is_drawn_by_the_kinds_of_its_terms():
    @dataclass(frozen=True)
    class Heavy(ElasticityProblem):
        terms: ClassVar = (
            Term("domain", DOMAIN),
            Term("clamp_x", SUPPORT, "x"),
            Term("clamp_y", SUPPORT, "y"),
            Term("pull_x", FORCE, "x"),
            Term("weight", SOURCE),
        )

    given = drawn("elasticity").terms
    terms = {"domain": given["domain"], "clamp_x": given["fix_x"], "clamp_y": given["fix_y"]}
    case = replace(
        drawn("elasticity"),
        problem=Heavy("heavy", "−div σ(U) = w", resolution=24),
        terms={**terms, "pull_x": given["force_x"], "weight": 1.0 * given["domain"]},
    )
    figure = picture(case)
    assert legend(panel(figure, "domain"))[1:] == ["U_x = 0", "U_y = 0"]
    assert shown(panel(figure, "weight f")) == pytest.approx(1.0 * given["domain"])


def test_a_batch_is_not_one_picture():
    with pytest.raises(ValueError, match=r"batch of 2.*\[0\]"):
        plot_case(Case.stack([drawn("poisson"), drawn("poisson")]))
