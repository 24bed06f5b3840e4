"""A mask of your own: solve the Poisson problem on it exactly, and find the error of a shipped model on its pixels."""

import numpy as np

import disol

SIDE = 64  # the grid that the model was trained on

row, column = np.mgrid[:SIDE, :SIDE] / SIDE
domain = np.hypot(column - 0.5, row - 0.5) < 0.4  # a disc
domain &= ~((np.abs(column - 0.5) < 0.12) & (np.abs(row - 0.62) < 0.08))  # with a rectangular hole
held = domain & (row < 0.2)  # U = 0 at its top


def source(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """f, where x runs to the right and y downwards, both from 0 to 1."""
    return np.sin(6 * x) * y


exact = disol.solve_exact("poisson", domain=domain, dirichlet=held, source=source)
print(f"max |U| = {exact.amplitude:.5f} on {domain.sum()} pixels, held at their outer sides")

model = disol.load("poisson")
verified = model.verify(exact.case)  # on pixels, which are what networks know; or verify(domain=domain, ...)
print(f"relative L2 error of the prediction: {verified.error:.4f}")
