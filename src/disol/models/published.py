"""Import of the weights released by the paper's authors into our modules."""

import json
import os
import re
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from disol._files import as_path, read_regular
from disol.errors import DisolError, listed, shown
from disol.models.base import Weights, fill
from disol.models.disol import DiSOL
from disol.models.settings import DiSOLConfig
from disol.models.torch_files import read_torch_file
from disol.problems import PROBLEMS, Problem
from disol.problems.table import find_problem

MOST_BYTES = 2**28  # of a file of weights; theirs have a few megabytes, and as many again for the optimiser
# Their settings and ours, where both are plain numbers, by the part of the network they belong to.
_SETTINGS = {
    "every": {"base_ch": "width", "depth": "depth", "mlp_hidden": "head_width", "mlp_layers": "head_layers"},
    "film": {"geom_ch": "geometry_width", "phys_ch": "physics_width", "film_hidden": "film_width"},
    "mixing": {"fusion_expand": "expansion"},
    "attention": {"SA_kernel": "attention_kernel"},
}

# Their names and ours, first match wins. The levels of their decoder count from the coarsest, ours from the finest.
_RENAMED = (
    (r"fusion\.geom_stem\.", "local_operator.fusion.geometry."),
    (r"fusion\.phys_stem\.", "local_operator.fusion.physics."),
    (r"fusion\.film\.mlp\.", "local_operator.fusion.modulation.coefficients."),
    (r"fusion\.fuse_pw\.", "local_operator.fusion.merge."),
    # The released weights do not show how the mixing block is called without the split.
    (r"fusion\.(?:\w+\.)?pw1\.", "local_operator.mixing.expand."),
    (r"fusion\.(?:\w+\.)?norm\.", "local_operator.mixing.norm."),
    (r"fusion\.(?:\w+\.)?gate\.pw\.", "local_operator.mixing.gate."),
    (r"fusion\.(?:\w+\.)?pw2\.", "local_operator.mixing.contract."),
    (r"fusion\.(?:\w+\.)?se\.fc\.0\.", "local_operator.mixing.excitation.squeeze."),
    (r"fusion\.(?:\w+\.)?se\.fc\.2\.", "local_operator.mixing.excitation.excite."),
    (r"head\.", "local_operator.stem."),
    (r"unet\.inc\.", "assembly.encoder.0.block."),
    (r"unet\.downs\.(?P<down>\d{1,2})\.block\.", "assembly.encoder.{level}.block."),
    (r"unet\.ups\.(?P<up>\d{1,2})\.reduce\.", "assembly.decoder.{level}.up.reduce."),
    (r"unet\.ups\.(?P<up>\d{1,2})\.gate\.gate\.", "assembly.decoder.{level}.gate.gate."),
    (r"unet\.ups\.(?P<up>\d{1,2})\.block\.", "assembly.decoder.{level}.block."),
    (r"spatial_attn\.conv\.", "readout.attention.convolution."),
    (r"mlp\.net\.", "readout.head."),
)
# Layers of a block of stencils.
_BLOCK_LAYERS = {"conv1.": "0.", "n1.": "1.", "conv2.": "3.", "n2.": "4."}


def import_published(path: str | Path, problem: str | Problem | None = None) -> DiSOL:
    """Load weights with the authors' parameter names: `.safetensors`, or their `.pth`.

    The settings follow from the shapes; a `.json` or `model_cfg.json` beside the weights must agree with them.
    The problem follows from the number of channels unless it is given.
    """
    source = as_path("path", path)
    weights = _rename(_read_weights(source), source)
    try:
        config = _infer_config(weights)
        equation = _guess_problem(weights, config, source) if problem is None else find_problem(problem)
    except KeyError as error:
        raise DisolError(f"{source} lacks {error}, which every DiSOL has. Pass complete DiSOL weights.") from None
    except (IndexError, TypeError, ZeroDivisionError):
        raise DisolError(f"{source} holds weights of other shapes than a DiSOL has. Pass DiSOL weights.") from None
    with torch.device("meta"):
        model = DiSOL(config, equation)
    fill(model, weights, source)
    _check_settings(source, model)
    return model.eval()


def _read_weights(source: Path) -> dict[str, torch.Tensor]:
    """Read tensors by name, without running any code stored with them."""
    if not os.path.isfile(source):
        raise DisolError(f"Expected a file of weights, but {source} is none. Pass a .safetensors or .pth file.")
    content = read_regular(source, MOST_BYTES)
    try:
        stored = safetensors.torch.load(content) if source.suffix == ".safetensors" else read_torch_file(content)
    except Exception as error:  # safetensors raises errors of many kinds
        raise DisolError(f"{source} cannot be read as weights: {listed([str(error)])}. Download it again.") from error
    weights = stored.get("model_state_dict", stored) if isinstance(stored, dict) else None
    if not isinstance(weights, dict) or not weights or not all(map(_is_weight, weights.items())):
        raise DisolError(f"{source} must hold tensors under 'model_state_dict', but does not. Pass a DiSOL checkpoint.")
    return {name: weight.float() for name, weight in weights.items()}


