"""How far a predicted solution is from the exact one, beyond the error that it knows itself."""

import numpy as np
import torch
from jaxtyping import Float

from disol.evaluation.metrics import relative_l2
from disol.inference.solution import Solution


def require_one_case(solution: Solution) -> None:
    """Refuse a batch."""
    if solution.is_batch:
        raise ValueError(f"One case is shown at a time, got a batch of {len(solution)}. Pass solution[0] or another.")


def frame_errors(solution: Solution) -> list[float]:
    """Return ‖Û − U‖ / ‖U‖ at each time of a transient case."""
    unit = float(np.abs(solution.exact).max()) or 1.0  # squares of very small or large values are no numbers any more
    predicted, exact = (torch.from_numpy(field / unit) for field in (solution.field, solution.exact))
    domain = torch.from_numpy(solution.domain).expand(len(exact), 1, -1, -1)
    return relative_l2(predicted, exact, domain).tolist()


def amplitude_error(solution: Solution) -> float:
    """Return |max |Û| / max |U| − 1| over the times shown, the largest where there are several fields.

    A zero field is met by 0 and missed entirely by anything else.
    """
    predicted, exact = largest(solution.field), largest(solution.exact)
    ratios = predicted / np.where(exact > 0, exact, 1.0)
    return float(np.abs(np.where(exact > 0, ratios - 1, predicted != 0)).max())


def largest(field: Float[np.ndarray, "*time field height width"]) -> Float[np.ndarray, " field"]:
    """Return max |U| of each field of one case, over all its times."""
    return np.abs(field).max(axis=(-2, -1)).reshape(-1, field.shape[-3]).max(axis=0)


def percent(error: float) -> str:
    """Write an error with two digits that count."""
    value = 100 * error
    return f"{value:.{0 if value >= 10 else 1}f} %" if value >= 1 else f"{value:.2g} %"
