"""What a model refuses to solve, and that it says so as `solve_exact` does."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from exact_engine import exact_model, own_terms

import disol
from disol.models import create_model, save_checkpoint


@pytest.fixture
def model(tmp_path):
    return exact_model(tmp_path / "model", "poisson")


def message_of(solve, **data):
    with pytest.raises(ValueError) as caught:  # noqa: PT011  the texts are compared
        solve(**data)
    return str(caught.value)


WRONG = {
    "missing term": {"source": None},
    "unknown term": {"colour": 1},
    "empty domain": {"domain": np.zeros((32, 32))},
    "grey domain": {"domain": np.full((32, 32), 0.5)},
    "ragged domain": {"domain": [[1, 1], [1]]},
    "masks of two grids": {"domain": [np.ones((32, 32)), np.ones((16, 16))]},
    "tensor with gradients": {"source": torch.ones(32, 32, requires_grad=True)},
    "tensors with gradients": {"source": [torch.ones(32, 32, requires_grad=True)] * 2},
    "other shape": {"dirichlet": np.ones((8, 8))},
    "nothing pinned": {"dirichlet": np.zeros((32, 32))},
    "pinned outside": {"dirichlet": np.ones((32, 32))},
    "all pinned": {"domain": np.ones((32, 32)), "dirichlet": np.ones((32, 32))},
    "all pinned, no load": {"domain": np.ones((32, 32)), "dirichlet": np.ones((32, 32)), "source": np.zeros((32, 32))},
    "source of nan": {"source": np.full((32, 32), np.nan)},
    "source that fails": {"source": lambda x, y: x.nothing},
    "source of text": {"source": lambda x, y: np.full(x.shape, "a")},
    "infinite source": {"source": lambda x, y: np.full(x.shape, np.inf)},
    "short source": {"source": lambda x, y: np.ones(3)},
    "diffusion of text": {"diffusion": "much"},
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG.keys())
def test_wrong_data_are_the_errors_of_solve_exact(model, wrong):
    data = own_terms("poisson") | wrong
    data = {name: value for name, value in data.items() if value is not None}
    expected = message_of(lambda **terms: disol.solve_exact("poisson", **terms), **data)
    assert message_of(model.solve, **data) == expected


def test_an_error_in_a_batch_names_the_case(model):
    terms = own_terms("poisson")
    domains = np.stack([terms["domain"], np.zeros((32, 32))])
    with pytest.raises(ValueError, match="Case 1: domain is empty"):
        model.solve(**terms | {"domain": domains})


@pytest.mark.parametrize(("problem", "name"), [("poisson", "source"), ("heat", "initial"), ("elasticity", "force_y")])
def test_loads_beyond_the_range_of_networks_are_refused(tmp_path, problem, name):
    model, terms = exact_model(tmp_path / "model", problem), own_terms(problem)
    loads = terms | {name: 1e39 * terms["domain"]}
    message = rf"{name} must not exceed 3.4e\+38, for networks compute in float32, got 1.0e\+39. Use other units"
    with pytest.raises(ValueError, match=message):
        model.solve(**loads)
    with pytest.raises(ValueError, match=f"Case 1: {message}"):
        model.solve(**terms | {name: np.stack([terms["domain"], 1e39 * terms["domain"]])})
    assert disol.solve_exact(problem, **loads).amplitude > 1e34


def test_batches_of_different_lengths_are_refused(model):
    terms = own_terms("poisson")
    batch = {"domain": np.stack([terms["domain"]] * 2), "source": np.ones((3, 32, 32))}
    with pytest.raises(ValueError, match=r"equally many cases.*2 of domain, 3 of source"):
        model.solve(**terms | batch)
    with pytest.raises(ValueError, match="at least one, got 0 of source"):
        model.solve(**terms | {"source": np.ones((0, 32, 32))})


def test_numbers_of_the_equation_must_be_those_of_training(model):
    terms = own_terms("poisson")
    assert model.solve(**terms, diffusion=1.0).amplitude == model.solve(**terms).amplitude
    with pytest.raises(ValueError, match=re.escape("trained with diffusion 1.0, got 2.0. Leave diffusion out")):
        model.solve(**terms, diffusion=2)


def test_a_case_drawn_with_other_numbers_is_refused(model):
    steep = replace(disol.PROBLEMS["poisson"], diffusion=2.0)
    with pytest.raises(ValueError, match=re.escape("trained with diffusion 1.0, got 2.0. Leave diffusion out")):
        model.solve(disol.draw(steep, resolution=32))


def test_cases_of_another_kind_are_refused(model):
    with pytest.raises(ValueError, match="trained on 'poisson', but the case is of 'elasticity'"):
        model.solve(disol.draw("elasticity", resolution=32))
    with pytest.raises(ValueError, match="conventions 'paper', but the case was drawn with 'published'"):
        model.solve(disol.draw("poisson", resolution=32, conventions="published"))
    with pytest.raises(ValueError, match=r"drawn by disol.draw or data by name, got ndarray. Pass domain=..., "):
        model.solve(np.ones((32, 32)))


def test_terms_can_replace_those_of_a_drawn_case(model):
    case = disol.draw("poisson", resolution=32)
    source = np.full((32, 32), 7.0)
    replaced = model.solve(case, source=source)
    assert np.array_equal(replaced.field, model.solve(**case.terms | {"source": source}).field)


def test_a_network_that_predicts_amplitudes_solves_nothing(tmp_path):
    network = create_model("disol-amplitude", "poisson", width=4, depth=2, gated_skips=1)
    model = disol.load(save_checkpoint(tmp_path / "run", network, "poisson", resolution=32))
    with pytest.raises(ValueError, match=r"needs a model of patterns.*log-amplitude"):
        model.solve(**own_terms("poisson"))
