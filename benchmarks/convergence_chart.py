"""Draw errors against the width of a pixel."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from disol._files import written_whole
from disol.viz.errors import COLOURS, QUIET


def write_chart(errors: dict[str, dict[str, dict[int, float]]], path: Path) -> None:
    """Draw errors by way, case and side of the grid: the first way solid, the second dashed; slopes 1 and 2 in grey."""
    figure = Figure(figsize=(8.4, 4.6), layout="constrained")
    axes = figure.subplots()
    cases = dict(zip(next(iter(errors.values())), COLOURS, strict=False))
    for (way, found), line, marker in zip(errors.items(), ("-", "--"), ("o", "s"), strict=True):
        for name, by_side in found.items():
            label = name if line == "-" else f"{name}: {way}"
            width, height = 1 / np.array(list(by_side)), list(by_side.values())
            axes.loglog(width, height, line, marker=marker, markersize=4, color=cases[name], label=label)
    for name, ends, start in (("h", (1 / 256, 1 / 64), 0.02), ("h²", (1 / 256, 1 / 64), 1.0e-5)):
        order = len(name)
        axes.loglog(ends, [start, start * (ends[1] / ends[0]) ** order], color=QUIET, linewidth=1)
        axes.annotate(name, (ends[1], start * (ends[1] / ends[0]) ** order), xytext=(5, -4), color=QUIET,
                      textcoords="offset points")  # fmt: skip
    sides = sorted({side for found in errors.values() for by_side in found.values() for side in by_side})
    axes.set_xticks([1 / side for side in sides], [f"1/{side}" for side in sides])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("width of a pixel, h")
    axes.set_ylabel("relative L2 error at pixel centres")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside right upper", fontsize=8, frameon=False, title="true boundary, and pixels dashed")
    with written_whole(path) as temporary:
        figure.savefig(temporary, dpi=110)
