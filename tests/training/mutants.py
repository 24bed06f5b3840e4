"""Run folders that were damaged or altered, at random but the same for every seed, and what reading them may do."""

import hashlib
import io
import json
import random
import shutil
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from disol import DisolError
from disol.data import open_store
from disol.evaluation.evaluate import find_seen_cases
from disol.evaluation.report import _remove_evaluation
from disol.models import load_checkpoint
from disol.models.checkpoint import CARD, METRICS, STATE, WEIGHTS, Checkpoint
from disol.training import read_history
from disol.training.clock import Clock
from disol.training.distributed import join_processes
from disol.training.epochs import Run, prepare_network
from disol.training.folder import RunFolder
from disol.training.history import FILE
from disol.training.run import Task

EVALUATION = "evaluation.json"
ODD = (
    *(None, True, -1, 0, 1, 3, 10**9, 2**31, 2**63, 10**400, 0.5, -0.0, 1e308, float("nan"), float("inf")),
    *("", "x" * 300, "\0", "\ud800", "../../x", "poisson", "disol", [], {}, [[]], [1, 2], {"a": 1}),
)


class Reader:
    """Reads a run as loading, resuming and evaluating do."""

    def __init__(self, task: Task) -> None:
        first = prepare_network(task)
        folder = RunFolder.of(task, first)
        clock = Clock(task.settings.train.epochs, task.num_batches, read=lambda: 0.0)
        self.run = Run(task, first.network, folder, clock, join_processes("cpu"))
        self.settings = open_store(task.files[0].path).settings

    def read(self, folder: Path) -> tuple[Any, ...]:
        """Read all that a run holds, or raise a `DisolError`."""
        best, last = load_checkpoint(folder), load_checkpoint(folder / "last", state=True)
        records = read_history(folder)
        _remove_evaluation(folder / "evaluation")
        seen = find_seen_cases(best.metrics, self.settings).count(np.arange(10))
        self.run.folder.require_same((last.state or {}).get("run"))
        self.run.restore(last, last.state or {})
        prediction = predict(best)  # which may overflow, if weights are large
        return (
            records,
            seen,
            plain(best),
            plain(last),
            prediction.tolist(),
            self.run.epoch,
            plain(self.run.training.state_dict()),
        )


@torch.no_grad()
def predict(checkpoint: Checkpoint) -> torch.Tensor:
    return checkpoint.network(torch.ones(1, len(checkpoint.channels), 8, 8))


def plain(value: Any) -> Any:
    """Return what can be compared."""
    if isinstance(value, Checkpoint):
        card = {name: item for name, item in vars(value.card).items() if name != "files"}
        return card, plain(value.network.state_dict()), value.metrics, plain(value.state)
    if isinstance(value, torch.Tensor):
        return str(value.dtype), value.tolist()
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def mutate_bytes(content: bytes, draw: random.Random) -> bytes:
    """Change, remove, repeat or insert some bytes."""
    start = draw.randrange(len(content) + 1)
    end = min(len(content), start + draw.choice([1, 1, 2, 8, 100, len(content)]))
    some = bytes(draw.randrange(256) for _ in range(draw.choice([1, 1, 4, 20])))
    flipped = bytes([byte ^ (1 << draw.randrange(8)) for byte in content[start : start + 1]])
    return draw.choice(
        [
            content[:start] + flipped + content[start + 1 :],
            content[:start] + some + content[start + len(some) :],
            content[:start] + content[end:],
            content[:end] + content[start:end] + content[end:],
            content[:start] + some + content[start:],
            content[:start] + draw.choice([b"0", b"9", b"-", b"1e", b"[", b"{", b'"', b"null"]) + content[start:],
            content[:start],
        ]
    )


def mutate_json(content: bytes, draw: random.Random) -> bytes:
    """Replace, remove, add or rename one value, however deep."""
    stored = json.loads(content)
    containers = [stored]
    for container in containers:
        items = container.values() if isinstance(container, dict) else container
        containers += [item for item in items if isinstance(item, dict | list) and item]
    chosen = draw.choice(containers)
    key = draw.choice([*chosen]) if isinstance(chosen, dict) else draw.randrange(len(chosen))
    change = draw.randrange(4)
    if change == 0 and isinstance(chosen, dict):
        chosen[f"{key}x"] = chosen.pop(key)
    elif change == 1:
        del chosen[key]
    else:
        chosen[key] = draw.choice(ODD)
    if draw.randrange(20) == 0:
        return b"[" * 10**5
    return json.dumps(stored).encode()


