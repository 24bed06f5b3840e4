"""The HDF5 layout of a file of cases (docs/data-format.md): the one place that reads or writes HDF5 structure.

A file is laid out in full before its first case: every dataset has its final size and place, uncompressed. From
then on cases are written straight to their places and no HDF5 structure changes, so that a file is readable at
any moment, however its writer ended.
"""

import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from math import prod
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from jaxtyping import Shaped

from disol._files import current_umask
from disol.data.packing import ENCODINGS, Encoding
from disol.data.recipe import StoreSettings
from disol.errors import DisolError
from disol.problems.normalisation import JOINT, PER_COMPONENT

_FORMAT = "disol cases"
_VERSION = 1
CHANNELS = "channels/"  # the group of the input channels
_MEANINGS = {JOINT: "field / amplitude", PER_COMPONENT: "1/2 + field / (2 amplitude) on the domain, 0 outside"}

Arrays = dict[str, Shaped[np.ndarray, "..."]]


@dataclass(frozen=True, eq=False)
class Column:
    """One dataset, with one row for each case.

    notes      its attributes
    encoding   how it keeps a channel, if it does
    known      its rows, where they are known before any case is drawn
    offset     place of its first byte in the file
    """

    dtype: str
    shape: tuple[int, ...]
    notes: Mapping[str, str]
    encoding: Encoding | None = None
    known: Shaped[np.ndarray, "..."] | None = None
    offset: int = 0

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return np.dtype(self.dtype).itemsize * prod(self.shape[1:])

    @property
    def end(self) -> int:
        """Place of the first byte after it."""
        return self.offset + self.shape[0] * self.row_bytes

    def view(self, path: Path) -> Shaped[np.ndarray, "..."]:
        """View its bytes in the file as an array."""
        return np.memmap(path, self.dtype, "r", self.offset, self.shape)


def plan_columns(settings: StoreSettings, encodings: Mapping[str, Encoding]) -> dict[str, Column]:
    """Return the datasets of a file by name, not placed yet; `encodings` are those of the channels that it keeps."""
    cases, side, size = settings.num_cases, settings.resolution, len(settings.fields)
    frames = (len(settings.times),) if settings.times else ()
    columns = {}
    for channel, encoding in encodings.items():
        shape = (cases, *encoding.planes(side, side))
        columns[CHANNELS + channel] = Column(encoding.dtype, shape, {"encoding": encoding.name}, encoding)
    columns["pattern"] = Column(
        "<f4", (cases, *frames, size, side, side), {"meaning": _MEANINGS[settings.normalisation]}
    )
    amplitudes = (cases, size) if settings.component_amplitudes else (cases,)
    columns["amplitude"] = Column("<f8", amplitudes, {"units": "those of the field; lengths in sides of the square"})
    known = {
        "index": ("<i8", np.arange(cases), {}),
        "outline": ("<i8", settings.outlines, {}),
        "shift": ("|u1", settings.shift_codes, {"codes": "positions in the attribute shifts of the file"}),
        "split": ("|u1", settings.split_codes, {"codes": "0 train, 1 validation"}),
        "done": ("|u1", np.zeros(cases), {"codes": "1 once the case is complete"}),
        "times": ("<f8", np.array(settings.times), {"units": "s"}),
    }
    for name, (dtype, rows, notes) in known.items():
        if len(rows):
            columns[name] = Column(dtype, rows.shape, notes, known=rows)
    return columns


def count_case_bytes(settings: StoreSettings, encodings: Mapping[str, Encoding]) -> int:
    """Return how many bytes one case takes, without the columns of all cases, for which there may be no memory."""
    columns = plan_columns(replace(settings, num_cases=1), encodings)
    return sum(column.row_bytes for name, column in columns.items() if name != "times")


def lay_out(path: Path, settings: StoreSettings, encodings: Mapping[str, Encoding]) -> None:
    """Write a file without cases; it appears under its name in one step, or not at all."""
    columns = plan_columns(settings, encodings)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    temporary = Path(name)
    try:
        # A limit on the size of files shows here, before HDF5 meets it.
        os.truncate(descriptor, sum(column.end for column in columns.values()))
        with h5py.File(temporary, "w", libver="earliest", locking=False) as file:
            _write_layout(file, settings, columns)
        os.fchmod(descriptor, 0o666 & ~current_umask())  # mkstemp makes files that only their owner can read
        os.fsync(descriptor)
        _publish(temporary, path)
    finally:
        os.close(descriptor)
        temporary.unlink(missing_ok=True)


def _publish(temporary: Path, path: Path) -> None:
    """Give a finished file its name, unless another process was faster."""
    try:
        path.hardlink_to(temporary)
    except FileExistsError:
        raise DisolError(f"{path} was created by another process just now. Wait for it, or choose another.") from None
    except OSError:  # file systems without hard links
        temporary.rename(path)


