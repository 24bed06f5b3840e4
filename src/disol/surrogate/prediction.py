"""Predictions in physical units: the patterns of a network, sized by the discrete system without solving it.

A network predicts patterns pₛ, one for each component of a load. Their sizes c are those of a Petrov-Galerkin
projection onto them: the residual of Σ cₜ pₜ is orthogonal to one test function wₛ for each pattern,

    Σₜ (wₛ · A pₜ) cₜ = wₛ · b,

which takes one product with A for each of them. With w = ρ p, where ρ is the weight that makes ρ A symmetric
(`Problem.symmetriser`), the energy error would be least; but errors that vary from pixel to pixel, such as those
of bfloat16, make p · A p too large and the sizes too small. So w is ρ times p smoothed, and these errors nearly cancel.
A step of a transient problem needs the frame before it, so the first step, (M + δ K) u¹ = M u⁰ + δ b, gives the sizes
of all frames.
"""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from disol.cases import Case
from disol.cases.case import naming_the_case
from disol.errors import DisolError
from disol.fem import System
from disol.grid import node_means, pixel_means
from disol.problems import Problem
from disol.problems.normalisation import Normalisation
from disol.solutions import Solution
from disol.solutions.solve import cases_at_once, gather
from disol.solvers import from_system
from disol.solvers.operator import on_device
from disol.surrogate.components import split_loads
from disol.surrogate.engines import Engine

Fields = Float[Tensor, "case frame field height width"]
Shapes = Float[Tensor, "case shape frame field height width"]


def is_sized_by_its_system(problem: Problem) -> bool:
    """Tell whether the sizes of patterns can be found by projection, and are accurate.

    Those of displacements would be several per cent too small, because A measures errors in strains, which are larger.
    A transient problem must take one time step per frame, since networks know no other times.
    """
    first = problem.frames(problem.times[:1])
    return len(problem.fields) == 1 and (first.steps is None or first.steps[first.asked[0]] == 1)


@torch.inference_mode()
def predict(engine: Engine, case: Case, normalisation: Normalisation) -> Solution:
    """Predict a checked case; of a batch, as many cases at a time as the device has room for."""
    if not is_sized_by_its_system(case.problem):
        raise DisolError(
            f"The size of {case.problem} is known accurately from its solution only. Use verify, which finds both, or "
            "disol.solve_exact."
        )
    with naming_the_case(case, lambda own: own.inputs):
        most = cases_at_once(case, engine.device) if case.is_batch else 1
        pieces = (predict_fields(engine, piece, normalisation) for piece in case.pieces(most))
        named = ({"field": field, "amplitude": amplitude} for field, amplitude in pieces)
        found = gather(len(case) if case.is_batch else 1, named)
    field = found["field"] if case.times is not None else found["field"][:, 0]
    if case.is_batch:
        return Solution(case, field, found["amplitude"], None, str(engine.device))
    amplitude = found["amplitude"][0]
    return Solution(case, field[0], amplitude if amplitude.ndim else float(amplitude), None, str(engine.device))


def predict_fields(
    engine: Engine, case: Case, normalisation: Normalisation
) -> tuple[Fields, Float[Tensor, "case *component"]]:
    """Predict cases that fit the device together: their frames, and max |U| over these and the initial field."""
    placed = case.on(engine.device) if case.is_batch else case
    system = placed.system() if case.is_batch else System.stack([placed.system()])
    times = None if case.times is None else sorted({case.problem.times[0], *(time for time in case.times if time > 0)})
    shapes = predict_shapes(engine, placed, normalisation, times)
    sizes = projected_sizes(system, shapes[:, :, 0], case.problem.symmetriser(case.grid))
    frames = torch.einsum("cs,cs...->c...", sizes, shapes)
    domain = on_device(system.mask, engine.device)
    if times is None or case.times is None:
        return frames, normalisation.amplitude(frames, domain)
    initial = pixel_means(on_device(system.initial, engine.device)) * domain[:, None]
    frames = torch.cat([initial[:, None], frames], dim=1)
    asked = [[0, *times].index(time) for time in case.times]
    return frames[:, asked], normalisation.amplitude(frames, domain)


def predict_shapes(engine: Engine, case: Case, normalisation: Normalisation, times: list[float] | None) -> Shapes:
    """Run a network on the load components of each case, at some times: fields without their sizes.

    Where the normalisation scales field components separately, each is a shape of its own. A case without a load, or
    with fewer load components than others of its batch, has shapes that are 0.
    """
    components, num_cases = split_loads(case, engine.device), len(case) if case.is_batch else 1
    if not len(components.owner):
        shape = (num_cases, 1, len(times or (0,)), len(case.problem.fields), *case.grid.pixels)
        return torch.zeros(shape, dtype=torch.float64, device=engine.device)
    inputs = case.problem.frame_inputs(components.inputs, times)
    patterns = engine(inputs.flatten(0, 1)).double()
    domain = inputs[..., 0, :, :].flatten(0, 1) > 0
    centred = normalisation.centred(patterns, domain).unflatten(0, inputs.shape[:2])
    shapes = components.by_case(centred, num_cases)
    if normalisation.per_component:
        alone = torch.eye(shapes.shape[3], dtype=shapes.dtype, device=shapes.device)
        shapes = (shapes[:, :, None] * alone[:, None, :, None, None]).flatten(1, 2)
    return shapes


def projected_sizes(
    system: System,
    shapes: Float[Tensor, "case shape field height width"],
    weight: Float[np.ndarray, "rows columns"],
    smoothings: int = 2,
) -> Float[Tensor, "case shape"]:
    """Return c with Σₜ (wₛ · A pₜ) cₜ = wₛ · b for the patterns p of each case.

    weight       ρ at the nodes
    smoothings   of the test functions, from nodes to pixels and back; more than two gain nothing
    """
    device = shapes.device
    operator, load = from_system(system, device)
    if system.mass_matrix is not None:
        mass = operator.with_matrix(torch.as_tensor(system.mass_matrix, device=device))
        load = load + mass.apply(on_device(system.initial, device))
    domain = operator.mask[:, None, None].expand(shapes.shape)
    free = operator.free[:, None]
    means = node_means(shapes, domain) * free
    test = means
    for _ in range(smoothings):
        test = node_means(pixel_means(test), domain) * free
    # Averaging from pixels to nodes smooths: add back what the pixel means of the nodes miss of the pattern.
    trial = means + node_means(shapes - pixel_means(means), domain) * free
    test = test * torch.from_numpy(weight).to(device)
    image = operator.apply(trial.movedim(1, -1))
    projected = torch.einsum("cs...,c...->cs", test, load)
    products = torch.einsum("cs...,c...t->cst", test, image)
    if shapes.shape[1] == 1:
        return torch.where(products[:, 0] == 0, 0.0, projected / products[:, 0])
    return (torch.linalg.pinv(products) @ projected[..., None])[..., 0]
