"""Triton kernels of a graph neural operator: what nodes receive from their neighbours, and its gradients.

The first layer of a kernel gives a + b, with a from the node and b from its neighbour. With features v,
h = GELU(W GELU(a + b) + c) / (number of neighbours), M = Σ h ⊗ v over the neighbours, and the message is A M.

All but the gradient of A is computed node by node. Programs beyond the last node end at once, and nothing is read or
written where there is no neighbour. Sums are float32; products of float32 numbers have the precision of float32.

neighbours    [node, STEPS]: numbers of nodes; -1 where there is none
count         [1]: number of nodes

STEPS, CHANNELS, UNITS, FEATURES   steps to neighbours; channels of a and b; units of h; features of v
*_PADDED                           the same, padded to a power of two
PART                               features handled at a time
NODES                              nodes of a program, handled one after the other
ROWS, COLUMNS, AT_ONCE             rows and columns of a tile of a matrix; terms of its sums added at a time
"""

from typing import no_type_check  # Triton reads its arguments' types itself

import triton
import triton.language as tl

from disol.nn.norm_kernels import gelu_and_slope


@no_type_check
@triton.jit
def load_rows(matrix, rows, exist, first, COLUMNS: tl.constexpr, PART: tl.constexpr):
    """Return PART columns, from `first` on, of some rows of a matrix with COLUMNS columns."""
    column = first + tl.arange(0, PART)
    mask = exist[:, None] & (column < COLUMNS)[None, :]
    return tl.load(matrix + rows[:, None] * COLUMNS + column[None, :], mask=mask, other=0.0)


@no_type_check
@triton.jit
def store_rows(matrix, rows, exist, first, value, COLUMNS: tl.constexpr, PART: tl.constexpr):
    """Store the entries that `load_rows` loads."""
    column = first + tl.arange(0, PART)
    mask = exist[:, None] & (column < COLUMNS)[None, :]
    tl.store(matrix + rows[:, None] * COLUMNS + column[None, :], value.to(matrix.dtype.element_ty), mask=mask)


@no_type_check
@triton.jit
def load_neighbours(neighbours, node, STEPS: tl.constexpr, STEPS_PADDED: tl.constexpr):
    """Return the numbers of the steps from a node, the neighbours they lead to, and which of these exist."""
    step = tl.arange(0, STEPS_PADDED)
    neighbour = tl.load(neighbours + node * STEPS + step, mask=step < STEPS, other=-1)
    return step, neighbour.to(tl.int64), neighbour >= 0


@no_type_check
@triton.jit
def nodes_of_program(count, NODES: tl.constexpr):
    """Return the first node of this program, and the one after its last."""
    first = tl.program_id(0) * NODES
    return first, tl.minimum(first + NODES, tl.load(count))


@no_type_check
@triton.jit
def first_layer(here, there, node, neighbour, is_there, CHANNELS: tl.constexpr, CHANNELS_PADDED: tl.constexpr):
    """Return GELU(a + b) [step, channel] on the edges of a node, its derivative, and 1 / (number of neighbours)."""
    channel = tl.arange(0, CHANNELS_PADDED)
    a = tl.load(here + node * CHANNELS + channel, mask=channel < CHANNELS, other=0.0)
    b = load_rows(there, neighbour, is_there, 0, CHANNELS, CHANNELS_PADDED)
    value, slope = gelu_and_slope(a[None, :].to(tl.float32) + b.to(tl.float32))
    return value, slope, is_there.to(tl.float32) / tl.maximum(tl.sum(is_there.to(tl.float32), 0), 1.0)


@no_type_check
@triton.jit
def evaluate(
    here,
    there,
    weight,
    bias,
    neighbours,
    count,
    hidden,
    STEPS: tl.constexpr,
    STEPS_PADDED: tl.constexpr,
    CHANNELS: tl.constexpr,
    CHANNELS_PADDED: tl.constexpr,
    UNITS: tl.constexpr,
    UNITS_PADDED: tl.constexpr,
    NODES: tl.constexpr,
):
    """Compute h [node, step, unit] from a and b."""
    channel = tl.arange(0, CHANNELS_PADDED)
    unit = tl.arange(0, UNITS_PADDED)
    matrix = load_rows(weight, channel, channel < CHANNELS, 0, UNITS, UNITS_PADDED)
    shift = tl.load(bias + unit, mask=unit < UNITS, other=0.0)
    first, last = nodes_of_program(count, NODES)
    for number in range(first, last):
        node = tl.cast(number, tl.int64)
        step, neighbour, is_there = load_neighbours(neighbours, node, STEPS, STEPS_PADDED)
        before, _, share = first_layer(here, there, node, neighbour, is_there, CHANNELS, CHANNELS_PADDED)
        z = tl.dot(before.to(matrix.dtype), matrix, input_precision="tf32x3") + shift[None, :]
        h, _ = gelu_and_slope(z)
        store_rows(hidden + node * STEPS * UNITS, step, is_there, 0, h * share[:, None], UNITS, UNITS_PADDED)


