"""A batch is predicted and solved at once, and is what its cases are one by one."""

import numpy as np
import pytest
import torch
from exact_engine import exact_model, own_terms, wavy

import disol
from disol.cases import Case
from disol.surrogate import verification
from disol.surrogate.components import split_loads

pytestmark = pytest.mark.filterwarnings("ignore:The network was trained up to 20 s")

CPU = torch.device("cpu")
EVERY_PROBLEM = [
    (name, conventions) for name, problem in disol.PROBLEMS.items() for conventions in problem.known_conventions
]
LOADS = ("source", "initial", "force_x", "force_y")


def batch_of(problem, signs=(1.0, 0.0, -2.0, 0.5), resolution=32):
    """Cases with loads of both signs, of none, of one sign, and nearly of one sign."""
    rows = [own_terms(problem, index, resolution, sign) for index, sign in enumerate(signs)]
    for name in set(LOADS[:2]) & set(rows[0]):
        rows[2][name] = -np.abs(rows[2][name])
        rows[3][name] = np.abs(rows[3][name]) - 0.2
    shared = {name: rows[0].pop(name) for name in ("times",) if name in rows[0]}
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}, shared


def singles(batch, shared):
    return [{name: array[number] for name, array in batch.items()} | shared for number in range(len(batch["domain"]))]


def require_equal(together, alone):
    for part in ("prediction", "exact"):
        for name in ("field", "pattern", "amplitude"):
            found, expected = (np.asarray(getattr(getattr(each, part), name)) for each in (together, alone))
            assert np.abs(found - expected).max() <= 1e-12 * np.abs(expected).max(), name
    # An error is the difference of two fields, so it is known to the rounding errors of those.
    assert together.error == pytest.approx(alone.error, abs=1e-12)
    assert np.array_equal(together.case.inputs, alone.case.inputs)
    assert np.array_equal(together.case.domain, alone.case.domain)
    assert together.case.times == alone.case.times


@pytest.mark.parametrize(("problem", "conventions"), EVERY_PROBLEM)
def test_a_batch_of_arrays_is_a_loop_of_single_cases_to_rounding(tmp_path, monkeypatch, problem, conventions):
    model, (batch, shared) = exact_model(tmp_path, problem, conventions, error=wavy), batch_of(problem)
    alone = [model.verify(**case) for case in singles(batch, shared)]
    for at_once in (100, 2):
        monkeypatch.setattr(verification, "cases_at_once", lambda case, device, most=at_once: most)
        for together, single in zip(model.verify(**batch, **shared), alone, strict=True):
            require_equal(together, single)


@pytest.mark.parametrize(("problem", "conventions"), EVERY_PROBLEM)
def test_a_batch_that_is_solved_on_a_device_is_verified_as_one_that_is_not(tmp_path, monkeypatch, problem, conventions):
    model, (batch, shared) = exact_model(tmp_path, problem, conventions, error=wavy), batch_of(problem)
    case = Case.from_arrays(problem, conventions=conventions, device=CPU, **batch, **shared)
    expected, seconds = model.verify(**batch, **shared), {"exact": 0.0, "network": 0.0}
    # What a GPU would be asked to do, by torch on this CPU.
    for own, part in ((case, slice(None)), (case[1:3], slice(1, 3)), (case[0], slice(0, 1))):
        found = verification._verify_piece(model.engine, own, model.normalisation, True, seconds)
        for name, known in (
            ("prediction", expected.prediction.field),
            ("exact", expected.exact.field),
            ("nodes", expected.exact.nodes),
            ("amplitude", expected.exact.amplitude),
        ):
            size = np.abs(known[part]).max()
            assert np.abs(found[name].numpy() - known[part]).max() <= 1e-12 * size, name
        assert found["error"].numpy() == pytest.approx(expected.error[part], abs=1e-12)
    assert min(seconds.values()) > 0


@pytest.mark.parametrize(("problem", "conventions"), [each for each in EVERY_PROBLEM if each[0] != "elasticity"])
def test_a_list_of_functions_is_a_loop_of_single_cases_to_rounding(tmp_path, problem, conventions):
    model, (batch, shared) = exact_model(tmp_path, problem, conventions, error=wavy), batch_of(problem)
    batch["source"] = [lambda x, y: x - y, np.zeros((32, 32)), lambda x, y: -2 - y, lambda x, y: np.sin(25 * x)]
    together = model.verify(**batch, **shared)
    for single, own in zip(together, singles(batch, shared), strict=True):
        require_equal(single, model.verify(**own))


def test_components_are_of_one_sign_and_of_size_one():
    batch, _ = batch_of("poisson")
    case = Case.from_arrays("poisson", **batch, conventions="paper")
    for asked in (case, Case.from_arrays("poisson", device=CPU, **batch, conventions="paper")):
        components = split_loads(asked, CPU)
        assert components.owner.tolist() == [0, 0, 2, 3]  # of both signs, none, of one sign, nearly of one sign
        sources = components.inputs[:, 2].numpy()
        assert sources[:3].min() >= 0
        assert -0.05 < sources[3].min() < 0
        assert np.array_equal(sources.max(axis=(1, 2)), np.ones(4))
        assert np.array_equal(components.inputs[:, 0].numpy(), case.inputs[[0, 0, 2, 3], 0])
        placed = components.by_case(torch.arange(4.0), 4)
        assert placed.tolist() == [[0, 1], [0, 0], [2, 0], [3, 0]]


@pytest.mark.parametrize(("problem", "conventions"), EVERY_PROBLEM)
def test_shared_terms_are_those_of_every_case(tmp_path, problem, conventions):
    model, (batch, shared) = exact_model(tmp_path, problem, conventions, error=wavy), batch_of(problem)
    domain_and_markers = {name: array[0] for name, array in batch.items() if name not in LOADS}
    signs = np.array([1.0, -1.0, 3.0])[:, None, None]
    loads = {name: signs * array[0] for name, array in batch.items() if name in LOADS}
    alone = [
        model.verify(**domain_and_markers, **{name: load[number] for name, load in loads.items()}, **shared)
        for number in range(3)
    ]
    for together, single in zip(model.verify(**domain_and_markers, **loads, **shared), alone, strict=True):
        require_equal(together, single)


@pytest.mark.parametrize("kind", [bool, np.int64, np.float32, "list"])
def test_masks_are_read_in_any_type(tmp_path, kind):
    model, (batch, _) = exact_model(tmp_path, "poisson"), batch_of("poisson")
    converted = {
        name: array.tolist() if kind == "list" else array.astype(kind)
        for name, array in batch.items()
        if name != "source"
    }
    expected = model.verify(**batch).prediction.field
    assert np.array_equal(model.verify(**batch | converted).prediction.field, expected)
