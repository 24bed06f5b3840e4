"""Muon moves matrices by orthogonal steps, and everything else by Adam."""

import pytest
import torch

from disol.training import muon
from disol.training.muon import STEP_SIZE, Muon, is_matrix, orthogonalise_all

SHAPES = [(8, 3, 3, 3), (16, 8, 3, 3), (3, 40), (40, 3), (8, 8), (7, 9), (30, 2), (64, 72)]


def random_weight(shape, seed=0, dtype=torch.float32):
    weight = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)
    return weight.requires_grad_()


def test_singular_values_become_about_1_however_small_they_were():
    matrices = [random_weight(shape).detach().flatten(1) for shape in SHAPES]
    for matrix, orthogonal in zip(matrices, orthogonalise_all(matrices), strict=True):
        assert orthogonal.shape == matrix.shape
        values = torch.linalg.svdvals(orthogonal)
        assert values.min() > 0.6
        assert values.max() < 1.3
        # The directions are those of the matrix: U Vᵀ of its singular value decomposition, up to those values.
        left, _, right = torch.linalg.svd(matrix, full_matrices=False)
        rotated = left.T @ orthogonal @ right.T
        assert (rotated - torch.diag(rotated.diagonal())).abs().max() < 1e-4


@pytest.mark.parametrize(("smallest", "groups"), [(0, 5), (6, 1)])
def test_matrices_that_are_done_together_do_not_interact(smallest, groups, monkeypatch):
    matrices = [random_weight(shape, seed).detach().flatten(1) for seed, shape in enumerate(SHAPES)]
    alone = [orthogonalise_all([matrix])[0] for matrix in matrices]
    monkeypatch.setitem(muon.SMALLEST_HEIGHT, "cpu", smallest)
    assert len(muon.of_same_height([matrix if muon.is_wide(matrix) else matrix.mT for matrix in matrices])) == groups
    for expected, found in zip(alone, orthogonalise_all(matrices), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_a_zero_gradient_is_no_step():
    weight = random_weight((4, 6))
    before = weight.detach().clone()
    weight.grad = torch.zeros_like(weight)
    Muon([weight], lr=0.1).step()
    assert torch.equal(weight, before)


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_the_step_of_a_stencil_is_that_of_its_matrix_and_as_long_as_adams(memory_format):
    weight = random_weight((16, 8, 3, 3))
    gradient = random_weight((16, 8, 3, 3), seed=1).detach()
    stencil = weight.detach().clone(memory_format=memory_format).requires_grad_()
    stencil.grad = gradient.clone(memory_format=memory_format)
    Muon([stencil], lr=0.01).step()
    matrix = weight.detach().flatten(1).clone().requires_grad_()
    matrix.grad = gradient.flatten(1).clone()
    Muon([matrix], lr=0.01).step()
    torch.testing.assert_close(stencil.flatten(1), matrix)
    moved = (stencil - weight).detach()
    assert moved.square().mean().sqrt() == pytest.approx(0.01 * STEP_SIZE, rel=0.3)
    assert (moved * gradient).sum() < 0


def test_other_weights_move_as_by_adamw():
    for shape, dtype in (((7,), torch.float32), ((5, 1), torch.float32), ((3, 4), torch.complex64)):
        ours, theirs = (random_weight(shape, dtype=dtype) for _ in range(2))
        assert not is_matrix(ours)
        by_muon = Muon([ours], lr=0.1, weight_decay=0.01)
        adam = torch.optim.AdamW([theirs], lr=0.1, weight_decay=0.01, betas=(0.9, 0.95))
        for seed in range(4):
            for weight, optimizer in ((ours, by_muon), (theirs, adam)):
                weight.grad = random_weight(shape, seed, dtype).detach()
                optimizer.step()
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


def test_momentum_and_decay_count():
    def moved(steps, **settings):
        weight = random_weight((4, 6))
        optimizer = Muon([weight], lr=0.1, **settings)
        for seed in range(steps):
            weight.grad = random_weight((4, 6), seed + 1).detach()
            optimizer.step()
        return weight.detach()

    assert not torch.allclose(moved(2), moved(2, momentum=0.0))
    start = random_weight((4, 6)).detach()
    torch.testing.assert_close(moved(1, weight_decay=0.5), moved(1) - 0.1 * 0.5 * start)


def test_a_weight_without_a_gradient_stays():
    weights = [random_weight((4, 6)), random_weight((3,))]
    before = [weight.detach().clone() for weight in weights]
    Muon(weights, lr=0.1, weight_decay=0.1).step()
    assert all(torch.equal(weight, old) for weight, old in zip(weights, before, strict=True))


def test_its_state_can_be_saved_and_restored():
    def trained(steps, start=None):
        weights = [random_weight((4, 6)), random_weight((3,))]
        optimizer = Muon(weights, lr=0.1)
        first = 0
        if start is not None:
            first, values, state = start
            with torch.no_grad():
                for weight, value in zip(weights, values, strict=True):
                    weight.copy_(value)
            optimizer.load_state_dict(state)
        for seed in range(first, steps):
            for weight in weights:
                weight.grad = random_weight(weight.shape, seed + 5).detach()
            optimizer.step()
        return steps, [weight.detach().clone() for weight in weights], optimizer.state_dict()

    straight, resumed = trained(5)[1], trained(5, trained(2))[1]
    assert all(torch.equal(one, other) for one, other in zip(straight, resumed, strict=True))
