"""Checkpoints: a folder with `config.json`, `model.safetensors`, `metrics.json` and, while training, `state.pt`."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from disol.channels import ChannelLayout
from disol.models.card import Card, Normalisation
from disol.models.folder import read_current, write_together
from disol.models.network import Network, fill
from disol.models.packing import STORAGES, pack_metrics, pack_state, pack_weights, unpack_state, unpack_weights
from disol.models.table import find_model
from disol.problems import Problem
from disol.problems.checks import Unchecked, count
from disol.problems.table import find, find_problem

CARD = "config.json"
WEIGHTS = "model.safetensors"
METRICS = "metrics.json"
STATE = "state.pt"
MOST_TRIES = 20  # of reading while a training run writes


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A model with what it was trained on.

    model     float32, on the CPU, in evaluation mode
    problem   with the numbers of the equation it was trained with
    state     of the training run, where it was stored and asked for
    card      all that its `config.json` says
    """

    path: Path
    model: Network
    problem: Problem
    metrics: dict[str, Any]
    state: dict[str, Any] | None
    card: Card

    @property
    def channels(self) -> ChannelLayout:
        """Names of the input channels."""
        return self.model.channels

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the predicted fields."""
        return self.model.fields

    @property
    def conventions(self) -> str:
        """Name of the conventions its cases were discretised by."""
        return self.card.conventions

    @property
    def resolution(self) -> int:
        """Pixels along a side of the grids it was trained on."""
        return self.card.resolution

    @property
    def normalisation(self) -> Normalisation:
        """How its patterns are scaled."""
        return self.card.normalisation


def save_checkpoint(
    path: str | Path,
    model: Network,
    problem: str | Problem | Unchecked,
    *,
    conventions: str | Unchecked = "paper",
    resolution: int | Unchecked | None = None,
    metrics: Mapping[str, Unchecked] | None = None,
    state: Mapping[str, Unchecked] | None = None,
    storage: str | Unchecked = "float32",
) -> Path:
    """Write a checkpoint; a crash leaves the one that was there before, or the new one, never a mixture.

    resolution   pixels along a side of the grids it was trained on, the problem's own unless given
    metrics      plain numbers and texts by name; a number that is not finite is stored as null
    state        of a training run, to continue it: tensors and plain containers
    storage      "float16" halves the size of `model.safetensors`
    """
    folder = Path(path)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"A checkpoint is a folder, but {folder} is a file. Choose another path.")
    equation = find_problem(problem)
    side = equation.resolution if resolution is None else count("resolution", resolution)
    dtype = find("storage", storage, STORAGES)
    card = Card.of(model, equation, conventions, side, storage)
    contents = {
        WEIGHTS: pack_weights(model, dtype),
        METRICS: pack_metrics(metrics or {}),
    }
    if state is not None:
        contents[STATE] = pack_state(state)
    card = replace(card, files={name: hashlib.sha256(content).hexdigest() for name, content in contents.items()})
    write_together(folder, contents | {CARD: card.write()}, dropped=() if STATE in contents else (STATE,))
    return folder


def load_checkpoint(path: str | Path, problem: str | Problem | Unchecked = None, *, state: bool = False) -> Checkpoint:
    """Read a checkpoint, `state` included if asked for; a problem asked for must be the one it was trained on."""
    folder = Path(path)
    card, contents = read_consistently(folder, (WEIGHTS, METRICS, STATE) if state else (WEIGHTS, METRICS))
    source = folder / CARD
    equation = card.find_problem(source, problem)
    model = find_model(card.model).network(card.find_config(source), equation.channels, equation.fields)
    fill(model, unpack_weights(contents[WEIGHTS], folder / WEIGHTS), folder / WEIGHTS)
    return Checkpoint(
        folder,
        model.eval(),
        equation,
        json.loads(contents[METRICS]),
        unpack_state(contents[STATE], folder / STATE) if STATE in contents else None,
        card,
    )


def read_consistently(folder: Path, wanted: tuple[str, ...]) -> tuple[Card, dict[str, bytes]]:
    """Read `config.json` and the wanted files that it lists, all of one checkpoint."""
    for _ in range(MOST_TRIES):
        written = read_card(folder)
        card = Card.read(written, folder / CARD)
        contents, damaged = {}, []
        for name in card.files.keys() & set(wanted):
            try:
                contents[name] = read_current(folder, name)
            except OSError:
                contents[name] = b""
            if hashlib.sha256(contents[name]).hexdigest() != card.files[name]:
                damaged.append(name)
        if not damaged:
            break
        if read_card(folder) == written:  # else a training run wrote a new checkpoint while this one was read
            raise ValueError(
                f"{folder / damaged[0]} must be the file that was saved, but is missing, truncated or altered. "
                "Copy the checkpoint again."
            )
    else:
        raise ValueError(f"{folder} must hold still to be read, but is written again and again. Try later.")
    for name in (WEIGHTS, METRICS):
        if name not in contents:
            raise ValueError(f"{folder / CARD} must list {name}, but does not. Copy the checkpoint again.")
    return card, contents


def read_card(folder: Path) -> bytes:
    """Read `config.json`, without which a folder is no checkpoint."""
    try:
        return read_current(folder, CARD)
    except OSError:
        kind = "has no config.json" if folder.is_dir() else "is a file" if folder.exists() else "does not exist"
        raise ValueError(f"A checkpoint is a folder with a {CARD}, but {folder} {kind}. Pass such a folder.") from None
