"""Networks written as ONNX files."""

import json
import os
import sys

import jaxtyping
import numpy as np
import pytest
import torch

import disol
from disol.models import create_model, load_checkpoint, save_checkpoint
from disol.surrogate import export_onnx
from disol.surrogate.onnx import trace_onnx

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")


@pytest.fixture
def checkpoint(tmp_path):
    torch.manual_seed(0)
    network = create_model("disol", "elasticity", width=8, depth=3, head_width=8)
    return load_checkpoint(
        save_checkpoint(tmp_path / "run", network, "elasticity", conventions="published", resolution=32)
    )


def session_of(path):
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def test_a_file_predicts_what_the_network_does_for_any_batch_and_grid(checkpoint, tmp_path):
    session = session_of(export_onnx(checkpoint, tmp_path / "new" / "model.onnx"))
    for shape in [(1, 5, 32, 32), (3, 5, 21, 34), (2, 5, 4, 7)]:
        inputs = np.random.default_rng(2).random(shape, np.float32)
        with torch.inference_mode():
            expected = checkpoint.network(torch.from_numpy(inputs)).numpy()
        (found,) = session.run(None, {"inputs": inputs})
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def test_a_file_is_valid_and_names_its_free_sizes(checkpoint, tmp_path):
    path = export_onnx(checkpoint, tmp_path / "model.onnx")
    onnx.checker.check_model(str(path), full_check=True)
    session = session_of(path)
    assert session.get_inputs()[0].shape == ["batch", 5, "height", "width"]
    assert session.get_outputs()[0].name == "prediction"


def test_a_file_says_what_its_inputs_are(checkpoint, tmp_path):
    facts = session_of(export_onnx(checkpoint, tmp_path / "model.onnx")).get_modelmeta().custom_metadata_map
    assert json.loads(facts["channels"]) == list(checkpoint.channels)
    assert json.loads(facts["fields"]) == ["u_x", "u_y"]
    assert json.loads(facts["resolution"]) == 32
    assert json.loads(facts["parameters"])["poisson_ratio"] == 0.3
    assert (facts["problem"], facts["conventions"]) == ("elasticity", "published")
    assert (facts["normalisation"], facts["predicts"], facts["model"]) == ("component", "pattern", "disol")


def test_exporting_leaves_the_network_alone(checkpoint, tmp_path):
    before = {name: weight.clone() for name, weight in checkpoint.network.state_dict().items()}
    export_onnx(checkpoint, tmp_path / "model.onnx")
    assert not checkpoint.network.training
    assert all(torch.equal(weight, before[name]) for name, weight in checkpoint.network.state_dict().items())


def test_a_failed_export_leaves_the_file_that_was_there(checkpoint, tmp_path, monkeypatch):
    path = tmp_path / "model.onnx"
    path.write_bytes(b"old")

    def fail(network, problem):
        raise RuntimeError("no graph")

    monkeypatch.setattr("disol.surrogate.onnx.trace_onnx", fail)
    with pytest.raises(RuntimeError, match="no graph"):
        export_onnx(checkpoint, path)
    assert path.read_bytes() == b"old"
    assert sorted(os.listdir(tmp_path)) == ["model.onnx", "run"]


@pytest.fixture
def no_shape_checks(monkeypatch):
    """While a network is traced its sizes are tensors."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


@pytest.mark.parametrize("name", ["disol", "disol-amplitude", "unet", "fno"])
def test_a_file_predicts_what_each_network_does(name, tmp_path, no_shape_checks):
    torch.manual_seed(0)
    network = create_model(name, "poisson", width=4).eval()
    session = session_of(export_onnx(network, tmp_path / "model.onnx", "poisson"))
    inputs = np.random.default_rng(2).random((3, 3, 21, 34), np.float32)
    with torch.inference_mode():
        expected = network(torch.from_numpy(inputs)).numpy()
    np.testing.assert_allclose(session.run(None, {"inputs": inputs})[0], expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["gno", "dimon", "deeponet"])
def test_a_network_that_is_no_graph_is_one_clear_error(name, no_shape_checks):
    with pytest.raises(disol.DisolError, match=r"is no ONNX graph for any batch and grid: .*\. Run it by torch"):
        trace_onnx(create_model(name, "poisson", width=4), disol.PROBLEMS["poisson"])


class BatchesOfTwo(torch.nn.Module):
    """Takes the number of cases that it was traced with for a constant."""

    def __init__(self):
        super().__init__()
        self.stencil = torch.nn.Conv2d(4, 1, 3, padding=1)

    def forward(self, inputs):
        return self.stencil(torch.cat([inputs, torch.ones(len(inputs), 1, *inputs.shape[2:])], dim=1))


class Lopsided(torch.nn.Module):
    """Goes by the size of the first domain, which a trace remembers."""

    def forward(self, inputs):
        return inputs[:, :1] * int(inputs[0, 0].sum())


class OneGrid(torch.nn.Module):
    """Has a weight for every pixel of the problem's own grid."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(64, 64))

    def forward(self, inputs):
        return inputs[:, :1] * self.weight


@pytest.mark.parametrize("network", [BatchesOfTwo(), Lopsided(), OneGrid()])
def test_a_graph_that_would_predict_something_else_is_not_written(network, tmp_path):
    with pytest.raises(disol.DisolError, match="is no ONNX graph for any batch and grid"):
        export_onnx(network, tmp_path / "model.onnx", "poisson")
    assert os.listdir(tmp_path) == []


def test_a_file_must_be_called_onnx(checkpoint, tmp_path):
    with pytest.raises(ValueError, match=r"must end in \.onnx, got 'model\.pt'"):
        export_onnx(checkpoint, tmp_path / "model.pt")


def test_a_missing_extra_is_one_clear_error(checkpoint, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ValueError, match=r"needs onnx, which is not installed. Run pip install 'disol\[onnx\]'"):
        export_onnx(checkpoint, tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()


def test_every_handle_is_exported_alike(checkpoint, tmp_path):
    handles = {"checkpoint": checkpoint, "folder": checkpoint.path, "surrogate": disol.load(checkpoint, device="cpu")}
    paths = [export_onnx(handle, tmp_path / f"{name}.onnx") for name, handle in handles.items()]
    assert len({path.read_bytes() for path in paths}) == 1
    bare = session_of(export_onnx(checkpoint.network, tmp_path / "network.onnx"))
    assert bare.get_modelmeta().custom_metadata_map["problem"] == "elasticity"


def test_a_network_of_ones_own_is_exported_with_its_problem(tmp_path):
    network = torch.nn.Conv2d(3, 1, 3, padding=1)
    session = session_of(export_onnx(network, tmp_path / "own.onnx", problem="poisson"))
    inputs = np.random.default_rng(2).random((2, 3, 9, 12), np.float32)
    with torch.inference_mode():
        expected = network(torch.from_numpy(inputs)).numpy()
    np.testing.assert_allclose(session.run(None, {"inputs": inputs})[0], expected, rtol=0, atol=1e-5)
