"""Verified predictions of a user's own loads: linear, of any size and sign, for every problem."""

from dataclasses import replace

import numpy as np
import pytest
from exact_engine import ExactEngine, exact_model, own_terms, relative, rough, wavy

import disol

pytestmark = pytest.mark.filterwarnings("ignore:The network was trained up to 20 s")

PROBLEMS = [
    ("poisson", "paper"),
    ("advection-diffusion-low", "paper"),
    ("advection-diffusion-high", "published"),
    ("elasticity", "paper"),
    ("elasticity", "published"),
    ("heat", "paper"),
]
SIGNED = ("poisson", "advection-diffusion-high", "heat")
TIMES = {"heat": {"times": [8]}}


@pytest.fixture
def predictions(monkeypatch):
    """The channels of every prediction that is made."""
    seen = []
    pattern = ExactEngine.pattern

    def spied(self, channels):
        seen.append(channels)
        return pattern(self, channels)

    monkeypatch.setattr(ExactEngine, "pattern", spied)
    return seen


@pytest.mark.parametrize(("problem", "conventions"), PROBLEMS)
def test_exact_patterns_become_exact_fields(tmp_path, problem, conventions):
    model, terms = exact_model(tmp_path, problem, conventions), own_terms(problem)
    exact, verified = disol.solve_exact(problem, conventions=conventions, **terms), model.verify(**terms)
    assert verified.prediction.field.shape == exact.field.shape == verified.prediction.pattern.shape
    assert relative(verified.prediction.field, exact.field) < (1e-3 if conventions == "paper" else 2e-3)
    assert relative(verified.prediction.pattern, exact.pattern) < 1e-3
    assert np.allclose(verified.prediction.amplitude, exact.amplitude, rtol=1e-9 if problem == "elasticity" else 2e-3)
    assert relative(verified.exact.field, exact.field) < 1e-9
    assert type(verified.prediction.amplitude) is type(exact.amplitude)
    assert verified.prediction.times == exact.times
    assert np.array_equal(verified.prediction.domain, exact.domain)
    assert not verified.prediction.field[..., ~exact.domain].any()


@pytest.mark.parametrize(("problem", "conventions"), PROBLEMS)
def test_fields_are_linear_in_the_load(tmp_path, problem, conventions):
    model = exact_model(tmp_path, problem, conventions, error=wavy)
    factor = 10.0 if problem == "elasticity" else -10.0  # networks see the sign of a force, but never that of a source
    once, other = model.verify(**own_terms(problem)), model.verify(**own_terms(problem, sign=factor))
    assert np.allclose(other.prediction.amplitude, 10 * np.asarray(once.prediction.amplitude), rtol=1e-5)
    assert relative(other.prediction.field, factor * once.prediction.field) < 1e-5


@pytest.mark.parametrize("problem", SIGNED)
def test_networks_see_sources_between_0_and_1_only(tmp_path, predictions, problem):
    exact_model(tmp_path, problem).verify(**own_terms(problem))
    channels = disol.PROBLEMS[problem].channels
    for name in {"source", "initial"} & set(channels):
        values = [channels.select(inputs, name) for inputs in predictions]
        assert min(map(np.min, values)) >= 0
        assert max(map(np.max, values)) <= 1
    sizes = [max(inputs[channels.position(name)].max() for name in channels[2:4]) for inputs in predictions]
    assert sizes == pytest.approx([1.0] * len(sizes))


@pytest.mark.parametrize(
    ("source", "expected"), [(1.0, 1), (-3.0, 1), ("signed", 2), ("mostly positive", 2), ("nearly positive", 1)]
)
def test_only_sources_that_change_sign_take_two_predictions(tmp_path, predictions, source, expected):
    terms = own_terms("poisson")
    x = np.broadcast_to(np.linspace(0, 1, 32), (32, 32))
    x = np.interp(x, [x[terms["domain"]].min(), x[terms["domain"]].max()], [-1, 1])  # on the domain from -1 to 1
    own = {"signed": x, "mostly positive": x + 0.8, "nearly positive": x + 0.97}
    terms["source"] = own.get(source, np.full((32, 32), source))
    exact = disol.solve_exact("poisson", **terms, conventions="paper")
    assert relative(exact_model(tmp_path, "poisson").verify(**terms).prediction.field, exact.field) < 1e-3
    assert len(predictions) == expected


