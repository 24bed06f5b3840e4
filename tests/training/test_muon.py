"""Muon moves matrices by orthogonal steps, and everything else by Adam."""

import copy

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from disol.training import muon
from disol.training.muon import ITERATIONS, QUINTIC, STEP_SIZE, Muon, Stacking, is_matrix, orthogonalise

SHAPES = [(8, 3, 3, 3), (16, 8, 3, 3), (3, 40), (40, 3), (8, 8), (7, 9), (30, 2), (64, 72)]


def random_weight(shape, seed=0):
    weight = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    return weight.requires_grad_()


def weights_of_all_layouts():
    stencils = [(16, 8, 3, 3), (100, 4, 3, 3), (8, 32, 1, 1), (16, 1, 3, 3), (1, 2, 5, 5)]
    values = [random_weight(shape, seed).detach() for seed, shape in enumerate([*SHAPES, (6, 2, 3, 3, 3), (5,)])]
    values += [random_weight(shape).detach().to(memory_format=torch.channels_last) for shape in stencils]
    values += [random_weight((40, 3)).detach().mT, random_weight((20, 30)).detach().mT]
    values += [random_weight((9, 20)).detach()[:, ::2]]  # with gaps
    return [value.requires_grad_() for value in values]


def give_gradients(weights, seed):
    for number, weight in enumerate(weights):
        weight.grad = torch.zeros_like(weight)  # laid out as autograd does
        weight.grad.copy_(random_weight(weight.shape, 100 * seed + number).detach())


def orthogonalise_all(matrices):
    together = Stacking(matrices)
    torch._foreach_copy_(together.entries, matrices)
    together.put_back([orthogonalise(stack) for stack in together.stacks()])
    return together.entries


def orthogonalise_one(matrix):
    """Set the singular values of one matrix to what the polynomial makes of them."""
    left, values, right = torch.linalg.svd(matrix, full_matrices=False)
    values = values / values.norm()
    for _ in range(ITERATIONS):
        values = sum(factor * values**power for factor, power in zip(QUINTIC, (1, 3, 5), strict=True))
    return left @ torch.diag(values) @ right


