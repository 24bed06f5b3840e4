"""Exact solutions that torch differentiates."""

from typing import Any

import numpy as np
import pytest
import torch

import disol
from disol.fem import solve as direct

SIDE = 16
PLATE = np.zeros((SIDE, SIDE))
PLATE[2:14, 3:13] = 1
PLATE[6:9, 6:9] = 0


def random(*shape: int) -> torch.Tensor:
    values = 1 + torch.rand(shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64)
    return values.requires_grad_()


def test_torch_finds_the_gradients_of_pixels_numbers_and_values_on_parts_itself_too() -> None:
    def solve(diffusion: Any, source: Any, value: Any, flux: Any, h: Any, outside: Any) -> torch.Tensor:
        return disol.solve_differentiable(
            "advection-diffusion-high",
            domain=PLATE,
            dirichlet={"left": value, "right": 2.0},
            flux={"hole1": flux},
            convection={"top": (h, outside)},
            source=source,
            diffusion=diffusion,
        )

    pixels, numbers = random(SIDE, SIDE), [random() for _ in range(4)]
    assert torch.autograd.gradcheck(solve, (random(SIDE, SIDE) / 4, pixels, *numbers), fast_mode=True)
    assert torch.autograd.gradcheck(solve, (random(), pixels.detach(), *numbers), fast_mode=True)


def test_torch_finds_the_gradients_of_elasticity_and_heat_itself_too() -> None:
    def stretch(young: torch.Tensor, ratio: torch.Tensor, shift: torch.Tensor, force: torch.Tensor) -> torch.Tensor:
        fixed: dict[str, Any] = {"fix_x": {"left": 0, "right": shift}, "fix_y": {"left": 0.0}}
        return disol.solve_differentiable(
            "elasticity", domain=PLATE, **fixed, force_y={"right": force}, young=young, poisson_ratio=ratio / 6
        )

    assert torch.autograd.gradcheck(stretch, (random(SIDE, SIDE), random(), random(), random()), fast_mode=True)

    def warm(conductivity: torch.Tensor, initial: torch.Tensor) -> torch.Tensor:
        data: dict[str, Any] = {"dirichlet": {"left": 0}, "conductivity": conductivity, "initial": initial}
        return disol.solve_differentiable("heat", domain=PLATE, times=[0, 2, 4], **data)

    assert torch.autograd.gradcheck(warm, (random(SIDE, SIDE), random(SIDE, SIDE)), fast_mode=True)


def test_the_field_is_that_of_solve_exact_and_gradients_keep_the_dtype_of_their_tensors() -> None:
    case = disol.draw("poisson", seed=3, resolution=SIDE, conventions="physical")
    diffusion = random(SIDE, SIDE).detach().float().requires_grad_()
    field = disol.solve_differentiable(case, diffusion=diffusion)
    expected = disol.solve_exact(case, diffusion=diffusion.detach())
    assert field.dtype == torch.float64
    np.testing.assert_array_equal(field.detach(), expected.field)
    (field**2).sum().backward()
    assert diffusion.grad is not None
    assert diffusion.grad.dtype == torch.float32
    gradient = disol.solve_adjoint(expected, 2 * expected.field, of=["diffusion"])["diffusion"]
    np.testing.assert_allclose(diffusion.grad, gradient, rtol=1e-6)
    assert not disol.solve_differentiable(case, diffusion=2.0).requires_grad


def test_forwards_and_backwards_share_their_factors(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = []
    factorise = direct.factorise
    monkeypatch.setattr(direct, "factorise", lambda matrix, pivot: counted.append(1) or factorise(matrix, pivot))
    case = disol.draw("elasticity", seed=3, resolution=SIDE, conventions="physical")
    disol.solve_differentiable(case, young=random(SIDE, SIDE)).sum().backward()
    assert len(counted) == 1


def test_what_torch_cannot_differentiate_is_refused() -> None:
    held = torch.zeros(SIDE, SIDE, dtype=torch.float64)
    held[2:14, 3] = 1
    with pytest.raises(disol.DisolError, match=r"no gradient in dirichlet here\. It has source, .*detach"):
        disol.solve_differentiable("poisson", domain=PLATE, dirichlet=held.requires_grad_(), source=PLATE)
    drawn = disol.draw("poisson", seed=3, resolution=SIDE)
    pixels = disol.draw("poisson", seed=3, resolution=SIDE, conventions="paper")
    with pytest.raises(disol.DisolError, match="Gradients are for one case on its true boundary"):
        disol.solve_differentiable(pixels)
    with pytest.raises(disol.DisolError, match="Gradients are for one case on its true boundary"):
        disol.solve_differentiable(disol.Case.stack([drawn, drawn]))