@pytest.mark.parametrize("problem", SIGNED)
def test_a_load_below_zero_has_the_size_of_one_above_and_the_opposite_pattern(tmp_path, problem):
    model, terms = exact_model(tmp_path, problem, error=wavy), own_terms(problem)
    loads = {name: np.abs(terms[name]) for name in ("source", "initial") if name in terms}
    above, below = (model.verify(**terms | {name: sign * load for name, load in loads.items()}) for sign in (1, -1))
    assert above.prediction.amplitude > 0
    assert below.prediction.amplitude == pytest.approx(above.prediction.amplitude, rel=1e-9)
    assert np.allclose(below.prediction.pattern, -above.prediction.pattern)


@pytest.mark.parametrize("name", ["force_x", "force_y"])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_force_along_one_axis_reaches_the_network_as_one_or_minus_one(tmp_path, predictions, name, sign):
    terms = own_terms("elasticity")
    terms |= {axis: 0 * terms[axis] for axis in ("force_x", "force_y")} | {name: sign * np.abs(terms[name])}
    verified = exact_model(tmp_path, "elasticity").verify(**terms)
    assert relative(verified.exact.field, disol.solve_exact("elasticity", **terms, conventions="paper").field) < 1e-9
    (channels,) = predictions
    assert set(np.unique(channels[3:])) == {0.0, sign}


@pytest.mark.parametrize(("problem", "conventions"), PROBLEMS)
def test_no_load_is_zero_without_a_prediction(tmp_path, predictions, problem, conventions):
    terms = own_terms(problem, sign=0.0)
    verified = exact_model(tmp_path, problem, conventions).verify(**terms)
    exact = disol.solve_exact(problem, conventions=conventions, **terms)
    assert verified.prediction.field.shape == exact.field.shape
    assert not verified.prediction.field.any()
    assert not verified.prediction.pattern.any()
    assert not np.any(verified.prediction.amplitude)
    assert not predictions


@pytest.mark.parametrize(("problem", "conventions"), PROBLEMS)
def test_a_batch_is_a_loop_of_single_cases(tmp_path, problem, conventions):
    model = exact_model(tmp_path, problem, conventions, error=wavy)
    # A source of each kind: of both signs, none, of one sign.
    rows = [own_terms(problem, index, sign=sign) for index, sign in ((0, 1.0), (1, 0.0), (2, 2.0))]
    if "source" in rows[2]:
        rows[2]["source"] = np.abs(rows[2]["source"])
    batched = {name: np.stack([row[name] for row in rows]) for name in rows[0] if name != "times"}
    batch = model.verify(**batched, **{name: rows[0][name] for name in rows[0] if name == "times"})
    assert len(batch) == 3
    for single, row in zip(batch, rows, strict=True):
        alone = model.verify(**row)
        size = np.abs(alone.prediction.field).max() + 1
        assert np.allclose(single.prediction.field, alone.prediction.field, rtol=1e-6, atol=1e-9 * size)
        assert np.allclose(single.prediction.amplitude, alone.prediction.amplitude)
        assert np.isclose(single.error, alone.error, rtol=1e-4, atol=1e-9)
        assert np.array_equal(single.case.inputs, alone.case.inputs)
        assert type(single.prediction.amplitude) is type(alone.prediction.amplitude)
        assert type(single.error) is type(alone.error)
        assert single.exact.device == alone.exact.device == "cpu"


@pytest.mark.parametrize(("problem", "conventions"), PROBLEMS)
@pytest.mark.parametrize("error", [wavy, rough])
def test_a_solution_knows_its_error(tmp_path, problem, conventions, error):
    terms = own_terms(problem) | ({"times": list(range(0, 21, 2))} if problem == "heat" else {})
    exact = disol.solve_exact(problem, conventions=conventions, **terms).field
    verified = exact_model(tmp_path, problem, conventions, error=error).verify(**terms)
    assert verified.error == pytest.approx(relative(verified.prediction.field, exact), rel=1e-9)
    assert 0.005 < verified.error < 0.1
    perfect = exact_model(tmp_path / "perfect", problem, conventions).verify(**terms)
    assert perfect.error < 0.2 * verified.error


