"""What a run is asked to do, checked before any work is done."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from disol.data import CaseDataset, StoreSettings
from disol.data.store import Store
from disol.models import Network, create_model, load_checkpoint
from disol.models.checkpoint import WEIGHTS
from disol.problems import Problem
from disol.problems.checks import Unchecked, positive_number, whole_number
from disol.training.config import RunSettings
from disol.training.folder import CASES, RunFolder


@dataclass(frozen=True, eq=False)
class Task:
    """A network, the cases it is trained on, how, and where it is kept.

    minutes   the run may take; None for one that ends after its epochs
    """

    problem: Problem
    settings: RunSettings
    network: Network
    train: CaseDataset
    validation: CaseDataset
    folder: RunFolder
    seed: int
    minutes: float | None


def read_task(
    problem: Problem,
    settings: RunSettings,
    data: str | Path,
    out: str | Path,
    seed: int | Unchecked,
    minutes: float | Unchecked | None,
    start: str | Path | None,
) -> Task:
    """Check what a run is asked to do."""
    seed = whole_number("seed", seed)
    minutes = None if minutes is None else positive_number("minutes", minutes)
    train, validation = CaseDataset(data, "train"), CaseDataset(data, "validation")
    stored = train.settings
    require_match(problem, stored, data)
    require_cases(settings.train.batch, train, validation, data)
    network = build_network(settings, problem, seed)
    started_with = None if start is None else start_with(network, Path(start), problem)
    identity = {
        **identify(settings, network, stored, seed, minutes),
        "start": started_with,
        CASES: digest_cases(train.store),
    }
    folder = RunFolder(Path(out), problem, stored.conventions, stored.resolution, identity)
    return Task(problem, settings, network, train, validation, folder, seed, minutes)


def build_network(settings: RunSettings, problem: Problem, seed: int) -> Network:
    """Build a network whose weights depend on the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return create_model(settings.model, problem, **settings.model_settings)


def start_with(network: Network, folder: Path, problem: Problem) -> str:
    """Fill a network with the weights of a checkpoint, and return the digest of their file."""
    start = load_checkpoint(folder, problem)
    if type(start.model) is not type(network):
        raise ValueError(f"{folder} holds another kind of network than the one to train. Pass its --model.")
    theirs = start.model.config.as_dict()
    for name, value in network.config.as_dict().items():
        if theirs[name] != value:
            raise ValueError(
                f"{folder} has {name}={theirs[name]!r}, but the network to train {value!r}. "
                f"Pass --set model.{name}={as_setting(theirs[name])}."
            )
    network.load_state_dict(start.model.state_dict())
    return start.card.files[WEIGHTS]


def as_setting(value: Any) -> str:
    """Write a setting as an override reads it."""
    return value if isinstance(value, str) else json.dumps(value)


def require_match(problem: Problem, stored: StoreSettings, data: str | Path) -> None:
    """Require that a file holds cases of a problem, with the same numbers in its equation."""
    if stored.problem != problem.name:
        raise ValueError(
            f"{data} holds cases of {stored.problem!r}, not of {problem.name!r}. "
            f"Train on the problem {stored.problem}, or pass a file of {problem.name}."
        )
    for name, value in json.loads(stored.parameters).items():
        own = as_json(getattr(problem, name, None))
        if own != value:
            raise ValueError(
                f"{data} was generated with {name}={value!r}, but {problem.name} has {name}={own!r}. "
                "Pass the problem it was generated from."
            )
    for kind, ours, theirs in (
        ("channels", problem.channels, stored.channels),
        ("fields", problem.fields, stored.fields),
    ):
        if tuple(ours) != tuple(theirs):
            raise ValueError(
                f"{data} has the {kind} {', '.join(theirs)}, but {problem.name} has {', '.join(ours)}. "
                "Generate it again."
            )


def require_cases(batch: int, train: CaseDataset, validation: CaseDataset, data: str | Path) -> None:
    """Require enough cases for one batch, and some to validate on."""
    if len(train) < batch:
        raise ValueError(
            f"{data} has {len(train)} training cases, fewer than one batch of {batch}. "
            f"Pass --set train.batch={len(train)} or less, or generate more cases."
        )
    if len(validation) == 0:
        raise ValueError(f"{data} has no validation cases. Generate more cases.")


def identify(
    settings: RunSettings, network: Network, stored: StoreSettings, seed: int, minutes: float | None
) -> Mapping[str, Any]:
    """List everything that decides how a run goes on, by name."""
    data = {name: value for name, value in asdict(stored).items() if name != "package_version"}
    return as_json(
        {
            "problem": settings.problem,
            "model": settings.model,
            "recipe": settings.recipe,
            "seed": seed,
            "minutes": minutes,
            **{f"train.{name}": value for name, value in settings.train.as_dict().items()},
            **{f"model.{name}": value for name, value in network.config.as_dict().items()},
            **{f"data.{name}": value for name, value in data.items()},
        }
    )


def digest_cases(store: Store) -> str:
    """Return a digest that tells apart files with the same settings: of all amplitudes and the first pattern.

    It knows them to three digits: a file that another machine has generated again, and rounded otherwise, is the same.
    """
    read = (store.read(slice(None), "amplitude")["amplitude"], store.read(slice(1), "pattern")["pattern"])
    digits = [np.concatenate([np.round(mantissa * 2**10), exponent]) for mantissa, exponent in map(np.frexp, read)]
    return hashlib.sha256(b"".join(array.astype(np.int16).tobytes() for array in digits)).hexdigest()[:16]


def as_json(value: Any) -> Any:
    """Return a value as it is after being stored."""
    return json.loads(json.dumps(value))
