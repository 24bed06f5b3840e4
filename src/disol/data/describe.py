"""What a file of cases holds, in words."""

from pathlib import Path

import numpy as np

from disol.data.recipe import SPLITS
from disol.data.store import Store, open_store

SAMPLED_CASES = 1000  # read for the mean coverage of the grid


def describe(path: str | Path) -> list[tuple[str, str]]:
    """Return rows (what, value) about a file, finished or not."""
    store = open_store(path, unfinished=True)
    settings, done = store.settings, store.num_done
    unfinished = "" if done == settings.num_cases else f", {done} done: resume to finish"
    rows = [
        ("file", f"{store.path} ({store.path.stat().st_size / 1e6:.1f} MB)"),
        ("problem", f"{settings.problem}: {settings.equation}"),
        ("parameters", settings.parameters.strip("{}").replace('"', "") or "none"),
        ("cases", f"{settings.num_cases}{unfinished}"),
        ("splits", ", ".join(f"{split} {len(store.positions(split))}" for split in SPLITS)),
        ("grid", f"{settings.resolution} x {settings.resolution}, mean coverage {mean_coverage(store)}"),
        ("channels", ", ".join(settings.channels)),
        ("fields", ", ".join(settings.fields)),
        ("conventions", settings.conventions),
        ("shift", settings.shift or "none (the training distribution)"),
        ("seed", str(settings.seed)),
        ("amplitude", amplitude_range(store)),
        ("made by", f"disol {settings.package_version}"),
    ]
    if settings.times:
        frames = f"{len(settings.times)} from {settings.times[0]:g} s to {settings.times[-1]:g} s"
        rows.insert(6, ("frames", frames))
    return rows


def mean_coverage(store: Store) -> str:
    """Share of the grid that the domains cover."""
    domain = store.read(slice(SAMPLED_CASES), "domain")["domain"]
    return f"{domain.mean():.2f}" if len(domain) else "unknown"


def amplitude_range(store: Store) -> str:
    """Smallest, median and largest amplitude."""
    amplitude = store.read(slice(None), "amplitude")["amplitude"]
    if not len(amplitude):
        return "unknown"
    return f"{amplitude.min():.3g} to {amplitude.max():.3g}, median {np.median(amplitude):.3g}"
