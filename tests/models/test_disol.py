"""The published networks, their settings, and channels found by name."""

import subprocess
import sys
from typing import ClassVar

import pytest
import torch

from disol._terms import DOMAIN, SOURCE, SUPPORT, Term
from disol.models import MODELS, PUBLISHED_CONFIGS, DiSOL, DiSOLConfig, count_parameters, create_model
from disol.problems import PROBLEMS
from disol.problems.scalar import ScalarProblem

COUNTS = {
    ("disol", "poisson"): 128_823,
    ("disol", "advection-diffusion-low"): 491_271,
    ("disol", "advection-diffusion-high"): 491_271,
    ("disol", "elasticity"): 7_521_557,
    ("disol", "heat"): 745_488,
    ("disol-amplitude", "poisson"): 128_823,
    ("unet", "poisson"): 115_761,
    ("unet", "heat"): 727_809,
}
TEXT = {"mask_skip_routing": True, "downsampling": "strided", "level_mixing": True}


@pytest.mark.parametrize(("model", "problem"), COUNTS)
def test_published_sizes_are_met_to_the_last_parameter(model, problem):
    assert count_parameters(create_model(model, problem)) == COUNTS[model, problem]


def test_the_published_configurations_have_names():
    assert set(PUBLISHED_CONFIGS) == {"poisson", "advection-diffusion", "elasticity", "heat"}
    assert DiSOLConfig.for_problem("advection-diffusion-high") == PUBLISHED_CONFIGS["advection-diffusion"]
    assert DiSOLConfig.for_problem("a problem of one's own") == DiSOLConfig()


def test_what_the_text_adds_can_be_switched_on_together():
    model = create_model("disol", "poisson", depth=3, **TEXT)
    inputs = torch.rand(2, 3, 13, 18).round()
    model(inputs).sum().backward()
    assert all(weight.grad is not None for weight in model.parameters())


@pytest.mark.parametrize("fusion", ["film", "mixing", "none"])
@pytest.mark.parametrize("attention", [True, False])
def test_parts_can_be_left_out(fusion, attention):
    model = create_model("disol", "elasticity", width=8, depth=2, gated_skips=0, fusion=fusion, attention=attention)
    assert model(torch.rand(1, 5, 8, 8).round()).shape == (1, 2, 8, 8)


def problem_with(*own_terms):
    """A problem with other terms, of other names."""

    class Own(ScalarProblem):
        terms: ClassVar = own_terms

    return Own("own", "−ΔU = f", resolution=16)


def test_channels_are_told_apart_by_their_kinds_wherever_they_are_stacked():
    torch.manual_seed(0)
    config = DiSOLConfig(depth=2, gated_skips=1)
    model = DiSOL(config, PROBLEMS["poisson"])
    shuffled = DiSOL(config, problem_with(Term("heating", SOURCE), Term("plate", DOMAIN), Term("clamp", SUPPORT)))
    assert (shuffled.channels, shuffled.domain_position) == (("heating", "plate", "clamp"), 1)
    shuffled.load_state_dict(model.state_dict())
    inputs = torch.rand(2, 3, 8, 8).round()
    assert torch.equal(shuffled(inputs[:, [2, 0, 1]]), model(inputs))


def test_a_network_without_a_domain_is_refused():
    with pytest.raises(ValueError, match="A problem has one domain, but own has 0 among its terms"):
        DiSOL(DiSOLConfig(), problem_with(Term("source", SOURCE)))


def test_a_split_needs_physics():
    with pytest.raises(ValueError, match="besides geometry"):
        DiSOL(DiSOLConfig(), problem_with(Term("domain", DOMAIN), Term("dirichlet", SUPPORT)))


def test_a_wrong_number_of_channels_is_named():
    model = create_model("disol", "poisson", depth=2, gated_skips=1)
    with pytest.raises(ValueError, match=r"Expected 3 channels \(domain, dirichlet, source\), got 4"):
        model(torch.zeros(1, 4, 8, 8))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"widht": 8}, "DiSOLConfig has no setting 'widht'. Its settings are width, depth, fusion"),
        ({"width": 0}, "width must be a whole number from 1 on, got 0"),
        ({"width": 8.0}, "width must be a whole number"),
        ({"depth": True}, "depth must be a whole number"),
        ({"fusion": "both"}, "fusion must be one of 'film', 'mixing', 'none', got 'both'"),
        ({"downsampling": "max"}, "downsampling must be one of"),
        ({"attention": 1}, "attention must be true or false"),
        ({"attention_kernel": 4}, "attention_kernel must be odd"),
        ({"gated_skips": 4}, "gated_skips must be at most depth - 1 = 3, got 4"),
        ({"gated_skips": -1}, "gated_skips must be a whole number from 0 on"),
    ],
)
def test_settings_that_make_no_sense_are_explained(settings, message):
    with pytest.raises(ValueError, match=message):
        create_model("disol", "poisson", **settings)


def test_unknown_names_list_the_known_ones():
    with pytest.raises(ValueError, match=r"Unknown model 'fnn'. Use one of disol, disol-amplitude, unet"):
        create_model("fnn", "poisson")
    with pytest.raises(ValueError, match=r"Unknown problem 'stokes'. Use one of poisson"):
        create_model("disol", "stokes")


def test_networks_compile_in_one_graph():
    # In a process of its own: shapes are checked here, and the checks are not part of the graph.
    program = (
        "import torch; from disol.models import create_model\n"
        "text = dict(mask_skip_routing=True, level_mixing=True, downsampling='strided')\n"
        "model = create_model('disol', 'poisson', depth=2, gated_skips=1, **text)\n"
        "compiled = torch.compile(model, backend='eager', fullgraph=True)\n"
        "inputs = torch.rand(1, 3, 9, 8)\n"
        "torch.testing.assert_close(compiled(inputs), model(inputs))"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_network_is_printed_in_one_line_and_described_in_full():
    model = create_model("disol", "poisson")
    assert repr(model) == "DiSOL(poisson: domain, dirichlet, source -> u; 128,823 parameters)"
    assert "(local_operator): LocalContributions" in model.describe()
    assert repr(MODELS["disol"]) == "Architecture(DiSOLConfig, disol.models.disol:DiSOL)"
