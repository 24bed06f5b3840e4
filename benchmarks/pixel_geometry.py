r"""How far solutions on pixels and on the true boundary are from the PDE, for drawn cases.

    python benchmarks/pixel_geometry.py --problems poisson --cases 30
    python benchmarks/pixel_geometry.py --cases 460 --workers 14 --out docs/benchmarks/pixel-geometry.jsonl \
        --write docs/benchmarks/pixel-geometry.md

The reference is the solution on the true boundary on a grid four times finer, at the pixel centres of the coarse grid.
For heat, its time steps are a quarter as long. Both errors are listed beside the estimate of the distance to the PDE
that a user gets. Cases in `--out` are not measured again, and all of them are on the page. `--renew` repeats those that
were measured with another threshold for slivers.
"""

import argparse
import json
import os
import warnings
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import disol
from disol.geometry.cut_cells import SMALLEST
from disol.solutions.true_boundary import solve_finer
from report import publish, table

FINER = 4
SEED = 21
SHIFTS = ("", "all")
FORMER = 1e-3  # SMALLEST of rows that do not name it
Kind = tuple[str, str, int]


def measure(problem: str, shift: str, index: int, resolution: int | None) -> dict[str, object]:
    """Return the errors of one case, and the estimate of its distance to the PDE."""
    row: dict[str, object] = {"problem": problem, "shift": shift, "index": index, "resolution": resolution}
    row["smallest"] = SMALLEST
    draw: dict[str, Any] = {"seed": SEED, "index": index, "shift": shift or None, "resolution": resolution}
    warnings.simplefilter("ignore", UserWarning)  # of ill-conditioned systems; their errors are part of the measurement
    try:
        case = disol.draw(problem, **draw, conventions="physical")
        true = disol.solve_exact(case)
        pixels = disol.solve_exact(disol.draw(problem, **draw, conventions="paper"))
        finer = solve_finer(case, FINER)
        reference = finer[0] if case.times is None else np.stack(list(finer.values()))
        estimate = true.estimate_distance()
    except disol.DisolError as error:
        return row | {"refused": str(error)}
    size = np.linalg.norm(reference)
    multiple = (pixels.field * reference).sum() / max((pixels.field**2).sum(), 1e-300)
    errors = {
        "true": np.linalg.norm(true.field - reference) / size,
        "pixels": np.linalg.norm(pixels.field - reference) / size,
        "scaled": np.linalg.norm(multiple * pixels.field - reference) / size,
        "estimate": estimate,
    }
    return row | {name: float(f"{value:.4g}") for name, value in errors.items()}


def row_of(problem: str, shift: str, found: list[dict[str, Any]]) -> list[str]:
    """Summarise the cases of one kind."""
    cases = [each for each in found if (each["problem"], each["shift"]) == (problem, shift)]
    solved = [each for each in cases if "true" in each]
    values = {name: np.array([each[name] for each in solved]) for name in ("true", "pixels", "scaled", "estimate")}
    ratio = values["estimate"] / values["true"]
    shown = [f"{problem}{f', `{shift}`' if shift else ''}", f"{len(solved)} of {len(cases)}"]
    shown += [percent(np.median(values[name])) for name in ("pixels", "scaled")]
    shown += [percent(number) for number in (*np.percentile(values["true"], [50, 95]), values["true"].max())]
    return [*shown, f"{np.percentile(ratio, 5):.2f}, {np.median(ratio):.2f}", f"{(ratio >= 0.5).mean():.1%}"]


def is_former(row: dict[str, Any]) -> bool:
    """Return whether a row was measured with another threshold for slivers than the present one."""
    return row.get("smallest", FORMER) != SMALLEST


def percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.2g} %"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="+", default=list(disol.PROBLEMS))
    parser.add_argument("--cases", type=int, default=24, help="of each problem and shift")
    parser.add_argument("--resolution", type=int, help="default: that of the problem")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--out", type=Path, help="a file of JSON lines, which is continued")
    parser.add_argument("--renew", action="store_true", help="measure cases of another threshold for slivers again")
    parser.add_argument("--write", type=Path, help="where to write the page")
    options = parser.parse_args()
    found: dict[Kind, dict[str, Any]] = {}
    if options.out is not None and options.out.exists():
        for line in options.out.read_text().splitlines():
            row = json.loads(line)
            found[row["problem"], row["shift"], row["index"]] = row
    # Case by case through all problems, so that an interrupted run has cases of all of them.
    wanted = [
        (problem, shift, index)
        for index, problem, shift in product(range(options.cases), options.problems, SHIFTS)
        if (problem, shift, index) not in found or (options.renew and is_former(found[problem, shift, index]))
    ]
    with ProcessPoolExecutor(options.workers) as pool:
        futures = {kind: pool.submit(measure, *kind, options.resolution) for kind in wanted}
        for kind, future in futures.items():
            found[kind] = future.result()
            if options.out is not None:
                with options.out.open("a") as lines:
                    lines.write(json.dumps(found[kind]) + "\n")
        if options.out is not None:  # without the rows that were replaced
            whole = options.out.with_suffix(".part")
            whole.write_text("".join(json.dumps(row) + "\n" for row in found.values()))
            whole.replace(options.out)
    rows, former = list(found.values()), sum(map(is_former, found.values()))
    told = (
        f"Slivers are merged into their neighbours. {former:,} of these {len(rows):,} cases were measured when that "
        f"was done below {FORMER:g} of a pixel, the others with the present threshold of {SMALLEST:g}. `--renew` "
        "measures the former again."
    )
    heading = ["problem", "cases", "pixels", "their best multiple"]
    heading += ["true boundary", "true boundary, p95", "true boundary, worst"]
    heading += ["estimate / distance: p5, median", "at least half"]
    known = {(each["problem"], each["shift"]) for each in rows}
    kinds = [kind for kind in product(disol.PROBLEMS, SHIFTS) if kind in known]
    publish(
        [
            "# Pixels and the true boundary",
            "Written by `python benchmarks/pixel_geometry.py`.",
            "How far are solutions on pixels and on the true boundary from the PDE? The table lists relative L2 errors "
            f"at pixel centres, for drawn cases (seed {SEED}) on the grid of each problem. The reference is the true "
            f"boundary on a grid {FINER} times finer. Errors are medians unless a column says otherwise.",
            "- *cases*: those solved, of those drawn. Cases that are not solved have curves that touch.\n"
            "- *pixels*: the conventions `paper`. *Their best multiple* is the pixel solution times the factor that "
            "brings it nearest to the reference. Forces on pixels load two layers of nodes, which makes displacements "
            "twice as large; the factor corrects this.\n"
            "- *true boundary*: the conventions `physical`.\n"
            "- *estimate / distance*: the estimate of the distance to the PDE, 2 ‖u_h − u_h/2‖ / ‖u_h/2‖, divided by "
            "the distance. For displacements its factor is 3 instead of 2.\n"
            "- *at least half*: how often the estimate is at least half of the distance.",
            table(heading, [row_of(*kind, rows) for kind in kinds]),
            "The error of pixels includes that of their supports. A support drawn on pixels has a share of the "
            "boundary pixels; on the true boundary it has the same share of the length. The two differ where the "
            "boundary runs along a diagonal ([how much](equal-error.md)).",
            "Errors of heat include those in time, as a user gets them: pixels take backward Euler steps of the frame "
            "interval, `physical` takes SDIRK2 steps.",
            *([told] if former else []),
            *([f"All cases are in `{options.out}`. The command adds to this file."] if options.out is not None else []),
        ],
        options.write,
    )


if __name__ == "__main__":
    main()
