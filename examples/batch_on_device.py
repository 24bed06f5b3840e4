"""A batch of masks, solved exactly on its pixels in one call: on a GPU if there is one, else on all cores."""

import time

import numpy as np

import disol

CASES = 64  # thousands on a GPU
SIDE = 64

rng = np.random.default_rng(0)
row, column = np.mgrid[:SIDE, :SIDE] / SIDE
size = rng.uniform(0.15, 0.4, (2, CASES, 1, 1))
angle = rng.uniform(0, np.pi, (CASES, 1, 1))
along = np.cos(angle) * (column - 0.5) + np.sin(angle) * (row - 0.5)
across = np.cos(angle) * (row - 0.5) - np.sin(angle) * (column - 0.5)
domains = (along / size[0]) ** 2 + (across / size[1]) ** 2 < 1  # ellipses, [case, height, width]
held = domains & (along < -0.6 * size[0])  # each at one end
sources = np.broadcast_to(column, domains.shape)

started = time.perf_counter()
solution = disol.solve_exact(
    "poisson", domain=domains, dirichlet=held, source=sources, conventions="paper", device="auto"
)
seconds = time.perf_counter() - started

print(f"{CASES} cases on {solution.device}: {1e3 * seconds / CASES:.2f} ms each, from NumPy to NumPy")
largest = int(np.argmax(solution.amplitude))
print(f"field {solution.field.shape}; the largest solution is that of {solution[largest].case}")
print(f"mean max |U| = {np.mean(solution.amplitude):.5f}")