@no_type_check
@triton.jit
def gather_moments(
    hidden,
    features,
    neighbours,
    count,
    moments,
    STEPS: tl.constexpr,
    STEPS_PADDED: tl.constexpr,
    UNITS: tl.constexpr,
    UNITS_PADDED: tl.constexpr,
    FEATURES: tl.constexpr,
    PART: tl.constexpr,
    NODES: tl.constexpr,
):
    """Compute M [node, unit, feature] = Σ h ⊗ v."""
    unit = tl.arange(0, UNITS_PADDED)
    first, last = nodes_of_program(count, NODES)
    for number in range(first, last):
        node = tl.cast(number, tl.int64)
        step, neighbour, is_there = load_neighbours(neighbours, node, STEPS, STEPS_PADDED)
        h = load_rows(hidden + node * STEPS * UNITS, step, is_there, 0, UNITS, UNITS_PADDED)
        for part in tl.static_range(0, FEATURES, PART):
            v = load_rows(features, neighbour, is_there, part, FEATURES, PART)
            found = tl.dot(tl.trans(h), v, input_precision="tf32x3")
            store_rows(moments + node * UNITS * FEATURES, unit, unit < UNITS, part, found, FEATURES, PART)


@no_type_check
@triton.jit
def moment_slopes(
    hidden,
    features,
    moment_slope,
    neighbours,
    count,
    hidden_slope,
    messages,
    moments,
    IS_FIRST: tl.constexpr,
    STEPS: tl.constexpr,
    STEPS_PADDED: tl.constexpr,
    UNITS: tl.constexpr,
    UNITS_PADDED: tl.constexpr,
    FEATURES: tl.constexpr,
    PART: tl.constexpr,
    NODES: tl.constexpr,
):
    """From ∂L/∂M: add ∂L/∂h to that of later rounds, store ∂L/∂v for each neighbour, and compute M again."""
    unit = tl.arange(0, UNITS_PADDED)
    first, last = nodes_of_program(count, NODES)
    for number in range(first, last):
        node = tl.cast(number, tl.int64)
        step, neighbour, is_there = load_neighbours(neighbours, node, STEPS, STEPS_PADDED)
        h = load_rows(hidden + node * STEPS * UNITS, step, is_there, 0, UNITS, UNITS_PADDED)
        own_slope = hidden_slope + node * STEPS * UNITS
        if IS_FIRST:
            total = tl.zeros([STEPS_PADDED, UNITS_PADDED], tl.float32)
        else:
            total = load_rows(own_slope, step, is_there, 0, UNITS, UNITS_PADDED).to(tl.float32)
        entries = node * UNITS * FEATURES
        for part in tl.static_range(0, FEATURES, PART):
            v = load_rows(features, neighbour, is_there, part, FEATURES, PART)
            s = load_rows(moment_slope + entries, unit, unit < UNITS, part, FEATURES, PART)
            total = tl.dot(v, tl.trans(s), total, input_precision="tf32x3")
            of_v = tl.dot(h, s, input_precision="tf32x3")
            store_rows(messages + node * STEPS * FEATURES, step, is_there, part, of_v, FEATURES, PART)
            found = tl.dot(tl.trans(h), v, input_precision="tf32x3")
            store_rows(moments + entries, unit, unit < UNITS, part, found, FEATURES, PART)
        store_rows(own_slope, step, is_there, 0, total, UNITS, UNITS_PADDED)


@no_type_check
@triton.jit
def kernel_slopes(
    here,
    there,
    weight,
    bias,
    neighbours,
    count,
    hidden_slope,
    here_slope,
    messages,
    weight_sums,
    bias_sums,
    STEPS: tl.constexpr,
    STEPS_PADDED: tl.constexpr,
    CHANNELS: tl.constexpr,
    CHANNELS_PADDED: tl.constexpr,
    UNITS: tl.constexpr,
    UNITS_PADDED: tl.constexpr,
    NODES: tl.constexpr,
):
    """From ∂L/∂h: ∂L/∂a, ∂L/∂b for each neighbour, and sums of ∂L/∂W and ∂L/∂c over the nodes of each program."""
    channel = tl.arange(0, CHANNELS_PADDED)
    unit = tl.arange(0, UNITS_PADDED)
    matrix = load_rows(weight, channel, channel < CHANNELS, 0, UNITS, UNITS_PADDED)
    shift = tl.load(bias + unit, mask=unit < UNITS, other=0.0)
    of_weight = tl.zeros([CHANNELS_PADDED, UNITS_PADDED], tl.float32)
    of_bias = tl.zeros([UNITS_PADDED], tl.float32)
    first, last = nodes_of_program(count, NODES)
    for number in range(first, last):
        node = tl.cast(number, tl.int64)
        step, neighbour, is_there = load_neighbours(neighbours, node, STEPS, STEPS_PADDED)
        before, steepness_before, share = first_layer(here, there, node, neighbour, is_there, CHANNELS, CHANNELS_PADDED)
        before = before.to(matrix.dtype)
        z = tl.dot(before, matrix, input_precision="tf32x3") + shift[None, :]
        _, steepness = gelu_and_slope(z)
        of_h = load_rows(hidden_slope + node * STEPS * UNITS, step, is_there, 0, UNITS, UNITS_PADDED)
        of_z = of_h.to(tl.float32) * steepness * share[:, None]
        of_bias += tl.sum(of_z, 0)
        of_z = of_z.to(matrix.dtype)
        of_weight = tl.dot(tl.trans(before), of_z, of_weight, input_precision="tf32x3")
        of_sum = tl.dot(of_z, tl.trans(matrix), input_precision="tf32x3") * steepness_before
        store_rows(messages + node * STEPS * CHANNELS, step, is_there, 0, of_sum, CHANNELS, CHANNELS_PADDED)
        of_a = tl.sum(of_sum, 0).to(here_slope.dtype.element_ty)
        tl.store(here_slope + node * CHANNELS + channel, of_a, mask=channel < CHANNELS)
    program = tl.program_id(0).to(tl.int64)
    store_rows(weight_sums + program * CHANNELS * UNITS, channel, channel < CHANNELS, 0, of_weight, UNITS, UNITS_PADDED)
    tl.store(bias_sums + program * UNITS + unit, of_bias, mask=unit < UNITS)


