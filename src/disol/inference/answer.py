"""From checked cases to physical fields: solve each, and find the multiple of a prediction that is nearest to that.

A load that is cut into parts has a prediction for each of them, and the field is the nearest sum of their multiples.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import chain

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32, Shaped
from torch import Tensor

from disol.evaluation.metrics import ratio
from disol.fem import ELEMENTS, forms
from disol.inference import truth
from disol.inference.block import Block
from disol.inference.discretise import DiscreteParts, discretise
from disol.inference.request import Request
from disol.problems import Posed
from disol.problems.heat import TRAINED_UNTIL, HeatProblem
from disol.problems.problem import component_pattern
from disol.solvers.memory import USABLE, cases_at_once, free_bytes_of_host
from disol.solvers.operator import trailing

Predict = Callable[[Float32[np.ndarray, "batch channel height width"]], Float32[np.ndarray, "batch ..."]]
Frames = Float[np.ndarray, "case *time field height width"]
Fields = Float[Tensor, "case *time field height width"]
DEVICE_NAME = "<U16"
COPIES = 8  # of all frames, on the device and on the host: channels, what becomes of predictions, solutions


@dataclass(frozen=True, eq=False)
class Answer:
    """What is found for each case, as in `Solution`."""

    pattern: Frames
    amplitude: Float[np.ndarray, "case *field"]
    field: Frames
    exact: Frames
    error: Float[np.ndarray, " case"]
    solved_on: Shaped[np.ndarray, " case"]

    def between(self, start: int, stop: int) -> "Answer":
        """Return the arrays of some cases, to be written to."""
        return Answer(*(getattr(self, part.name)[start:stop] for part in fields(Answer)))


@dataclass(frozen=True, eq=False)
class Found:
    """What was found for some cases, on the device, before it is scaled as `DiscreteParts` says: of a size near 1.

    field       the predictions that are asked for, in their sizes
    solved      the solutions themselves
    amplitude   max |U| of these; of a transient problem over the trained times
    """

    field: Fields
    solved: Fields
    amplitude: Float[Tensor, "case *field"]


@torch.inference_mode()
def answer(request: Request, predict: Predict, device: torch.device, separate_fields: bool) -> Answer:
    """Solve the cases of a request.

    separate_fields   patterns are ½ + ½ U_c / max |U_c| instead of U / max |U|
    """
    answers, done = zero_answer(request.blocks, separate_fields), 0
    for blocks in chunks(request.blocks, device):
        num_cases = sum(map(len, blocks))
        if any(len(block.parts) for block in blocks):
            answer_at_once(blocks, predict, device, answers.between(done, done + num_cases))
        done += num_cases
    return answers


def zero_answer(blocks: list[Block], separate_fields: bool) -> Answer:
    """Answer as if no case had a load."""
    posed, num_cases = blocks[0].posed, sum(map(len, blocks))
    times = (len(posed.terms["times"]),) if isinstance(posed.equation, HeatProblem) else ()
    shape = (num_cases, *times, len(posed.equation.fields), *posed.grid.pixels)
    amplitude = np.zeros((num_cases, len(posed.equation.fields)) if separate_fields else num_cases)
    pattern, field, exact = (np.zeros(shape) for _ in range(3))
    return Answer(pattern, amplitude, field, exact, np.zeros(num_cases), np.full(num_cases, "cpu", DEVICE_NAME))


def answer_at_once(blocks: list[Block], predict: Predict, device: torch.device, answers: Answer) -> None:
    """Solve cases that fit the device, and write their answers into place."""
    posed, parts = blocks[0].posed, discretise(blocks, device)
    if isinstance(posed.equation, HeatProblem):
        found = evolve(posed, posed.equation, parts, predict)
    else:
        found = respond(parts, predict, separate_fields=answers.amplitude.ndim > 1)
    write(answers.field, trailing(parts.scale, found.field) * found.field)
    write(answers.exact, trailing(parts.scale, found.solved) * found.solved)
    write(answers.amplitude, trailing(parts.scale.abs(), found.amplitude) * found.amplitude)
    write(answers.error, errors_of(found.field, found.solved))
    domain = np.concatenate([block.domain for block in blocks])
    answers.solved_on[:] = str(truth.device_for(parts.operator, stepped=isinstance(posed.equation, HeatProblem)))
    answers.pattern[:] = normalised(answers.field, answers.amplitude, domain)


def write(array: Float[np.ndarray, "*shape"], values: Float[Tensor, "*shape"]) -> None:
    """Copy values from a device into an array."""
    torch.from_numpy(array).copy_(values)


def chunks(blocks: list[Block], device: torch.device) -> Iterator[list[Block]]:
    """Gather as many blocks as have parts that fit the device, and the host with what is kept of them."""
    at_once = parts_at_once(blocks[0].posed, device)
    pending: list[Block] = []
    num_parts = 0
    for block in chain.from_iterable(block.pieces(at_once) for block in blocks):
        if pending and num_parts + len(block.parts) > at_once:
            yield pending
            pending, num_parts = [], 0
        pending.append(block)
        num_parts += len(block.parts)
    yield pending


def parts_at_once(case: Posed, device: torch.device) -> int:
    """Return how many parts to solve in one go; the solver itself cuts them further where its factors do not fit."""
    nodes = (case.grid.height + 1) * (case.grid.width + 1)
    frames = len(case.equation.needed_steps(case.terms["times"])) if isinstance(case.equation, HeatProblem) else 1
    needed = COPIES * 8 * nodes * len(case.equation.fields) * frames
    return max(1, min(cases_at_once(needed, device), int(USABLE * free_bytes_of_host()) // needed))


def respond(parts: DiscreteParts, predict: Predict, separate_fields: bool) -> Found:
    """Predict the fields of steady parts."""
    predicted = torch.from_numpy(predict(parts.channels)).to(parts.loads)
    # Patterns ½ + ½ U_c / max |U_c| are mapped back to U_c / max |U_c|.
    shapes = (2 * predicted - 1) * parts.operator.mask[:, None] if separate_fields else predicted
    solved = parts.add_up(truth.solve(parts.operator, parts.loads))
    sized = shapes if separate_fields else shapes[:, None]  # what has a size of its own: each field, or all together
    field = nearest(parts.by_case(sized), solved.reshape(len(solved), *sized.shape[1:]))
    return Found(field.reshape(solved.shape), solved, sizes(solved, separate_fields))


def evolve(case: Posed, equation: HeatProblem, parts: DiscreteParts, predict: Predict) -> Found:
    """Predict the frames of transient parts that are asked for, each in the size that is nearest to what is solved.

    The initial field is known, so it is never predicted.
    """
    assert parts.initial is not None
    times = case.terms["times"]
    asked, steps = equation.step_numbers(times), equation.needed_steps(times)
    mass = torch.from_numpy(forms.mass(ELEMENTS["q1"](case.grid.h))).to(parts.loads)
    solved = parts.add_up(truth.step(parts.operator, mass, parts.loads, parts.initial, steps))
    amplitude = sizes(solved[:, : equation.trained_steps + 1], separate_fields=False)
    known = solved[:, [steps.index(step) for step in asked]]
    field, moving = known.clone(), [place for place, step in enumerate(asked) if step > 0]
    if moving:
        inputs = frames_of(equation, parts.channels, [asked[place] for place in moving])
        shapes = torch.from_numpy(predict(inputs)).to(known)
        framed = shapes.reshape(-1, len(moving), *shapes.shape[1:])
        field[:, moving] = nearest(parts.by_case(framed), known[:, moving])
    return Found(field, known, amplitude)


def frames_of(
    equation: HeatProblem, channels: Float32[np.ndarray, "part channel height width"], steps: Sequence[int]
) -> Float32[np.ndarray, "frame channel height width"]:
    """Stack the channels of each part at each step."""
    inputs = np.repeat(channels[:, None], len(steps), axis=1)
    shares = equation.step * np.array(steps) / TRAINED_UNTIL
    equation.channels.select(inputs, "time")[:] = shares[:, None, None]
    return inputs.reshape(-1, *channels.shape[1:])


def nearest(
    shapes: Float[Tensor, "case part size *pixels"], solved: Float[Tensor, "case size *pixels"]
) -> Float[Tensor, "case size *pixels"]:
    """Return the sum of multiples of the shapes of each case that is nearest to its solution in L2.

    Scaling it to the amplitude instead would spread the error of its one largest pixel over all of them, and scaling
    every part to its own solution would not make up for the errors of one by the other.
    """
    directions, target = shapes.flatten(3), solved.flatten(2)
    overlap = torch.einsum("csgp,cgp->cgs", directions, target)
    products = torch.einsum("csgp,ctgp->cgst", directions, directions)
    if shapes.shape[1] == 1:
        factors = overlap / torch.where(products[..., 0] > 0, products[..., 0], 1.0)
    else:
        factors = (torch.linalg.pinv(products, hermitian=True) @ overlap[..., None])[..., 0]
    return torch.einsum("cgs,csgp->cgp", factors, directions).reshape(solved.shape)


def sizes(values: Fields, separate_fields: bool) -> Float[Tensor, "case *field"]:
    """Return max |U| of each case, or of each of its fields."""
    return values.abs().amax(dim=pixel_axes(values, separate_fields))


def pixel_axes(values: Fields, separate_fields: bool) -> tuple[int, ...]:
    """Return the axes that one size is for."""
    return (2, 3) if separate_fields else tuple(range(1, values.ndim))


def errors_of(field: Fields, solved: Fields) -> Float[Tensor, " case"]:
    """Return how far predictions are from solutions, all times and fields of a case together.

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
