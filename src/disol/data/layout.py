"""The HDF5 layout of a file of cases (docs/data-format.md): the one place that knows its datasets and attributes.

A file is laid out in full before its first case: every dataset has its final size and place, uncompressed. From
then on cases are written straight to their places and no HDF5 structure changes, so that a file is readable at
any moment, however its writer ended.
"""

import json
import os
import zlib
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import pairwise
from math import prod
from pathlib import Path

import numpy as np
from jaxtyping import Shaped, UInt32

from disol._files import map_regular
from disol.data.hdf5 import Dataset, Draft, read_structure
from disol.data.packing import ENCODINGS, Encoding
from disol.data.recipe import MOST_FRAMES, StoreSettings
from disol.errors import DisolError
from disol.problems.normalisation import JOINT, PER_COMPONENT

CHANNELS = "channels/"  # the group of the input channels
CHECKSUMS = "crc32/"  # the group of the checksums
STRUCTURE_BYTES = 2**15  # the most that a file takes besides its cases
_FORMAT = "disol cases"
_VERSION = 2
_WITHOUT_CHECKSUMS = 1  # a version that is still read
_CHECKSUM = "crc32"  # of the attributes
AGAIN = "Copy it again from its source, or generate it anew."  # advice for a file that was altered
_MEANINGS = {JOINT: "field / amplitude", PER_COMPONENT: "1/2 + field / (2 amplitude) on the domain, 0 outside"}

Arrays = dict[str, Shaped[np.ndarray, "..."]]


@dataclass(frozen=True, eq=False)
class Column:
    """One dataset, with one row for each case.

    notes      its attributes
    is_drawn   whether its rows come from drawn and solved cases; others are known before
    encoding   of the channel that it stores, if any
    offset     place of its first byte in the file
    """

    dtype: str
    shape: tuple[int, ...]
    notes: Mapping[str, str] = field(default_factory=dict)
    is_drawn: bool = False
    encoding: Encoding | None = None
    offset: int = 0

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return np.dtype(self.dtype).itemsize * prod(self.shape[1:])

    @property
    def end(self) -> int:
        """Place of the first byte after it."""
        return self.offset + self.shape[0] * self.row_bytes

    def view(self, content: memoryview) -> Shaped[np.ndarray, "..."]:
        """View its bytes in the content of the file as an array."""
        return np.frombuffer(content, self.dtype, prod(self.shape), self.offset).reshape(self.shape)


def plan_columns(
    settings: StoreSettings, encodings: Mapping[str, Encoding], *, with_checksums: bool = True
) -> dict[str, Column]:
    """Return the datasets of a file by name, not placed yet; `encodings` are those of the channels that it stores."""
    cases, side, size = settings.num_cases, settings.resolution, len(settings.fields)
    frames = (len(settings.times),) if settings.times else ()
    columns = {}
    for channel, encoding in encodings.items():
        shape = (cases, *encoding.planes(side, side))
        columns[CHANNELS + channel] = Column(encoding.dtype, shape, {"encoding": encoding.name}, True, encoding)
    meaning = {"meaning": _MEANINGS[settings.normalisation]}
    columns["pattern"] = Column("<f4", (cases, *frames, size, side, side), meaning, True)
    amplitudes = (cases, size) if settings.component_amplitudes else (cases,)
    units = {"units": "those of the field; lengths in sides of the square"}
    columns["amplitude"] = Column("<f8", amplitudes, units, True)
    if with_checksums:
        for name in tuple(columns):
            columns[CHECKSUMS + name] = Column("<u4", (cases, *frames) if name == "pattern" else (cases,))
    columns["index"] = columns["outline"] = Column("<i8", (cases,))
    columns["shift"] = Column("|u1", (cases,), {"codes": "positions in the attribute shifts of the file"})
    columns["split"] = Column("|u1", (cases,), {"codes": "0 train, 1 validation"})
    columns["done"] = Column("|u1", (cases,), {"codes": "1 once the case is complete"})
    if settings.times:
        columns["times"] = Column("<f8", frames, {"units": "s"})
    return columns


def count_case_bytes(settings: StoreSettings, encodings: Mapping[str, Encoding]) -> int:
    """Return how many bytes one case takes."""
    return sum(column.row_bytes for name, column in plan_columns(settings, encodings).items() if name != "times")


def compute_checksums(rows: Shaped[np.ndarray, "..."], axes: int) -> UInt32[np.ndarray, "..."]:
    """Return the CRC-32 of every row, where the first `axes` axes count rows: cases, or cases and their frames."""
    content = np.ascontiguousarray(rows).reshape(-1).view(np.uint8).data
    size = rows.itemsize * prod(rows.shape[axes:])
    sums = [zlib.crc32(content[start : start + size]) for start in range(0, len(content), size)]
    return np.array(sums, dtype=np.uint32).reshape(rows.shape[:axes])


