"""Training losses, one value per case."""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from disol.data.dataset import Batch

Pattern = Float[Tensor, "batch field height width"]
PerCase = Float[Tensor, " batch"]
CaseLoss = Callable[[Tensor, Batch], PerCase]
SLOPES_WEIGHT = 0.5  # relative errors of slopes are several times those of values
# Root mean square over the domain that a pattern counts with at least. Heat without a source decays to nothing: shares
# of that have no bound, and a case in twenty then makes up the gradient of its whole batch.
LEAST_SIZE = 0.02
_SMALLEST = 1e-12  # keeps the norm of an empty field from dividing, and its amplitude from having no logarithm


def grid_l1(prediction: Pattern, batch: Batch) -> PerCase:
    """Mean of |û − u| over the whole grid, zeros outside the domain included: the paper's number."""
    return (prediction - batch["target"]).abs().mean((1, 2, 3))


def relative_l1(prediction: Pattern, batch: Batch) -> PerCase:
    """Return ‖û − u‖₁ / ‖u‖₁; both vanish outside the domain."""
    error, size = (prediction - batch["target"]).abs().sum((1, 2, 3)), batch["target"].abs().sum((1, 2, 3))
    return error / torch.maximum(size, LEAST_SIZE * _num_values(batch)).clamp(min=_SMALLEST)


def relative_l2(prediction: Pattern, batch: Batch) -> PerCase:
    """Return ‖û − u‖₂ / ‖u‖₂; both vanish outside the domain."""
    return _ratio((prediction - batch["target"]).square().sum((1, 2, 3)), _squared_size(batch))


def relative_h1(prediction: Pattern, batch: Batch) -> PerCase:
    """Return ‖û − u‖₂ / ‖u‖₂ + ½ ‖∇û − ∇u‖₂ / ‖∇u‖₂: where flow is wrong counts, not only where values are.

    Slopes are those between neighbouring pixels of the domain; a pattern may jump to the zeros around it. One that is
    all but constant counts as if it fell to zero once across the grid: small errors are no large share of its slopes.
    """
    domain, target = batch["domain"], batch["target"]
    falling = _squared_size(batch) / max(target.shape[2:]) ** 2
    size = torch.maximum(squared_slopes(target, domain), falling)
    slopes = _ratio(squared_slopes(prediction - target, domain), size)
    return relative_l2(prediction, batch) + SLOPES_WEIGHT * slopes


def squared_slopes(pattern: Pattern, domain: Bool[Tensor, "batch 1 height width"]) -> PerCase:
    """Sum the squared differences of neighbours in the domain."""
    across = pattern.diff(dim=3) * (domain[..., 1:] & domain[..., :-1])
    down = pattern.diff(dim=2) * (domain[..., 1:, :] & domain[..., :-1, :])
    return across.square().sum((1, 2, 3)) + down.square().sum((1, 2, 3))


def log_amplitude_error(prediction: Float[Tensor, " batch"], batch: Batch) -> PerCase:
    """Return (a − ln u_lim)², u_lim the largest amplitude of any field."""
    largest = batch["amplitude"].flatten(1).amax(1) if batch["amplitude"].ndim > 1 else batch["amplitude"]
    return (prediction - torch.log(largest.clamp(min=_SMALLEST)).to(prediction.dtype)).square()


LOSSES: dict[str, CaseLoss] = {
    "grid-l1": grid_l1,
    "relative-l1": relative_l1,
    "relative-l2": relative_l2,
    "relative-h1": relative_h1,
}


def training_loss(network: nn.Module, name: str) -> CaseLoss:
    """Return the loss a network is trained by: the one named, for patterns."""
    return LOSSES[name] if getattr(network, "predicts", "pattern") == "pattern" else log_amplitude_error


def validation_loss(network: nn.Module) -> CaseLoss:
    """Return the loss a network is judged by, however it is trained."""
    return training_loss(network, "grid-l1")


def _squared_size(batch: Batch) -> PerCase:
    """Return ‖u‖₂², of a pattern that has all but vanished that of LEAST_SIZE throughout its domain."""
    return torch.maximum(batch["target"].square().sum((1, 2, 3)), LEAST_SIZE**2 * _num_values(batch))


def _num_values(batch: Batch) -> PerCase:
    return (batch["domain"].sum((1, 2, 3)) * batch["target"].shape[1]).to(batch["target"].dtype)


def _ratio(squared_error: PerCase, squared_size: PerCase) -> PerCase:
    """Divide two norms that are given as their squares."""
    # The root of an exact 0 has no finite slope.
    return squared_error.clamp(min=_SMALLEST).sqrt() / squared_size.clamp(min=_SMALLEST).sqrt()
