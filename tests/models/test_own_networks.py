"""A network of one's own, a class or an object, is built, kept and loaded; no file makes the package import code."""

import dataclasses
import sys

import pytest
import torch
from torch import nn

from disol.models import (
    Checkpoint,
    ModelConfig,
    Network,
    build_network,
    create_model,
    describe_model,
    load_checkpoint,
    resolve,
    save_checkpoint,
)
from disol.problems import PROBLEMS

MODULE = """
import torch
from torch import nn

class Stencils(nn.Module):
    def __init__(self, num_channels, num_fields, widths=(4,), scale=1.0):
        super().__init__()
        assert isinstance(widths, tuple)
        sizes = [num_channels, *widths, num_fields]
        self.layers = nn.Sequential(*(nn.Conv2d(a, b, 3, padding=1) for a, b in zip(sizes, sizes[1:])))
        self.scale = scale

    def forward(self, inputs):
        return self.scale * self.layers(inputs)

class Shelf:
    Inner = Stencils

ready = Stencils(3, 1)
number = 3
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A module that a user has written."""
    (tmp_path / "own_networks.py").write_text(MODULE)
    (tmp_path / "broken_networks.py").write_text("import no_such_module")
    monkeypatch.syspath_prepend(tmp_path)
    yield __import__("own_networks")
    sys.modules.pop("own_networks", None)


def weights_of(network):
    return torch.cat([weight.flatten() for weight in network.parameters()])


def test_a_class_is_built_with_numbers_of_channels_and_fields_and_settings(own):
    network = build_network(own.Stencils, "elasticity", {"widths": [6, 7], "scale": 2}, seed=0)
    assert [layer.out_channels for layer in network.layers] == [6, 7, 2]
    assert network.scale == 2
    assert network(torch.zeros(1, 5, 8, 8)).shape == (1, 2, 8, 8)


def test_the_weights_depend_on_the_seed_alone(own):
    first = build_network(own.Stencils, "poisson", {}, seed=3)
    torch.rand(5)
    assert torch.equal(weights_of(build_network("own_networks:Stencils", "poisson", {}, seed=3)), weights_of(first))
    assert not torch.equal(weights_of(build_network(own.Stencils, "poisson", {}, seed=4)), weights_of(first))
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    build_network("unet", "poisson", {"width": 2}, seed=7)
    assert torch.equal(torch.rand(3), expected)


def test_an_object_is_copied_with_its_weights(own):
    given = own.Stencils(3, 1)
    built = build_network(given, "poisson", {}, seed=0)
    assert built is not given
    assert torch.equal(weights_of(built), weights_of(given))
    assert torch.equal(weights_of(build_network("own_networks:ready", "poisson", {}, 0)), weights_of(own.ready))


def test_a_class_of_the_table_is_the_model_of_that_name():
    cls = type(create_model("unet", "poisson"))
    assert describe_model(cls) == describe_model("disol.models.unet:UNet") == "unet"
    for model in (cls, "disol.models.unet:UNet", "unet"):
        assert repr(build_network(model, "poisson", {"width": 2}, seed=0)).startswith("UNet(poisson: ")


def test_own_networks_are_described_by_where_they_are_defined(own):
    assert describe_model(own.Stencils) == describe_model(own.ready) == "own_networks:Stencils"
    assert isinstance(build_network("own_networks:Shelf.Inner", "poisson", {}, 0), own.Stencils)


@dataclasses.dataclass(frozen=True)
class NoConfig(ModelConfig):
    """No settings."""

    @classmethod
    def for_problem(cls, problem):
        del problem
        return cls()


class OwnNetwork(Network):
    """A network with settings that is not in the table."""

    def __init__(self, config, problem):
        super().__init__(config, problem)
        self.layer = nn.Conv2d(self.num_channels, len(self.fields), 1)

    def forward(self, inputs):
        return self.layer(inputs)


