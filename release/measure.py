"""Measuring a model on test files: the errors of its patterns, and of the physical fields it solves for."""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

import disol
from disol import Case, DisolError, Problem, Surrogate
from disol._devices import find_device
from disol.data import Store, open_store
from disol.data.recipe import Recipe
from disol.evaluation import Evaluation, evaluate, summarise
from disol.evaluation.metrics import measure_patterns
from disol.evaluation.report import file_as_dict
from disol.models import Checkpoint, Handle
from disol.problems.table import find_conventions

# Relative. Two solvers agree to 1e-10 (docs/benchmarks/agreement.md) and amplitudes are stored in float64, so a case
# that differs by more is another one.
AMPLITUDE_TOLERANCE = 1e-8


def measure_tests(model: Handle, files: Sequence[Path], device: str) -> tuple[Evaluation, dict[str, Any]]:
    """Evaluate a model, and write down its errors by the name of the file."""
    evaluation = evaluate(model, files, device=device)
    return evaluation, {file.name: summary_of(file_as_dict(file)) for file in evaluation.files}


def summary_of(file: dict[str, Any]) -> dict[str, Any]:
    """Keep what a reader needs of a file's evaluation, and nothing of the machine it was made on."""
    settings = file["settings"]
    known: dict[str, Any] = {name: settings[name] for name in ("seed", "shift", "conventions", "resolution")}
    measured: dict[str, Any] = {name: file[name] for name in ("metrics", "frames") if name in file}
    return {"cases": file["cases"], "coverage": file["coverage"], **known, **measured, "examples": file["examples"]}


def measure_fields(checkpoint: Checkpoint, path: Path, num_cases: int, device: str) -> dict[str, Any]:
    """Verify a model on the first cases of a file, and summarise the errors of physical fields."""
    surrogate = disol.load(checkpoint, device=device)
    drawn = islice(drawn_again(open_store(path), checkpoint.problem), num_cases)
    errors = [field_error(surrogate, case, stored) for case, stored in drawn]
    return {"cases": len(errors), "field_error": asdict(summarise(errors))}


def drawn_again(store: Store, problem: Problem) -> Iterator[tuple[Case, Float[np.ndarray, "..."]]]:
    """Draw the cases of a file in their order, and give them with their stored amplitudes."""
    settings = store.settings
    conventions = find_conventions(settings.conventions, problem)
    recipe = Recipe(problem, settings.seed, settings.shift or None, conventions, settings.resolution)
    if replace(recipe.settings(settings.num_cases), package_version=settings.package_version) != settings:
        raise DisolError(
            f"{store.path} must be drawn as this version draws {problem.name}, but it is not. Generate it again."
        )
    amplitudes = store.read(slice(None), "amplitude")["amplitude"]
    for index, amplitude in enumerate(amplitudes):
        yield recipe.draw(index), amplitude


def field_error(surrogate: Surrogate, case: Case, stored: Float[np.ndarray, "..."]) -> float:
    """Verify a prediction of a case, whose amplitude must be that of its file, and return its error."""
    verified = surrogate.verify(case)
    amplitude = verified.exact.amplitude
    if not np.allclose(amplitude, stored, rtol=AMPLITUDE_TOLERANCE, atol=0.0):
        raise DisolError(
            f"Case {case.index} of seed {case.seed} must have the amplitude {stored} of its file, got {amplitude}. "
            "Generate the file again by this version."
        )
    return float(verified.error)


def measure_samples(models: dict[str, Checkpoint], path: Path, device: str) -> dict[str, Any]:
    """Measure models on a few released cases: an `.npz` with `inputs` and the patterns `outputs`."""
    try:
        with np.load(path) as stored:
            inputs, outputs = (torch.from_numpy(stored[name]).float() for name in ("inputs", "outputs"))
    except (OSError, ValueError, KeyError) as error:
        raise DisolError(f"{path} must be an .npz with 'inputs' and 'outputs', but: {error}.") from error
    chosen = find_device(device)
    found: dict[str, Any] = {}
    for name, model in models.items():
        domain = inputs[:, model.channels.position("domain"), None] > 0
        with torch.inference_mode():
            prediction = deepcopy(model.network).to(chosen)(inputs.to(chosen)).cpu()
        measured = measure_patterns(prediction, outputs, domain, model.fields)
        found[name] = {metric: measured[metric].tolist() for metric in ("rel_l2", "grid_mae")}
    return {"cases": len(inputs), "models": found}
