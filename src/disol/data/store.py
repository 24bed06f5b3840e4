"""Files of cases: many cases of one problem on one grid, written in order and read by name."""

import errno
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from types import TracebackType

import numpy as np
from jaxtyping import Int, Shaped

from disol._files import (
    NOT_SUPPORTED,
    as_path,
    drop_unfinished,
    map_regular,
    sync_file,
    sync_folder,
    temporary_beside,
    try_lock,
)
from disol.data.layout import (
    AGAIN,
    CHANNELS,
    CHECKSUMS,
    STRUCTURE_BYTES,
    Arrays,
    Column,
    compute_checksums,
    count_case_bytes,
    lay_out,
    read_layout,
)
from disol.data.packing import get_encodings
from disol.data.recipe import SPLITS, StoreSettings
from disol.errors import DisolError, shown
from disol.problems import Problem
from disol.problems.table import PROBLEMS, find, find_problem

ENDINGS = (".h5", ".hdf5")  # of new files; any file is read
Cases = slice | Int[np.ndarray, " case"]

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NO_ACCESS = (errno.EACCES, errno.EPERM, errno.EROFS)
_NO_FOLDER = (errno.ENOENT, errno.ENOTDIR, errno.EEXIST)
_SEARCHED_AT_ONCE = 2**20  # cases searched at once for the first unfinished one


@dataclass(frozen=True, eq=False, repr=False)
class Store:
    """A file of cases, open for reading."""

    path: Path
    settings: StoreSettings
    columns: Mapping[str, Column]

    def __repr__(self) -> str:
        return f"Store({self.path}: {self.settings})"

    @property
    def num_done(self) -> int:
        """Number of complete cases, counted from the first."""
        return self._count_done(self._map())

    @property
    def names(self) -> dict[str, Column]:
        """What `read` gives, by name: channels, pattern, amplitude, index, outline, shift, split and times."""
        return {
            name.removeprefix(CHANNELS): column
            for name, column in self.columns.items()
            if name != "done" and not name.startswith(CHECKSUMS)
        }

    def positions(self, split: str = "all") -> Int[np.ndarray, " case"]:
        """Return the positions of the complete cases of a split."""
        if split != "all" and split not in SPLITS:
            raise DisolError(f"Unknown split {shown(split)}. Use one of {', '.join([*SPLITS, 'all'])}.")
        codes = self.read(slice(None), "split")["split"]
        return np.arange(len(codes)) if split == "all" else np.flatnonzero(codes == SPLITS.index(split))

    def read(self, cases: Cases = slice(None), *names: str, frames: slice = slice(None)) -> Arrays:
        """Read complete cases, all arrays or those named, and verify them; markers come as bool, forces as int8.

        frames   of the patterns of a transient problem
        """
        known = self.names
        for name in names:
            if name not in known:
                raise DisolError(f"{self.path} holds no {name!r}. It holds {', '.join(known)}.")
        content = self._map()
        positions = np.arange(self._count_done(content))[cases]
        arrays = {}
        for name in names or known:
            if name == "times":  # of the file, not of a case
                arrays[name] = np.array(self.settings.times)
                continue
            column = known[name]
            stored = self._read_rows(CHANNELS + name if column.encoding else name, content, positions, frames)
            arrays[name] = column.encoding.decode(stored, self.settings.resolution) if column.encoding else stored
        return arrays

    def _map(self) -> memoryview:
        content = map_regular(self.path)
        if len(content) < max(column.end for column in self.columns.values()):
            raise DisolError(f"{self.path} was truncated while it was in use. {AGAIN}")
        return content

    def _count_done(self, content: memoryview) -> int:
        codes = self.columns["done"].view(content)
        for start in range(0, len(codes), _SEARCHED_AT_ONCE):
            searched = codes[start : start + _SEARCHED_AT_ONCE]
            if (searched > 1).any():
                raise DisolError(f"{self.path} is damaged: 'done' holds other codes than 0 and 1. {AGAIN}")
            if not searched.all():
                return start + int(np.argmin(searched))
        return len(codes)

    def _read_rows(
        self, name: str, content: memoryview, positions: Int[np.ndarray, " case"], frames: slice
    ) -> Shaped[np.ndarray, "..."]:
        """Read rows of a dataset as they are stored, and require that they are those that were written."""
        column, sums = self.columns[name], self.columns.get(CHECKSUMS + name)
        chosen = (positions, frames) if name == "pattern" and self.settings.times else (positions,)
        stored = column.view(content)[chosen]
        intact, known = np.array(True), self.settings.number_cases(positions)
        if name in known:
            intact = stored == known[name]
        elif sums is not None:
            expected = sums.view(content)[chosen]
            intact = compute_checksums(stored, expected.ndim) == expected
        if not intact.all():
            case = positions[np.argwhere(~intact)[0, 0]]
            raise DisolError(f"{self.path} is damaged: {name!r} of case {case} is not what was written. {AGAIN}")
        if stored.dtype.kind == "f" and not np.isfinite(stored).all():
            raise DisolError(f"{self.path} is damaged: {name!r} holds NaN or infinite values. {AGAIN}")
        return stored