def mutate_weights(content: bytes, draw: random.Random) -> bytes:
    """Change the header of safetensors, or a number to one that is not finite."""
    (length,) = struct.unpack("<Q", content[:8])
    header, numbers = content[8 : 8 + length], content[8 + length :]
    if draw.randrange(2):
        place = 4 * draw.randrange(len(numbers) // 4)
        odd = struct.pack("<f", draw.choice([np.nan, np.inf, -np.inf, 3e38]))
        return content[: 8 + length] + numbers[:place] + odd + numbers[place + 4 :]
    changed = draw.choice([mutate_json, mutate_bytes])(header, draw)
    size = draw.choice([len(changed)] * 4 + [0, 2**32, 2**63])
    return struct.pack("<Q", size) + changed + numbers


def mutate_state(content: bytes, draw: random.Random) -> bytes:
    """Change the pickle or a record inside the archive, or one of the values."""
    if draw.randrange(3) == 0:
        buffer = io.BytesIO()
        torch.save(change_value(torch.load(io.BytesIO(content), weights_only=True), draw), buffer)
        return buffer.getvalue()
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        records = {name: archive.read(name) for name in archive.namelist()}
    chosen = draw.choice([name for name in records if name.endswith("data.pkl")] * 20 + [*records])
    records[chosen] = mutate_bytes(records[chosen], draw)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", draw.choice([zipfile.ZIP_STORED] * 4 + [zipfile.ZIP_DEFLATED])) as archive:
        for name, record in records.items():
            archive.writestr(name, record)
    return buffer.getvalue()


def change_value(value: Any, draw: random.Random) -> Any:
    """Replace one value of nested containers."""
    if not isinstance(value, dict | list) or not value or draw.randrange(6) == 0:
        odd = [item for item in ODD if item != "\ud800"]
        return draw.choice([*odd, torch.ones(1), torch.ones(3, 3), torch.full((4,), torch.nan), torch.ones(0)])
    key = draw.choice([*value]) if isinstance(value, dict) else draw.randrange(len(value))
    if draw.randrange(12) == 0:
        return {name: item for name, item in value.items() if name != key} if isinstance(value, dict) else value[:key]
    changed = change_value(value[key], draw)
    return {**value, key: changed} if isinstance(value, dict) else [*value[:key], changed, *value[key + 1 :]]


MUTATIONS: dict[str, list[Callable[[bytes, random.Random], bytes]]] = {
    CARD: [mutate_bytes, mutate_json, mutate_json],
    WEIGHTS: [mutate_bytes, mutate_weights],
    METRICS: [mutate_bytes, mutate_json],
    f"last/{CARD}": [mutate_bytes, mutate_json],
    f"last/{STATE}": [mutate_bytes, mutate_state, mutate_state],
    FILE: [
        mutate_bytes,
        lambda content, draw: b"".join(mutate_json(line, draw) + b"\n" for line in content.splitlines()),
    ],
    f"evaluation/{EVALUATION}": [mutate_bytes, mutate_json],
}


def make_mutant(original: Path, folder: Path, draw: random.Random) -> tuple[str, bool]:
    """Copy a run and mutate one of its files; return which, and whether the digests were made to fit."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(original, folder)
    name = draw.choice([*MUTATIONS])
    path = folder / name
    content = path.read_bytes()
    for _ in range(draw.choice([1, 1, 1, 2, 5])):
        try:
            content = draw.choice(MUTATIONS[name])(content, draw)
        except Exception:  # it was damaged before
            content = mutate_bytes(content or b" ", draw)
    path.write_bytes(content)
    if path.parent == folder / "evaluation":
        return name, False
    is_signed = name == FILE or draw.randrange(2) == 0  # no digest covers what was written down after each epoch
    if is_signed:
        sign(path.parent)
    return name, is_signed


def sign(folder: Path) -> None:
    """Give a card the digests of its files, as somebody would who knows the format."""
    try:
        card = json.loads((folder / CARD).read_bytes())
        files = {name for name in card["files"] if name != CARD}
        card["files"] = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in files}
        (folder / CARD).write_text(json.dumps(card))  # one of an earlier version has no digest of itself
    except (ValueError, TypeError, KeyError, OSError, RecursionError):
        pass  # it is no card any more


def check_mutant(reader: Reader, folder: Path, is_signed: bool, expected: tuple[Any, ...]) -> str:
    """Require that a mutant is refused or, unless it was signed, read as what it was; say which."""
    try:
        found = reader.read(folder)
    except DisolError as error:
        message = str(error)
    else:
        assert is_signed or repr(found) == repr(expected), "it is read as something else"
        return "read" if is_signed else "equal"
    assert len(message.splitlines()) == 1, message
    assert len(message) < 2500, message
    return "refused"