def _is_weight(item: tuple[object, object]) -> bool:
    name, weight = item
    return isinstance(name, str) and isinstance(weight, torch.Tensor) and weight.is_floating_point()


def _infer_config(weights: Weights) -> DiSOLConfig:
    """Read the settings off the shapes of the weights."""
    shapes = {name: tuple(weight.shape) for name, weight in weights.items()}
    settings: dict[str, Any] = {
        "width": shapes["local_operator.stem.0.weight"][0],
        "depth": sum(re.fullmatch(r"assembly\.encoder\.\d+\.block\.0\.weight", name) is not None for name in shapes),
        "gated_skips": sum(name.endswith(".gate.gate.0.weight") for name in shapes),
        "fusion": "none",
        "attention": "readout.attention.convolution.weight" in shapes,
        "head_width": shapes["readout.head.0.weight"][0],
        "head_layers": sum(re.fullmatch(r"readout\.head\.\d+\.weight", name) is not None for name in shapes),
    }
    if settings["attention"]:
        settings["attention_kernel"] = shapes["readout.attention.convolution.weight"][-1]
    if "local_operator.mixing.expand.weight" in shapes:
        expand = shapes["local_operator.mixing.expand.weight"]
        settings |= {"fusion": "mixing", "expansion": expand[0] // expand[1]}
    if "local_operator.fusion.merge.weight" in shapes:
        settings |= {
            "fusion": "film",
            "geometry_width": shapes["local_operator.fusion.geometry.0.weight"][0],
            "physics_width": shapes["local_operator.fusion.physics.0.weight"][0],
            "film_width": shapes["local_operator.fusion.modulation.coefficients.0.weight"][0],
        }
    return DiSOLConfig(**settings)


def _guess_problem(weights: Weights, config: DiSOLConfig, source: Path) -> Problem:
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
    raise DisolError(
        f"{source} maps {num_channels} channels to {num_fields} fields, which no problem does. Pass problem=..."
    )


def _check_settings(source: Path, model: DiSOL) -> None:
    """Require that settings stored beside the weights are those of the model."""
    beside = (source.with_suffix(".json"), source.with_name("model_cfg.json"))
    for file in filter(os.path.isfile, beside):
        settings, expected = _read_settings(file), _published_settings(model)
        for name in settings.keys() & expected.keys():
            if settings[name] != expected[name]:
                raise DisolError(
                    f"{file} says {name} = {shown(settings[name])}, but {source.name} has {expected[name]!r}. "
                    "Put weights and settings of one run side by side."
                )


def _read_settings(file: Path) -> dict[str, Any]:
    """Read the authors' settings."""
    content = read_regular(file, MOST_BYTES)
    try:
        stored = json.loads(content)
        return dict(stored.get("settings", stored))
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        raise DisolError(f"{file} must hold settings by name, but cannot be read. Restore or remove it.") from error


def _published_settings(model: DiSOL) -> dict[str, Any]:
    """Return the settings of a model under the authors' names."""
    config = model.config
    parts = {
        "every": True,
        "film": config.fusion == "film",
        "mixing": config.fusion != "none",
        "attention": config.attention,
    }
    names = {theirs: ours for part, known in _SETTINGS.items() if parts[part] for theirs, ours in known.items()}
    settings = {theirs: getattr(config, ours) for theirs, ours in names.items()}
    if parts["film"]:
        settings["geom_idx"] = [place for place, term in enumerate(model.problem.terms) if term.kind.is_geometry]
    return settings | {"in_channels": len(model.channels), "out_channels": len(model.fields), "norm": "gn"}


def _rename(published: Weights, source: Path) -> dict[str, torch.Tensor]:
    """Give the authors' weights our names."""
    depth = 1 + len({name.split(".")[2] for name in published if name.startswith("unet.downs.")})
    weights, unknown = {}, []
    for name, weight in published.items():
        ours = _our_name(name, depth)
        if ours is None or ours in weights:
            unknown.append(name)
        else:
            # Squeeze-and-excitation runs on vectors there and on 1×1 grids here.
            weights[ours] = weight[..., None] if weight.ndim == 3 else weight
    if unknown:
        raise DisolError(
            f"{source} holds {listed(unknown, 120)}, which no published DiSOL has. Pass the authors' DiSOL weights; "
            "our own checkpoints are folders, for load_checkpoint."
        )
    return weights


def _our_name(published: str, depth: int) -> str | None:
    """Translate one parameter name."""
    for pattern, prefix in _RENAMED:
        match = re.match(pattern, published)
        if match is not None:
            levels = match.groupdict()
            level = int(levels["down"]) + 1 if "down" in levels else depth - 2 - int(levels.get("up", 0))
            rest = published[match.end() :]
            for theirs, ours in _BLOCK_LAYERS.items():
                rest = ours + rest.removeprefix(theirs) if rest.startswith(theirs) else rest
            return prefix.format(level=level) + rest
    return None
