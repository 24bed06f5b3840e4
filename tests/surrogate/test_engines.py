"""Every engine gives the predictions of the network it was built from."""

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch

from disol.models import create_model
from disol.surrogate import engines
from disol.surrogate.engines import ENGINES, CompiledEngine, Engine, TorchEngine

QUICK = ["torch", "onnx"]
SMALL = {"width": 8, "depth": 3, "head_width": 8}


@pytest.fixture(autouse=True)
def _extra_that_the_engine_needs(request):
    if "onnx" in request.node.nodeid:
        pytest.importorskip("onnxruntime")


def small_network(model="disol", problem="poisson", **settings):
    torch.manual_seed(0)
    return create_model(model, problem, **SMALL | settings).eval()


def build_engine(network, **settings):
    return engines.build_engine(network, network.problem, **settings)


def random_cases(network, batch, height=16, width=16):
    inputs = np.random.default_rng(1).random((batch, len(network.channels), height, width), np.float32)
    inputs[:, network.domain_position] = inputs[:, network.domain_position] > 0.3
    return inputs


def eager(network, inputs):
    with torch.inference_mode():
        return network(torch.from_numpy(inputs)).numpy()


def assert_close(found, expected):
    assert (found.shape, found.dtype) == (expected.shape, np.float32)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("engine", QUICK)
@pytest.mark.parametrize("model", ["disol", "disol-amplitude", "unet"])
@pytest.mark.parametrize("grid", [(16, 16), (37, 50), (5, 9)])
def test_predictions_are_those_of_the_network_on_any_grid(engine, model, grid):
    network = small_network(model)
    inputs = random_cases(network, 3, *grid)
    assert_close(build_engine(network, engine=engine)(inputs), eager(network, inputs))


@pytest.mark.parametrize("engine", QUICK)
def test_every_option_of_the_network_survives(engine):
    network = small_network(
        problem="elasticity", fusion="mixing", downsampling="strided", mask_skip_routing=True, level_mixing=True
    )
    inputs = random_cases(network, 2, 19, 24)
    assert_close(build_engine(network, engine=engine)(inputs), eager(network, inputs))


@pytest.mark.parametrize("engine", QUICK)
def test_large_batches_are_run_in_chunks_and_small_ones_are_not_changed(engine, monkeypatch):
    monkeypatch.setattr("disol.surrogate.engines.MOST_PIXELS", {"cpu": 4 * 16 * 16})
    network = small_network()
    ready = build_engine(network, engine=engine)
    for batch in (0, 1, 4, 11):
        inputs = random_cases(network, batch)
        expected = eager(network, inputs) if batch else np.zeros((0, 1, 16, 16), np.float32)
        np.testing.assert_allclose(ready(inputs), expected, rtol=0, atol=1e-5)
    assert ready.cases_at_once(11, (16, 16)) == 4
    assert ready.cases_at_once(11, (64, 64)) == 1


def test_a_batch_that_does_not_fit_is_cut_until_it_does(monkeypatch):
    network = small_network()
    ready, sizes = build_engine(network), []

    def run_if_it_fits(self, cases, at_once):
        sizes.append(len(cases))
        if len(cases) > 3:
            raise torch.OutOfMemoryError
        return torch.from_numpy(eager(network, cases.numpy()))

    monkeypatch.setattr(TorchEngine, "run", run_if_it_fits)
    inputs = random_cases(network, 9)
    assert_close(ready(inputs), eager(network, inputs))
    assert sizes == [9, 4, 2, 2, 2, 2, 1]
    ready(inputs)
    assert sizes[7:] == [2, 2, 2, 2, 1], "what fits is remembered"


def test_a_single_case_that_does_not_fit_is_one_clear_error(monkeypatch):
    def fail(self, cases, at_once):
        raise torch.OutOfMemoryError

    monkeypatch.setattr(TorchEngine, "run", fail)
    network = small_network()
    with pytest.raises(ValueError, match=r"One case of 16 x 16 pixels must fit .* cpu"):
        build_engine(network)(random_cases(network, 2))