@pytest.mark.parametrize(
    ("model", "settings", "message"),
    [
        (3, {}, "A model is one of disol, .*, an nn.Module class or object, or 'package.module:Name' of one, got 3"),
        (int, {}, "A model is one of"),
        ("own_networks:number", {}, "A model is one of .*, got 3"),
        ("no_such_module:Net", {}, "Unknown model 'no_such_module:Net': there is no module 'no_such_module'"),
        ("own_networks:Nothing", {}, "Unknown model 'own_networks:Nothing': own_networks has no 'Nothing'"),
        ("own networks:Net", {}, "is written 'package.module:Name', got 'own networks:Net'"),
        ("own_networks:Stencils", {"widht": 3}, r"must be callable as .*: got an unexpected keyword argument 'widht'"),
        ("own_networks:ready", {"widths": [1]}, "is an object, which takes no settings, got widths"),
        (
            nn.Flatten(),
            {},
            r"Flatten must map domain, .* \[1, 3, 64, 64\] to u \[1, 1, 64, 64\], but gave \(1, 12288\)",
        ),
        (nn.Conv2d(2, 1, 1), {}, "Conv2d must map .*, but raised RuntimeError: Given groups=1"),
        (nn.Conv2d(3, 1, 1).double(), {}, "Conv2d must map .*, but raised RuntimeError: Input type"),
        (nn.Conv2d(3, 2, 1), {}, r"but gave \(1, 2, 64, 64\)"),
        (OwnNetwork, {}, "is built from a ModelConfig. Add it to MODELS"),
    ],
)
def test_what_is_no_network_of_the_problem_is_explained_in_one_line(own, model, settings, message):
    with pytest.raises(ValueError, match=message) as raised:
        build_network(model, "poisson", settings, seed=0)
    assert "\n" not in str(raised.value)


def test_an_error_inside_a_users_module_keeps_its_traceback(own):
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        build_network("broken_networks:Net", "poisson", {}, seed=0)


def test_a_network_of_ones_own_comes_back_by_its_class_its_text_or_an_object(own, tmp_path):
    settings = {"widths": (6, 7), "scale": 2.0}
    network = build_network(own.Stencils, "poisson", settings, seed=0)
    folder = save_checkpoint(tmp_path / "run", network, "poisson", model_settings=settings)
    inputs = torch.rand(1, 3, 8, 8)
    for model in (own.Stencils, "own_networks:Stencils", own.Stencils(3, 1, **settings)):
        found = load_checkpoint(folder, model=model)
        assert found.card.model == "own_networks:Stencils"
        assert torch.equal(found.network(inputs), network(inputs))
        assert (found.predicts, found.channels, found.fields) == ("pattern", PROBLEMS["poisson"].channels, ("u",))
    with pytest.raises(ValueError, match="must hold the weights of a Stencils, but: Missing key"):
        load_checkpoint(folder, model=own.Stencils(3, 1, widths=(1, 2, 3)))
    with pytest.raises(ValueError, match="holds a network 'own_networks:Stencils', not 'unet'"):
        load_checkpoint(folder, model="unet")


def test_what_a_network_was_built_from_is_kept_if_it_is_told(own, tmp_path):
    network = build_network("own_networks:ready", "poisson", {}, seed=0)
    folder = save_checkpoint(tmp_path / "run", network, "poisson", model="own_networks:ready")
    found = load_checkpoint(folder, model="own_networks:ready")
    assert found.card.model == "own_networks:ready"
    assert torch.equal(weights_of(found.network), weights_of(network))


def test_a_network_with_settings_of_its_own_goes_as_an_object(tmp_path):
    network = build_network(OwnNetwork(NoConfig(), PROBLEMS["poisson"]), "poisson", {}, seed=0)
    folder = save_checkpoint(tmp_path, network, "poisson")
    found = load_checkpoint(folder, model=OwnNetwork(NoConfig(), PROBLEMS["poisson"]))
    assert torch.equal(weights_of(found.network), weights_of(network))


def test_a_model_of_the_table_is_no_other(tmp_path):
    folder = save_checkpoint(tmp_path, create_model("unet", "poisson", width=2), "poisson")
    assert load_checkpoint(folder, model="unet").card.model == "unet"
    with pytest.raises(ValueError, match="holds a network 'unet', not 'disol'"):
        load_checkpoint(folder, model="disol")


def test_no_file_makes_the_package_import_code(own, tmp_path):
    network = build_network(own.Stencils, "poisson", {}, seed=0)
    folder = save_checkpoint(tmp_path / "run", network, "poisson")
    del sys.modules["own_networks"]
    with pytest.raises(ValueError, match=r"holds a network of one's own, own_networks:Stencils\. Pass") as raised:
        load_checkpoint(folder)
    assert "own_networks" not in sys.modules
    assert "\n" not in str(raised.value)


def test_settings_that_json_cannot_hold_are_not_saved(own, tmp_path):
    with pytest.raises(ValueError, match=r"model_settings\['scale'\] must be a number, .* got Tensor"):
        save_checkpoint(tmp_path / "run", own.ready, "poisson", model_settings={"scale": torch.ones(1)})
    assert not (tmp_path / "run").exists()


