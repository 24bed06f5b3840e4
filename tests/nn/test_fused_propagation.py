"""The kernels that pass messages against torch in float64: on a GPU, or on a CPU in Triton's interpreter."""

import pytest
import torch
from torch.nn import functional

pytest.importorskip("triton", reason="the kernels need Triton")

from disol.models import create_model, gno
from disol.models.gno import find_graph, find_steps
from disol.nn import fused_propagation as fused
from disol.nn import perceptron

pytestmark = pytest.mark.usefixtures("products_of_bfloat16", "rounding_to_bfloat16")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

# (batch, height, width), radius, most neighbours, kernel width, features, rounds
SHAPES = [
    ((2, 3, 5), 0.4, 64, 6, 3, 2),
    ((1, 4, 4), 0.0, 4, 5, 8, 1),
    ((3, 2, 4), 0.5, 7, 16, 20, 3),
    ((1, 3, 4), 0.5, 64, 35, 72, 2),
]
# ‖difference‖ / ‖reference‖
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2e-2}


def random_domains(size, seed=0):
    return torch.rand(size, generator=torch.Generator().manual_seed(seed)) > 0.4


def layers(kernel_width, width, known=5, seed=0):
    torch.manual_seed(seed)
    kernel = perceptron([2 * known, kernel_width // 2, kernel_width])
    matrices = torch.nn.Linear(kernel_width, width**2)
    return torch.nn.ModuleList([torch.nn.Linear(known, width), kernel, matrices, torch.nn.Linear(width, width)])


def reference(known, domains, radius, most, parts, rounds):
    """Return the features of the nodes by a matrix for each edge."""
    lift, kernel, matrices, own = parts
    graph = find_graph(domains, radius, most)
    known = known[graph.nodes]
    features = lift(known)
    pairs = torch.cat([known[:, None].expand(-1, graph.neighbours.shape[1], -1), known[graph.neighbours]], dim=2)
    edge_matrices = matrices(functional.gelu(kernel(pairs))).unflatten(-1, (features.shape[1], -1))
    for _ in range(rounds):
        messages = (edge_matrices @ features[graph.neighbours][..., None])[..., 0] * graph.is_there[..., None]
        features = functional.gelu(own(features) + messages.sum(1) / graph.is_there.sum(1, keepdim=True))
    return features


def error(value, expected):
    return ((value.double().cpu() - expected).norm() / expected.norm()).item()


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("size", "radius", "most", "kernel_width", "width", "rounds"), SHAPES)
def test_result_and_gradients_are_those_of_a_matrix_per_edge(size, radius, most, kernel_width, width, rounds, dtype):
    domains, parts = random_domains(size), layers(kernel_width, width)
    generator = torch.Generator().manual_seed(1)
    known = torch.randn(domains.numel(), 5, generator=generator)
    slope = torch.randn(int(domains.sum()), width, generator=generator)

    exact_parts = layers(kernel_width, width).double()
    expected = reference(known.double(), domains, radius, most, exact_parts, rounds)
    expected.backward(slope.double())

    nodes = fused.number_nodes(domains.to(DEVICE), find_steps(*size[1:], radius, most))
    parts, num_nodes = parts.to(DEVICE), len(slope)
    with torch.autocast(DEVICE, torch.bfloat16, enabled=dtype == torch.bfloat16):
        found = fused.fused_propagation(known.to(DEVICE)[nodes.pixels], nodes, *parts, rounds)[:num_nodes]
    found.backward(slope.to(DEVICE, dtype))
    assert found.dtype == dtype
    assert error(found.detach(), expected.detach()) < TOLERANCE[dtype]
    for (name, weight), exact in zip(parts.named_parameters(), exact_parts.parameters(), strict=True):
        assert weight.grad.dtype == torch.float32
        assert error(weight.grad, exact.grad) < TOLERANCE[dtype], name


def test_nodes_are_numbered_as_their_graph_is():
    domains = random_domains((3, 5, 6))
    nodes = fused.number_nodes(domains.to(DEVICE), find_steps(5, 6, 0.4, 100))
    graph = find_graph(domains, 0.4, 100)
    count = len(graph.nodes)
    assert nodes.num_nodes.tolist() == [count]
    assert torch.equal(nodes.pixels[:count].cpu(), graph.nodes)
    assert torch.equal(nodes.pixels.sort().values.cpu(), torch.arange(domains.numel()))
    neighbours, senders = nodes.neighbours[:count].long().cpu(), nodes.senders[:count].long().cpu()
    assert torch.equal(neighbours, torch.where(graph.is_there, graph.neighbours, -1))
    node, step = graph.is_there.nonzero(as_tuple=True)
    assert torch.equal(senders[neighbours[node, step], step], node)
    assert (senders >= 0).sum() == len(node)


def test_nothing_outside_the_domains_is_read():
    domains = random_domains((2, 4, 5))
    nodes, parts = fused.number_nodes(domains.to(DEVICE), find_steps(4, 5, 0.3, 64)), layers(6, 3).to(DEVICE)
    known, count = torch.randn(domains.numel(), 5, device=DEVICE), int(nodes.num_nodes)
    spoiled = known.clone()
    spoiled[count:] = torch.nan
    assert torch.equal(*(fused.fused_propagation(each, nodes, *parts, 2)[:count] for each in (known, spoiled)))


def test_sizes_that_kernels_do_not_take_are_known():
    assert fused.can_propagate(48, 51, 48)
    assert fused.can_propagate(48, 112, 256)
    assert not fused.can_propagate(65, 51, 48)
    assert not fused.can_propagate(48, 128, 48)
    assert not fused.can_propagate(48, 51, 257)


@pytest.mark.parametrize("cases_at_once", [2, 3])
def test_models_predict_and_learn_the_same_by_kernels(cases_at_once, monkeypatch):
    def outcome():
        torch.manual_seed(0)
        settings = {"width": 5, "kernel_width": 6, "rounds": 2, "radius": 0.3, "neighbours": 7, "head_width": 4}
        model = create_model("gno", "elasticity", **settings).to(DEVICE)
        prediction = model(inputs)
        prediction.square().sum().backward()
        return [prediction, *[weight.grad for weight in model.parameters()]]

    inputs = torch.rand(3, 5, 3, 4, generator=torch.Generator().manual_seed(1)).to(DEVICE)
    inputs[:, 0] = random_domains((3, 3, 4)).to(inputs)
    monkeypatch.setattr(gno.GNO, "uses_kernels", lambda *_: False)
    expected = outcome()
    for name in ("number_nodes", "fused_propagation"):
        monkeypatch.setattr(gno, name, getattr(fused, name), raising=False)
    monkeypatch.setattr(gno, "pixels_at_once", lambda *_: cases_at_once * 3 * 4, raising=False)
    monkeypatch.setattr(gno.GNO, "uses_kernels", lambda *_: True)
    for value, exact in zip(outcome(), expected, strict=True):
        torch.testing.assert_close(value, exact, rtol=1e-4, atol=1e-6)


@pytest.fixture
def by_kernels(monkeypatch):
    for name in ("number_nodes", "fused_propagation", "pixels_at_once"):
        monkeypatch.setattr(gno, name, getattr(fused, name), raising=False)
    monkeypatch.setattr(gno.GNO, "uses_kernels", lambda *_: True)


@pytest.mark.usefixtures("by_kernels")
def test_models_predict_zeros_on_an_empty_domain_by_kernels():
    model = create_model("gno", "poisson", width=3, kernel_width=4, rounds=1, neighbours=9, head_width=4).to(DEVICE)
    prediction = model(torch.zeros(1, 3, 4, 4, device=DEVICE))
    prediction.sum().backward()
    assert not prediction.any()
    assert all(weight.grad.isfinite().all() for weight in model.parameters())


@pytest.mark.usefixtures("by_kernels")
def test_models_ignore_what_is_outside_the_domain_by_kernels():
    model = create_model("gno", "poisson", width=3, kernel_width=4, rounds=1, neighbours=9, head_width=4).to(DEVICE)
    inputs = torch.rand(2, 3, 3, 4, device=DEVICE)
    inputs[:, 0] = random_domains((2, 3, 4)).to(inputs)
    spoiled = torch.where(inputs[:, :1] > 0, inputs, torch.nan)
    spoiled[:, 0] = inputs[:, 0]
    assert torch.equal(model(inputs), model(spoiled))
