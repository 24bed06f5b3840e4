"""From checked cases to physical fields: predict a pattern for every part of a load, find its size, add them up."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import chain, islice

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32
from torch import Tensor

from disol.evaluation.metrics import ratio
from disol.fem import ELEMENTS, forms
from disol.inference.amplitude import MOST_STEPS, solve_from_pattern, step_on
from disol.inference.block import Block
from disol.inference.discretise import DiscreteParts, discretise
from disol.inference.request import Request
from disol.problems import Posed
from disol.problems.heat import TRAINED_UNTIL, HeatProblem
from disol.problems.problem import component_pattern
from disol.solvers.loads import pixel_means
from disol.solvers.memory import USABLE, cases_at_once, free_bytes_of_host
from disol.solvers.operator import trailing

Predict = Callable[[Float32[np.ndarray, "batch channel height width"]], Float32[np.ndarray, "batch ..."]]
Frames = Float[np.ndarray, "case *time field height width"]
Fields = Float[Tensor, "case *time field height width"]
STENCILS = 4  # of the finest grid, in memory: a multigrid hierarchy and what it is made from
FIELDS = 2 * (MOST_STEPS + 2)  # besides: directions and their images
COPIES = 6  # of the frames asked for, on the device and on the host: channels and what becomes of predictions


@dataclass(frozen=True, eq=False)
class Answer:
    """Pattern, amplitude, field and estimated error of each case, as in `Solution`."""

    pattern: Frames
    amplitude: Float[np.ndarray, "case *field"]
    field: Frames
    estimated_error: Float[np.ndarray, " case"]


@dataclass(frozen=True, eq=False)
class Found:
    """What was found for some cases, on the device, before it is scaled as `DiscreteParts` says: of a size near 1.

    field       the predictions that are asked for, in their sizes
    solved      these, corrected by multigrid
    amplitude   max |U| of what is corrected; of a transient problem over the trained times
    """

    field: Fields
    solved: Fields
    amplitude: Float[Tensor, "case *field"]


@torch.inference_mode()
def answer(request: Request, predict: Predict, device: torch.device, separate_fields: bool) -> Answer:
    """Solve the cases of a request.

    separate_fields   patterns are ½ + ½ U_c / max |U_c| instead of U / max |U|
    """
    answers = [answer_at_once(some, predict, device, separate_fields) for some in chunks(request, device)]
    if len(answers) == 1:
        return answers[0]
    return Answer(*(np.concatenate([getattr(each, part.name) for each in answers]) for part in fields(Answer)))


def answer_at_once(request: Request, predict: Predict, device: torch.device, separate_fields: bool) -> Answer:
    """Solve cases that fit the device."""
    if not any(len(block.parts) for block in request.blocks):
        return zero_answer(request, separate_fields)
    posed, parts = request.posed, discretise(request.blocks, device)
    if isinstance(posed.equation, HeatProblem):
        found = evolve(posed, posed.equation, parts, predict)
    else:
        found = respond(parts, predict, separate_fields)
    errors = estimate_errors(found.field, found.solved)
    field, amplitude = (
        (trailing(scale, each) * each).cpu().numpy()
        for scale, each in ((parts.scale, found.field), (parts.scale.abs(), found.amplitude))
    )
    return Answer(normalised(field, amplitude, request.domain), amplitude, field, errors.cpu().numpy())


def zero_answer(request: Request, separate_fields: bool) -> Answer:
    """Answer cases without any load."""
    posed, num_cases = request.posed, len(request)
    times = (len(posed.terms["times"]),) if isinstance(posed.equation, HeatProblem) else ()
    field = np.zeros((num_cases, *times, len(posed.equation.fields), *posed.grid.pixels))
    amplitude = np.zeros((num_cases, len(posed.equation.fields)) if separate_fields else num_cases)
    return Answer(field, amplitude, field, np.zeros(num_cases))


def chunks(request: Request, device: torch.device) -> Iterator[Request]:
    """Cut the cases into requests whose parts fit the device, and what is kept of them the host."""
    at_once = parts_at_once(request.posed, device)
    pending: list[Block] = []
    num_parts = 0
    for block in chain.from_iterable(block.pieces(at_once) for block in request.blocks):
        if pending and num_parts + len(block.parts) > at_once:
            yield Request(pending, request.is_batch)
            pending, num_parts = [], 0
        pending.append(block)
        num_parts += len(block.parts)
    yield Request(pending, request.is_batch)


def parts_at_once(case: Posed, device: torch.device) -> int:
    """Return how many parts to solve in one go."""
    num_fields = len(case.equation.fields)
    nodes = (case.grid.height + 1) * (case.grid.width + 1)
    frames = COPIES * (len(case.terms["times"]) if isinstance(case.equation, HeatProblem) else 1)
    on_device = cases_at_once(8 * nodes * num_fields * (STENCILS * 9 * num_fields + FIELDS + frames), device)
    return max(1, min(on_device, int(USABLE * free_bytes_of_host()) // (8 * nodes * num_fields * frames)))


def respond(parts: DiscreteParts, predict: Predict, separate_fields: bool) -> Found:
    """Predict the fields of steady parts."""
    predicted = torch.from_numpy(predict(parts.channels)).to(parts.loads)
    # Patterns ½ + ½ U_c / max |U_c| are mapped back to U_c / max |U_c|.
    shapes = (2 * predicted - 1) * parts.operator.mask[:, None] if separate_fields else predicted
    solved = solve_from_pattern(parts.operator, parts.loads, shapes, separate_fields)
    field, total = parts.add_up(nearest(shapes, solved, separate_fields)), parts.add_up(solved)
    return Found(field, total, sizes(total, separate_fields))


def evolve(case: Posed, equation: HeatProblem, parts: DiscreteParts, predict: Predict) -> Found:
    """Predict the frames of transient parts that are asked for, each in the size that is nearest to what is solved.

    The initial field is known, so it is never predicted.
    """
    asked = equation.step_numbers(case.terms["times"])
    frames: dict[int, Float[Tensor, "part field height width"]] = {}
    amplitude = parts.loads.new_zeros(parts.num_cases)
    for step, solved in enumerate(islice(steps_of(case, parts), max(equation.trained_steps, *asked) + 1)):
        if step <= equation.trained_steps:
            amplitude = torch.maximum(amplitude, sizes(parts.add_up(solved), separate_fields=False))
        if step in asked:
            frames[step] = solved
    known = torch.stack([frames[step] for step in asked], dim=1)
    field, moving = known.clone(), [place for place, step in enumerate(asked) if step > 0]
    if moving:
        inputs = frames_of(equation, parts.channels, [asked[place] for place in moving])
        shapes = torch.from_numpy(predict(inputs)).to(known)
        sized = nearest(shapes, known[:, moving].reshape(shapes.shape), separate_fields=False)
        field[:, moving] = sized.reshape(len(known), len(moving), *shapes.shape[1:])
    return Found(parts.add_up(field), parts.add_up(known), amplitude)


def steps_of(case: Posed, parts: DiscreteParts) -> Iterator[Float[Tensor, "part field height width"]]:
    """Approximate U⁰, U¹, … of every part by pixel, without end."""
    assert parts.initial is not None
    mass = parts.operator.with_matrix(torch.from_numpy(forms.mass(ELEMENTS["q1"](case.grid.h))))
    yield pixel_means(parts.initial) * parts.operator.mask[:, None]
    yield from step_on(parts.operator, mass, parts.loads, parts.initial)


def frames_of(
    equation: HeatProblem, channels: Float32[np.ndarray, "part channel height width"], steps: Sequence[int]
) -> Float32[np.ndarray, "frame channel height width"]:
    """Stack the channels of each part at each step."""
    inputs = np.repeat(channels[:, None], len(steps), axis=1)
    shares = equation.step * np.array(steps) / TRAINED_UNTIL
    equation.channels.select(inputs, "time")[:] = shares[:, None, None]
    return inputs.reshape(-1, *channels.shape[1:])


def nearest(
    shapes: Float[Tensor, "frame field height width"],
    solved: Float[Tensor, "frame field height width"],
    separate_fields: bool,
) -> Float[Tensor, "frame field height width"]:
    """Return the multiple of each shape, or of each of its fields, that is nearest to the solution in L2.

    Scaling it to the amplitude instead would spread the error of its one largest pixel over all of them.
    """
    axes = pixel_axes(shapes, separate_fields)
    overlap, square = ((shapes * other).sum(dim=axes, keepdim=True) for other in (solved, shapes))
    return overlap / torch.where(square > 0, square, 1.0) * shapes


def sizes(values: Fields, separate_fields: bool) -> Float[Tensor, "case *field"]:
    """Return max |U| of each case, or of each of its fields."""
    return values.abs().amax(dim=pixel_axes(values, separate_fields))


def pixel_axes(values: Fields, separate_fields: bool) -> tuple[int, ...]:
    """Return the axes that one size is for."""
    return (2, 3) if separate_fields else tuple(range(1, values.ndim))


def estimate_errors(field: Fields, solved: Fields) -> Float[Tensor, " case"]:
    """Return how far predictions are from what multigrid made of them, all times and fields of a case together.

    Both are 0 outside the domain, and small enough to be squared.
    """
    return ratio(*(torch.linalg.vector_norm(each.flatten(1), dim=1) for each in (field - solved, solved)))


def normalised(
    field: Frames, amplitude: Float[np.ndarray, "case *field"], domain: Bool[np.ndarray, "case height width"]
) -> Frames:
    """Scale fields as `problems` does, to U / max |U| or ½ + ½ U_c / max |U_c|; a zero field has a zero pattern."""
    size = amplitude.reshape(*amplitude.shape, *[1] * (field.ndim - amplitude.ndim))
    if amplitude.ndim > 1:
        return component_pattern(field, size, domain[:, None])
    return field / np.where(size > 0, size, 1.0)
