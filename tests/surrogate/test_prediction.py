"""Predictions in physical units, sized by the discrete system and not by its solution."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from exact_engine import exact_model, own_terms, relative, rough, wavy

import disol
from disol.cases import Case
from disol.surrogate import prediction
from disol.surrogate.prediction import predict_fields

pytestmark = pytest.mark.filterwarnings("ignore:The network was trained up to 20 s")

SCALAR = [
    ("poisson", "paper"),
    ("poisson", "published"),
    ("advection-diffusion-low", "paper"),
    ("advection-diffusion-high", "paper"),
    ("advection-diffusion-high", "published"),
    ("heat", "paper"),
]


def scale(field, reference):
    """Return the multiple of a reference that is nearest to a field."""
    return (field * reference).sum() / (reference * reference).sum()


@pytest.mark.parametrize(("problem", "conventions"), SCALAR)
def test_exact_patterns_become_exact_fields_without_a_solution(tmp_path, monkeypatch, problem, conventions):
    model, terms = exact_model(tmp_path, problem, conventions), own_terms(problem)
    exact = disol.solve_exact(problem, conventions=conventions, **terms)
    for name in ("solve_here", "solve_there"):
        monkeypatch.setattr(f"disol.surrogate.verification.{name}", None)
    predicted = model.predict(**terms)
    assert predicted.field.shape == exact.field.shape
    assert predicted.field.dtype == np.float64
    assert relative(predicted.field, exact.field) < 2e-3
    assert predicted.amplitude == pytest.approx(exact.amplitude, rel=2e-3)
    assert predicted.nodes is None
    assert type(predicted.amplitude) is float
    assert not predicted.field[..., ~exact.domain].any()


@pytest.mark.parametrize(("problem", "conventions"), SCALAR)
def test_a_verified_prediction_is_the_prediction(tmp_path, problem, conventions):
    model, terms = exact_model(tmp_path, problem, conventions, error=wavy), own_terms(problem)
    predicted, verified = model.predict(**terms), model.verify(**terms)
    assert np.array_equal(predicted.field, verified.prediction.field)
    assert predicted.amplitude == verified.prediction.amplitude
    assert verified.error == pytest.approx(relative(predicted.field, verified.exact.field), rel=1e-9)


def test_a_prediction_that_is_still_heating_up_has_the_amplitude_of_its_own_frames(tmp_path):
    terms = own_terms("heat") | {"initial": np.zeros((32, 32)), "times": (2.0, 4.0)}
    exact = disol.solve_exact("heat", conventions="paper", **terms)
    predicted = exact_model(tmp_path, "heat").predict(**terms)
    assert predicted.amplitude == pytest.approx(np.abs(exact.field).max(), rel=2e-3)
    assert exact.amplitude > 1.5 * predicted.amplitude, "of frames up to 20 s"


@pytest.mark.parametrize("problem", ["poisson", "advection-diffusion-high"])
def test_errors_from_pixel_to_pixel_hardly_change_sizes(tmp_path, monkeypatch, problem):
    model, terms = exact_model(tmp_path, problem, error=rough), own_terms(problem)
    exact = disol.solve_exact(problem, **terms, conventions="paper").field
    smooth = abs(scale(model.predict(**terms).field, exact) - 1)
    # The projection of least energy error, if p were smooth.
    monkeypatch.setattr(prediction, "projected_sizes", partial(prediction.projected_sizes, smoothings=0))
    assert smooth < 4e-3
    assert abs(scale(model.predict(**terms).field, exact) - 1) > 4 * smooth


def test_sizes_are_accurate_where_advection_all_but_cancels_the_energy_of_diffusion(monkeypatch):
    model = disol.load("advection-diffusion-high", device="cpu")
    cases = [disol.draw("advection-diffusion-high", 1, index, conventions="paper") for index in range(8)]
    exact = [disol.solve_exact(case).field for case in cases]

    def worst():
        return max(abs(scale(p.field, e) - 1) for p, e in zip(model.predict(cases), exact, strict=True))

    weighted = worst()
    monkeypatch.setattr(type(model.problem), "symmetriser", lambda problem, grid: np.ones((129, 129)))
    assert weighted < 0.02
    assert worst() > 3 * weighted


def test_all_frames_of_heat_have_the_size_of_the_first_step(tmp_path):
    model, terms = exact_model(tmp_path, "heat", error=np.sqrt), own_terms("heat")
    terms |= {"source": np.abs(terms["source"]), "initial": np.abs(terms["initial"])}
    case = Case.from_arrays("heat", **terms, conventions="paper")
    shapes = prediction.predict_shapes(model.engine, case, model.normalisation, [2.0, 14.0, 26.0])[0, 0].numpy()
    predicted = model.predict(**terms | {"times": [2, 14, 26]}).field
    sizes = [scale(frame, shape) for frame, shape in zip(predicted, shapes, strict=True)]
    assert sizes == pytest.approx([sizes[0]] * 3, rel=1e-12)
    assert np.array_equal(model.predict(**terms | {"times": [14]}).field[0], predicted[1])


def test_a_prediction_starts_from_the_initial_field_itself(tmp_path):
    terms = own_terms("heat") | {"times": [4, 0]}
    predicted = exact_model(tmp_path, "heat", error=np.sqrt).predict(**terms)
    assert np.array_equal(predicted.field[1], disol.solve_exact("heat", **terms, conventions="paper").field[1])


@pytest.mark.parametrize("factor", [-3.0, 1e-200, 1e30])
def test_predictions_are_linear_in_the_load(tmp_path, factor):
    model, terms = exact_model(tmp_path, "poisson", error=wavy), own_terms("poisson")
    once, other = model.predict(**terms), model.predict(**terms | {"source": factor * terms["source"]})
    assert relative(other.field / factor, once.field) < 1e-6
    assert other.amplitude == pytest.approx(abs(factor) * once.amplitude, rel=1e-6)


def test_no_load_is_zero(tmp_path):
    predicted = exact_model(tmp_path, "poisson").predict(**own_terms("poisson", sign=0.0))
    assert not predicted.field.any()
    assert predicted.amplitude == 0.0


@pytest.mark.parametrize(("problem", "conventions"), SCALAR)
def test_a_batch_is_a_loop_of_single_cases(tmp_path, monkeypatch, problem, conventions):
    model = exact_model(tmp_path, problem, conventions, error=wavy)
    rows = [own_terms(problem, index, sign=sign) for index, sign in enumerate((1.0, 0.0, -2.0, 0.5))]
    shared = {name: rows[0][name] for name in rows[0] if name == "times"}
    batch = {name: np.stack([row[name] for row in rows]) for name in rows[0] if name not in shared}
    alone = [model.predict(**row) for row in rows]
    for at_once in (100, 2):
        monkeypatch.setattr(prediction, "cases_at_once", lambda case, device, most=at_once: most)
        together = model.predict(**batch, **shared)
        for found, single in zip(together, alone, strict=True):
            assert np.abs(found.field - single.field).max() <= 1e-9 * single.amplitude
            assert found.amplitude == pytest.approx(single.amplitude, rel=1e-9)
    tensors = Case.from_arrays(problem, conventions=conventions, device=torch.device("cpu"), **batch, **shared)
    fields, amplitudes = predict_fields(model.engine, tensors, model.normalisation)
    for number, single in enumerate(alone):
        assert np.abs(fields[number].numpy() - single.field).max() <= 1e-9 * single.amplitude
        assert float(amplitudes[number]) == pytest.approx(single.amplitude, rel=1e-9)


def test_what_the_system_cannot_size_is_refused(tmp_path):
    with pytest.raises(
        ValueError, match=r"The size of elasticity is known accurately from its solution only. Use verif"
    ):
        exact_model(tmp_path / "body", "elasticity").predict(**own_terms("elasticity"))
    heat = replace(disol.PROBLEMS["heat"], steps_per_frame=4)
    with pytest.raises(ValueError, match="The size of heat is known accurately from its solution only"):
        exact_model(tmp_path / "heat", heat).predict(**own_terms("heat"))


def test_the_input_is_checked_as_by_the_exact_solver(tmp_path):
    model, terms = exact_model(tmp_path, "poisson"), own_terms("poisson")
    with pytest.raises(ValueError, match="source"):
        model.predict(**terms | {"source": np.full((32, 32), np.nan)})
    with pytest.raises(ValueError, match="poisson has no 'force_x'"):
        model.predict(**terms, force_x=terms["domain"])


def test_a_warning_names_the_line_that_asked(tmp_path):
    model, terms = exact_model(tmp_path, "poisson", resolution=16), own_terms("poisson")
    with pytest.warns(UserWarning, match="trained on 16 x 16 grids") as caught:
        model.predict(**terms)
    assert caught[0].filename == __file__
