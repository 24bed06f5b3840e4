"""What every model of the table does for every problem."""

import numpy as np
import pytest
import torch

from disol.cases import draw
from disol.models import MODELS, create_model, describe_model, list_models, load_checkpoint, save_checkpoint
from disol.problems import PROBLEMS
from disol.solutions import solve_exact

SMALL = {
    "disol": {"width": 8, "depth": 3, "head_width": 8},
    "disol-amplitude": {"width": 8, "depth": 3, "head_width": 8},
    "unet": {"width": 8, "depth": 3, "head_width": 8},
    "fno": {"width": 8, "modes": 4, "head_width": 16},
    "deeponet": {"sensors": 16, "width": 16, "basis": 16, "trunk_width": 32},
    "geo-fno": {"width": 8, "modes": 4, "latent": 12, "deformation_width": 16, "head_width": 16},
    "gno": {"width": 8, "kernel_width": 16, "rounds": 3, "neighbours": 12, "head_width": 16},
    "dimon": {"width": 32, "points": 64, "components": 4, "basis": 16, "trunk_width": 16},
}
ONE_PART = {"dimon"}  # models of domains without holes
EVERY = [(model, problem) for model in MODELS for problem in PROBLEMS]


def small_model(name, problem, **settings):
    torch.manual_seed(0)
    return create_model(name, problem, **SMALL[name] | settings)


def stack_cases(problem, count, resolution=16):
    cases = [draw(problem, seed=0, index=index, resolution=resolution, conventions="paper") for index in range(count)]
    return cases, torch.from_numpy(np.stack([case.inputs for case in cases]))


def random_inputs(model, batch=2, size=(16, 16), seed=1):
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(batch, len(model.channels), *size, generator=generator)
    if describe_model(model) in ONE_PART:
        inputs[:, model.domain_position] = 0
        inputs[:, model.domain_position, 2:-3, 3:-2] = 1
    else:
        inputs[:, model.domain_position] = (inputs[:, model.domain_position] > 0).float()
    return inputs


@pytest.mark.parametrize(("name", "problem"), EVERY)
def test_predictions_have_the_shape_of_the_answer_and_are_zero_outside(name, problem):
    model = small_model(name, problem)
    _, inputs = stack_cases(problem, 2)
    prediction = model(inputs)
    assert prediction.isfinite().all()
    if model.predicts == "log-amplitude":
        assert prediction.shape == (2,)
    else:
        assert prediction.shape == (2, len(PROBLEMS[problem].fields), 16, 16)
        outside = inputs[:, [model.channels.position("domain")]] == 0
        assert (prediction[outside.expand_as(prediction)] == 0).all()


@pytest.mark.parametrize(("name", "problem"), EVERY)
def test_every_parameter_gets_a_gradient(name, problem):
    model = small_model(name, problem)
    model(random_inputs(model)).square().sum().backward()
    for weight_name, weight in model.named_parameters():
        assert weight.grad is not None, weight_name
        assert weight.grad.isfinite().all(), weight_name
        assert weight.ndim == 1 or weight.grad.any(), weight_name


@pytest.mark.parametrize("name", MODELS)
def test_cases_of_a_batch_do_not_interact(name):
    model = small_model(name, "elasticity").eval()
    inputs, others = random_inputs(model, batch=3), random_inputs(model, batch=3, seed=2)
    others[0] = inputs[0]
    assert torch.equal(model(inputs)[0], model(others)[0])
    torch.testing.assert_close(model(inputs)[:1], model(inputs[:1]))


@pytest.mark.parametrize("name", MODELS)
def test_a_grid_need_not_be_square_nor_even(name):
    model = small_model(name, "poisson")
    inputs = random_inputs(model, size=(37, 50))
    prediction = model(inputs)
    assert prediction.isfinite().all()
    if model.predicts == "pattern":
        assert prediction.shape == (2, 1, 37, 50)
        assert not prediction[inputs[:, :1] == 0].any()


@pytest.mark.parametrize("name", MODELS)
def test_the_same_seed_gives_the_same_predictions(name):
    first, second = small_model(name, "heat"), small_model(name, "heat")
    inputs = random_inputs(first)
    assert torch.equal(first(inputs), second(inputs))


@pytest.mark.parametrize("name", MODELS)
def test_the_order_of_memory_does_not_matter(name):
    model = small_model(name, "poisson")
    inputs = random_inputs(model)
    expected = model(inputs)
    model = model.to(memory_format=torch.channels_last)
    torch.testing.assert_close(model(inputs.to(memory_format=torch.channels_last)), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_half_precision_arithmetic_stays_close(name):
    model = small_model(name, "poisson")
    inputs = random_inputs(model)
    with torch.autocast("cpu", torch.bfloat16):
        prediction = model(inputs)
    torch.testing.assert_close(prediction.float(), model(inputs), rtol=0.1, atol=0.05)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("problem", ["poisson", "elasticity"])
def test_a_checkpoint_brings_back_every_bit(name, problem, tmp_path):
    model = small_model(name, problem).eval()
    save_checkpoint(tmp_path, model, problem, resolution=16)
    loaded = load_checkpoint(tmp_path).network
    inputs = random_inputs(model)
    assert type(loaded) is type(model)
    assert loaded.config == model.config
    assert torch.equal(loaded(inputs), model(inputs))


def target_of(model, case):
    exact = solve_exact(case)
    return exact.pattern if model.predicts == "pattern" else np.log(exact.amplitude)


@pytest.mark.parametrize(("name", "problem"), [*((name, "poisson") for name in MODELS), ("disol", "elasticity")])
def test_four_cases_are_learned_by_heart(name, problem):
    model = small_model(name, problem)
    cases, inputs = stack_cases(problem, 4)
    target = torch.from_numpy(np.stack([target_of(model, case) for case in cases])).float()
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(150):
        optimiser.zero_grad()
        loss = (model(inputs) - target).square().mean()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert min(losses[-20:]) < losses[0] / 10


def test_the_table_lists_its_models():
    assert list_models() == tuple(MODELS)
