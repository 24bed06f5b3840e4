"""An inverse problem: the conductivity of a plate from its temperature, by gradients of the exact solution."""

from typing import Any

import numpy as np
import torch

import disol

SIDE = 32
STEPS = 40
NOISE = 1e-3
SMOOTHING = 10.0

# A plate conducts 1, and 3 in a round inclusion. It is heated in two ways, and measured at every pixel.
rows, columns = (np.mgrid[:SIDE, :SIDE] + 0.5) / SIDE
inclusion = (rows - 0.6) ** 2 + (columns - 0.4) ** 2 < 0.2**2
truth = np.where(inclusion, 3.0, 1.0)
experiments: list[dict[str, Any]] = [
    {"dirichlet": {"left": 0.0}, "flux": {"right": 1.0}},
    {"dirichlet": {"top": 0.0}, "convection": {"bottom": (5.0, 1.0)}},
]


def solve(conductivity: torch.Tensor) -> torch.Tensor:
    given: dict[str, Any] = {"domain": np.ones((SIDE, SIDE)), "diffusion": conductivity}
    return torch.cat([disol.solve_differentiable("poisson", **given, **data) for data in experiments])


exact = solve(torch.from_numpy(truth))
measured = exact + NOISE * torch.randn(exact.shape, generator=torch.Generator().manual_seed(0))

# The unknown is the logarithm of the conductivity of every pixel, so that no step makes it negative.
logarithm = torch.zeros(SIDE, SIDE, dtype=torch.float64, requires_grad=True)
optimiser: torch.optim.Optimizer = torch.optim.LBFGS([logarithm], max_iter=STEPS, line_search_fn="strong_wolfe")
losses: list[float] = []


def misfit() -> Any:
    optimiser.zero_grad()
    down, across = logarithm.diff(dim=0)[:, 1:], logarithm.diff(dim=1)[1:]
    edges = (down**2 + across**2 + 1e-3).sqrt().mean()  # total variation: few edges, which may be sharp
    loss: Any = (((solve(logarithm.exp()) - measured) / NOISE) ** 2).mean() + SMOOTHING * edges
    loss.backward()  # one solve for each experiment, with the factors of the forward solve
    losses.append(loss.item())
    return loss


optimiser.step(misfit)
found = logarithm.detach().exp().numpy()
print(f"{len(losses)} times forwards and backwards: the misfit fell from {losses[0]:.0f} to {losses[-1]:.2f}")
inside, outside, error = found[inclusion].mean(), found[~inclusion].mean(), np.linalg.norm(found / truth - 1) / SIDE
print(f"conductivity inside and outside, and its relative error (RMS): {inside:.3f} {outside:.3f} {error:.3f}")
