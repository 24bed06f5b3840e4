"""Rank beams with a hole by how far they move, on their true boundary: `disol.rank` against a loop of single solutions.

    python benchmarks/ranking.py --write docs/benchmarks/ranking.md

Every beam is clamped at its left end and pulled downwards at the other; length, depth, and place and size of the hole
differ. Each is a file of polygons, which both ways read.
"""

import argparse
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TypeVar

import numpy as np

import disol
from disol.data.workers import usable_cores
from disol.ranking.measures import measure
from report import processor, publish, table

Result = TypeVar("Result")

BY = "max_displacement"
CORNERS = 64  # of the polygon of a hole


def write_beams(count: int, folder: Path, seed: int = 0) -> Iterator[tuple[str, dict[str, str]]]:
    """Write beams of 0.18 to 0.47 in depth and 0.62 to 0.88 in length; yield their files, and what holds and pulls."""
    rng = np.random.default_rng(seed)
    angles = np.linspace(0, 2 * np.pi, CORNERS, endpoint=False)
    for number in range(count):
        ends = ((0.27, 0.41), (0.59, 0.74), (0.06, 0.16), (0.78, 0.94))
        top, bottom, left, right = (float(rng.uniform(*range_)) for range_ in ends)
        x, y = rng.uniform(left + 0.2, right - 0.2), rng.uniform(top + 0.08, bottom - 0.08)
        radius = rng.uniform(0.03, min(y - top, bottom - y) - 0.03)
        hole = np.stack([x + radius * np.cos(angles), y + radius * np.sin(angles)], axis=1)
        outer = [[left, top], [right, top], [right, bottom], [left, bottom]]
        path = folder / f"beam-{number:03}.json"
        path.write_text(json.dumps({"outer": outer, "holes": [hole.tolist()]}))
        # Along the outline, clockwise from its top left corner.
        length, depth = right - left, bottom - top
        corner, around = length / (2 * (length + depth)), depth / (2 * (length + depth))
        clamped = f"outer:{1 - around:.12f}-1"
        yield (
            str(path),
            {"fix_x": clamped, "fix_y": clamped, "force_y": f"outer:{corner:.12f}-{corner + around:.12f}=1"},
        )


@dataclass(frozen=True)
class Seconds:
    """Time on the clock, and that of all processors in this process and those it started."""

    wall: float
    cpu: float


def timed(work: Callable[[], Result]) -> tuple[Result, Seconds]:
    """Do some work and return how long it took."""
    started, before = perf_counter(), sum(os.times()[:4])
    result = work()
    return result, Seconds(perf_counter() - started, sum(os.times()[:4]) - before)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--beams", type=int, default=200)
    parser.add_argument("--resolution", type=int, default=128)
    parser.add_argument("--workers", type=int, default=usable_cores())
    parser.add_argument("--write", type=Path, help="where to write the page")
    options = parser.parse_args()
    known, load = {"conventions": "physical", "resolution": options.resolution}, os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        variants: list[Callable[[], disol.Case]] = [
            partial(disol.read_case, "elasticity", path, **known, **given)  # type: ignore[arg-type]
            for path, given in write_beams(options.beams, Path(folder))
        ]
        disol.solve_exact(variants[0]())  # imports what the first solution needs
        values, looped = timed(lambda: [measure(disol.solve_exact(variant()), BY) for variant in variants])
        ranking, ranked = timed(lambda: disol.rank(variants, BY, workers=options.workers))
    order = sorted(range(options.beams), key=values.__getitem__)
    same = [row.number for row in ranking] == order and [row.value for row in ranking] == sorted(values)
    if not same:
        raise SystemExit("The ranking is not that of the loop.")
    best, worst = (f"{row.value:.3g}" for row in (ranking.best, ranking.worst))
    rows = [
        [name, f"{seconds.wall:.1f} s", f"{1e3 * seconds.wall / options.beams:.0f} ms", f"{seconds.cpu:.1f} s"]
        for name, seconds in (
            ("a loop of `solve_exact`", looped),
            (f"`disol.rank`, {options.workers} processes", ranked),
        )
    ]
    publish(
        [
            "# Ranking",
            f"Written by `python benchmarks/ranking.py`. {options.beams} beams with a round hole, files of polygons, "
            f"clamped at one end and pulled at the other, ranked by their largest displacement on the true boundary, "
            f"{options.resolution} x {options.resolution} pixels. Both ways read each file and solve it; the time of "
            "`disol.rank` is from the call to its answer, processes started and ended.",
            table(["", "time in all", "a beam", "CPU time"], rows),
            f"The ranking is {looped.wall / ranked.wall:.2f} times as fast as the loop. Its order and values are those "
            f"of the loop to the last bit: the largest displacement goes from {best} to {worst}.",
            f"Machine: {processor()}; its load average was {load:.1f} before. Where others keep the cores busy, times "
            "on the clock say little, and CPU times say more.",
        ],
        options.write,
    )


if __name__ == "__main__":
    main()
