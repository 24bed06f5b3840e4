"""A prediction beside the exact solution of the same case: how large it is, and how wrong."""

import html
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from disol.evaluation.metrics import ratio
from disol.problems import Case, Solution
from disol.problems.case import naming_the_case
from disol.problems.normalisation import Normalisation
from disol.problems.solution import save_arrays
from disol.problems.solve import cases_at_once, gather, is_worth_a_gpu, solve_here, solve_there
from disol.surrogate.components import split_loads
from disol.surrogate.engines import Engine

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Frames = Float[Tensor, "case frame field height width"]


@dataclass(frozen=True, eq=False, repr=False)
class Verification:
    """What a surrogate predicts for one case, or for a batch, and the solution of the discrete system.

    prediction   in physical units: the multiple of what the network predicts that is nearest to the exact solution, in
                 each frame; of a source that changes sign the nearest sum of two multiples. Its pattern is scaled by
                 the amplitude of the exact solution, its own maximum may differ from that.
    exact        the exact solution
    error        relative L2 distance of the prediction from it; of a transient problem over its times together
    seconds      that the "network" and the "exact" solution took, of a batch for all its cases
    """

    prediction: Solution
    exact: Solution
    error: float | Float[np.ndarray, " case"]
    seconds: dict[str, float]

    @property
    def case(self) -> Case:
        """What was solved."""
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
        return import_module("disol.viz").plot_comparison(self.prediction, self.exact)

    def _repr_html_(self) -> str:
        return f"{import_module('disol.viz').as_html(self.prediction)}<div>{html.escape(repr(self))}</div>"

    def save(self, path: str | Path) -> Path:
        """Write it as `.npz` (its arrays by name) or `.vtu` (prediction, exact solution and error for ParaView)."""
        compared = {
            "exact": self.exact.field,
            "error": np.asarray(self.error),
            "solved_on": np.array(self.exact.device),
        }
        vectors = [f"exact {name}" for name in self.exact.fields]
        return save_arrays(path, self.case, self.prediction.arrays() | compared, self._cell_data, vectors)

    def _cell_data(self) -> dict[str, Float[np.ndarray, "height width"]]:
        predicted, exact = self.prediction.cell_data(), self.exact.cell_data()
        fields = [name for name in exact if name.split(" at ")[0] in self.exact.fields]
        return (
            predicted
            | {f"exact {name}": exact[name] for name in fields}
            | {f"error {name}": np.abs(predicted[name] - exact[name]) for name in fields}
        )


@torch.inference_mode()
def verify(engine: Engine, case: Case, normalisation: Normalisation) -> Verification:
    """Predict and solve a checked case, as many cases of a batch at a time as fit the device."""
    on_gpu = engine.device.type == "cuda" and is_worth_a_gpu(case)
    most = cases_at_once(case, engine.device) if case.is_batch else 1
    seconds = {"exact": 0.0, "network": 0.0}
    with naming_the_case(case, lambda own: own.inputs):
        pieces = (_verify_piece(engine, piece, normalisation, on_gpu, seconds) for piece in case.pieces(most))
        found = gather(len(case) if case.is_batch else 1, pieces)
    if not case.is_batch:
        found = {name: values[0] for name, values in found.items()}
    amplitude, error, rounding_error = (
        found[name] if found[name].ndim else float(found[name]) for name in ("amplitude", "error", "rounding_error")
    )
    prediction = Solution(case, found["prediction"], amplitude, None, str(engine.device))
    solved_on = str(engine.device) if on_gpu else "cpu"
    exact = Solution(case, found["exact"], amplitude, found["nodes"], solved_on, rounding_error)
    return Verification(prediction, exact, error, seconds)


def _verify_piece(
    engine: Engine, case: Case, normalisation: Normalisation, on_gpu: bool, seconds: dict[str, float]
) -> dict[str, Float[Tensor, "case ..."]]:
    """Verify cases that fit the device together, and add the time that takes."""
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
    # Squares of very small or large values are no numbers any more.
    reference = exact[:, None] if case.times is None else exact
    size = reference.abs().amax(dim=(1, 2, 3, 4), keepdim=True)
    unit = reference / torch.where(size > 0, size, 1.0)
    predicted = _predict(engine, placed, unit, normalisation)
    error = ratio(_norm(predicted - unit), _norm(unit))
    _wait(engine)
    seconds["network"] += time.perf_counter() - done
    prediction = (predicted * size).reshape(exact.shape)
    found = {"prediction": prediction, "exact": exact, "amplitude": amplitude, "nodes": nodes, "error": error}
    return {**found, "rounding_error": rounding_error}


def _predict(engine: Engine, case: Case, reference: Frames, normalisation: Normalisation) -> Frames:
    """Return the multiples of what a network predicts that are nearest to the reference; what is known stays."""
    components = split_loads(case, engine.device)
    if not len(components.owner):
        return torch.zeros_like(reference)
    frames = case.problem.frames(case.times)
    # The first frame of a transient problem is its initial field.
    moving = [place for place, step in enumerate(frames.asked) if frames.steps is None or frames.steps[step] > 0]
    field = reference.clone()
    if moving:
        times = None if case.times is None else [case.times[place] for place in moving]
        inputs = case.problem.frame_inputs(components.inputs, times)
        patterns = engine(inputs.flatten(0, 1)).to(reference)
        domain = inputs[..., 0, :, :].flatten(0, 1) > 0
        shapes = normalisation.centred(patterns, domain).unflatten(0, inputs.shape[:2])
        # What has a size of its own: each frame and, where components are scaled separately, each component.
        own = shapes.flatten(1, 2)[:, :, None] if normalisation.per_component else shapes
        target = reference[:, moving]
        sized = target.flatten(1, 2)[:, :, None] if normalisation.per_component else target
        field[:, moving] = _nearest(components.by_case(own, len(reference)), sized).reshape(target.shape)
    return field


def _nearest(
    shapes: Float[Tensor, "case component size *pixels"], reference: Float[Tensor, "case size *pixels"]
) -> Float[Tensor, "case size *pixels"]:
    """Return the sum of multiples of the shapes of each case that is nearest to the reference in L2.

    Scaling it to the amplitude instead would spread the error of its one largest pixel over all of them, and scaling
    every component to its own solution would not make up for the errors of one by the other.
    """
    directions, target = shapes.flatten(3), reference.flatten(2)
    overlap = torch.einsum("csgp,cgp->cgs", directions, target)
    products = torch.einsum("csgp,ctgp->cgst", directions, directions)
    if shapes.shape[1] == 1:
        factors = overlap / torch.where(products[..., 0] > 0, products[..., 0], 1.0)
    else:
        factors = (torch.linalg.pinv(products, hermitian=True) @ overlap[..., None])[..., 0]
    return torch.einsum("cgs,csgp->cgp", factors, directions).reshape(reference.shape)


def _norm(fields: Frames) -> Float[Tensor, " case"]:
    return torch.linalg.vector_norm(fields.flatten(1), dim=1)


def _wait(engine: Engine) -> None:
    """Let a GPU finish, so that times are those of what was timed."""
    if engine.device.type == "cuda":
        torch.cuda.synchronize(engine.device)
