"""Networks as ONNX graphs, for ONNX Runtime and for programs without torch."""

import copy
import io
import json
import warnings
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from disol._files import as_path, written_whole
from disol.errors import DisolError, listed
from disol.models import Checkpoint
from disol.models.handle import Handle, resolve
from disol.problems import Problem
from disol.training.augmentation import find_domain

INPUT, OUTPUT = "inputs", "prediction"
OPSET = 17
ROUNDING = 1e-3  # by which a graph may differ from its network, relative to the largest value


def export_onnx(
    handle: Handle,
    path: str | Path,
    problem: str | Problem | None = None,
    *,
    model: str | type[nn.Module] | nn.Module | None = None,
) -> Path:
    """Write a network, given by any handle, as an .onnx file, whole or not at all; return its path.

    `problem` and `model` are as in `load`: what your own network solves, and its class if the handle is a folder.

    The graph takes `inputs` [batch, channel, height, width], float32, of any batch, height and width. Its metadata say
    what these are (`channels`, `fields`, `predicts`, `problem`, `parameters`, `conventions`, `normalisation`,
    `resolution`, `model`, `package_version`): strings as they are, anything else as JSON.
    """
    target = as_path("path", path)
    if target.suffix != ".onnx":
        raise DisolError(f"An ONNX file must end in .onnx, got {target.name!r}.")
    onnx = require("onnx")
    checkpoint = resolve(handle, problem=problem, model=model)
    graph = onnx.load_model_from_string(trace_onnx(checkpoint.network, checkpoint.problem))
    onnx.helper.set_model_props(graph, _describe(checkpoint))
    with written_whole(target) as temporary:
        temporary.write_bytes(graph.SerializeToString())
    return target


def _describe(checkpoint: Checkpoint) -> Mapping[str, str]:
    """Describe in strings what a network was trained on and what it predicts."""
    card = checkpoint.card
    facts = {
        "problem": card.problem,
        "parameters": card.parameters,
        "channels": card.channels,
        "fields": card.fields,
        "predicts": checkpoint.predicts,
        "conventions": card.conventions,
        "normalisation": card.normalisation,
        "resolution": card.resolution,
        "resolutions": card.resolutions,
        "model": card.model,
        "package_version": card.package_version,
    }
    return {name: fact if isinstance(fact, str) else json.dumps(fact) for name, fact in facts.items()}


def trace_onnx(network: nn.Module, problem: Problem) -> bytes:
    """Return the network as an ONNX graph for any batch, height and width, odd ones included.

    A network without such a graph is refused: its work depends on the domain, or it takes a size for a constant.
    """
    require("onnx")
    if not getattr(network, "compiles", True):
        raise _no_graph(network, "its work depends on the data, as its `compiles` says")
    sizes = {0: "batch", 2: "height", 3: "width"}
    predicted = sizes if getattr(network, "predicts", "pattern") == "pattern" else {0: "batch"}
    written = io.BytesIO()
    traced = copy.deepcopy(network).cpu().eval()  # on a GPU networks interpolate in a way that fixes the sizes
    # More than one case and a grid of unequal sides, so that no size is taken for a constant.
    example = torch.zeros(2, len(problem.channels), 2 * 16 + 1, 3 * 16 + 1)
    with warnings.catch_warnings():
        # The tracer is called legacy, but its successor needs one more package. It warns of every branch on a shape;
        # in the networks these are only checks.
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", torch.jit.TracerWarning)  # type: ignore[attr-defined]
        try:
            torch.onnx.export(
                traced,
                (example,),
                written,  # type: ignore[arg-type] # only the new exporter is limited to files
                dynamo=False,
                opset_version=OPSET,
                input_names=[INPUT],
                output_names=[OUTPUT],
                dynamic_axes={INPUT: sizes, OUTPUT: predicted},
            )
        except RuntimeError as error:  # of the exporter, or of a network that is made for another grid
            raise _no_graph(network, error) from error
    _require_same(written.getvalue(), traced, problem)
    return written.getvalue()


def _require_same(graph: bytes, network: nn.Module, problem: Problem) -> None:
    """Run a graph and its network on another batch of another grid, with domains of several sizes."""
    runtime = require("onnxruntime")
    inputs = torch.rand(3, len(problem.channels), 20, 27, generator=torch.Generator().manual_seed(0))
    inputs[:, find_domain(problem)] = 1
    for case, rows in enumerate((10, 14, 18)):
        inputs[case, :, rows:] = 0
    with torch.inference_mode():
        expected = network(inputs).numpy()
    options = runtime.SessionOptions()
    options.log_severity_level = 4  # failures are reported below
    try:
        session = runtime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        (found,) = session.run(None, {INPUT: inputs.numpy()})
    except Exception as error:  # a graph that cannot be run raises errors of many kinds
        raise _no_graph(network, error) from error
    if found.shape != expected.shape or not np.abs(found - expected).max() <= ROUNDING * np.abs(expected).max():
        raise _no_graph(network, "on other inputs than the traced ones it predicts something else")


def _no_graph(network: nn.Module, reason: object) -> DisolError:
    """Say that a network cannot be exported, and why."""
    first_line, _, _ = str(reason).strip().partition("\n")
    return DisolError(
        f"{type(network).__name__} is no ONNX graph for any batch and grid: {listed([first_line.rstrip('.')], 300)}. "
        "Run it by torch instead."
    )


def require(module: str) -> Any:
    """Import a module of the optional extra `onnx`."""
    try:
        return import_module(module)
    except ImportError:
        raise DisolError(f"ONNX needs {module}, which is not installed. Run pip install 'disol[onnx]'.") from None
