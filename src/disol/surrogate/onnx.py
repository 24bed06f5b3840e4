"""Networks as ONNX graphs, for ONNX Runtime and for programs without torch."""

import copy
import io
import json
import warnings
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import nn

from disol._files import as_path, written_whole
from disol.errors import DisolError
from disol.models import Checkpoint
from disol.models.handle import Handle, resolve
from disol.problems import Problem

INPUT, OUTPUT = "inputs", "prediction"
OPSET = 17


def export_onnx(
    handle: Handle,
    path: str | Path,
    problem: str | Problem | None = None,
    *,
    model: str | type[nn.Module] | nn.Module | None = None,
) -> Path:
    """Write a network, given by any handle, as an .onnx file, whole or not at all; return its path.

    problem and model are those of `load`: what a network of one's own solves, and its class if the handle is a folder.

    The graph takes `inputs` [batch, channel, height, width], float32, of any batch, height and width. Its metadata say
    what these are (`channels`, `fields`, `predicts`, `problem`, `parameters`, `conventions`, `normalisation`,
    `resolution`, `model`, `package_version`): texts as they are, anything else as JSON.
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
    """Say in texts what a network was trained on and what it predicts."""
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
    """Return the network as an ONNX graph for any batch, height and width, odd ones included."""
    require("onnx")
    sizes = {0: "batch", 2: "height", 3: "width"}
    predicted = sizes if getattr(network, "predicts", "pattern") == "pattern" else {0: "batch"}
    written = io.BytesIO()
    traced = copy.deepcopy(network).cpu().eval()  # on a GPU networks interpolate in a way that fixes the sizes
    # More than one case and an uneven grid, so that no size is taken for a constant.
    example = torch.zeros(2, len(problem.channels), 2 * 16 + 1, 3 * 16 + 1)
    with warnings.catch_warnings():
        # The tracer is called legacy, but its successor needs one more package. It doubts every branch on a shape;
        # those of the networks are checks alone.
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", torch.jit.TracerWarning)  # type: ignore[attr-defined]
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
    return written.getvalue()


def require(module: str) -> Any:
    """Import a module of the extra that most users do without."""
    try:
        return import_module(module)
    except ImportError:
        raise DisolError(f"ONNX needs {module}, which is not installed. Run pip install 'disol[onnx]'.") from None