def lay_out(path: Path, settings: StoreSettings, encodings: Mapping[str, Encoding]) -> None:
    """Lay out an empty file for its cases: write its attributes, place its datasets, fill in what is known."""
    import h5py  # noqa: PLC0415  reading does without

    plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plan.set_layout(h5py.h5d.CONTIGUOUS)
    plan.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    plan.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    known = {**settings.number_cases(np.arange(settings.num_cases)), "done": 0, "times": settings.times}
    draft = Draft()
    with h5py.File(draft, "w", libver="earliest", locking=False) as file:
        file.attrs.update({"format": _FORMAT, "version": _VERSION, _CHECKSUM: _sum_settings(settings)})
        for name, value in asdict(settings).items():
            if name != "times":
                file.attrs[name] = list(value) if isinstance(value, tuple) else value
        for name, column in plan_columns(settings, encodings).items():
            dataset = file.create_dataset(name, column.shape, column.dtype, dcpl=plan, track_times=False)
            dataset.attrs.update(column.notes)
            if name in known:
                dataset[...] = known[name]
    with path.open("rb+") as written:
        written.truncate(draft.size)
        for start, content in draft.pieces:
            written.seek(start)
            written.write(content)


def _sum_settings(settings: StoreSettings) -> int:
    return zlib.crc32(json.dumps(asdict(settings)).encode())


def read_layout(path: Path) -> tuple[StoreSettings, dict[str, Column]]:
    """Read the settings of a file and the places of its datasets; an error says what is wrong with it.

    No array is made before its size has been compared with that of the file.
    """
    if not os.path.exists(path):  # Path.exists fails for names that are too long
        raise DisolError(f"There is no file {path}. Check the path, or generate it.")
    content = map_regular(path)
    attributes, datasets = read_structure(path, content)
    if attributes.get("format") != _FORMAT:
        raise DisolError(f"{path} is an HDF5 file but not one of disol's cases. Pass a file made by generate.")
    version = attributes.get("version")
    if version not in (_WITHOUT_CHECKSUMS, _VERSION):
        raise DisolError(
            f"{path} has format version {version!r:.20}, this disol reads {_WITHOUT_CHECKSUMS} and {_VERSION}. "
            "Use a matching disol."
        )
    has_checksums = version != _WITHOUT_CHECKSUMS
    named = [each.name for each in fields(StoreSettings) if each.name != "times"]
    _require_names(path, "attribute", attributes, ["format", "version", *[_CHECKSUM] * has_checksums, *named])
    times = _read_times(path, datasets["times"], content) if "times" in datasets else ()
    try:
        settings = StoreSettings(**{name: attributes[name] for name in named}, times=times)
    except DisolError as error:
        raise DisolError(f"{path} is damaged: {error} {AGAIN}") from error
    columns = plan_columns(settings, _read_encodings(path, settings, datasets), with_checksums=has_checksums)
    _require_names(path, "dataset", datasets, columns)
    placed = {name: _place(path, name, column, datasets[name], len(content)) for name, column in columns.items()}
    in_file = sorted(placed.values(), key=lambda column: column.offset)
    if any(column.end > following.offset for column, following in pairwise(in_file)):
        raise DisolError(f"{path} is damaged: its datasets overlap. {AGAIN}")
    if has_checksums and attributes[_CHECKSUM] != _sum_settings(settings):
        raise DisolError(f"{path} is damaged: its attributes do not match their checksum. {AGAIN}")
    return settings, placed


def _require_names(path: Path, kind: str, found: Collection[str], expected: Collection[str]) -> None:
    for name in expected:
        if name not in found:
            raise DisolError(f"{path} lacks the {kind} {name!r}: it is damaged. {AGAIN}")
    for name in found:
        if name not in expected:
            raise DisolError(f"{path} has the {kind} {name!r}, which generate does not write. {AGAIN}")


def _read_times(path: Path, dataset: Dataset, content: memoryview) -> tuple[float, ...]:
    frames = dataset.shape[:1]
    if not frames or frames[0] > MOST_FRAMES:
        raise DisolError(f"{path} should hold at most {MOST_FRAMES} times, got shape {dataset.shape}. {AGAIN}")
    return tuple(_place(path, "times", Column("<f8", frames), dataset, len(content)).view(content).tolist())


def _read_encodings(path: Path, settings: StoreSettings, datasets: Mapping[str, Dataset]) -> dict[str, Encoding]:
    """Read how the channels are stored; one of a transient problem is not, because it is derived from the frame."""
    missing = [channel for channel in settings.channels if CHANNELS + channel not in datasets]
    if len(missing) > (1 if settings.times else 0):
        raise DisolError(f"{path} lacks the dataset {CHANNELS + missing[0]!r}: it is damaged. {AGAIN}")
    encodings = {}
    for channel in settings.channels:
        if channel not in missing:
            name = datasets[CHANNELS + channel].attributes.get("encoding")
            if name not in ENCODINGS:
                raise DisolError(
                    f"{path} should keep {CHANNELS + channel!r} as {', '.join(ENCODINGS)}, got {name!r:.80}. {AGAIN}"
                )
            encodings[channel] = ENCODINGS[str(name)]
    return encodings


def _place(path: Path, name: str, column: Column, dataset: Dataset, size: int) -> Column:
    """Give a column the place of its dataset in a file of `size` bytes, and require that all of it is there."""
    if (dataset.shape, dataset.dtype) != (column.shape, column.dtype):
        raise DisolError(
            f"{path} should hold {name!r} as {column.dtype} {column.shape}, got {dataset.dtype} {dataset.shape}. "
            f"{AGAIN}"
        )
    placed = replace(column, offset=dataset.offset)
    if placed.end > size:
        raise DisolError(f"{path} is truncated within {name!r}. {AGAIN}")
    return placed
