"""From checked cases to physical fields: predict a pattern for every part of a load, find its size, add them up."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import islice

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32
from torch import Tensor

from disol.evaluation.metrics import relative_l2
from disol.fem import ELEMENTS, Element, forms
from disol.grid import pixel_means
from disol.inference.amplitude import MOST_STEPS, solve_from_pattern, step_on
from disol.inference.parts import Part
from disol.inference.request import Request
from disol.problems import Posed
from disol.problems.heat import TRAINED_UNTIL, HeatProblem
from disol.problems.problem import component_pattern
from disol.solvers import DiscreteOperator, from_systems
from disol.solvers.memory import USABLE, cases_at_once, free_bytes_of_host

Predict = Callable[[Float32[np.ndarray, "batch channel height width"]], Float32[np.ndarray, "batch ..."]]
Frames = Float[np.ndarray, "case *time field height width"]
STENCILS = 4  # of the finest grid, in memory: a multigrid hierarchy and what it is made from
FIELDS = 2 * (MOST_STEPS + 2)  # besides: directions and their images
COPIES = 4  # of all frames, on the host: as they are stepped, stacked, weighed, and added up


@dataclass(frozen=True, eq=False)
class Answer:
    """Pattern, amplitude, field and estimated error of each case, as in `Solution`."""

    pattern: Frames
    amplitude: Float[np.ndarray, "case *field"]
    field: Frames
    estimated_error: Float[np.ndarray, " case"]


@dataclass(frozen=True, eq=False)
class Found:
    """What became of some parts of a load.

    field     the predictions that are asked for, in their sizes
    solved    these, corrected by multigrid
    spanned   the corrected fields that the amplitude is taken over: of a transient problem those of the trained times
    """

    field: Frames
    solved: Frames
    spanned: Float[np.ndarray, "case *step field height width"]


@torch.inference_mode()
def answer(request: Request, predict: Predict, device: torch.device, separate_fields: bool) -> Answer:
    """Solve the cases of a request.

    separate_fields   patterns are ½ + ½ U_c / max |U_c| instead of U / max |U|
    """
    answers = [answer_at_once(some, predict, device, separate_fields) for some in chunks(request, device)]
    return Answer(*(np.concatenate([getattr(each, part.name) for each in answers]) for part in fields(Answer)))


def answer_at_once(request: Request, predict: Predict, device: torch.device, separate_fields: bool) -> Answer:
    """Solve cases that fit the device."""
    first = request.cases[0]
    parts = [part for own in request.parts for part in own]
    if not parts:
        return zero_answer(request, separate_fields)
    if isinstance(first.equation, HeatProblem):
        found = evolve(first, first.equation, parts, predict, device)
    else:
        found = respond(first, parts, predict, device, separate_fields)
    field, solved, spanned = (add_up(request, each) for each in (found.field, found.solved, found.spanned))
    amplitude = sizes(spanned, separate_fields)
    domain = np.stack([case.terms["domain"] for case in request.cases])
    errors = estimate_errors(field, solved, domain)
    return Answer(normalised(field, amplitude, domain), amplitude, field, errors)


def zero_answer(request: Request, separate_fields: bool) -> Answer:
    """Answer cases without any load."""
    first = request.cases[0]
    times = (len(first.terms["times"]),) if isinstance(first.equation, HeatProblem) else ()
    field = np.zeros((len(request.cases), *times, len(first.equation.fields), *first.grid.pixels))
    return Answer(field, sizes(field, separate_fields), field, np.zeros(len(field)))


def add_up(request: Request, values: Float[np.ndarray, "part *shape"]) -> Float[np.ndarray, "case *shape"]:
    """Σ weight × value over the parts of each case."""
    total, remaining = np.zeros((len(request.cases), *values.shape[1:])), iter(values)
    for number, parts in enumerate(request.parts):
        for part in parts:
            total[number] += part.weight * next(remaining)
    return total


def chunks(request: Request, device: torch.device) -> Iterator[Request]:
    """Cut the cases into lists whose parts fit the device, and what is kept of them the host."""
    at_once = parts_at_once(request.cases[0], device)
    start, num_parts = 0, 0
    for number, parts in enumerate(request.parts):
        if number > start and num_parts + len(parts) > at_once:
            yield request[start:number]
            start, num_parts = number, 0
        num_parts += len(parts)
    yield request[start:]


def parts_at_once(case: Posed, device: torch.device) -> int:
    """Return how many parts to solve in one go."""
    num_fields = len(case.equation.fields)
    nodes = (case.grid.height + 1) * (case.grid.width + 1)
    on_device = cases_at_once(8 * nodes * num_fields * (STENCILS * 9 * num_fields + FIELDS), device)
    frames = steps_of(case.equation, case) if isinstance(case.equation, HeatProblem) else 1
    return max(1, min(on_device, int(USABLE * free_bytes_of_host()) // (COPIES * 8 * nodes * num_fields * frames)))


def respond(case: Posed, parts: list[Part], predict: Predict, device: torch.device, separate_fields: bool) -> Found:
    """Predict the fields of steady parts."""
    predicted = predict(np.stack([case.equation.encode(part.terms, case.rules) for part in parts]))
    shapes = signed(predicted, parts) if separate_fields else predicted.astype(float)
    operator, loads = systems_of(case, parts, device)
    pattern = torch.from_numpy(shapes).to(loads)
    solved = solve_from_pattern(operator, loads, pattern, separate_fields).cpu().numpy()
    return Found(nearest(shapes, solved, separate_fields), solved, solved)


def evolve(case: Posed, equation: HeatProblem, parts: list[Part], predict: Predict, device: torch.device) -> Found:
    """Predict the frames of transient parts that are asked for, each in the size that is nearest to what is solved.

    The initial field is known, so it is never predicted.
    """
    asked = equation.step_numbers(case.terms["times"])
    num_steps = steps_of(equation, case)
    operator, loads = systems_of(case, parts, device)
    initial = np.stack([equation.initial_nodes(part.terms) for part in parts])
    mass = operator.with_matrix(torch.from_numpy(forms.mass(element_of(case))))
    steps = step_on(operator, mass, loads, torch.from_numpy(initial).to(loads))
    stepped = [fields.cpu().numpy() for fields in islice(steps, num_steps)]
    solved = np.stack([pixel_means(initial) * case_masks(parts), *stepped], axis=1)
    field, moving = solved[:, asked], [step for step in asked if step > 0]
    if moving:
        shapes = predict(frames_of(case, equation, parts, moving)).astype(float)
        sized = nearest(shapes, solved[:, moving].reshape(shapes.shape), separate_fields=False)
        field[:, np.array(asked) > 0] = sized.reshape(len(parts), len(moving), *shapes.shape[1:])
    return Found(field, solved[:, asked], solved[:, : equation.trained_steps + 1])


def steps_of(equation: HeatProblem, case: Posed) -> int:
    """Return how many steps to take: to the last time asked for, and through those that the amplitude is taken over."""
    return max(equation.trained_steps, *equation.step_numbers(case.terms["times"]))


def frames_of(
    case: Posed, equation: HeatProblem, parts: list[Part], steps: Sequence[int]
) -> Float32[np.ndarray, "frame channel height width"]:
    """Stack the channels of each part at each step."""
    encoded = np.stack([equation.encode(part.terms, case.rules) for part in parts])
    inputs = np.repeat(encoded[:, None], len(steps), axis=1)
    shares = equation.step * np.array(steps) / TRAINED_UNTIL
    equation.channels.select(inputs, "time")[:] = shares[:, None, None]
    return inputs.reshape(-1, *encoded.shape[1:])


def systems_of(case: Posed, parts: list[Part], device: torch.device) -> tuple[DiscreteOperator, Tensor]:
    """Discretise parts."""
    element = element_of(case)
    return from_systems([case.equation.system(part.terms, case.rules, element) for part in parts], device)


def element_of(case: Posed) -> Element:
    """Return the bilinear element of a case's grid, which models are trained with."""
    return ELEMENTS["q1"](case.grid.h)


