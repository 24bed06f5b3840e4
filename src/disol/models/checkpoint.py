"""Checkpoints: a folder with `config.json`, `model.safetensors`, `metrics.json` and, while training, `state.pt`.

Reading these files runs no code that they contain, and imports no module because a file names it.
"""

import hashlib
import io
import json
import os
import pickle
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor, nn

from disol._checks import is_number
from disol._files import as_path, write_together
from disol._terms import ChannelLayout
from disol.errors import DisolError, listed, shown
from disol.models.base import Predicts, fill, require_fit
from disol.models.card import (
    CARD,
    METRICS,
    MOST_TEXT_BYTES,
    STATE,
    WEIGHTS,
    Card,
    as_json,
    read_card,
    read_files,
    read_json,
)
from disol.models.table import MODELS, build_network, count_parameters, describe_model, find_model
from disol.models.torch_files import read_torch_file
from disol.problems import Problem
from disol.problems.conventions import Conventions
from disol.problems.normalisation import NORMALISATIONS, Normalisation
from disol.problems.problem import TRAINED_UNTIL
from disol.problems.table import find, find_conventions, find_problem

STORAGES: dict[str, torch.dtype] = {"float32": torch.float32, "float16": torch.float16}
MOST_TRIES = 20  # of reading while a training run writes


