"""Files of cases: many cases of one problem on one grid, written in order and read by name."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from types import TracebackType

import numpy as np
from jaxtyping import Int, Shaped

from disol.data import disk
from disol.data.layout import Arrays, Column, case_bytes, lay_out, read_layout
from disol.data.packing import encoding_of
from disol.data.recipe import SPLITS, StoreSettings

Cases = slice | Int[np.ndarray, " case"]


@dataclass(frozen=True)
class Store:
    """A file of cases, open for reading."""

    path: Path
    settings: StoreSettings
    columns: Mapping[str, Column]

    @property
    def num_done(self) -> int:
        """Number of complete cases, counted from the first."""
        done = self.columns["done"].view(self.path)
        return len(done) if done.all() else int(np.argmin(done))

    @property
    def names(self) -> dict[str, Column]:
        """What `read` gives, by name: channels, pattern, amplitude, index, outline, shift, split and times."""
        return {column.channel or name: column for name, column in self.columns.items() if name != "done"}

    def positions(self, split: str = "all") -> Int[np.ndarray, " case"]:
        """Return where the complete cases of a split are."""
        if split != "all" and split not in SPLITS:
            raise ValueError(f"Unknown split {split!r}. Use one of {', '.join([*SPLITS, 'all'])}.")
        codes = self.columns["split"].view(self.path)[: self.num_done]
        return np.arange(len(codes)) if split == "all" else np.flatnonzero(codes == SPLITS.index(split))

    def read(self, cases: Cases = slice(None), *names: str, frames: slice = slice(None)) -> Arrays:
        """Read complete cases, all arrays or those named; markers come as bool, forces as int8.

        frames   of the patterns of a transient problem
        """
        known = self.names
        for name in names:
            if name not in known:
                raise ValueError(f"{self.path} holds no {name!r}. It holds {', '.join(known)}.")
        num_done = self.num_done
        return {name: self._read(name, known[name], num_done, cases, frames) for name in names or known}

    def _read(self, name: str, column: Column, num_done: int, cases: Cases, frames: slice) -> Shaped[np.ndarray, "..."]:
        if name == "times":
            return np.array(column.view(self.path))
        rows = column.view(self.path)[:num_done]
        if name == "pattern" and self.settings.times:
            rows = rows[:, frames]
        stored = np.array(rows[cases])
        return encoding_of(name).decode(stored, self.settings.resolution) if column.channel else stored


class StoreWriter:
    """A file of cases, open for its next cases; no other process can write it meanwhile."""

    def __init__(self, store: Store) -> None:
        self.store = store
        try:
            self._file = os.open(store.path, os.O_RDWR)
        except OSError as error:
            raise disk.explain(error, store.path) from error
        try:
            disk.claim(self._file, store.path)
        except ValueError:
            self.close()
            raise

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

    def reserve(self) -> None:
        """Claim the room on the disk that the file will fill."""
        size = self.store.path.stat().st_size
        try:
            disk.require_room(self.store.path, size)
            disk.reserve(self._file, size)
        except OSError as error:
            raise disk.explain(error, self.store.path) from error

    def write_chunk(self, start: int, arrays: Arrays) -> None:
        """Write the cases from `start` on, all of them, before any is marked as done."""
        if start != self.store.num_done:
            raise ValueError(f"The next case to write is {self.store.num_done}, got {start}. Write cases in order.")
        columns = self.store.columns
        drawn = {name: column for name, column in columns.items() if column.known is None}
        stored = {name: stored_rows(name, column, arrays) for name, column in drawn.items()}
        try:
            for name, rows in stored.items():
                disk.write_at(self._file, columns[name].offset + start * columns[name].row_bytes, rows)
            os.fsync(self._file)
            done = np.ones(len(arrays["amplitude"]), dtype=np.uint8)
            disk.write_at(self._file, columns["done"].offset + start, done)
        except OSError as error:
            raise disk.explain(error, self.store.path) from error


def stored_rows(name: str, column: Column, arrays: Arrays) -> Shaped[np.ndarray, "..."]:
    """Return the rows of a dataset as they are stored, or say what is wrong with them."""
    key = column.channel or name
    if key not in arrays:
        raise ValueError(f"A chunk needs {key!r}, got {', '.join(arrays)}. Add it.")
    values = arrays[key]
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise ValueError(f"{key} of a case holds NaN or infinite values. Check how it was solved.")
    rows = encoding_of(key).pack(key, values) if column.channel else values.astype(column.dtype, copy=False)
    expected = (len(arrays["amplitude"]), *column.shape[1:])
    if rows.shape != expected:
        raise ValueError(f"{key} must have the stored shape {expected}, got {rows.shape}. Check its grid.")
    return rows


def create_store(path: str | Path, settings: StoreSettings) -> StoreWriter:
    """Lay out a new file and open it for writing."""
    path = Path(path)
    if settings.num_cases < 1:
        raise ValueError(f"num_cases must be at least 1, got {settings.num_cases}. Ask for one case or more.")
    if path.exists():
        raise ValueError(f"{path} exists already. Resume it, remove it, or choose another path.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        disk.require_room(path, settings.num_cases * case_bytes(settings))
        lay_out(path, settings)
    except OSError as error:
        raise disk.explain(error, path) from error
    writer = StoreWriter(open_store(path, unfinished=True))
    try:
        writer.reserve()
    except ValueError:
        path.unlink()
        writer.close()
        raise
    return writer


def open_store(path: str | Path, *, unfinished: bool = False) -> Store:
    """Open a file for reading; one whose generation has not finished only if asked for."""
    store = Store(Path(path), *read_layout(Path(path)))
    done, total = store.num_done, store.settings.num_cases
    if done < total and not unfinished:
        raise ValueError(f"{path} holds {done} of its {total} cases. Resume its generation, then read it.")
    return store


def resume_store(path: str | Path, settings: StoreSettings) -> StoreWriter:
    """Open an unfinished file for writing, if it was begun with the same settings."""
    store = open_store(path, unfinished=True)
    for field in fields(StoreSettings):
        begun, asked = getattr(store.settings, field.name), getattr(settings, field.name)
        if begun != asked:
            raise ValueError(
                f"{path} was begun with {field.name}={begun!r}, now asked for {asked!r}. "
                "Ask for the same, or choose another path."
            )
    writer = StoreWriter(store)
    try:
        writer.reserve()
    except ValueError:
        writer.close()
        raise
    return writer
