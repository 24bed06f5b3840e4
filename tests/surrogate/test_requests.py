"""What a surrogate refuses to verify, and that it says so as `solve_exact` does."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from exact_engine import exact_model, own_terms

import disol
from disol.models import create_model, save_checkpoint

pytestmark = pytest.mark.filterwarnings("ignore:The network was trained up to 20 s")


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
    expected = message_of(lambda **terms: disol.solve_exact("poisson", **terms, conventions="paper"), **data)
    assert message_of(model.verify, **data) == expected


def test_data_follow_the_conventions_of_training_unless_others_are_given(model):
    terms = own_terms("poisson")
    expected = model.predict(**terms).field
    assert np.array_equal(model.predict(**terms, conventions="paper").field, expected)
    assert np.array_equal(model.predict(**terms, conventions=None).field, expected)
    stated = {**terms, "dirichlet": {"outer": 0}}  # parts of a true boundary, which pixels can show
    found = model.verify(**stated, conventions="physical")
    assert np.array_equal(found.prediction.field, model.predict(disol.Case.from_arrays("poisson", **stated)).field)
    with pytest.raises(disol.DisolError, match="Networks and cases on pixels take supports at zero"):
        model.predict(**{**terms, "dirichlet": {"outer": 20}}, conventions="physical")
    with pytest.raises(disol.DisolError, match="conventions 'paper', not 'physical'"):
        model.predict(disol.draw("poisson", conventions="paper"), conventions="physical")


def test_an_error_in_a_batch_names_the_case(model):
    terms = own_terms("poisson")
    domains = np.stack([terms["domain"], np.zeros((32, 32))])
    with pytest.raises(ValueError, match="Case 1: domain is empty"):
        model.verify(**terms | {"domain": domains})


@pytest.mark.parametrize(("problem", "name"), [("poisson", "source"), ("heat", "initial"), ("elasticity", "force_y")])
def test_loads_beyond_the_range_of_networks_are_refused(tmp_path, problem, name):
    model, terms = exact_model(tmp_path / "model", problem), own_terms(problem)
    loads = terms | {name: 1e39 * terms["domain"]}
    message = rf"{name} must not exceed 3.4e\+38, for networks compute in float32, got 1.0e\+39. Use other units"
    with pytest.raises(ValueError, match=message):
        model.verify(**loads)
    with pytest.raises(ValueError, match=f"Case 1: {message}"):
        model.verify(**terms | {name: np.stack([terms["domain"], 1e39 * terms["domain"]])})
    assert disol.solve_exact(problem, **loads, conventions="paper").amplitude > 1e34


def test_batches_of_different_lengths_are_refused(model):
    terms = own_terms("poisson")
    batch = {"domain": np.stack([terms["domain"]] * 2), "source": np.ones((3, 32, 32))}
    with pytest.raises(ValueError, match=r"equally many cases.*2 of domain, 3 of source"):
        model.verify(**terms | batch)
    with pytest.raises(ValueError, match="at least one, got 0 of source"):
        model.verify(**terms | {"source": np.ones((0, 32, 32))})


def test_numbers_of_the_equation_must_be_those_of_training_up_to_a_factor(model):
    terms = own_terms("poisson")
    usual, halved = model.verify(**terms), model.verify(**terms, diffusion=2)
    assert halved.exact.field == pytest.approx(usual.exact.field / 2, rel=1e-12)
    assert halved.prediction.field == pytest.approx(usual.prediction.field / 2, rel=1e-5)
    with pytest.raises(ValueError, match=re.escape("the velocity (0.0, 0.0) that the model was made for")):
        model.verify(**terms, velocity=(1.0, 0.0))


def test_a_case_drawn_with_other_numbers_is_refused(model):
    steep = replace(disol.PROBLEMS["poisson"], velocity=(1.0, 2.0))
    with pytest.raises(ValueError, match=re.escape("the velocity (0.0, 0.0) that the model was made for")):
        model.verify(disol.draw(steep, resolution=32, conventions="paper"))


def test_cases_of_another_kind_are_refused(model):
    with pytest.raises(ValueError, match="problem 'poisson' that the model was made for, got 'elasticity'"):
        model.verify(disol.draw("elasticity", resolution=32, conventions="paper"))
    with pytest.raises(ValueError, match="conventions 'paper' that the model was made for, got 'published'"):
        model.verify(disol.draw("poisson", resolution=32, conventions="published"))
    for ask in (model.predict, model.verify):
        with pytest.raises(
            ValueError, match=r"Expected a case, a list of cases or data by name, got ndarray. Pass domain=..., "
        ):
            ask(np.ones((32, 32)))
    with pytest.raises(ValueError, match="A batch is made of cases, got ndarray"):
        model.verify([np.ones((32, 32))])
    with pytest.raises(ValueError, match="A batch needs at least one case, got none"):
        model.verify([])


def test_terms_can_replace_those_of_a_drawn_case(model):
    case = disol.draw("poisson", resolution=32, conventions="paper")
    source = np.full((32, 32), 7.0)
    replaced = model.verify(case, source=source)
    given = model.verify(**case.terms | {"source": source})
    assert np.array_equal(replaced.prediction.field, given.prediction.field)


def test_a_function_that_fails_names_its_case(model):
    sources = [lambda x, y: x, lambda x, y: x.nothing]
    with pytest.raises(ValueError, match="Case 1: The source function must accept two arrays"):
        model.verify(**own_terms("poisson") | {"source": sources})


def test_a_network_that_predicts_amplitudes_predicts_no_case(tmp_path):
    network = create_model("disol-amplitude", "poisson", width=4, depth=2, gated_skips=1)
    model = disol.load(save_checkpoint(tmp_path / "run", network, "poisson", resolution=32))
    for ask in (model.predict, model.verify):
        with pytest.raises(ValueError, match=r"Only a network of patterns can predict cases.*log-amplitude"):
            ask(**own_terms("poisson"))


def test_inputs_that_let_a_network_overflow_are_refused():
    inputs = np.full((1, 5, 16, 16), 2.0**64, dtype=np.float64)
    with pytest.raises(ValueError, match="The network overflows float32 on these inputs"):
        disol.load("elasticity", device="cpu").predict_pattern(inputs)


@pytest.mark.parametrize("shape", [(1, 3, 0, 16), (1, 3, 16, 0), (0, 3, 0, 0)])
def test_inputs_without_pixels_are_refused(shape):
    with pytest.raises(ValueError, match=r"inputs must be numbers \[batch, 3, height, width\], got float64"):
        disol.load("poisson", device="cpu").predict_pattern(np.zeros(shape))
