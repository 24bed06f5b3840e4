"""Reading the weights that the paper's authors released into our modules."""

import json
import pickle
import re
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError

from disol.models.disol import DiSOL, DiSOLConfig, is_geometry
from disol.models.network import Weights, fill
from disol.models.published_names import rename
from disol.problems import PROBLEMS, Problem
from disol.problems.checks import Unchecked
from disol.problems.table import find_problem

# Their settings and ours, where both are plain numbers, by the part of the network they belong to.
SETTINGS = {
    "every": {"base_ch": "width", "depth": "depth", "mlp_hidden": "head_width", "mlp_layers": "head_layers"},
    "film": {"geom_ch": "geometry_width", "phys_ch": "physics_width", "film_hidden": "film_width"},
    "mixing": {"fusion_expand": "expansion"},
    "attention": {"SA_kernel": "attention_kernel"},
}


def import_published(path: str | Path, problem: str | Problem | Unchecked = None) -> DiSOL:
    """Load weights with the authors' parameter names: `.safetensors`, or their `.pth`.

    The settings follow from the shapes; a `.json` or `model_cfg.json` beside the weights must agree with them.
    The problem follows from the number of channels unless it is given.
    """
    source = Path(path)
    weights = rename(read_weights(source), source)
    config = infer_config(weights, source)
    equation = guess_problem(weights, config, source) if problem is None else find_problem(problem)
    model = DiSOL(config, equation.channels, equation.fields)
    fill(model, weights, source)
    check_settings(source, model)
    return model.eval()


def read_weights(source: Path) -> dict[str, torch.Tensor]:
    """Read tensors by name, without running any code stored with them."""
    if not source.is_file():
        raise ValueError(f"Expected a file of weights, but {source} is none. Pass a .safetensors or .pth file.")
    try:
        if source.suffix == ".safetensors":
            return safetensors.torch.load_file(source)
        stored = torch.load(source, map_location="cpu", weights_only=True)
    except (SafetensorError, pickle.UnpicklingError, RuntimeError, EOFError, OSError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(f"{source} cannot be read as weights: {reason}. Download it again.") from error
    weights = stored.get("model_state_dict", stored) if isinstance(stored, dict) else None
    if not weights or not all(isinstance(weight, torch.Tensor) for weight in weights.values()):
        raise ValueError(f"{source} must hold tensors under 'model_state_dict', but does not. Pass a DiSOL checkpoint.")
    return dict(weights)


def infer_config(weights: Weights, source: Path) -> DiSOLConfig:
    """Read the settings off the shapes of the weights."""
    shapes = {name: tuple(weight.shape) for name, weight in weights.items()}
    try:
        settings: dict[str, Any] = {
            "width": shapes["local_operator.stem.0.weight"][0],
            "depth": sum(
                re.fullmatch(r"assembly\.encoder\.\d+\.block\.0\.weight", name) is not None for name in shapes
            ),
            "gated_skips": sum(name.endswith(".gate.gate.0.weight") for name in shapes),
            "fusion": "none",
            "attention": "readout.attention.convolution.weight" in shapes,
            "head_width": shapes["readout.head.0.weight"][0],
            "head_layers": sum(re.fullmatch(r"readout\.head\.\d+\.weight", name) is not None for name in shapes),
        }
        if settings["attention"]:
            settings["attention_kernel"] = shapes["readout.attention.convolution.weight"][-1]
        if "local_operator.mixing.expand.weight" in shapes:
            hidden, mixed, *_ = shapes["local_operator.mixing.expand.weight"]
            settings |= {"fusion": "mixing", "expansion": hidden // mixed}
        if "local_operator.fusion.merge.weight" in shapes:
            settings |= {
                "fusion": "film",
                "geometry_width": shapes["local_operator.fusion.geometry.0.weight"][0],
                "physics_width": shapes["local_operator.fusion.physics.0.weight"][0],
                "film_width": shapes["local_operator.fusion.modulation.coefficients.0.weight"][0],
            }
    except KeyError as error:
        raise ValueError(f"{source} lacks {error}, which every DiSOL has. Pass complete DiSOL weights.") from None
    return DiSOLConfig(**settings)


def guess_problem(weights: Weights, config: DiSOLConfig, source: Path) -> Problem:
    """Return the first problem with as many channels and fields as the weights read and write."""
    if config.fusion == "film":
        branches = [weights[f"local_operator.fusion.{branch}.0.weight"] for branch in ("geometry", "physics")]
        num_channels = sum(branch.shape[1] for branch in branches)
    else:
        num_channels = weights["local_operator.stem.0.weight"].shape[1]
    num_fields = weights[f"readout.head.{2 * config.head_layers - 2}.weight"].shape[0]
    for problem in PROBLEMS.values():
        if (len(problem.channels), len(problem.fields)) == (num_channels, num_fields):
            return problem
    raise ValueError(
        f"{source} maps {num_channels} channels to {num_fields} fields, which no problem does. Pass problem=..."
    )


def check_settings(source: Path, model: DiSOL) -> None:
    """Require that settings stored beside the weights are those of the model."""
    beside = (source.with_suffix(".json"), source.with_name("model_cfg.json"))
    for file in filter(Path.is_file, beside):
        settings, expected = read_settings(file), published_settings(model)
        for name in settings.keys() & expected.keys():
            if settings[name] != expected[name]:
                raise ValueError(
                    f"{file} says {name} = {settings[name]!r}, but {source.name} has {expected[name]!r}. "
                    "Put weights and settings of one run side by side."
                )


def read_settings(file: Path) -> dict[str, Any]:
    """Read the authors' settings."""
    try:
        stored = json.loads(file.read_text(encoding="utf-8"))
        return dict(stored.get("settings", stored))
    except (ValueError, AttributeError, TypeError) as error:
        raise ValueError(f"{file} must hold settings by name, but cannot be read. Restore or remove it.") from error


def published_settings(model: DiSOL) -> dict[str, Any]:
    """Say by the authors' names what a model is."""
    config = model.config
    parts = {
        "every": True,
        "film": config.fusion == "film",
        "mixing": config.fusion != "none",
        "attention": config.attention,
    }
    names = {theirs: ours for part, known in SETTINGS.items() if parts[part] for theirs, ours in known.items()}
    settings = {theirs: getattr(config, ours) for theirs, ours in names.items()}
    if parts["film"]:
        settings["geom_idx"] = [position for position, name in enumerate(model.channels) if is_geometry(name)]
    return settings | {"in_channels": len(model.channels), "out_channels": len(model.fields), "norm": "gn"}
