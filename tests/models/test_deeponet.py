"""DeepONet against its formula."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from scipy.special import erf

from disol.models import count_parameters, create_model

SMALL = {"sensors": 8, "width": 5, "cnn_width": 4, "basis": 6, "trunk_width": 7}


def small_model(problem="elasticity", **settings):
    torch.manual_seed(0)
    model = create_model("deeponet", problem, **SMALL | settings)
    torch.nn.init.normal_(model.bias)
    return model


def written_out(layers, values):
    """σ(… σ(v W₁ᵀ + b₁) …) Wₙᵀ + bₙ with σ(z) = z Φ(z)."""
    linear = [layer for layer in layers if isinstance(layer, torch.nn.Linear)]
    for place, layer in enumerate(linear):
        values = values @ layer.weight.detach().double().numpy().T + layer.bias.detach().double().numpy()
        if place < len(linear) - 1:
            values = gelu(values)
    return values


def gelu(values):
    return values * (1 + erf(values / np.sqrt(2))) / 2


def test_the_field_is_the_inner_product_of_branch_and_trunk():
    model = small_model()
    inputs = torch.rand(3, 5, 8, 8)
    centres = (np.arange(8) + 0.5) / 8
    coefficients = written_out(model.branch.layers, inputs.double().numpy().reshape(3, -1)).reshape(3, 2, 6)
    expected = np.zeros((3, 2, 8, 8))
    for row, y in enumerate(centres):
        for column, x in enumerate(centres):
            basis = gelu(written_out(model.trunk, np.array([x, y])))
            expected[:, :, row, column] = coefficients @ basis + model.bias.detach().numpy()
    expected *= inputs[:, :1].numpy()
    np.testing.assert_allclose(model(inputs).detach().numpy(), expected, atol=1e-5)


@pytest.mark.parametrize("branch", ["flat", "cnn"])
def test_coefficients_do_not_depend_on_where_the_field_is_asked_for(branch):
    model = small_model("poisson", branch=branch)
    coefficients = model.branch(torch.ones(1, 3, 8, 8))[0].detach()
    for size in (8, 5):
        inputs = torch.ones(1, 3, size, size)
        basis = model.evaluate_trunk(inputs)
        expected = (basis @ model.branch(inputs)[0] + model.bias).detach()
        torch.testing.assert_close(model(inputs)[0, 0].detach(), expected)
        if branch == "flat":  # constant channels are the same on every grid
            torch.testing.assert_close(model.branch(inputs)[0].detach(), coefficients)


@pytest.mark.parametrize("branch", ["flat", "cnn"])
@pytest.mark.parametrize("problem", ["elasticity", "heat"])
def test_both_branches_serve_several_fields_and_time_on_any_grid(branch, problem):
    model = small_model(problem, branch=branch)
    inputs = torch.rand(2, 5, 9, 14).round()
    prediction = model(inputs)
    assert prediction.shape == (2, len(model.fields), 9, 14)
    prediction.square().sum().backward()
    assert all(weight.grad is not None for weight in model.parameters())


def test_both_branches_are_of_the_same_size():
    for problem in ("poisson", "advection-diffusion-low", "elasticity", "heat"):
        with torch.device("meta"):
            flat, cnn = (create_model("deeponet", problem, branch=branch) for branch in ("flat", "cnn"))
        assert count_parameters(cnn) == pytest.approx(count_parameters(flat), rel=0.1)


def test_half_precision_tells_pixels_of_a_fine_grid_apart():
    model = small_model("poisson")
    with torch.autocast("cpu", torch.bfloat16):
        basis = model.evaluate_trunk(torch.ones(1, 3, 1, 1000))
    assert len(basis[0].unique(dim=0)) == 1000


def test_the_network_compiles_in_one_graph():
    # In a process of its own: shapes are checked here, and the checks are not part of the graph.
    program = (
        "import torch; from disol.models import create_model\n"
        "for branch in ('flat', 'cnn'):\n"
        "    model = create_model('deeponet', 'poisson', sensors=8, width=4, cnn_width=4, branch=branch)\n"
        "    compiled = torch.compile(model, backend='eager', fullgraph=True)\n"
        "    inputs = torch.rand(1, 3, 8, 8)\n"
        "    torch.testing.assert_close(compiled(inputs), model(inputs))"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
