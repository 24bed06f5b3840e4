"""Reading the data files released with the paper, by the names used here."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Shaped

from disol.data.layout import Arrays
from disol.data.packing import DERIVED, encoding_of
from disol.problems import Problem
from disol.problems.table import find_problem

# Keys of the two layouts: files for training and files for tests.
LAYOUTS = ({"inputs": "inp", "outputs": "out", "amplitude": "lim"}, {"inputs": "inputs", "outputs": "outputs"})


def read_released(path: str | Path, problem: str | Problem) -> Arrays:
    """Read a released `.pt` file: its channels by name, pattern, and amplitude or index where it holds them.

    The pattern is [case, field, height, width], or [case, frame, field, height, width] for a transient problem.
    """
    equation = find_problem(problem)
    content = load_tensors(Path(path))
    layout = next((layout for layout in LAYOUTS if layout["inputs"] in content and layout["outputs"] in content), None)
    if layout is None:
        raise ValueError(
            f"{path} should hold 'inp' and 'out' or 'inputs' and 'outputs', got {', '.join(content) or 'nothing'}. "
            "Pass a data file, not a checkpoint."
        )
    arrays = named_channels(path, equation, numbers(content[layout["inputs"]]))
    pattern = numbers(content[layout["outputs"]])
    transient = "times" in equation.terms
    if pattern.ndim != 4 + transient or pattern.shape[1] != len(equation.fields):
        expected = f"[case, {len(equation.fields)}, height, width{', time' if transient else ''}]"
        raise ValueError(f"Solutions of {equation.name} are {expected}, got {pattern.shape}. Name another problem.")
    arrays["pattern"] = np.moveaxis(pattern, -1, 1) if transient else pattern
    for name, key in (("amplitude", "lim"), ("index", "indices")):
        if key in content:
            values = torch.as_tensor(content[key]).numpy().reshape(len(pattern), -1)
            arrays[name] = values[:, 0] if values.shape[1] == 1 else values
    return arrays


def load_tensors(path: Path) -> dict[str, Any]:
    """Load a file that holds a dictionary of tensors and nothing that could run."""
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}. Check the path.") from error
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError) as error:
        raise ValueError(f"{path} is not a file of tensors, or it is damaged. Download it again.") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path} should hold a dictionary, got {type(content).__name__}. Pass a released data file.")
    return content


def numbers(value: object) -> Float[np.ndarray, "..."]:
    """Return a tensor as a float32 array."""
    return torch.as_tensor(value).to(torch.float32).numpy()


def named_channels(path: str | Path, equation: Problem, inputs: Shaped[np.ndarray, "..."]) -> Arrays:
    """Take the stacked channels apart; the time channel may be left out."""
    stored = [name for name in equation.channels if name not in DERIVED]
    if inputs.ndim != 4 or inputs.shape[1] not in (len(stored), len(equation.channels)):
        raise ValueError(
            f"Inputs of {equation.name} are [case, {len(stored)}, height, width], got {inputs.shape} in {path}. "
            "Name another problem."
        )
    return {name: compact(name, inputs[:, equation.channels.position(name)]) for name in stored}


def compact(name: str, values: Shaped[np.ndarray, "case height width"]) -> Shaped[np.ndarray, "case height width"]:
    """Return a channel in the type it has everywhere: markers as bool, forces as int8, the rest as float32."""
    encoding = encoding_of(name)
    return encoding.decode(encoding.pack(name, values), values.shape[-1])
