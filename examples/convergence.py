"""Orders of convergence on pixels, against a known solution: 1 because Dirichlet pixels have a width, 2 without it."""

import numpy as np

import disol

SIDES = (16, 32, 64, 128)


def wave(x: np.ndarray, y: np.ndarray, margin: float) -> np.ndarray:
    """U, zero at `margin` from the edge of the unit square; −ΔU = 2 k² U, and its energy is π² / 4."""
    k = np.pi / (1 - 2 * margin)
    return np.sin(k * (x - margin)) * np.sin(k * (y - margin))


def find_errors(side: int, margin: float) -> tuple[float, float]:
    """Return the errors of U, in L2, and of its energy."""
    held = np.ones((side, side))
    held[1:-1, 1:-1] = 0
    strength = 2 * (np.pi / (1 - 2 * margin)) ** 2
    source = lambda x, y: strength * wave(x, y, margin)  # noqa: E731
    terms = {"domain": np.ones((side, side)), "dirichlet": held, "source": source}
    case = disol.Case.from_arrays("poisson", conventions="paper", **terms)
    nodes = disol.solve_exact(case).nodes
    assert nodes is not None
    system = disol.system(case)
    assert np.abs(system.residual(nodes)).max() < 1e-12  # exact for the discrete system
    _, row, column = system.unknowns.T
    difference = system.to_vector(nodes) - wave(column / side, row / side, margin)
    return float(np.linalg.norm(difference)) / side, abs(system.energy(nodes) - np.pi**2 / 4)


# A Dirichlet pixel holds its four nodes, so the ring of pixels along the edge also holds the nodes one h inside it.
for name, margins in (("the whole square", [0.0] * len(SIDES)), ("without the ring", [1 / side for side in SIDES])):
    errors = np.array([find_errors(side, margin) for side, margin in zip(SIDES, margins, strict=True)])
    orders = np.log2(errors[:-1] / errors[1:])
    print(f"{name}: L2 errors {', '.join(f'{error:.1e}' for error in errors[:, 0])}")
    print(f"orders of U and of its energy: {orders[-1, 0]:.2f} {orders[-1, 1]:.2f}")
