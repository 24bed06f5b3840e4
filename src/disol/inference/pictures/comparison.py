"""How far a predicted solution is from the exact one."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float

from disol.evaluation.metrics import relative_l2
from disol.inference.solution import Solution
from disol.problems import Exact

Fields = Float[np.ndarray, "*time field height width"]


@dataclass(frozen=True)
class Comparison:
    """Relative errors of one case.

    field       ‖Û − U‖ / ‖U‖ of physical values, over the domain, all components and all times
    pattern     the same of the patterns
    amplitude   |Û_lim / U_lim − 1|, the largest where components have their own
    frames      the error of the field at each time; one number where there is no time
    """

    field: float
    pattern: float
    amplitude: float
    frames: tuple[float, ...]

    def __str__(self) -> str:
        """Write the errors in per cent."""
        return (
            f"relative L2 error {percent(self.field)} (pattern {percent(self.pattern)}, "
            f"amplitude {percent(self.amplitude)})"
        )


def compare(solution: Solution, exact: Exact) -> Comparison:
    """Measure the errors of one predicted case."""
    require_one_case(solution)
    if solution.field.shape != exact.field.shape or solution.times != exact.times:
        raise ValueError(
            f"A solution is compared with the exact one on the same grid at the same times, got {solution.field.shape} "
            f"and {exact.field.shape}, times {solution.times} and {exact.times}. Solve the same case exactly."
        )
    others = int((solution.domain != exact.domain).sum())
    if solution.problem != exact.problem or others:
        raise ValueError(
            f"A solution is compared with the exact one of its own case, got {solution.problem} and {exact.problem} "
            f"on domains that differ in {others} pixels. Solve the same case exactly."
        )
    frames = [
        field_error(predicted, known, exact.domain)
        for predicted, known in zip(by_frame(solution.field), by_frame(exact.field), strict=True)
    ]
    return Comparison(
        field_error(solution.field, exact.field, exact.domain),
        field_error(solution.pattern, exact.pattern, exact.domain),
        amplitude_error(np.atleast_1d(solution.amplitude), np.atleast_1d(exact.amplitude)),
        tuple(frames),
    )


def require_one_case(solution: Solution) -> None:
    """Refuse a batch."""
    if solution.is_batch:
        raise ValueError(f"One case is shown at a time, got a batch of {len(solution)}. Pass solution[0] or another.")


def by_frame(field: Fields) -> Float[np.ndarray, "time field height width"]:
    """Return a field with a time axis, of length 1 where there is no time."""
    return field.reshape(-1, *field.shape[-3:])


def field_error(prediction: Fields, exact: Fields, domain: Bool[np.ndarray, "height width"]) -> float:
    """Return the relative L2 error of all components and times together."""
    unit = float(np.abs(exact).max()) or 1.0  # squares of very small or large values are no numbers any more
    predicted, known = (
        torch.from_numpy(field.reshape(1, -1, *field.shape[-2:]).astype(float) / unit) for field in (prediction, exact)
    )
    return float(relative_l2(predicted, known, torch.from_numpy(domain)[None, None]))


def amplitude_error(prediction: Float[np.ndarray, " scale"], exact: Float[np.ndarray, " scale"]) -> float:
    """Return the largest |û / u − 1|; a zero amplitude is met by 0 and missed entirely by anything else."""
    known = exact > 0
    ratios = prediction / np.where(known, exact, 1.0)
    return float(np.abs(np.where(known, ratios - 1, prediction != 0)).max())


def percent(error: float) -> str:
    """Write an error with two digits that count."""
    value = 100 * error
    return f"{value:.{0 if value >= 10 else 1}f} %" if value >= 1 else f"{value:.2g} %"