@pytest.mark.parametrize("engine", QUICK)
def test_tensors_become_tensors_and_arrays_become_arrays(engine):
    network = small_network()
    inputs, ready = random_cases(network, 3), build_engine(network, engine=engine)
    found = ready(torch.from_numpy(inputs))
    assert isinstance(found, torch.Tensor)
    np.testing.assert_array_equal(found.numpy(), ready(inputs))


@pytest.mark.parametrize("engine", QUICK)
def test_arrays_may_be_read_only_reversed_or_strided(engine):
    network = small_network()
    inputs = random_cases(network, 4)
    ready = build_engine(network, engine=engine)
    fixed = inputs.copy()
    fixed.flags.writeable = False
    assert_close(ready(fixed), eager(network, inputs))
    mirrored = inputs[::2, :, :, ::-1]
    assert_close(ready(mirrored), eager(network, mirrored.copy()))


def test_a_compiled_network_pads_its_batches_to_few_shapes(monkeypatch):
    monkeypatch.setattr("disol.surrogate.engines.MOST_PIXELS", {"cpu": 5 * 9 * 8})
    monkeypatch.setattr(engines, "_require_compiler", lambda device: None)
    monkeypatch.setattr(engines, "_compile_for_one_shape", lambda network, device, recorded: network)
    network = small_network()
    ready = build_engine(network, engine="compiled")
    for batch in (11, 3):
        inputs = random_cases(network, batch, 9, 8)
        assert_close(ready(inputs), eager(network, inputs))
    assert list(ready.compiled) == [(4, 3, 9, 8)]
    assert [ready.cases_at_once(batch, (9, 8)) for batch in (1, 2, 3, 100)] == [1, 2, 4, 4]


def test_a_compiled_network_fills_up_few_cases_and_takes_as_many_at_once_as_that_allows(monkeypatch):
    """Batches that are padded cost as much as full ones: 5,000 cases are no two batches of 4,096."""
    monkeypatch.setattr("disol.surrogate.engines.MOST_PIXELS", {"cpu": 1024 * 9 * 8})
    monkeypatch.setattr(engines, "_require_compiler", lambda device: None)
    monkeypatch.setattr(CompiledEngine, "most_pixels", lambda self: 4096 * 9 * 8)
    ready = build_engine(small_network(), engine="compiled")
    sizes = {batch: ready.cases_at_once(batch, (9, 8)) for batch in (600, 1100, 2500, 4096, 5000, 8192)}
    assert sizes == {600: 1024, 1100: 2048, 2500: 1024, 4096: 4096, 5000: 1024, 8192: 4096}


COMPILATION = """
import numpy, torch
from disol.models import create_model
from disol.surrogate.engines import build_engine

torch.manual_seed(0)
network = create_model("unet", "poisson", width=8, depth=2, head_width=8)
inputs = numpy.random.default_rng(0).random((3, 3, 9, 8), numpy.float32)
expected = build_engine(network, network.problem)(inputs)
found = build_engine(network, network.problem, engine="compiled")(inputs)
assert abs(found - expected).max() < 1e-5 * abs(expected).max()
assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
"""


@pytest.mark.skipif(not engines._has_cpp_compiler(), reason="torch.compile needs a C++ compiler")
def test_compilation_does_not_change_predictions_nor_warn():
    # In a process of its own, for the compiler cannot read what checks the shapes of the networks here.
    subprocess.run([sys.executable, "-W", "error", "-c", COMPILATION], check=True)


@pytest.mark.parametrize("engine", QUICK)
def test_the_network_it_is_built_from_is_neither_changed_nor_followed(engine):
    network = small_network().train()
    before = copy.deepcopy(network.state_dict())
    inputs = random_cases(network, 2)
    ready = build_engine(network, engine=engine)
    first = ready(inputs)
    assert network.training
    for name, weight in network.state_dict().items():
        assert torch.equal(weight, before[name])
        assert weight.stride() == before[name].stride()
    with torch.no_grad():
        next(network.parameters()).add_(1)
    np.testing.assert_array_equal(ready(inputs), first)


