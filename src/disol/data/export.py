"""What a file of cases holds, in words and as a plain NumPy archive."""

import json
from dataclasses import asdict
from pathlib import Path
from zipfile import ZipFile

import numpy as np
from jaxtyping import Int
from numpy.lib import format as npy

from disol._files import written_whole
from disol.data.recipe import SPLITS
from disol.data.store import Store, open_store
from disol.errors import DisolError

PIECE_BYTES = 2**26  # a file may be larger than the memory, so arrays are written in pieces of this size
_SAMPLED_CASES = 1000  # read for the mean coverage of the grid


def describe(path: str | Path) -> list[tuple[str, str]]:
    """Return rows (what, value) about a file, finished or not."""
    store = open_store(path, unfinished=True)
    settings, done = store.settings, store.num_done
    unfinished = "" if done == settings.num_cases else f", {done} done: resume to finish"
    domain = store.read(slice(_SAMPLED_CASES), "domain")["domain"]
    amplitude = store.read(slice(None), "amplitude")["amplitude"]
    coverage = sizes = "unknown"
    if done:
        coverage = f"{domain.mean():.2f}"
        sizes = f"{amplitude.min():.3g} to {amplitude.max():.3g}, median {np.median(amplitude):.3g}"
    rows = [
        ("file", f"{store.path} ({store.path.stat().st_size / 1e6:.1f} MB)"),
        ("problem", f"{settings.problem}: {settings.equation}"),
        ("parameters", settings.parameters.strip("{}").replace('"', "") or "none"),
        ("cases", f"{settings.num_cases}{unfinished}"),
        ("splits", ", ".join(f"{split} {len(store.positions(split))}" for split in SPLITS)),
        ("grid", f"{settings.resolution} x {settings.resolution}, mean coverage {coverage}"),
        ("channels", ", ".join(settings.channels)),
        ("fields", ", ".join(settings.fields)),
        ("conventions", settings.conventions),
        ("shift", settings.shift or "none (the training distribution)"),
        ("seed", str(settings.seed)),
        ("amplitude", sizes),
        ("made by", f"disol {settings.package_version}"),
    ]
    if settings.times:
        frames = f"{len(settings.times)} from {settings.times[0]:g} s to {settings.times[-1]:g} s"
        rows.insert(6, ("frames", frames))
    return rows


def export_npz(path: str | Path, target: str | Path, *, split: str = "all", names: tuple[str, ...] = ()) -> Path:
    """Write the cases of a split, all arrays or those named, and the file's settings as JSON; return the target."""
    target = Path(target)
    if target.suffix != ".npz":
        raise DisolError(f"A NumPy archive is called NAME.npz, got {target.name}.")
    store = open_store(path)
    positions = store.positions(split)
    chosen = list(store.read(positions[:0], *names))
    settings = np.array(json.dumps(asdict(store.settings)))
    with written_whole(target) as temporary, ZipFile(temporary, "w") as archive:
        with archive.open("settings.npy", "w") as member:
            npy.write_array(member, settings, allow_pickle=False)
        for name in chosen:
            _write_member(archive, store, name, positions)
    return target


def _write_member(archive: ZipFile, store: Store, name: str, positions: Int[np.ndarray, " case"]) -> None:
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