def _write_layout(file: h5py.File, settings: StoreSettings, columns: Mapping[str, Column]) -> None:
    """Write the attributes, give every dataset its place, and fill in what is known."""
    file.attrs.update({"format": _FORMAT, "version": _VERSION})
    for name, value in asdict(settings).items():
        if name != "times":
            file.attrs[name] = list(value) if isinstance(value, tuple) else value
    for name, column in columns.items():
        plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plan.set_layout(h5py.h5d.CONTIGUOUS)
        plan.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        plan.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
        dataset = file.create_dataset(name, column.shape, column.dtype, dcpl=plan, track_times=False)
        dataset.attrs.update(column.notes)
        if column.known is not None:
            dataset[...] = column.known


def read_layout(path: Path) -> tuple[StoreSettings, dict[str, Column]]:
    """Read what a file says about its cases and where its datasets are, or say what is wrong with it."""
    with _open_hdf5(path) as file:
        if file.attrs.get("format") != _FORMAT:
            raise DisolError(f"{path} is an HDF5 file but not one of disol's cases. Pass a file made by generate.")
        version = file.attrs.get("version")
        if version != _VERSION:
            raise DisolError(f"{path} has format version {version}, this disol reads {_VERSION}. Use a matching disol.")
        settings = _read_settings(path, file)
        columns = plan_columns(settings, _read_encodings(path, file, settings))
        return settings, {name: _place(path, file, name, column) for name, column in columns.items()}


def _open_hdf5(path: Path) -> h5py.File:
    """Open a file that must be HDF5, for reading."""
    if not path.is_file():
        raise DisolError(f"There is no file {path}. Check the path, or generate it.")
    try:
        if not h5py.is_hdf5(path):
            raise DisolError(f"{path} is not an HDF5 file. Pass a file made by generate.")
        return h5py.File(path, "r", locking=False)
    except BlockingIOError as error:
        raise DisolError(f"{path} is locked by a process that writes it. Wait until that has finished.") from error
    except PermissionError as error:
        raise DisolError(f"{path} may not be read: permission denied. Change its permissions.") from error
    except OSError as error:
        if "file locking" in str(error):  # HDF5 opens a file a second time only in the way it did the first time
            raise DisolError(f"{path} is open elsewhere in this process, by h5py for one. Close it there.") from error
        raise DisolError(
            f"{path} is truncated or damaged. Copy it again from its source, or generate it anew."
        ) from error


def _read_settings(path: Path, file: h5py.File) -> StoreSettings:
    """Read the attributes of a file."""
    values: dict[str, Any] = {"times": tuple(file["times"][...].tolist()) if "times" in file else ()}
    for field in fields(StoreSettings):
        if field.name not in values:
            if field.name not in file.attrs:
                raise DisolError(f"{path} lacks the attribute {field.name!r}: it is damaged. Generate it anew.")
            value = file.attrs[field.name]
            if isinstance(value, np.ndarray):
                values[field.name] = tuple(value.tolist())
            else:
                values[field.name] = value.item() if isinstance(value, np.generic) else value
    return StoreSettings(**values)


def _read_encodings(path: Path, file: h5py.File, settings: StoreSettings) -> dict[str, Encoding]:
    """Read how the channels are kept; of a transient problem one is not, for it is derived from the frame."""
    missing = [channel for channel in settings.channels if CHANNELS + channel not in file]
    if len(missing) > (1 if settings.times else 0):
        raise DisolError(f"{path} lacks the dataset {CHANNELS + missing[0]!r}: it is damaged. Generate it anew.")
    encodings = {}
    for channel in settings.channels:
        if channel not in missing:
            name = file[CHANNELS + channel].attrs.get("encoding")
            if name not in ENCODINGS:
                raise DisolError(
                    f"{path} should keep {CHANNELS + channel!r} as {', '.join(ENCODINGS)}, got {name!r}. "
                    "It was changed by other software; generate it anew."
                )
            encodings[channel] = ENCODINGS[name]
    return encodings


def _place(path: Path, file: h5py.File, name: str, column: Column) -> Column:
    """Find a dataset in the file, and require that all of it is there."""
    dataset = file.get(name)
    if not isinstance(dataset, h5py.Dataset):
        raise DisolError(f"{path} lacks the dataset {name!r}: it is damaged. Generate it anew.")
    if (dataset.shape, dataset.dtype.str) != (column.shape, column.dtype):
        raise DisolError(
            f"{path} should hold {name!r} as {column.dtype} {column.shape}, got {dataset.dtype.str} {dataset.shape}. "
            "It was changed by other software; generate it anew."
        )
    offset = dataset.id.get_offset()
    if offset is None:
        raise DisolError(f"{path} holds {name!r} in pieces or compressed. Use the file as generate wrote it.")
    placed = replace(column, offset=offset)
    if placed.end > path.stat().st_size:
        raise DisolError(f"{path} is truncated within {name!r}. Copy it again from its source, or generate it anew.")
    return placed