@no_type_check
@triton.jit
def collect(
    messages,
    senders,
    count,
    total,
    STEPS: tl.constexpr,
    STEPS_PADDED: tl.constexpr,
    CHANNELS: tl.constexpr,
    PART: tl.constexpr,
    NODES: tl.constexpr,
):
    """Add to the total [node, channel] of each node the messages [node, step, channel] stored for it.

    senders   [node, STEPS]: the nodes whose neighbour it is at each step; -1 where there is none
    """
    first, last = nodes_of_program(count, NODES)
    row = tl.arange(0, 1)
    for number in range(first, last):
        node = tl.cast(number, tl.int64)
        step, sender, is_there = load_neighbours(senders, node, STEPS, STEPS_PADDED)
        own = total + node * CHANNELS
        for part in tl.static_range(0, CHANNELS, PART):
            found = load_rows(messages, sender * STEPS + step, is_there, part, CHANNELS, PART).to(tl.float32)
            before = load_rows(own, row, row == 0, part, CHANNELS, PART).to(tl.float32)
            store_rows(own, row, row == 0, part, before + tl.sum(found, 0)[None, :], CHANNELS, PART)


@no_type_check
@triton.jit
def multiply(
    left,
    right,
    count,
    result,
    ADDS: tl.constexpr,
    LENGTH: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    AT_ONCE: tl.constexpr,
):
    """Compute a tile of the product of [node, LENGTH] and [LENGTH, WIDTH], or add it to the result."""
    first_node = tl.program_id(0) // tl.cdiv(WIDTH, COLUMNS) * ROWS
    num_nodes = tl.load(count)
    if first_node >= num_nodes:
        return
    first_column = tl.program_id(0) % tl.cdiv(WIDTH, COLUMNS) * COLUMNS
    row = tl.arange(0, ROWS)
    entry = tl.arange(0, AT_ONCE)
    exist = first_node + row < num_nodes
    own_left = left + first_node.to(tl.int64) * LENGTH
    own_result = result + first_node.to(tl.int64) * WIDTH
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    for first in range(0, LENGTH, AT_ONCE):
        x = load_rows(own_left, row, exist, first, LENGTH, AT_ONCE)
        y = load_rows(right, first + entry, first + entry < LENGTH, first_column, WIDTH, COLUMNS)
        total = tl.dot(x, y, total, input_precision="tf32x3")
    if ADDS:
        total += load_rows(own_result, row, exist, first_column, WIDTH, COLUMNS).to(tl.float32)
    store_rows(own_result, row, exist, first_column, total, WIDTH, COLUMNS)


@no_type_check
@triton.jit
def correlate(
    left,
    right,
    count,
    sums,
    LENGTH: tl.constexpr,
    WIDTH: tl.constexpr,
    WIDTH_PADDED: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Add Σ left ⊗ right to the sums [part, LENGTH, WIDTH]; tiles of nodes are distributed over the parts."""
    first_column = tl.program_id(0) * COLUMNS
    row = tl.arange(0, ROWS)
    num_nodes = tl.load(count)
    total = tl.zeros([COLUMNS, WIDTH_PADDED], tl.float32)
    for number in range(tl.program_id(1), tl.cdiv(num_nodes, ROWS), tl.num_programs(1)):
        first = tl.cast(number, tl.int64) * ROWS
        exist = first + row < num_nodes
        x = load_rows(left + first * LENGTH, row, exist, first_column, LENGTH, COLUMNS)
        y = load_rows(right + first * WIDTH, row, exist, 0, WIDTH, WIDTH_PADDED)
        total = tl.dot(tl.trans(x), y, total, input_precision="tf32x3")
    entry = first_column + tl.arange(0, COLUMNS)
    own = sums + tl.program_id(1) * LENGTH * WIDTH
    before = load_rows(own, entry, entry < LENGTH, 0, WIDTH, WIDTH_PADDED)
    store_rows(own, entry, entry < LENGTH, 0, before + total, WIDTH, WIDTH_PADDED)