class StoreWriter:
    """A file of cases, open for writing its next ones; no other process can write to it meanwhile."""

    def __init__(self, store: Store) -> None:
        self.store, self._file = store, -1
        try:
            self._file = os.open(store.path, os.O_RDWR)
            if not try_lock(self._file):
                raise DisolError(
                    f"{store.path} is in use by another process. Wait until it has finished, or choose another path."
                )
            _require_room(store.path, store.path.stat().st_size)
            _reserve(store.path)
        except OSError as error:
            self.close()
            raise _explain(error, store.path) from error
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return f"StoreWriter({self.store.path}: {self.store.settings})"

    def __enter__(self) -> "StoreWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let other processes write."""
        if self._file >= 0:
            os.close(self._file)
        self._file = -1

    def write_chunk(self, start: int, arrays: Arrays) -> None:
        """Write the cases from `start` on; none is marked as done before all are written."""
        if start != self.store.num_done:
            raise DisolError(f"The next case to write is {self.store.num_done}, got {start}. Write cases in order.")
        columns, room = self.store.columns, self.store.settings.num_cases - start
        if len(arrays["amplitude"]) > room:  # what follows in the file would be overwritten
            raise DisolError(f"The file has room for {room} more cases, got {len(arrays['amplitude'])}.")
        stored = {}
        for name, column in columns.items():
            if column.is_drawn:
                stored[name] = _encode_rows(name, column, arrays)
                if CHECKSUMS + name in columns:
                    axes = len(columns[CHECKSUMS + name].shape)
                    stored[CHECKSUMS + name] = compute_checksums(stored[name], axes)
        try:
            for name, rows in stored.items():
                _write_at(self._file, columns[name].offset + start * columns[name].row_bytes, rows)
            os.fsync(self._file)
            done = np.ones(len(arrays["amplitude"]), dtype=np.uint8)
            _write_at(self._file, columns["done"].offset + start, done)
        except OSError as error:
            raise _explain(error, self.store.path) from error


