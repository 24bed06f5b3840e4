"""How large models are, and models of a given size."""

import pytest
import torch

from disol.models import MODELS, count_parameters, count_real_numbers, create_model, find_settings

PAPER = {
    ("fno", "poisson"): 0.13e6,
    ("fno", "advection-diffusion-low"): 0.53e6,
    ("fno", "advection-diffusion-high"): 0.53e6,
    ("fno", "elasticity"): 8.43e6,
    ("fno", "heat"): 0.745e6,
    ("deeponet", "poisson"): 0.14e6,
    ("deeponet", "advection-diffusion-high"): 0.66e6,
    ("deeponet", "elasticity"): 7.49e6,
    ("deeponet", "heat"): 0.745e6,
    ("geo-fno", "poisson"): 0.18e6,
    ("geo-fno", "advection-diffusion-high"): 0.51e6,
    ("geo-fno", "elasticity"): 7.52e6,
    ("geo-fno", "heat"): 0.745e6,
    ("gno", "poisson"): 0.13e6,
    ("gno", "advection-diffusion-low"): 0.53e6,
    ("gno", "elasticity"): 7.52e6,
    ("gno", "heat"): 0.745e6,
    ("dimon", "poisson"): 0.16e6,
    ("dimon", "advection-diffusion-low"): 0.64e6,
    ("dimon", "elasticity"): 7.52e6,
    ("dimon", "heat"): 0.745e6,
}
FREE = [name for name in MODELS if name != "disol-amplitude"]


@pytest.mark.parametrize(("model", "problem"), PAPER)
def test_sizes_are_those_of_the_paper(model, problem):
    with torch.device("meta"):
        network = create_model(model, problem)
    assert count_parameters(network) == pytest.approx(PAPER[model, problem], rel=0.1)


def test_a_complex_weight_counts_once_and_both_counts_are_told():
    network = create_model("fno", "poisson")
    assert count_parameters(network) == 134_561
    assert count_real_numbers(network) == sum(weight.numel() for weight in network.parameters()) == 265_633
    assert repr(network).endswith("134,561 parameters, 265,633 real numbers)")
    own = torch.nn.ParameterList([torch.zeros(3, dtype=torch.complex64), torch.zeros(2)])
    assert (count_parameters(own), count_real_numbers(own)) == (5, 8)
    assert count_real_numbers(create_model("unet", "poisson")) == 115_761


@pytest.mark.parametrize("name", FREE)
@pytest.mark.parametrize("parameters", [0.03e6, 0.13e6, 0.49e6])
def test_a_model_of_about_so_many_parameters_is_found(name, parameters):
    network = create_model(name, "poisson", parameters=parameters)
    assert count_parameters(network) == pytest.approx(parameters, rel=0.1)
    assert network.config == find_settings(name, "poisson", parameters)


def test_what_is_given_stays_when_a_size_is_found():
    network = create_model("fno", "heat", parameters=0.2e6, modes=6, head_width=64)
    assert (network.config.modes, network.config.head_width) == (6, 64)
    assert count_parameters(network) == pytest.approx(0.2e6, rel=0.1)


def test_a_size_that_cannot_be_is_told_with_the_closest():
    with pytest.raises(
        ValueError, match=r"fno of poisson comes closest to parameters=10 with \d+, by FNOConfig\(width"
    ):
        create_model("fno", "poisson", parameters=10)
    with pytest.raises(ValueError, match="parameters must be positive, got -1"):
        create_model("fno", "poisson", parameters=-1)