def test_nothing_is_solved_without_an_error(tmp_path):
    verified = exact_model(tmp_path, "poisson").verify(**own_terms("poisson") | {"source": np.zeros((32, 32))})
    assert verified.error == 0.0


def best_multiple(shape, target):
    return (shape * target).sum() / (shape * shape).sum() * shape


def test_terms_without_a_batch_axis_are_shared(tmp_path):
    model, terms = exact_model(tmp_path, "poisson"), own_terms("poisson")
    sources = [lambda x, y: x + y, np.ones((32, 32)), lambda x, y: np.sin(9 * x)]
    batch = model.verify(**terms | {"source": sources})
    assert batch.prediction.field.shape == (3, 1, 32, 32)
    for single, source in zip(batch, sources, strict=True):
        alone = model.verify(**terms | {"source": source})
        assert np.allclose(single.prediction.field, alone.prediction.field, rtol=1e-6)


@pytest.mark.parametrize("problem", ["poisson", "elasticity", "heat"])
def test_drawn_cases_are_predicted_from_their_own_channels(tmp_path, predictions, problem):
    model = exact_model(tmp_path, problem, resolution=16)
    case = disol.draw(problem, 0, 1, resolution=16, conventions="paper")
    verified = model.verify(case)
    assert np.array_equal(predictions[-1], case.inputs)  # not scaled again, though a coarse grid misses their maximum
    predicted = model.predict_pattern(case.inputs[None])[0]
    assert np.array_equal(verified.case.inputs, case.inputs)
    pattern = verified.prediction.pattern[0] if problem == "heat" else verified.prediction.pattern
    assert np.allclose(pattern, best_multiple(predicted, pattern), atol=1e-6)
    tolerance = 1e-9 if problem == "elasticity" else 5e-3
    assert verified.prediction.amplitude == pytest.approx(disol.solve_exact(case).amplitude, rel=tolerance)


@pytest.mark.parametrize("problem", ["poisson", "elasticity", "heat"])
def test_a_list_of_drawn_cases_is_a_loop_of_them(tmp_path, predictions, problem):
    model = exact_model(tmp_path, problem, resolution=16, error=wavy)
    times = {"times": [4.0]} if problem == "heat" else {}
    cases = [
        replace(case, terms={**case.terms, **times})
        for case in (
            disol.draw(problem, 0, 1, resolution=16, conventions="paper"),
            disol.draw(problem, 0, 2, resolution=16, conventions="paper"),
        )
    ]
    batch = model.verify(cases)
    asked = predictions if problem != "heat" else [inputs for inputs in predictions if inputs[-1].max() == 4 / 20]
    assert np.array_equal(asked, [case.inputs for case in cases])  # not scaled again
    for single, case in zip(batch, cases, strict=True):
        alone = model.verify(case)
        assert relative(single.prediction.field, alone.prediction.field) < 1e-12
        assert single.error == pytest.approx(alone.error, abs=1e-12)


def test_displacements_are_the_multiple_of_the_pattern_nearest_to_the_solution(tmp_path):
    terms = own_terms("elasticity", sign=1.0)
    exact = disol.solve_exact("elasticity", **terms, conventions="paper").field
    verified = exact_model(tmp_path, "elasticity", error=wavy).verify(**terms)
    least = relative(best_multiple(verified.prediction.field, exact), exact)
    assert least > 0.01
    assert relative(verified.prediction.field, exact) == pytest.approx(least, rel=1e-9)
    assert np.allclose(verified.prediction.amplitude * verified.prediction.pattern, verified.prediction.field)


def test_a_drawn_source_is_scaled_with_an_initial_field_of_ones_own(tmp_path):
    case, own = disol.draw("heat", resolution=32, conventions="paper"), {"initial": np.full((32, 32), 7.0)}
    verified = exact_model(tmp_path, "heat").verify(case, **own)
    assert relative(verified.exact.field, disol.solve_exact(case, **own).field) < 1e-9


def test_other_resolutions_and_oblong_grids_are_used_with_a_warning(tmp_path):
    domain = np.ones((20, 31))
    terms = {"domain": domain, "dirichlet": np.eye(20, 31), "source": lambda x, y: x - y / 2}
    model = exact_model(tmp_path, "poisson")
    with pytest.warns(UserWarning, match="trained on 32 x 32 grids, got 20 x 31"):
        verified = model.verify(**terms)
    assert relative(verified.prediction.field, disol.solve_exact("poisson", **terms, conventions="paper").field) < 0.02


