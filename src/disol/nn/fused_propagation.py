"""All rounds of a graph neural operator on a GPU, with gradients, from hidden units that are computed once.

The host never waits for the GPU: pixels outside the domains are numbered after the nodes, and take only memory.
"""

from typing import Any, NamedTuple

import torch
import triton
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.library import triton_op, wrap_triton
from torch.nn import functional

from disol.nn import edge_kernels
from disol.nn.narrow_convolution import multiprocessors, padded

MOST_STEPS, MOST_UNITS, MOST_FEATURES = 64, 127, 256
ALIGNMENT = 8  # rows of a multiple of so many numbers are read 16 bytes at a time
NODES = 8  # of a program
NODES_OF_SLOPES = 64  # of a program that writes sums of its own
PART = 64  # features at a time
TILE = 128  # rows and columns of a matrix
PROGRAMS_PER_MULTIPROCESSOR = 3
WHERE_GELU_IS_ONE = 1.1444507183528787


class Nodes(NamedTuple):
    """The pixels of the domains of some cases, and which of them exchange messages.

    pixels       indices into the flattened cases: the nodes, in the order of memory, and after them all other pixels
    neighbours   of each node, as numbers of nodes; -1 where there is none
    senders      of each node, the nodes of which it is a neighbour; -1 where there is none
    num_nodes    number of nodes
    """

    pixels: Int[Tensor, " pixel"]
    neighbours: Int[Tensor, "pixel step"]
    senders: Int[Tensor, "pixel step"]
    num_nodes: Int[Tensor, "1"]


@torch.no_grad()
def number_nodes(domains: Bool[Tensor, "batch height width"], steps: Int[Tensor, "step 2"]) -> Nodes:
    """Connect each pixel of a domain with those at the given steps from it; `steps` is on the CPU."""
    _, height, width = domains.shape
    inside = domains.flatten()
    pixels = inside.to(torch.uint8).argsort(descending=True, stable=True)
    numbers = torch.where(inside, inside.cumsum(0) - 1, -1).to(torch.int32)
    down, across = steps.abs().amax(0).tolist()
    framed = functional.pad(numbers.reshape(domains.shape), (across, across, down, down), value=-1)
    places = torch.arange(framed.numel(), device=domains.device).reshape(framed.shape)
    own = places[:, down : down + height, across : across + width].flatten()[pixels, None]
    offsets = (steps[:, 0] * framed.shape[2] + steps[:, 1]).to(domains.device, non_blocking=True)
    table = framed.flatten()
    return Nodes(pixels, table[own + offsets], table[own - offsets], inside.sum(0, True, dtype=torch.int32))


def aligned(width: int) -> int:
    """Return the width of a row, rounded up to the alignment."""
    return triton.cdiv(width, ALIGNMENT) * ALIGNMENT


def sides(**sizes: int) -> dict[str, int]:
    """Return sizes, and the same padded, as the kernels take them."""
    return {**sizes, **{f"{name}_PADDED": padded(size) for name, size in sizes.items()}}


def edges_of_node(units: int, operand: Tensor) -> dict[str, int]:
    """Return how many warps share the edges of a node, and how many nodes are loaded at the same time.

    More threads have registers for larger tiles; shared memory holds few large ones.
    """
    is_small = units <= 64 and operand.itemsize == 2
    return {"num_warps": 4 if units <= 64 else 8, "num_stages": 2 if is_small else 1}


def stages(operand: Tensor) -> int:
    """Return how many tiles of matrices are loaded at the same time."""
    return 3 if operand.itemsize == 2 else 1


def evaluate(operands: tuple[Tensor, ...], neighbours: Tensor, count: Tensor) -> Float[Tensor, "node step unit"]:
    """Return the hidden units of the kernel, from `here`, `there`, weight and bias."""
    here, _, weight, bias = operands
    steps, units = neighbours.shape[1], len(bias)
    hidden = here.new_empty(len(here), steps, units)
    wrap_triton(edge_kernels.evaluate)[(triton.cdiv(len(here), NODES),)](
        *operands, neighbours, count, hidden,
        **sides(STEPS=steps, CHANNELS=len(weight), UNITS=units), NODES=NODES, **edges_of_node(units, here),
    )  # fmt: skip
    return hidden


def sizes_of_moments(hidden: Tensor, features: Tensor) -> dict[str, int]:
    """Return the sizes that the kernels of moments take."""
    _, steps, units = hidden.shape
    part = {"FEATURES": features.shape[1], "PART": min(PART, padded(features.shape[1])), "NODES": NODES}
    return {**sides(STEPS=steps, UNITS=units), **part, **edges_of_node(units, features)}


