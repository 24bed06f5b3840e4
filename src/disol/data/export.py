"""Files of cases as plain NumPy archives."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from disol.data.store import open_store
from disol.files import written_whole


def export_npz(path: str | Path, target: str | Path, *, split: str = "all", names: tuple[str, ...] = ()) -> Path:
    """Write the cases of a split, all arrays or those named, and the file's settings as JSON; return the target."""
    target = Path(target)
    if target.suffix != ".npz":
        raise ValueError(f"A NumPy archive is called NAME.npz, got {target.name}. Rename the target.")
    store = open_store(path)
    arrays: dict[str, Any] = store.read(store.positions(split), *names)
    with written_whole(target) as temporary:
        np.savez(temporary, settings=np.array(json.dumps(asdict(store.settings))), **arrays)
    return target
