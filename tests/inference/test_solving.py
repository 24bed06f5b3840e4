"""Physical solutions of a user's own loads: linear, of any size and sign, for every problem."""

import numpy as np
import pytest
import torch
from exact_engine import ExactEngine, exact_model, own_terms, relative, rough, wavy

import disol
from disol.inference.answer import COPIES, parts_at_once
from disol.inference.request import read_request
from disol.solvers.memory import USABLE

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
    exact, solution = disol.solve_exact(problem, conventions=conventions, **terms), model.solve(**terms)
    assert solution.field.shape == exact.field.shape == solution.pattern.shape
    assert relative(solution.field, exact.field) < 1e-3
    assert relative(solution.pattern, exact.pattern) < 1e-3
    assert np.allclose(solution.amplitude, exact.amplitude, rtol=1e-9)
    assert relative(solution.exact, exact.field) < 1e-9
    assert type(solution.amplitude) is type(exact.amplitude)
    assert solution.times == exact.times
    assert np.array_equal(solution.domain, exact.domain)
    assert not solution.field[..., ~exact.domain].any()


@pytest.mark.parametrize(("problem", "conventions"), PROBLEMS)
def test_fields_are_linear_in_the_load(tmp_path, problem, conventions):
    model = exact_model(tmp_path, problem, conventions, error=wavy)
    factor = 10.0 if problem == "elasticity" else -10.0  # networks see the sign of a force, but never that of a source
    once, other = model.solve(**own_terms(problem)), model.solve(**own_terms(problem, sign=factor))
    assert np.allclose(other.amplitude, 10 * np.asarray(once.amplitude), rtol=1e-5)
    assert relative(other.field, factor * once.field) < 1e-5


@pytest.mark.parametrize("problem", SIGNED)
def test_networks_see_sources_between_0_and_1_only(tmp_path, predictions, problem):
    exact_model(tmp_path, problem).solve(**own_terms(problem))
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
    exact = disol.solve_exact("poisson", **terms)
    assert relative(exact_model(tmp_path, "poisson").solve(**terms).field, exact.field) < 1e-3
    assert len(predictions) == expected


@pytest.mark.parametrize("problem", SIGNED)
def test_a_load_below_zero_has_the_size_of_one_above_and_the_opposite_pattern(tmp_path, problem):
    model, terms = exact_model(tmp_path, problem, error=wavy), own_terms(problem)
    loads = {name: np.abs(terms[name]) for name in ("source", "initial") if name in terms}
    above, below = (model.solve(**terms | {name: sign * load for name, load in loads.items()}) for sign in (1, -1))
    assert above.amplitude > 0
    assert below.amplitude == pytest.approx(above.amplitude, rel=1e-9)
    assert np.allclose(below.pattern, -above.pattern)


@pytest.mark.parametrize("name", ["force_x", "force_y"])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_force_along_one_axis_reaches_the_network_as_one_or_minus_one(tmp_path, predictions, name, sign):
    terms = own_terms("elasticity")
    terms |= {axis: 0 * terms[axis] for axis in ("force_x", "force_y")} | {name: sign * np.abs(terms[name])}
    solution = exact_model(tmp_path, "elasticity").solve(**terms)
    assert relative(solution.exact, disol.solve_exact("elasticity", **terms).field) < 1e-9
    (channels,) = predictions
    assert set(np.unique(channels[3:])) == {0.0, sign}


@pytest.mark.parametrize(("problem", "conventions"), PROBLEMS)
def test_no_load_is_zero_without_a_prediction(tmp_path, predictions, problem, conventions):
    terms = own_terms(problem, sign=0.0)
    solution = exact_model(tmp_path, problem, conventions).solve(**terms)
    exact = disol.solve_exact(problem, conventions=conventions, **terms)
    assert solution.field.shape == exact.field.shape
    assert not solution.field.any()
    assert not solution.pattern.any()
    assert not np.any(solution.amplitude)
    assert not predictions


@pytest.mark.parametrize(("problem", "conventions"), PROBLEMS)
def test_a_batch_is_a_loop_of_single_cases(tmp_path, problem, conventions):
    model = exact_model(tmp_path, problem, conventions, error=wavy)
    # A source of each kind: of both signs, none, of one sign.
    rows = [own_terms(problem, index, sign=sign) for index, sign in ((0, 1.0), (1, 0.0), (2, 2.0))]
    if "source" in rows[2]:
        rows[2]["source"] = np.abs(rows[2]["source"])
    batched = {name: np.stack([row[name] for row in rows]) for name in rows[0] if name != "times"}
    batch = model.solve(**batched, **{name: rows[0][name] for name in rows[0] if name == "times"})
    assert len(batch) == 3
    for single, row in zip(batch, rows, strict=True):
        alone = model.solve(**row)
        assert np.allclose(single.field, alone.field, rtol=1e-6, atol=1e-9 * (np.abs(alone.field).max() + 1))
        assert np.allclose(single.amplitude, alone.amplitude)
        assert np.isclose(single.error, alone.error, rtol=1e-4, atol=1e-9)
        assert np.array_equal(single.inputs, alone.inputs)
        assert type(single.amplitude) is type(alone.amplitude)
        assert single.solved_on == alone.solved_on == "cpu"


