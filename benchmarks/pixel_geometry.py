"""How far the pixel grid is from the smooth domain: the same continuous cases at several resolutions.

"Exact" means exact for the discrete system on pixels. This measures what that is worth: patterns and amplitudes at
64, 128 and 256 pixels against 512, the finest grid here, compared on the coarse grid's own pixels.
"""

import argparse
from pathlib import Path

import numpy as np

import disol
from report import processor, publish, table

FINEST = 512


def differences(index: int, sides: list[int]) -> list[tuple[float, float]]:
    """Return the relative L2 difference of the pattern and of the amplitude, for each resolution."""
    finest = disol.solve_exact(disol.draw("poisson", seed=21, index=index, resolution=FINEST))
    found = []
    for side in sides:
        exact = disol.solve_exact(disol.draw("poisson", seed=21, index=index, resolution=side))
        ratio = FINEST // side
        blocks = (side, ratio, side, ratio)
        averaged = finest.field[0].reshape(blocks).mean(axis=(1, 3)) / finest.amplitude
        shared = exact.domain & finest.domain.reshape(blocks).all(axis=(1, 3))
        gap = (exact.pattern[0] - averaged)[shared]
        pattern = np.linalg.norm(gap) / np.linalg.norm(averaged[shared])
        found.append((float(pattern), abs(float(exact.amplitude) / float(finest.amplitude) - 1)))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=24)
    parser.add_argument("--write", type=Path, help="where to write the page")
    options = parser.parse_args()
    sides = [64, 128, 256]
    medians = np.median([differences(index, sides) for index in range(options.cases)], axis=0)
    rows = [[str(side), f"{100 * pattern:.1f} %", f"{100 * size:.1f} %"] for side, (pattern, size) in
            zip(sides, medians, strict=True)]  # fmt: skip
    publish(
        [
            "# Pixel geometry",
            f"Written by `make bench`. Poisson cases at three resolutions against {FINEST}, median of {options.cases} "
            "drawn cases: relative L2 difference of the pattern over shared pixels, and of the amplitude.",
            table(["grid", "pattern", "amplitude"], rows),
            "Both fall about in proportion to the pixel size. A staircase boundary and Dirichlet pixels that hold one "
            "layer of nodes too many are first-order errors; the elements inside are second-order accurate.",
            f"Machine: {processor()}.",
        ],
        options.write,
    )


if __name__ == "__main__":
    main()
