"""Errors of predictions, one number for each case, in float64.

All but `grid_mae` are taken over the domain of the case alone. `grid_mae` counts every pixel of the grid, as the
paper's tables do; where prediction and reference are 0 outside the domain, as those of networks and of files are, it is
the coverage times `mean_absolute_error`. A vector field counts as one long vector: components weigh the same.
"""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

Fields = Float[Tensor, "case field height width"]
Domain = Bool[Tensor, "case 1 height width"]
PerCase = Float[Tensor, " case"]


def relative_l2(prediction: Fields, reference: Fields, domain: Domain) -> PerCase:
    """‖û − u‖₂ / ‖u‖₂ over the domain; where u = 0 it is 0 for û = 0 and 1 for any other û."""
    error, size = (on_domain(field, domain).norm(dim=1) for field in (difference(prediction, reference), reference))
    return ratio(error, size)


def relative_l1(prediction: Fields, reference: Fields, domain: Domain) -> PerCase:
    """‖û − u‖₁ / ‖u‖₁ over the domain; where u = 0 it is 0 for û = 0 and 1 for any other û."""
    error, size = (on_domain(field, domain).abs().sum(1) for field in (difference(prediction, reference), reference))
    return ratio(error, size)


def mean_absolute_error(prediction: Fields, reference: Fields, domain: Domain) -> PerCase:
    """Σ |û − u| / (pixels of the domain × components); 0 for an empty domain."""
    error = on_domain(difference(prediction, reference), domain).abs().sum(1)
    return error / (domain.sum((1, 2, 3)) * prediction.shape[1]).clamp(min=1)


def max_error(prediction: Fields, reference: Fields, domain: Domain) -> PerCase:
    """Largest |û − u| over the pixels of the domain and the components."""
    return on_domain(difference(prediction, reference), domain).abs().amax(1)


def grid_mae(prediction: Fields, reference: Fields, domain: Domain) -> PerCase:
    """Σ |û − u| / (pixels of the grid × components), including all pixels outside the domain."""
    del domain  # its pixels count like all others
    return difference(prediction, reference).abs().mean((1, 2, 3))


def coverage(domain: Domain) -> PerCase:
    """Share of the grid that is domain."""
    return domain.double().mean((1, 2, 3))


Metric = Callable[[Fields, Fields, Domain], PerCase]
METRICS: dict[str, Metric] = {
    "rel_l2": relative_l2,
    "rel_l1": relative_l1,
    "mae": mean_absolute_error,
    "max_error": max_error,
    "grid_mae": grid_mae,
}


def measure_patterns(
    prediction: Fields, reference: Fields, domain: Domain, fields: tuple[str, ...]
) -> dict[str, PerCase]:
    """Compute every metric, for all components jointly and, if there are several, for each one: `rel_l2_u_x`."""
    measured = {name: metric(prediction, reference, domain) for name, metric in METRICS.items()}
    if len(fields) > 1:
        for position, field in enumerate(fields):
            part = slice(position, position + 1)
            for name, metric in METRICS.items():
                measured[f"{name}_{field}"] = metric(prediction[:, part], reference[:, part], domain)
    return measured


def measure_amplitudes(log_prediction: PerCase, reference: Float[Tensor, "case *field"]) -> dict[str, PerCase]:
    """Compare predicted ln û_lim with amplitudes u_lim > 0; where components have their own, the largest counts.

    squared_log_error     (ln û_lim − ln u_lim)²
    rel_amplitude_error   |û_lim / u_lim − 1|
    """
    log_amplitude = reference.double().reshape(len(reference), -1).amax(1).log()
    error = log_prediction.double() - log_amplitude
    return {
        "log_amplitude": log_amplitude,
        "predicted_log_amplitude": log_prediction.double(),
        "squared_log_error": error.square(),
        "rel_amplitude_error": error.expm1().abs(),
    }


def difference(prediction: Fields, reference: Fields) -> Fields:
    """û − u, subtracted in float64."""
    return prediction.double() - reference.double()


def on_domain(field: Fields, domain: Domain) -> Float[Tensor, "case value"]:
    """Return the values of each case as one row, with 0 outside its domain."""
    return torch.where(domain, field.double(), 0.0).flatten(1)


def ratio(error: PerCase, size: PerCase) -> PerCase:
    """Divide; where the size is 0, return 0 for no error and 1 for any. NaN propagates."""
    return torch.where(size == 0, torch.where(error == 0, error, error / error), error / size)