class Extra(nn.Conv2d):
    """A network that keeps more than tensors."""

    def get_extra_state(self):
        return {"seen": 3}

    def set_extra_state(self, state):
        del state


def test_a_network_that_keeps_more_than_tensors_is_refused(tmp_path):
    with pytest.raises(ValueError, match="_extra_state of Extra must be a tensor, got dict"):
        save_checkpoint(tmp_path, Extra(3, 1, 1), "poisson")


def test_a_name_a_folder_a_checkpoint_and_what_carries_one_are_one_handle(tmp_path):
    class Carrier:
        def __init__(self, checkpoint):
            self.checkpoint = checkpoint

    network = create_model("unet", "poisson", width=2)
    folder = save_checkpoint(tmp_path, network, "poisson")
    found = resolve(folder)
    assert isinstance(found, Checkpoint)
    assert resolve(str(folder)).card == found.card
    assert resolve(found) is found
    assert resolve(Carrier(found), problem="poisson") is found
    assert resolve("poisson").path.name == "poisson"
    with pytest.raises(ValueError, match="was trained on 'poisson', not 'heat'"):
        resolve(found, problem="heat")
    with pytest.raises(ValueError, match="was trained on 'poisson', not 'heat'"):
        resolve(folder, problem="heat")


def test_a_module_is_a_handle_once_its_problem_is_known(own):
    network = own.Stencils(3, 1).train()
    found = resolve(network, problem="poisson", conventions="published", resolution=32)
    assert (found.path, found.network, found.state, found.metrics) == (None, network, None, {})
    assert (found.conventions.name, found.resolution, found.predicts) == ("published", 32, "pattern")
    assert network.training
    assert repr(found).startswith("Checkpoint(Stencils: own_networks:Stencils of poisson, domain, dirichlet, source")
    amplitude = create_model("disol-amplitude", "heat", width=8, depth=2, gated_skips=0)
    known = resolve(amplitude)
    assert (known.problem.name, known.predicts) == ("heat", "log-amplitude")
    for handle, settings, message in (
        (network, {}, "Stencils does not say what it solves. Pass its problem too"),
        (network, {"problem": "heat"}, "Stencils must map domain, .*, but raised RuntimeError"),
        (amplitude, {"problem": "poisson"}, "but raised DisolError: Expected 5 channels"),
        (3, {}, "A trained network is the name of a shipped model, .*, got 3"),
    ):
        with pytest.raises(ValueError, match=message):
            resolve(handle, **settings)


def test_a_folder_of_ones_own_network_is_a_handle_with_its_model(own, tmp_path):
    folder = save_checkpoint(tmp_path / "run", own.Stencils(3, 1), "poisson")
    assert isinstance(resolve(folder, model=own.Stencils).network, own.Stencils)


class OneGrid(nn.Module):
    """Has a weight for every pixel of one grid."""

    def __init__(self, num_channels: int, num_fields: int, side: int) -> None:
        super().__init__()
        self.layer = nn.Conv2d(num_channels, num_fields, 1)
        self.weight = nn.Parameter(torch.randn(side, side))

    def forward(self, inputs):
        return self.layer(inputs) * self.weight * inputs[:, :1]


class Lazy(nn.Module):
    """Learns how many channels there are from the first batch."""

    def __init__(self, num_channels: int, num_fields: int) -> None:
        super().__init__()
        del num_channels
        self.layer = nn.LazyConv2d(num_fields, 3, padding=1)

    def forward(self, inputs):
        return self.layer(inputs) * inputs[:, :1]


@pytest.mark.parametrize(("network", "side"), [(OneGrid, 16), (OneGrid, 72), (Lazy, 16), (Lazy, 72)])
def test_a_network_is_tried_on_the_grid_of_its_cases_and_comes_back(network, side, tmp_path):
    settings = {"side": side} if network is OneGrid else {}
    built = build_network(network, "poisson", settings, seed=0, resolutions=[side])
    folder = save_checkpoint(tmp_path / "run", built, "poisson", resolution=side, model_settings=settings)
    before = torch.get_rng_state()
    found = load_checkpoint(folder, model=network)
    assert torch.equal(torch.get_rng_state(), before)
    inputs = torch.rand(1, 3, side, side)
    assert torch.equal(found.network(inputs), built(inputs))
    if network is OneGrid:
        with pytest.raises(ValueError, match=r"must map domain, .* \[1, 3, 20, 20\] to u .*, but raised RuntimeError"):
            build_network(network, "poisson", settings, seed=0, resolutions=[side, 20])
