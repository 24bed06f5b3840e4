"""A prediction beside the exact solution of the same case, and its error."""

import html
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from disol.cases import Case
from disol.cases.case import naming_the_case
from disol.evaluation.metrics import ratio
from disol.problems.normalisation import Normalisation
from disol.solutions import Solution
from disol.solutions.saving import save
from disol.solutions.solve import cases_at_once, gather, is_worth_a_gpu, solve_here, solve_there
from disol.surrogate.engines import Engine
from disol.surrogate.prediction import Fields, is_sized_by_its_system, predict_fields, predict_shapes

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, repr=False)
class Verification:
    """What a surrogate predicts for one case, or for a batch, and the solution of the discrete system.

    prediction   in physical units, as `predict` gives it. Where that cannot size a field, as for displacements: the
                 multiple of what the network predicts that is nearest to the exact solution, with the amplitude of the
                 exact solution
    exact        the exact solution
    error        relative L2 error of the prediction; for a transient problem, over all times together
    seconds      taken by the "network" and by the "exact" solution, for all cases of a batch together
    """

    prediction: Solution
    exact: Solution
    error: float | Float[np.ndarray, " case"]
    seconds: dict[str, float]

    @property
    def case(self) -> Case:
        """The case that was solved."""
        return self.exact.case

    def __len__(self) -> int:
        return len(self.exact)

    def __bool__(self) -> bool:
        """A verification counts as true, as other objects do."""
        return True

    def __getitem__(self, which: int | slice) -> "Verification":
        """Return one case of a batch, or some of them as a batch."""
        exact, error = self.exact[which], np.asarray(self.error)[which]
        return Verification(self.prediction[which], exact, error if exact.is_batch else float(error), self.seconds)

    def __iter__(self) -> Iterator["Verification"]:
        return (self[number] for number in range(len(self)))

    def __repr__(self) -> str:
        errors = np.atleast_1d(self.error)
        shown = (
            f"{errors[0]:.2%}" if len(errors) == 1 else f"{errors.mean():.2%} on average, {errors.max():.2%} at most"
        )
        return f"Verification(relative L2 error {shown}, of {self.case})"

    def plot(self) -> "Figure":
        """Draw what is given, the prediction, the exact solution and the error; the figure belongs to pyplot."""
        return self._draw(managed=True)

    def _draw(self, managed: bool) -> "Figure":
        return import_module("disol.viz").plot_comparison(self.prediction, self.exact, managed=managed)

    def _repr_html_(self) -> str:
        return f"{import_module('disol.viz').as_html(self.prediction)}<div>{html.escape(repr(self))}</div>"

    def at(self, points: Any) -> Float[np.ndarray, "*batch_time field point"]:
        """Evaluate the prediction at points [point, 2] of x and y; NaN outside the domain."""
        return self.prediction.at(points)

    def save(self, path: str | Path) -> Path:
        """Write prediction, exact solution and error as `.npz`, `.vtu` and `.pvd` (for ParaView) or `.png`."""
        compared = {
            "exact": self.exact.field,
            "error": np.asarray(self.error),
            "solved_on": np.array(self.exact.device),
        }
        return save(path, self.prediction, partial(self._draw, managed=False), self.exact, compared)


@torch.inference_mode()
def verify(engine: Engine, case: Case, normalisation: Normalisation) -> Verification:
    """Predict and solve a checked case; of a batch, as many cases at a time as the device has room for."""
    on_gpu = engine.device.type == "cuda" and is_worth_a_gpu(case)
    most = cases_at_once(case, engine.device) if case.is_batch else 1
    seconds = {"exact": 0.0, "network": 0.0}
    with naming_the_case(case, lambda own: own.inputs):
        pieces = (_verify_piece(engine, piece, normalisation, on_gpu, seconds) for piece in case.pieces(most))
        found = gather(len(case) if case.is_batch else 1, pieces)
    if not case.is_batch:
        found = {name: values[0] for name, values in found.items()}
    numbers = ("predicted_amplitude", "amplitude", "error", "rounding_error")
    predicted, amplitude, error, rounding_error = (
        found[name] if found[name].ndim else float(found[name]) for name in numbers
    )
    solved_on = str(engine.device) if on_gpu else "cpu"
    prediction = Solution(case, found["prediction"], predicted, None, str(engine.device))
    exact = Solution(case, found["exact"], amplitude, found["nodes"], solved_on, rounding_error)
    return Verification(prediction, exact, error, seconds)


