"""A polygon of your own: written as JSON, read as a case with boundary conditions by name, and solved."""

import json
import tempfile
from pathlib import Path

import disol

RESOLUTION = 128

bracket = {  # in the unit square, y downwards
    "outer": [[0.1, 0.1], [0.9, 0.1], [0.9, 0.35], [0.4, 0.35], [0.4, 0.9], [0.1, 0.9]],
    "holes": [[[0.18, 0.68], [0.3, 0.68], [0.3, 0.8], [0.18, 0.8]]],
}

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "bracket.json"
    path.write_text(json.dumps(bracket))
    case = disol.read_case(
        "elasticity",
        path,
        resolution=RESOLUTION,
        fix_x="hole1",  # a bolt
        fix_y="hole1",
        force_y="outer:0.25-0.33=1",  # downwards at the end of the arm; clockwise from the top left corner
    )

print(case.origin["geometry"])
solution = disol.solve_exact(case)
print(f"max |U_i| = {solution.amplitude:.5f}, off by about {solution.estimate_distance():.3f} of it from the PDE")