@pytest.mark.parametrize(("problem", "conventions"), PROBLEMS)
@pytest.mark.parametrize("error", [wavy, rough])
def test_a_solution_knows_its_error(tmp_path, problem, conventions, error):
    terms = own_terms(problem) | ({"times": list(range(0, 21, 2))} if problem == "heat" else {})
    exact = disol.solve_exact(problem, conventions=conventions, **terms).field
    solution = exact_model(tmp_path, problem, conventions, error=error).solve(**terms)
    assert solution.error == pytest.approx(relative(solution.field, exact), rel=1e-9)
    assert 0.005 < solution.error < 0.1
    perfect = exact_model(tmp_path / "perfect", problem, conventions).solve(**terms)
    assert perfect.error < 0.2 * solution.error


def test_nothing_is_solved_without_an_error(tmp_path):
    solution = exact_model(tmp_path, "poisson").solve(**own_terms("poisson") | {"source": np.zeros((32, 32))})
    assert solution.error == 0.0


def best_multiple(shape, target):
    return (shape * target).sum() / (shape * shape).sum() * shape


def test_terms_without_a_batch_axis_are_shared(tmp_path):
    model, terms = exact_model(tmp_path, "poisson"), own_terms("poisson")
    sources = [lambda x, y: x + y, np.ones((32, 32)), lambda x, y: np.sin(9 * x)]
    batch = model.solve(**terms | {"source": sources})
    assert batch.field.shape == (3, 1, 32, 32)
    for single, source in zip(batch, sources, strict=True):
        assert np.allclose(single.field, model.solve(**terms | {"source": source}).field, rtol=1e-6)


@pytest.mark.parametrize("problem", ["poisson", "elasticity", "heat"])
def test_drawn_cases_are_predicted_from_their_own_channels(tmp_path, predictions, problem):
    model = exact_model(tmp_path, problem, resolution=16)
    case = disol.draw(problem, 0, 1, resolution=16)
    solution = model.solve(case)
    assert np.array_equal(predictions, [case.inputs])  # not scaled again, though a coarse grid misses their maximum
    predicted = model.predict(case.inputs[None])[0]
    assert np.array_equal(solution.inputs, case.inputs)
    pattern = solution.pattern[0] if problem == "heat" else solution.pattern
    assert np.allclose(pattern, best_multiple(predicted, pattern), atol=1e-6)
    assert solution.amplitude == pytest.approx(disol.solve_exact(case).amplitude, rel=1e-9)


@pytest.mark.parametrize("problem", ["poisson", "advection-diffusion-high", "elasticity"])
def test_a_field_is_the_multiple_of_the_pattern_nearest_to_the_solution(tmp_path, problem):
    terms = own_terms(problem, sign=1.0)
    exact = disol.solve_exact(problem, **terms).field
    solution = exact_model(tmp_path, problem, error=wavy).solve(**terms)
    least = relative(best_multiple(solution.field, exact), exact)
    assert least > 0.01
    assert relative(solution.field, exact) == pytest.approx(least, rel=1e-9)
    assert np.allclose(solution.amplitude * solution.pattern, solution.field)


def test_a_drawn_source_is_scaled_with_an_initial_field_of_ones_own(tmp_path):
    case, own = disol.draw("heat", resolution=32), {"initial": np.full((32, 32), 7.0)}
    solution = exact_model(tmp_path, "heat").solve(case, **own)
    assert relative(solution.exact, disol.solve_exact(case, **own).field) < 1e-9


def test_other_resolutions_and_oblong_grids_are_used_with_a_warning(tmp_path):
    domain = np.ones((20, 31))
    terms = {"domain": domain, "dirichlet": np.eye(20, 31), "source": lambda x, y: x - y / 2}
    model = exact_model(tmp_path, "poisson")
    with pytest.warns(UserWarning, match="trained on 32 x 32 grids, got 20 x 31"):
        solution = model.solve(**terms)
    assert relative(solution.field, disol.solve_exact("poisson", **terms).field) < 0.02


def test_heat_starts_from_the_initial_field_itself(tmp_path):
    terms = own_terms("heat") | {"times": [0]}
    solution = exact_model(tmp_path, "heat", error=wavy).solve(**terms)
    assert np.allclose(solution.field, disol.solve_exact("heat", **terms).field, rtol=1e-6)


def test_heat_takes_its_amplitude_over_20_s_whatever_is_asked_for(tmp_path):
    terms = own_terms("heat")
    terms["initial"] = terms["initial"] / 50
    model = exact_model(tmp_path, "heat", error=wavy)
    for times in ([2], [40, 6]):
        exact, solution = (solve(**terms | {"times": times}) for solve in (solve_heat, model.solve))
        assert solution.amplitude == pytest.approx(exact.amplitude, rel=1e-9)
        assert relative(solution.field, exact.field) < 0.05