def test_bfloat16_is_close_and_comes_back_as_float32():
    network = small_network()
    inputs = random_cases(network, 2)
    ready, expected = build_engine(network, precision="bfloat16"), eager(network, inputs)
    error = np.linalg.norm(ready(inputs) - expected) / np.linalg.norm(expected)
    assert ready(inputs).dtype == np.float32
    assert 1e-5 < error < 0.05


def test_an_engine_says_what_it_is():
    ready = build_engine(small_network(), device="cpu", precision="bfloat16")
    assert isinstance(ready, Engine)
    assert (ready.name, ready.device, ready.precision) == ("torch", torch.device("cpu"), "bfloat16")


def test_the_table_knows_each_engine_by_its_own_name():
    assert list(ENGINES) == ["torch", "compiled", "onnx"]


def test_onnx_takes_the_cpu_where_the_device_is_left_open(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert build_engine(small_network(), engine="onnx", device="auto").device.type == "cpu"
    with pytest.raises(ValueError, match="runs on a CPU, not on cuda"):
        build_engine(small_network(), engine="onnx", device="cuda")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"engine": "fast"}, "Unknown engine 'fast'. Use one of torch, compiled, onnx"),
        ({"precision": "float64"}, "Unknown precision 'float64'. Use one of float32, bfloat16"),
        ({"device": "tpu"}, "Unknown device 'tpu'"),
        ({"engine": "onnx", "precision": "bfloat16"}, "computes in float32, not in bfloat16"),
    ],
)
def test_impossible_settings_are_one_clear_error(settings, message):
    with pytest.raises(ValueError, match=message) as error:
        build_engine(small_network(), **settings)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("engine", QUICK)
def test_channels_of_another_problem_are_one_clear_error(engine):
    ready = build_engine(small_network(), engine=engine)
    with pytest.raises(ValueError, match=r"Expected 3 channels \(domain, dirichlet, source\), got 2"):
        ready(np.zeros((1, 2, 8, 8), np.float32))


@pytest.mark.parametrize("module", ["onnx", "onnxruntime"])
def test_a_missing_extra_is_one_clear_error(module, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ValueError, match=rf"needs {module}, which is not installed. Run pip install 'disol\[onnx\]'"):
        build_engine(small_network(), engine="onnx")


def test_the_compiler_that_a_user_names_is_the_one_that_counts(monkeypatch):
    monkeypatch.setattr(engines.shutil, "which", lambda name: name if name in ("g++", "icpx") else None)
    for named, found in (("icpx", True), ("no-such-compiler", False), ("", True)):
        monkeypatch.setenv("CXX", named)
        assert engines._has_cpp_compiler() == found


def test_compiling_without_a_compiler_is_one_clear_error(monkeypatch):
    monkeypatch.setattr(engines.shutil, "which", lambda name: None)
    with pytest.raises(ValueError, match=r"needs a C\+\+ compiler on cpu, but none is found"):
        build_engine(small_network(), engine="compiled")


@pytest.mark.parametrize("engine", QUICK)
def test_an_engine_that_has_predicted_can_be_copied_and_pickled(engine):
    network = small_network()
    inputs = random_cases(network, 2)
    ready = build_engine(network, engine=engine)
    expected = ready(inputs)
    for other in (copy.deepcopy(ready), pickle.loads(pickle.dumps(ready))):
        assert_close(other(inputs), expected)


def test_a_copy_of_a_compiled_engine_compiles_again():
    ready = build_engine(small_network())
    compiled = object.__new__(CompiledEngine)
    vars(compiled).update(vars(ready), compiled={(1, 3, 16, 16): lambda cases: cases})
    assert pickle.loads(pickle.dumps(compiled)).compiled == {}
