"""How many random outlines DIMON's map to the disc refuses or folds, and how long it takes.

python benchmarks/disc_maps.py --outlines 200 --resolution 64
"""

import argparse
from time import perf_counter

import numpy as np
import torch

from disol.geometry import draw_geometry
from disol.grid import Grid
from disol.nn.disc_map import map_to_disc, walk_boundaries


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--outlines", type=int, default=200)
    parser.add_argument("--resolution", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    asked = parser.parse_args()
    grid = Grid(asked.resolution, asked.resolution)
    streams = [np.random.default_rng([asked.seed, index]) for index in range(asked.outlines)]
    masks = torch.from_numpy(np.stack([draw_geometry(rng, rng).mask(grid) for rng in streams])).to(asked.device)
    mapped = masks[walk_boundaries(masks).is_whole]
    started = perf_counter()
    folds = map_to_disc(mapped).count_folds().cpu()
    seconds = perf_counter() - started
    print(f"{len(masks)} outlines of {grid.height} x {grid.width} pixels: {len(masks) - len(mapped)} refused,")
    print(f"{int((folds > 0).sum())} with folded pixels, {1e3 * seconds / len(mapped):.2f} ms each")


if __name__ == "__main__":
    main()