@pytest.mark.parametrize("times", [[2], [20], [50], [0, 30, 6]])
def test_heat_knows_its_error_at_the_times_asked_for(tmp_path, times):
    terms = own_terms("heat") | {"times": times}
    solution = exact_model(tmp_path, "heat", error=wavy).solve(**terms)
    error = relative(solution.field, solve_heat(**terms).field)
    assert error > 0.005
    assert solution.error == pytest.approx(error, rel=1e-9)


def test_a_frame_of_heat_is_the_same_whatever_else_is_asked_for(tmp_path, predictions):
    model, terms = exact_model(tmp_path, "heat", error=wavy), own_terms("heat", sign=1.0)
    together = model.solve(**terms | {"times": [0, 4, 40]})
    assert len(predictions) == 2 * 2  # frames of the positive and the negative part
    for number, time in enumerate(together.times):
        assert np.allclose(together.field[number], model.solve(**terms | {"times": [time]}).field[0], rtol=1e-12)


def solve_heat(**terms):
    return disol.solve_exact("heat", **terms)


@pytest.mark.parametrize("problem", ["poisson", "elasticity", "heat"])
@pytest.mark.parametrize("at_once", [1, 3])
def test_the_size_of_a_chunk_changes_nothing(monkeypatch, tmp_path, problem, at_once):
    model = exact_model(tmp_path, problem, error=wavy)
    own = [own_terms(problem), own_terms(problem, sign=0.0), own_terms(problem, sign=2.0), own_terms(problem)]
    shared = {name: own[0][name] for name in own[0] if name == "times"}
    batch = {name: np.stack([terms[name] for terms in own]) for name in own[0] if name not in shared}
    whole = model.solve(**batch, **shared)
    monkeypatch.setattr("disol.inference.answer.parts_at_once", lambda case, device: at_once)
    pieces = model.solve(**batch, **shared)
    for name in ("field", "exact", "pattern", "amplitude", "error"):
        assert np.allclose(getattr(pieces, name), getattr(whole, name), rtol=1e-9, atol=0), name


@pytest.mark.parametrize("problem", ["poisson", "elasticity", "heat"])
def test_the_parts_solved_at_once_fit_into_memory(monkeypatch, problem):
    free, frames = 2**23, {"poisson": 1, "elasticity": 2, "heat": 12}[problem]  # heat: 0 to 20 s, and 26 s
    for module in ("disol.inference.answer", "disol.solvers.memory"):
        monkeypatch.setattr(f"{module}.free_bytes_of_host", lambda: free)
    posed = read_request(disol.PROBLEMS[problem], "paper", None, own_terms(problem, resolution=64)).posed
    at_once = parts_at_once(posed, torch.device("cpu"))
    part = COPIES * frames * 8 * 65 * 65
    assert part * at_once <= USABLE * free < part * (at_once + 1)


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
    exact = disol.solve_exact(problem, **terms)
    solution = exact_model(tmp_path, problem, error=lambda pattern: pattern[..., ::-1, :] + 0.1).solve(**terms)
    error = relative(solution.field, exact.field)
    assert error > 0.1
    assert solution.error == pytest.approx(error, rel=1e-6)
    assert np.allclose(solution.amplitude, exact.amplitude, rtol=1e-6)


@pytest.mark.parametrize("problem", SIGNED)
def test_the_parts_of_a_load_are_sized_together(tmp_path, problem):
    model, terms = exact_model(tmp_path, problem, error=np.sqrt), own_terms(problem) | TIMES.get(problem, {})
    exact = disol.solve_exact(problem, **terms).field
    loads = [name for name in ("source", "initial") if name in terms]
    sides = [terms | {name: sign * np.maximum(sign * terms[name], 0) for name in loads} for sign in (1, -1)]
    apart = sum(model.solve(**side).field for side in sides)
    together = model.solve(**terms)
    assert together.error < 0.99 * relative(apart, exact)
    # No other sizes of the two are nearer: what is left is orthogonal to both.
    for side in sides:
        shape = model.solve(**side).field
        assert abs(((together.field - exact) * shape).sum()) < 1e-6 * np.linalg.norm(exact) * np.linalg.norm(shape)


@pytest.mark.parametrize("size", [1e-200, 1e30])
def test_the_error_does_not_depend_on_the_size_of_a_load(tmp_path, size):
    model, terms = exact_model(tmp_path, "poisson", error=wavy), own_terms("poisson")
    once, other = model.solve(**terms), model.solve(**{**terms, "source": size * terms["source"]})
    assert once.error > 0.01
    assert other.error == pytest.approx(once.error, rel=1e-6)
    assert other.amplitude == pytest.approx(size * once.amplitude, rel=1e-6)


def test_arrays_of_a_solution_are_its_own(tmp_path):
    model, terms = exact_model(tmp_path, "poisson"), own_terms("poisson")
    for source in (terms["source"], np.zeros((32, 32))):
        solution = model.solve(**terms | {"source": source})
        before = solution.exact.copy()
        solution.field[:] = solution.pattern[:] = 7.0
        assert np.array_equal(solution.exact, before)
