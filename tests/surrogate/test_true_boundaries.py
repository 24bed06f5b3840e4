"""Networks know pixels: a case on its true boundary is predicted and verified on the pixels that show it."""

import numpy as np
import pytest
from exact_engine import exact_model

import disol
from disol import Case, DisolError

PIXELS = {"conventions": "paper"}


@pytest.mark.parametrize("problem", ["poisson", "elasticity", "heat"])
def test_a_drawn_case_is_verified_as_the_same_draw_on_pixels(tmp_path, problem):
    model = exact_model(tmp_path / "model", problem)
    case, pixels = (disol.draw(problem, 2, 1, resolution=32, **which) for which in ({}, PIXELS))
    assert case.boundary == "true"
    found, expected = model.verify(case), model.verify(pixels)
    assert found.case.conventions.name == found.prediction.case.conventions.name == "paper"
    assert np.array_equal(found.exact.field, expected.exact.field)
    assert np.array_equal(found.prediction.field, expected.prediction.field)
    assert np.array_equal(found.exact.nodes, disol.solve_exact(case.on_pixels()).nodes)
    true = disol.solve_exact(case).field
    assert np.linalg.norm(found.exact.field - true) > 0.01 * np.linalg.norm(true)


def test_sources_of_a_drawn_case_stay_what_they_are_on_pixels(tmp_path):
    case = disol.draw("advection-diffusion-high", 2, 1, resolution=32)
    found = exact_model(tmp_path / "model", "advection-diffusion-high").verify(case)
    terms = {name: case.terms[name] for name in ("domain", "dirichlet", "source")}
    assert np.array_equal(found.exact.field, disol.solve_exact("advection-diffusion-high", **terms, **PIXELS).field)


def test_batches_and_lists_go_to_pixels_whole(tmp_path):
    model = exact_model(tmp_path / "model", "poisson")
    cases = [disol.draw("poisson", 2, index, resolution=32) for index in range(3)]
    predicted = model.predict(cases)
    assert predicted.case.members == ()
    assert np.array_equal(predicted.field, model.predict(Case.stack(cases).on_pixels()).field)
    assert np.array_equal(model.predict(Case.stack(cases)[1:]).field, predicted.field[1:])
    assert model.predict(disol.solve_exact(cases).case, source=np.ones((32, 32))).case.conventions.name == "paper"


def test_what_pixels_do_not_show_is_refused(tmp_path):
    model = exact_model(tmp_path / "model", "poisson")
    stated = Case.from_arrays("poisson", domain=np.ones((32, 32)), dirichlet={"left": 20})
    with pytest.raises(DisolError, match="supports at zero and constant forces only: no values, fluxes or convection"):
        model.predict([stated, stated])
    with pytest.raises(DisolError, match="should have the problem 'poisson'"):
        model.verify(disol.draw("advection-diffusion-low", resolution=32))