def create_store(path: str | Path, settings: StoreSettings, problem: str | Problem | None = None) -> StoreWriter:
    """Lay out a new file and open it for writing; it appears under its name in one step, or not at all.

    problem   whose terms say how channels are stored; by default the problem of the package that the settings name
    """
    path = as_path("path", path)
    known = find("problem", settings.problem, PROBLEMS) if problem is None else find_problem(problem)
    encodings = get_encodings(known)
    if tuple(known.channels) != settings.channels:
        raise DisolError(
            f"{known.name} has the channels {', '.join(known.channels)}, but the settings of the file have "
            f"{', '.join(settings.channels)}."
        )
    if "\0" in str(path):
        raise DisolError(f"Cannot write {path}: embedded null byte. Choose another path.")
    if os.path.lexists(path):
        raise DisolError(f"{path} exists already. Resume it, remove it, or choose another path.")
    if path.suffix.lower() not in ENDINGS:
        raise DisolError(f"A file of cases must end in {' or '.join(ENDINGS)}, got {shown(path.name)}.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _require_room(path, STRUCTURE_BYTES + settings.num_cases * count_case_bytes(settings, encodings))
        with temporary_beside(path) as temporary:
            lay_out(temporary, settings, encodings)
            _reserve(temporary)
            sync_file(temporary)
            try:
                path.hardlink_to(temporary)
            except FileExistsError:
                raise DisolError(
                    f"{path} was created by another process just now. Wait for it, or choose another."
                ) from None
            except OSError:  # file systems without hard links
                temporary.rename(path)
        sync_folder(path.parent)
    except OSError as error:
        raise _explain(error, path) from error
    return StoreWriter(open_store(path, unfinished=True))


def open_store(path: str | Path, *, unfinished: bool = False) -> Store:
    """Open a file for reading; one whose generation has not finished only if `unfinished` is set."""
    path = as_path("path", path)
    store = Store(path, *read_layout(path))
    done, total = store.num_done, store.settings.num_cases
    if done < total and not unfinished:
        raise DisolError(f"{path} holds {done} of its {total} cases. Resume its generation, then read it.")
    return store


def resume_store(path: str | Path, settings: StoreSettings) -> StoreWriter:
    """Open an unfinished file for writing, if it was begun with the same settings."""
    store = open_store(path, unfinished=True)
    for field in fields(StoreSettings):
        begun, asked = getattr(store.settings, field.name), getattr(settings, field.name)
        if begun != asked:
            raise DisolError(
                f"{path} was begun with {field.name}={begun!r}, now asked for {asked!r}. "
                "Ask for the same, or choose another path."
            )
    drop_unfinished(path)
    return StoreWriter(store)


def _encode_rows(name: str, column: Column, arrays: Arrays) -> Shaped[np.ndarray, "..."]:
    """Return the rows of a dataset as they are stored, or say what is wrong with them."""
    key = name.removeprefix(CHANNELS)
    if key not in arrays:
        raise DisolError(f"A chunk needs {key!r}, got {', '.join(arrays)}.")
    values = arrays[key]
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise DisolError(f"{key} of a case holds NaN or infinite values.")
    encoding = column.encoding
    rows = values.astype(column.dtype, copy=False) if encoding is None else encoding.pack(key, values)
    expected = (len(arrays["amplitude"]), *column.shape[1:])
    if rows.shape != expected:
        raise DisolError(f"{key} must have the stored shape {expected}, got {rows.shape}.")
    return rows


def _explain(error: OSError, path: Path) -> DisolError:
    """Say in one line what the operating system objects to, and what to do."""
    if error.errno in _NO_ROOM:
        return DisolError(f"{path} cannot grow: no room on the disk or over a quota. Free space and resume.")
    if error.errno in _NO_ACCESS:
        return DisolError(f"{path} cannot be written: {error.strerror}. Choose a folder that you may write to.")
    if error.errno in _NO_FOLDER:
        return DisolError(
            f"{path} needs a folder, but {path.parent} is not one and cannot be created. Choose another path."
        )
    return DisolError(f"{path} cannot be used: {error.strerror or error}. Check the disk and the path.")


def _require_room(path: Path, size: int) -> None:
    """Require that the disk has room for a file of `size` bytes, less what it takes already."""
    missing = size - (path.stat().st_blocks * 512 if path.exists() else 0)
    free = shutil.disk_usage(path.parent).free
    if missing > free:
        raise DisolError(
            f"{path} needs {_readable(missing)}, but {_readable(free)} are free. "
            "Free space, choose another folder, or ask for fewer cases."
        )


def _reserve(path: Path) -> None:
    """Claim all blocks of a file, where the file system can."""
    if hasattr(os, "posix_fallocate"):
        with path.open("rb+") as file:
            try:
                os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
            except OSError as error:
                if error.errno not in NOT_SUPPORTED:
                    raise


def _readable(size: int) -> str:
    """Format a number of bytes in a suitable unit."""
    thousands = min((len(str(size)) - 1) // 3, len(_UNITS) - 1)
    return f"{size / 1000**thousands:.1f} {_UNITS[thousands]}"


def _write_at(descriptor: int, offset: int, array: Shaped[np.ndarray, "..."]) -> None:
    """Write the bytes of an array at a place in a file."""
    remaining = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
    while len(remaining):
        written = os.pwrite(descriptor, remaining, offset)
        remaining, offset = remaining[written:], offset + written