def case_masks(parts: list[Part]) -> Bool[np.ndarray, "part 1 height width"]:
    """Stack the domains of parts."""
    return np.stack([part.terms["domain"] for part in parts])[:, None]


def signed(pattern: Frames, parts: list[Part]) -> Frames:
    """Map ½ + ½ U_c / max |U_c| back to U_c / max |U_c|."""
    return (2 * pattern.astype(float) - 1) * case_masks(parts)


def nearest(
    shapes: Float[np.ndarray, "frame field height width"],
    solved: Float[np.ndarray, "frame field height width"],
    separate_fields: bool,
) -> Float[np.ndarray, "frame field height width"]:
    """Return the multiple of each shape, or of each of its fields, that is nearest to the solution in L2.

    Scaling it to the amplitude instead would spread the error of its one largest pixel over all of them.
    """
    axes = pixel_axes(shapes, separate_fields)
    overlap, square = (shapes * solved).sum(axis=axes), (shapes * shapes).sum(axis=axes)
    return spread(overlap / np.where(square > 0, square, 1.0), shapes) * shapes


def sizes(fields: Frames, separate_fields: bool) -> Float[np.ndarray, "case *field"]:
    """Return max |U| of each case, or of each of its fields."""
    return np.abs(fields).max(axis=pixel_axes(fields, separate_fields))


def pixel_axes(fields: Frames, separate_fields: bool) -> tuple[int, ...]:
    """Return the axes that one size is for."""
    return (2, 3) if separate_fields else tuple(range(1, fields.ndim))


def estimate_errors(
    field: Frames, solved: Frames, domain: Bool[np.ndarray, "case height width"]
) -> Float[np.ndarray, " case"]:
    """Return how far predictions are from what multigrid made of them, all times and fields of a case together."""
    size = spread(sizes(solved, separate_fields=False), solved)
    unit = np.where(size > 0, size, 1.0)  # squares of very small or large values are no numbers any more
    predicted, known = (
        torch.from_numpy((each / unit).reshape(len(each), -1, *each.shape[-2:])) for each in (field, solved)
    )
    errors: Float[np.ndarray, " case"] = relative_l2(predicted, known, torch.from_numpy(domain)[:, None]).numpy()
    return errors


def spread(size: Float[np.ndarray, "case *field"], like: Frames) -> Float[np.ndarray, "..."]:
    """Give sizes the number of axes of fields."""
    return size.reshape(*size.shape, *[1] * (like.ndim - size.ndim))


def normalised(
    field: Frames, amplitude: Float[np.ndarray, "case *field"], domain: Bool[np.ndarray, "case height width"]
) -> Frames:
    """Scale fields as `problems` does, to U / max |U| or ½ + ½ U_c / max |U_c|; a zero field has a zero pattern."""
    size = spread(amplitude, field)
    if amplitude.ndim > 1:
        return component_pattern(field, size, domain[:, None])
    return field / np.where(size > 0, size, 1.0)
