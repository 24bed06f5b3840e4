"""Files of cases as plain NumPy archives."""

import json
from dataclasses import asdict
from pathlib import Path
from zipfile import ZipFile

import numpy as np
from jaxtyping import Int
from numpy.lib import format as npy

from disol.data.store import Store, open_store
from disol.files import written_whole

PIECE_BYTES = 2**26  # a file may be larger than the memory, so that an array is written in pieces of this size


def export_npz(path: str | Path, target: str | Path, *, split: str = "all", names: tuple[str, ...] = ()) -> Path:
    """Write the cases of a split, all arrays or those named, and the file's settings as JSON; return the target."""
    target = Path(target)
    if target.suffix != ".npz":
        raise ValueError(f"A NumPy archive is called NAME.npz, got {target.name}. Rename the target.")
    store = open_store(path)
    positions = store.positions(split)
    chosen = list(store.read(positions[:0], *names))
    settings = np.array(json.dumps(asdict(store.settings)))
    with written_whole(target) as temporary, ZipFile(temporary, "w") as archive:
        with archive.open("settings.npy", "w") as member:
            npy.write_array(member, settings, allow_pickle=False)
        for name in chosen:
            write_member(archive, store, name, positions)
    return target


def write_member(archive: ZipFile, store: Store, name: str, positions: Int[np.ndarray, " case"]) -> None:
    """Write one array of the cases at `positions` into an archive, a piece at a time."""
    example = store.read(positions[:0], name)[name]
    with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
        if name == "times":  # of the file, not of a case
            npy.write_array(member, example, allow_pickle=False)
            return
        shape = (len(positions), *example.shape[1:])
        header = {"descr": npy.dtype_to_descr(example.dtype), "fortran_order": False, "shape": shape}
        npy.write_array_header_1_0(member, header)
        cases = max(1, PIECE_BYTES // (example.itemsize * int(np.prod(shape[1:]))))
        for start in range(0, len(positions), cases):
            piece = store.read(positions[start : start + cases], name)[name]
            member.write(np.ascontiguousarray(piece).data)
