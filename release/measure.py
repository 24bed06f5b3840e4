"""Measuring a model on test files: the errors of its patterns, and of the physical fields it solves for."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from disol.data import Store, open_store
from disol.data.recipe import Recipe
from disol.devices import find_device
from disol.evaluation import Evaluation, evaluate, summarise
from disol.evaluation.metrics import measure_patterns
from disol.evaluation.reports import file_as_dict
from disol.inference import Model
from disol.inference.engines import build_engine
from disol.models import Checkpoint, Network
from disol.problems import Case, Problem

# Relative. Two solvers agree to 1e-10 (docs/benchmarks/agreement.md) and amplitudes are stored in float64, so a case
# that differs by more is another one.
AMPLITUDE_TOLERANCE = 1e-8


def measure_tests(model: Checkpoint | Network, files: Sequence[Path], device: str) -> tuple[Evaluation, dict[str, Any]]:
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
    """Solve the first cases of a file, and summarise the errors of physical fields."""
    model = Model(checkpoint, build_engine(checkpoint.model, device=device))
    drawn = islice(drawn_again(open_store(path), checkpoint.problem), num_cases)
    errors = [error_of_field(model, case, stored) for case, stored in drawn]
    return {"cases": len(errors), "field_error": asdict(summarise(errors))}


def drawn_again(store: Store, problem: Problem) -> Iterator[tuple[Case, Float[np.ndarray, "..."]]]:
    """Draw the cases of a file in their order, and give them with their stored amplitudes."""
    settings = store.settings
    recipe = Recipe(problem, settings.seed, settings.shift or None, settings.conventions, settings.resolution)
    if replace(recipe.settings(settings.num_cases), package_version=settings.package_version) != settings:
        raise ValueError(
            f"{store.path} must be drawn as this version draws {problem.name}, but it is not. Generate it again."
        )
    amplitudes = store.read(slice(None), "amplitude")["amplitude"]
    for index, amplitude in enumerate(amplitudes):
        yield recipe.draw(index), amplitude


def error_of_field(model: Model, case: Case, stored: Float[np.ndarray, "..."]) -> float:
    """Solve a case, whose amplitude must be that of its file, and return how wrong the predicted field is."""
    solution = model.solve(case)
    if not np.allclose(solution.amplitude, stored, rtol=AMPLITUDE_TOLERANCE, atol=0.0):
        raise ValueError(
            f"Case {case.index} of seed {case.seed} must have the amplitude {stored} of its file, got "
            f"{solution.amplitude}. Generate the file again by this version."
        )
    return float(solution.error)


def measure_samples(models: dict[str, Network], path: Path, device: str) -> dict[str, Any]:
    """Measure models on a few released cases: an `.npz` with `inputs` and the patterns `outputs`."""
    try:
        with np.load(path) as stored:
            inputs, outputs = (torch.from_numpy(stored[name]).float() for name in ("inputs", "outputs"))
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(f"{path} must be an .npz with 'inputs' and 'outputs', but: {error}. Pass another.") from error
    chosen = find_device(device)
    found: dict[str, Any] = {}
    for name, model in models.items():
        domain = inputs[:, model.channels.position("domain"), None] > 0
        with torch.inference_mode():
            prediction = model.to(chosen)(inputs.to(chosen)).cpu()
        measured = measure_patterns(prediction, outputs, domain, model.fields)
        found[name] = {metric: measured[metric].tolist() for metric in ("rel_l2", "grid_mae")}
        model.cpu()
    return {"cases": len(inputs), "models": found}
