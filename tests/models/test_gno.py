"""The graph neural operator: its graph, its kernel integral, and what it must not depend on."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from disol.models import create_model
from disol.models.gno import Graph, find_graph, find_steps

SMALL = {"width": 3, "kernel_width": 6, "rounds": 2, "radius": 0.3, "neighbours": 100, "head_width": 4}


def small_model(problem="poisson", **settings):
    torch.manual_seed(0)
    return create_model("gno", problem, **SMALL | settings)


def random_case(problem_channels=3, batch=2, size=(7, 8)):
    inputs = torch.rand(batch, problem_channels, *size, generator=torch.Generator().manual_seed(1))
    inputs[:, 0] = (inputs[:, 0] > 0.4).float()
    return inputs


def test_neighbours_are_the_pixels_of_the_same_domain_within_the_radius():
    domains = random_case()[:, 0] > 0
    graph = find_graph(domains, radius=0.3, most=100)
    case, row, column = np.nonzero(domains.numpy())
    assert torch.equal(graph.nodes, torch.from_numpy(np.ravel_multi_index((case, row, column), domains.shape)))
    squared = ((row[:, None] - row) / 7) ** 2 + ((column[:, None] - column) / 8) ** 2
    expected = (squared <= 0.3**2) & (case[:, None] == case)
    for node in range(len(case)):
        found = graph.neighbours[node][graph.is_there[node]]
        assert sorted(found.tolist()) == np.flatnonzero(expected[node]).tolist()


@pytest.mark.parametrize("size", [(64, 64), (128, 128), (40, 90)])
def test_few_neighbours_are_spread_over_the_radius(size):
    steps = find_steps(*size, radius=0.125, most=48).numpy()
    assert 40 <= len(steps) <= 48
    assert len(np.unique(steps, axis=0)) == len(steps)
    assert (np.hypot(*(steps / size).T) <= 0.125 + 1 / min(size)).all()
    np.testing.assert_allclose((steps / size).mean(axis=0), 0, atol=0.01)
    assert [0, 0] in steps.tolist()


def test_a_round_is_the_mean_of_a_matrix_per_edge():
    model = small_model()
    graph = find_graph(random_case()[:, 0] > 0, radius=0.3, most=100)
    known, features = torch.randn(len(graph.nodes), 5), torch.randn(len(graph.nodes), 3)
    heard = model.hear(features, model.evaluate_kernel(known, graph, slice(None)), graph, slice(None))
    for node in (0, len(known) // 2, len(known) - 1):
        others = graph.neighbours[node][graph.is_there[node]]
        messages = []
        for other in others:
            hidden = functional.gelu(model.kernel(torch.cat([known[node], known[other]])))
            messages.append(model.matrices(hidden).reshape(3, 3) @ features[other])
        torch.testing.assert_close(heard[node], torch.stack(messages).mean(0), rtol=1e-4, atol=1e-6)


def test_the_order_of_nodes_does_not_matter():
    model = small_model()
    graph = find_graph(random_case()[:, 0] > 0, radius=0.3, most=100)
    known = torch.randn(len(graph.nodes), 5)
    order = torch.randperm(len(known), generator=torch.Generator().manual_seed(2))
    place = order.argsort()
    among = torch.randperm(graph.neighbours.shape[1], generator=torch.Generator().manual_seed(3))
    moved = Graph(graph.nodes[order], place[graph.neighbours[order]][:, among], graph.is_there[order][:, among])
    expected = model.propagate(known, graph)[order]
    torch.testing.assert_close(model.propagate(known[order], moved), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("memory", [1, 10**5, 3 * 10**5])
def test_what_is_in_memory_together_changes_neither_predictions_nor_gradients(memory):
    outcomes = []
    for together in (None, memory):
        model = small_model("elasticity")
        model.memory = together
        prediction = model(random_case(5))
        prediction.square().sum().backward()
        outcomes.append([prediction, *[weight.grad for weight in model.parameters()]])
    for whole, chunked in zip(*outcomes, strict=True):
        torch.testing.assert_close(chunked, whole, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("memory", "times"), [(None, 1), (3 * 10**5, 2 * 4)])
def test_all_rounds_share_the_kernel_and_gradients_compute_that_of_a_chunk_anew(memory, times):
    model, calls = small_model(rounds=4), []
    model.memory = memory
    model.kernel.register_forward_hook(lambda *_: calls.append(1))
    model(random_case(batch=4)).sum().backward()
    assert len(calls) == times


def test_nothing_outside_the_domain_is_heard():
    model = small_model()
    inputs = random_case()
    others = torch.where(inputs[:, :1] > 0, inputs, 5.0)
    others[:, 0] = inputs[:, 0]
    assert torch.equal(model(inputs), model(others))


def test_an_empty_domain_gives_zeros():
    assert not small_model()(torch.zeros(1, 3, 6, 6)).any()