def _verify_piece(
    engine: Engine, case: Case, normalisation: Normalisation, on_gpu: bool, seconds: dict[str, float]
) -> dict[str, Float[Tensor, "case ..."]]:
    """Verify cases that fit on the device together, and add the time that this takes."""
    started = time.perf_counter()
    placed = case.on(engine.device) if on_gpu and case.is_batch else case
    solved = solve_there(placed, engine.device) if on_gpu else solve_here(placed)
    exact, amplitude, nodes, rounding_error = (
        torch.as_tensor(values, dtype=torch.float64, device=engine.device)[slice(None) if case.is_batch else None]
        for values in (solved.field, solved.amplitude, solved.nodes, solved.rounding_error)
    )
    _wait(engine)
    done = time.perf_counter()
    seconds["exact"] += done - started
    reference = exact[:, None] if case.times is None else exact
    if is_sized_by_its_system(case.problem):
        predicted, predicted_amplitude = predict_fields(engine, placed, normalisation)
    else:
        predicted, predicted_amplitude = _sized_by(reference, engine, placed, normalisation), amplitude
    _wait(engine)
    seconds["network"] += time.perf_counter() - done
    # Squares of very small or large values would under- or overflow.
    size = reference.abs().amax(dim=(1, 2, 3, 4), keepdim=True)
    unit = torch.where(size > 0, size, 1.0)
    error = ratio(_norm((predicted - reference) / unit), _norm(reference / unit))
    return {
        "prediction": predicted.reshape(exact.shape),
        "predicted_amplitude": predicted_amplitude,
        "exact": exact,
        "amplitude": amplitude,
        "nodes": nodes,
        "error": error,
        "rounding_error": rounding_error,
    }


def _sized_by(reference: Fields, engine: Engine, case: Case, normalisation: Normalisation) -> Fields:
    """Return the multiples of what a network predicts that are nearest to the reference, in each frame.

    Of several load components it is the nearest linear combination: sizing each by its own solution would not let their
    errors compensate each other. The initial field is known, and kept.
    """
    frames = case.problem.frames(case.times)
    moving = [place for place, step in enumerate(frames.asked) if frames.steps is None or frames.steps[step] > 0]
    field = reference.clone()
    if not moving:
        return field
    times = None if case.times is None else [case.times[place] for place in moving]
    shapes = predict_shapes(engine, case, normalisation, times)
    target = reference[:, moving]
    size = target.abs().amax(dim=(1, 2, 3, 4), keepdim=True)
    unit = torch.where(size > 0, size, 1.0)
    overlap = torch.einsum("csf...,cf...->cfs", shapes, target / unit)
    products = torch.einsum("csf...,ctf...->cfst", shapes, shapes)
    if shapes.shape[1] == 1:
        factors = overlap / torch.where(products[..., 0] > 0, products[..., 0], 1.0)
    else:
        factors = (torch.linalg.pinv(products, hermitian=True) @ overlap[..., None])[..., 0]
    field[:, moving] = unit * torch.einsum("cfs,csf...->cf...", factors, shapes)
    return field


def _norm(fields: Fields) -> Float[Tensor, " case"]:
    return torch.linalg.vector_norm(fields.flatten(1), dim=1)


def _wait(engine: Engine) -> None:
    """Wait until a GPU has finished, so that times include its work."""
    if engine.device.type == "cuda":
        torch.cuda.synchronize(engine.device)