def gather(hidden: Tensor, features: Tensor, neighbours: Tensor, count: Tensor) -> Float[Tensor, "node entry"]:
    """Return the moments Σ h ⊗ v of each node."""
    moments = features.new_empty(len(hidden), hidden.shape[2] * features.shape[1])
    wrap_triton(edge_kernels.gather_moments)[(triton.cdiv(len(hidden), NODES),)](
        hidden, features, neighbours, count, moments, **sizes_of_moments(hidden, features)
    )
    return moments


def collect(messages: Tensor, senders: Tensor, count: Tensor, total: Tensor) -> None:
    """Add to the total of each node the messages stored for it."""
    _, steps, channels = messages.shape
    wrap_triton(edge_kernels.collect)[(triton.cdiv(len(messages), NODES),)](
        messages, senders, count, total,
        **sides(STEPS=steps), CHANNELS=channels, PART=min(PART, padded(channels)), NODES=NODES,
    )  # fmt: skip


def multiply(left: Tensor, right: Tensor, count: Tensor, result: Tensor, *, adds: bool) -> None:
    """Write the product of a matrix, with a row for each node, and another to the result, or add it."""
    length, width = right.shape
    columns, at_once = (min(most, padded(side)) for most, side in ((TILE, width), (64, length)))
    wrap_triton(edge_kernels.multiply)[(triton.cdiv(width, columns) * triton.cdiv(len(left), TILE),)](
        left, right, count, result, ADDS=adds, LENGTH=length, WIDTH=width,
        ROWS=TILE, COLUMNS=columns, AT_ONCE=at_once, num_warps=4 if columns <= 64 else 8, num_stages=stages(left),
    )  # fmt: skip


