"""Reading the data files released with the paper, under the names used here."""

from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, ZipFile

import numpy as np
import torch
from jaxtyping import Shaped
from torch import Tensor

from disol._files import as_path, require_regular
from disol.data.layout import Arrays
from disol.data.packing import get_encodings
from disol.errors import DisolError
from disol.problems import Problem
from disol.problems.table import find_problem

# Keys of inputs and outputs in the two layouts: files for training and files for tests.
_LAYOUTS = (("inp", "out"), ("inputs", "outputs"))
_MOST_PICKLED = 2**20  # bytes that describe the tensors of a file; a handful of tensors takes some hundreds


def read_released(path: str | Path, problem: str | Problem) -> Arrays:
    """Read a released `.pt` file: its channels by name, its pattern, and amplitude or index if it holds them.

    The pattern is [case, field, height, width], or [case, frame, field, height, width] for a transient problem.
    """
    path, problem = as_path("path", path), find_problem(problem)
    content = _load_tensors(path)
    keys = next((keys for keys in _LAYOUTS if content.keys() >= {*keys}), None)
    if keys is None:
        named = ", ".join(map(str, content))
        raise DisolError(
            f"{path} should hold 'inp' and 'out' or 'inputs' and 'outputs', got {named or 'nothing':.80}. "
            "Pass a data file, not a checkpoint."
        )
    inputs, pattern = (_to_array(path, key, content[key]).astype(np.float32, copy=False) for key in keys)
    arrays = _name_channels(path, problem, inputs)
    is_transient = bool(problem.times)
    grid = (len(inputs), len(problem.fields), *inputs.shape[2:])
    if pattern.ndim != 4 + is_transient or pattern.shape[:4] != grid:
        expected = f"[case, {len(problem.fields)}, height, width{', time' if is_transient else ''}]"
        raise DisolError(
            f"Solutions of {problem.name} are {expected}, for inputs {inputs.shape}, got {pattern.shape} in {path}. "
            "Name another problem."
        )
    arrays["pattern"] = np.moveaxis(pattern, -1, 1) if is_transient else pattern
    for name, key in (("amplitude", "lim"), ("index", "indices")):
        if key in content:
            values = _to_array(path, key, content[key])
            if values.shape[:1] != (len(pattern),):
                raise DisolError(f"{key!r} of {path} should have {len(pattern)} rows, got shape {values.shape}.")
            arrays[name] = values.reshape(len(pattern)) if values.size == len(pattern) else values
    return arrays


def _load_tensors(path: Path) -> dict[Any, Any]:
    """Load a file that holds a dictionary, running no code in it and taking no more memory than its size."""
    require_regular(path)
    try:
        with ZipFile(path) as archive:
            members = archive.infolist()
        is_compressed = any(member.compress_type != ZIP_STORED for member in members)
        if is_compressed or sum(member.file_size for member in members) > path.stat().st_size:
            raise DisolError(f"{path} is compressed, which torch.save does not do. Download it again.")
        if any(member.file_size > _MOST_PICKLED for member in members if member.filename.endswith(".pkl")):
            raise DisolError(f"{path} holds more than tensors. Pass a released data file.")
        content = torch.load(path, map_location="cpu", weights_only=True)
    except DisolError:
        raise
    except Exception as error:  # of many kinds, as damage can be anywhere
        raise DisolError(f"{path} is not a file of tensors, or it is damaged. Download it again.") from error
    if not isinstance(content, dict):
        raise DisolError(f"{path} should hold a dictionary, got {type(content).__name__}. Pass a released data file.")
    return content


def _to_array(path: Path, key: str, value: object) -> Shaped[np.ndarray, "..."]:
    """Return a dense tensor of real numbers, all of which must be in the file."""
    if (
        not isinstance(value, Tensor)
        or value.layout is not torch.strided
        or value.device.type != "cpu"
        or value.is_nested
        or value.is_quantized
        or value.is_complex()
        or value.nbytes > value.untyped_storage().nbytes()
    ):
        raise DisolError(f"{key!r} of {path} should be a dense tensor of real numbers. Pass a released data file.")
    is_short = value.is_floating_point() and value.itemsize < 4  # NumPy lacks some of these dtypes
    return (value.float() if is_short else value).detach().numpy()


def _name_channels(path: str | Path, problem: Problem, inputs: Shaped[np.ndarray, "..."]) -> Arrays:
    """Split the stacked channels by name, in compact types; those that are derived may be missing."""
    stored = get_encodings(problem)
    if inputs.ndim != 4 or inputs.shape[1] not in (len(stored), len(problem.channels)):
        raise DisolError(
            f"Inputs of {problem.name} are [case, {len(stored)}, height, width], got {inputs.shape} in {path}. "
            "Name another problem."
        )
    try:
        return {
            name: encoding.compact(name, inputs[:, problem.channels.position(name)])
            for name, encoding in stored.items()
        }
    except DisolError as error:
        raise DisolError(f"{path} holds no cases of {problem.name}: {error} Name another problem.") from error