@dataclass(frozen=True, eq=False, repr=False)
class Checkpoint:
    """A network with what it was trained on.

    path      its folder; None for a module that was never saved
    network   if read from a folder: float32, on the CPU, in evaluation mode
    problem   with the numbers of the equation it was trained with
    state     of the training run, if it was stored and asked for
    card      the content of its `config.json`
    """

    path: Path | None
    network: nn.Module
    problem: Problem
    metrics: dict[str, Any]
    state: dict[str, Any] | None
    card: Card

    @property
    def name(self) -> str:
        """What to call it in messages: its folder, or the class of a module that was never saved."""
        return type(self.network).__name__ if self.path is None else str(self.path)

    @property
    def channels(self) -> ChannelLayout:
        """Names of the input channels."""
        return self.problem.channels

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the predicted fields."""
        return self.problem.fields

    @property
    def trained_until(self) -> float:
        """Time in seconds of the last frame it was trained on, if the problem is transient."""
        run = self.metrics.get("run")
        told = run.get("train.last_time") if isinstance(run, dict) else None
        return TRAINED_UNTIL if told is None or not is_number(told) else float(told)

    @property
    def predicts(self) -> Predicts:
        """What the network returns: a "pattern" or the "log-amplitude"."""
        return getattr(self.network, "predicts", "pattern")

    @property
    def conventions(self) -> Conventions:
        """How its cases were discretised."""
        return find_conventions(self.card.conventions, self.problem)

    @property
    def normalisation(self) -> Normalisation:
        """How its patterns are scaled."""
        return NORMALISATIONS[self.card.normalisation]

    @property
    def resolution(self) -> int:
        """Pixels along a side of the grids it was trained on; of several resolutions the first."""
        return self.card.resolution

    @property
    def resolutions(self) -> tuple[int, ...]:
        """All resolutions it was trained on."""
        return self.card.resolutions

    def require_match(
        self,
        problem: Problem,
        conventions: Conventions,
        given: object = "The case",
        normalisation: Normalisation | None = None,
    ) -> None:
        """Require the problem, its numbers and the conventions that the network was trained on.

        normalisation   of the patterns that are given too, if any; by default that of the conventions
        """
        expected = _properties(self.problem, self.conventions, self.normalisation)
        found = _properties(problem, conventions, normalisation or problem.normalisation(conventions))
        for name, own in expected.items():
            if found.get(name) != own:
                raise DisolError(
                    f"{given} should have the {name} {own!r} that the model was made for, got {found.get(name)!r}."
                )

    def __repr__(self) -> str:
        maps = f"{', '.join(self.channels)} -> {', '.join(self.fields)}"
        return (
            f"Checkpoint({self.name}: {self.card.model} of {self.problem.name}, {maps}; "
            f"{count_parameters(self.network):,} parameters, {self.card.grids} grids, "
            f"{self.conventions} conventions)"
        )


def save_checkpoint(
    path: str | Path,
    network: nn.Module,
    problem: str | Problem,
    *,
    conventions: str | Conventions = "paper",
    resolution: int | Sequence[int] | None = None,
    metrics: Mapping[str, Any] | None = None,
    state: Mapping[str, Any] | None = None,
    storage: str = "float32",
    model: str | type[nn.Module] | nn.Module | None = None,
    model_settings: Mapping[str, Any] | None = None,
) -> Path:
    """Write a checkpoint; a crash leaves the previous one or the new one, never a mixture.

    resolution       pixels along a side of the grids it was trained on, or several; the problem's own unless given
    metrics          plain numbers and texts by name; a number that is not finite is stored as null
    state            of a training run, to continue it: tensors and plain containers
    storage          "float16" halves the size of `model.safetensors`
    model            for a network of your own: what it was built from, if not its class
    model_settings   for a network of your own: the settings that its class was called with
    """
    folder = as_path("path", path)
    if os.path.exists(folder) and not os.path.isdir(folder):
        raise DisolError(f"A checkpoint is a folder, but {folder} is a file. Choose another path.")
    equation = find_problem(problem)
    dtype = find("storage", storage, STORAGES)
    card = Card.of(
        network, equation, conventions, resolution, storage=storage, model=model, model_settings=model_settings
    )
    contents = {
        WEIGHTS: _pack_weights(network, dtype),
        METRICS: (json.dumps(as_json("metrics", metrics or {}), indent=2) + "\n").encode(),
    }
    if state is not None:
        contents[STATE] = _pack_state(state)
    card = replace(card, files={name: hashlib.sha256(content).hexdigest() for name, content in contents.items()})
    write_together(folder, contents | {CARD: card.write()}, dropped=() if STATE in contents else (STATE,))
    return folder


def load_checkpoint(
    path: str | Path,
    problem: str | Problem | None = None,
    *,
    model: str | type[nn.Module] | nn.Module | None = None,
    state: bool = False,
) -> Checkpoint:
    """Read a checkpoint.

    problem   must be the one it was trained on; required if that is a problem of your own
    model     for a network of your own: its class, an object to copy, or "package.module:Name" of either
    state     whether to read the state of the training run, too
    """
    folder = as_path("path", path)
    for _ in range(MOST_TRIES):
        card = read_card(folder)
        equation = card.find_problem(folder, problem)
        outline = _build_outline(card, equation, folder / CARD, model)
        contents = read_files(folder, card, _count_bytes(outline, state))
        if contents is not None:
            break
    else:
        raise DisolError(f"{folder} is being written by another process; retry later.")
    weights = _unpack_weights(contents[WEIGHTS], outline, card, folder / WEIGHTS)
    fill(outline, weights, folder / WEIGHTS)
    network = outline
    if card.model not in MODELS and not isinstance(model, nn.Module):
        network = _build(card, equation, model)  # it may have values that are not among the weights
        fill(network, weights, folder / WEIGHTS)
    metrics = read_json(contents[METRICS], folder / METRICS)
    if not isinstance(metrics, dict):
        raise DisolError(f"{folder / METRICS} must hold values by name, got {shown(metrics)}. Copy it again.")
    return Checkpoint(
        folder,
        network.cpu().eval(),
        equation,
        metrics,
        _unpack_state(contents[STATE], folder / STATE) if STATE in contents else None,
        card,
    )


def _build_outline(
    card: Card, problem: Problem, source: Path, model: str | type[nn.Module] | nn.Module | None
) -> nn.Module:
    """Build the network of a checkpoint without its weights, for which an altered file could ask for any memory.

    A network of your own is built from what the caller passes, never from what a file says. An object keeps its
    weights, and a class that cannot be built without numbers is built with them.
    """
    is_known = card.model in MODELS
    if model is None and not is_known and ":" in card.model:
        raise DisolError(
            f"{source} holds a network of one's own, {listed([card.model])}. Pass it too, as in "
            "disol.load(folder, model=...) or load_checkpoint(folder, model=...): its class, an object of it, or that "
            "text."
        )
    asked = card.model if model is None else describe_model(model)
    if (is_known or asked in MODELS) and asked != card.model:
        raise DisolError(f"{source} holds a network {shown(card.model)}, not {asked!r}.")
    if is_known or model is None:
        with torch.device("meta"):
            return find_model(card.model).network(card.find_config(source), problem)
    with suppress(Exception), torch.device("meta"):
        return _build(card, problem, model)
    return _build(card, problem, model)


def _build(card: Card, problem: Problem, model: str | type[nn.Module] | nn.Module | None) -> nn.Module:
    """Build a network of your own; an object is copied."""
    assert model is not None
    settings = {} if isinstance(model, nn.Module) else card.model_config
    network = build_network(model, problem, settings, seed=0, resolutions=())
    # Lazy layers get their shapes from a trial, which may fail: a network can be made for one grid, but a file may
    # claim that this is of any size.
    with suppress(DisolError), torch.random.fork_rng(devices=[]):
        require_fit(network, problem, min(card.resolution, problem.resolution))
    return network


def _count_bytes(network: nn.Module, state: bool) -> dict[str, int]:
    """Return the largest size in bytes of each file that is to be read for a network."""
    weights = sum(weight.numel() * max(weight.element_size(), 4) for weight in network.state_dict().values())
    most = {WEIGHTS: MOST_TEXT_BYTES + weights, METRICS: MOST_TEXT_BYTES}
    # A state holds the weights that were not averaged, and what the optimiser stores for each.
    return most | {STATE: MOST_TEXT_BYTES + 5 * weights} if state else most


def _properties(problem: Problem, conventions: Conventions, normalisation: Normalisation) -> dict[str, Any]:
    return {
        "problem": problem.name,
        "channels": tuple(problem.channels),
        "fields": problem.fields,
        **{name: getattr(problem, name) for name in problem.parameters},
        "conventions": conventions.name,
        "normalisation": normalisation.name,
    }


def _pack_weights(network: nn.Module, dtype: torch.dtype) -> bytes:
    """Return the weights of a network as safetensors."""
    weights = {}
    for name, weight in network.state_dict().items():
        if not isinstance(weight, Tensor):
            raise DisolError(f"{name} of {type(network).__name__} must be a tensor, got {type(weight).__name__}.")
        stored = weight.detach().cpu().clone(memory_format=torch.contiguous_format)  # weights may share memory
        stored = stored.to(dtype) if stored.is_floating_point() else stored
        if not stored.isfinite().all():
            raise DisolError(
                f"{name} must be finite as {_name_dtype(stored.dtype)}, but is not. "
                "Store it as 'float32', or check why training diverged."
            )
        weights[name] = stored
    return safetensors.torch.save(weights)


def _unpack_weights(content: bytes, network: nn.Module, card: Card, source: Path) -> dict[str, Tensor]:
    """Return weights by name, in float32, if their dtypes are those that were saved."""
    stored_as = find("storage", card.storage, STORAGES)
    try:
        weights = safetensors.torch.load(content)
    except Exception as error:  # dtypes that torch does not know raise errors of their own
        reason = listed([str(error)])
        raise DisolError(f"{source} must hold safetensors, but: {reason}. Copy the checkpoint again.") from None
    for name, own in network.state_dict().items():
        expected = stored_as if own.is_floating_point() else own.dtype
        if name in weights and weights[name].dtype != expected:
            raise DisolError(
                f"{name} in {source} must be {_name_dtype(expected)}, got {_name_dtype(weights[name].dtype)}. "
                "Copy the checkpoint again."
            )
    return {name: weight.float() if weight.is_floating_point() else weight for name, weight in weights.items()}


def _pack_state(state: Mapping[str, Any]) -> bytes:
    """Return the state of a training run as bytes that load without running code."""
    buffer = io.BytesIO()
    torch.save(_plain_state("state", state), buffer)
    return buffer.getvalue()


def _unpack_state(content: bytes, source: Path) -> dict[str, Any]:
    """Return the state of a training run."""
    try:
        state = read_torch_file(content)
    except pickle.UnpicklingError as error:
        raise DisolError(
            f"{source} must hold tensors and plain containers, but cannot be read: {error}. Train again."
        ) from error
    if not isinstance(state, dict):
        raise DisolError(f"{source} must hold values by name, got a {type(state).__name__}. Train again.")
    return state


def _plain_state(where: str, value: Any) -> Any:
    """Copy tensors, containers, numbers and texts; anything else would need code to be read back."""
    if isinstance(value, Tensor):
        return value.detach().cpu().clone()  # a view would store all numbers of its base
    if isinstance(value, Mapping):
        return {key: _plain_state(f"{where}[{key!r}]", item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_plain_state(f"{where}[{place}]", item) for place, item in enumerate(value))
    if value is None or type(value) in {bool, int, float, str}:
        return value
    raise DisolError(f"{where} must be a tensor, number, text or a container of them, got {type(value).__name__}.")


def _name_dtype(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