def test_times_after_the_trained_ones_are_solved_with_a_warning(tmp_path):
    model, terms = exact_model(tmp_path, "heat"), own_terms("heat") | {"times": [2, 22]}
    with pytest.warns(UserWarning, match="trained up to 20 s: expect larger errors after that") as caught:
        model.verify(**terms)
    assert caught[0].filename == __file__


def test_heat_starts_from_the_initial_field_itself(tmp_path):
    terms = own_terms("heat") | {"times": [0]}
    verified = exact_model(tmp_path, "heat", error=wavy).verify(**terms)
    assert np.allclose(
        verified.prediction.field, disol.solve_exact("heat", **terms, conventions="paper").field, rtol=1e-6
    )


def test_heat_takes_its_amplitude_over_20_s_whatever_is_asked_for(tmp_path):
    terms = own_terms("heat")
    terms["initial"] = terms["initial"] / 50
    model = exact_model(tmp_path, "heat", error=wavy)
    for times in ([2], [40, 6]):
        exact, verified = (solve(**terms | {"times": times}) for solve in (solve_heat, model.verify))
        assert verified.exact.amplitude == pytest.approx(exact.amplitude, rel=1e-9)
        assert verified.prediction.amplitude == pytest.approx(np.abs(verified.prediction.field).max(), rel=1e-9)
        assert relative(verified.prediction.field, exact.field) < 0.05


@pytest.mark.parametrize("times", [[2], [20], [50], [0, 30, 6]])
def test_heat_knows_its_error_at_the_times_asked_for(tmp_path, times):
    terms = own_terms("heat") | {"times": times}
    verified = exact_model(tmp_path, "heat", error=wavy).verify(**terms)
    error = relative(verified.prediction.field, solve_heat(**terms).field)
    assert error > 0.005
    assert verified.error == pytest.approx(error, rel=1e-9)


def test_a_frame_of_heat_is_the_same_whatever_else_is_asked_for(tmp_path, predictions):
    model, terms = exact_model(tmp_path, "heat", error=wavy), own_terms("heat", sign=1.0)
    together = model.verify(**terms | {"times": [0, 4, 40]})
    assert len(predictions) == 2 * 3  # of the positive and the negative part: those asked for, and the first step
    for number, time in enumerate(together.prediction.times):
        alone = model.verify(**terms | {"times": [time]})
        assert np.allclose(together.prediction.field[number], alone.prediction.field[0], rtol=1e-12)


def solve_heat(**terms):
    return disol.solve_exact("heat", **terms, conventions="paper")


@pytest.mark.parametrize("problem", ["poisson", "elasticity", "heat"])
@pytest.mark.parametrize("at_once", [1, 3])
def test_the_size_of_a_chunk_changes_nothing(monkeypatch, tmp_path, problem, at_once):
    model = exact_model(tmp_path, problem, error=wavy)
    own = [own_terms(problem), own_terms(problem, sign=0.0), own_terms(problem, sign=2.0), own_terms(problem)]
    shared = {name: own[0][name] for name in own[0] if name == "times"}
    batch = {name: np.stack([terms[name] for terms in own]) for name in own[0] if name not in shared}
    whole = model.verify(**batch, **shared)
    monkeypatch.setattr("disol.surrogate.verification.cases_at_once", lambda case, device: at_once)
    pieces = model.verify(**batch, **shared)
    assert np.allclose(pieces.error, whole.error, rtol=1e-9, atol=0)
    for found, expected in ((pieces.prediction, whole.prediction), (pieces.exact, whole.exact)):
        for name in ("field", "pattern", "amplitude"):
            assert np.allclose(getattr(found, name), getattr(expected, name), rtol=1e-9, atol=0), name
    assert np.allclose(pieces.exact.nodes, whole.exact.nodes, rtol=1e-9, atol=0)


