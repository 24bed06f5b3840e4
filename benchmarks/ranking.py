"""Rank beams with a hole by their largest displacement: `disol.rank` against a loop of single solutions.

    python benchmarks/ranking.py --out docs/benchmarks/ranking.json --write docs/benchmarks/ranking.md
    python benchmarks/ranking.py --gpu --out docs/benchmarks/ranking.json --write docs/benchmarks/ranking.md

Every beam is clamped at its left end and pulled downwards at the other. Beams differ in length and depth, and in the
place and size of the hole. Each is a file of polygons, which both ways read.
"""

import argparse
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

import numpy as np

import disol
from disol.data.workers import usable_cores
from disol.ranking.measures import measure
from report import processor, publish, table

Result = TypeVar("Result")
Variant = Callable[[], disol.Case]
Row = dict[str, Any]

BY = "max_displacement"
CORNERS = 64  # of the polygon of a hole
BOUNDARIES = {"physical": "true", "paper": "pixels"}
MOST_APART = {"cpu": 0.0, "cuda": 1e-6}  # allowed relative difference between the values of a ranking and of the loop


def write_beams(count: int, folder: Path, seed: int = 0) -> Iterator[tuple[str, dict[str, str]]]:
    """Write beams of depth 0.18 to 0.47 and length 0.62 to 0.88; yield their files, with supports and forces."""
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
    """Wall time, and the CPU time of this process and those it started."""

    wall: float
    cpu: float


def timed(work: Callable[[], Result]) -> tuple[Result, Seconds]:
    """Do some work, and return its result and how long it took."""
    started, before = perf_counter(), sum(os.times()[:4])
    result = work()
    return result, Seconds(perf_counter() - started, sum(os.times()[:4]) - before)


def compare_ways(variants: list[Variant], conventions: str, options: argparse.Namespace) -> list[Row]:
    """Solve all beams in a loop, then rank them; return the times of both. The order must be the same."""
    disol.solve_exact(variants[0](), device="cpu")  # warm-up: imports what a solution needs
    values, looped = timed(lambda: [measure(disol.solve_exact(each(), device="cpu"), BY) for each in variants])
    order = sorted(range(len(variants)), key=values.__getitem__)
    ways = [("a loop of `solve_exact`", looped, 0.0)]
    for device in ["cpu", *(["cuda"] if options.gpu and conventions != "physical" else [])]:
        rank = partial(disol.rank, variants, BY, workers=options.workers, device=device)
        if device == "cuda":
            rank()  # warm-up: loads the libraries of the GPU, and compiles kernels
        ranking, ranked = timed(rank)
        gap = max(abs(row.value / values[row.number] - 1) for row in ranking.ranked if row.value is not None)
        if [row.number for row in ranking] != order or gap > MOST_APART[device]:
            raise SystemExit(f"The ranking on {device} is not that of the loop: values are {gap:.1g} apart.")
        name = f"`disol.rank`, {options.workers} processes" if device == "cpu" else "`disol.rank` on the GPU"
        print(f"{conventions}: {name} {ranked.wall:.2f} s, a loop {looped.wall:.2f} s, {gap:.1g} apart", flush=True)
        ways.append((name, ranked, gap))
    return [
        {"conventions": conventions, "way": name, "beams": len(variants), **asdict(each), "apart": gap}
        for name, each, gap in ways
    ]


def page(machines: dict[str, list[Row]]) -> list[str]:
    """Write the page."""
    lines = []
    for machine, rows in machines.items():
        loops = {row["conventions"]: row["wall"] for row in rows if row["way"].startswith("a loop")}
        for row in rows:
            lines.append(
                [
                    machine,
                    BOUNDARIES[row["conventions"]],
                    row["way"],
                    f"{row['wall']:.1f} s",
                    f"{1e3 * row['wall'] / row['beams']:.0f} ms",
                    f"{row['cpu']:.1f} s",
                    f"{loops[row['conventions']] / row['wall']:.2f}",
                    f"{row['apart']:.0e}" if row["apart"] else "0",
                ]
            )
    beams = next(iter(machines.values()))[0]["beams"]
    heading = [
        "machine",
        "boundary",
        "way",
        "wall time",
        "per beam",
        "CPU time",
        "times as fast as the loop",
        "largest difference",
    ]
    return [
        "# Ranking",
        "Written by `python benchmarks/ranking.py`.",
        f"`disol.rank` against a loop of `solve_exact`: {beams} beams with a round hole, clamped at one end and pulled "
        "at the other, are ranked by their largest displacement on 128 x 128 pixels. Each beam is a file of polygons. "
        "Every way reads the file and solves the case.",
        "- The boundary is the true one, or that of pixels (conventions `paper`).\n"
        "- The time of `disol.rank` runs from the call to its answer. It includes starting and ending the processes.\n"
        "- The GPU only takes cases on pixels. It is timed after one ranking that loads its libraries.\n"
        "- If other processes keep the cores busy, compare CPU times rather than wall times.",
        table(heading, lines),
        "Every ranking has the order of the loop. The last column is the largest relative difference between its "
        "values and those of the loop. On CPUs they are the same to the last bit.",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--beams", type=int, default=200)
    parser.add_argument("--resolution", type=int, default=128)
    parser.add_argument("--workers", type=int, default=usable_cores())
    parser.add_argument("--gpu", action="store_true", help="also rank on the GPU")
    parser.add_argument("--out", type=Path, help="a JSON file of results by machine, to which this one is added")
    parser.add_argument("--write", type=Path, help="where to write the page")
    options = parser.parse_args()
    machine, rows = processor(), list[Row]()
    if options.gpu:
        import torch  # noqa: PLC0415  not needed to measure CPUs

        machine = f"{torch.cuda.get_device_name()}; {machine}"
    for conventions in BOUNDARIES:
        known: dict[str, Any] = {"conventions": conventions, "resolution": options.resolution}
        with tempfile.TemporaryDirectory() as folder:
            variants: list[Variant] = [
                partial(disol.read_case, "elasticity", path, **known | given)
                for path, given in write_beams(options.beams, Path(folder))
            ]
            rows += compare_ways(variants, conventions, options)
    machines: dict[str, list[Row]] = {}
    if options.out is not None and options.out.exists():
        machines = json.loads(options.out.read_text())
    machines[machine] = rows
    if options.out is not None:
        options.out.write_text(json.dumps(machines, indent=2) + "\n")
    publish(page(machines), options.write)


if __name__ == "__main__":
    main()
