"""Darcy flow: pressure under a given inflow, in ground whose permeability varies from pixel to pixel."""

import numpy as np

import disol

SIDE = 64

# Permeability: dipping layers, and a clay lens a thousand times less permeable, all along pixel edges.
rows, columns = np.mgrid[:SIDE, :SIDE] / SIDE
permeability = np.where((4 * rows + columns) % 1 < 0.5, 1.0, 8.0)
lens = (np.abs(rows - 0.6) < 0.08) & (np.abs(columns - 0.5) < 0.25)
permeability[lens] = 1e-3

# The ground is drained at its right side; rain enters along the top, as a source in the uppermost pixels.
domain = np.ones((SIDE, SIDE))
drained, rain = np.zeros((2, SIDE, SIDE))
drained[:, -1] = 1
rain[0] = SIDE  # one unit of water per length of the surface

case = disol.Case.from_arrays("poisson", domain=domain, dirichlet=drained, source=rain, diffusion=permeability)
pressure = disol.solve_exact(case)

# Darcy's law, q = -k grad p: the outflow on the right equals the rain.
slope = -pressure.field[0, :, -1] / (0.5 / SIDE)  # from the centres of the last pixels to their side, where p = 0
outflow = float((-permeability[:, -1] * slope).sum() / SIDE)
print(f"of one unit of rain {outflow:.3f} leave on the right")
print(f"highest pressure, and its mean in the lens: {pressure.field.max():.4f} {pressure.field[0][lens].mean():.4f}")
