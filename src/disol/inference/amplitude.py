"""How large a predicted pattern is, from the discrete system itself.

The scale that minimises the energy of a p, (p · b) / (p · A p), is far too small where p is rough, for A weighs rough
errors most. What a multigrid V-cycle M⁻¹ ≈ A⁻¹ makes of residuals weighs all errors alike, so everything here is
measured by M⁻¹ (b − A u). Starting from the pattern, two steps of minimal residuals give a solution u far more accurate
than the pattern, and the amplitude is max |u|. The same steps do for problems that are not symmetric.

Coarse grids do not see slits, walls and elastic hinges of few pixels. Directions d that M⁻¹ A shortens give them away,
‖M⁻¹ A d‖ ≪ ‖d‖: what is left of M⁻¹ (b − A u) may be as much larger in u. Cases that are not sure enough take more
steps, and should these not suffice, the direct solver.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor

from disol.solvers import DiscreteOperator, Multigrid
from disol.solvers.loads import node_means, pixel_means
from disol.solvers.operator import inner_product, length

Nodes = Float[Tensor, "batch field rows columns"]
Pixels = Float[Tensor, "batch field height width"]
NOTHING_NEW = 1e-10  # what is left of a direction that depends on earlier ones, relative to it
# A solution tells the error of a prediction if its own is this share of it, or next to nothing.
SURE_SHARE = 0.1
SURE = 1e-5
MOST_STEPS = 20


def solve_from_pattern(operator: DiscreteOperator, loads: Nodes, pattern: Pixels, separate_fields: bool) -> Pixels:
    """Approximate the solution of A u = b by pixel, given what it looks like.

    separate_fields   the size of each field of the pattern is unknown, not only that of all of them
    """
    shape = on_nodes(operator, pattern)
    shapes = separated(shape) if separate_fields else [shape]
    found = minimise_residual(operator, Multigrid.of(operator).v_cycle, operator.restrict(loads), shapes)
    unsure = torch.nonzero(~is_sure(found, shapes)).flatten()
    if len(unsure):
        own = [each[unsure] for each in shapes]
        found.nodes[unsure] = solve_unsure(operator[unsure], loads[unsure], own, found.nodes[unsure])
    return pixel_means(found.nodes) * operator.mask[:, None]


def solve_unsure(operator: DiscreteOperator, loads: Nodes, shapes: Sequence[Nodes], start: Nodes) -> Nodes:
    """Go on from where few steps have led, and solve directly what many do not solve."""
    cycle, right = Multigrid.of(operator).v_cycle, operator.restrict(loads)
    found = minimise_residual(operator, cycle, right, [start], lambda so_far: bool(is_sure(so_far, shapes).all()))
    for case in torch.nonzero(~is_sure(found, shapes)).flatten().tolist():
        found.nodes[case] = torch.from_numpy(operator.system(case, loads[case]).solve()).to(start)
    return found.nodes


def step_on(operator: DiscreteOperator, mass: DiscreteOperator, loads: Nodes, initial: Nodes) -> Iterator[Pixels]:
    """Approximate U¹, U², … of (M + δ K) Uⁿ⁺¹ = M Uⁿ + δ b by pixel, without end.

    Two frames tell where the next one is, better than a predicted pattern does; the first step has only one to go by,
    so it is corrected twice.
    """
    cycle = Multigrid.of(operator).v_cycle

    def correct(nodes: Nodes, load: Nodes) -> Nodes:
        return nodes + minimise_residual(operator, cycle, operator.residual(nodes, load), []).nodes

    before = nodes = operator.restrict(initial)
    for step in count():
        load = loads + mass.apply(nodes)
        start = correct(nodes, load) if step == 0 else 2 * nodes - before
        before, nodes = nodes, correct(start, load)
        yield pixel_means(nodes) * operator.mask[:, None]


@dataclass(frozen=True, eq=False)
class Minimiser:
    """What steps of minimal residuals have led to.

    nodes   u
    error   how far u may be from the solution, in ‖·‖: ‖M⁻¹ (b − A u)‖ times the largest ‖d‖ / ‖M⁻¹ A d‖ met
    """

    nodes: Nodes
    error: Float[Tensor, " batch"]


def minimise_residual(
    operator: DiscreteOperator,
    precondition: Callable[[Nodes], Nodes],
    loads: Nodes,
    directions: Sequence[Nodes],
    is_enough: Callable[[Minimiser], bool] = lambda _: True,
) -> Minimiser:
    """Minimise ‖M⁻¹ (b − A u)‖ over given directions and the residual that they leave; then add what is left of it.

    These are generalised conjugate residuals that begin with directions of one's own, or with none, and go on with
    residuals until it is enough. Should M⁻¹ break down, what is returned is not finite: no number is better than a
    wrong one that knows no error.
    """
    nodes, left = torch.zeros_like(loads), precondition(loads)
    found: list[tuple[Nodes, Nodes]] = []  # directions and their images M⁻¹ A d, which are orthonormal
    longest = torch.ones_like(length(left))
    for given in [*directions, *[None] * MOST_STEPS]:
        direction = left if given is None else given
        image = precondition(operator.apply(direction))
        size = length(image)
        for earlier, earlier_image in found:
            overlap = per_case(inner_product(image, earlier_image))
            direction, image = direction - overlap * earlier, image - overlap * earlier_image
        rest = length(image)
        shrink = per_case(torch.where(rest > NOTHING_NEW * size, 1 / rest, 0.0))
        direction, image = shrink * direction, shrink * image
        step = per_case(inner_product(left, image))
        nodes, left = nodes + step * direction, left - step * image
        longest = torch.maximum(longest, length(direction))
        found.append((direction, image))
        if given is None and is_enough(so_far := Minimiser(nodes + left, length(left) * longest)):
            break
    return so_far


def is_sure(found: Minimiser, shapes: Sequence[Nodes]) -> Bool[Tensor, " batch"]:
    """Tell whether u is near enough to the solution to judge what looks like it."""
    nearest = torch.zeros_like(found.nodes)
    for shape in shapes:  # of different fields, hence orthogonal
        square = inner_product(shape, shape)
        overlap = torch.where(square > 0, inner_product(shape, found.nodes) / square, 0.0)
        nearest = nearest + per_case(overlap) * shape
    predicted_error = length(found.nodes - nearest)
    return found.error <= torch.maximum(SURE_SHARE * predicted_error, SURE * length(found.nodes))


def on_nodes(operator: DiscreteOperator, pattern: Pixels) -> Nodes:
    """Give each free node the mean of its pixels in the domain."""
    fields = pattern.shape[1]
    means = node_means(pattern.flatten(0, 1), operator.mask.repeat_interleave(fields, dim=0))
    return operator.restrict(means.view(-1, fields, *means.shape[1:]))


def separated(nodes: Nodes) -> list[Nodes]:
    """Return each field alone, the others zero."""
    chosen = torch.eye(nodes.shape[1], dtype=nodes.dtype, device=nodes.device)
    return [nodes * row[:, None, None] for row in chosen]


def per_case(values: Shaped[Tensor, " batch"]) -> Shaped[Tensor, "batch 1 1 1"]:
    """Let one value per case multiply fields."""
    return values[:, None, None, None]