def cut_plate(problem):
    """A plate that hangs by one pixel and is held at a few: neither networks nor coarse grids see that."""
    size = 32
    domain, held, load = (np.zeros((size, size)) for _ in range(3))
    domain[4:28, 4:28] = 1
    domain[4:27, 16] = 0
    held[4:7, 4] = 1
    load[16:21, 27] = 1
    if problem == "elasticity":
        return {"domain": domain, "fix_x": held, "fix_y": held, "force_x": load, "force_y": 0 * load}
    terms = {"domain": domain, "dirichlet": held, "source": load}
    return terms | ({"initial": 0 * load, "times": [2, 20, 50]} if problem == "heat" else {})


@pytest.mark.parametrize("problem", ["poisson", "advection-diffusion-high", "elasticity", "heat"])
def test_size_and_error_are_known_where_a_domain_hangs_by_a_pixel(tmp_path, problem):
    terms = cut_plate(problem)
    exact = disol.solve_exact(problem, **terms, conventions="paper")
    verified = exact_model(tmp_path, problem, error=lambda pattern: pattern[..., ::-1, :] + 0.1).verify(**terms)
    error = relative(verified.prediction.field, exact.field)
    assert error > 0.1
    assert verified.error == pytest.approx(error, rel=1e-6)
    assert np.allclose(verified.exact.amplitude, exact.amplitude, rtol=1e-6)


@pytest.mark.parametrize("problem", SIGNED)
def test_the_parts_of_a_load_are_sized_together(tmp_path, problem):
    model, terms = exact_model(tmp_path, problem, error=np.sqrt), own_terms(problem) | TIMES.get(problem, {})
    exact = disol.solve_exact(problem, **terms, conventions="paper").field
    loads = [name for name in ("source", "initial") if name in terms]
    sides = [terms | {name: sign * np.maximum(sign * terms[name], 0) for name in loads} for sign in (1, -1)]
    apart = sum(model.verify(**side).prediction.field for side in sides)
    assert model.verify(**terms).error < 0.99 * relative(apart, exact)


def test_parts_that_a_solution_sizes_leave_an_error_orthogonal_to_them(tmp_path):
    heat = replace(disol.PROBLEMS["heat"], steps_per_frame=2)  # whose first step is no frame that networks know
    model, terms = exact_model(tmp_path, heat, error=np.sqrt), own_terms("heat") | TIMES["heat"]
    together = model.verify(**terms)
    for sign in (1, -1):
        side = terms | {name: sign * np.maximum(sign * terms[name], 0) for name in ("source", "initial")}
        shape, rest = model.verify(**side).prediction.field, together.prediction.field - together.exact.field
        assert abs((rest * shape).sum()) < 1e-6 * np.linalg.norm(together.exact.field) * np.linalg.norm(shape)


@pytest.mark.parametrize("size", [1e-200, 1e30])
def test_the_error_does_not_depend_on_the_size_of_a_load(tmp_path, size):
    model, terms = exact_model(tmp_path, "poisson", error=wavy), own_terms("poisson")
    once, other = model.verify(**terms), model.verify(**{**terms, "source": size * terms["source"]})
    assert once.error > 0.01
    assert other.error == pytest.approx(once.error, rel=1e-6)
    assert other.prediction.amplitude == pytest.approx(size * once.prediction.amplitude, rel=1e-6)


def test_arrays_of_a_solution_are_its_own(tmp_path):
    model, terms = exact_model(tmp_path, "poisson"), own_terms("poisson")
    for source in (terms["source"], np.zeros((32, 32))):
        verified = model.verify(**terms | {"source": source})
        before = verified.exact.field.copy()
        verified.prediction.field[:] = verified.prediction.pattern[:] = 7.0
        assert np.array_equal(verified.exact.field, before)


def test_verifications_are_shown_in_a_few_lines(tmp_path):
    model, terms = exact_model(tmp_path, "poisson", error=wavy), own_terms("poisson")
    one, batch = model.verify(**terms), model.verify(**terms | {"source": np.stack([terms["source"]] * 3)})
    assert repr(one) == f"Verification(relative L2 error {one.error:.2%}, of {one.case})"
    assert repr(batch).startswith(f"Verification(relative L2 error {one.error:.2%} on average, {one.error:.2%} at most")
    assert max(len(repr(each)) for each in (model, one, batch)) < 300
    assert "poisson" in repr(model)
    assert "exact on cpu" in repr(model)
    shown = one._repr_html_()
    assert '<img src="data:image/png;base64,' in shown
    assert shown.endswith(f"<div>{one!r}</div>")
