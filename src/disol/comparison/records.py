"""What is kept of a run once its weights are gone: one JSON file with its curves and the errors of every case."""

import base64
import json
import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Float32

from disol import __version__
from disol._files import read_regular, written_whole
from disol.errors import DisolError, listed, shown
from disol.models.card import read_json
from disol.training.history import EpochRecord

FORMAT = "disol comparison run 1"
MOST_BYTES = 2**26  # of the file of a run
MOST_VALUES = 2**24  # of a stored array
LARGEST_STEP = 2**16 - 1
DIGITS = 4  # of a stored error
CURVE = ("train_loss", "validation_loss", "learning_rate", "seconds", "cases_per_second")  # kept of every epoch
ERRORS = ("rel_l2", "rel_l1", "mae", "grid_mae")  # that are kept of every case


@dataclass(frozen=True, eq=False)
class Shown:
    """A prediction that pictures show: case `index` of a test, as a pattern."""

    index: int
    pattern: Float32[np.ndarray, "field height width"]


@dataclass(frozen=True, eq=False)
class RecordedTest:
    """The results of a model on one test.

    asked      number of cases of the test
    index      numbers of the cases that it could predict
    shift      of each of these, by name; empty in the training distribution
    coverage   mean share of the grid that their domains cover
    errors     of each, by the name of a metric; for a transient problem, means over the times evaluated
    shown      the first cases, for pictures; none if it could not predict them, or if they were not asked for
    """

    asked: int
    index: tuple[int, ...]
    shift: tuple[str, ...]
    coverage: float
    errors: Mapping[str, Float[np.ndarray, " case"]]
    shown: tuple[Shown, ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class RunRecord:
    """A finished run.

    identity        everything that decides how the run goes, as JSON values
    diverged        why it stopped early; empty if it ran to its end
    parameters      number of trainable parameters, a complex one counted once
    real_numbers    the same, a complex one counted twice
    cases           number of cases that it was trained on
    refused         number of training cases that the model could not be trained on
    curve           records of all epochs
    seconds         of all sessions, including loading and compiling
    device          name of the device that it ran on
    side_by_side    number of runs that shared the device
    inference       seconds for one case, in a batch of `batch_size`, in eager float32; 0 where it was not measured
    """

    identity: Mapping[str, Any]
    model_config: Mapping[str, Any]
    parameters: int
    real_numbers: int
    cases: int
    refused: int
    curve: tuple[EpochRecord, ...]
    seconds: float
    device: str
    side_by_side: int
    inference: float
    batch_size: int
    tests: Mapping[str, RecordedTest]
    diverged: str = ""

    def __str__(self) -> str:
        if self.diverged:
            return f"diverged after {len(self.curve)} epochs"
        return f"validation loss {self.best_loss:.3e}, {len(self.curve)} epochs in {self.seconds:.0f} s"

    @property
    def made_on(self) -> str:
        """The device, and how many runs shared it: times of two runs can be compared only if this is the same."""
        return self.device + (f", {self.side_by_side} runs side by side" if self.side_by_side > 1 else "")

    @property
    def validation_losses(self) -> Float[np.ndarray, " epoch"]:
        """The validation loss after each epoch."""
        return np.array([epoch.validation_loss for epoch in self.curve])

    @property
    def best_loss(self) -> float:
        """The smallest validation loss; infinite for a run that diverged."""
        return math.inf if self.diverged or not self.curve else float(self.validation_losses.min())


def write_record(record: RunRecord, path: Path) -> None:
    """Write a run, whole or not at all; numbers that are not finite become null."""
    curve = {name: [getattr(epoch, name) for epoch in record.curve] for name in CURVE}
    content = {
        "format": FORMAT,
        "package_version": __version__,
        **{each.name: getattr(record, each.name) for each in fields(record) if each.name not in ("curve", "tests")},
        "curve": {name: _rounded(values, DIGITS + 2) for name, values in curve.items()},
        "tests": {name: _write_test(test) for name, test in record.tests.items()},
    }
    with written_whole(path) as temporary:
        temporary.write_text(_dumped(content), encoding="utf-8")


def read_record(path: Path) -> RunRecord:
    """Read a run."""
    content = read_json(read_regular(path, MOST_BYTES), path)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        told = content.get("format") if isinstance(content, dict) else content
        raise DisolError(f"{path} must hold a run of a comparison, {FORMAT!r}, got {shown(told)}. Remove it.")
    try:
        curve = content["curve"]
        epochs = zip(*(_numbers(curve[name]) for name in CURVE), strict=True)
        return RunRecord(
            identity=dict(content["identity"]),
            model_config=dict(content["model_config"]),
            **{name: int(content[name]) for name in ("parameters", "real_numbers", "cases", "refused", "side_by_side")},
            curve=tuple(EpochRecord(number, *map(float, epoch)) for number, epoch in enumerate(epochs, start=1)),
            seconds=float(content["seconds"]),
            device=str(content["device"]),
            inference=float(content["inference"]),
            batch_size=int(content["batch_size"]),
            tests={str(name): _read_test(test) for name, test in content["tests"].items()},
            diverged=str(content["diverged"]),
        )
    except (LookupError, TypeError, ValueError, AttributeError, zlib.error) as error:
        raise DisolError(f"{path} must hold a run of a comparison, but: {listed([repr(error)])}. Remove it.") from error


def require_same(record: RunRecord, expected: Mapping[str, Any], defaults: Mapping[str, Any], path: Path) -> None:
    """Refuse the results of a run that was made with other settings.

    defaults   of settings, which a run that is older than a setting may lack
    """
    found = _flat(record.identity)
    for name, value in {**dict.fromkeys(found), **_flat(expected)}.items():
        known = found.get(name, _flat(defaults).get(name))
        if known != value:
            raise DisolError(
                f"{path} was made with {listed([name])}={shown(known)}, now asked for {shown(value)}. "
                "Choose another out, or remove it."
            )


def _flat(settings: Mapping[str, Any], section: str = "") -> dict[str, Any]:
    """List settings by their full names, as in train.epochs."""
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        flat |= _flat(value, f"{section}{name}.") if isinstance(value, Mapping) else {f"{section}{name}": value}
    return flat


def _write_test(test: RecordedTest) -> dict[str, Any]:
    shifts = list(dict.fromkeys(test.shift))
    return {
        "asked": test.asked,
        "index": list(test.index) if test.index != tuple(range(test.asked)) else "all",
        "shifts": shifts,
        "shift": [shifts.index(each) for each in test.shift] if len(shifts) > 1 else [],
        "coverage": test.coverage,
        "errors": {name: _rounded(values, DIGITS) for name, values in test.errors.items()},
        "shown": [{"index": each.index, **pack(each.pattern)} for each in test.shown],
    }


def _read_test(stored: Mapping[str, Any]) -> RecordedTest:
    asked = int(stored["asked"])
    index = tuple(range(asked)) if stored["index"] == "all" else tuple(int(each) for each in stored["index"])
    errors = {str(name): _numbers(values) for name, values in stored["errors"].items()}
    if any(len(values) != len(index) for values in errors.values()):
        raise ValueError("errors of another number of cases")
    codes = stored["shift"] or [0] * len(index)
    shown_cases = tuple(Shown(int(each["index"]), unpack(each)) for each in stored["shown"])
    shifts = tuple(str(stored["shifts"][code]) for code in codes)
    return RecordedTest(asked, index, shifts, float(stored["coverage"]), errors, shown_cases)


def pack(array: Float[np.ndarray, "..."]) -> dict[str, Any]:
    """Store an array as compressed text, in 65,536 steps from its smallest to its largest value."""
    low, high = float(array.min()), float(array.max())
    steps = np.round((array - low) / ((high - low) or 1.0) * LARGEST_STEP).astype("<u2")
    text = base64.b64encode(zlib.compress(steps.tobytes(), 9)).decode()
    return {"shape": list(array.shape), "low": low, "high": high, "steps": text}


def unpack(stored: Mapping[str, Any]) -> Float32[np.ndarray, "..."]:
    """Read a stored array; it cannot take more memory than its shape says."""
    shape = tuple(int(each) for each in stored["shape"])
    size = math.prod(shape)
    if min(shape) < 1 or size > MOST_VALUES:
        raise ValueError(f"an array of shape {shape}")
    data = zlib.decompressobj().decompress(base64.b64decode(stored["steps"]), 2 * size)
    low, high = float(stored["low"]), float(stored["high"])
    steps = np.frombuffer(data, "<u2").reshape(shape).astype(float)
    return (low + (high - low) * steps / LARGEST_STEP).astype(np.float32)


def _rounded(values: Sequence[float] | Float[np.ndarray, " value"], digits: int) -> list[float | None]:
    return [float(f"{value:.{digits}g}") if math.isfinite(value) else None for value in values]


def _numbers(values: Sequence[float | None]) -> Float[np.ndarray, " value"]:
    return np.array([math.nan if value is None else float(value) for value in values], dtype=float)


def _dumped(content: Mapping[str, Any]) -> str:
    """Write JSON with one line for each entry of the first two levels: readable, without a line for every case."""
    lines = []
    for name, value in content.items():
        if isinstance(value, Mapping) and value:
            inner = ",\n".join(f"    {json.dumps(key)}: {_compact(each)}" for key, each in value.items())
            lines.append(f"  {json.dumps(name)}: {{\n{inner}\n  }}")
        else:
            lines.append(f"  {json.dumps(name)}: {_compact(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