class Launches(TorchDispatchMode):
    """Count operations that are no views; those on lists as one where torch takes all tensors at once on a GPU."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        if operation.name().startswith("aten::_foreach"):
            lists = [each for each in args if isinstance(each, list | tuple) and isinstance(each[0], torch.Tensor)]
            self.count += 1 if is_taken_at_once(lists) else len(lists[0])
        elif not operation.is_view:
            self.count += 1
        return operation(*args, **(kwargs or {}))


def is_taken_at_once(lists):
    """Tell whether all tensors are of one dtype, without gaps, and laid out as those they are combined with."""
    dtypes = {tensor.dtype for tensors in lists for tensor in tensors}
    layouts = [{strides_that_count(tensor) for tensor in tensors} for tensors in zip(*lists, strict=True)]
    dense = [{strides_that_count(torch.empty_like(tensor))} for tensor in lists[0]]
    return len(dtypes) == 1 and layouts == dense


def strides_that_count(tensor):
    return tuple(stride for stride, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1)


def launches_of(optimizer):
    with Launches() as launches:
        optimizer.step()
    return launches.count


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
    assert len(Stacking(matrices).shapes) == groups
    for expected, found in zip(alone, orthogonalise_all(matrices), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("smallest", [0, 6])
def test_matrices_of_all_layouts_move_as_each_does_by_itself(smallest, monkeypatch):
    monkeypatch.setitem(muon.SMALLEST_HEIGHT, "cpu", smallest)
    weights = [weight for weight in weights_of_all_layouts() if is_matrix(weight)]
    expected = [weight.detach().clone().double() for weight in weights]
    momenta = [torch.zeros_like(weight) for weight in expected]
    optimizer = Muon(weights, lr=0.1, weight_decay=0.5)
    for step in range(4):
        give_gradients(weights, step)
        weights[step].grad = None
        optimizer.step()
        for weight, value, momentum in zip(weights, expected, momenta, strict=True):
            if weight.grad is not None:
                momentum.mul_(0.95).add_(weight.grad)
                direction = orthogonalise_one((weight.grad + 0.95 * momentum).flatten(1))
                value.mul_(1 - 0.1 * 0.5)
                value.sub_(0.1 * STEP_SIZE * max(direction.shape) ** 0.5 * direction.reshape(value.shape))
    for weight, value in zip(weights, expected, strict=True):
        torch.testing.assert_close(weight.detach().double(), value, rtol=1e-3, atol=1e-4)


def test_launches_of_a_step_do_not_grow_with_the_number_of_weights():
    def optimizer_of(copies):
        weights = [weight for _ in range(copies) for weight in weights_of_all_layouts() if has_no_gaps(weight)]
        optimizer = Muon(weights, lr=0.1, weight_decay=0.1)
        for weight in weights:
            weight.grad = torch.ones_like(weight)
        optimizer.step()
        return optimizer

    def has_no_gaps(weight):
        return torch.empty_like(weight).stride() == weight.stride()

    one, many = (launches_of(optimizer_of(copies)) for copies in (1, 5))
    assert one == many
    assert one < 150


def test_tables_are_made_anew_only_where_other_weights_have_gradients(monkeypatch):
    made = []
    monkeypatch.setattr(muon, "Stacking", lambda weights: made.append(len(weights)) or Stacking(weights))
    weights, others = ([random_weight(shape) for shape in shapes] for shapes in (((4, 6), (3, 5, 3, 3)), ((2, 2),)))
    optimizer = Muon(weights, lr=0.1)
    optimizer.add_param_group({"params": others})
    for step in range(6):
        give_gradients([*weights, *others], step)
        if step >= 3:
            weights[0].grad = None
        if step == 5:
            weights[1].data = weights[1].data.to(memory_format=torch.channels_last)
        optimizer.step()
    assert made == [2, 1, 1, 1]  # both groups, without one weight, and with one laid out anew


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
    for shape in ((7,), (5, 1)):
        ours, theirs = (random_weight(shape) for _ in range(2))
        assert not is_matrix(ours)
        by_muon = Muon([ours], lr=0.1, weight_decay=0.01)
        adam = torch.optim.AdamW([theirs], lr=0.1, weight_decay=0.01, betas=(0.9, 0.95))
        for seed in range(4):
            for weight, optimizer in ((ours, by_muon), (theirs, adam)):
                weight.grad = random_weight(shape, seed).detach()
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


def test_a_state_of_another_layout_is_laid_out_as_the_weights_are():
    def trained(weights, state=None):
        optimizer = Muon(weights, lr=0.1)
        if state is not None:
            optimizer.load_state_dict(state)
        give_gradients(weights, seed=1)
        optimizer.step()
        return optimizer

    def weights_as(memory_format):
        shapes = ((16, 8, 3, 3), (1, 8, 3, 3))
        return [random_weight(shape).detach().to(memory_format=memory_format).requires_grad_() for shape in shapes]

    here, there = (weights_as(each) for each in (torch.channels_last, torch.contiguous_format))
    state = copy.deepcopy(trained(weights_as(torch.contiguous_format)).state_dict())
    resumed = trained(here, state)
    trained(there, state)
    for one, other in zip(here, there, strict=True):
        torch.testing.assert_close(one, other)
        tensors = [value for value in resumed.state[one].values() if isinstance(value, torch.Tensor)]
        assert all(value.stride() == one.stride() for value in tensors)


def test_its_state_holds_no_tables_and_a_copy_of_it_makes_its_own():
    weights = [random_weight((4, 6)), random_weight((3,))]
    optimizer = Muon(weights, lr=0.1)
    give_gradients(weights, seed=1)
    optimizer.step()
    assert {name for state in optimizer.state_dict()["state"].values() for name in state} == {
        "momentum",
        "steps",
        "mean",
        "square",
    }
    other = copy.deepcopy(optimizer)
    copies = other.param_groups[0]["params"]
    for weight, copied in zip(weights, copies, strict=True):
        copied.grad = weight.grad
    optimizer.step()
    other.step()
    assert all(torch.equal(one, another) for one, another in zip(weights, copies, strict=True))
