"""Reading the data files released with the paper, by the names used here."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Shaped

from disol.data.layout import Arrays
from disol.data.packing import get_encodings
from disol.errors import DisolError
from disol.problems import Problem
from disol.problems.table import find_problem

# Keys of inputs and outputs in the two layouts: files for training and files for tests.
_LAYOUTS = (("inp", "out"), ("inputs", "outputs"))


def read_released(path: str | Path, problem: str | Problem) -> Arrays:
    """Read a released `.pt` file: its channels by name, pattern, and amplitude or index where it holds them.

    The pattern is [case, field, height, width], or [case, frame, field, height, width] for a transient problem.
    """
    problem, content = find_problem(problem), _load_tensors(Path(path))
    keys = next((keys for keys in _LAYOUTS if content.keys() >= {*keys}), None)
    if keys is None:
        raise DisolError(
            f"{path} should hold 'inp' and 'out' or 'inputs' and 'outputs', got {', '.join(content) or 'nothing'}. "
            "Pass a data file, not a checkpoint."
        )
    inputs, pattern = (_as_float32(content[key]) for key in keys)
    arrays = _name_channels(path, problem, inputs)
    is_transient = bool(problem.times)
    if pattern.ndim != 4 + is_transient or pattern.shape[1] != len(problem.fields):
        expected = f"[case, {len(problem.fields)}, height, width{', time' if is_transient else ''}]"
        raise DisolError(f"Solutions of {problem.name} are {expected}, got {pattern.shape}. Name another problem.")
    arrays["pattern"] = np.moveaxis(pattern, -1, 1) if is_transient else pattern
    for name, key in (("amplitude", "lim"), ("index", "indices")):
        if key in content:
            values = torch.as_tensor(content[key]).numpy().reshape(len(pattern), -1)
            arrays[name] = values[:, 0] if values.shape[1] == 1 else values
    return arrays


def _load_tensors(path: Path) -> dict[str, Any]:
    """Load a file that holds a dictionary of tensors and nothing that could run."""
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise DisolError(f"{path} cannot be read: {error.strerror}. Check the path.") from error
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError) as error:
        raise DisolError(f"{path} is not a file of tensors, or it is damaged. Download it again.") from error
    if not isinstance(content, dict):
        raise DisolError(f"{path} should hold a dictionary, got {type(content).__name__}. Pass a released data file.")
    return content


def _as_float32(value: object) -> Float[np.ndarray, "..."]:
    return torch.as_tensor(value).to(torch.float32).numpy()


def _name_channels(path: str | Path, problem: Problem, inputs: Shaped[np.ndarray, "..."]) -> Arrays:
    """Take the stacked channels apart, in compact types; those that are derived may be left out."""
    stored = get_encodings(problem)
    if inputs.ndim != 4 or inputs.shape[1] not in (len(stored), len(problem.channels)):
        raise DisolError(
            f"Inputs of {problem.name} are [case, {len(stored)}, height, width], got {inputs.shape} in {path}. "
            "Name another problem."
        )
    return {
        name: encoding.compact(name, inputs[:, problem.channels.position(name)]) for name, encoding in stored.items()
    }
