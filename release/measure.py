"""Measuring a model on test files: the errors of its patterns, and of the physical fields it solves for."""

from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

import disol
from disol import Case, DisolError, Problem, Solution, Surrogate
from disol._devices import find_device
from disol.data import Store, open_store
from disol.data.recipe import Recipe
from disol.evaluation import Evaluation, FileEvaluation, evaluate, summarise
from disol.evaluation.metrics import measure_patterns
from disol.evaluation.report import file_as_dict
from disol.models import Checkpoint, Handle
from disol.problems.table import find_conventions
from disol.surrogate.prediction import is_sized_by_its_system

# Relative. Two solvers agree to 1e-10 (docs/benchmarks/agreement.md) and amplitudes are stored in float64, so a case
# that differs by more is another one.
AMPLITUDE_TOLERANCE = 1e-8
SHAPE_ERRORS = ("rel_l2", "mae", "grid_mae")  # that are kept for each named shape


def measure_tests(model: Handle, files: Sequence[Path], device: str) -> tuple[Evaluation, dict[str, Any]]:
    """Evaluate a model, and write down its errors by the name of the file."""
    evaluation = evaluate(model, files, device=device)
    return evaluation, {
        file.name: summary_of(file_as_dict(file)) | summaries_by_shape(file) for file in evaluation.files
    }


def summaries_by_shape(file: FileEvaluation) -> dict[str, Any]:
    """Summarise the errors of a steady problem for each named shape, if a file has several."""
    shapes = list(dict.fromkeys(file.shift))
    if len(shapes) < 2 or len(file.times) > 1:
        return {}
    found = {}
    for shape in shapes:
        own = np.array([each == shape for each in file.shift])
        errors = {name: asdict(summarise(file.values[name][0, own])) for name in SHAPE_ERRORS}
        found[shape] = {"cases": int(own.sum()), "coverage": float(file.coverage[own].mean()), "metrics": errors}
    return {"by_shape": found}


def summary_of(file: dict[str, Any]) -> dict[str, Any]:
    """Keep what a reader needs of a file's evaluation, and nothing of the machine it was made on."""
    settings = file["settings"]
    known: dict[str, Any] = {name: settings[name] for name in ("seed", "shift", "conventions", "resolution")}
    measured: dict[str, Any] = {name: file[name] for name in ("metrics", "frames") if name in file}
    return {"cases": file["cases"], "coverage": file["coverage"], **known, **measured, "examples": file["examples"]}


def measure_fields(checkpoint: Checkpoint, path: Path, num_cases: int, device: str) -> dict[str, Any]:
    """Verify a model on the first cases of a file, which must be drawn again as they were."""
    drawn = islice(drawn_again(open_store(path), checkpoint.problem), num_cases)
    return measure_cases(disol.load(checkpoint, device=device), drawn)


def measure_cases(
    surrogate: Surrogate, drawn: Iterable[tuple[Case, Float[np.ndarray, "..."] | None]]
) -> dict[str, Any]:
    """Verify a model on cases, and summarise the errors of physical fields and of their largest values."""
    fields, largest = [], []
    for case, stored in drawn:
        verified = surrogate.verify(case)
        if stored is not None:
            require_amplitude(verified.exact, stored)
        fields.append(float(verified.error))
        predicted, exact = (np.abs(solution.field).max() for solution in (verified.prediction, verified.exact))
        largest.append(abs(predicted / exact - 1))
    return {
        "cases": len(fields),
        "sized_by": "system" if is_sized_by_its_system(surrogate.problem) else "solution",
        "field_error": asdict(summarise(fields)),
        "amplitude_error": asdict(summarise(largest)),
    }


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


def require_amplitude(exact: Solution, stored: Float[np.ndarray, "..."]) -> None:
    """Require a case whose amplitude is that of its file."""
    if not np.allclose(exact.amplitude, stored, rtol=AMPLITUDE_TOLERANCE, atol=0.0):
        raise DisolError(
            f"Case {exact.case.index} of seed {exact.case.seed} must have the amplitude {stored} of its file, got "
            f"{exact.amplitude}. Generate the file again by this version."
        )


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
