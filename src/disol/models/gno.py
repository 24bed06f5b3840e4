"""The graph neural operator: messages between pixels of a domain, through a learned kernel (Li et al. 2020).

v(x) ← σ(W v(x) + mean over neighbours y of κ(x, y, a(x), a(y)) v(y)), with the same κ and W in every round.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from disol.models.base import Network
from disol.models.settings import GNOConfig
from disol.nn import perceptron, pixel_centres, project
from disol.nn.precision import HAS_KERNELS
from disol.problems import Problem

if HAS_KERNELS:
    from disol.nn.fused_propagation import can_propagate, fused_propagation, number_nodes, pixels_at_once

MEMORY = 2**31  # bytes for the edges of one chunk and their gradients on a CPU; on a GPU, an eighth of its memory
GOLDEN_ANGLE = torch.pi * (3 - 5**0.5)


class Graph(NamedTuple):
    """The pixels of the domains of a batch, and their neighbours.

    nodes        indices of the pixels in the flattened batch of grids
    neighbours   of each node, as numbers of nodes; its own number where there is none
    is_there     whether there is such a neighbour
    """

    nodes: Int[Tensor, " node"]
    neighbours: Int[Tensor, "node neighbour"]
    is_there: Bool[Tensor, "node neighbour"]


class GNO(Network):
    """Channels and coordinates lifted at the pixels of a domain, rounds of a kernel integral, and a pointwise head."""

    compiles = False  # how many pixels a domain has is not known in advance

    config: GNOConfig

    def __init__(self, config: GNOConfig, problem: Problem) -> None:
        super().__init__(config, problem)
        known = self.num_channels + 2
        self.memory: int | None = None  # in place of the limit of the device
        self.lift = nn.Linear(known, config.width)
        self.kernel = perceptron([2 * known, max(config.kernel_width // 2, 1), config.kernel_width])
        self.matrices = nn.Linear(config.kernel_width, config.width**2)
        self.own = nn.Linear(config.width, config.width)
        self.head = perceptron([config.width, config.head_width, len(self.fields)])

    @torch.compiler.disable  # type: ignore[untyped-decorator] # how many pixels a domain has is not known in advance
    def forward(self, inputs: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch field height width"]:
        """Map the channels to a pattern on the domain.

        If a batch does not fit into memory, some cases are done at a time; without our kernels, gradients compute them
        again.
        """
        domain = self.domain_of(inputs)
        if self.uses_kernels(inputs):
            config = self.config
            pixels = pixels_at_once(self.memory_on(inputs.device), config.neighbours, config.kernel_width, config.width)
            chunks = inputs.split(max(pixels // domain[0].numel(), 1))  # type: ignore[no-untyped-call]
            return project(torch.cat([self.predict(chunk) for chunk in chunks]), domain)
        largest = int(domain.count_nonzero((1, 2, 3)).max()) * self.config.neighbours
        cases_at_once = max(self.edges_at_once(inputs.device) // max(largest, 1), 1)
        chunks = inputs.split(cases_at_once)  # type: ignore[no-untyped-call]
        if len(chunks) == 1:
            return project(self.predict(inputs), domain)
        return project(torch.cat([checkpoint(self.predict, chunk, use_reentrant=False) for chunk in chunks]), domain)

    def uses_kernels(self, inputs: Float[Tensor, "batch channel height width"]) -> bool:
        """Tell whether our own Triton kernels pass the messages, in which the host never waits for the GPU."""
        if not (HAS_KERNELS and inputs.is_cuda):
            return False
        kind = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else inputs.dtype
        is_small = can_propagate(self.config.neighbours, self.config.kernel_width, self.config.width)
        return kind in {torch.bfloat16, torch.float32} and is_small

    def edges_at_once(self, device: torch.device) -> int:
        """Return how many edges may be in memory together, each with its kernel and its message of every round."""
        config = self.config
        numbers = 2 * (self.num_channels + 2) + 4 * config.kernel_width + 2 * config.rounds * config.width
        return self.memory_on(device) // (4 * numbers)

    def memory_on(self, device: torch.device) -> int:
        """Return how many bytes edges may take at a time."""
        if self.memory is not None:
            return self.memory
        return torch.cuda.get_device_properties(device).total_memory // 8 if device.type == "cuda" else MEMORY

    def predict(self, inputs: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch field height width"]:
        """Propagate the channels of the cases over their graph, and read the pattern out at its nodes."""
        batch, _, height, width = inputs.shape
        domains, config = self.domain_of(inputs)[:, 0] > 0, self.config
        centres = pixel_centres(height, width, inputs.device).to(inputs.dtype)
        stacked = torch.cat([centres.expand(batch, -1, -1, -1), inputs], dim=1)
        known = stacked.permute(0, 2, 3, 1).flatten(0, 2)
        if self.uses_kernels(inputs):
            nodes = number_nodes(domains, find_steps(height, width, config.radius, config.neighbours))
            pixels, layers = nodes.pixels, (self.lift, self.kernel, self.matrices, self.own)
            # Features are computed at all pixels, and must be finite.
            known = torch.where(domains.reshape(-1, 1), known, 0)
            features = fused_propagation(known[pixels], nodes, *layers, config.rounds)
        else:
            graph = find_graph(domains, config.radius, config.neighbours)
            pixels, features = graph.nodes, self.propagate(known[graph.nodes], graph)
        values = self.head(features)
        field = values.new_zeros(batch * height * width, len(self.fields)).index_copy(0, pixels, values)
        return field.reshape(batch, height, width, -1).permute(0, 3, 1, 2)

    def propagate(self, known: Float[Tensor, "node known"], graph: Graph) -> Float[Tensor, "node feature"]:
        """Pass messages between all nodes at once, with hidden units of the kernel that are computed once.

        If there are too many edges for that, do some nodes at a time, and compute their hidden units in every round.
        """
        at_once = max(self.edges_at_once(known.device) // graph.neighbours.shape[1], 1)
        pieces = [slice(first, first + at_once) for first in range(0, len(known), at_once)]
        hidden = self.evaluate_kernel(known, graph, slice(None)) if len(pieces) <= 1 else None

        def hear_some(features: Tensor, rows: slice) -> Tensor:
            return self.hear(features, self.evaluate_kernel(known, graph, rows), graph, rows)

        features = self.lift(known)
        for _ in range(self.config.rounds):
            if hidden is not None:
                heard = self.hear(features, hidden, graph, slice(None))
            else:
                heard = torch.cat([checkpoint(hear_some, features, rows, use_reentrant=False) for rows in pieces])
            features = functional.gelu(self.own(features) + heard)
        return features

    def evaluate_kernel(
        self, known: Float[Tensor, "node known"], graph: Graph, rows: slice
    ) -> Float[Tensor, "row neighbour hidden"]:
        """Return the last hidden units of the kernel between some nodes and their neighbours."""
        neighbours, is_there = graph.neighbours[rows], graph.is_there[rows]
        pairs = torch.cat([known[rows, None].expand(-1, neighbours.shape[1], -1), known[neighbours]], dim=2)
        return functional.gelu(self.kernel(pairs)) * is_there[..., None]

    def hear(
        self,
        features: Float[Tensor, "node feature"],
        hidden: Float[Tensor, "row neighbour hidden"],
        graph: Graph,
        rows: slice,
    ) -> Float[Tensor, "row feature"]:
        """Mean of κ v over the neighbours of some nodes.

        κ is linear in the last hidden units h of its perceptron, so Σ κ v is a linear map of Σ h ⊗ v: no edge needs a
        matrix of its own.
        """
        is_there, width = graph.is_there[rows], features.shape[1]
        heard = features[graph.neighbours[rows]]
        moments = torch.einsum("nkh,nkv->nhv", hidden, heard.to(hidden.dtype))
        total = (heard * is_there[..., None]).sum(1)
        weights = self.matrices.weight.reshape(width, width, -1)  # to, from, hidden unit
        found = torch.einsum("nhv,ovh->no", moments, weights) + total @ self.matrices.bias.reshape(width, width).T
        return found / is_there.sum(1, keepdim=True)


@torch.no_grad()
def find_graph(domains: Bool[Tensor, "batch height width"], radius: float, most: int) -> Graph:
    """Connect each pixel of a domain with those within a radius; if more than `most`, with as many, evenly spread."""
    batch, height, width = domains.shape
    flat = domains.flatten()
    nodes = flat.nonzero()[:, 0]
    numbers = torch.full_like(flat, -1, dtype=torch.int64)
    numbers[nodes] = torch.arange(len(nodes), device=flat.device)
    steps = find_steps(height, width, radius, most).to(flat.device)
    row, column = nodes // width % height, nodes % width
    beyond_row, beyond_column = row[:, None] + steps[:, 0], column[:, None] + steps[:, 1]
    on_grid = (beyond_row >= 0) & (beyond_row < height) & (beyond_column >= 0) & (beyond_column < width)
    places = nodes[:, None] + steps[:, 0] * width + steps[:, 1]
    found = numbers[places.clamp(0, batch * height * width - 1)]
    is_there = on_grid & (found >= 0)
    own = torch.arange(len(nodes), device=flat.device)[:, None]
    return Graph(nodes, torch.where(is_there, found, own), is_there)


def find_steps(height: int, width: int, radius: float, most: int) -> Int[Tensor, "step 2"]:
    """List the steps, in rows and columns, to the pixels within a radius, in units of the side of the square.

    If there are more than `most`, take the pixels nearest to the seeds of a sunflower, which are evenly spread.
    """
    far_down, far_across = int(radius * height), int(radius * width)
    down, across = torch.meshgrid(
        torch.arange(-far_down, far_down + 1), torch.arange(-far_across, far_across + 1), indexing="ij"
    )
    is_near = (down / height) ** 2 + (across / width) ** 2 <= radius**2
    steps = torch.stack([down[is_near], across[is_near]], dim=1)
    if len(steps) <= most:
        return steps
    seed = torch.arange(most, dtype=torch.float64)
    distance, angle = radius * (seed / most).sqrt(), GOLDEN_ANGLE * seed
    seeds = torch.stack([distance * angle.sin() * height, distance * angle.cos() * width], dim=1)
    return torch.tensor(sorted({(int(row), int(column)) for row, column in seeds.round().tolist()}))