def count_parts(device: torch.device, entries: int) -> int:
    """Return over how many parts to distribute the nodes for ∂L/∂A, so that all multiprocessors have work."""
    return max(PROGRAMS_PER_MULTIPROCESSOR * multiprocessors(device) // triton.cdiv(entries, TILE), 1)


@triton_op("disol::propagate", mutates_args=())
def propagate(
    features: Tensor,
    here: Tensor,
    there: Tensor,
    weight: Tensor,
    bias: Tensor,
    matrices: Tensor,
    own: Tensor,
    own_bias: Tensor,
    neighbours: Tensor,
    senders: Tensor,
    count: Tensor,
    rounds: int,
) -> tuple[Tensor, Tensor]:
    """Return the features of the nodes after all rounds, and the input of the GELU of each round.

    The first three operands have a row for each pixel, nodes first. The last layer of the kernel is `weight`
    [channel, unit] and `bias` [unit]; `matrices` is [unit · from, to], and `own` is [to, from].
    """
    del senders  # only gradients need them
    kind = features.dtype
    own, own_bias, matrices = (each.to(kind) for each in (own, own_bias, matrices))
    before = features.new_empty(rounds, *features.shape)
    hidden = evaluate((here, there, weight.to(kind), bias), neighbours, count)
    for linear in before:
        torch.addmm(own_bias, features, own.T, out=linear)
        multiply(gather(hidden, features, neighbours, count), matrices, count, linear, adds=True)
        features = functional.gelu(linear)
    return features, before


@triton_op("disol::propagate_gradients", mutates_args=())
def propagate_gradients(
    slope: Tensor,
    before: Tensor,
    features: Tensor,
    here: Tensor,
    there: Tensor,
    weight: Tensor,
    bias: Tensor,
    matrices: Tensor,
    own: Tensor,
    own_bias: Tensor,
    neighbours: Tensor,
    senders: Tensor,
    count: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return the gradients of the first eight operands of `propagate` from the gradient of its features."""
    kind, num_rows = features.dtype, len(features)
    rounded, spreading = own.to(kind), matrices.T.to(kind).contiguous()
    kernel = (here, there, weight.to(kind), bias)
    hidden = evaluate(kernel, neighbours, count)
    hidden_slope = torch.empty_like(hidden)
    entries, width = matrices.shape
    steps, channels, units = neighbours.shape[1], *weight.shape
    sums = matrices.new_zeros(count_parts(features.device, entries), entries, width)
    of_own, of_own_bias = torch.zeros_like(own), torch.zeros_like(own_bias)
    is_node = torch.arange(num_rows, device=slope.device)[:, None] < count
    slope = torch.where(is_node, slope, 0).to(kind)
    for number in reversed(range(len(before))):
        earlier = functional.gelu(before[number - 1]) if number else features
        slope = torch.ops.aten.gelu_backward(slope, before[number])
        of_own += slope.T @ earlier
        of_own_bias += slope.sum(0, dtype=torch.float32)
        moment_slope, moments = (features.new_empty(num_rows, entries) for _ in range(2))
        multiply(slope, spreading, count, moment_slope, adds=False)
        messages = features.new_empty(num_rows, steps, width)
        wrap_triton(edge_kernels.moment_slopes)[(triton.cdiv(num_rows, NODES),)](
            hidden, earlier, moment_slope, neighbours, count, hidden_slope, messages, moments,
            IS_FIRST=number == len(before) - 1, **sizes_of_moments(hidden, features),
        )  # fmt: skip
        wrap_triton(edge_kernels.correlate)[(triton.cdiv(entries, TILE), len(sums))](
            moments, slope, count, sums, LENGTH=entries, **sides(WIDTH=width), ROWS=64, COLUMNS=TILE,
            num_warps=8, num_stages=stages(moments),
        )  # fmt: skip
        slope = slope @ rounded
        collect(messages, senders, count, slope)
    of_here, of_there, programs = (
        torch.zeros_like(here),
        torch.zeros_like(there),
        triton.cdiv(num_rows, NODES_OF_SLOPES),
    )
    weight_sums, bias_sums = bias.new_empty(programs, channels, units), bias.new_empty(programs, units)
    messages = here.new_empty(num_rows, steps, channels)
    wrap_triton(edge_kernels.kernel_slopes)[(programs,)](
        *kernel, neighbours, count, hidden_slope, of_here, messages, weight_sums, bias_sums,
        **sides(STEPS=steps, CHANNELS=channels, UNITS=units), NODES=NODES_OF_SLOPES, **edges_of_node(units, here),
    )  # fmt: skip
    collect(messages, senders, count, of_there)
    return slope, of_here, of_there, weight_sums.sum(0), bias_sums.sum(0), sums.sum(0), of_own, of_own_bias


def remember_operands(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    """Save what the gradients need."""
    ctx.save_for_backward(output[1], *inputs[:-1])


def gradients(ctx: Any, slope: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    """Return the gradients of all operands that do not describe the graph."""
    return *propagate_gradients(slope.contiguous(), *ctx.saved_tensors), None, None, None, None


propagate.register_autograd(gradients, setup_context=remember_operands)


def can_propagate(num_steps: int, num_units: int, num_features: int) -> bool:
    """Tell whether the kernels take a layer of this size."""
    return num_steps <= MOST_STEPS and num_units <= MOST_UNITS and num_features <= MOST_FEATURES


def pixels_at_once(memory: int, num_steps: int, num_units: int, num_features: int) -> int:
    """Return for how many pixels h, M, their gradients, messages and neighbours fit into `memory` bytes."""
    units = aligned(num_units + 1)
    numbers = 2 * units * (num_steps + num_features) + num_steps * (4 + max(num_features, units))
    return memory // (4 * numbers)


def fused_propagation(
    known: Float[Tensor, "pixel known"],
    nodes: Nodes,
    lift: nn.Linear,
    kernel: nn.Sequential,
    matrices: nn.Linear,
    own: nn.Linear,
    rounds: int,
) -> Float[Tensor, "pixel feature"]:
    """Lift what is known of nodes, and pass messages in rounds: v ← GELU(W v + b + mean of κ v over the neighbours).

    κ = Σ hᵢ Aᵢ + B with h = GELU(kernel), a perceptron whose hidden layer has at most half as many units as h. Its
    first layer is a sum of two parts, of the node and of its neighbour. One more unit of h is always 1, and B is its
    matrix.
    """
    first, last = (layer for layer in kernel if isinstance(layer, nn.Linear))
    width, units = lift.out_features, last.out_features
    more_channels, more_units = aligned(first.out_features) - first.out_features, aligned(units + 1) - units
    of_node, of_neighbour = functional.pad(first.weight, (0, 0, 0, more_channels)).chunk(2, dim=1)
    table = torch.cat([matrices.weight, matrices.bias[:, None]], dim=1).reshape(width, width, -1)  # to, from, unit
    result, _ = propagate(
        lift(known),
        functional.linear(known, of_node, functional.pad(first.bias, (0, more_channels))),
        functional.linear(known, of_neighbour),
        functional.pad(last.weight.T, (0, more_units, 0, more_channels)),
        functional.pad(functional.pad(last.bias, (0, 1), value=WHERE_GELU_IS_ONE), (0, more_units - 1)),
        functional.pad(table, (0, more_units - 1)).permute(2, 1, 0).flatten(0, 1).contiguous(),
        own.weight,
        own.bias,
        nodes.neighbours,
        nodes.senders,
        nodes.num_nodes,
        rounds,
    )
    return result
